// Integer weights with AVX2, in two ways:
//
//   to 6 bits  vpmaddubsw makes int16 sums of pairs: 2 * 127 * q leaves room to add 8, 4 and 2 k groups of 4-, 5- and
//              6-bit integers before vpmaddwd widens them
//   8 bits     pairs would overflow: the even and the odd k are widened to int16, and vpmaddwd multiplies those
//
// The int32 sums are the same as those of vpdpbusd. A slab is expanded to bytes once for all rows of the pass; then 3 or
// 4 rows x 16 channels are multiplied at a time, which are as many as 16 registers hold.
//
// Limit: per row and 8 channels a tile (512 operations) costs 8 multiplies of pairs and 1, 2 or 4 widenings, or 16 of
// int16, and 1 to 3 of floats. At two multiplies a cycle that is 93, 85, 68 and 57 operations a cycle for 4, 5, 6 and 8
// bits. Beside each multiply stands an addition, so two thirds of it are reached (LOG.md, AVX2).
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "linear/strip.h"
#include "linear/weights_avx2.h"

namespace pelton {
namespace {

constexpr int kVectors = 2;  // of 8 channels at a time

constexpr int num_halves_of(const Layout& layout) { return has_halves(layout.form) ? 2 : 1; }

constexpr int groups_per_widening(const Layout& layout) {
  const int bits = integer_bits(layout);
  const int groups = bits == 4 ? 8 : bits == 5 ? 4 : 2;
  return std::min(groups, kIntegerLines / num_halves_of(layout));
}

constexpr int max_rows(const Layout& layout) { return integer_bits(layout) == 8 ? 3 : 4; }

// A few rows of the activation, for one slab.
struct SlabRows {
  const int8_t* values;   // [row][128]
  const float* scales;    // [row]
  const int32_t* shifts;  // [row][4]
  const int32_t* sums16;  // negated, [row][8]
  float* totals;          // [row][64]
  const int16_t (*wide)[kSlabTiles][2][16];  // [row][tile] even and odd k, for weights of 8 bits
};

// Up to four tiles, expanded.
struct ExpandedSlab {
  int num_tiles;
  const uint8_t* integers[kSlabTiles];
  ExpandedTile tiles[kSlabTiles];
};

PELTON_INLINE __m256i load_vector(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

PELTON_INLINE __m256i broadcast_dword(const void* from) {
  int32_t value;
  std::memcpy(&value, from, sizeof value);
  return _mm256_set1_epi32(value);
}

// dots = tile `t` of the rows times 16 channels of 8-bit integers.
template <int num_rows>
PELTON_INLINE void multiply_words(const uint8_t* q, int t, const SlabRows& rows, __m256i (&dots)[num_rows][kVectors]) {
  const __m256i low_byte = _mm256_set1_epi16(255);
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) dots[r][0] = dots[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 1
  for (int kgroup = 0; kgroup < kIntegerLines; ++kgroup, q += kLineBytes) {
    __m256i even[kVectors], odd[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256i bytes = load_vector(q + 32 * v);
      even[v] = _mm256_and_si256(bytes, low_byte);
      odd[v] = _mm256_srli_epi16(bytes, 8);
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      const __m256i x_even = broadcast_dword(rows.wide[r][t][0] + 2 * kgroup);
      const __m256i x_odd = broadcast_dword(rows.wide[r][t][1] + 2 * kgroup);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        dots[r][v] = _mm256_add_epi32(dots[r][v], _mm256_madd_epi16(even[v], x_even));
        dots[r][v] = _mm256_add_epi32(dots[r][v], _mm256_madd_epi16(odd[v], x_odd));
      }
    }
  }
}

// Sums that wait in memory while the registers are used for other ones: told to, gcc puts the right ones aside.
template <int num_rows, typename Vector>
PELTON_INLINE void put_aside(const Vector (&sums)[num_rows][kVectors]) {
  __asm__ volatile("" : : "r"(&sums) : "memory");
}

// dots (+)= the products of `step` k groups of 16 channels.
template <int num_rows, int step, bool is_first>
PELTON_INLINE void multiply_bytes(const uint8_t* q, const int8_t* x, __m256i (&dots)[num_rows][kVectors]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[num_rows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) pairs[r][0] = pairs[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 1
  for (int i = 0; i < step; ++i, q += kLineBytes, x += 4) {
    const __m256i q0 = load_vector(q), q1 = load_vector(q + 32);
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      const __m256i x_r = broadcast_dword(x + r * kSlabSize);
      pairs[r][0] = _mm256_add_epi16(pairs[r][0], _mm256_maddubs_epi16(q0, x_r));
      pairs[r][1] = _mm256_add_epi16(pairs[r][1], _mm256_maddubs_epi16(q1, x_r));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256i widened = _mm256_madd_epi16(pairs[r][v], ones);
      dots[r][v] = is_first ? widened : _mm256_add_epi32(dots[r][v], widened);
    }
  }
}

// All k groups [first, end) that share one scale.
template <Layout layout, int num_rows, int first, int end>
PELTON_INLINE void multiply_parts(const uint8_t* q, const int8_t* x, __m256i (&dots)[num_rows][kVectors]) {
  constexpr int step = groups_per_widening(layout);
  constexpr bool is_first = first % (kIntegerLines / num_halves_of(layout)) == 0;
  multiply_bytes<num_rows, step, is_first>(q + first * kLineBytes, x + 4 * first, dots);
  if constexpr (first + step < end) {
    put_aside(dots);
    multiply_parts<layout, num_rows, first + step, end>(q, x, dots);
  }
}

// value += the products of the part of tile `t` that shares one scale, for channels [c, c + 16).
template <Layout layout, int num_rows, int half>
PELTON_INLINE void multiply_half(const ExpandedSlab& slab, int t, int c, const SlabRows& rows,
                                 __m256 (&value)[num_rows][kVectors]) {
  const ExpandedTile& tile = slab.tiles[t];
  const uint8_t* integers = slab.integers[t] + 4 * c;
  __m256i dots[num_rows][kVectors];
  put_aside(value);
  if constexpr (integer_bits(layout) == 8) {
    multiply_words<num_rows>(integers, t, rows, dots);
  } else {
    constexpr int num_groups = kIntegerLines / num_halves_of(layout);
    multiply_parts<layout, num_rows, half * num_groups, (half + 1) * num_groups>(
        integers, rows.values + t * kTileSize, dots);
  }
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
    const int32_t* sums = rows.sums16 + 2 * (r * kSlabTiles + t);
    const int32_t negated_sum = has_halves(layout.form) ? sums[half] : sums[0] + sums[1];
    const int32_t shift = rows.shifts[r * kSlabTiles + t];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      __m256i dot = dots[r][v];
      if constexpr (has_zeros(layout.form)) {
        const __m256i zeros = load_vector(tile.zeros + c + 8 * v);
        dot = _mm256_add_epi32(dot, _mm256_mullo_epi32(zeros, _mm256_set1_epi32(negated_sum)));
      } else if constexpr (layout.zero_shift != 0) {
        dot = _mm256_add_epi32(dot, _mm256_set1_epi32(negated_sum * (1 << layout.zero_shift)));
      }
      dot = _mm256_sll_epi32(dot, _mm_cvtsi32_si128(shift));
      const __m256 scale = _mm256_load_ps(tile.scales[half] + c + 8 * v);
      value[r][v] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dot), value[r][v]);
      if constexpr (has_min(layout.form)) {
        const __m256 minimum = _mm256_load_ps(tile.mins[half] + c + 8 * v);
        const __m256 sum = _mm256_set1_ps(static_cast<float>(negated_sum * (1 << shift)));
        value[r][v] = _mm256_fmadd_ps(minimum, sum, value[r][v]);
      }
    }
  }
}

