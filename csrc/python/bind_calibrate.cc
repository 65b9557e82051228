// The limits of the machine for Python: what `pelton bench` compares kernels with.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/calibrate.h"

namespace nb = nanobind;

namespace pelton {
namespace {

void check_threads(int num_threads) {
  if (num_threads >= 1) return;
  throw std::invalid_argument("calibrate: num_threads=" + std::to_string(num_threads) + " must be 1 or more");
}

Peak peak_of(const std::string& kind) {
  const CalibrationKernels kernels = calibration_kernels();
  if (kind == "int8") return kernels.int8;
  if (kind == "bfloat16") return kernels.bfloat16;
  if (kind == "float32") return kernels.float32;
  throw std::invalid_argument("calibrate: '" + kind + "' is not a kind of number: int8, bfloat16, float32");
}

double measure_peak(const std::string& kind, int num_threads, double seconds) {
  check_threads(num_threads);
  const Peak peak = peak_of(kind);
  nb::gil_scoped_release release;
  return measure_ops_per_s(peak, num_threads, seconds);
}

std::tuple<std::vector<double>, double> measure_bandwidth(size_t size_bytes, bool wants_huge_pages,
                                                          const std::vector<int>& thread_counts, double seconds) {
  int most = 1;
  for (int num_threads : thread_counts) {
    check_threads(num_threads);
    most = std::max(most, num_threads);
  }
  nb::gil_scoped_release release;
  const ReadRegion region(size_bytes, wants_huge_pages, most);
  std::vector<double> bytes_per_s;
  for (int num_threads : thread_counts) bytes_per_s.push_back(region.measure_bytes_per_s(num_threads, seconds));
  return {bytes_per_s, region.huge_share};
}

double measure_barrier(int num_threads, double seconds) {
  check_threads(num_threads);
  nb::gil_scoped_release release;
  return measure_barrier_s(num_threads, seconds);
}

}  // namespace

void bind_calibrate(nb::module_& m) {
  m.def("measure_clock_hz", &measure_clock_hz, nb::arg("seconds"), nb::call_guard<nb::gil_scoped_release>(),
        "Cycles per second of the core that runs this.");
  m.def("peak_instruction", [](const std::string& kind) { return peak_of(kind).instruction; }, nb::arg("kind"),
        "The instruction that the peak of int8, bfloat16 or float32 is measured with.");
  m.def("measure_peak", &measure_peak, nb::arg("kind"), nb::arg("num_threads"), nb::arg("seconds"),
        "Operations per second from registers; a multiply-add counts as two.");
  m.def("measure_bandwidth", &measure_bandwidth, nb::arg("size_bytes"), nb::arg("wants_huge_pages"),
        nb::arg("thread_counts"), nb::arg("seconds"),
        "(bytes per second for each number of threads, share of the memory that lies in huge pages).");
  m.def("measure_barrier_s", &measure_barrier, nb::arg("num_threads"), nb::arg("seconds"),
        "Seconds from one barrier of the thread pool to the next.");
}

}  // namespace pelton
