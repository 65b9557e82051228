// A strip of a block scheme: which kernel multiplies which rows of every slab.
//
//   1-3 rows     wide, straight from the packed slab
//   up to 24     narrow, in at most two blocks; the second finds the slab in L1
//   more         narrow for the first 12 rows, which also expands the slab to bytes and float scales in L1;
//                wide from there for the rest (half of those counts for schemes with two scales per tile)
#pragma once

#include "linear/slab_avx512.h"
#include "linear/strip.h"

namespace pelton {
namespace {

struct SlabRows {
  const Activation* x;
  bool has_halves;
  float* totals;

  // Rows from `row` of the pass on, for slab `slab`; `first_row` is where the pass begins.
  RowBlock at(int64_t slab, int64_t first_row, int64_t row) const {
    const int64_t place = slab * x->num_rows + first_row + row;
    const int32_t* sums = has_halves ? x->sums16 + place * 2 * kSlabTiles : x->sums32 + place * kSlabTiles;
    return {static_cast<const int8_t*>(x->values) + place * kSlabSize, x->scales + place,
            x->shifts + place * kSlabTiles, sums, totals + row * kStripChannels};
  }
};

template <Layout layout>
void multiply_rest(const Slab& slab, const SlabRows& rows, int64_t slab_index, int64_t first_row, int64_t row,
                   int64_t num_rows) {
  static constexpr auto kWide = wide_kernels<layout>();
  constexpr int64_t most = max_wide_rows(layout);
  while (row < num_rows) {
    const int64_t left = num_rows - row;
    const int64_t count = left == 4 && most == 3 ? 2 : std::min(left, most);  // 2 + 2 is faster than 3 + 1
    kWide[count - 1](slab, rows.at(slab_index, first_row, row));
    row += count;
  }
}

template <Layout layout>
void multiply_slab(const Slab& slab, const SlabRows& rows, int64_t slab_index, int64_t first_row, int64_t num_rows,
                   uint8_t* expanded) {
  constexpr int most = max_narrow_rows(layout);
  constexpr bool expands = layout.bits != 8;
  static constexpr auto kFirst = narrow_kernels<layout, NarrowMode::Prefetch>();
  static constexpr auto kSecond = narrow_kernels<layout, NarrowMode::Plain>();
  if (num_rows <= 2 * most) {
    const int64_t first_count = num_rows <= most ? num_rows : (num_rows + 1) / 2;
    kFirst[first_count - 1](slab, rows.at(slab_index, first_row, 0), nullptr);
    if (num_rows > most) {
      kSecond[num_rows - first_count - 1](slab, rows.at(slab_index, first_row, first_count), nullptr);
    }
    return;
  }
  if constexpr (expands) {
    multiply_narrow<layout, most, NarrowMode::PrefetchAndExpand>(slab, rows.at(slab_index, first_row, 0), expanded);
    const Slab bytes{expanded, nullptr, nullptr, slab.num_tiles};
    multiply_rest<expanded_layout(layout)>(bytes, rows, slab_index, first_row, most, num_rows);
  } else {
    kFirst[most - 1](slab, rows.at(slab_index, first_row, 0), nullptr);
    multiply_rest<layout>(slab, rows, slab_index, first_row, most, num_rows);
  }
}

template <Scheme scheme>
void multiply_block_strip(const Linear& linear, int strip, void* scratch) {
  constexpr Layout layout = layout_of(scheme);
  static constexpr auto kWide = wide_kernels<layout>();
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  const auto [expanded, totals] = split_scratch(scratch);
  const SlabRows rows{&linear.x, has_halves(layout.form), totals};
  const int64_t num_tiles = num_tiles_of(linear.x.row_size);
  for (int64_t first_row = 0; first_row < linear.x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, linear.x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t tile = 0, slab_index = 0; tile < num_tiles; tile += kSlabTiles, ++slab_index) {
      const uint8_t* tiles = data + tile_offset(scheme, tile);
      const Slab slab{tiles, data + super_offset(scheme, tile), tiles + 2 * kSlabTiles * tile_bytes(layout),
                      static_cast<int>(std::min<int64_t>(kSlabTiles, num_tiles - tile))};
      if (num_rows <= max_wide_rows(layout)) {
        kWide[num_rows - 1](slab, rows.at(slab_index, first_row, 0));
      } else {
        multiply_slab<layout>(slab, rows, slab_index, first_row, num_rows, expanded);
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace
}  // namespace pelton
