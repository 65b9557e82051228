// What a linear over interleaved gates and ups writes: the gated products.
//
// A strip holds 32 gates and then the 32 ups that belong to them (interleaved in pack_strips), so its sums give 32
// products act(gate) * up. They go to y[row][32 * strip, +32), the bits that gated (gated.h) would have written.
#pragma once

#include "activation/activation.h"
#include "core/views.h"

namespace pelton {

// 32 columns of y[0, num_rows), from sums[row][64] and bias[64].
using WriteGated = void (*)(ActivationFunction function, const float* sums, const float* bias, int64_t num_rows,
                            const Rows& y);

WriteGated write_gated_kernel();  // for the instruction set in use
void write_gated_generic(ActivationFunction, const float*, const float*, int64_t, const Rows&);
void write_gated_avx2(ActivationFunction, const float*, const float*, int64_t, const Rows&);
void write_gated_avx512(ActivationFunction, const float*, const float*, int64_t, const Rows&);

}  // namespace pelton
