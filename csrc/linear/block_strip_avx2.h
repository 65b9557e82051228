// Integer weights with AVX2, in two ways:
//
//   to 6 bits  vpmaddubsw makes int16 sums of pairs: 2 * 127 * q leaves room to add 8, 4 and 2 k groups of 4-, 5- and
//              6-bit integers before vpmaddwd widens them
//   8 bits     pairs would overflow: the even and the odd k are widened to int16, and vpmaddwd multiplies those
//
// The int32 sums are the same as those of vpdpbusd. A slab is expanded to bytes once for all rows of the pass; then
// 1 row x 64 channels, 2 x 32, 3 or 4 x 16 are multiplied at a time, which are as many as 16 registers hold.
//
// Limit: per row and 8 channels a tile (512 operations) costs 8 multiplies of pairs and 1, 2 or 4 widenings, or 16 of
// int16, and one or two of floats; minima one more. At two multiplies a cycle that is 93 operations a cycle for Q4_K,
// 89 for Q5_0, 73 for Q6_K and 60 for Q8_0. An addition stands beside each multiply: some 60 % are reached (LOG.md).
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "linear/strip.h"
#include "linear/weights_avx2.h"

namespace pelton {
namespace {

// As many vectors of 8 channels as there are registers for. One row takes all 64 channels: it reads in order.
constexpr int num_vectors_of(int num_rows) { return num_rows == 1 ? 8 : num_rows == 2 ? 4 : 2; }

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
  bool are_first;  // of the pass: tiles to come are prefetched beside them
};

// Up to four tiles, expanded.
struct ExpandedSlab {
  int num_tiles;
  const uint8_t* integers[kSlabTiles];
  ExpandedTile tiles[kSlabTiles];
};

PELTON_INLINE __m256i load_vector(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

template <typename Vector, int num_rows, int num_vectors>
PELTON_INLINE void fill_zeros(Vector (&sums)[num_rows][num_vectors]) {
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < num_vectors; ++v) sums[r][v] = Vector{};
  }
}

PELTON_INLINE __m256i broadcast_dword(const void* from) {
  int32_t value;
  std::memcpy(&value, from, sizeof value);
  return _mm256_set1_epi32(value);
}

// dots = tile `t` of the rows times 8-bit integers, 8 channels a vector.
template <Layout layout, int num_rows, int num_vectors>
PELTON_INLINE void multiply_words(const uint8_t* q, int t, const SlabRows& rows, bool is_first,
                                  __m256i (&dots)[num_rows][num_vectors]) {
  const __m256i low_byte = _mm256_set1_epi16(255);
  fill_zeros(dots);
#pragma GCC unroll 1
  for (int kgroup = 0; kgroup < kIntegerLines; ++kgroup, q += kLineBytes) {
    if (layout.bits == 8 && is_first) prefetch_eighth<layout>(q - kgroup * kLineBytes, kgroup);
    __m256i x_even[num_rows], x_odd[num_rows];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      x_even[r] = broadcast_dword(rows.wide[r][t][0] + 2 * kgroup);
      x_odd[r] = broadcast_dword(rows.wide[r][t][1] + 2 * kgroup);
    }
#pragma GCC unroll 8
    for (int v = 0; v < num_vectors; ++v) {
      const __m256i bytes = load_vector(q + 32 * v);
      const __m256i even = _mm256_and_si256(bytes, low_byte), odd = _mm256_srli_epi16(bytes, 8);
#pragma GCC unroll 4
      for (int r = 0; r < num_rows; ++r) {
        dots[r][v] = _mm256_add_epi32(dots[r][v], _mm256_madd_epi16(even, x_even[r]));
        dots[r][v] = _mm256_add_epi32(dots[r][v], _mm256_madd_epi16(odd, x_odd[r]));
      }
    }
  }
}

// Sums that wait in memory while the registers are used for other ones: told to, gcc puts the right ones aside.
template <typename Sums>
PELTON_INLINE void put_aside(const Sums& sums) {
  __asm__ volatile("" : : "r"(&sums) : "memory");
}

