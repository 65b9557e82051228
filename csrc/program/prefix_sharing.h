// Which requests of a step begin with the same blocks of the cache, so that attention can read those once for all.
//
// Found once per step from the block tables alone: nobody has to say that requests share. A prefix counts in whole
// splits of 512 tokens, all computed before the step. Requests that share their first split form a group as long as
// what they have in common grows with it; each is in one group at most. Costs a few comparisons where nothing is
// shared. Memory is taken once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/kv_layout.h"

namespace pelton {

struct PrefixGroup {
  int64_t request;      // any of them: the prefix is the beginning of its blocks
  int64_t num_splits;
  int64_t first_token;  // its tokens are tokens()[first_token, first_token + num_tokens)
  int64_t num_tokens;
};

class PrefixSharing {
 public:
  explicit PrefixSharing(int64_t max_num_requests);

  void find(const AttentionStep& step, int64_t num_requests, int64_t block_size);

  const std::vector<PrefixGroup>& groups() const { return groups_; }
  const int32_t* tokens() const { return tokens_.data(); }
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }

  // The group of a request, or nullptr; and where in tokens() its own are.
  const PrefixGroup* group_of(int64_t request) const {
    const int32_t index = group_index_[static_cast<size_t>(request)];
    return index < 0 ? nullptr : &groups_[static_cast<size_t>(index)];
  }
  int64_t first_token_of(int64_t request) const { return first_token_[static_cast<size_t>(request)]; }

 private:
  void join(const AttentionStep& step, int64_t request, int64_t block_size);
  void list_tokens(const AttentionStep& step, int64_t num_requests);

  const int64_t max_num_tokens_;  // of all groups together
  std::vector<PrefixGroup> groups_;
  std::vector<int32_t> group_index_, first_token_;  // [R]
  std::vector<int32_t> tokens_;
};

}  // namespace pelton
