#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>

#include "core/isa.h"
#include "core/thread_pool.h"

namespace pelton {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kChunkSeconds = 1e-3;  // long beside a barrier, short beside a time slice
constexpr int kMinRuns = 3;
constexpr int64_t kFirstIterations = 256;
constexpr int kBarriersPerRun = 64;
constexpr int64_t kAdditionsPerRun = 1'000'000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The shortest of runs of `function`, which returns seconds, until `seconds` are over.
template <typename Function>
double best_of(double seconds, Function&& function) {
  const auto start = Clock::now();
  double best = function();
  for (int run = 1; run < kMinRuns || seconds_since(start) < seconds; ++run) best = std::min(best, function());
  return best;
}

}  // namespace

CalibrationKernels calibration_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return calibration_kernels_avx512();
  if (isa() == Isa::Avx2) return calibration_kernels_avx2();
#endif
  return calibration_kernels_generic();
}

double measure_clock_hz(double seconds) {
  const double best = best_of(seconds, [] {
    uint64_t sum = 1, step = 3;
    const auto start = Clock::now();
    for (int64_t i = 0; i < kAdditionsPerRun; i += 8) {
      // Neither the compiler nor the core can shorten a sum of two registers that it has to wait for.
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        sum += step;
        asm volatile("" : "+r"(sum), "+r"(step));
      }
    }
    return seconds_since(start);
  });
  return static_cast<double>(kAdditionsPerRun) / best;
}

double measure_ops_per_s(const Peak& peak, int num_threads, double seconds) {
  ThreadPool pool(num_threads);
  int64_t iterations = kFirstIterations;
  const auto run = [&] {
    double elapsed = 0.0;
    pool.run([&](int thread) {
      pool.barrier();
      const auto start = Clock::now();
      peak.run(iterations);
      pool.barrier();
      if (thread == 0) elapsed = seconds_since(start);
    });
    return elapsed;
  };
  while (best_of(0.0, run) < kChunkSeconds) iterations *= 2;
  const double best = best_of(seconds, run);
  return peak.ops_per_iteration * static_cast<double>(iterations) * num_threads / best;
}

double measure_barrier_s(int num_threads, double seconds) {
  ThreadPool pool(num_threads);
  const double best = best_of(seconds, [&] {
    double elapsed = 0.0;
    pool.run([&](int thread) {
      pool.barrier();
      const auto start = Clock::now();
      for (int i = 0; i < kBarriersPerRun; ++i) pool.barrier();
      if (thread == 0) elapsed = seconds_since(start);
    });
    return elapsed;
  });
  return best / kBarriersPerRun;
}

}  // namespace pelton
