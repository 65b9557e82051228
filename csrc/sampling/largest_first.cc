#include "sampling/largest_first.h"

#include <algorithm>

namespace pelton {
namespace {

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

LargestFirst::LargestFirst(const ScanKernels& scans, const float* row, int64_t size, float largest, Candidate* memory)
    : scans_(scans), row_(row), size_(size), largest_(largest), memory_(memory) {
  scans.count_bins(row, size, largest, counts_);
}

int64_t LargestFirst::collect(int64_t count) {
  int64_t reached = num_collected_;
  int32_t end_bin = end_bin_;
  while (end_bin < kNumBins && reached < count) reached += counts_[end_bin++];
  if (end_bin == end_bin_) return num_collected_;
  Candidate* first = memory_ + num_collected_;
  const int64_t num_found = scans_.collect_bins(row_, size_, largest_, end_bin_, end_bin, first);
  std::sort(first, first + num_found, is_before);
  num_collected_ += num_found;
  end_bin_ = end_bin;
  return num_collected_;
}

}  // namespace pelton
