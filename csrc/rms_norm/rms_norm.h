// rms_norm: y[t, h, e] = x[t, h, e] / sqrt(mean_e(x[t, h, e]^2) + eps) * weight[e]
//
//   x, y      rows of num_heads * size floats; x and y may be the same rows
//   weight    [size] or null
//   sums      float32: lane l adds the squares at l, l + 16, ..., then a fixed tree over the 16 lanes
//   cost      8 * size bytes moved per row: memory-bound
//   threads   each row on its own; the caller shares rows out
//   paper     Zhang & Sennrich 2019, arXiv:1910.07467
#pragma once

#include "core/views.h"

namespace pelton {

struct RmsNorm {
  Rows x;
  Rows y;
  const float* weight;
  int64_t num_heads;  // vectors in a row that are normalised one by one; 1 for a norm over the hidden size
  int64_t size;
  float eps;
};

using RmsNormKernel = void (*)(const RmsNorm&, int64_t row_begin, int64_t row_end);
RmsNormKernel rms_norm_kernel();  // for the instruction set in use

void rms_norm_generic(const RmsNorm&, int64_t row_begin, int64_t row_end);
void rms_norm_avx2(const RmsNorm&, int64_t row_begin, int64_t row_end);
void rms_norm_avx512(const RmsNorm&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
