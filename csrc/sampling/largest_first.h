// The candidates of a row from the largest logit down, ties by id, without sorting the row.
//
// A histogram over the top bits of the logits tells how far down the n largest reach; only that part is collected and
// sorted, so the common case costs two passes and a sort of a few hundred. All of it lives in given memory.
#pragma once

#include <cstdint>

namespace pelton {

struct Candidate {
  float logit;
  int32_t id;
};

class LargestFirst {
 public:
  // `memory` holds `size` candidates. Logits of -inf are never candidates.
  LargestFirst(const float* row, int64_t size, Candidate* memory);

  // Collects at least the `count` largest, or all there are, in order. Returns how many it has.
  int64_t collect(int64_t count);

  const Candidate& operator[](int64_t rank) const { return memory_[rank]; }

 private:
  static constexpr int kNumBins = 4096;

  const float* row_;
  int64_t size_;
  Candidate* memory_;
  int64_t num_collected_ = 0;
  int lowest_bin_ = kNumBins;  // bins from here up are collected
  int32_t counts_[kNumBins] = {};
};

}  // namespace pelton
