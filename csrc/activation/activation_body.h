// The bodies of the activation functions, compiled once per instruction set.
#pragma once

#include "activation/activation.h"
#include "core/lanes.h"

namespace pelton {

template <ActivationFunction function>
PELTON_INLINE Lanes activate(Lanes x) {
  if constexpr (function == ActivationFunction::Silu) return silu_lanes(x);
  if constexpr (function == ActivationFunction::Gelu) return gelu_lanes(x);
  if constexpr (function == ActivationFunction::GeluTanh) return gelu_tanh_lanes(x);
  const Lanes positive = x < 0.0f ? Lanes{} : x;
  if constexpr (function == ActivationFunction::Relu2) return positive * positive;
  return positive;
}

template <ActivationFunction function>
PELTON_INLINE void activate_row(const float* x, float* y, int64_t size) {
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) store_lanes(y + i, activate<function>(load_lanes(x + i)));
  if (size > whole) {
    store_some(y + whole, activate<function>(load_some(x + whole, size - whole)), size - whole);
  }
}

PELTON_INLINE void activation_body(const ElementwiseActivation& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = op.x.row(row);
    float* y = op.y.row(row);
    switch (op.function) {
      case ActivationFunction::Silu:
        activate_row<ActivationFunction::Silu>(x, y, op.size);
        break;
      case ActivationFunction::Gelu:
        activate_row<ActivationFunction::Gelu>(x, y, op.size);
        break;
      case ActivationFunction::GeluTanh:
        activate_row<ActivationFunction::GeluTanh>(x, y, op.size);
        break;
      case ActivationFunction::Relu:
        activate_row<ActivationFunction::Relu>(x, y, op.size);
        break;
      case ActivationFunction::Relu2:
        activate_row<ActivationFunction::Relu2>(x, y, op.size);
        break;
    }
  }
}

}  // namespace pelton
