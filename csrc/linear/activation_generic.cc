#include <algorithm>
#include <cmath>

#include "linear/activation.h"
#include "linear/layout.h"
#include "linear/padded_rows.h"

namespace pelton {
namespace {

GroupScale scale_of(const float* x) {
  uint32_t largest_bits = 0;
  for (int i = 0; i < kTileSize; ++i) largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(std::fabs(x[i])));
  return group_scale(largest_bits);
}

// One tile of 32: the scale, the integers, and their negated sums. `x` is padded with zeros.
void quantize_int8(const float* x, GroupScale group, int8_t* values, float* scale, int32_t* sum32, int32_t* sums16) {
  *scale = group.scale;
  sums16[0] = sums16[1] = 0;
  for (int i = 0; i < kTileSize; ++i) {
    values[i] = group.inverse == 0.0f ? 0 : static_cast<int8_t>(std::nearbyint(x[i] * group.inverse));
    sums16[i / 16] -= values[i];
  }
  *sum32 = sums16[0] + sums16[1];
}

}  // namespace

void quantize_rows_generic(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                           int64_t row_end) {
  quantize_padded_rows<scale_of, quantize_int8>(activation, x, x_stride, row_begin, row_end);
}

void quantize_tile_generic(const Activation& activation, const float* x, int64_t row, int64_t tile) {
  quantize_padded_tile<scale_of, quantize_int8>(activation, x, row, tile);
}

}  // namespace pelton
