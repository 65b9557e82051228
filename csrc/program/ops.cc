#include "program/ops.h"

#include <algorithm>
#include <cstring>

#include "linear/layout.h"

namespace pelton {
namespace {

int64_t count_tiles(const Step& step, int64_t request, int64_t group_size) {
  const int32_t* start = step.attention.query_start + request;
  return ((start[1] - start[0]) * group_size + kTileRows - 1) / kTileRows;
}

// Turns the number of a tile into its place. Numbers mostly ascend, so the search goes on from the last one.
class TileFinder {
 public:
  // `prefixes`: what the step's shared prefixes came to, or nullptr where the tiles begin at the beginning.
  TileFinder(const Step& step, const Attention& task, const float* prefixes)
      : step_(step), task_(task), prefixes_(prefixes) {}

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
    AttentionTile tile{request_, local / tiles_per_head, local % tiles_per_head};
    const PrefixGroup* group = prefixes_ != nullptr ? step_.sharing->group_of(request_) : nullptr;
    if (group != nullptr) {
      const int64_t token = tile.kv_head * step_.sharing->num_tokens() + step_.sharing->first_token_of(request_);
      tile.prefix_splits = group->num_splits;
      const int64_t row = token * task_.group_size() + tile.tile * kTileRows;
      tile.prefix = prefixes_ + row * prefix_stride(task_.layout.v_dims);
    }
    return tile;
  }

 private:
  const Step& step_;
  const Attention& task_;
  const float* prefixes_;
  int64_t request_ = 0;
  int64_t first_number_ = 0;  // of the request
};

// As much of the next weights as stays in the second level of the cache until it is read.
constexpr int64_t kAheadBytes = 256 << 10;

Ahead weights_from(const PackedMatrix& matrix, int64_t strip) {
  const int64_t left_bytes = (matrix.num_strips - strip) * matrix.strip_bytes;
  return {matrix.data + strip * matrix.strip_bytes, static_cast<size_t>(std::min(left_bytes, kAheadBytes))};
}

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
    const Linear linear{&matrix, x, bias, residual, residual_.stride, y_.data + first_column, y_.stride, {}};
    linear_strip(linear, static_cast<int>(strip), worker.scratch);
  });
}

Ahead LinearOp::weights(int thread, int num_threads) const {
  int64_t num_strips = 0;
  for (const LinearPart& part : parts_) num_strips += part.matrix.num_strips;
  int64_t strip = Share(num_strips, thread, num_threads).begin;
  const LinearPart* part = parts_.data();
  for (; strip >= part->matrix.num_strips; ++part) strip -= part->matrix.num_strips;
  return weights_from(part->matrix, strip);
}

Ahead GatedLinearOp::weights(int thread, int num_threads) const {
  return weights_from(part_.matrix, kSlabTiles * Share(num_gated_slabs(part_.matrix), thread, num_threads).begin);
}

void GatedLinearOp::execute(const Step& step, Worker& worker) const {
  const int64_t num_rows = step.num_rows(axis_);
  if (num_rows == 0) return;
  const Activation x = make_activation(part_.kind, num_rows, part_.matrix.row_size, part_.activation_memory);
  const Activation y = make_activation(target_.kind, num_rows, target_.size, target_.memory);
  const Linear linear{&part_.matrix, x, bias_, nullptr, 0, nullptr, 0, target_.function};
  worker.claim(num_gated_slabs(part_.matrix),
               [&](int64_t slab) { linear_gated_slab(linear, y, slab, worker.scratch); });
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
  int64_t num_tiles = 0, last_position = 0, all_splits = 0;
  for (int64_t request = 0; request < step.num_requests; ++request) {
    const int64_t tiles = count_tiles(step, request, task_.group_size()) * task_.layout.num_kv_heads;
    if (tiles == 0) continue;
    const int64_t last = step.attention.positions[step.attention.query_start[request + 1] - 1];
    num_tiles += tiles;
    all_splits += tiles * (last / kSplitTokens + 1);
    last_position = std::max(last_position, last);
  }
  const bool has_prefixes = !step.sharing->groups().empty() && task_.window > last_position;
  if (has_prefixes) {
    execute_prefixes(step, worker);
    worker.pool.barrier();
  }
  const int64_t num_splits = last_position / kSplitTokens + 1, num_threads = worker.pool.num_threads();
  const int64_t capacity = kTilesPerWorker * num_threads * max_num_splits_;
  const bool is_uneven = num_splits * num_threads > all_splits || num_tiles < kTilesPerWorker * num_threads;
  if (num_threads > 1 && num_splits > 1 && is_uneven && num_tiles * num_splits <= capacity) {
    execute_splits(step, worker, has_prefixes, num_tiles, num_splits);
    return;
  }
  TileFinder finder(step, task_, has_prefixes ? prefixes_ : nullptr);
  worker.claim(num_tiles, [&](int64_t number) {
    kernels_.attend(task_, step.attention, finder.find(number), worker.scratch);
  });
}

// Tiles are as large as they can be while there is one for each worker.
void AttentionOp::execute_prefixes(const Step& step, Worker& worker) const {
  const PrefixSharing& sharing = *step.sharing;
  const int64_t num_kv_heads = task_.layout.num_kv_heads, group_size = task_.group_size();
  const int64_t all_rows = sharing.num_tokens() * group_size;
  const int64_t share = (all_rows * num_kv_heads + worker.pool.num_threads() - 1) / worker.pool.num_threads();
  const int64_t tile_rows = std::min(kTileRows, (share + kBlockRows - 1) / kBlockRows * kBlockRows);
  const auto count = [&](const PrefixGroup& group) {
    return (group.num_tokens * group_size + tile_rows - 1) / tile_rows;
  };
  int64_t num_tiles = 0;
  for (const PrefixGroup& group : sharing.groups()) num_tiles += count(group) * num_kv_heads;
  worker.claim(num_tiles, [&](int64_t number) {
    const PrefixGroup* group = sharing.groups().data();
    for (; number >= count(*group) * num_kv_heads; ++group) number -= count(*group) * num_kv_heads;
    const int64_t kv_head = number / count(*group), first_row = number % count(*group) * tile_rows;
    const int64_t num_rows = std::min(tile_rows, group->num_tokens * group_size - first_row);
    const int64_t first_token = kv_head * sharing.num_tokens() + group->first_token;
    const PrefixTile tile{group->request,
                          group->num_splits,
                          kv_head,
                          sharing.tokens() + group->first_token,
                          first_row,
                          num_rows,
                          prefixes_ + first_token * group_size * prefix_stride(task_.layout.v_dims)};
    kernels_.attend_prefix(task_, step.attention, tile, worker.scratch);
  });
}

void AttentionOp::execute_splits(const Step& step, Worker& worker, bool has_prefixes, int64_t num_tiles,
                                 int64_t num_splits) const {
  TileFinder finder(step, task_, has_prefixes ? prefixes_ : nullptr);
  const int64_t stride = partial_floats(task_.layout.v_dims);
  worker.claim(num_tiles * num_splits, [&](int64_t item) {
    const int64_t split = item % num_splits;
    kernels_.attend_split(task_, step.attention, finder.find(item / num_splits), split, partials_ + item * stride,
                          worker.scratch);
  });
  worker.pool.barrier(worker.ahead);
  worker.claim(num_tiles, [&](int64_t number) {
    const float* partials = partials_ + number * num_splits * stride;
    kernels_.merge_splits(task_, step.attention, finder.find(number), partials, worker.scratch);
  });
}

}  // namespace pelton
