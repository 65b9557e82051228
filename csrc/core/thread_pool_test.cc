// The pool under ThreadSanitizer: plain memory written before a barrier or a run is read after it, and nothing else
// keeps the threads apart.
#include "core/thread_pool.h"

#include <vector>

#include "core/check.h"

namespace pelton {
namespace {

void every_thread_takes_part_in_every_run(int num_threads) {
  ThreadPool pool(num_threads);
  std::vector<int> num_calls(static_cast<size_t>(num_threads));
  for (int run = 1; run <= 300; ++run) {
    pool.run([&](int thread) { ++num_calls[static_cast<size_t>(thread)]; });
    for (const int calls : num_calls) check(calls == run, "each thread is called once per run, and has returned");
  }
}

// Each thread writes its own cell and reads its neighbours' between barriers: no barrier lets one through early.
void what_is_written_before_a_barrier_is_read_after(int num_threads) {
  ThreadPool pool(num_threads);
  std::vector<int> cells(static_cast<size_t>(num_threads));
  for (int run = 0; run < 20; ++run) {
    pool.run([&](int thread) {
      for (int round = 0; round < 100; ++round) {
        cells[static_cast<size_t>(thread)] = run * 100 + round;
        pool.barrier();
        for (const int cell : cells) check(cell == run * 100 + round, "every cell has the value of this round");
        pool.barrier();
      }
    });
  }
}

// Two barriers in a row, and threads that come late by turns.
void threads_may_come_at_any_time(int num_threads) {
  ThreadPool pool(num_threads);
  int64_t turns = 0;
  pool.run([&](int thread) {
    for (int round = 0; round < 40 * num_threads; ++round) {
      if (round % num_threads == thread) {
        linger();
        ++turns;
      }
      pool.barrier();
    }
  });
  check(turns == 40 * num_threads, "one thread at a time added one");
}

void a_pool_may_close_without_a_run() {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

}  // namespace
}  // namespace pelton

int main() {
  for (const int num_threads : {1, 2, 3, 4}) {
    pelton::every_thread_takes_part_in_every_run(num_threads);
    pelton::what_is_written_before_a_barrier_is_read_after(num_threads);
    pelton::threads_may_come_at_any_time(num_threads);
  }
  pelton::a_pool_may_close_without_a_run();
}
