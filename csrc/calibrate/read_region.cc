#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "calibrate/calibrate.h"
#include "core/arena.h"
#include "core/thread_pool.h"

namespace pelton {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSmallPageBytes = size_t{4} << 10;
constexpr size_t kHugePageBytes = size_t{2} << 20;

int64_t count_page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Threads take whole huge pages, so that each page is touched by one of them.
std::pair<size_t, size_t> part_of(size_t size_bytes, int thread, int num_threads) {
  const size_t num_pages = size_bytes / kHugePageBytes, t = static_cast<size_t>(thread);
  const size_t n = static_cast<size_t>(num_threads);
  return {num_pages * t / n * kHugePageBytes, num_pages * (t + 1) / n * kHugePageBytes};
}

}  // namespace

ReadRegion::ReadRegion(size_t wanted_bytes, bool wants_huge_pages, int num_threads)
    : size_bytes(round_up(wanted_bytes, kHugePageBytes)), mapping_bytes_(size_bytes + kHugePageBytes) {
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  data = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(mapping_), kHugePageBytes));
  madvise(data, size_bytes, wants_huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const int64_t faults_before = count_page_faults();
  ThreadPool pool(num_threads);
  pool.run([&](int thread) {
    const auto [begin, end] = part_of(size_bytes, thread, num_threads);
    // Written, not only read: pages that were never written are all one page of zeros, which is read from the cache.
    for (size_t at = begin; at < end; at += kSmallPageBytes) data[at] = 1;
  });
  const auto faults = static_cast<double>(count_page_faults() - faults_before);
  const double small_share = faults * static_cast<double>(kSmallPageBytes) / static_cast<double>(size_bytes);
  huge_share = small_share < 0.01 ? 1.0 : std::max(0.0, 1.0 - small_share);
}

ReadRegion::~ReadRegion() { munmap(mapping_, mapping_bytes_); }

double ReadRegion::measure_bytes_per_s(int num_threads, double seconds) const {
  const CalibrationKernels kernels = calibration_kernels();
  ThreadPool pool(num_threads);
  double best = 0.0;
  const auto begin_time = Clock::now();
  for (int pass = 0; pass < 2 || std::chrono::duration<double>(Clock::now() - begin_time).count() < seconds; ++pass) {
    double elapsed = 0.0;
    pool.run([&](int thread) {
      const auto [begin, end] = part_of(size_bytes, thread, num_threads);
      pool.barrier();
      const auto start = Clock::now();
      kernels.read(data + begin, end - begin);
      pool.barrier();
      if (thread == 0) elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    });
    best = std::max(best, static_cast<double>(size_bytes) / elapsed);
  }
  return best;
}

}  // namespace pelton
