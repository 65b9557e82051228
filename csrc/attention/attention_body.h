// The body of attention, over a `Dots` that says how 16 cached tokens are multiplied. Compiled per instruction set.
//
// A tile's rows are treated in blocks of up to 8, which share each line that is loaded and whose scores stay in the
// first-level cache: all scores of a split, then their weights, then all sums. A block reads only what it sees.
#pragma once

#include "attention/attention.h"
#include "core/lanes.h"

namespace pelton {

constexpr int64_t kSplitGroups = kSplitTokens / kGroupTokens;
constexpr int64_t kGroupsAhead = 8;  // how far behind the line that is read the one to fetch is
constexpr int64_t kQueryDims = 32;   // of a row that lie together: one line of bfloat16
constexpr float kLog2E = 1.44269504f;
constexpr LanesInt kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// A tile's rows, and where its thread keeps them.
template <typename Dots>
struct TileState {
  int64_t request, kv_head;  // whose keys and values they see
  int64_t num_rows;
  int64_t first_position, last_position;  // of its tokens
  typename Dots::Query* queries;          // of each block [k_dims / 32][row][32]
  float* scores;                          // of one block [row][kScoreStride]
  typename Dots::Weight* weights;         // of one block [row][kScoreStride]
  float* sums;                            // [row][v_dims], merged over splits
  float* split_sums;                      // [row][v_dims], of one split
  uint8_t* last_group;                    // a copy of the last values, with zeros behind the last token
  int64_t tokens[kTileRows], heads[kTileRows], positions[kTileRows];
  float maxima[kTileRows], totals[kTileRows];              // merged over splits
  float split_maxima[kTileRows], split_totals[kTileRows];  // of one split
};

// The groups of 16 tokens of one split that some row of the tile sees. Behind the last keys are the first values and
// behind the last values the keys of the split that comes next: what is worth fetching then.
struct SplitGroups {
  int64_t first_token;  // of the split
  int64_t begin, end;   // groups, counted from first_token
  const uint8_t* k[kSplitGroups + kGroupsAhead];
  const uint8_t* v[kSplitGroups + kGroupsAhead];
};

// Rows [first, first + num_rows) of a tile, and the groups of a split that they see.
struct RowBlock {
  int64_t first, num_rows;
  int64_t begin, end;
};

inline int64_t num_blocks_of(int64_t num_rows) { return (num_rows + kBlockRows - 1) / kBlockRows; }

// Blocks of a tile are as equal as can be.
inline int64_t block_start(int64_t num_rows, int64_t block) { return num_rows * block / num_blocks_of(num_rows); }

template <typename Dots>
static void place_tile(TileState<Dots>& state, const Attention& op, void* scratch) {
  const int64_t k_dims = op.layout.k_dims, v_dims = op.layout.v_dims;
  float* next = static_cast<float*>(scratch);
  state.scores = next;
  state.weights = reinterpret_cast<typename Dots::Weight*>(next += kBlockRows * kScoreStride);
  state.queries = reinterpret_cast<typename Dots::Query*>(next += kBlockRows * kScoreStride);
  state.sums = next += kTileRows * k_dims;
  state.split_sums = next += kTileRows * v_dims;
  state.last_group = reinterpret_cast<uint8_t*>(next + kTileRows * v_dims);
}

// Row `row` is `token` and head `head`, and only its sink is merged yet.
template <typename Dots>
static void start_row(TileState<Dots>& state, const Attention& op, int64_t row, int64_t token, int64_t head,
                      int64_t position) {
  state.tokens[row] = token;
  state.heads[row] = head;
  state.positions[row] = position;
  state.maxima[row] = op.sinks != nullptr ? op.sinks[head] * kLog2E : -__builtin_inff();
  state.totals[row] = op.sinks != nullptr ? 1.0f : 0.0f;
  if (op.sinks == nullptr) return;  // sums are written when the first split is merged
  memset(state.sums + row * op.layout.v_dims, 0, static_cast<size_t>(op.layout.v_dims) * sizeof(float));
}

template <typename Dots>
static void start_tile(TileState<Dots>& state, const Attention& op, const AttentionStep& step,
                       const AttentionTile& tile) {
  const int64_t group_size = op.group_size(), v_dims = op.layout.v_dims;
  const int64_t first_token = step.query_start[tile.request];
  const int64_t num_pairs = (step.query_start[tile.request + 1] - first_token) * group_size;
  const int64_t first_pair = tile.tile * kTileRows;
  state.request = tile.request;
  state.kv_head = tile.kv_head;
  state.num_rows = num_pairs - first_pair < kTileRows ? num_pairs - first_pair : kTileRows;
  for (int64_t row = 0; row < state.num_rows; ++row) {
    const int64_t token = first_token + (first_pair + row) / group_size;
    const int64_t head = tile.kv_head * group_size + (first_pair + row) % group_size;
    start_row(state, op, row, token, head, step.positions[token]);
    if (tile.prefix_splits == 0) continue;
    const float* merged = tile.prefix + row * prefix_stride(v_dims);
    memcpy(state.sums + row * v_dims, merged, static_cast<size_t>(v_dims) * sizeof(float));
    state.maxima[row] = merged[v_dims];
    state.totals[row] = merged[v_dims + 1];
  }
  state.first_position = state.positions[0];
  state.last_position = state.positions[state.num_rows - 1];
}

template <typename Dots>
static void load_queries(TileState<Dots>& state, const Attention& op) {
  // Softmax is computed with powers of two. A cap acts on the natural score, so the factor comes after it.
  const float factor = op.softcap > 0.0f ? op.scale : op.scale * kLog2E;
  for (int64_t block = 0; block < num_blocks_of(state.num_rows); ++block) {
    const int64_t first = block_start(state.num_rows, block), end = block_start(state.num_rows, block + 1);
    for (int64_t row = first; row < end; ++row) {
      Dots::load_query(op.q.row(state.tokens[row]) + state.heads[row] * op.k_dim, factor,
                       op.key_balance != nullptr ? op.key_balance + state.kv_head * op.k_dim : nullptr, op.k_dim,
                       op.layout.k_dims,
                       state.queries + first * op.layout.k_dims + (row - first) * kQueryDims,
                       (end - first) * kQueryDims);
    }
  }
}

// Copies a group of values whose tokens from `num_tokens` on were not written: they could be anything, nan included.
static void copy_values(const KvLayout& layout, const uint8_t* from, int64_t num_tokens, uint8_t* to) {
  memset(to, 0, static_cast<size_t>(layout.v_group_bytes()));
  if (layout.dtype == KvDtype::Float32) {
    memcpy(to, from, static_cast<size_t>(num_tokens * layout.v_dims) * sizeof(float));
    return;
  }
  const int64_t element_bytes = layout.element_bytes(), row_bytes = layout.v_dims * 2 * element_bytes;
  memcpy(to, from, static_cast<size_t>(num_tokens / 2 * row_bytes));
  if (num_tokens % 2 != 0) {
    const int64_t begin = num_tokens / 2 * row_bytes;
    for (int64_t i = begin; i < begin + row_bytes; i += 2 * element_bytes) {
      memcpy(to + i, from + i, static_cast<size_t>(element_bytes));
    }
  }
  const int64_t scales = layout.v_group_bytes() - layout.scale_bytes();
  if (layout.scale_bytes() > 0) memcpy(to + scales, from + scales, static_cast<size_t>(num_tokens) * sizeof(float));
}

// Groups of the split that begins at `first_token` which tokens at positions from `first` to `last` see.
static void clip_groups(const Attention& op, int64_t first_token, int64_t first, int64_t last, int64_t& begin,
                        int64_t& end) {
  const int64_t num_tokens = last + 1 - first_token;
  const int64_t first_seen = first - op.window + 1 - first_token;
  begin = first_seen > 0 ? first_seen / kGroupTokens : 0;
  end = num_tokens < kSplitTokens ? (num_tokens + kGroupTokens - 1) / kGroupTokens : kSplitGroups;
}

template <typename Dots>
static void find_groups(SplitGroups& groups, const TileState<Dots>& state, const Attention& op,
                        const AttentionStep& step) {
  const KvLayout& layout = op.layout;
  const int32_t* table = step.block_table + state.request * step.max_blocks;
  const auto block_of = [&](int64_t token) { return step.cache.block(table[token / layout.block_size]); };
  const auto group_in_block = [&](int64_t token) { return token % layout.block_size / kGroupTokens; };
  clip_groups(op, groups.first_token, state.first_position, state.last_position, groups.begin, groups.end);
  for (int64_t group = groups.begin; group < groups.end; ++group) {
    const int64_t token = groups.first_token + group * kGroupTokens;
    groups.k[group] = block_of(token) + layout.k_offset(state.kv_head, group_in_block(token));
    groups.v[group] = block_of(token) + layout.v_offset(state.kv_head, group_in_block(token));
  }
  for (int64_t i = 0; i < kGroupsAhead; ++i) {
    const int64_t token = groups.first_token + kSplitTokens + i * kGroupTokens;
    const int64_t value = groups.begin + i < groups.end ? groups.begin + i : groups.end - 1;
    groups.k[groups.end + i] = groups.v[value];
    groups.v[groups.end + i] = token <= state.last_position
                                   ? block_of(token) + layout.k_offset(state.kv_head, group_in_block(token))
                                   : groups.v[groups.end - 1];
  }
  const int64_t num_tokens = state.last_position + 1 - groups.first_token;
  if (num_tokens < kSplitTokens && num_tokens % kGroupTokens != 0) {
    copy_values(layout, groups.v[groups.end - 1], num_tokens % kGroupTokens, state.last_group);
    groups.v[groups.end - 1] = state.last_group;
  }
}

// Caps a row's scores, takes those it does not see away, and keeps the largest.
template <typename Dots>
static void mask_row(TileState<Dots>& state, const Attention& op, const SplitGroups& groups, const RowBlock& block,
                     int64_t row_in_block) {
  const int64_t row = block.first + row_in_block;
  float* scores = state.scores + row_in_block * kScoreStride;
  const int64_t begin = block.begin * kGroupTokens, end = block.end * kGroupTokens;
  const int64_t last = state.positions[row] - groups.first_token;
  const int64_t first = state.positions[row] - op.window + 1 - groups.first_token;
  const float minus_infinity = -__builtin_inff();
  if (op.softcap > 0.0f) {
    for (int64_t i = begin; i < end; i += kLanes) {
      store_lanes(scores + i, tanh_lanes(load_lanes(scores + i) / op.softcap) * (op.softcap * kLog2E));
    }
  }
  for (int64_t i = begin; i < end && i < first; i += kLanes) {
    const Lanes all = load_lanes(scores + i);
    store_lanes(scores + i, kLaneIndex < static_cast<int32_t>(first - i) ? lanes_of(minus_infinity) : all);
  }
  for (int64_t i = last + 1 > begin ? (last + 1) / kLanes * kLanes : begin; i < end; i += kLanes) {
    const Lanes all = load_lanes(scores + i);
    store_lanes(scores + i, kLaneIndex > static_cast<int32_t>(last - i) ? lanes_of(minus_infinity) : all);
  }
  Lanes largest = lanes_of(minus_infinity);
  for (int64_t i = begin; i < end; i += kLanes) largest = larger(largest, load_lanes(scores + i));
  state.split_maxima[row] = max_lanes(largest);
}

// Turns the scores of all rows into weights 2^(s - max), and keeps their sums. Two loops, so that no row waits for its
// own maximum.
template <typename Dots>
static void weigh_rows(TileState<Dots>& state, const Attention& op, const SplitGroups& groups, const RowBlock& block) {
  for (int64_t row = 0; row < block.num_rows; ++row) mask_row(state, op, groups, block, row);
  for (int64_t row = 0; row < block.num_rows; ++row) {
    const float maximum = state.split_maxima[block.first + row];
    const Lanes total =
        Dots::weigh(state.scores + row * kScoreStride, groups, block, maximum > -__builtin_inff() ? maximum : 0.0f,
                    op.layout.v_dims, state.weights + row * kScoreStride);
    state.split_totals[block.first + row] = sum_lanes(total);
  }
}

PELTON_INLINE float power_of_two(float x) { return x < -126.0f ? 0.0f : exp2_lanes(lanes_of(x))[0]; }

template <typename Dots>
static void merge_row(TileState<Dots>& state, int64_t v_dims, int64_t row) {
  const float split_maximum = state.split_maxima[row];
  if (split_maximum == -__builtin_inff()) return;
  if (state.maxima[row] == -__builtin_inff()) {
    state.maxima[row] = split_maximum;
    state.totals[row] = state.split_totals[row];
    memcpy(state.sums + row * v_dims, state.split_sums + row * v_dims, static_cast<size_t>(v_dims) * sizeof(float));
    return;
  }
  const float maximum = state.maxima[row] > split_maximum ? state.maxima[row] : split_maximum;
  const float old_factor = power_of_two(state.maxima[row] - maximum);
  const float split_factor = power_of_two(split_maximum - maximum);
  state.maxima[row] = maximum;
  state.totals[row] = state.totals[row] * old_factor + state.split_totals[row] * split_factor;
  float* sums = state.sums + row * v_dims;
  const float* split_sums = state.split_sums + row * v_dims;
  for (int64_t i = 0; i < v_dims; i += kLanes) {
    store_lanes(sums + i, load_lanes(sums + i) * old_factor + load_lanes(split_sums + i) * split_factor);
  }
}

template <typename Dots>
static void store_rows(const TileState<Dots>& state, const Attention& op) {
  for (int64_t row = 0; row < state.num_rows; ++row) {
    float* y = op.y.row(state.tokens[row]) + state.heads[row] * op.v_dim;
    const float* sums = state.sums + row * op.layout.v_dims;
    const float factor = 1.0f / state.totals[row];
    int64_t i = 0;
    for (; i + kLanes <= op.v_dim; i += kLanes) store_lanes(y + i, load_lanes(sums + i) * factor);
    if (i < op.v_dim) store_some(y + i, load_lanes(sums + i) * factor, op.v_dim - i);
  }
}

// Scores, weights and sums of one split, for all rows of the tile.
template <typename Dots>
static void compute_split(TileState<Dots>& state, const Attention& op, const AttentionStep& step, int64_t split) {
  SplitGroups groups;
  groups.first_token = split * kSplitTokens;
  find_groups(groups, state, op, step);
  for (int64_t i = 0; i < num_blocks_of(state.num_rows); ++i) {
    const int64_t first = block_start(state.num_rows, i), last = block_start(state.num_rows, i + 1) - 1;
    RowBlock block{first, last + 1 - first, 0, 0};
    clip_groups(op, groups.first_token, state.positions[first], state.positions[last], block.begin, block.end);
    if (block.begin < block.end) {
      Dots::score(state, op.layout, groups, block);
      weigh_rows(state, op, groups, block);
      Dots::sum_values(state, op.layout, groups, block);
    } else {
      for (int64_t row = first; row <= last; ++row) state.split_maxima[row] = -__builtin_inff();
    }
  }
}

template <typename Dots>
static void merge_rows(TileState<Dots>& state, int64_t v_dims) {
  for (int64_t row = 0; row < state.num_rows; ++row) merge_row(state, v_dims, row);
}

// The splits that some row of the tile sees and that are not merged yet: [first, last].
template <typename Dots>
static int64_t first_split(const TileState<Dots>& state, const Attention& op, const AttentionTile& tile) {
  const int64_t first_seen = state.first_position - op.window + 1;
  return first_seen > 0 ? first_seen / kSplitTokens : tile.prefix_splits;
}

template <typename Dots>
static int64_t last_split(const TileState<Dots>& state) {
  return state.last_position / kSplitTokens;
}

template <typename Dots>
static void attend(const Attention& op, const AttentionStep& step, const AttentionTile& tile, void* scratch) {
  TileState<Dots> state;
  place_tile(state, op, scratch);
  start_tile(state, op, step, tile);
  load_queries(state, op);
  for (int64_t split = first_split(state, op, tile); split <= last_split(state); ++split) {
    compute_split(state, op, step, split);
    merge_rows(state, op.layout.v_dims);
  }
  store_rows(state, op);
}

template <typename Dots>
static void attend_split(const Attention& op, const AttentionStep& step, const AttentionTile& tile, int64_t split,
                         float* partial, void* scratch) {
  TileState<Dots> state;
  place_tile(state, op, scratch);
  start_tile(state, op, step, tile);
  if (split < first_split(state, op, tile) || split > last_split(state)) return;
  load_queries(state, op);
  state.split_sums = partial;
  compute_split(state, op, step, split);
  float* figures = partial + kTileRows * op.layout.v_dims;
  memcpy(figures, state.split_maxima, sizeof state.split_maxima);
  memcpy(figures + kTileRows, state.split_totals, sizeof state.split_totals);
}

template <typename Dots>
static void merge_splits(const Attention& op, const AttentionStep& step, const AttentionTile& tile,
                         const float* partials, void* scratch) {
  TileState<Dots> state;
  place_tile(state, op, scratch);
  start_tile(state, op, step, tile);
  for (int64_t split = first_split(state, op, tile); split <= last_split(state); ++split) {
    const float* partial = partials + split * partial_floats(op.layout.v_dims);
    const float* figures = partial + kTileRows * op.layout.v_dims;
    state.split_sums = const_cast<float*>(partial);
    memcpy(state.split_maxima, figures, sizeof state.split_maxima);
    memcpy(state.split_totals, figures + kTileRows, sizeof state.split_totals);
    merge_rows(state, op.layout.v_dims);
  }
  store_rows(state, op);
}

// Rows of several requests, which all see the prefix whole: for it, they are as good as tokens at its end.
template <typename Dots>
static void attend_prefix(const Attention& op, const AttentionStep& step, const PrefixTile& tile, void* scratch) {
  const int64_t group_size = op.group_size(), v_dims = op.layout.v_dims;
  TileState<Dots> state;
  place_tile(state, op, scratch);
  state.request = tile.request;
  state.kv_head = tile.kv_head;
  state.num_rows = tile.num_rows;
  state.first_position = state.last_position = tile.num_splits * kSplitTokens - 1;
  for (int64_t row = 0; row < tile.num_rows; ++row) {
    const int64_t pair = tile.first_row + row;
    start_row(state, op, row, tile.tokens[pair / group_size], tile.kv_head * group_size + pair % group_size,
              state.last_position);
  }
  load_queries(state, op);
  for (int64_t split = 0; split < tile.num_splits; ++split) {
    compute_split(state, op, step, split);
    merge_rows(state, v_dims);
  }
  for (int64_t row = 0; row < tile.num_rows; ++row) {
    float* merged = tile.merged + (tile.first_row + row) * prefix_stride(v_dims);
    memcpy(merged, state.sums + row * v_dims, static_cast<size_t>(v_dims) * sizeof(float));
    merged[v_dims] = state.maxima[row];
    merged[v_dims + 1] = state.totals[row];
  }
}

template <typename Dots>
static AttentionKernels kernels_of() {
  return {attend<Dots>, attend_split<Dots>, merge_splits<Dots>, attend_prefix<Dots>};
}

}  // namespace pelton
