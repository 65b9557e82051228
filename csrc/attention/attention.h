// Causal attention over the paged cache, and the writing of a step's keys and values into it.
//
//   s[j] = scale * q.k[j] for j in (p - window, p], capped as cap * tanh(s / cap); y = sum_j softmax(s)[j] * v[j];
//   a sink is one more score of its head, with nothing behind it: it takes its part of the softmax
//   q, y      rows of num_heads * k_dim and num_heads * v_dim floats; k, v rows of num_kv_heads * dim floats
//   tile      up to 64 (token, head) pairs of one request and kv head share each cache line that is read
//   sums      Contexts are cut at multiples of 512 tokens. Inside a split: all scores, their maximum, the weights
//             2^(s - max), one chain of products in token order. Splits are merged in order. Masked tokens add exact
//             zeros. So the bits depend on the row alone: not on chunk, batch, threads or block ids.
//   accuracy  bfloat16 cache: q, k, v rounded to bfloat16 (2^-9); on AVX-512 the weights too. int8 cache: k and v
//             rounded to 1/254 of the largest of their head, and multiplied as exact integers
//   cost      reads 2 * context * dim elements per kv head and tile; 4 * context * dim operations per pair
//   threads   tiles are independent, and so are the splits of a tile; writing is independent per token, and all of it
//             comes before any tile
//   papers    Vaswani et al. 2017, arXiv:1706.03762; Kwon et al. 2023, arXiv:2309.06180 (paging); Dao et al. 2022,
//             arXiv:2205.14135 (softmax in parts)
#pragma once

#include <cstddef>

#include "attention/kv_layout.h"
#include "core/views.h"

namespace pelton {

constexpr int64_t kSplitTokens = 512;
constexpr int64_t kTileRows = 64;
constexpr int64_t kBlockRows = 8;                     // rows of a tile that are multiplied together
constexpr int64_t kScoreStride = kSplitTokens + 32;  // not a power of two: eight rows would share their cache sets

struct KvWrite {
  Rows k, v;
  int64_t k_dim, v_dim;
  KvLayout layout;
  const float* inverse_balance = nullptr;  // int8: [num_kv_heads, k_dim], what keys are multiplied by before rounding
};

struct Attention {
  Rows q, y;
  int64_t num_heads;
  int64_t k_dim, v_dim;
  float scale;
  int64_t window;  // tokens a token sees, itself included; INT64_MAX: all
  float softcap;   // 0: none
  const float* sinks;  // [num_heads] natural scores; nullptr: none
  KvLayout layout;
  const float* key_balance = nullptr;  // [num_kv_heads, k_dim], what queries are multiplied by, since keys were divided

  int64_t group_size() const { return num_heads / layout.num_kv_heads; }
};

struct AttentionTile {
  int64_t request;
  int64_t kv_head;
  int64_t tile;                  // rows [64 * tile, 64 * tile + 64) of the request's (token, head) pairs
  int64_t prefix_splits = 0;     // of which `prefix` holds what is merged: [row][prefix_stride]
  const float* prefix = nullptr;
};

// Splits that several requests have in common: the first `num_splits` of the blocks of `request`, which all of them see
// whole. Row i is head kv_head * group_size + i % group_size of token tokens[i / group_size] of the step.
struct PrefixTile {
  int64_t request;
  int64_t num_splits;
  int64_t kv_head;
  const int32_t* tokens;
  int64_t first_row, num_rows;
  float* merged;  // [row][prefix_stride], for the tiles of the tokens' own requests
};

// What a split of a tile leaves for the merge: [row][v_dims] sums, then maxima and totals of all rows.
inline int64_t partial_floats(int64_t v_dims) { return kTileRows * (v_dims + 2); }

// Of one row of a prefix: its sums, its maximum and its total.
constexpr int64_t prefix_stride(int64_t v_dims) { return v_dims + 16; }

// A whole tile; or its splits one by one, for several threads, and then their merge; or its prefix together with other
// requests, and then the rest: the same bits.
struct AttentionKernels {
  void (*attend)(const Attention&, const AttentionStep&, const AttentionTile&, void* scratch);
  void (*attend_split)(const Attention&, const AttentionStep&, const AttentionTile&, int64_t split, float* partial,
                       void* scratch);
  void (*merge_splits)(const Attention&, const AttentionStep&, const AttentionTile&, const float* partials,
                       void* scratch);  // partials of splits 0, 1, ..., those that the tile does not see unread
  void (*attend_prefix)(const Attention&, const AttentionStep&, const PrefixTile&, void* scratch);
};

using KvWriteKernel = void (*)(const KvWrite&, const AttentionStep&, int64_t token_begin, int64_t token_end);

size_t attention_scratch_bytes(int64_t k_dim, int64_t v_dim);  // per thread
KvWriteKernel kv_write_kernel(KvDtype dtype);
AttentionKernels attention_kernels(KvDtype dtype);

KvWriteKernel kv_write_kernel_generic(KvDtype dtype);
KvWriteKernel kv_write_kernel_avx2(KvDtype dtype);
KvWriteKernel kv_write_kernel_avx512(KvDtype dtype);

AttentionKernels attention_kernels_generic(KvDtype dtype);
AttentionKernels attention_kernels_avx2(KvDtype dtype);
AttentionKernels attention_kernels_avx512(KvDtype dtype);

}  // namespace pelton
