#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/float_formats.h"
#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

GroupScale scale_of(const float* x) {
  uint32_t largest_bits = 0;
  for (int i = 0; i < kTileSize; ++i) largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(std::fabs(x[i])));
  return group_scale(largest_bits);
}

// One tile of 32: the scale, the integers, and their negated sums. `x` is padded with zeros.
void quantize_tile(const float* x, GroupScale group, int8_t* values, float* scale, int32_t* sum32, int32_t* sums16) {
  *scale = group.scale;
  sums16[0] = sums16[1] = 0;
  for (int i = 0; i < kTileSize; ++i) {
    values[i] = group.inverse == 0.0f ? 0 : static_cast<int8_t>(std::nearbyint(x[i] * group.inverse));
    sums16[i / 16] -= values[i];
  }
  *sum32 = sums16[0] + sums16[1];
}

// Tile `t` of a row whose first term is stored at `place`, and the term after it if there are two.
void quantize_terms(const Activation& activation, float* x, int64_t place, int t) {
  GroupScale group = scale_of(x);
  for (int term = 0; term < num_terms(activation.kind); ++term, ++place) {
    const int64_t tile = place * kSlabTiles + t;
    int8_t* values = static_cast<int8_t*>(activation.values) + tile * kTileSize;
    quantize_tile(x, group, values, activation.scales + tile, activation.sums32 + tile, activation.sums16 + 2 * tile);
    for (int i = 0; i < kTileSize; ++i) x[i] -= static_cast<float>(values[i]) * group.scale;
    group = remainder_scale(group);
  }
}

}  // namespace

void quantize_rows_generic(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                           int64_t row_end) {
  const int64_t k = activation.row_size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t first = 0, slab = 0; first < k; first += kSlabSize, ++slab) {
      float padded[kSlabSize] = {};
      std::memcpy(padded, x + row * x_stride + first, sizeof(float) * std::min<int64_t>(kSlabSize, k - first));
      const int64_t place = slab * activation.num_rows + row * num_terms(activation.kind);
      if (activation.kind == ActivationKind::Float32) {
        std::memcpy(static_cast<float*>(activation.values) + place * kSlabSize, padded, sizeof(padded));
      } else if (activation.kind == ActivationKind::BFloat16) {
        uint16_t* values = static_cast<uint16_t*>(activation.values) + place * kSlabSize;
        for (int i = 0; i < kSlabSize; ++i) values[i] = float_to_bfloat16(padded[i]);
      } else {
        for (int t = 0; t < kSlabTiles; ++t) quantize_terms(activation, padded + t * kTileSize, place, t);
      }
    }
  }
}

}  // namespace pelton
