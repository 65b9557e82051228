// One slab (64 channels x 128 k) of an integer weight times a few rows, added to their sums.
//
// Two shapes of the same arithmetic, so that every row gets the same bits from either:
//   wide     1-3 rows x 64 channels: reads the slab in the order it lies in, which the hardware prefetcher follows
//   narrow   up to 12 rows x 16 channels at a time: an integer vector is unpacked once for all rows. Prefetches the
//            slab after the next into L2, spread over the tiles (the hardware prefetcher sees too few misses here, and
//            prefetching into L1 is slower). May also store the expanded bytes and float scales for other rows.
//
// Per row and 16 channels a slab costs 32 vpdpbusd, 4 multiplies by weight scales (8 with minima or two halves) and one by
// the row's scale, all on the same two ports: 86 % (78 %) of the vpdpbusd rate is the ceiling. The shift of a tile's dots
// runs on the others (a scale per tile would be a product: 80 %).
//
// The kernels must not be inlined into their callers: gcc 12 then keeps accumulator arrays in memory.
#pragma once

#include <array>
#include <utility>

#include "linear/weights_avx512.h"

namespace pelton {
namespace {

struct Slab {
  const uint8_t* tiles;
  const uint8_t* super;  // what its tiles share: d and dmin of the super-block, or scales and zero points
  const uint8_t* ahead;  // what to prefetch
  int num_tiles;         // 1 to 4
};

struct RowBlock {
  const int8_t* values;   // [row][128]
  const float* scales;    // [row]
  const int32_t* shifts;  // [row][4]
  const int32_t* sums;    // negated; [row][4] per 32 k, or [row][8] per 16 k
  float* totals;          // [row][64]
};

// The layout of a tile whose integers are bytes and whose scales are floats.
constexpr Layout expanded_layout(const Layout& layout) {
  if (has_zeros(layout.form)) return {8, ScaleForm::FloatZero32, 0};
  const ScaleForm form = has_halves(layout.form) ? (has_min(layout.form) ? ScaleForm::FloatMin16 : ScaleForm::Float16)
                                                 : (has_min(layout.form) ? ScaleForm::FloatMin32 : ScaleForm::Float32);
  return {8, form, layout.zero_shift};
}

// Two scales per tile need a third set of registers, so fewer rows fit.
constexpr int max_wide_rows(const Layout& layout) { return has_halves(layout.form) ? 2 : 3; }
constexpr int max_narrow_rows(const Layout& layout) { return has_halves(layout.form) ? 8 : 12; }

PELTON_INLINE __m512i broadcast_dword(const void* from) {
  int32_t value;
  __builtin_memcpy(&value, from, 4);
  return _mm512_set1_epi32(value);
}

// The int32 sum of a row starts with what its zero point contributes.
template <Layout layout>
PELTON_INLINE __m512i first_dot(const int32_t* negated_sum, __m512i zeros) {
  // Both fit 16 bits and zeros have nothing above: the other half of each pair multiplies to 0.
  if constexpr (has_zeros(layout.form)) return _mm512_madd_epi16(zeros, _mm512_set1_epi32(*negated_sum));
  if constexpr (layout.zero_shift == 0) return _mm512_setzero_si512();
  return _mm512_slli_epi32(_mm512_set1_epi32(*negated_sum), layout.zero_shift);
}

// Where the negated sum of row r, tile t, half h is.
template <Layout layout>
constexpr int sum_index(int row, int tile, int half) {
  return has_halves(layout.form) ? row * 2 * kSlabTiles + 2 * tile + half : row * kSlabTiles + tile;
}

// Times 2^shift.
PELTON_INLINE __m512i shifted(__m512i value, const int32_t* shift) {
  return _mm512_sllv_epi32(value, _mm512_set1_epi32(*shift));
}

// value += (scale * dot + min * negated_sum) * 2^shift
template <Layout layout>
PELTON_INLINE __m512 add_dot(__m512 value, __m512i dot, __m512 scale, __m512 minimum, const int32_t* shift,
                             const int32_t* negated_sum) {
  value = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(shifted(dot, shift)), value);
  if constexpr (has_min(layout.form)) {
    value = _mm512_fmadd_ps(minimum, _mm512_cvtepi32_ps(shifted(_mm512_set1_epi32(*negated_sum), shift)), value);
  }
  return value;
}

template <Layout layout>
constexpr int num_halves() {
  return has_halves(layout.form) ? 2 : 1;
}

// The part of a tile that shares one scale, for 64 channels: value += its products.
template <Layout layout, int num_rows, int half>
PELTON_INLINE void multiply_wide_half(const uint8_t* tile, const uint8_t* super, const int8_t* values,
                                      const int32_t* shifts, const int32_t* x_sums, __m512 (&value)[num_rows][4]) {
  constexpr int num_groups = kIntegerLines / num_halves<layout>();
  __m512i dots[num_rows][4];
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __m512i zeros = load_zeros<layout.form>(tile + integer_bytes(layout), super, c);
      dots[r][c] = first_dot<layout>(x_sums + sum_index<layout>(r, 0, half), zeros);
    }
  }
