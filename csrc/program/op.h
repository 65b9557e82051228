// What a program is made of: an op does its thread's part of one step. Barriers between ops are ops too.
#pragma once

#include <cstdint>

#include "attention/kv_layout.h"
#include "core/thread_pool.h"
#include "core/views.h"
#include "core/work_ranges.h"
#include "program/prefix_sharing.h"

namespace pelton {

// Which rows an op works on: the step's tokens, or the rows whose logits are wanted.
enum class RowAxis { Tokens, Logits };

struct Step {
  int64_t num_tokens;
  int64_t num_requests;
  int64_t num_logits_rows;
  const int32_t* logits_index;
  AttentionStep attention;
  const PrefixSharing* sharing;  // among the step's requests

  int64_t num_rows(RowAxis axis) const { return axis == RowAxis::Tokens ? num_tokens : num_logits_rows; }
};

// One worker inside one step.
struct Worker {
  int thread;
  ThreadPool& pool;
  WorkRanges& ranges;
  uint16_t phase;  // counts the claimed phases, in step on all threads
  void* scratch;
  Ahead ahead{};  // of the next weights, what the waiting of this worker has not prefetched yet

  Share share(int64_t num_items) const { return Share(num_items, thread, pool.num_threads()); }

  // Calls function(item) for the items that this worker gets of `num_items`.
  template <typename Function>
  void claim(int64_t num_items, Function&& function) {
    ++phase;
    for (int64_t item; (item = ranges.next(phase, thread, num_items)) >= 0;) function(item);
  }
};

class Op {
 public:
  virtual ~Op() = default;
  virtual void execute(const Step& step, Worker& worker) const = 0;
  virtual bool is_barrier() const { return false; }
  // The weights that `thread` of `num_threads` begins with; nothing if the op has none.
  virtual Ahead weights(int, int) const { return {}; }
};

}  // namespace pelton
