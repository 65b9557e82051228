// What a linear over interleaved gates and ups writes instead of rows: the gated product, ready for the next linear.
//
// A strip holds 32 gates and then the 32 ups that belong to them (interleaved in pack_strips), so its sums are one tile
// of 32 k of the next linear's activation: act(gate) * up is quantized as soon as it is known, and no float is stored.
// The bits are those of gated (gated.h) followed by quantize_rows.
#pragma once

#include "activation/activation.h"
#include "linear/activation.h"

namespace pelton {

struct GatedOutput {
  ActivationFunction function;
  Activation y;
};

// Rows [first_row, first_row + num_rows) of tile `strip` of output.y, from sums[row][64] and bias[64].
using WriteGated = void (*)(const GatedOutput& output, const float* sums, const float* bias, int64_t first_row,
                            int64_t num_rows, int64_t strip);

WriteGated write_gated_kernel();  // for the instruction set in use
void write_gated_generic(const GatedOutput&, const float*, const float*, int64_t, int64_t, int64_t);
void write_gated_avx2(const GatedOutput&, const float*, const float*, int64_t, int64_t, int64_t);
void write_gated_avx512(const GatedOutput&, const float*, const float*, int64_t, int64_t, int64_t);

}  // namespace pelton
