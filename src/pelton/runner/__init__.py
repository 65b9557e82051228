"""The execution plane: turns a `SchedulerOutput` into a step's arrays, runs them, and answers with tokens."""
