// The threads of one program. The caller of run() is worker 0; the others sleep between runs.
//
// Inside a run threads meet at barrier(), which spins: a step has hundreds of barriers and each costs 35-350 ns so,
// microseconds through the kernel. After about 20 us of spinning a thread yields, so that a machine with fewer cores
// than threads still makes progress. Work is claimed with WorkRanges (work_ranges.h).
//
// run() must not be called by two threads at once, nor from inside a run. The function must not throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace pelton {

// Memory that a thread is about to read, and how much of it is left to be prefetched.
struct Ahead {
  const uint8_t* data = nullptr;
  size_t left_bytes = 0;
};

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls function(thread) on every thread, and returns when all have returned.
  template <typename Function>
  void run(Function&& function) {
    start([](void* context, int thread) { (*static_cast<std::remove_reference_t<Function>*>(context))(thread); },
          &function);
  }

  // Inside a run: waits until every thread has come here. What was written before is visible after. A thread that
  // waits prefetches `ahead`, what it will read next, a little between looks, and takes that from it.
  void barrier(Ahead& ahead);
  void barrier() {
    Ahead nothing;
    barrier(nothing);
  }

 private:
  using Entry = void (*)(void* context, int thread);

  void start(Entry entry, void* context);
  void work(int thread);

  const int num_threads_;
  Entry entry_ = nullptr;
  void* context_ = nullptr;
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
  alignas(64) std::atomic<uint32_t> run_index_{0};
  alignas(64) std::atomic<uint32_t> barrier_epoch_{0};
  alignas(64) std::atomic<uint32_t> num_arrived_{0};
};

}  // namespace pelton
