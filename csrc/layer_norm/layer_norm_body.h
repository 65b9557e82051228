// The body of layer_norm, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "layer_norm/layer_norm.h"

namespace pelton {

// The lanes of x at i, zeros past the end.
PELTON_INLINE Lanes load_up_to(const float* x, int64_t i, int64_t size) {
  return i + kLanes <= size ? load_lanes(x + i) : load_some(x + i, size - i);
}

PELTON_INLINE void layer_norm_row(const LayerNorm& op, const float* x, float* y) {
  const int64_t size = op.size;
  const float count = static_cast<float>(size);
  Lanes sum{};
  for (int64_t i = 0; i < size; i += kLanes) sum += load_up_to(x, i, size);
  const float mean = sum_lanes(sum) / count;
  Lanes squares{};
  for (int64_t i = 0; i < size; i += kLanes) {
    Lanes centred = load_up_to(x, i, size) - mean;
    if (i + kLanes > size) {
      Lanes kept{};
      memcpy(&kept, &centred, static_cast<size_t>(size - i) * sizeof(float));
      centred = kept;
    }
    squares += centred * centred;
  }
  const float factor = 1.0f / __builtin_sqrtf(sum_lanes(squares) / count + op.eps);
  for (int64_t i = 0; i < size; i += kLanes) {
    Lanes v = (load_up_to(x, i, size) - mean) * factor * load_up_to(op.weight, i, size);
    if (op.bias != nullptr) v += load_up_to(op.bias, i, size);
    store_some(y + i, v, i + kLanes <= size ? kLanes : size - i);
  }
}

PELTON_INLINE void layer_norm_body(const LayerNorm& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) layer_norm_row(op, op.x.row(row), op.y.row(row));
}

}  // namespace pelton
