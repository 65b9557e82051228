// float32 <-> bfloat16, round to nearest, ties to even. Not a number stays one.
#pragma once

#include <cstdint>
#include <cstring>

namespace pelton {

static inline uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float float_of_bfloat16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace pelton
