// gated: y[t, f] = act(x[t, f]) * x[t, size + f]: the gate is the first half of a row.
//
//   x         rows of 2 * size floats
//   y         rows of size floats; may be the first half of x
//   accuracy  core/lanes.h
//   cost      12 bytes moved per result
//   threads   each row on its own; the caller shares rows out
//   paper     Shazeer 2020, arXiv:2002.05202
#pragma once

#include "activation/activation.h"
#include "core/views.h"

namespace pelton {

struct Gated {
  Rows x;
  Rows y;
  int64_t size;
  ActivationFunction function;
};

using GatedKernel = void (*)(const Gated&, int64_t row_begin, int64_t row_end);
GatedKernel gated_kernel();  // for the instruction set in use

void gated_generic(const Gated&, int64_t row_begin, int64_t row_end);
void gated_avx2(const Gated&, int64_t row_begin, int64_t row_end);
void gated_avx512(const Gated&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
