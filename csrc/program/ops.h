// The ops of a program: each one binds a kernel to its operands. Arithmetic is in the kernels' own folders.
#pragma once

#include <vector>

#include "attention/attention.h"
#include "embedding/embedding.h"
#include "linear/linear.h"
#include "program/op.h"
#include "rms_norm/rms_norm.h"

namespace pelton {

// A worker that waits here prefetches the weights that it reads next, even if other ops come first.
class Barrier final : public Op {
 public:
  void execute(const Step&, Worker& worker) const override { worker.pool.barrier(worker.ahead); }
  bool is_barrier() const override { return true; }
};

// A kernel over rows, each thread with an equal contiguous share of them.
template <typename Task>
class RowOp final : public Op {
 public:
  using Kernel = void (*)(const Task&, int64_t row_begin, int64_t row_end);

  RowOp(RowAxis axis, const Task& task, Kernel kernel) : axis_(axis), task_(task), kernel_(kernel) {}

  void execute(const Step& step, Worker& worker) const override {
    const Share share = worker.share(step.num_rows(axis_));
    kernel_(task_, share.begin, share.end);
  }

 private:
  RowAxis axis_;
  Task task_;
  Kernel kernel_;
};

// Stores rows the way a linear's kernel reads them. `memory` holds make_activation's arrays.
class QuantizeOp final : public Op {
 public:
  QuantizeOp(RowAxis axis, Rows x, ActivationKind kind, int64_t size, void* memory)
      : axis_(axis), x_(x), kind_(kind), size_(size), memory_(memory) {}
  void execute(const Step& step, Worker& worker) const override;

 private:
  RowAxis axis_;
  Rows x_;
  ActivationKind kind_;
  int64_t size_;
  void* memory_;
};

// rms_norm of whole rows, stored the way a linear's kernel reads them: the normalised floats stay in the scratch.
class NormQuantizeOp final : public Op {
 public:
  // norm.y is not used; the worker's scratch holds norm.size floats.
  NormQuantizeOp(RowAxis axis, const RmsNorm& norm, ActivationKind kind, void* memory)
      : axis_(axis), norm_(norm), kernel_(rms_norm_kernel()), kind_(kind), memory_(memory) {}
  void execute(const Step& step, Worker& worker) const override;

 private:
  RowAxis axis_;
  RmsNorm norm_;
  RmsNormKernel kernel_;
  ActivationKind kind_;
  void* memory_;
};

// One part of a linear: a packed matrix and the quantized rows it multiplies.
struct LinearPart {
  PackedMatrix matrix;
  ActivationKind kind;
  void* activation_memory;
};

// All parts of a weight in one phase; workers claim strips of 64 output channels.
class LinearOp final : public Op {
 public:
  LinearOp(RowAxis axis, std::vector<LinearPart> parts, const float* bias, Rows residual, Rows y)
      : axis_(axis), parts_(std::move(parts)), bias_(bias), residual_(residual), y_(y) {}
  void execute(const Step& step, Worker& worker) const override;
  Ahead weights(int thread, int num_threads) const override;

 private:
  RowAxis axis_;
  std::vector<LinearPart> parts_;
  const float* bias_;
  Rows residual_;
  Rows y_;
};

// Where the gated product of a linear goes: make_activation's arrays for the linear that reads it.
struct GatedTarget {
  ActivationFunction function;
  ActivationKind kind;
  int64_t size;
  void* memory;
};

// A linear over interleaved gates and ups, the product, and its quantization: workers claim slabs of 128 products.
class GatedLinearOp final : public Op {
 public:
  GatedLinearOp(RowAxis axis, const LinearPart& part, const float* bias, const GatedTarget& target)
      : axis_(axis), part_(part), bias_(bias), target_(target) {}
  void execute(const Step& step, Worker& worker) const override;
  Ahead weights(int thread, int num_threads) const override;

 private:
  RowAxis axis_;
  LinearPart part_;
  const float* bias_;
  GatedTarget target_;
};

class SelectRowsOp final : public Op {
 public:
  SelectRowsOp(Rows x, Rows y, int64_t size) : x_(x), y_(y), size_(size) {}
  void execute(const Step& step, Worker& worker) const override;

 private:
  Rows x_;
  Rows y_;
  int64_t size_;
};

class KvWriteOp final : public Op {
 public:
  KvWriteOp(const KvWrite& task, KvWriteKernel kernel) : task_(task), kernel_(kernel) {}
  void execute(const Step& step, Worker& worker) const override;

 private:
  KvWrite task_;
  KvWriteKernel kernel_;
};

// Workers claim tiles of (request, kv head, 64 pairs of token and query head). Where those are few, or one of them is
// longer than a worker's share, they claim the splits of tiles instead, and merge after a barrier: a single long context
// keeps all busy. What requests share is computed before, in tiles of rows of all of them, with a barrier behind it.
class AttentionOp final : public Op {
 public:
  // `partials` holds kTilesPerWorker * workers * splits of the longest context times partial_floats, `prefixes`
  // num_heads * requests times prefix_stride.
  static constexpr int64_t kTilesPerWorker = 2;

  AttentionOp(const Attention& task, float* partials, float* prefixes, int64_t max_context)
      : task_(task),
        kernels_(attention_kernels(task.layout.dtype)),
        partials_(partials),
        prefixes_(prefixes),
        max_num_splits_((max_context + kSplitTokens - 1) / kSplitTokens) {}
  void execute(const Step& step, Worker& worker) const override;

 private:
  void execute_prefixes(const Step& step, Worker& worker) const;
  void execute_splits(const Step& step, Worker& worker, bool has_prefixes, int64_t num_tiles, int64_t num_splits) const;

  Attention task_;
  AttentionKernels kernels_;
  float* partials_;
  float* prefixes_;
  int64_t max_num_splits_;
};

}  // namespace pelton
