// The body of sigmoid_scale, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "moe/sigmoid_scale.h"

namespace pelton {

PELTON_INLINE void sigmoid_scale_body(const SigmoidScale& op, int64_t row_begin, int64_t row_end) {
  const int64_t whole = op.size / kLanes * kLanes;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = op.x.row(row);
    float* y = op.y.row(row);
    const Lanes factor = 1.0f / (1.0f + exp_lanes(lanes_of(-op.gate.row(row)[0])));
    for (int64_t i = 0; i < whole; i += kLanes) store_lanes(y + i, load_lanes(x + i) * factor);
    if (const int64_t rest = op.size - whole; rest > 0) {
      store_some(y + whole, load_some(x + whole, rest) * factor, rest);
    }
  }
}

}  // namespace pelton
