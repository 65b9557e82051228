// Schemes and linears for Python: what tests compare with oracles, and what `pelton bench` times.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/thread_pool.h"
#include "core/work_ranges.h"
#include "linear/linear.h"
#include "scheme/scheme.h"

namespace nb = nanobind;

namespace pelton {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

void check_rows(Scheme scheme, const Bytes& rows, int64_t n, int64_t k) {
  const int64_t row_bytes = scheme_row_bytes(scheme, k);
  if (static_cast<int64_t>(rows.shape(0)) != n || static_cast<int64_t>(rows.shape(1)) != row_bytes) {
    throw std::invalid_argument("linear: the rows have shape [" + std::to_string(rows.shape(0)) + ", " +
                                std::to_string(rows.shape(1)) + "], " + std::to_string(n) + " rows of " +
                                std::to_string(k) + " elements of this scheme have [" + std::to_string(n) + ", " +
                                std::to_string(row_bytes) + "].");
  }
}

void check_positive(const char* name, int value) {
  if (value >= 1) return;
  throw std::invalid_argument("linear: " + std::string(name) + "=" + std::to_string(value) + " must be 1 or more.");
}

Result make_result(int64_t num_rows, int64_t row_size) {
  auto* data = new float[static_cast<size_t>(num_rows * row_size)];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  return Result(data, {static_cast<size_t>(num_rows), static_cast<size_t>(row_size)}, owner);
}

Result dequantize(const std::string& scheme_name, const Bytes& rows, int64_t k) {
  const Scheme scheme = scheme_from_name(scheme_name);
  check_rows(scheme, rows, static_cast<int64_t>(rows.shape(0)), k);
  Result values = make_result(static_cast<int64_t>(rows.shape(0)), k);
  for (size_t row = 0; row < rows.shape(0); ++row) {
    dequantize_row(scheme, rows.data() + row * rows.shape(1), k, values.data() + row * static_cast<size_t>(k));
  }
  return values;
}

// A packed matrix, an activation and one scratch per thread, each on its own cache lines.
class Workspace {
 public:
  Workspace(Scheme scheme, const Bytes& rows, int64_t k, int64_t num_x_rows, int num_copies, bool exact, bool is_wide,
            ThreadPool& pool)
      : packed_bytes_(packed_size_bytes(scheme, static_cast<int64_t>(rows.shape(0)), k, exact)),
        scratch_bytes_(round_up(linear_scratch_bytes(num_x_rows), 64)),
        packed_(packed_bytes_ * static_cast<size_t>(num_copies)),
        scratch_(scratch_bytes_ * static_cast<size_t>(pool.num_threads())) {
    const auto n = static_cast<int64_t>(rows.shape(0));
    const int num_strips = static_cast<int>((n + 63) / 64);
    pool.run([&](int thread) {
      pack_strips(scheme, rows.data(), nullptr, n, k, packed_.data(), exact, num_strips * thread / pool.num_threads(),
                  num_strips * (thread + 1) / pool.num_threads());
    });
    const PackedMatrix first = pack_strips(scheme, rows.data(), nullptr, n, k, packed_.data(), exact, 0, 0);
    for (int copy = 0; copy < num_copies; ++copy) {
      uint8_t* data = packed_.data() + packed_bytes_ * static_cast<size_t>(copy);
      if (copy > 0) std::memcpy(data, packed_.data(), packed_bytes_);
      matrices_.push_back(first);
      matrices_.back().data = data;
    }
    const ActivationKind kind = is_wide ? widened(first.activation) : first.activation;
    activation_memory_ = Arena(activation_size_bytes(kind, num_x_rows, k));
    activation_ = make_activation(kind, num_x_rows, k, activation_memory_.data());
  }

  const PackedMatrix& matrix(int copy) const { return matrices_[static_cast<size_t>(copy)]; }
  const Activation& activation() const { return activation_; }
  size_t packed_bytes() const { return packed_bytes_; }
  void* scratch(int thread) { return scratch_.data() + scratch_bytes_ * static_cast<size_t>(thread); }

