#include "linear/intrinsics.h"

#include <algorithm>

#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

__mmask16 lanes_below(int64_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

// 16 k: the integers are stored, their negated sum returned, and `x` becomes what they leave over. Without an inverse
// they are zeros, whatever x is.
int32_t quantize_half(__m512& x, GroupScale group, int8_t* values) {
  const __mmask16 has_inverse = group.inverse != 0.0f ? 0xffff : 0;
  const __m512i integers = _mm512_maskz_cvtps_epi32(has_inverse, _mm512_mul_ps(x, _mm512_set1_ps(group.inverse)));
  _mm_store_si128(reinterpret_cast<__m128i*>(values), _mm512_cvtsepi32_epi8(integers));
  x = _mm512_sub_ps(x, _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(group.scale)));
  return -_mm512_reduce_add_epi32(integers);
}

// Tile `t`, two vectors of 16 k, of a row whose first term is stored at `place`, and the term after it if there are two.
void quantize_terms(const Activation& activation, __m512 low, __m512 high, int64_t place, int t) {
  const __m512i low_bits = _mm512_castps_si512(_mm512_abs_ps(low));
  const __m512i largest = _mm512_max_epu32(low_bits, _mm512_castps_si512(_mm512_abs_ps(high)));
  GroupScale group = group_scale(_mm512_reduce_max_epu32(largest));
  for (int term = 0; term < num_terms(activation.kind); ++term, ++place) {
    const int64_t tile = place * kSlabTiles + t;
    int8_t* values = static_cast<int8_t*>(activation.values) + tile * kTileSize;
    int32_t* sums16 = activation.sums16 + 2 * tile;
    sums16[0] = quantize_half(low, group, values);
    sums16[1] = quantize_half(high, group, values + 16);
    activation.sums32[tile] = sums16[0] + sums16[1];
    activation.scales[tile] = group.scale;
    group = remainder_scale(group);
  }
}

// Tile `t` of the slab at `place`, in the activation's form.
void store_tile(const Activation& activation, __m512 low, __m512 high, int64_t place, int t) {
  if (is_int8(activation.kind)) return quantize_terms(activation, low, high, place, t);
  const int64_t first = place * kSlabSize + t * kTileSize;
  if (activation.kind == ActivationKind::BFloat16) {
    uint16_t* values = static_cast<uint16_t*>(activation.values) + first;
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(low)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(values + 16), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(high)));
  } else {
    float* values = static_cast<float*>(activation.values) + first;
    _mm512_store_ps(values, low);
    _mm512_store_ps(values + 16, high);
  }
}

}  // namespace

void quantize_tile_avx512(const Activation& activation, const float* x, int64_t row, int64_t tile) {
  const int64_t place = tile / kSlabTiles * activation.num_rows + row * num_terms(activation.kind);
  store_tile(activation, _mm512_load_ps(x), _mm512_load_ps(x + 16), place, static_cast<int>(tile % kSlabTiles));
}

void quantize_rows_avx512(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                          int64_t row_end) {
  const int64_t k = activation.row_size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x_row = x + row * x_stride;
    for (int64_t first = 0, slab = 0; first < k; first += kSlabSize, ++slab) {
      const int64_t place = slab * activation.num_rows + row * num_terms(activation.kind);
      for (int t = 0; t < kSlabTiles; ++t) {
        const int64_t low = first + t * kTileSize, high = low + 16;
        store_tile(activation, _mm512_maskz_loadu_ps(lanes_below(k - low), x_row + low),
                   _mm512_maskz_loadu_ps(lanes_below(k - high), x_row + high), place, t);
      }
    }
  }
}

}  // namespace pelton
