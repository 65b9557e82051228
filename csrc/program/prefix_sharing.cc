#include "program/prefix_sharing.h"

#include <algorithm>

#include "attention/attention.h"

namespace pelton {
namespace {

constexpr int64_t kMaxTokens = 4;    // of a request: more share each line among themselves
constexpr size_t kMaxGroups = 64;    // that a request is compared with

// The length of the common beginning of two requests' blocks, in tokens, up to `most`.
int64_t count_common_tokens(const AttentionStep& step, int64_t one, int64_t other, int64_t block_size, int64_t most) {
  const int32_t* a = step.block_table + one * step.max_blocks;
  const int32_t* b = step.block_table + other * step.max_blocks;
  int64_t tokens = 0;
  for (int64_t block = 0; tokens < most && a[block] == b[block]; ++block) tokens += block_size;
  return std::min(tokens, most);
}

}  // namespace

PrefixSharing::PrefixSharing(int64_t max_num_requests) : max_num_tokens_(max_num_requests) {
  const auto size = static_cast<size_t>(max_num_requests);
  groups_.reserve(size);
  group_index_.resize(size);
  first_token_.resize(size);
  tokens_.reserve(size);
}

// Into the first group that reads less with it than without: what is shared, times the requests that need not read it.
void PrefixSharing::join(const AttentionStep& step, int64_t request, int64_t block_size) {
  const int64_t first_token = step.query_start[request];
  const int64_t num_tokens = step.query_start[request + 1] - first_token;
  if (num_tokens == 0 || num_tokens > kMaxTokens) return;
  const int64_t own_splits = step.positions[first_token] / kSplitTokens;  // computed before the step
  if (own_splits == 0) return;
  for (size_t i = 0; i < groups_.size(); ++i) {
    PrefixGroup& group = groups_[i];
    const int64_t most = std::min(own_splits, group.num_splits) * kSplitTokens;
    const int64_t splits = count_common_tokens(step, group.request, request, block_size, most) / kSplitTokens;
    const int64_t num_requests = group.first_token;  // counted here until the tokens are listed
    if (splits == 0 || splits * num_requests <= group.num_splits * (num_requests - 1)) continue;
    group.num_splits = splits;
    group.first_token = num_requests + 1;
    group.num_tokens += num_tokens;
    group_index_[static_cast<size_t>(request)] = static_cast<int32_t>(i);
    return;
  }
  if (groups_.size() == kMaxGroups) return;
  group_index_[static_cast<size_t>(request)] = static_cast<int32_t>(groups_.size());
  groups_.push_back({request, own_splits, 1, num_tokens});
}

// Drops groups of one and those that do not fit, and lists the tokens of the others.
void PrefixSharing::list_tokens(const AttentionStep& step, int64_t num_requests) {
  size_t num_kept = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    PrefixGroup group = groups_[i];
    const bool is_kept = group.first_token > 1 && num_tokens() + group.num_tokens <= max_num_tokens_;
    group.first_token = num_tokens();
    for (int64_t request = 0; request < num_requests; ++request) {
      int32_t& index = group_index_[static_cast<size_t>(request)];
      if (index != static_cast<int32_t>(i)) continue;
      index = is_kept ? static_cast<int32_t>(num_kept) : -1;
      if (!is_kept) continue;
      first_token_[static_cast<size_t>(request)] = static_cast<int32_t>(num_tokens());
      for (int32_t token = step.query_start[request]; token < step.query_start[request + 1]; ++token) {
        tokens_.push_back(token);
      }
    }
    if (is_kept) groups_[num_kept++] = group;
  }
  groups_.resize(num_kept);
}

void PrefixSharing::find(const AttentionStep& step, int64_t num_requests, int64_t block_size) {
  groups_.clear();
  tokens_.clear();
  std::fill(group_index_.begin(), group_index_.end(), -1);
  for (int64_t request = 0; request < num_requests; ++request) join(step, request, block_size);
  list_tokens(step, num_requests);
}

}  // namespace pelton
