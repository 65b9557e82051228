#include "linear/intrinsics.h"

#include <algorithm>

#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

__mmask16 lanes_below(int64_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

// One tile: two vectors of 16 k, zero beyond K.
void quantize_tile(__m512 low, __m512 high, int8_t* values, float* scale, int32_t* sum32, int32_t* sums16) {
  const __m512i low_bits = _mm512_castps_si512(_mm512_abs_ps(low));
  const __m512i largest = _mm512_max_epu32(low_bits, _mm512_castps_si512(_mm512_abs_ps(high)));
  const GroupScale group = group_scale(_mm512_reduce_max_epu32(largest));
  const __m512 inverse = _mm512_set1_ps(group.inverse);
  *scale = group.scale;
  const __m512i low_integers = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
  const __m512i high_integers = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
  _mm_store_si128(reinterpret_cast<__m128i*>(values), _mm512_cvtsepi32_epi8(low_integers));
  _mm_store_si128(reinterpret_cast<__m128i*>(values + 16), _mm512_cvtsepi32_epi8(high_integers));
  sums16[0] = -_mm512_reduce_add_epi32(low_integers);
  sums16[1] = -_mm512_reduce_add_epi32(high_integers);
  *sum32 = sums16[0] + sums16[1];
}

}  // namespace

void quantize_rows_avx512(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                          int64_t row_end) {
  const int64_t k = activation.row_size;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x_row = x + row * x_stride;
    for (int64_t first = 0, slab = 0; first < k; first += kSlabSize, ++slab) {
      const int64_t place = slab * activation.num_rows + row;
      __m512 vectors[kSlabSize / 16];
      for (int i = 0; i < kSlabSize / 16; ++i) {
        vectors[i] = _mm512_maskz_loadu_ps(lanes_below(k - first - 16 * i), x_row + first + 16 * i);
      }
      if (activation.kind == ActivationKind::Int8) {
        int8_t* values = static_cast<int8_t*>(activation.values) + place * kSlabSize;
        for (int t = 0; t < kSlabTiles; ++t) {
          const int64_t tile = place * kSlabTiles + t;
          quantize_tile(vectors[2 * t], vectors[2 * t + 1], values + t * kTileSize, activation.scales + tile,
                        activation.sums32 + tile, activation.sums16 + 2 * tile);
        }
      } else if (activation.kind == ActivationKind::BFloat16) {
        uint16_t* values = static_cast<uint16_t*>(activation.values) + place * kSlabSize;
        for (int i = 0; i < kSlabSize / 16; ++i) {
          const __m256bh rounded = _mm512_cvtneps_pbh(vectors[i]);
          _mm256_store_si256(reinterpret_cast<__m256i*>(values + 16 * i), reinterpret_cast<__m256i>(rounded));
        }
      } else {
        float* values = static_cast<float*>(activation.values) + place * kSlabSize;
        for (int i = 0; i < kSlabSize / 16; ++i) _mm512_store_ps(values + 16 * i, vectors[i]);
      }
    }
  }
}

}  // namespace pelton
