// The body of add_weighted, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "moe/add_weighted.h"

namespace pelton {

PELTON_INLINE void add_weighted_body(const float* x, float weight, float* y, int64_t size) {
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) store_lanes(y + i, load_lanes(y + i) + load_lanes(x + i) * weight);
  if (const int64_t rest = size - whole; rest > 0) {
    store_some(y + whole, load_some(y + whole, rest) + load_some(x + whole, rest) * weight, rest);
  }
}

}  // namespace pelton
