// add_weighted: y[i] += weight * x[i]: what an expert's output adds to its token.
//
//   numerics  the product is rounded, then the sum: the same bits on every instruction set
//   cost      12 bytes moved per element, from and to caches
#pragma once

#include <cstdint>

namespace pelton {

using AddWeightedKernel = void (*)(const float* x, float weight, float* y, int64_t size);
AddWeightedKernel add_weighted_kernel();  // for the instruction set in use

void add_weighted_generic(const float* x, float weight, float* y, int64_t size);
void add_weighted_avx2(const float* x, float weight, float* y, int64_t size);
void add_weighted_avx512(const float* x, float weight, float* y, int64_t size);

}  // namespace pelton
