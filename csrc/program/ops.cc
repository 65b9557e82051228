#include "program/ops.h"

#include <cstring>

namespace pelton {
namespace {

int64_t count_tiles(const Step& step, int64_t request, int64_t group_size) {
  const int32_t* start = step.attention.query_start + request;
  return ((start[1] - start[0]) * group_size + kTileRows - 1) / kTileRows;
}

}  // namespace

void QuantizeOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  const Share share = worker.share(num_rows);
  if (share.begin == share.end) return;
  quantize_rows(make_activation(kind_, num_rows, size_, memory_), x_.data, x_.stride, share.begin, share.end);
}

void LinearOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  if (num_rows == 0) return;
  int64_t num_strips = 0;
  for (const LinearPart& part : parts_) num_strips += part.matrix.num_strips;
  worker.claim(num_strips, [&](int64_t strip) {
    int64_t first_column = 0;
    const LinearPart* part = parts_.data();
    for (; strip >= part->matrix.num_strips; ++part) {
      strip -= part->matrix.num_strips;
      first_column += part->matrix.num_rows;
    }
    const PackedMatrix& matrix = part->matrix;
    const Activation x = make_activation(matrix.activation, num_rows, matrix.row_size, part->activation_memory);
    const float* bias = bias_ != nullptr ? bias_ + first_column : nullptr;
    const float* residual = residual_.data != nullptr ? residual_.data + first_column : nullptr;
    const Linear linear{&matrix, x, bias, residual, residual_.stride, y_.data + first_column, y_.stride};
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
  const int64_t group_size = task_.group_size();
  const int64_t num_kv_heads = task_.layout.num_kv_heads;
  int64_t num_tiles = 0;
  for (int64_t request = 0; request < step.num_requests; ++request) {
    num_tiles += count_tiles(step, request, group_size) * num_kv_heads;
  }
  // A worker's tiles mostly ascend, so the search for a tile's request goes on from the last one.
  int64_t request = 0, first_tile = 0;
  worker.claim(num_tiles, [&](int64_t tile) {
    if (tile < first_tile) request = first_tile = 0;
    int64_t in_request;
    while (tile - first_tile >= (in_request = count_tiles(step, request, group_size) * num_kv_heads)) {
      first_tile += in_request;
      ++request;
    }
    const int64_t tiles_per_head = in_request / num_kv_heads;
    const int64_t local = tile - first_tile;
    kernel_(task_, step.attention, {request, local / tiles_per_head, local % tiles_per_head}, worker.scratch);
  });
}

}  // namespace pelton
