// sigmoid_scale: y[t, i] = x[t, i] / (1 + e^-gate[t]): a row times the sigmoid of one number of its own.
//
//   x, y      rows of `size` floats; may be the same rows
//   gate      rows of one float
//   accuracy  core/lanes.h
//   threads   each row on its own; the caller shares rows out
#pragma once

#include "core/views.h"

namespace pelton {

struct SigmoidScale {
  Rows x;
  Rows gate;
  Rows y;
  int64_t size;
};

using SigmoidScaleKernel = void (*)(const SigmoidScale&, int64_t row_begin, int64_t row_end);
SigmoidScaleKernel sigmoid_scale_kernel();  // for the instruction set in use

void sigmoid_scale_generic(const SigmoidScale&, int64_t row_begin, int64_t row_end);
void sigmoid_scale_avx2(const SigmoidScale&, int64_t row_begin, int64_t row_end);
void sigmoid_scale_avx512(const SigmoidScale&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
