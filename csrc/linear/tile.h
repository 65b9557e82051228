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

static inline void unpack_integers(int bits, const uint8_t* lines, uint8_t out[kIntegerLines][kLineBytes]) {
  const auto line = [lines](int i, int b) { return lines[i * kLineBytes + b]; };
  const uint8_t low_bits = static_cast<uint8_t>((1 << bits) - 1);
  for (int b = 0; b < kLineBytes; ++b) {
    if (bits == 4) {
      for (int i = 0; i < kIntegerLines; ++i) out[i][b] = line(i / 2, b) >> (i % 2 * 4) & 15;
      continue;
    }
    for (int i = 0; i < bits; ++i) out[i][b] = line(i, b) & low_bits;
    if (bits == 5) {
      out[5][b] = static_cast<uint8_t>(line(0, b) >> 5 | line(1, b) >> 6 << 3);
      out[6][b] = static_cast<uint8_t>(line(2, b) >> 5 | line(3, b) >> 6 << 3);
      out[7][b] = static_cast<uint8_t>(line(4, b) >> 5 | (line(1, b) >> 5 & 1) << 3 | (line(3, b) >> 5 & 1) << 4);
    } else if (bits == 6) {
      out[6][b] = static_cast<uint8_t>(line(0, b) >> 6 | line(1, b) >> 6 << 2 | line(2, b) >> 6 << 4);
      out[7][b] = static_cast<uint8_t>(line(3, b) >> 6 | line(4, b) >> 6 << 2 | line(5, b) >> 6 << 4);
    }
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

// `super` is read by forms that share scales between tiles only.
static inline void unpack_scales(ScaleForm form, const uint8_t* src, const uint8_t* super, Tile& tile) {
  for (int half = 0; half < 2; ++half) {
    for (int c = 0; c < kStripChannels; ++c) {
      const int stored = has_halves(form) ? half * kStripChannels + c : c;
      const int num_stored = has_halves(form) ? 2 * kStripChannels : kStripChannels;
      float scale, minimum = 0.0f;
      if (has_zeros(form)) {
        std::memcpy(&scale, group_scales(form, src, super) + sizeof(float) * c, sizeof(float));
      } else if (form == ScaleForm::Exponent32) {
        scale = exponent_to_half_float(src[c]);
      } else if (is_super(form)) {
        const int integer = has_signed_scales(form) ? static_cast<int8_t>(src[stored]) : src[stored];
        scale = half_at(super, c) * static_cast<float>(integer);
        if (has_min(form)) minimum = half_at(super, kStripChannels + c) * static_cast<float>(src[num_stored + stored]);
      } else {
        scale = half_at(src, c);
        if (has_min(form)) minimum = half_at(src, kStripChannels + c);
      }
      tile.scales[half][c] = scale;
      tile.mins[half][c] = minimum;
    }
  }
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
