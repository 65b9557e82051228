// Every item of a phase is taken once, whoever takes it, also when the phase number wraps around at 65536. Items write
// plain memory, so ThreadSanitizer sees an item that two threads hold.
#include "core/work_ranges.h"

#include <vector>

#include "core/check.h"
#include "core/thread_pool.h"

namespace pelton {
namespace {

constexpr int kThreads = 3;

// One thread is slow, so that the others come and steal from it.
void items_are_taken_once(int64_t num_items, int slow_thread) {
  ThreadPool pool(kThreads);
  WorkRanges ranges(kThreads);
  std::vector<int> times_taken(static_cast<size_t>(num_items));
  std::vector<int> num_stolen(kThreads);
  for (int phase = 1; phase <= 50; ++phase) {
    pool.run([&](int thread) {
      for (int64_t item; (item = ranges.next(static_cast<uint16_t>(phase), thread, num_items)) >= 0;) {
        ++times_taken[static_cast<size_t>(item)];
        const bool is_own = item >= num_items * thread / kThreads && item < num_items * (thread + 1) / kThreads;
        if (!is_own) ++num_stolen[static_cast<size_t>(thread)];
        if (thread == slow_thread) linger();
      }
    });
    for (const int times : times_taken) check(times == phase, "each item is taken once per phase");
  }
  if (num_items < 60 || slow_thread < 0) return;
  int stolen = 0;
  for (const int count : num_stolen) stolen += count;
  check(stolen > 0, "somebody steals from a slow thread");
}

// All phase numbers, and then the first ones again: the words of 65536 phases ago do not count as this phase's.
void phase_numbers_may_wrap_around() {
  constexpr int64_t num_items = 5;
  constexpr int num_phases = 65536 + 300;
  ThreadPool pool(kThreads);
  WorkRanges ranges(kThreads);
  std::vector<int> times_taken(num_items);
  pool.run([&](int thread) {
    uint16_t phase = 0;
    for (int i = 0; i < num_phases; ++i) {
      ++phase;
      for (int64_t item; (item = ranges.next(phase, thread, num_items)) >= 0;) ++times_taken[static_cast<size_t>(item)];
      pool.barrier();
    }
  });
  for (const int times : times_taken) check(times == num_phases, "each item is taken once per phase, wrapped or not");
}

}  // namespace
}  // namespace pelton

int main() {
  for (const int64_t num_items : {0, 1, 2, 3, 64, 1000}) {
    for (const int slow_thread : {-1, 0, 2}) pelton::items_are_taken_once(num_items, slow_thread);
  }
  pelton::phase_numbers_may_wrap_around();
}
