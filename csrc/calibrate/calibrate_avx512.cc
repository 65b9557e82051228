// AVX-512 with VNNI and BF16: 64 bytes at a time.
#include <immintrin.h>

#include "calibrate/calibrate.h"

namespace pelton {
namespace {

constexpr int kNumSums = 12;  // latency 4 to 6 times 2 a cycle at most

// The compiler knows nothing of the sums from here on: equal ones are not made one, and all are computed.
template <typename Vector, int count>
[[gnu::always_inline]] inline void forget(Vector (&sums)[count]) {
#pragma GCC unroll 12
  for (int j = 0; j < count; ++j) asm volatile("" : "+v"(sums[j]));
}

void run_dpbusd(int64_t iterations) {
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(2);
  __m512i sums[kNumSums] = {};
  forget(sums);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kNumSums; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], x, y);
  }
  forget(sums);
}

void run_dpbf16(int64_t iterations) {
  const __m512i bits = _mm512_set1_epi16(0x3f80);
  const __m512bh x = reinterpret_cast<__m512bh>(bits);
  __m512 sums[kNumSums] = {};
  forget(sums);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kNumSums; ++j) sums[j] = _mm512_dpbf16_ps(sums[j], x, x);
  }
  forget(sums);
}

void run_fma(int64_t iterations) {
  const __m512 x = _mm512_set1_ps(1.5f), y = _mm512_set1_ps(0.25f);
  __m512 sums[kNumSums] = {};
  forget(sums);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kNumSums; ++j) sums[j] = _mm512_fmadd_ps(x, y, sums[j]);
  }
  forget(sums);
}

void read(const uint8_t* data, size_t size_bytes) {
  __m512i sums[8] = {};
  for (size_t at = 0; at < size_bytes; at += 512) {
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) sums[j] = _mm512_or_si512(sums[j], _mm512_load_si512(data + at + 64 * j));
  }
  forget(sums);
}

}  // namespace

CalibrationKernels calibration_kernels_avx512() {
  return {{"vpdpbusd zmm", 2.0 * 64 * kNumSums, run_dpbusd},
          {"vdpbf16ps zmm", 2.0 * 32 * kNumSums, run_dpbf16},
          {"vfmadd231ps zmm", 2.0 * 16 * kNumSums, run_fma},
          read};
}

}  // namespace pelton
