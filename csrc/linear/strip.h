// What the kernels of every instruction set share: how a strip is walked, and how its sums become outputs.
//
// Rows are multiplied in passes of at most 128, so that the sums [rows][64] of a pass stay in the L1 and L2 caches
// while the strip streams by once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "linear/layout.h"
#include "linear/linear.h"

namespace pelton {

constexpr int kMaxPassRows = 128;
// A slab expanded to bytes and float scales, or a tile expanded to float32; the first part of the scratch.
constexpr size_t kExpandedBytes = kSlabTiles * (kIntegerLines * kLineBytes + 16 * kStripChannels);
static_assert(kExpandedBytes >= sizeof(float) * kTileSize * kStripChannels);

struct Scratch {
  uint8_t* expanded;
  float* sums;  // [rows of the pass][64]
};

static inline Scratch split_scratch(void* scratch) {
  auto* bytes = static_cast<uint8_t*>(scratch);
  return {bytes, reinterpret_cast<float*>(bytes + kExpandedBytes)};
}

static inline __attribute__((always_inline)) void write_row(int num_channels, const float* sums, const float* bias,
                                                            const float* residual, float* y) {
  if (residual == nullptr) {
    for (int i = 0; i < num_channels; ++i) y[i] = sums[i] + bias[i];
  } else {
    for (int i = 0; i < num_channels; ++i) y[i] = (sums[i] + bias[i]) + residual[i];
  }
}

// Sums of pairs of stored rows, in place of the first half of the sums.
static inline void add_terms(int64_t num_rows, float* sums) {
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* pair = sums + 2 * row * kStripChannels;
    for (int i = 0; i < kStripChannels; ++i) sums[row * kStripChannels + i] = pair[i] + pair[kStripChannels + i];
  }
}

// y = sums + bias + residual for stored rows [first_row, first_row + num_rows); the sums are used up. A pass is even,
// so both terms of a row are in it.
static inline void write_outputs(const Linear& linear, int strip, int64_t first_row, int64_t num_rows, float* sums) {
  if (num_terms(linear.x.kind) == 2) {
    first_row /= 2;
    num_rows /= 2;
    add_terms(num_rows, sums);
  }
  const int64_t channel = static_cast<int64_t>(strip) * kStripChannels;
  const int num_channels = static_cast<int>(std::min<int64_t>(kStripChannels, linear.weight->num_rows - channel));
  alignas(64) float bias[kStripChannels] = {};
  if (linear.bias != nullptr) std::memcpy(bias, linear.bias + channel, sizeof(float) * num_channels);
  if (linear.gated) {
    float* y = linear.y + first_row * linear.y_stride + strip * kTileSize;
    return write_gated_kernel()(*linear.gated, sums, bias, num_rows, Rows{y, linear.y_stride});
  }
  for (int64_t row = first_row; row < first_row + num_rows; ++row, sums += kStripChannels) {
    float* y = linear.y + row * linear.y_stride + channel;
    const float* residual =
        linear.residual == nullptr ? nullptr : linear.residual + row * linear.residual_stride + channel;
    if (num_channels == kStripChannels) {
      write_row(kStripChannels, sums, bias, residual, y);
    } else {
      write_row(num_channels, sums, bias, residual, y);
    }
  }
}

}  // namespace pelton
