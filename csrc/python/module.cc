// The Python face of csrc: one bind_* function per folder, no logic.
#include <nanobind/nanobind.h>

namespace pelton {
void bind_calibrate(nanobind::module_& m);
void bind_linear(nanobind::module_& m);
void bind_program(nanobind::module_& m);
}

NB_MODULE(_native, m) {
  m.doc() = "Pelton's kernels and the program executor.";
  pelton::bind_calibrate(m);
  pelton::bind_linear(m);
  pelton::bind_program(m);
}
