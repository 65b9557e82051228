#include "scheme/block.h"

#include <cassert>
#include <cstring>

namespace pelton {
namespace {

uint16_t read_half(const uint8_t* src) {
  uint16_t half;
  std::memcpy(&half, src, 2);
  return half;
}

// 32 elements: all low halves, then all high ones.
void decode_nibbles(const uint8_t* quants, uint8_t* integers) {
  for (int i = 0; i < 16; ++i) {
    integers[i] = quants[i] & 15;
    integers[i + 16] = quants[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* bits, Block& block) {
  for (int i = 0; i < 32; ++i) block.integers[i] |= static_cast<uint8_t>((bits[i / 8] >> (i % 8) & 1) << 4);
}

void decode_q4_0(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  decode_nibbles(src + 2, block.integers);
}

void decode_q4_1(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  block.dmin = read_half(src + 2) ^ 0x8000u;
  decode_nibbles(src + 4, block.integers);
}

void decode_q5_0(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  decode_nibbles(src + 6, block.integers);
  add_fifth_bits(src + 2, block);
}

void decode_q5_1(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  block.dmin = read_half(src + 2) ^ 0x8000u;
  decode_nibbles(src + 8, block.integers);
  add_fifth_bits(src + 4, block);
}

void decode_q8_0(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  for (int i = 0; i < 32; ++i) block.integers[i] = src[2 + i] ^ 0x80u;
}

void decode_q2_k(const uint8_t* src, Block& block) {
  const uint8_t* quants = src + 16;
  block.d = read_half(src + 80);
  block.dmin = read_half(src + 82);
  for (int group = 0; group < 16; ++group) {
    block.scales[group] = static_cast<int8_t>(src[group] & 15);
    block.mins[group] = src[group] >> 4;
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2;
    block.integers[i] = quants[32 * half + i % 32] >> shift & 3;
  }
}

void decode_q3_k(const uint8_t* src, Block& block) {
  const uint8_t* high_bits = src;
  const uint8_t* quants = src + 32;
  const uint8_t* packed_scales = src + 96;
  block.d = read_half(src + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? packed_scales[group] & 15 : packed_scales[group - 8] >> 4;
    const int high = packed_scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    block.scales[group] = static_cast<int8_t>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2;
    const int low = quants[32 * half + i % 32] >> shift & 3;
    const int high = high_bits[i % 32] >> (i / 32) & 1;
    block.integers[i] = static_cast<uint8_t>(low | high << 2);
  }
}

// Eight 6-bit scales and eight 6-bit minima in twelve bytes, as Q4_K and Q5_K store them.
void decode_scales_and_mins(const uint8_t* packed, Block& block) {
  for (int group = 0; group < 4; ++group) {
    block.scales[group] = static_cast<int8_t>(packed[group] & 63);
    block.mins[group] = packed[group + 4] & 63;
    block.scales[group + 4] = static_cast<int8_t>((packed[group + 8] & 15) | (packed[group] >> 6) << 4);
    block.mins[group + 4] = static_cast<uint8_t>((packed[group + 8] >> 4) | (packed[group + 4] >> 6) << 4);
  }
}

void decode_q4_k(const uint8_t* src, Block& block) {
  const uint8_t* quants = src + 16;
  block.d = read_half(src);
  block.dmin = read_half(src + 2);
  decode_scales_and_mins(src + 4, block);
  for (int first = 0; first < 256; first += 64, quants += 32) {
    for (int i = 0; i < 32; ++i) {
      block.integers[first + i] = quants[i] & 15;
      block.integers[first + i + 32] = quants[i] >> 4;
    }
  }
}

void decode_q5_k(const uint8_t* src, Block& block) {
  const uint8_t* high_bits = src + 16;
  const uint8_t* quants = src + 48;
  block.d = read_half(src);
  block.dmin = read_half(src + 2);
  decode_scales_and_mins(src + 4, block);
  for (int first = 0; first < 256; first += 64, quants += 32) {
    const int shift = first / 32;
    for (int i = 0; i < 32; ++i) {
      block.integers[first + i] = static_cast<uint8_t>((quants[i] & 15) | (high_bits[i] >> shift & 1) << 4);
      block.integers[first + i + 32] = static_cast<uint8_t>((quants[i] >> 4) | (high_bits[i] >> (shift + 1) & 1) << 4);
    }
  }
}

void decode_q6_k(const uint8_t* src, Block& block) {
  const uint8_t* low = src;
  const uint8_t* high = src + 128;
  std::memcpy(block.scales, src + 192, 16);
  block.d = read_half(src + 208);
  for (int first = 0; first < 256; first += 128, low += 64, high += 32) {
    for (int i = 0; i < 32; ++i) {
      uint8_t* out = block.integers + first + i;
      out[0] = static_cast<uint8_t>((low[i] & 15) | (high[i] & 3) << 4);
      out[32] = static_cast<uint8_t>((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
      out[64] = static_cast<uint8_t>((low[i] >> 4) | (high[i] >> 4 & 3) << 4);
      out[96] = static_cast<uint8_t>((low[i + 32] >> 4) | (high[i] >> 6) << 4);
    }
  }
}

void decode_iq4_nl(const uint8_t* src, Block& block) {
  block.d = read_half(src);
  decode_nibbles(src + 2, block.integers);
}

void decode_iq4_xs(const uint8_t* src, Block& block) {
  const uint16_t high = read_half(src + 2);  // an integer: two bits for each scale
  const uint8_t* low = src + 4;
  block.d = read_half(src);
  for (int group = 0; group < 8; ++group) {
    const int scale = (low[group / 2] >> (4 * (group % 2)) & 15) | (high >> (2 * group) & 3) << 4;
    block.scales[group] = static_cast<int8_t>(scale - 32);
    decode_nibbles(src + 8 + 16 * group, block.integers + 32 * group);
  }
}

void decode_mxfp4(const uint8_t* src, Block& block) {
  block.exponent = src[0];
  decode_nibbles(src + 1, block.integers);
}

void decode_group(int bits, int size, const uint8_t* src, Block& block) {
  std::memcpy(&block.scale, src, 4);
  block.zero = src[4];
  src += 5;
  if (bits == 8) {
    std::memcpy(block.integers, src, static_cast<size_t>(size));
    return;
  }
  for (int first = 0; first < size; first += 32) decode_nibbles(src + first / 2, block.integers + first);
}

}  // namespace

void decode_block(Scheme scheme, const uint8_t* src, Block& block) {
  switch (scheme) {
    case Scheme::Q4_0: return decode_q4_0(src, block);
    case Scheme::Q4_1: return decode_q4_1(src, block);
    case Scheme::Q5_0: return decode_q5_0(src, block);
    case Scheme::Q5_1: return decode_q5_1(src, block);
    case Scheme::Q8_0: return decode_q8_0(src, block);
    case Scheme::Q2_K: return decode_q2_k(src, block);
    case Scheme::Q3_K: return decode_q3_k(src, block);
    case Scheme::Q4_K: return decode_q4_k(src, block);
    case Scheme::Q5_K: return decode_q5_k(src, block);
    case Scheme::Q6_K: return decode_q6_k(src, block);
    case Scheme::IQ4_NL: return decode_iq4_nl(src, block);
    case Scheme::IQ4_XS: return decode_iq4_xs(src, block);
    case Scheme::MXFP4: return decode_mxfp4(src, block);
    case Scheme::INT4_G32: return decode_group(4, 32, src, block);
    case Scheme::INT4_G128: return decode_group(4, 128, src, block);
    case Scheme::INT8_G32: return decode_group(8, 32, src, block);
    case Scheme::INT8_G128: return decode_group(8, 128, src, block);
    case Scheme::F32:
    case Scheme::F16:
    case Scheme::BF16: assert(false && "dense schemes have no blocks");
  }
}

}  // namespace pelton
