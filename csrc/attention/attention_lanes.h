// Products of 16 cached tokens in plain float32 arithmetic: for every instruction set without bfloat16 dot products,
// and for float32 caches.
#pragma once

#include "attention/attention_body.h"

namespace pelton {

typedef int16_t ShortLanes __attribute__((vector_size(32)));

// Pair i of 16 tokens' keys (row_floats = 16), or of 16 value dimensions, as floats: `even` is the first of the two.
template <KvDtype dtype>
PELTON_INLINE void load_pair(const uint8_t* from, int64_t pair, int64_t row_floats, Lanes& even, Lanes& odd) {
  if constexpr (dtype == KvDtype::Bfloat16) {
    LanesUInt bits;
    memcpy(&bits, from + pair * row_floats * 4, sizeof bits);
    const LanesUInt low = bits << 16, high = bits & 0xffff0000u;
    memcpy(&even, &low, sizeof even);
    memcpy(&odd, &high, sizeof odd);
  } else if constexpr (dtype == KvDtype::Int8) {
    ShortLanes both;
    memcpy(&both, from + pair * row_floats * 2, sizeof both);
    even = __builtin_convertvector((both << 8) >> 8, Lanes);
    odd = __builtin_convertvector(both >> 8, Lanes);
  } else {
    even = load_lanes(reinterpret_cast<const float*>(from) + 2 * pair * row_floats);
    odd = load_lanes(reinterpret_cast<const float*>(from) + (2 * pair + 1) * row_floats);
  }
}

namespace {  // each instruction set has its own: the linker must not merge them

template <KvDtype dtype>
struct LanesDots {
  using Query = float;
  using Weight = float;
  static constexpr int64_t kRows = 4;

  static void load_query(const float* q, float factor, const float* balance, int64_t dim, int64_t padded, float* to,
                         int64_t stride) {
    for (int64_t i = 0; i < padded; ++i) {
      float* place = to + i / kQueryDims * stride + i % kQueryDims;
      *place = i < dim ? q[i] * factor : 0.0f;
      if (balance != nullptr && i < dim) *place *= balance[i];
    }
  }

  PELTON_INLINE Lanes weigh(const float* scores, const SplitGroups& groups, const RowBlock& block, float maximum,
                            int64_t v_dims, float* weights) {
    Lanes total{};
    for (int64_t group = block.begin; group < block.end; ++group) {
      const Lanes below = load_lanes(scores + group * kGroupTokens) - maximum;
      Lanes weight = below < -126.0f ? Lanes{} : exp2_lanes(below);
      total += weight;
      if constexpr (dtype == KvDtype::Int8) weight *= load_lanes(scales_of(groups.v[group], v_dims));
      store_lanes(weights + group * kGroupTokens, weight);
    }
    return total;
  }

  template <int num_rows>
  PELTON_INLINE void score_rows(const uint8_t* keys, const float* queries, int64_t stride, int64_t k_dims,
                                float* scores) {
    Lanes sums[num_rows] = {};
    for (int64_t pair = 0; pair < k_dims / 2; ++pair) {
      Lanes even, odd;
      load_pair<dtype>(keys, pair, kGroupTokens, even, odd);
      const float* pairs = queries + pair / (kQueryDims / 2) * stride + pair % (kQueryDims / 2) * 2;
      for (int row = 0; row < num_rows; ++row) {
        sums[row] += even * pairs[row * kQueryDims];
        sums[row] += odd * pairs[row * kQueryDims + 1];
      }
    }
    for (int row = 0; row < num_rows; ++row) {
      if constexpr (dtype == KvDtype::Int8) sums[row] *= load_lanes(scales_of(keys, k_dims));
      store_lanes(scores + row * kScoreStride, sums[row]);
    }
  }

  static void score(TileState<LanesDots>& state, const KvLayout& layout, const SplitGroups& groups,
                    const RowBlock& block) {
    const int64_t stride = block.num_rows * kQueryDims;
    const float* block_queries = state.queries + block.first * layout.k_dims;
    for (int64_t group = block.begin; group < block.end; ++group) {
      for (int64_t row = 0; row < block.num_rows; row += kRows) {
        const float* queries = block_queries + row * kQueryDims;
        float* scores = state.scores + row * kScoreStride + group * kGroupTokens;
        if (block.num_rows - row >= kRows) {
          score_rows<kRows>(groups.k[group], queries, stride, layout.k_dims, scores);
        } else {
          for (int64_t i = 0; i < block.num_rows - row; ++i) {
            score_rows<1>(groups.k[group], queries + i * kQueryDims, stride, layout.k_dims, scores + i * kScoreStride);
          }
        }
      }
    }
  }

  // 16 value dimensions of `num_rows` rows, over all tokens of the split in order.
  template <int num_rows>
  PELTON_INLINE void sum_rows(const SplitGroups& groups, const RowBlock& block, int64_t column, int64_t v_dims,
                              const float* weights, float* sums_out) {
    Lanes sums[num_rows] = {};
    const int64_t column_bytes = column * 2 * element_bytes_of(dtype == KvDtype::Float32 ? KvDtype::Bfloat16 : dtype);
    for (int64_t group = block.begin; group < block.end; ++group) {
      const float* group_weights = weights + group * kGroupTokens;
      for (int64_t pair = 0; pair < kGroupTokens / 2; ++pair) {
        Lanes even, odd;
        load_pair<dtype>(groups.v[group] + column_bytes, pair, v_dims, even, odd);
        for (int row = 0; row < num_rows; ++row) {
          sums[row] += even * group_weights[row * kScoreStride + 2 * pair];
          sums[row] += odd * group_weights[row * kScoreStride + 2 * pair + 1];
        }
      }
    }
    for (int row = 0; row < num_rows; ++row) store_lanes(sums_out + row * v_dims + column, sums[row]);
  }

  static void sum_values(TileState<LanesDots>& state, const KvLayout& layout, const SplitGroups& groups,
                         const RowBlock& block) {
    for (int64_t row = 0; row < block.num_rows; row += kRows) {
      const float* weights = state.weights + row * kScoreStride;
      float* sums = state.split_sums + (block.first + row) * layout.v_dims;
      for (int64_t column = 0; column < layout.v_dims; column += kLanes) {
        if (block.num_rows - row >= kRows) {
          sum_rows<kRows>(groups, block, column, layout.v_dims, weights, sums);
        } else {
          for (int64_t i = 0; i < block.num_rows - row; ++i) {
            sum_rows<1>(groups, block, column, layout.v_dims, weights + i * kScoreStride, sums + i * layout.v_dims);
          }
        }
      }
    }
  }
};

inline AttentionKernels lanes_kernels(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::Bfloat16:
      return kernels_of<LanesDots<KvDtype::Bfloat16>>();
    case KvDtype::Int8:
      return kernels_of<LanesDots<KvDtype::Int8>>();
    case KvDtype::Float32:
      break;
  }
  return kernels_of<LanesDots<KvDtype::Float32>>();
}

}  // namespace
}  // namespace pelton
