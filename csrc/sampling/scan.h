// The passes over a whole row of logits: 152,000 floats take about 30 us each, counting bins about 150.
#pragma once

#include <cstdint>

namespace pelton {

struct Largest {
  float value;
  int64_t id;      // the lowest one that has it; -1 where the row is all -inf or has a nan
  bool is_finite;  // the row has neither inf nor nan
};

struct Candidate {
  float logit;
  int32_t id;
};

// Logits are sorted roughly by their distance from the largest: 64 bins per unit, the last takes the rest and -inf.
constexpr int kNumBins = 4096;
constexpr float kBinsPerUnit = 64.0f;

struct ScanKernels {
  Largest (*find_largest)(const float* row, int64_t size);
  // weights[i] = exp(row[i] - largest) in double, 1e-15 relative; 0 where that is below exp(-708)
  void (*compute_weights)(const float* row, int64_t size, double largest, double* weights);
  // counts[b] += how many logits are in bin b
  void (*count_bins)(const float* row, int64_t size, float largest, int32_t* counts);
  // Appends the logits of bins [first_bin, end_bin) in ascending id order, -inf left out; how many
  int64_t (*collect_bins)(const float* row, int64_t size, float largest, int32_t first_bin, int32_t end_bin,
                          Candidate* to);
};

ScanKernels scan_kernels();  // for the instruction set in use

ScanKernels scan_kernels_generic();
ScanKernels scan_kernels_avx2();
ScanKernels scan_kernels_avx512();

}  // namespace pelton
