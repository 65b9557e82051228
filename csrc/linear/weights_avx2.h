// Expanding a packed tile with AVX2: integers to bytes, scales and minima to floats. The result stays in L1.
#pragma once

#include "linear/intrinsics.h"

#include <cstring>

#include "linear/layout.h"

namespace pelton {
namespace {

struct alignas(64) ExpandedTile {
  uint8_t integers[kIntegerLines * kLineBytes];  // [kgroup][channel][4 k], unsigned
  float scales[2][kStripChannels];               // the second of each only where a tile has two halves
  float mins[2][kStripChannels];
  int32_t zeros[kStripChannels];  // only where each channel has its own
};

PELTON_INLINE __m256i select(__m256i mask, __m256i a, __m256i b) {
  return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}

template <Codebook codebook>
PELTON_INLINE __m256i look_up(__m256i codes) {
  if constexpr (codebook == Codebook::None) return codes;
  const auto* values = reinterpret_cast<const __m128i*>(codebook_values(codebook));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(values)), codes);
}

constexpr int kTilesAhead = 8;

// With each eighth of a tile's work, an eighth of a tile to come is asked for. The hardware prefetcher does not follow
// lines read out of order, and all of a tile's at once would fill the queue of misses (LOG.md, AVX2: 10 and 14 GB/s
// where these give 23).
template <Layout layout>
PELTON_INLINE void prefetch_eighth(const uint8_t* tile, int eighth) {
  constexpr int num_lines = (tile_bytes(layout) + 8 * 64 - 1) / (8 * 64);
  const uint8_t* first = tile + kTilesAhead * tile_bytes(layout) + eighth * num_lines * 64;
#pragma GCC unroll 8
  for (int i = 0; i < num_lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(first + 64 * i), _MM_HINT_T1);
}

template <Layout layout>
void expand_integers(const uint8_t* tile, uint8_t* out) {
  constexpr int bits = layout.bits;
  const __m256i low = _mm256_set1_epi8((1 << (bits < 8 ? bits : 4)) - 1);
  for (int b = 0; b < kLineBytes; b += 32) {
    prefetch_eighth<layout>(tile, b / 32);
    const auto line = [tile, b](int i) {
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(tile + i * kLineBytes + b));
    };
    const auto store = [out, b, low](int kgroup, __m256i q) {
      const __m256i integers = look_up<layout.codebook>(_mm256_and_si256(q, low));
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + kgroup * kLineBytes + b), integers);
    };
    if constexpr (bits == 4) {
      for (int i = 0; i < 4; ++i) {
        store(2 * i, line(i));
        store(2 * i + 1, _mm256_srli_epi16(line(i), 4));
      }
    } else if constexpr (bits == 5) {
      const __m256i low3 = _mm256_set1_epi8(7);
      for (int i = 0; i < 5; ++i) store(i, line(i));
      store(5, select(low3, _mm256_srli_epi16(line(0), 5), _mm256_srli_epi16(line(1), 3)));
      store(6, select(low3, _mm256_srli_epi16(line(2), 5), _mm256_srli_epi16(line(3), 3)));
      const __m256i upper = select(_mm256_set1_epi8(32), line(1), _mm256_add_epi8(line(3), line(3)));
      store(7, select(low3, _mm256_srli_epi16(line(4), 5), _mm256_srli_epi16(upper, 2)));
    } else if constexpr (bits == 6) {
      const __m256i low2 = _mm256_set1_epi8(3), low4 = _mm256_set1_epi8(15);
      for (int i = 0; i < 6; ++i) store(i, line(i));
      for (int i = 0; i < 2; ++i) {
        const __m256i first = select(low2, _mm256_srli_epi16(line(3 * i), 6), _mm256_srli_epi16(line(3 * i + 1), 4));
        store(6 + i, select(low4, first, _mm256_srli_epi16(line(3 * i + 2), 2)));
      }
    }
  }
}

PELTON_INLINE __m256 load_halves(const uint8_t* halves, int channel) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(halves + 2 * channel)));
}

template <bool is_signed>
PELTON_INLINE __m256 load_bytes(const uint8_t* bytes, int channel) {
  const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + channel));
  return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(packed) : _mm256_cvtepu8_epi32(packed));
}

// As exponent_to_half_float.
PELTON_INLINE __m256 load_exponents(const uint8_t* exponents, int channel) {
  const __m128i packed = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(exponents + channel));
  const __m256i exponent = _mm256_cvtepu8_epi32(packed), two = _mm256_set1_epi32(2);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(1)), 23);
  const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), exponent);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, _mm256_cmpgt_epi32(two, exponent)));
}

// Scales and zero points of groups, from where the form keeps them.
inline void expand_groups(const uint8_t* src, ExpandedTile& tile) {
  std::memcpy(tile.scales[0], src, sizeof(tile.scales[0]));
  for (int c = 0; c < kStripChannels; ++c) tile.zeros[c] = src[sizeof(tile.scales[0]) + c];
}

template <ScaleForm form>
void expand_scales(const uint8_t* src, const uint8_t* super, ExpandedTile& tile) {
  if constexpr (has_zeros(form)) return expand_groups(form == ScaleForm::SlabZero ? super : src, tile);
  constexpr int num_halves = has_halves(form) ? 2 : 1;
  for (int half = 0; half < num_halves; ++half) {
    for (int c = 0; c < kStripChannels; c += 8) {
      __m256 scale, minimum = _mm256_setzero_ps();
      if constexpr (is_super(form)) {
        const __m256 integer = load_bytes<has_signed_scales(form)>(src + half * kStripChannels, c);
        scale = _mm256_mul_ps(load_halves(super, c), integer);
        if constexpr (has_min(form)) {
          const __m256 min_integer = load_bytes<false>(src + (num_halves + half) * kStripChannels, c);
          minimum = _mm256_mul_ps(load_halves(super, kStripChannels + c), min_integer);
        }
      } else if constexpr (form == ScaleForm::Exponent32) {
        scale = load_exponents(src, c);
      } else {
        scale = load_halves(src, c);
        if constexpr (has_min(form)) minimum = load_halves(src, kStripChannels + c);
      }
      _mm256_store_ps(tile.scales[half] + c, scale);
      _mm256_store_ps(tile.mins[half] + c, minimum);
    }
  }
}

// The tile's integers as bytes: expanded into `tile`, or where they lie already.
template <Layout layout>
const uint8_t* expand_tile(const uint8_t* src, const uint8_t* super, ExpandedTile& tile) {
  expand_scales<layout.form>(src + integer_bytes(layout), super, tile);
  if constexpr (layout.bits == 8) return src;
  expand_integers<layout>(src, tile.integers);
  return tile.integers;
}

}  // namespace
}  // namespace pelton
