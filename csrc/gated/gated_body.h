// The body of gated, compiled once per instruction set.
#pragma once

#include "activation/activation_body.h"
#include "core/lanes.h"
#include "gated/gated.h"

namespace pelton {

template <ActivationFunction function>
PELTON_INLINE void gate_row(const float* gate, const float* up, float* y, int64_t size) {
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    store_lanes(y + i, activate<function>(load_lanes(gate + i)) * load_lanes(up + i));
  }
  if (const int64_t rest = size - whole; rest > 0) {
    store_some(y + whole, activate<function>(load_some(gate + whole, rest)) * load_some(up + whole, rest), rest);
  }
}

PELTON_INLINE void gated_body(const Gated& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* gate = op.x.row(row);
    const float* up = gate + op.size;
    float* y = op.y.row(row);
    switch (op.function) {
      case ActivationFunction::Silu:
        gate_row<ActivationFunction::Silu>(gate, up, y, op.size);
        break;
      case ActivationFunction::Gelu:
        gate_row<ActivationFunction::Gelu>(gate, up, y, op.size);
        break;
      case ActivationFunction::GeluTanh:
        gate_row<ActivationFunction::GeluTanh>(gate, up, y, op.size);
        break;
      case ActivationFunction::Relu:
        gate_row<ActivationFunction::Relu>(gate, up, y, op.size);
        break;
      case ActivationFunction::Relu2:
        gate_row<ActivationFunction::Relu2>(gate, up, y, op.size);
        break;
    }
  }
}

}  // namespace pelton
