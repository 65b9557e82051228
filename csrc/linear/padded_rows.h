// Quantization of a slab by way of a padded copy, for instruction sets without masked loads.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/float_formats.h"
#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

// The bits of the largest magnitude of 32 numbers, 32-byte aligned.
using LargestBits = uint32_t (*)(const float* x);
// The integers of a tile and their negated sums per 16 k. Without an inverse they are zeros, whatever x is.
using QuantizeTile = void (*)(const float* x, float inverse, int8_t* values, int32_t* sums16);

// One row's slab, stored at `place`, and the term after it if there are two. `x` is used up.
template <LargestBits largest_bits_of, QuantizeTile quantize_tile>
void quantize_terms(const Activation& activation, float* x, int64_t place) {
  uint32_t largest_bits[kSlabTiles];
  for (int t = 0; t < kSlabTiles; ++t) largest_bits[t] = largest_bits_of(x + t * kTileSize);
  SlabScale slab = slab_scale(largest_bits);
  for (int term = 0; term < num_terms(activation.kind); ++term, ++place) {
    activation.scales[place] = slab.scale;
    for (int t = 0; t < kSlabTiles; ++t) {
      const int64_t tile = place * kSlabTiles + t;
      int8_t* values = static_cast<int8_t*>(activation.values) + tile * kTileSize;
      int32_t* sums16 = activation.sums16 + 2 * tile;
      quantize_tile(x + t * kTileSize, slab.inverses[t], values, sums16);
      activation.sums32[tile] = sums16[0] + sums16[1];
      activation.shifts[tile] = slab.shifts[t];
      const float step = slab.step(t);
      for (int i = 0; i < kTileSize; ++i) x[t * kTileSize + i] -= static_cast<float>(values[i]) * step;
    }
    slab = remainder_scale(slab);
  }
}

template <LargestBits largest_bits_of, QuantizeTile quantize_tile>
void quantize_padded_slab(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                          int64_t row_begin, int64_t row_end) {
  const int64_t count = std::min<int64_t>(kSlabSize, activation.row_size - slab * kSlabSize);
  for (int64_t row = row_begin; row < row_end; ++row) {
    alignas(32) float padded[kSlabSize] = {};
    std::memcpy(padded, x + row * x_stride, sizeof(float) * static_cast<size_t>(count));
    const int64_t place = slab * activation.num_rows + row * num_terms(activation.kind);
    if (activation.kind == ActivationKind::Float32) {
      std::memcpy(static_cast<float*>(activation.values) + place * kSlabSize, padded, sizeof(padded));
    } else if (activation.kind == ActivationKind::BFloat16) {
      uint16_t* values = static_cast<uint16_t*>(activation.values) + place * kSlabSize;
      for (int i = 0; i < kSlabSize; ++i) values[i] = float_to_bfloat16(padded[i]);
    } else {
      quantize_terms<largest_bits_of, quantize_tile>(activation, padded, place);
    }
  }
}

}  // namespace
}  // namespace pelton
