// The left side of a linear: rows of float32, stored the way the weight's kernel reads them.
//
//   Int8      symmetric integers in [-127, 127], one float scale per 32 k (max |x| / 127), rounded to nearest even;
//             with the negated sums of the integers per 32 and per 16 k, which carry zero points and minima
//   Int8Pair  two rows of Int8 for each row of x, which the kernels multiply like any others: the second holds what the
//             first left over, with 1/254 of its scale. Their outputs are added: 15 bits for twice the arithmetic
//   BFloat16  rounded to nearest even
//   Float32   as given
//
//   values    [slab][stored row][128 k], zero beyond K;  scales, sums32  [slab][stored row][4];  sums16  [..][8]
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

// A group whose largest value is below this is stored as zeros: 127 / largest would overflow.
constexpr float kSmallestScaled = 0x1p-118f;

// Scale and inverse of a group from the largest magnitude, given as bits so that a NaN counts as the largest of all.
// A group with a NaN or an infinity gets the scale NaN, so that its row's outputs show it.
struct GroupScale {
  float scale, inverse;
};

static inline GroupScale group_scale(uint32_t largest_bits) {
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), 0.0f};
  return {largest / 127.0f, largest < kSmallestScaled ? 0.0f : 127.0f / largest};
}

// The scale of what a group's integers leave over: at most half a step, in 127 steps of its own.
static inline GroupScale remainder_scale(GroupScale group) {
  return {group.scale / 254.0f, group.inverse < 0x1p118f ? group.inverse * 254.0f : 0.0f};
}

struct Activation {
  ActivationKind kind;
  int64_t num_rows;  // stored
  int64_t row_size;  // K
  void* values;
  float* scales;     // Int8 and Int8Pair only, as are the sums
  int32_t* sums32;
  int32_t* sums16;
};

// Enough for any number of rows up to max_rows.
size_t activation_size_bytes(ActivationKind kind, int64_t max_rows, int64_t k);

// Lay out `num_rows` rows of x over `memory` (64-byte aligned). Writes nothing.
Activation make_activation(ActivationKind kind, int64_t num_rows, int64_t k, void* memory);

// Fill rows [row_begin, row_end) from x[row * x_stride + k]. Every instruction set gives the same integers.
void quantize_rows(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin, int64_t row_end);

// Fill tile `tile` (32 k) of one row from x[32], 64-byte aligned: the bits that quantize_rows would store there.
using QuantizeTile = void (*)(const Activation& activation, const float* x, int64_t row, int64_t tile);
QuantizeTile quantize_tile_kernel();  // for the instruction set in use

void quantize_tile_generic(const Activation& activation, const float* x, int64_t row, int64_t tile);
void quantize_tile_avx2(const Activation& activation, const float* x, int64_t row, int64_t tile);
void quantize_tile_avx512(const Activation& activation, const float* x, int64_t row, int64_t tile);

void quantize_rows_generic(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                           int64_t row_end);
void quantize_rows_avx2(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                        int64_t row_end);
void quantize_rows_avx512(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                          int64_t row_end);

}  // namespace pelton
