// The 16-bit float formats as plain integer arithmetic, exact for every value (denormals, infinities, NaN).
//
// Functions in shared headers are `static`: each source file owns the copy that was compiled for its instruction set,
// so a machine without AVX-512 can never be handed one that uses it.
#pragma once

#include <bit>
#include <cstdint>

namespace pelton {

// Without a branch, so that loops over halves become vectors.
static inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);  // infinity, NaN; others
  const float denormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  return std::bit_cast<float>((magnitude < 0x0400u ? std::bit_cast<uint32_t>(denormal) : bits) | sign);
}

static inline float bfloat16_to_float(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// Half of an E8M0 exponent: 2^(exponent - 128), the step of integers that are twice the format's numbers. 255 is NaN in
// the format and refused where files are read; here it goes on as 2^127, as in ggml.
static inline float exponent_to_half_float(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

// Round to nearest, ties to even; NaN stays NaN.
static inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace pelton