 private:
  size_t packed_bytes_, scratch_bytes_;
  Arena packed_, scratch_, activation_memory_;
  std::vector<PackedMatrix> matrices_;
  Activation activation_{};
};

using Out = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Result linear(const std::string& scheme_name, const Bytes& rows, int64_t n, int64_t k, const Floats& x,
              std::optional<Vector> bias, bool exact, int num_threads, bool is_wide, std::optional<Out> out) {
  const Scheme scheme = scheme_from_name(scheme_name);
  check_rows(scheme, rows, n, k);
  if (static_cast<int64_t>(x.shape(1)) != k || (bias && static_cast<int64_t>(bias->shape(0)) != n)) {
    throw std::invalid_argument("linear: x must be [rows, " + std::to_string(k) + "] and bias [" + std::to_string(n) +
                                "].");
  }
  check_positive("num_threads", num_threads);
  const auto num_x_rows = static_cast<int64_t>(x.shape(0));
  if (out && (static_cast<int64_t>(out->shape(0)) != num_x_rows || static_cast<int64_t>(out->shape(1)) != n)) {
    throw std::invalid_argument("linear: out must be [" + std::to_string(num_x_rows) + ", " + std::to_string(n) + "].");
  }
  Result result = make_result(num_x_rows, n);
  float* y = out ? out->data() : result.data();
  nb::gil_scoped_release release;
  ThreadPool pool(num_threads);
  Workspace workspace(scheme, rows, k, num_x_rows, 1, exact, is_wide, pool);
  WorkRanges ranges(num_threads);
  const float* bias_data = bias ? bias->data() : nullptr;
  const Linear task{&workspace.matrix(0), workspace.activation(), bias_data, nullptr, 0, y, n};
  pool.run([&](int thread) {
    quantize_rows(task.x, x.data(), k, num_x_rows * thread / num_threads, num_x_rows * (thread + 1) / num_threads);
    pool.barrier();
    for (int64_t strip; (strip = ranges.next(1, thread, task.weight->num_strips)) >= 0;) {
      linear_strip(task, static_cast<int>(strip), workspace.scratch(thread));
    }
  });
  if (out) std::copy_n(y, num_x_rows * n, result.data());
  return result;
}

// Seconds per pass over `num_copies` equal matrices, one barrier after each, for every repeat after a first one.
std::vector<double> linear_bench(const std::string& scheme_name, const Bytes& rows, int64_t k, const Floats& x,
                                 int num_copies, int num_repeats, bool exact, int num_threads, bool is_wide) {
  const Scheme scheme = scheme_from_name(scheme_name);
  const auto n = static_cast<int64_t>(rows.shape(0));
  const auto num_x_rows = static_cast<int64_t>(x.shape(0));
  check_rows(scheme, rows, n, k);
  check_positive("num_threads", num_threads);
  check_positive("num_copies", num_copies);
  if (static_cast<int64_t>(x.shape(1)) != k) {
    throw std::invalid_argument("linear_bench: x must be [rows, " + std::to_string(k) + "].");
  }
  std::vector<float> y(static_cast<size_t>(num_x_rows * n));
  std::vector<double> seconds;
  nb::gil_scoped_release release;
  ThreadPool pool(num_threads);
  Workspace workspace(scheme, rows, k, num_x_rows, num_copies, exact, is_wide, pool);
  WorkRanges ranges(num_threads);
  quantize_rows(workspace.activation(), x.data(), k, 0, num_x_rows);
  uint16_t phase = 0;
  for (int repeat = 0; repeat <= num_repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      for (int copy = 0; copy < num_copies; ++copy) {
        const Linear task{&workspace.matrix(copy), workspace.activation(), nullptr, nullptr, 0, y.data(), n};
        const auto this_phase = static_cast<uint16_t>(phase + copy + 1);
        for (int64_t strip; (strip = ranges.next(this_phase, thread, task.weight->num_strips)) >= 0;) {
          linear_strip(task, static_cast<int>(strip), workspace.scratch(thread));
        }
        pool.barrier();
      }
    });
    phase = static_cast<uint16_t>(phase + num_copies);
    if (repeat > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

using PackedBytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

PackedBytes pack(const std::string& scheme_name, const Bytes& rows, int64_t k) {
  const Scheme scheme = scheme_from_name(scheme_name);
  const auto n = static_cast<int64_t>(rows.shape(0));
  check_rows(scheme, rows, n, k);
  const size_t size_bytes = packed_size_bytes(scheme, n, k, false);
  auto* arena = new Arena(size_bytes);
  nb::capsule owner(arena, [](void* p) noexcept { delete static_cast<Arena*>(p); });
  std::memset(arena->data(), 0xaa, size_bytes);  // a byte that packing forgets shows
  pack_strips(scheme, rows.data(), nullptr, n, k, arena->data(), false, 0, static_cast<int>((n + 63) / 64));
  return PackedBytes(arena->data(), {size_bytes}, owner);
}

size_t packed_size_of(const std::string& scheme_name, int64_t n, int64_t k) {
  return packed_size_bytes(scheme_from_name(scheme_name), n, k, false);
}

}  // namespace

void bind_linear(nb::module_& m) {
  m.def("dequantize", &dequantize, nb::arg("scheme"), nb::arg("rows"), nb::arg("k"),
        "The float32 values of rows[N, row_bytes], exactly as the scheme defines them.");
  m.def("linear", &linear, nb::arg("scheme"), nb::arg("rows"), nb::arg("n"), nb::arg("k"), nb::arg("x_MK"),
        nb::arg("bias_N").none() = nb::none(), nb::arg("exact") = false, nb::arg("num_threads") = 1, nb::kw_only(),
        nb::arg("is_wide") = false, nb::arg("out").none() = nb::none(),
        "y[M, N] = x times the transposed weight, plus bias, computed in `out` if there is one and always given back as "
        "a new array; packs the weight first, so it is for tests.");
  m.def("pack", &pack, nb::arg("scheme"), nb::arg("rows"), nb::arg("k"), "The packed bytes of rows[N, row_bytes].");
  m.def("packed_size_bytes", &packed_size_of, nb::arg("scheme"), nb::arg("n"), nb::arg("k"),
        "Bytes that a weight of n rows of k elements takes when packed.");
  m.def("linear_bench", &linear_bench, nb::arg("scheme"), nb::arg("rows"), nb::arg("k"), nb::arg("x_MK"),
        nb::kw_only(), nb::arg("num_copies"), nb::arg("num_repeats") = 5, nb::arg("exact") = false,
        nb::arg("num_threads") = 1, nb::arg("is_wide") = false,
        "Seconds that each repeat took to multiply x with num_copies copies of the weight, one after another.");
}

}  // namespace pelton
