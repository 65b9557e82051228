// What this machine can do at this moment: the limits that measured kernels are compared with.
//
//   clock       cycles per second, from a chain of dependent additions (one cycle each)
//   peak        operations per second from registers alone, a multiply-add counting as two: vpdpbusd, vdpbf16ps and
//               vfmadd231ps on AVX-512; on AVX2 what its kernels have for the same purpose; elsewhere plain loops
//   bandwidth   bytes per second of a sequential read with the widest loads, each thread over its own part
//   barrier     seconds from one ThreadPool::barrier to the next
//
// Every figure is the best of several short runs: whatever else disturbs a run can only slow it down. Threads are a
// ThreadPool of their own, made and joined within the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pelton {

// `run` makes `iterations` times ops_per_iteration operations and returns when they are done.
struct Peak {
  const char* instruction;
  double ops_per_iteration;
  void (*run)(int64_t iterations);
};

// The kernels of one instruction set. `read` loads every byte of [data, data + size_bytes), a multiple of 1024.
struct CalibrationKernels {
  Peak int8;
  Peak bfloat16;
  Peak float32;
  void (*read)(const uint8_t* data, size_t size_bytes);
};

CalibrationKernels calibration_kernels();  // of isa()
CalibrationKernels calibration_kernels_generic();
CalibrationKernels calibration_kernels_avx2();
CalibrationKernels calibration_kernels_avx512();

double measure_clock_hz(double seconds);
double measure_ops_per_s(const Peak& peak, int num_threads, double seconds);
double measure_barrier_s(int num_threads, double seconds);

// Memory that is read: pages of 4 KiB, or of 2 MiB where the system gives them.
struct ReadRegion {
  ReadRegion(size_t size_bytes, bool wants_huge_pages, int num_threads);  // throws std::bad_alloc; touches every page
  ~ReadRegion();
  ReadRegion(const ReadRegion&) = delete;
  ReadRegion& operator=(const ReadRegion&) = delete;

  // The best of passes until `seconds` are over, at least two.
  double measure_bytes_per_s(int num_threads, double seconds) const;

  size_t size_bytes;
  double huge_share;  // the part that lies in huge pages, from the number of page faults
  uint8_t* data;

 private:
  void* mapping_;
  size_t mapping_bytes_;
};

}  // namespace pelton
