// Who does which items of a phase: each thread owns one contiguous range and takes from its front; a thread that has
// finished steals from the back of the others.
//
// Contiguous ranges keep each thread on one sequential stream of memory: one shared counter cost 40 % of the read
// bandwidth. A range is one word {phase, first, last} on its own cache line, changed by compare-and-swap. A word of
// an older phase means "nobody has started this range", so a phase needs no preparation and no barrier.
//
// Phases are numbered by the caller, the same on all threads, with a barrier between two uses of different numbers;
// every thread must call next() until it returns -1. Up to 2^24 - 1 items.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace pelton {

class WorkRanges {
 public:
  explicit WorkRanges(int num_threads) : num_threads_(num_threads), ranges_(new Range[num_threads]) {}

  // The next item of `phase` for `thread`, or -1 when all are taken.
  int64_t next(uint16_t phase, int thread, int64_t num_items) {
    int64_t item = take(thread, phase, num_items, true);
    for (int i = 1; item < 0 && i < num_threads_; ++i) {
      item = take((thread + i) % num_threads_, phase, num_items, false);
    }
    return item;
  }

 private:
  struct alignas(64) Range {
    std::atomic<uint64_t> word{0};
  };

  static uint64_t pack(uint64_t phase, uint64_t first, uint64_t last) { return phase << 48 | first << 24 | last; }

  int64_t take(int owner, uint16_t phase, int64_t num_items, bool from_front) {
    constexpr uint64_t mask = (1u << 24) - 1;
    std::atomic<uint64_t>& word = ranges_[owner].word;
    uint64_t seen = word.load(std::memory_order_acquire);
    for (;;) {
      uint64_t first = seen >> 24 & mask;
      uint64_t last = seen & mask;
      const bool is_untouched = seen >> 48 != phase;
      if (is_untouched) {
        first = static_cast<uint64_t>(num_items * owner / num_threads_);
        last = static_cast<uint64_t>(num_items * (owner + 1) / num_threads_);
      }
      if (first == last) {
        if (!is_untouched || word.compare_exchange_weak(seen, pack(phase, first, last))) return -1;
        continue;
      }
      const uint64_t item = from_front ? first : last - 1;
      const uint64_t left = from_front ? pack(phase, first + 1, last) : pack(phase, first, last - 1);
      if (word.compare_exchange_weak(seen, left)) return static_cast<int64_t>(item);
    }
  }

  const int num_threads_;
  std::unique_ptr<Range[]> ranges_;
};

}  // namespace pelton
