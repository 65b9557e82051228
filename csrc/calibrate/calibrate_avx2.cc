// AVX2: 32 bytes at a time. It has no dot product of four bytes and no bfloat16; the peaks are those of what stands in.
#include <immintrin.h>

#include "calibrate/calibrate.h"

namespace pelton {
namespace {

constexpr int kNumSums = 12;         // latency 5 times 2 a cycle, and some to spare
constexpr int kNumIntegerSums = 8;  // only the addition waits for the one before, one cycle

// The compiler knows nothing of the sums from here on: equal ones are not made one, and all are computed.
template <typename Vector, int count>
[[gnu::always_inline]] inline void forget(Vector (&sums)[count]) {
#pragma GCC unroll 12
  for (int j = 0; j < count; ++j) asm volatile("" : "+x"(sums[j]));
}

void run_maddubs(int64_t iterations) {
  __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(2), ones = _mm256_set1_epi16(1), sums[kNumIntegerSums] = {};
  forget(sums);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kNumIntegerSums; ++j) {
      asm volatile("" : "+x"(x));  // a product that may not be taken out of the loop
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
    }
  }
  forget(sums);
}

void run_fma(int64_t iterations) {
  const __m256 x = _mm256_set1_ps(1.5f), y = _mm256_set1_ps(0.25f);
  __m256 sums[kNumSums] = {};
  forget(sums);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kNumSums; ++j) sums[j] = _mm256_fmadd_ps(x, y, sums[j]);
  }
  forget(sums);
}

void read(const uint8_t* data, size_t size_bytes) {
  __m256i sums[4] = {};
  for (size_t at = 0; at < size_bytes; at += 256) {
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      const auto* from = reinterpret_cast<const __m256i*>(data + at + 32 * j);
      sums[j % 4] = _mm256_or_si256(sums[j % 4], _mm256_load_si256(from));
    }
  }
  forget(sums);
}

}  // namespace

CalibrationKernels calibration_kernels_avx2() {
  constexpr double float_ops = 2.0 * 8 * kNumSums;
  const Peak float32{"vfmadd231ps ymm", float_ops, run_fma};
  const Peak bfloat16{"vfmadd231ps ymm (bfloat16 is widened)", float_ops, run_fma};
  return {{"vpmaddubsw, vpmaddwd, vpaddd ymm", 2.0 * 32 * kNumIntegerSums, run_maddubs}, bfloat16, float32, read};
}

}  // namespace pelton
