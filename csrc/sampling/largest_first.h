// The candidates of a row from the largest logit down, ties by id, without sorting the row.
//
// Bins by the distance from the largest tell how far down the n largest reach; only that part is collected and sorted,
// so the common case costs two passes and a sort of a few hundred. The candidates live in given memory.
#pragma once

#include <cstdint>

#include "sampling/scan.h"

namespace pelton {

class LargestFirst {
 public:
  // `memory` holds `size` candidates. Logits of -inf are never candidates.
  LargestFirst(const ScanKernels& scans, const float* row, int64_t size, float largest, Candidate* memory);

  // Collects at least the `count` largest, or all there are, in order. Returns how many it has.
  int64_t collect(int64_t count);

  const Candidate& operator[](int64_t rank) const { return memory_[rank]; }

 private:
  const ScanKernels& scans_;
  const float* row_;
  int64_t size_;
  float largest_;
  Candidate* memory_;
  int64_t num_collected_ = 0;
  int32_t end_bin_ = 0;  // the bins before it are collected
  int32_t counts_[kNumBins] = {};
};

}  // namespace pelton
