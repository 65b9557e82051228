// layer_norm: y[t, e] = (x[t, e] - mean_e) / sqrt(var_e + eps) * weight[e] + bias[e]
//
//   x, y      rows of `size` floats; x and y may be the same rows
//   bias      [size] or null
//   sums      float32, 16 lanes and a fixed tree; the variance from the centred values
//   cost      8 * size bytes moved per row: memory-bound
//   threads   each row on its own; the caller shares rows out
//   paper     Ba et al. 2016, arXiv:1607.06450
#pragma once

#include "core/views.h"

namespace pelton {

struct LayerNorm {
  Rows x;
  Rows y;
  const float* weight;
  const float* bias;
  int64_t size;
  float eps;
};

using LayerNormKernel = void (*)(const LayerNorm&, int64_t row_begin, int64_t row_end);
LayerNormKernel layer_norm_kernel();  // for the instruction set in use

void layer_norm_generic(const LayerNorm&, int64_t row_begin, int64_t row_end);
void layer_norm_avx2(const LayerNorm&, int64_t row_begin, int64_t row_end);
void layer_norm_avx512(const LayerNorm&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
