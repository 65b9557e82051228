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

uint32_t largest_bits_of(const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < kTileSize; i += 8) {
    const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(x + i));
    largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, magnitude));
  }
  return largest_lane(largest);
}

void quantize_tile(const float* x, float inverse, int8_t* values, int32_t* sums16) {
  sums16[0] = quantize_half(x, _mm256_set1_ps(inverse), values);
  sums16[1] = quantize_half(x + 16, _mm256_set1_ps(inverse), values + 16);
}

}  // namespace

void quantize_slab_avx2(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                        int64_t row_begin, int64_t row_end) {
  quantize_padded_slab<largest_bits_of, quantize_tile>(activation, slab, x, x_stride, row_begin, row_end);
}

}  // namespace pelton
