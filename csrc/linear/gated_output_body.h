// The body of write_gated, compiled once per instruction set.
#pragma once

#include "activation/activation_body.h"
#include "core/lanes.h"
#include "linear/gated_output.h"
#include "linear/layout.h"

namespace pelton {

template <ActivationFunction function>
static void write_gated_rows(const float* sums, const float* bias, int64_t num_rows, const Rows& y) {
  for (int64_t row = 0; row < num_rows; ++row, sums += kStripChannels) {
    for (int i = 0; i < kTileSize; i += kLanes) {
      const Lanes gate = load_lanes(sums + i) + load_lanes(bias + i);
      const Lanes up = load_lanes(sums + kTileSize + i) + load_lanes(bias + kTileSize + i);
      store_lanes(y.row(row) + i, activate<function>(gate) * up);
    }
  }
}

PELTON_INLINE void write_gated_body(ActivationFunction function, const float* sums, const float* bias,
                                    int64_t num_rows, const Rows& y) {
  switch (function) {
    case ActivationFunction::Silu: return write_gated_rows<ActivationFunction::Silu>(sums, bias, num_rows, y);
    case ActivationFunction::Gelu: return write_gated_rows<ActivationFunction::Gelu>(sums, bias, num_rows, y);
    case ActivationFunction::GeluTanh: return write_gated_rows<ActivationFunction::GeluTanh>(sums, bias, num_rows, y);
    case ActivationFunction::Relu: return write_gated_rows<ActivationFunction::Relu>(sums, bias, num_rows, y);
    case ActivationFunction::Relu2: return write_gated_rows<ActivationFunction::Relu2>(sums, bias, num_rows, y);
  }
}

}  // namespace pelton