#pragma GCC unroll 8
  for (int kgroup = half * num_groups; kgroup < (half + 1) * num_groups; ++kgroup) {
    __m512i x[num_rows];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) x[r] = broadcast_dword(values + r * kSlabSize + 4 * kgroup);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __m512i q = load_integers<layout>(tile, kgroup, c);
#pragma GCC unroll 4
      for (int r = 0; r < num_rows; ++r) dots[r][c] = _mm512_dpbusd_epi32(dots[r][c], q, x[r]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 scale = load_scale<layout.form>(tile + integer_bytes(layout), super, half, c);
    const __m512 minimum = load_min<layout.form>(tile + integer_bytes(layout), super, half, c);
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
      const int32_t* x_sum = x_sums + sum_index<layout>(r, 0, half);
      value[r][c] = add_dot<layout>(value[r][c], dots[r][c], scale, minimum, shifts + r * kSlabTiles, x_sum);
    }
  }
}

template <Layout layout, int num_rows>
__attribute__((noinline)) void multiply_wide(const Slab& slab, const RowBlock& rows) {
  const uint8_t* tile = slab.tiles;
  const uint8_t* super = slab.super;
  const int8_t* values = rows.values;
  const int32_t* shifts = rows.shifts;
  const int32_t* x_sums = rows.sums;
  __m512 value[num_rows][4];
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) value[r][c] = _mm512_setzero_ps();
  }
#pragma GCC unroll 1
  for (int t = slab.num_tiles; t > 0; --t) {
    multiply_wide_half<layout, num_rows, 0>(tile, super, values, shifts, x_sums, value);
    if constexpr (has_halves(layout.form)) {
      multiply_wide_half<layout, num_rows, 1>(tile, super, values, shifts, x_sums, value);
    }
    tile += tile_bytes(layout);
    values += kTileSize;
    shifts += 1;
    x_sums += num_halves<layout>();
  }
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) {
    const __m512 x_scale = _mm512_set1_ps(rows.scales[r]);
    float* totals = rows.totals + r * kStripChannels;
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      _mm512_store_ps(totals + 16 * c, _mm512_fmadd_ps(value[r][c], x_scale, _mm512_load_ps(totals + 16 * c)));
    }
  }
}

enum class NarrowMode { Plain, Prefetch, PrefetchAndExpand };

