// The body of route, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "moe/route.h"

namespace pelton {

// The sum of e^(x - largest) over a row.
PELTON_INLINE float exp_sum(const float* x, int64_t size, float largest) {
  const int64_t whole = size / kLanes * kLanes;
  Lanes sum{};
  for (int64_t i = 0; i < whole; i += kLanes) sum = sum + exp_lanes(load_lanes(x + i) - largest);
  float total = sum_lanes(sum);
  if (const int64_t rest = size - whole; rest > 0) {
    float last[kLanes];
    store_lanes(last, exp_lanes(load_some(x + whole, rest) - largest));
    for (int64_t i = 0; i < rest; ++i) total += last[i];
  }
  return total;
}

// Ids of the largest numbers, the largest first; of equal ones the first. The list is kept sorted as the row goes by.
PELTON_INLINE void choose_largest(const float* x, int64_t size, int num_chosen, int32_t* ids) {
  int num_kept = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (num_kept == num_chosen && !(x[i] > x[ids[num_kept - 1]])) continue;
    int place = num_kept < num_chosen ? num_kept++ : num_chosen - 1;
    for (; place > 0 && x[i] > x[ids[place - 1]]; --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(i);
  }
}

PELTON_INLINE void sort_ids(int32_t* ids, int count) {
  for (int i = 1; i < count; ++i) {
    const int32_t id = ids[i];
    int place = i;
    for (; place > 0 && ids[place - 1] > id; --place) ids[place] = ids[place - 1];
    ids[place] = id;
  }
}

PELTON_INLINE void route_row(const Route& op, const float* x, float* y) {
  int32_t ids[kMaxChosen];
  float weights[(kMaxChosen + kLanes - 1) / kLanes * kLanes] = {};
  choose_largest(x, op.num_experts, op.num_chosen, ids);
  const float largest = x[ids[0]];
  const float total = exp_sum(x, op.num_experts, largest);
  sort_ids(ids, op.num_chosen);
  for (int i = 0; i < op.num_chosen; ++i) weights[i] = x[ids[i]];
  for (int i = 0; i < op.num_chosen; i += kLanes) {
    store_lanes(weights + i, exp_lanes(load_lanes(weights + i) - largest) / total);
  }
  float chosen_total = 0.0f;
  for (int i = 0; i < op.num_chosen; ++i) chosen_total += weights[i];
  const float divisor = op.is_normalised ? chosen_total : 1.0f;
  for (int64_t i = 0; i < op.num_experts; ++i) y[i] = 0.0f;
  for (int i = 0; i < op.num_chosen; ++i) y[ids[i]] = weights[i] / divisor * op.factor;
}

PELTON_INLINE void route_body(const Route& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) route_row(op, op.x.row(row), op.y.row(row));
}

}  // namespace pelton
