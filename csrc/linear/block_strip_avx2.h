// Integer weights with AVX2: vpmaddubsw makes int16 sums of pairs, vpmaddwd int32 sums of fours.
//
// int16 must not saturate: 2 * 127 * q per instruction leaves room to add 8, 4 and 2 k groups of 4-, 5- and 6-bit
// integers before widening. Bytes would overflow, so they are made signed: |q - 128| times x with the sign of q - 128,
// at most 2 * 128 * 127. The int32 sums are the same as those of vpdpbusd.
#pragma once

#include "linear/strip.h"
#include "linear/weights_avx2.h"

namespace pelton {
namespace {

constexpr int kMaxRows = 4;

constexpr int groups_per_widening(const Layout& layout) {
  const int bits = integer_bits(layout);
  const int groups = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
  return has_halves(layout.form) ? std::min(groups, 4) : groups;
}

// int16 sums of pairs for 8 channels x 4 k.
template <Layout layout>
PELTON_INLINE __m256i multiply_pairs(__m256i q, __m256i x) {
  if constexpr (integer_bits(layout) < 8) return _mm256_maddubs_epi16(q, x);
  const __m256i weight = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(x, weight));
}

struct SlabRows {
  const int8_t* values;   // [row][128]
  const float* scales;    // [row]
  const int32_t* shifts;  // [row][4]
  const int32_t* sums16;  // negated, [row][8]
  float* totals;          // [row][64]
};

// Up to four tiles, expanded.
struct ExpandedSlab {
  int num_tiles;
  const uint8_t* integers[kSlabTiles];
  ExpandedTile tiles[kSlabTiles];
};

// 8 channels of tile `t`: value += its products.
template <Layout layout, int num_rows, int half>
PELTON_INLINE void multiply_half(const ExpandedSlab& slab, int t, int c, const SlabRows& rows,
                                 __m256 (&value)[num_rows]) {
  constexpr int num_halves = has_halves(layout.form) ? 2 : 1;
  constexpr int half_groups = kIntegerLines / num_halves;
  constexpr int step = groups_per_widening(layout);
  const __m256i ones = _mm256_set1_epi16(1);
  const ExpandedTile& tile = slab.tiles[t];
  const uint8_t* integers = slab.integers[t] + 4 * c;
  const int8_t* values = rows.values + t * kTileSize;
  __m256i dots[num_rows];
  int32_t negated_sums[num_rows];
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
    const int32_t* sums = rows.sums16 + 2 * (r * kSlabTiles + t);
    negated_sums[r] = num_halves == 2 ? sums[half] : sums[0] + sums[1];
    const bool has_zero = layout.zero_shift != 0 && integer_bits(layout) < 8;  // signed bytes have lost theirs
    dots[r] = _mm256_set1_epi32(has_zero ? negated_sums[r] * (1 << layout.zero_shift) : 0);
    if constexpr (has_zeros(layout.form)) {
      const __m256i zeros = _mm256_load_si256(reinterpret_cast<const __m256i*>(tile.zeros + c));
      const __m256i left = _mm256_sub_epi32(zeros, _mm256_set1_epi32(layout.bits < 8 ? 0 : 128));
      dots[r] = _mm256_mullo_epi32(left, _mm256_set1_epi32(negated_sums[r]));
    }
  }
#pragma GCC unroll 8
  for (int first = half * half_groups; first < (half + 1) * half_groups; first += step) {
    __m256i pairs[num_rows];
#pragma GCC unroll 8
    for (int kgroup = first; kgroup < first + step; ++kgroup) {
      const __m256i q = _mm256_load_si256(reinterpret_cast<const __m256i*>(integers + kgroup * kLineBytes));
#pragma GCC unroll 4
      for (int r = 0; r < num_rows; ++r) {
        int32_t four_values;
        std::memcpy(&four_values, values + r * kSlabSize + 4 * kgroup, 4);
        const __m256i product = multiply_pairs<layout>(q, _mm256_set1_epi32(four_values));
        pairs[r] = kgroup == first ? product : _mm256_add_epi16(pairs[r], product);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs[r], ones));
  }
  const __m256 scale = _mm256_load_ps(tile.scales[half] + c);
  const __m256 minimum = _mm256_load_ps(tile.mins[half] + c);
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
    const int32_t shift = rows.shifts[r * kSlabTiles + t];
    const __m256 dot = _mm256_cvtepi32_ps(_mm256_sllv_epi32(dots[r], _mm256_set1_epi32(shift)));
    value[r] = _mm256_fmadd_ps(scale, dot, value[r]);
    if constexpr (has_min(layout.form)) {
      const __m256 sum = _mm256_set1_ps(static_cast<float>(negated_sums[r] * (1 << shift)));
      value[r] = _mm256_fmadd_ps(minimum, sum, value[r]);
    }
  }
}

template <Layout layout, int num_rows>
__attribute__((noinline)) void multiply_slab(const ExpandedSlab& slab, const SlabRows& rows) {
  for (int c = 0; c < kStripChannels; c += 8) {
    __m256 value[num_rows];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) value[r] = _mm256_setzero_ps();
#pragma GCC unroll 1
    for (int t = 0; t < slab.num_tiles; ++t) {
      multiply_half<layout, num_rows, 0>(slab, t, c, rows, value);
      if constexpr (has_halves(layout.form)) multiply_half<layout, num_rows, 1>(slab, t, c, rows, value);
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      float* total = rows.totals + r * kStripChannels + c;
      const __m256 x_scale = _mm256_set1_ps(rows.scales[r]);
      _mm256_store_ps(total, _mm256_fmadd_ps(value[r], x_scale, _mm256_load_ps(total)));
    }
  }
}

template <Scheme scheme>
void multiply_block_strip(const Linear& linear, int strip, void* scratch) {
  constexpr Layout layout = layout_of(scheme);
  using Kernel = void (*)(const ExpandedSlab&, const SlabRows&);
  static constexpr Kernel kKernels[kMaxRows] = {multiply_slab<layout, 1>, multiply_slab<layout, 2>,
                                                multiply_slab<layout, 3>, multiply_slab<layout, 4>};
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  const Activation& x = linear.x;
  float* totals = split_scratch(scratch).sums;
  const int64_t num_tiles = num_tiles_of(x.row_size);
  ExpandedSlab slab;
  for (int64_t first_row = 0; first_row < x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t first = 0, index = 0; first < num_tiles; first += kSlabTiles, ++index) {
      slab.num_tiles = static_cast<int>(std::min<int64_t>(kSlabTiles, num_tiles - first));
      for (int t = 0; t < slab.num_tiles; ++t) {
        const uint8_t* super = data + super_offset(scheme, first + t);
        slab.integers[t] = expand_tile<layout>(data + tile_offset(scheme, first + t), super, slab.tiles[t]);
      }
      for (int64_t row = 0; row < num_rows; row += kMaxRows) {
        const int64_t block_rows = std::min<int64_t>(kMaxRows, num_rows - row);
        const int64_t place = index * x.num_rows + first_row + row;
        const SlabRows rows{static_cast<const int8_t*>(x.values) + place * kSlabSize, x.scales + place,
                            x.shifts + place * kSlabTiles, x.sums16 + place * 2 * kSlabTiles,
                            totals + row * kStripChannels};
        kKernels[block_rows - 1](slab, rows);
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace
}  // namespace pelton
