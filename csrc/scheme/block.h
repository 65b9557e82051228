// One block of a quantized row, taken apart: the integers and scales as stored, in element order.
//
// Both users read this form: exact dequantization (scheme.cc) and the packing of weights (linear/pack.cc).
// Layouts: ggml's block_* structures; reference implementations in its quants and in the `gguf` package. Groups are
// ours: a float scale, a u8 zero point, then the integers, 4-bit ones as in Q4_0, 32 at a time.
#pragma once

#include <cstdint>

#include "scheme/scheme.h"

namespace pelton {

struct Block {
  uint8_t integers[256];  // q (or its code), unsigned: element i is worth scale * (q - zero) - minimum
  int8_t scales[16];      // per group, super-blocks only: scale = d * scales[g]
  uint8_t mins[16];       // per group, super-blocks only: minimum = dmin * mins[g]
  uint16_t d;             // half precision
  uint16_t dmin;          // half precision; for Q4_1 and Q5_1 the negated m of the format, so that it is subtracted too
  float scale;            // groups only, as is the zero point
  uint8_t zero;
  uint8_t exponent;       // MXFP4 only: E8M0
};

// `scheme` is not dense; `src` is one block and needs no alignment. Fields the scheme lacks are left as they were.
void decode_block(Scheme scheme, const uint8_t* src, Block& block);

}  // namespace pelton
