// Plain loops, as the compiler vectorizes them for any machine of the family.
#include "calibrate/calibrate.h"

namespace pelton {
namespace {

constexpr int kLanes = 16;
constexpr int kDepth = 64;

// One iteration multiplies and adds kDepth * kLanes pairs that lie in the nearest cache.
template <typename Number, typename Sum>
void run_loops(int64_t iterations) {
  alignas(64) Number x[kDepth * kLanes], y[kDepth * kLanes];
  for (int i = 0; i < kDepth * kLanes; ++i) x[i] = y[i] = static_cast<Number>(i % 3);
  Sum sums[kLanes] = {};
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : : "r"(x), "r"(y) : "memory");  // x and y may have changed
    for (int k = 0; k < kDepth; ++k) {
      for (int lane = 0; lane < kLanes; ++lane) {
        sums[lane] += static_cast<Sum>(x[k * kLanes + lane]) * static_cast<Sum>(y[k * kLanes + lane]);
      }
    }
  }
  asm volatile("" : : "r"(sums) : "memory");
}

void read(const uint8_t* data, size_t size_bytes) {
  uint64_t sums[8] = {};
  for (size_t at = 0; at < size_bytes; at += sizeof(sums)) {
    const auto* line = reinterpret_cast<const uint64_t*>(data + at);
    for (int lane = 0; lane < 8; ++lane) sums[lane] |= line[lane];
  }
  asm volatile("" : : "r"(sums) : "memory");
}

}  // namespace

CalibrationKernels calibration_kernels_generic() {
  constexpr double ops = 2.0 * kDepth * kLanes;
  const Peak float32{"plain loops over float32", ops, run_loops<float, float>};
  const Peak bfloat16{"plain loops over float32 (bfloat16 is widened)", ops, run_loops<float, float>};
  return {{"plain loops over int8", ops, run_loops<int8_t, int32_t>}, bfloat16, float32, read};
}

}  // namespace pelton
