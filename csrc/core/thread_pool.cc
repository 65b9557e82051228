#include "core/thread_pool.h"

#include <sched.h>

#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pelton {
namespace {

constexpr int kSpinsBetweenClockReads = 64;
constexpr std::chrono::microseconds kSpinTime{20};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Into the second level of the cache: what is read next would push it out of the first.
void prefetch_some(Ahead& ahead) {
  constexpr size_t kLineBytes = 64, kBytes = 4 * kLineBytes;
  if (ahead.left_bytes < kBytes) return;
  for (size_t i = 0; i < kBytes; i += kLineBytes) __builtin_prefetch(ahead.data + i, 0, 2);
  ahead.data += kBytes;
  ahead.left_bytes -= kBytes;
}

// Spins until `value` differs from `old`; after kSpinTime it gives the core away between looks.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, Ahead& ahead) {
  for (int i = 0; i < kSpinsBetweenClockReads; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    prefetch_some(ahead);
    pause();
  }
  const auto yield_after = std::chrono::steady_clock::now() + kSpinTime;
  while (value.load(std::memory_order_acquire) == old) {
    if (std::chrono::steady_clock::now() >= yield_after) {
      sched_yield();
      continue;
    }
    for (int i = 0; i < kSpinsBetweenClockReads && value.load(std::memory_order_acquire) == old; ++i) {
      prefetch_some(ahead);
      pause();
    }
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  threads_.reserve(static_cast<size_t>(num_threads - 1));
  for (int thread = 1; thread < num_threads; ++thread) threads_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  is_closing_ = true;
  run_index_.fetch_add(1, std::memory_order_release);
  run_index_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::start(Entry entry, void* context) {
  entry_ = entry;
  context_ = context;
  if (num_threads_ > 1) {
    run_index_.fetch_add(1, std::memory_order_release);
    run_index_.notify_all();
  }
  entry(context, 0);
  barrier();
}

void ThreadPool::work(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    run_index_.wait(seen, std::memory_order_acquire);
    if (is_closing_) return;
    entry_(context_, thread);
    barrier();
  }
}

void ThreadPool::barrier(Ahead& ahead) {
  if (num_threads_ == 1) return;
  const uint32_t epoch = barrier_epoch_.load(std::memory_order_relaxed);
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) == static_cast<uint32_t>(num_threads_) - 1) {
    num_arrived_.store(0, std::memory_order_relaxed);
    barrier_epoch_.store(epoch + 1, std::memory_order_release);
  } else {
    wait_for_change(barrier_epoch_, epoch, ahead);
  }
}

}  // namespace pelton
