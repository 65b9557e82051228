// Who goes where: the (token, expert) pairs of some tokens, sorted by expert, and by token within an expert.
//
// A pair is a weight of the router that is not zero. Every worker makes the whole grouping for itself: a few
// microseconds for thousands of pairs, and no barrier to wait for another's. Experts without pairs do not appear.
//
//   memory    grouping_bytes, 64-byte aligned, of the worker alone
//   cost      one comparison per weight, a few loads and stores per pair
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/views.h"

namespace pelton {

// The experts that have pairs, ascending, and their pairs: those of group g are [first_pair[g], first_pair[g + 1]).
struct Grouping {
  int64_t num_groups = 0;
  int64_t num_pairs = 0;
  int32_t* expert = nullptr;      // [groups]
  int32_t* first_pair = nullptr;  // [groups + 1]
  int32_t* token = nullptr;       // [pairs]
  float* weight = nullptr;        // [pairs]

  int64_t group_size(int64_t group) const { return first_pair[group + 1] - first_pair[group]; }
};

size_t grouping_bytes(int64_t max_tokens, int64_t num_experts, int64_t max_chosen);

// Groups rows [token_begin, token_end) of `weights`. Of a row, what comes after `max_chosen` pairs is not looked at.
Grouping make_grouping(Rows weights, int64_t token_begin, int64_t token_end, int64_t num_experts, int64_t max_chosen,
                       void* memory);

}  // namespace pelton
