// Quantization of rows by way of a padded copy of each slab, for instruction sets without masked loads.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/float_formats.h"
#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

// Scale of a tile of 32 numbers, 32-byte aligned.
using ScaleOf = GroupScale (*)(const float* x);
// The integers of a tile, its scale, and the negated sums.
using QuantizeInt8 = void (*)(const float* x, GroupScale group, int8_t* values, float* scale, int32_t* sum32,
                              int32_t* sums16);

// Tile `t` of a row whose first term is stored at `place`, and the term after it if there are two. `x` is used up.
template <ScaleOf scale_of, QuantizeInt8 quantize_int8>
void quantize_terms(const Activation& activation, float* x, int64_t place, int t) {
  GroupScale group = scale_of(x);
  for (int term = 0; term < num_terms(activation.kind); ++term, ++place) {
    const int64_t tile = place * kSlabTiles + t;
    int8_t* values = static_cast<int8_t*>(activation.values) + tile * kTileSize;
    quantize_int8(x, group, values, activation.scales + tile, activation.sums32 + tile, activation.sums16 + 2 * tile);
    for (int i = 0; i < kTileSize; ++i) x[i] -= static_cast<float>(values[i]) * group.scale;
    group = remainder_scale(group);
  }
}

// Tile `t` of the slab at `place`, in the activation's form. `x` is used up.
template <ScaleOf scale_of, QuantizeInt8 quantize_int8>
void store_tile(const Activation& activation, float* x, int64_t place, int t) {
  const int64_t first = place * kSlabSize + t * kTileSize;
  if (activation.kind == ActivationKind::Float32) {
    std::memcpy(static_cast<float*>(activation.values) + first, x, sizeof(float) * kTileSize);
  } else if (activation.kind == ActivationKind::BFloat16) {
    uint16_t* values = static_cast<uint16_t*>(activation.values) + first;
    for (int i = 0; i < kTileSize; ++i) values[i] = float_to_bfloat16(x[i]);
  } else {
    quantize_terms<scale_of, quantize_int8>(activation, x, place, t);
  }
}

template <ScaleOf scale_of, QuantizeInt8 quantize_int8>
void quantize_padded_tile(const Activation& activation, const float* x, int64_t row, int64_t tile) {
  alignas(32) float copy[kTileSize];
  std::memcpy(copy, x, sizeof(copy));
  const int64_t place = tile / kSlabTiles * activation.num_rows + row * num_terms(activation.kind);
  store_tile<scale_of, quantize_int8>(activation, copy, place, static_cast<int>(tile % kSlabTiles));
}

template <ScaleOf scale_of, QuantizeInt8 quantize_int8>
void quantize_padded_rows(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                          int64_t row_end) {
  const int64_t k = activation.row_size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t first = 0, slab = 0; first < k; first += kSlabSize, ++slab) {
      alignas(32) float padded[kSlabSize] = {};
      std::memcpy(padded, x + row * x_stride + first, sizeof(float) * std::min<int64_t>(kSlabSize, k - first));
      const int64_t place = slab * activation.num_rows + row * num_terms(activation.kind);
      for (int t = 0; t < kSlabTiles; ++t) {
        store_tile<scale_of, quantize_int8>(activation, padded + t * kTileSize, place, t);
      }
    }
  }
}

}  // namespace
}  // namespace pelton
