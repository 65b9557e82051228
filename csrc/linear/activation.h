// The left side of a linear: rows of float32, stored the way the weight's kernel reads them.
//
//   Int8      symmetric integers in [-127, 127], rounded to nearest even. A slab of 128 k has one float scale, and each
//             of its tiles of 32 k a shift: a step of a tile is scale * 2^shift. The tile with the largest value gets the
//             step max |x| / 127; the others get that step halved as often as their values allow, up to 10 times. So
//             kernels multiply by the scale once per slab, and by powers of two, which cost nothing beside vpdpbusd.
//             With the negated sums of the integers per 32 and per 16 k, which carry zero points and minima
//   Int8Pair  two rows of Int8 for each row of x, which the kernels multiply like any others: the second holds what the
//             first left over, with 1/254 of its scale. Their outputs are added: 15 bits for twice the arithmetic
//   BFloat16  rounded to nearest even
//   Float32   as given
//
//   values    [slab][stored row][128 k], zero beyond K;  scales [slab][stored row];  shifts, sums32 [..][4];  sums16 [..][8]
//   threads   rows are independent: each thread may fill its own
//   cost      one pass over x, bound by memory
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace pelton {

enum class ActivationKind : uint8_t { Int8, Int8Pair, BFloat16, Float32 };

constexpr bool is_int8(ActivationKind kind) { return kind == ActivationKind::Int8 || kind == ActivationKind::Int8Pair; }
// Two int8 terms where one would do.
constexpr ActivationKind widened(ActivationKind kind) {
  return kind == ActivationKind::Int8 ? ActivationKind::Int8Pair : kind;
}
// Stored rows for each row of x.
constexpr int num_terms(ActivationKind kind) { return kind == ActivationKind::Int8Pair ? 2 : 1; }

constexpr int kTilesPerSlab = 4;
constexpr int kMaxShift = 10;
// A slab whose largest value is below this is stored as zeros: 127 / largest, times 2^10, would overflow.
constexpr float kSmallestScaled = 0x1p-100f;

// How the four tiles of a slab are stored: x = integer * scale * 2^shift.
struct SlabScale {
  float scale;
  float inverses[kTilesPerSlab];  // 1 / (scale * 2^shift)
  int32_t shifts[kTilesPerSlab];

  float step(int tile) const { return scale * static_cast<float>(1 << shifts[tile]); }
};

// From the largest magnitudes of the tiles, given as bits so that a NaN counts as the largest of all. A slab with a NaN
// or an infinity gets the scale NaN, so that its row's outputs show it.
static inline SlabScale slab_scale(const uint32_t (&largest_bits)[kTilesPerSlab]) {
  uint32_t most_bits = 0;
  for (const uint32_t bits : largest_bits) most_bits = bits > most_bits ? bits : most_bits;
  const float most = std::bit_cast<float>(most_bits);
  if (most_bits >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), {}, {}};
  if (most < kSmallestScaled) return {0.0f, {}, {}};
  SlabScale slab{most / 127.0f * 0x1p-10f, {}, {}};
  for (int t = 0; t < kTilesPerSlab; ++t) {
    // The bits of positive floats differ by 2^23 for every factor of two.
    const uint32_t halvings = (most_bits - largest_bits[t]) >> 23;
    slab.shifts[t] = kMaxShift - static_cast<int32_t>(halvings < kMaxShift ? halvings : kMaxShift);
    slab.inverses[t] = 127.0f / most * static_cast<float>(1 << (kMaxShift - slab.shifts[t]));
  }
  return slab;
}

// The scale of what a slab's integers leave over: at most half a step, in 127 steps of its own.
static inline SlabScale remainder_scale(SlabScale slab) {
  slab.scale /= 254.0f;
  for (float& inverse : slab.inverses) inverse = inverse < 0x1p118f ? inverse * 254.0f : 0.0f;
  return slab;
}

struct Activation {
  ActivationKind kind;
  int64_t num_rows;  // stored
  int64_t row_size;  // K
  void* values;
  float* scales;     // Int8 and Int8Pair only, as are shifts and sums
  int32_t* shifts;
  int32_t* sums32;
  int32_t* sums16;
};

// Enough for any number of rows up to max_rows.
size_t activation_size_bytes(ActivationKind kind, int64_t max_rows, int64_t k);

// Lay out `num_rows` rows of x over `memory` (64-byte aligned). Writes nothing.
Activation make_activation(ActivationKind kind, int64_t num_rows, int64_t k, void* memory);

// Fill rows [row_begin, row_end) from x[row * x_stride + k]. Every instruction set gives the same integers.
void quantize_rows(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin, int64_t row_end);

// The same for one slab of them, from x[row * x_stride + k - 128 * slab].
void quantize_slab(const Activation& activation, int64_t slab, const float* x, int64_t x_stride, int64_t row_begin,
                   int64_t row_end);

void quantize_slab_generic(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                           int64_t row_begin, int64_t row_end);
void quantize_slab_avx2(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                        int64_t row_begin, int64_t row_end);
void quantize_slab_avx512(const Activation& activation, int64_t slab, const float* x, int64_t x_stride,
                          int64_t row_begin, int64_t row_end);

}  // namespace pelton
