// Sixteen floats at a time, in plain arithmetic: the compiler makes SSE, AVX2 or AVX-512 of it, file by file.
//
// One body per op is written with these and compiled once per instruction set (x_generic.cc, x_avx2.cc, x_avx512.cc).
// Products and sums are never fused and every reduction has one fixed tree, so all of them give the same bits.
// Everything has internal linkage on purpose: the linker must not choose one file's copy for another.
//
// Accuracy (test_elementwise.py): tanh 5e-7 of itself, the activations 5e-7 of |x|, over the whole range.
#pragma once

#include <cstdint>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"           // lanes are never passed across files
#pragma GCC diagnostic ignored "-Wunused-function"  // each op uses some of these

#define PELTON_INLINE static inline __attribute__((always_inline))

namespace pelton {

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t LanesInt __attribute__((vector_size(64)));
typedef uint32_t LanesUInt __attribute__((vector_size(64)));

PELTON_INLINE Lanes lanes_of(float value) { return value - Lanes{}; }

PELTON_INLINE Lanes load_lanes(const float* from) {
  Lanes x;
  memcpy(&x, from, sizeof x);
  return x;
}

PELTON_INLINE void store_lanes(float* to, Lanes x) { memcpy(to, &x, sizeof x); }

// The first `count` floats, zeros behind them.
PELTON_INLINE Lanes load_some(const float* from, int64_t count) {
  Lanes x{};
  memcpy(&x, from, static_cast<size_t>(count) * sizeof(float));
  return x;
}

PELTON_INLINE void store_some(float* to, Lanes x, int64_t count) {
  memcpy(to, &x, static_cast<size_t>(count) * sizeof(float));
}

typedef float HalfLanes __attribute__((vector_size(32)));
typedef float QuarterLanes __attribute__((vector_size(16)));

PELTON_INLINE HalfLanes low_half(Lanes x) { return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7); }
PELTON_INLINE HalfLanes high_half(Lanes x) { return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15); }
PELTON_INLINE QuarterLanes low_half(HalfLanes x) { return __builtin_shufflevector(x, x, 0, 1, 2, 3); }
PELTON_INLINE QuarterLanes high_half(HalfLanes x) { return __builtin_shufflevector(x, x, 4, 5, 6, 7); }

// Pairs 8 apart, then 4, 2, 1: the tree of every sum over lanes.
PELTON_INLINE float sum_lanes(Lanes x) {
  const HalfLanes eight = low_half(x) + high_half(x);
  const QuarterLanes four = low_half(eight) + high_half(eight);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// Where one of them is not a number: b. So a bound is given as `a`, and nan goes through.
PELTON_INLINE Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
PELTON_INLINE Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }

PELTON_INLINE float max_lanes(Lanes x) {
  const HalfLanes a = low_half(x), b = high_half(x);
  const HalfLanes eight = a > b ? a : b;
  const QuarterLanes c = low_half(eight), d = high_half(eight);
  const QuarterLanes four = c > d ? c : d;
  const float even = four[0] > four[2] ? four[0] : four[2], odd = four[1] > four[3] ? four[1] : four[3];
  return even > odd ? even : odd;
}

PELTON_INLINE Lanes as_lanes(LanesInt bits) {
  Lanes x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

PELTON_INLINE LanesInt as_bits(Lanes x) {
  LanesInt bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

PELTON_INLINE Lanes absolute(Lanes x) { return as_lanes(as_bits(x) & 0x7fffffff); }

// 2^x for x in [-126, 127]; below, 2^-126; above, 2^127. Degree-6 minimax on [-0.5, 0.5].
PELTON_INLINE Lanes exp2_lanes(Lanes x) {
  x = smaller(lanes_of(127.0f), larger(lanes_of(-126.0f), x));
  const Lanes magic = lanes_of(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  const Lanes shifted = x + magic;
  const Lanes whole = shifted - magic;
  const Lanes f = x - whole;
  Lanes p = lanes_of(1.5403530e-4f);
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  const LanesInt exponent = (as_bits(shifted) - as_bits(magic)) << 23;
  return as_lanes(as_bits(p) + exponent);
}

// e^x, cut off below -87 and above 88. The reduction by ln 2 is in two parts, so the relative error stays flat.
PELTON_INLINE Lanes exp_lanes(Lanes x) {
  x = smaller(lanes_of(88.0f), larger(lanes_of(-87.0f), x));
  const Lanes magic = lanes_of(12582912.0f);
  const Lanes shifted = x * 1.44269504f + magic;
  const Lanes whole = shifted - magic;
  const Lanes f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Lanes p = lanes_of(1.9875691500e-4f);  // Cephes expf
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  const LanesInt exponent = (as_bits(shifted) - as_bits(magic)) << 23;
  return as_lanes(as_bits(p) + exponent);
}

PELTON_INLINE Lanes tanh_lanes(Lanes x) {
  const Lanes size = absolute(x);
  const Lanes square = x * x;
  Lanes p = lanes_of(-5.70498872745e-3f);  // Cephes tanhf, |x| < 0.625
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const Lanes near_zero = p * square * x + x;
  const Lanes far = 1.0f - 2.0f / (exp_lanes(size * 2.0f) + 1.0f);
  const Lanes far_signed = x < 0.0f ? -far : far;
  return size < 0.625f ? near_zero : far_signed;
}

PELTON_INLINE Lanes silu_lanes(Lanes x) { return x / (1.0f + exp_lanes(-x)); }

// x * sigmoid(2 u) is 0.5 x (1 + tanh u), without the cancellation.
PELTON_INLINE Lanes gelu_tanh_lanes(Lanes x) {
  const Lanes u = 0.79788456f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exp_lanes(-2.0f * u));
}

// 0.5 x (1 + erf(x / sqrt 2)) by erfc(z) = e^(-z^2) P(1 / (1 + p z)) (Abramowitz & Stegun 7.1.26, 1.5e-7 absolute).
PELTON_INLINE Lanes gelu_lanes(Lanes x) {
  const Lanes z = absolute(x) * 0.70710678f;
  const Lanes t = 1.0f / (1.0f + 0.3275911f * z);
  Lanes p = lanes_of(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const Lanes tail = 0.5f * x * (p * t * exp_lanes(-z * z));
  return x < 0.0f ? tail : x - tail;
}

}  // namespace pelton
