#include <algorithm>
#include <cmath>

#include "linear/activation.h"
#include "linear/layout.h"
#include "linear/padded_rows.h"

namespace pelton {
namespace {

uint32_t largest_bits_of(const float* x) {
  uint32_t largest_bits = 0;
  for (int i = 0; i < kTileSize; ++i) largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(std::fabs(x[i])));
  return largest_bits;
}

void quantize_tile(const float* x, float inverse, int8_t* values, int32_t* sums16) {
  sums16[0] = sums16[1] = 0;
  for (int i = 0; i < kTileSize; ++i) {
    values[i] = inverse == 0.0f ? 0 : static_cast<int8_t>(std::nearbyint(x[i] * inverse));
    sums16[i / 16] -= values[i];
  }
}

}  // namespace

void quantize_slab_generic(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                           int64_t row_begin, int64_t row_end) {
  quantize_padded_slab<largest_bits_of, quantize_tile>(activation, slab, x, x_stride, row_begin, row_end);
}

}  // namespace pelton