// The part of a tile that shares one scale, for 16 channels. `expanded` is the tile's place in the scratch.
template <Layout layout, int num_rows, NarrowMode mode, int half>
PELTON_INLINE void multiply_narrow_half(const uint8_t* tile, const Slab& slab, const int8_t* values,
                                        const int32_t* shifts, const int32_t* x_sums, int c, uint8_t* expanded,
                                        __m512 (&value)[num_rows]) {
  constexpr int num_groups = kIntegerLines / num_halves<layout>();
  constexpr bool expands = mode == NarrowMode::PrefetchAndExpand;
  const __m512i zeros = load_zeros<layout.form>(tile + integer_bytes(layout), slab.super, c);
  __m512i dots[num_rows];
#pragma GCC unroll 16
  for (int r = 0; r < num_rows; ++r) dots[r] = first_dot<layout>(x_sums + sum_index<layout>(r, 0, half), zeros);
#pragma GCC unroll 8
  for (int kgroup = half * num_groups; kgroup < (half + 1) * num_groups; ++kgroup) {
    const __m512i q = load_integers<layout>(tile, kgroup, c);
    if constexpr (expands) _mm512_store_si512(expanded + kgroup * kLineBytes + 64 * c, q);
#pragma GCC unroll 16
    for (int r = 0; r < num_rows; ++r) {
      dots[r] = _mm512_dpbusd_epi32(dots[r], q, broadcast_dword(values + r * kSlabSize + 4 * kgroup));
    }
  }
  const __m512 scale = load_scale<layout.form>(tile + integer_bytes(layout), slab.super, half, c);
  const __m512 minimum = load_min<layout.form>(tile + integer_bytes(layout), slab.super, half, c);
  if constexpr (expands) {
    float* scales = reinterpret_cast<float*>(expanded + kIntegerLines * kLineBytes) + half * kStripChannels + 16 * c;
    _mm512_store_ps(scales, scale);
    if constexpr (has_min(layout.form)) _mm512_store_ps(scales + num_halves<layout>() * kStripChannels, minimum);
    if constexpr (has_zeros(layout.form)) {
      uint8_t* places = expanded + integer_bytes(expanded_layout(layout)) + sizeof(float) * kStripChannels + 16 * c;
      _mm_store_si128(reinterpret_cast<__m128i*>(places), _mm512_cvtepi32_epi8(zeros));
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < num_rows; ++r) {
    const int32_t* x_sum = x_sums + sum_index<layout>(r, 0, half);
    value[r] = add_dot<layout>(value[r], dots[r], scale, minimum, shifts + r * kSlabTiles, x_sum);
  }
}

template <Layout layout, int num_rows, NarrowMode mode>
__attribute__((noinline)) void multiply_narrow(const Slab& slab, const RowBlock& rows, uint8_t* expanded_slab) {
  constexpr int prefetch_lines = (tile_bytes(layout) + 4 * 64 - 1) / (4 * 64);  // per tile and column
  const uint8_t* ahead = slab.ahead;
#pragma GCC unroll 1
  for (int c = 0; c < 4; ++c) {
    const uint8_t* tile = slab.tiles;
    uint8_t* expanded = expanded_slab;
    const int8_t* values = rows.values;
    const int32_t* shifts = rows.shifts;
    const int32_t* x_sums = rows.sums;
    __m512 value[num_rows];
#pragma GCC unroll 16
    for (int r = 0; r < num_rows; ++r) value[r] = _mm512_setzero_ps();
#pragma GCC unroll 1
    for (int t = slab.num_tiles; t > 0; --t) {
      if constexpr (mode != NarrowMode::Plain) {
#pragma GCC unroll 16
        for (int i = 0; i < prefetch_lines; ++i) {
          _mm_prefetch(reinterpret_cast<const char*>(ahead) + 64 * i, _MM_HINT_T1);
        }
        ahead += 64 * prefetch_lines;
      }
      multiply_narrow_half<layout, num_rows, mode, 0>(tile, slab, values, shifts, x_sums, c, expanded, value);
      if constexpr (has_halves(layout.form)) {
        multiply_narrow_half<layout, num_rows, mode, 1>(tile, slab, values, shifts, x_sums, c, expanded, value);
      }
      tile += tile_bytes(layout);
      expanded += tile_bytes(expanded_layout(layout));
      values += kTileSize;
      shifts += 1;
      x_sums += num_halves<layout>();
    }
#pragma GCC unroll 16
    for (int r = 0; r < num_rows; ++r) {
      float* totals = rows.totals + r * kStripChannels + 16 * c;
      _mm512_store_ps(totals, _mm512_fmadd_ps(value[r], _mm512_set1_ps(rows.scales[r]), _mm512_load_ps(totals)));
    }
  }
}

using WideKernel = void (*)(const Slab&, const RowBlock&);
using NarrowKernel = void (*)(const Slab&, const RowBlock&, uint8_t*);

// Entry i multiplies i + 1 rows.
template <Layout layout>
constexpr auto wide_kernels() {
  return []<int... rows>(std::integer_sequence<int, rows...>) {
    return std::array<WideKernel, sizeof...(rows)>{multiply_wide<layout, rows + 1>...};
  }(std::make_integer_sequence<int, max_wide_rows(layout)>{});
}

template <Layout layout, NarrowMode mode>
constexpr auto narrow_kernels() {
  return []<int... rows>(std::integer_sequence<int, rows...>) {
    return std::array<NarrowKernel, sizeof...(rows)>{multiply_narrow<layout, rows + 1, mode>...};
  }(std::make_integer_sequence<int, max_narrow_rows(layout)>{});
}

}  // namespace
}  // namespace pelton
