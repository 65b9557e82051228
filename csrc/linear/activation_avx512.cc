#include "linear/intrinsics.h"

#include <algorithm>

#include "linear/activation.h"
#include "linear/layout.h"

namespace pelton {
namespace {

constexpr int kVectors = kSlabSize / 16;

__mmask16 lanes_below(int64_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

// The bits of the largest magnitude of 32 numbers.
uint32_t largest_bits_of(__m512 low, __m512 high) {
  const __m512i low_bits = _mm512_castps_si512(_mm512_abs_ps(low));
  return _mm512_reduce_max_epu32(_mm512_max_epu32(low_bits, _mm512_castps_si512(_mm512_abs_ps(high))));
}

// 16 k: the integers are stored, their negated sum returned, and `x` becomes what they leave over. Without an inverse
// they are zeros, whatever x is.
int32_t quantize_half(__m512& x, float inverse, float step, int8_t* values) {
  const __mmask16 has_inverse = inverse != 0.0f ? 0xffff : 0;
  const __m512i integers = _mm512_maskz_cvtps_epi32(has_inverse, _mm512_mul_ps(x, _mm512_set1_ps(inverse)));
  _mm_store_si128(reinterpret_cast<__m128i*>(values), _mm512_cvtsepi32_epi8(integers));
  x = _mm512_sub_ps(x, _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(step)));
  return -_mm512_reduce_add_epi32(integers);
}

// One row's slab, stored at `place`, and the term after it if there are two.
void quantize_terms(const Activation& activation, __m512 (&x)[kVectors], int64_t place) {
  uint32_t largest_bits[kSlabTiles];
  for (int t = 0; t < kSlabTiles; ++t) largest_bits[t] = largest_bits_of(x[2 * t], x[2 * t + 1]);
  SlabScale slab = slab_scale(largest_bits);
  for (int term = 0; term < num_terms(activation.kind); ++term, ++place) {
    activation.scales[place] = slab.scale;
    for (int t = 0; t < kSlabTiles; ++t) {
      const int64_t tile = place * kSlabTiles + t;
      int8_t* values = static_cast<int8_t*>(activation.values) + tile * kTileSize;
      int32_t* sums16 = activation.sums16 + 2 * tile;
      sums16[0] = quantize_half(x[2 * t], slab.inverses[t], slab.step(t), values);
      sums16[1] = quantize_half(x[2 * t + 1], slab.inverses[t], slab.step(t), values + 16);
      activation.sums32[tile] = sums16[0] + sums16[1];
      activation.shifts[tile] = slab.shifts[t];
    }
    slab = remainder_scale(slab);
  }
}

}  // namespace

void quantize_slab_avx512(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                          int64_t row_begin, int64_t row_end) {
  const int64_t count = activation.row_size - slab * kSlabSize;
  for (int64_t row = row_begin; row < row_end; ++row) {
    __m512 vectors[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      vectors[i] = _mm512_maskz_loadu_ps(lanes_below(count - 16 * i), x + row * x_stride + 16 * i);
    }
    const int64_t place = slab * activation.num_rows + row * num_terms(activation.kind);
    if (is_int8(activation.kind)) {
      quantize_terms(activation, vectors, place);
    } else if (activation.kind == ActivationKind::BFloat16) {
      uint16_t* values = static_cast<uint16_t*>(activation.values) + place * kSlabSize;
      for (int i = 0; i < kVectors; ++i) {
        const __m256bh rounded = _mm512_cvtneps_pbh(vectors[i]);
        _mm256_store_si256(reinterpret_cast<__m256i*>(values + 16 * i), reinterpret_cast<__m256i>(rounded));
      }
    } else {
      float* values = static_cast<float*>(activation.values) + place * kSlabSize;
      for (int i = 0; i < kVectors; ++i) _mm512_store_ps(values + 16 * i, vectors[i]);
    }
  }
}

}  // namespace pelton