// dots (+)= the products of `step` k groups, 8 channels a vector.
template <int step, bool is_first, int num_rows, int num_vectors>
PELTON_INLINE void multiply_bytes(const uint8_t* q, const int8_t* x, __m256i (&dots)[num_rows][num_vectors]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[num_rows][num_vectors];
  fill_zeros(pairs);
#pragma GCC unroll 1
  for (int i = 0; i < step; ++i, q += kLineBytes, x += 4) {
    __m256i x_rows[num_rows];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) x_rows[r] = broadcast_dword(x + r * kSlabSize);
#pragma GCC unroll 8
    for (int v = 0; v < num_vectors; ++v) {
      const __m256i bytes = load_vector(q + 32 * v);
#pragma GCC unroll 4
      for (int r = 0; r < num_rows; ++r) {
        pairs[r][v] = _mm256_add_epi16(pairs[r][v], _mm256_maddubs_epi16(bytes, x_rows[r]));
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < num_vectors; ++v) {
      const __m256i widened = _mm256_madd_epi16(pairs[r][v], ones);
      dots[r][v] = is_first ? widened : _mm256_add_epi32(dots[r][v], widened);
    }
  }
}

// All k groups [first, end) that share one scale.
template <Layout layout, int first, int end, int num_rows, int num_vectors>
PELTON_INLINE void multiply_parts(const uint8_t* q, const int8_t* x, __m256i (&dots)[num_rows][num_vectors]) {
  constexpr int step = groups_per_widening(layout);
  constexpr bool is_first = first % (kIntegerLines / num_halves_of(layout)) == 0;
  multiply_bytes<step, is_first>(q + first * kLineBytes, x + 4 * first, dots);
  if constexpr (first + step < end) {
    put_aside(dots);
    multiply_parts<layout, first + step, end>(q, x, dots);
  }
}

// value += the products of the part of tile `t` that shares one scale, for channels from c on.
template <Layout layout, int half, int num_rows, int num_vectors>
PELTON_INLINE void multiply_half(const ExpandedSlab& slab, int t, int c, const SlabRows& rows,
                                 __m256 (&value)[num_rows][num_vectors]) {
  const ExpandedTile& tile = slab.tiles[t];
  const uint8_t* integers = slab.integers[t] + 4 * c;
  __m256i dots[num_rows][num_vectors];
  put_aside(value);
  if constexpr (integer_bits(layout) == 8) {
    multiply_words<layout>(integers, t, rows, rows.are_first && c == 0, dots);
  } else {
    constexpr int num_groups = kIntegerLines / num_halves_of(layout);
    multiply_parts<layout, half * num_groups, (half + 1) * num_groups>(integers, rows.values + t * kTileSize, dots);
  }
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
    const int32_t* sums = rows.sums16 + 2 * (r * kSlabTiles + t);
    const int32_t negated_sum = has_halves(layout.form) ? sums[half] : sums[0] + sums[1];
    const int32_t shift = rows.shifts[r * kSlabTiles + t];
#pragma GCC unroll 8
    for (int v = 0; v < num_vectors; ++v) {
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
  constexpr int num_vectors = num_vectors_of(num_rows);
#pragma GCC unroll 1
  for (int c = 0; c < kStripChannels; c += 8 * num_vectors) {
    __m256 value[num_rows][num_vectors];
    fill_zeros(value);
#pragma GCC unroll 1
    for (int t = 0; t < slab.num_tiles; ++t) {
      multiply_half<layout, 0>(slab, t, c, rows, value);
      if constexpr (has_halves(layout.form)) multiply_half<layout, 1>(slab, t, c, rows, value);
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      const __m256 x_scale = _mm256_set1_ps(rows.scales[r]);
#pragma GCC unroll 8
      for (int v = 0; v < num_vectors; ++v) {
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
        const uint8_t* tile = data + tile_offset(scheme, first + t);
        slab.integers[t] = expand_tile<layout>(tile, data + super_offset(scheme, first + t), slab.tiles[t]);
      }
      for (int64_t row = 0; row < num_rows; row += most_rows) {
        const int64_t block_rows = std::min<int64_t>(most_rows, num_rows - row);
        const int64_t place = index * x.num_rows + first_row + row;
        const SlabRows rows{static_cast<const int8_t*>(x.values) + place * kSlabSize,
                            x.scales + place,
                            x.shifts + place * kSlabTiles,
                            x.sums16 + place * 2 * kSlabTiles,
                            totals + row * kStripChannels,
                            wide,
                            row == 0};
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
