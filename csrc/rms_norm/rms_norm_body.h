// The body of rms_norm, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "rms_norm/rms_norm.h"

namespace pelton {

PELTON_INLINE void normalise_vector(const float* x, const float* weight, float* y, int64_t size, float eps) {
  const int64_t whole = size / kLanes * kLanes;
  const int64_t rest = size - whole;
  Lanes squares{};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Lanes v = load_lanes(x + i);
    squares += v * v;
  }
  if (rest > 0) {
    const Lanes v = load_some(x + whole, rest);
    squares += v * v;
  }
  const float factor = 1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(size) + eps);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Lanes v = load_lanes(x + i) * factor;
    store_lanes(y + i, weight != nullptr ? v * load_lanes(weight + i) : v);
  }
  if (rest > 0) {
    const Lanes v = load_some(x + whole, rest) * factor;
    store_some(y + whole, weight != nullptr ? v * load_some(weight + whole, rest) : v, rest);
  }
}

PELTON_INLINE void rms_norm_body(const RmsNorm& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t head = 0; head < op.num_heads; ++head) {
      const int64_t offset = head * op.size;
      normalise_vector(op.x.row(row) + offset, op.weight, op.y.row(row) + offset, op.size, op.eps);
    }
  }
}

}  // namespace pelton
