"""The native backend: lowers a plan to a program of `csrc` kernels and runs it in one call per step."""
