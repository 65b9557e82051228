// What kernels read and write: rows of floats with a distance between them. Splitting the last axis costs nothing.
#pragma once

#include <cstdint>

namespace pelton {

struct Rows {
  float* data = nullptr;
  int64_t stride = 0;  // floats from one row to the next

  float* row(int64_t index) const { return data + index * stride; }
};

// The part of `num_items` that a thread owns when everybody takes an equal contiguous share.
struct Share {
  int64_t begin, end;
  Share(int64_t num_items, int thread, int num_threads)
      : begin(num_items * thread / num_threads), end(num_items * (thread + 1) / num_threads) {}
};

}  // namespace pelton
