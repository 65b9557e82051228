// The body of rotary, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "rotary/rotary.h"

namespace pelton {

PELTON_INLINE void turn_head(const float* x, const float* cosine, const float* sine, float* y, int64_t half) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Lanes a = load_lanes(x + i), b = load_lanes(x + half + i);
    const Lanes c = load_lanes(cosine + i), s = load_lanes(sine + i);
    store_lanes(y + i, a * c - b * s);
    store_lanes(y + half + i, b * c + a * s);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    y[i] = a * cosine[i] - b * sine[i];
    y[half + i] = b * cosine[i] + a * sine[i];
  }
}

PELTON_INLINE void rotary_body(const Rotary& op, int64_t row_begin, int64_t row_end) {
  const int64_t half = op.table->half();
  const size_t rest_bytes = static_cast<size_t>(op.head_dim - 2 * half) * sizeof(float);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* cosine = op.table->row(op.positions[row]);
    for (int64_t head = 0; head < op.num_heads; ++head) {
      const float* x = op.x.row(row) + head * op.head_dim;
      float* y = op.y.row(row) + head * op.head_dim;
      turn_head(x, cosine, cosine + half, y, half);
      if (x != y) memcpy(y + 2 * half, x + 2 * half, rest_bytes);
    }
  }
}

}  // namespace pelton
