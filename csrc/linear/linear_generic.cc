// The readable kernels: a tile is unpacked, then multiplied with every row of the pass.
#include "linear/linear.h"
#include "linear/strip.h"
#include "linear/tile.h"

namespace pelton {
namespace {

// value[c] += the product of one row's tile with an integer tile. `sums16` are the negated sums of the activation.
void multiply_int8(const Layout& layout, const Tile& tile, const int8_t* x, int32_t shift, const int32_t* sums16,
                   float* value) {
  const int num_groups = has_halves(layout.form) ? 2 : 1;
  const int group_size = kTileSize / num_groups;
  for (int c = 0; c < kStripChannels; ++c) {
    for (int group = 0; group < num_groups; ++group) {
      const int32_t negated_sum = num_groups == 2 ? sums16[group] : sums16[0] + sums16[1];
      int32_t dot = negated_sum * tile.zeros[c];
      for (int k = group * group_size; k < (group + 1) * group_size; ++k) {
        dot += x[k] * tile.integers[k / 4][4 * c + k % 4];
      }
      value[c] += tile.scales[group][c] * static_cast<float>(dot * (1 << shift));
      if (has_min(layout.form)) value[c] += tile.mins[group][c] * static_cast<float>(negated_sum * (1 << shift));
    }
  }
}

void multiply_floats(const float weights[kTileSize][kStripChannels], const float* x, float* sums) {
  for (int k = 0; k < kTileSize; ++k) {
    for (int c = 0; c < kStripChannels; ++c) sums[c] += x[k] * weights[k][c];
  }
}

void load_row(const Activation& x, int64_t tile, int64_t row, float out[kTileSize]) {
  const int64_t place = (tile / kSlabTiles * x.num_rows + row) * kSlabSize + tile % kSlabTiles * kTileSize;
  for (int k = 0; k < kTileSize; ++k) {
    out[k] = x.kind == ActivationKind::BFloat16 ? bfloat16_to_float(static_cast<const uint16_t*>(x.values)[place + k])
                                                : static_cast<const float*>(x.values)[place + k];
  }
}

void accumulate_int8(const Linear& linear, const uint8_t* strip, int64_t first_row, int64_t num_rows, float* sums) {
  const Scheme scheme = linear.weight->scheme;
  const Layout layout = layout_of(scheme);
  const Activation& x = linear.x;
  Tile tiles[kSlabTiles];
  const int64_t num_tiles = num_tiles_of(x.row_size);
  for (int64_t first = 0, slab = 0; first < num_tiles; first += kSlabTiles, ++slab) {
    const int64_t count = std::min<int64_t>(kSlabTiles, num_tiles - first);
    for (int64_t t = 0; t < count; ++t) {
      unpack_tile(layout, strip + tile_offset(scheme, first + t), strip + super_offset(scheme, first + t), tiles[t]);
    }
    for (int64_t row = 0; row < num_rows; ++row) {
      const int64_t place = slab * x.num_rows + first_row + row;
      float value[kStripChannels] = {};
      for (int64_t t = 0; t < count; ++t) {
        const int64_t at = place * kSlabTiles + t;
        multiply_int8(layout, tiles[t], static_cast<const int8_t*>(x.values) + at * kTileSize, x.shifts[at],
                      x.sums16 + 2 * at, value);
      }
      for (int c = 0; c < kStripChannels; ++c) sums[row * kStripChannels + c] += value[c] * x.scales[place];
    }
  }
}

void accumulate_floats(const Linear& linear, const uint8_t* strip, int64_t first_row, int64_t num_rows, float* sums) {
  const Scheme scheme = linear.weight->scheme;
  float weights[kTileSize][kStripChannels];
  float x_row[kTileSize];
  for (int64_t t = 0; t < num_tiles_of(linear.x.row_size); ++t) {
    unpack_floats(scheme, strip + tile_offset(scheme, t), strip + super_offset(scheme, t), weights);
    for (int64_t row = 0; row < num_rows; ++row) {
      load_row(linear.x, t, first_row + row, x_row);
      multiply_floats(weights, x_row, sums + row * kStripChannels);
    }
  }
}

}  // namespace

void linear_strip_generic(const Linear& linear, int strip, void* scratch) {
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  float* sums = split_scratch(scratch).sums;
  for (int64_t first = 0; first < linear.x.num_rows; first += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, linear.x.num_rows - first);
    std::fill_n(sums, num_rows * kStripChannels, 0.0f);
    const auto accumulate = is_int8(linear.x.kind) ? accumulate_int8 : accumulate_floats;
    accumulate(linear, data, first, num_rows, sums);
    write_outputs(linear, strip, first, num_rows, sums);
  }
}

}  // namespace pelton
