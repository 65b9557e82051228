// The kernels for any machine, and the readable ones: a tile is unpacked once, then multiplied with every row of the
// pass, in plain loops over 64 neighbouring channels, of which a compiler makes vectors.
#include "linear/linear.h"
#include "linear/strip.h"
#include "linear/tile.h"

namespace pelton {
namespace {

// The integers of a tile with neighbouring channels side by side: [k][channel].
struct Columns {
  int16_t q[kTileSize][kStripChannels];
};

void fill_columns(const Tile& tile, Columns& columns) {
  for (int kgroup = 0; kgroup < kIntegerLines; ++kgroup) {
    for (int i = 0; i < 4; ++i) {
      for (int c = 0; c < kStripChannels; ++c) columns.q[4 * kgroup + i][c] = tile.integers[kgroup][4 * c + i];
    }
  }
}

// How many products of an activation (at most 127) and an integer of so many bits an int16 holds the sum of.
int products_that_fit(int bits) { return bits == 4 ? 16 : bits == 5 ? 8 : bits == 6 ? 4 : 1; }

// dots[c] += x * q for `count` k, a multiple of 4 that fits.
void add_small_products(const int8_t* x, const int16_t q[][kStripChannels], int count, int32_t* dots) {
  int16_t sums[kStripChannels] = {};
  for (int k = 0; k < count; k += 4) {
    const int16_t x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
    for (int c = 0; c < kStripChannels; ++c) {
      sums[c] = static_cast<int16_t>(sums[c] + x0 * q[k][c] + x1 * q[k + 1][c] + x2 * q[k + 2][c] + x3 * q[k + 3][c]);
    }
  }
  for (int c = 0; c < kStripChannels; ++c) dots[c] += sums[c];
}

void add_products(const int8_t* x, const int16_t q[][kStripChannels], int count, int32_t* dots) {
  for (int k = 0; k < count; k += 2) {
    const int16_t x0 = x[k], x1 = x[k + 1];
    for (int c = 0; c < kStripChannels; ++c) dots[c] += x0 * q[k][c] + x1 * q[k + 1][c];
  }
}

// value[c] += the product of one row's tile with an integer tile. `sums16` are the negated sums of the activation.
void multiply_int8(const Layout& layout, const Tile& tile, const Columns& columns, const int8_t* x, int32_t shift,
                   const int32_t* sums16, float* value) {
  const int num_groups = has_halves(layout.form) ? 2 : 1;
  const int group_size = kTileSize / num_groups;
  const int step = products_that_fit(integer_bits(layout));
  for (int group = 0; group < num_groups; ++group) {
    const int32_t negated_sum = num_groups == 2 ? sums16[group] : sums16[0] + sums16[1];
    const int first = group * group_size;
    int32_t dots[kStripChannels];
    for (int c = 0; c < kStripChannels; ++c) dots[c] = negated_sum * tile.zeros[c];
    if (step == 1) {
      add_products(x + first, columns.q + first, group_size, dots);
    } else {
      for (int k = first; k < first + group_size; k += step) add_small_products(x + k, columns.q + k, step, dots);
    }
    for (int c = 0; c < kStripChannels; ++c) value[c] += tile.scales[group][c] * static_cast<float>(dots[c] << shift);
    if (!has_min(layout.form)) continue;
    const auto sum = static_cast<float>(negated_sum << shift);
    for (int c = 0; c < kStripChannels; ++c) value[c] += tile.mins[group][c] * sum;
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
  Columns columns[kSlabTiles];
  const int64_t num_tiles = num_tiles_of(x.row_size);
  for (int64_t first = 0, slab = 0; first < num_tiles; first += kSlabTiles, ++slab) {
    const int64_t count = std::min<int64_t>(kSlabTiles, num_tiles - first);
    for (int64_t t = 0; t < count; ++t) {
      unpack_tile(layout, strip + tile_offset(scheme, first + t), strip + super_offset(scheme, first + t), tiles[t]);
      fill_columns(tiles[t], columns[t]);
    }
    for (int64_t row = 0; row < num_rows; ++row) {
      const int64_t place = slab * x.num_rows + first_row + row;
      float value[kStripChannels] = {};
      for (int64_t t = 0; t < count; ++t) {
        const int64_t at = place * kSlabTiles + t;
        multiply_int8(layout, tiles[t], columns[t], static_cast<const int8_t*>(x.values) + at * kTileSize, x.shifts[at],
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
