// The Python face of csrc: one bind_* function per folder, no logic.
#include <nanobind/nanobind.h>

NB_MODULE(_native, m) { m.doc() = "Pelton's kernels and the program executor."; }
