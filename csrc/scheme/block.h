// One block of a quantized row, taken apart: the integers and scales as stored, in element order.
//
// Both users read this form: exact dequantization (scheme.cc) and the packing of weights (linear/pack.cc).
// Layouts: ggml's block_q* structures; reference implementations in its quants and in the `gguf` package.
#pragma once

#include <cstdint>

#include "scheme/scheme.h"

namespace pelton {

struct Block {
  uint8_t integers[256];  // q, unsigned: element i is worth scale * (q - zero) - minimum
  int8_t scales[16];      // per group, super-blocks only: scale = d * scales[g]
  uint8_t mins[16];       // per group, super-blocks only: minimum = dmin * mins[g]
  uint16_t d;             // half precision
  uint16_t dmin;          // half precision; for Q4_1 and Q5_1 the negated m of the format, so that it is subtracted too
};

// `scheme` is not dense; `src` is one block and needs no alignment. Fields the scheme lacks are left as they were.
void decode_block(Scheme scheme, const uint8_t* src, Block& block);

}  // namespace pelton
