// The body of write_gated, compiled once per instruction set.
#pragma once

#include "activation/activation_body.h"
#include "core/lanes.h"
#include "linear/gated_output.h"
#include "linear/layout.h"

namespace pelton {

template <ActivationFunction function, QuantizeTile quantize_tile>
static void write_gated_rows(const Activation& y, const float* sums, const float* bias, int64_t first_row,
                             int64_t num_rows, int64_t strip) {
  alignas(64) float product[kTileSize];
  for (int64_t row = 0; row < num_rows; ++row, sums += kStripChannels) {
    for (int i = 0; i < kTileSize; i += kLanes) {
      const Lanes gate = load_lanes(sums + i) + load_lanes(bias + i);
      const Lanes up = load_lanes(sums + kTileSize + i) + load_lanes(bias + kTileSize + i);
      store_lanes(product + i, activate<function>(gate) * up);
    }
    quantize_tile(y, product, first_row + row, strip);
  }
}

template <QuantizeTile quantize_tile>
static void write_gated_body(const GatedOutput& output, const float* sums, const float* bias, int64_t first_row,
                             int64_t num_rows, int64_t strip) {
  switch (output.function) {
    case ActivationFunction::Silu:
      return write_gated_rows<ActivationFunction::Silu, quantize_tile>(output.y, sums, bias, first_row, num_rows, strip);
    case ActivationFunction::Gelu:
      return write_gated_rows<ActivationFunction::Gelu, quantize_tile>(output.y, sums, bias, first_row, num_rows, strip);
    case ActivationFunction::GeluTanh:
      return write_gated_rows<ActivationFunction::GeluTanh, quantize_tile>(output.y, sums, bias, first_row, num_rows,
                                                                          strip);
    case ActivationFunction::Relu:
      return write_gated_rows<ActivationFunction::Relu, quantize_tile>(output.y, sums, bias, first_row, num_rows, strip);
    case ActivationFunction::Relu2:
      return write_gated_rows<ActivationFunction::Relu2, quantize_tile>(output.y, sums, bias, first_row, num_rows,
                                                                       strip);
  }
}

}  // namespace pelton