template <Layout layout, int num_rows>
__attribute__((noinline)) void multiply_slab(const ExpandedSlab& slab, const SlabRows& rows) {
#pragma GCC unroll 1
  for (int c = 0; c < kStripChannels; c += 8 * kVectors) {
    __m256 value[num_rows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) value[r][0] = value[r][1] = _mm256_setzero_ps();
#pragma GCC unroll 1
    for (int t = 0; t < slab.num_tiles; ++t) {
      multiply_half<layout, num_rows, 0>(slab, t, c, rows, value);
      if constexpr (has_halves(layout.form)) multiply_half<layout, num_rows, 1>(slab, t, c, rows, value);
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      const __m256 x_scale = _mm256_set1_ps(rows.scales[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* total = rows.totals + r * kStripChannels + c + 8 * v;
        _mm256_store_ps(total, _mm256_fmadd_ps(value[r][v], x_scale, _mm256_load_ps(total)));
      }
    }
  }
}

// Even and odd k of the tiles of a row's slab, [16] each.
PELTON_INLINE void widen_values(const int8_t* values, int16_t (&wide)[kSlabTiles][2][16]) {
  for (int t = 0; t < kSlabTiles; ++t) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + t * kTileSize));
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), odd = _mm256_srai_epi16(bytes, 8);
    _mm256_store_si256(reinterpret_cast<__m256i*>(wide[t][0]), even);
    _mm256_store_si256(reinterpret_cast<__m256i*>(wide[t][1]), odd);
  }
}

