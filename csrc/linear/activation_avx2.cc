#include "linear/activation.h"
#include "linear/intrinsics.h"
#include "linear/layout.h"
#include "linear/padded_rows.h"

namespace pelton {
namespace {

uint32_t largest_lane(__m256i v) {
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1))));
}

int32_t sum_lanes(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

// 16 k: integers, and their negated sum. Without an inverse they are zeros, whatever x is.
int32_t quantize_half(const float* x, __m256 inverse, int8_t* values) {
  const __m256 has_inverse = _mm256_cmp_ps(inverse, _mm256_setzero_ps(), _CMP_NEQ_OQ);
  const __m256i low = _mm256_cvtps_epi32(_mm256_and_ps(_mm256_mul_ps(_mm256_load_ps(x), inverse), has_inverse));
  const __m256i high = _mm256_cvtps_epi32(_mm256_and_ps(_mm256_mul_ps(_mm256_load_ps(x + 8), inverse), has_inverse));
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_store_si128(reinterpret_cast<__m128i*>(values), bytes);
  return -sum_lanes(_mm256_add_epi32(low, high));
}

GroupScale scale_of(const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < kTileSize; i += 8) {
    const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(x + i));
    largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, magnitude));
  }
  return group_scale(largest_lane(largest));
}

void quantize_int8(const float* x, GroupScale group, int8_t* values, float* scale, int32_t* sum32, int32_t* sums16) {
  const __m256 inverse = _mm256_set1_ps(group.inverse);
  *scale = group.scale;
  sums16[0] = quantize_half(x, inverse, values);
  sums16[1] = quantize_half(x + 16, inverse, values + 16);
  *sum32 = sums16[0] + sums16[1];
}

}  // namespace

void quantize_rows_avx2(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                        int64_t row_end) {
  quantize_padded_rows<scale_of, quantize_int8>(activation, x, x_stride, row_begin, row_end);
}

void quantize_tile_avx2(const Activation& activation, const float* x, int64_t row, int64_t tile) {
  quantize_padded_tile<scale_of, quantize_int8>(activation, x, row, tile);
}

}  // namespace pelton
