#include "moe/grouping.h"

#include <algorithm>

#include "core/arena.h"

namespace pelton {
namespace {

constexpr size_t kLineBytes = 64;

// Takes `count` items off the front of the memory.
template <typename T>
T* take(uint8_t*& memory, int64_t count) {
  T* items = reinterpret_cast<T*>(memory);
  memory += round_up(static_cast<size_t>(count) * sizeof(T), kLineBytes);
  return items;
}

}  // namespace

size_t grouping_bytes(int64_t max_tokens, int64_t num_experts, int64_t max_chosen) {
  const auto pair_bytes = round_up(static_cast<size_t>(max_tokens * max_chosen) * sizeof(int32_t), kLineBytes);
  const auto expert_bytes = round_up(static_cast<size_t>(num_experts + 1) * sizeof(int32_t), kLineBytes);
  return 4 * pair_bytes + 3 * expert_bytes;
}

Grouping make_grouping(Rows weights, int64_t token_begin, int64_t token_end, int64_t num_experts, int64_t max_chosen,
                       void* memory) {
  auto* rest = static_cast<uint8_t*>(memory);
  const int64_t max_pairs = (token_end - token_begin) * max_chosen;
  Grouping grouping;
  grouping.expert = take<int32_t>(rest, num_experts);
  grouping.first_pair = take<int32_t>(rest, num_experts + 1);
  grouping.token = take<int32_t>(rest, max_pairs);
  grouping.weight = take<float>(rest, max_pairs);
  auto* next_pair = take<int32_t>(rest, num_experts);  // of each expert; at first how many it has
  auto* found_expert = take<int32_t>(rest, max_pairs);  // pairs in the order of tokens
  auto* found_token = take<int32_t>(rest, max_pairs);

  std::fill_n(next_pair, num_experts, 0);
  for (int64_t token = token_begin; token < token_end; ++token) {
    const float* row = weights.row(token);
    const int64_t end = grouping.num_pairs + max_chosen;
    for (int64_t expert = 0; expert < num_experts && grouping.num_pairs < end; ++expert) {
      if (row[expert] == 0.0f) continue;
      found_expert[grouping.num_pairs] = static_cast<int32_t>(expert);
      found_token[grouping.num_pairs++] = static_cast<int32_t>(token);
      ++next_pair[expert];
    }
  }
  int32_t first = 0;
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    const int32_t count = next_pair[expert];
    next_pair[expert] = first;
    if (count == 0) continue;
    grouping.expert[grouping.num_groups] = static_cast<int32_t>(expert);
    grouping.first_pair[grouping.num_groups++] = first;
    first += count;
  }
  grouping.first_pair[grouping.num_groups] = first;
  for (int64_t found = 0; found < grouping.num_pairs; ++found) {
    const int32_t pair = next_pair[found_expert[found]]++;
    grouping.token[pair] = found_token[found];
    grouping.weight[pair] = weights.row(found_token[found])[found_expert[found]];
  }
  return grouping;
}

}  // namespace pelton