using SlabKernel = void (*)(const ExpandedSlab&, const SlabRows&);

// Entry i multiplies i + 1 rows.
template <Layout layout>
constexpr auto slab_kernels() {
  return []<int... rows>(std::integer_sequence<int, rows...>) {
    return std::array<SlabKernel, sizeof...(rows)>{multiply_slab<layout, rows + 1>...};
  }(std::make_integer_sequence<int, max_rows(layout)>{});
}

template <Scheme scheme>
void multiply_block_strip(const Linear& linear, int strip, void* scratch) {
  constexpr Layout layout = layout_of(scheme);
  constexpr int64_t most_rows = max_rows(layout);
  static constexpr auto kKernels = slab_kernels<layout>();
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  const Activation& x = linear.x;
  float* totals = split_scratch(scratch).sums;
  const int64_t num_tiles = num_tiles_of(x.row_size);
  ExpandedSlab slab;
  alignas(32) int16_t wide[most_rows][kSlabTiles][2][16];
  for (int64_t first_row = 0; first_row < x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t first = 0, index = 0; first < num_tiles; first += kSlabTiles, ++index) {
      slab.num_tiles = static_cast<int>(std::min<int64_t>(kSlabTiles, num_tiles - first));
      for (int t = 0; t < slab.num_tiles; ++t) {
        const uint8_t* super = data + super_offset(scheme, first + t);
        slab.integers[t] = expand_tile<layout>(data + tile_offset(scheme, first + t), super, slab.tiles[t]);
      }
      for (int64_t row = 0; row < num_rows; row += most_rows) {
        const int64_t block_rows = std::min<int64_t>(most_rows, num_rows - row);
        const int64_t place = index * x.num_rows + first_row + row;
        const SlabRows rows{static_cast<const int8_t*>(x.values) + place * kSlabSize,
                            x.scales + place,
                            x.shifts + place * kSlabTiles,
                            x.sums16 + place * 2 * kSlabTiles,
                            totals + row * kStripChannels,
                            wide};
        if constexpr (integer_bits(layout) == 8) {
          for (int64_t r = 0; r < block_rows; ++r) widen_values(rows.values + r * kSlabSize, wide[r]);
        }
        kKernels[static_cast<size_t>(block_rows - 1)](slab, rows);
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace
}  // namespace pelton
