"""The control plane: the scheduler, the loop around it, the process it lives in, and who watches that process."""
