// The passes over a whole row of logits: 152,000 floats take about 30 us each.
#pragma once

#include <cstdint>

namespace pelton {

struct Largest {
  float value;
  int64_t id;      // the lowest one that has it; -1 where the row is all -inf or has a nan
  bool is_finite;  // the row has neither inf nor nan
};

struct ScanKernels {
  Largest (*find_largest)(const float* row, int64_t size);
  // weights[i] = exp(row[i] - largest) in double, 1e-15 relative; 0 where that is below exp(-708)
  void (*compute_weights)(const float* row, int64_t size, double largest, double* weights);
};

ScanKernels scan_kernels();  // for the instruction set in use

ScanKernels scan_kernels_generic();
ScanKernels scan_kernels_avx2();
ScanKernels scan_kernels_avx512();

}  // namespace pelton
