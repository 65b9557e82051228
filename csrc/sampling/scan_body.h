// The bodies of the scans, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "sampling/scan.h"

namespace pelton {

static Largest find_largest_body(const float* row, int64_t size) {
  const float minus_infinity = -__builtin_inff();
  const int64_t whole = size / kLanes * kLanes;
  Lanes largest = lanes_of(minus_infinity);
  LanesInt odd{};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Lanes x = load_lanes(row + i);
    largest = larger(x, largest);
    odd |= (as_bits(x) & 0x7f800000) == 0x7f800000;
  }
  int32_t num_odd = 0;
  for (int i = 0; i < kLanes; ++i) num_odd |= odd[i];
  float value = max_lanes(largest);
  for (int64_t i = whole; i < size; ++i) {
    value = row[i] > value ? row[i] : value;
    num_odd |= !__builtin_isfinite(row[i]);
  }
  int64_t id = 0;
  for (; id + kLanes <= size; id += kLanes) {
    const LanesInt same = load_lanes(row + id) == value;
    int32_t any = 0;
    for (int i = 0; i < kLanes; ++i) any |= same[i];
    if (any != 0) break;
  }
  while (id < size && row[id] != value) ++id;
  return {value, value == minus_infinity || id == size ? -1 : id, num_odd == 0};
}

typedef double Doubles __attribute__((vector_size(64)));
typedef int64_t DoubleBits __attribute__((vector_size(64)));

// e^x for x <= 0: x = n ln 2 + f, Taylor of degree 13 in f, |f| <= 0.35, then n goes into the exponent.
PELTON_INLINE Doubles exp_doubles(Doubles x) {
  const Doubles zero{};
  const Doubles bounded = x < -708.0 ? zero - 708.0 : x;
  const Doubles magic = zero + 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to the nearest integer
  const Doubles shifted = bounded * 1.4426950408889634 + magic;
  const Doubles whole = shifted - magic;
  const Doubles f = (bounded - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10;
  Doubles p = zero + 1.0 / 6227020800.0;
  constexpr double inverse_factorials[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                           1.0 / 5040,      1.0 / 720,      1.0 / 120,     1.0 / 24,     1.0 / 6,
                                           0.5,             1.0,            1.0};
  for (double factor : inverse_factorials) p = p * f + factor;
  DoubleBits exponent, bits;
  memcpy(&exponent, &shifted, sizeof exponent);
  memcpy(&bits, &p, sizeof bits);
  bits += exponent << 52;
  memcpy(&p, &bits, sizeof p);
  return x < -708.0 ? zero : p;
}

static void compute_weights_body(const float* row, int64_t size, double largest, double* weights) {
  constexpr int64_t width = 8;
  for (int64_t i = 0; i < size; i += width) {
    const int64_t count = size - i < width ? size - i : width;
    double part[width] = {};
    for (int64_t k = 0; k < count; ++k) part[k] = static_cast<double>(row[i + k]) - largest;
    Doubles x;
    memcpy(&x, part, sizeof x);
    const Doubles weight = exp_doubles(x);
    memcpy(weights + i, &weight, static_cast<size_t>(count) * sizeof(double));
  }
}

PELTON_INLINE LanesInt bins_of(Lanes x, float largest) {
  const Lanes distance = (largest - x) * kBinsPerUnit;
  return __builtin_convertvector(smaller(distance, lanes_of(kNumBins - 1)), LanesInt);
}

// The lanes at i; -inf past the end.
PELTON_INLINE Lanes load_logits(const float* row, int64_t i, int64_t size) {
  if (i + kLanes <= size) return load_lanes(row + i);
  Lanes x = lanes_of(-__builtin_inff());
  memcpy(&x, row + i, static_cast<size_t>(size - i) * sizeof(float));
  return x;
}

static void count_bins_body(const float* row, int64_t size, float largest, int32_t* counts) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const LanesInt bins = bins_of(load_logits(row, i, size), largest);
    int32_t part[kLanes];
    memcpy(part, &bins, sizeof part);
    for (int lane = 0; lane < kLanes; ++lane) ++counts[part[lane]];
  }
}

static int64_t collect_bins_body(const float* row, int64_t size, float largest, int32_t first_bin, int32_t end_bin,
                                 Candidate* to) {
  int64_t num_found = 0;
  for (int64_t i = 0; i < size; i += kLanes) {
    const LanesInt bins = bins_of(load_logits(row, i, size), largest);
    const LanesInt inside = (bins >= first_bin) & (bins < end_bin);
    int32_t part[kLanes], any = 0;
    memcpy(part, &inside, sizeof part);
    for (int lane = 0; lane < kLanes; ++lane) any |= part[lane];
    if (any == 0) continue;
    for (int64_t id = i; id < i + kLanes && id < size; ++id) {
      if (part[id - i] == 0 || row[id] == -__builtin_inff()) continue;
      to[num_found++] = {row[id], static_cast<int32_t>(id)};
    }
  }
  return num_found;
}

}  // namespace pelton
