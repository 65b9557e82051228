"""From one format to another: what a checkpoint holds, said again in the words of the target.

A tensor goes through the plan's weight map, so that both sides of a conversion mean the same place of the same model;
whatever the target has no word for is carried under our own names, declared as lost, or refused. Runs beside no engine.
"""
