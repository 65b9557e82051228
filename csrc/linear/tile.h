// One packed tile taken apart with plain loops: the inverse of pack.cc, and the oracle of the vector kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/float_formats.h"
#include "linear/layout.h"

namespace pelton {

struct Tile {
  uint8_t integers[kIntegerLines][kLineBytes];  // q, [kgroup][channel * 4 + k % 4]
  float scales[2][kStripChannels];              // per 16 k; both halves alike where the scheme has one scale per 32
  float mins[2][kStripChannels];                // subtracted; zero where the scheme has none
  int32_t zeros[kStripChannels];
};

// Line by line: loops over neighbouring bytes, of which any compiler makes vectors.
static inline void unpack_integers(int bits, const uint8_t* lines, uint8_t out[kIntegerLines][kLineBytes]) {
  const auto fill = [out](int i, auto&& value) {
    for (int b = 0; b < kLineBytes; ++b) out[i][b] = static_cast<uint8_t>(value(b));
  };
  const auto line = [lines](int i) { return lines + i * kLineBytes; };
  const int low_bits = (1 << bits) - 1;
  if (bits == 4) {
    for (int i = 0; i < 4; ++i) {
      fill(2 * i, [from = line(i)](int b) { return from[b] & 15; });
      fill(2 * i + 1, [from = line(i)](int b) { return from[b] >> 4; });
    }
    return;
  }
  for (int i = 0; i < bits; ++i) fill(i, [from = line(i), low_bits](int b) { return from[b] & low_bits; });
  const uint8_t *l0 = line(0), *l1 = line(1), *l2 = line(2), *l3 = line(3), *l4 = line(4), *l5 = line(5);
  if (bits == 5) {
    fill(5, [=](int b) { return l0[b] >> 5 | l1[b] >> 6 << 3; });
    fill(6, [=](int b) { return l2[b] >> 5 | l3[b] >> 6 << 3; });
    fill(7, [=](int b) { return l4[b] >> 5 | (l1[b] >> 5 & 1) << 3 | (l3[b] >> 5 & 1) << 4; });
  } else if (bits == 6) {
    fill(6, [=](int b) { return l0[b] >> 6 | l1[b] >> 6 << 2 | l2[b] >> 6 << 4; });
    fill(7, [=](int b) { return l3[b] >> 6 | l4[b] >> 6 << 2 | l5[b] >> 6 << 4; });
  }
}

static inline float half_at(const uint8_t* halves, int index) {
  uint16_t half;
  std::memcpy(&half, halves + 2 * index, 2);
  return half_to_float(half);
}

static inline void look_up(Codebook codebook, uint8_t integers[kIntegerLines][kLineBytes]) {
  if (codebook == Codebook::None) return;
  for (int i = 0; i < kIntegerLines; ++i) {
    for (int b = 0; b < kLineBytes; ++b) integers[i][b] = codebook_values(codebook)[integers[i][b]];
  }
}

// Where the float scales and zero points of groups are.
static inline const uint8_t* group_scales(ScaleForm form, const uint8_t* src, const uint8_t* super) {
  return form == ScaleForm::SlabZero ? super : src;
}

static inline void unpack_zeros(const Layout& layout, const uint8_t* src, const uint8_t* super, Tile& tile) {
  const uint8_t* zeros = group_scales(layout.form, src, super) + sizeof(float) * kStripChannels;
  for (int c = 0; c < kStripChannels; ++c) {
    tile.zeros[c] = has_zeros(layout.form) ? zeros[c] : layout.zero_shift == 0 ? 0 : 1 << layout.zero_shift;
  }
}

// 64 halves, or 64 small integers times 64 halves.
static inline void unpack_halves(const uint8_t* halves, float out[kStripChannels]) {
  for (int c = 0; c < kStripChannels; ++c) out[c] = half_at(halves, c);
}

template <typename Integer>
static inline void unpack_products(const float factors[kStripChannels], const uint8_t* integers,
                                   float out[kStripChannels]) {
  for (int c = 0; c < kStripChannels; ++c) out[c] = factors[c] * static_cast<float>(static_cast<Integer>(integers[c]));
}

// The scales and minima of `half`. `super` is read by forms that share scales between tiles only.
static inline void unpack_half_scales(ScaleForm form, const uint8_t* src, const uint8_t* super, int half, Tile& tile) {
  float* scales = tile.scales[half];
  const int num_halves = has_halves(form) ? 2 : 1;
  const int stored = has_halves(form) ? half : 0;
  if (has_zeros(form)) {
    std::memcpy(scales, group_scales(form, src, super), sizeof(tile.scales[half]));
  } else if (form == ScaleForm::Exponent32) {
    for (int c = 0; c < kStripChannels; ++c) scales[c] = exponent_to_half_float(src[c]);
  } else if (is_super(form)) {
    float factors[kStripChannels];
    unpack_halves(super, factors);
    const auto unpack = has_signed_scales(form) ? unpack_products<int8_t> : unpack_products<uint8_t>;
    unpack(factors, src + stored * kStripChannels, scales);
    if (!has_min(form)) return;
    unpack_halves(super + 2 * kStripChannels, factors);
    unpack_products<uint8_t>(factors, src + (num_halves + stored) * kStripChannels, tile.mins[half]);
  } else {
    unpack_halves(src, scales);
    if (has_min(form)) unpack_halves(src + 2 * kStripChannels, tile.mins[half]);
  }
}

static inline void unpack_scales(ScaleForm form, const uint8_t* src, const uint8_t* super, Tile& tile) {
  std::memset(tile.mins, 0, sizeof(tile.mins));
  unpack_half_scales(form, src, super, 0, tile);
  if (has_halves(form)) return unpack_half_scales(form, src, super, 1, tile);
  std::memcpy(tile.scales[1], tile.scales[0], sizeof(tile.scales[0]));
  std::memcpy(tile.mins[1], tile.mins[0], sizeof(tile.mins[0]));
}

static inline void unpack_tile(const Layout& layout, const uint8_t* src, const uint8_t* super, Tile& tile) {
  unpack_integers(layout.bits, src, tile.integers);
  look_up(layout.codebook, tile.integers);
  unpack_scales(layout.form, src + integer_bytes(layout), super, tile);
  unpack_zeros(layout, src + integer_bytes(layout), super, tile);
}

// weights[k][channel] in float32, exactly the values of the scheme.
static inline void unpack_floats(Scheme scheme, const uint8_t* src, const uint8_t* super,
                                 float weights[kTileSize][kStripChannels]) {
  if (scheme == Scheme::F32) {
    std::memcpy(weights, src, sizeof(float) * kTileSize * kStripChannels);
    return;
  }
  if (is_dense(scheme)) {
    for (int k = 0; k < kTileSize; ++k) {
      for (int c = 0; c < kStripChannels; ++c) {
        const bool is_half = scheme == Scheme::F16;
        const int place = is_half ? k * kStripChannels + c : (k / 2 * kStripChannels + c) * 2 + k % 2;
        uint16_t bits;
        std::memcpy(&bits, src + 2 * place, 2);
        weights[k][c] = is_half ? half_to_float(bits) : bfloat16_to_float(bits);
      }
    }
    return;
  }
  Tile tile;
  unpack_tile(layout_of(scheme), src, super, tile);
  for (int k = 0; k < kTileSize; ++k) {
    for (int c = 0; c < kStripChannels; ++c) {
      const int q = tile.integers[k / 4][4 * c + k % 4];
      weights[k][c] = tile.scales[k / 16][c] * static_cast<float>(q - tile.zeros[c]) - tile.mins[k / 16][c];
    }
  }
}

}  // namespace pelton
