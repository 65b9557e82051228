#include "sampling/largest_first.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pelton {
namespace {

// The top 12 bits of the float, made to grow with it; 0 and -0 fall into neighbouring bins, which `is_before` mends
// only within a bin, so -0 counts as 0.
int bin_of(float logit) {
  uint32_t bits;
  const float value = logit + 0.0f;
  memcpy(&bits, &value, sizeof bits);
  bits ^= bits >> 31 != 0 ? 0xffffffffu : 0x80000000u;
  return static_cast<int>(bits >> 20);
}

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

}  // namespace

LargestFirst::LargestFirst(const float* row, int64_t size, Candidate* memory)
    : row_(row), size_(size), memory_(memory) {
  for (int64_t i = 0; i < size; ++i) ++counts_[bin_of(row[i])];
}

int64_t LargestFirst::collect(int64_t count) {
  int64_t reached = num_collected_;
  int bin = lowest_bin_;
  while (bin > 0 && reached < count) reached += counts_[--bin];
  if (bin == lowest_bin_) return num_collected_;
  const int64_t first = num_collected_;
  for (int64_t i = 0; i < size_; ++i) {
    const int own = bin_of(row_[i]);
    if (own < bin || own >= lowest_bin_ || row_[i] == -INFINITY) continue;
    memory_[num_collected_++] = {row_[i], static_cast<int32_t>(i)};
  }
  lowest_bin_ = bin;
  std::sort(memory_ + first, memory_ + num_collected_, is_before);
  return num_collected_;
}

}  // namespace pelton
