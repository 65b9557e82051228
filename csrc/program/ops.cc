#include "program/ops.h"

#include <algorithm>
#include <cstring>

namespace pelton {
namespace {

int64_t count_tiles(const Step& step, int64_t request, int64_t group_size) {
  const int32_t* start = step.attention.query_start + request;
  return ((start[1] - start[0]) * group_size + kTileRows - 1) / kTileRows;
}

// Turns the number of a tile into its place. Numbers mostly ascend, so the search goes on from the last one.
class TileFinder {
 public:
  TileFinder(const Step& step, const Attention& task) : step_(step), task_(task) {}

  AttentionTile find(int64_t number) {
    if (number < first_number_) request_ = first_number_ = 0;
    int64_t tiles_per_head;
    while (true) {
      tiles_per_head = count_tiles(step_, request_, task_.group_size());
      const int64_t in_request = tiles_per_head * task_.layout.num_kv_heads;
      if (number - first_number_ < in_request) break;
      first_number_ += in_request;
      ++request_;
    }
    const int64_t local = number - first_number_;
    return {request_, local / tiles_per_head, local % tiles_per_head};
  }

 private:
  const Step& step_;
  const Attention& task_;
  int64_t request_ = 0;
  int64_t first_number_ = 0;  // of the request
};

}  // namespace

void QuantizeOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  const Share share = worker.share(num_rows);
  if (share.begin == share.end) return;
  quantize_rows(make_activation(kind_, num_rows, size_, memory_), x_.data, x_.stride, share.begin, share.end);
}

void NormQuantizeOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  const Share share = worker.share(num_rows);
  if (share.begin == share.end) return;
  const Activation activation = make_activation(kind_, num_rows, norm_.size, memory_);
  RmsNorm norm = norm_;
  norm.y = {static_cast<float*>(worker.scratch), 0};  // every row to the same place
  for (int64_t row = share.begin; row < share.end; ++row) {
    kernel_(norm, row, row + 1);
    quantize_rows(activation, norm.y.data, 0, row, row + 1);
  }
}

void LinearOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  if (num_rows == 0) return;
  int64_t num_strips = 0;
  for (const LinearPart& part : parts_) num_strips += part.matrix.num_strips;
  GatedOutput gated;
  if (gated_) gated = {gated_->function, make_activation(gated_->kind, num_rows, gated_->size, gated_->memory)};
  worker.claim(num_strips, [&](int64_t strip) {
    int64_t first_column = 0;
    const LinearPart* part = parts_.data();
    for (; strip >= part->matrix.num_strips; ++part) {
      strip -= part->matrix.num_strips;
      first_column += part->matrix.num_rows;
    }
    const PackedMatrix& matrix = part->matrix;
    const Activation x = make_activation(part->kind, num_rows, matrix.row_size, part->activation_memory);
    const float* bias = bias_ != nullptr ? bias_ + first_column : nullptr;
    const float* residual = residual_.data != nullptr ? residual_.data + first_column : nullptr;
    const Linear linear{&matrix, x, bias, residual, residual_.stride, y_.data + first_column, y_.stride,
                        gated_ ? &gated : nullptr};
    linear_strip(linear, static_cast<int>(strip), worker.scratch);
  });
}

void SelectRowsOp::execute(const Step& step, Worker& worker) const {
  const Share share = worker.share(step.num_logits_rows);
  for (int64_t row = share.begin; row < share.end; ++row) {
    memcpy(y_.row(row), x_.row(step.logits_index[row]), static_cast<size_t>(size_) * sizeof(float));
  }
}

void KvWriteOp::execute(const Step& step, Worker& worker) const {
  const Share share = worker.share(step.num_tokens);
  kernel_(task_, step.attention, share.begin, share.end);
}

void AttentionOp::execute(const Step& step, Worker& worker) const {
  int64_t num_tiles = 0, last_position = 0;
  for (int64_t request = 0; request < step.num_requests; ++request) {
    num_tiles += count_tiles(step, request, task_.group_size()) * task_.layout.num_kv_heads;
    const int64_t end = step.attention.query_start[request + 1];
    if (end > step.attention.query_start[request]) {
      last_position = std::max<int64_t>(last_position, step.attention.positions[end - 1]);
    }
  }
  const int64_t num_splits = last_position / kSplitTokens + 1;
  const int num_threads = worker.pool.num_threads();
  if (num_threads > 1 && num_splits > 1 && num_tiles < kTilesPerWorker * num_threads) {
    execute_splits(step, worker, num_tiles, num_splits);
    return;
  }
  TileFinder finder(step, task_);
  worker.claim(num_tiles, [&](int64_t number) {
    kernels_.attend(task_, step.attention, finder.find(number), worker.scratch);
  });
}

void AttentionOp::execute_splits(const Step& step, Worker& worker, int64_t num_tiles, int64_t num_splits) const {
  TileFinder finder(step, task_);
  const int64_t stride = partial_floats(task_.layout.v_dims);
  worker.claim(num_tiles * num_splits, [&](int64_t item) {
    const int64_t split = item % num_splits;
    kernels_.attend_split(task_, step.attention, finder.find(item / num_splits), split, partials_ + item * stride,
                          worker.scratch);
  });
  worker.pool.barrier();
  worker.claim(num_tiles, [&](int64_t number) {
    const float* partials = partials_ + number * num_splits * stride;
    kernels_.merge_splits(task_, step.attention, finder.find(number), partials, worker.scratch);
  });
}

}  // namespace pelton
