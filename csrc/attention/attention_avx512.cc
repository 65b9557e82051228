// bfloat16 dot products (vdpbf16ps): a key line of 16 tokens meets up to 8 rows, a value line of 16 dimensions up to 4.
//
// Both loops run at one dot product per cycle from the first-level cache. Decoding reads memory: lines are prefetched
// into the second level, spread over the products, four groups ahead (18 GB/s without, 28-37 GB/s with it).
#include <immintrin.h>

#include "attention/attention_lanes.h"
#include "core/bfloat16.h"

namespace pelton {
namespace {

constexpr int64_t kGroupsAhead = 4;
constexpr int64_t kLineBytes = 64;

PELTON_INLINE __m512bh broadcast_pair(const uint16_t* pair) {
  int32_t bits;
  memcpy(&bits, pair, sizeof bits);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

PELTON_INLINE __m512bh load_line(const uint8_t* from) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from)); }

struct Bfloat16Dots {
  using Query = uint16_t;
  using Weight = uint16_t;
  static constexpr int64_t kScoreRows = 8;
  static constexpr int64_t kSumRows = 4;

  static void load_query(const float* q, float factor, int64_t dim, int64_t padded, uint16_t* to) {
    for (int64_t i = 0; i < padded; ++i) to[i] = i < dim ? bfloat16_of(q[i] * factor) : uint16_t{0};
  }

  PELTON_INLINE void store_weights(uint16_t* to, Lanes weights) {
    const __m256bh rounded = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(weights));
    memcpy(to, &rounded, sizeof rounded);
  }

  template <int num_rows>
  static void score_rows(const uint8_t* keys, const uint16_t* queries, int64_t k_dims, float* scores,
                         const uint8_t* ahead) {
    __m512 sums[num_rows];
#pragma GCC unroll 8
    for (int row = 0; row < num_rows; ++row) sums[row] = _mm512_setzero_ps();
    for (int64_t pair = 0; pair < k_dims / 2; ++pair) {
      _mm_prefetch(ahead + pair * kLineBytes, _MM_HINT_T1);
      const __m512bh key = load_line(keys + pair * kLineBytes);
#pragma GCC unroll 8
      for (int row = 0; row < num_rows; ++row) {
        sums[row] = _mm512_dpbf16_ps(sums[row], key, broadcast_pair(queries + row * k_dims + 2 * pair));
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < num_rows; ++row) _mm512_storeu_ps(scores + row * kSplitTokens, sums[row]);
  }

  static void score_group(TileState<Bfloat16Dots>& state, int64_t k_dims, int64_t group, const uint8_t* keys,
                          const uint8_t* ahead) {
    static constexpr decltype(&score_rows<1>) kernels[] = {score_rows<1>, score_rows<2>, score_rows<3>, score_rows<4>,
                                                           score_rows<5>, score_rows<6>, score_rows<7>, score_rows<8>};
    for (int64_t row = 0; row < state.num_rows; row += kScoreRows) {
      const int64_t rest = state.num_rows - row;
      kernels[(rest < kScoreRows ? rest : kScoreRows) - 1](keys, state.queries + row * k_dims, k_dims,
                                                           state.scores + row * kSplitTokens + group * kGroupTokens,
                                                           row == 0 ? ahead : keys);
    }
  }

  static void score(TileState<Bfloat16Dots>& state, const KvLayout& layout, const SplitGroups& groups) {
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const int64_t next = group + kGroupsAhead;
      const int64_t next_value = groups.begin + next - groups.end;
      const uint8_t* ahead = next < groups.end         ? groups.k[next]
                             : next_value < groups.end ? groups.v[next_value]
                                                       : groups.k[group];
      score_group(state, layout.k_dims, group, groups.k[group], ahead);
    }
  }

  // 16 * num_columns value dimensions of `num_rows` rows, over all tokens of the split in order.
  template <int num_rows, int num_columns>
  static void sum_rows(const SplitGroups& groups, int64_t column, int64_t v_dims, const uint16_t* weights, float* to) {
    __m512 sums[num_rows][num_columns];
#pragma GCC unroll 4
    for (int row = 0; row < num_rows; ++row) {
#pragma GCC unroll 4
      for (int i = 0; i < num_columns; ++i) sums[row][i] = _mm512_setzero_ps();
    }
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const uint8_t* values = groups.v[group] + column * 4;
      const uint8_t* ahead =
          groups.v[group + kGroupsAhead < groups.end ? group + kGroupsAhead : groups.end - 1] + column * 4;
      const uint16_t* group_weights = weights + group * kGroupTokens;
#pragma GCC unroll 1
      for (int64_t pair = 0; pair < kGroupTokens / 2; ++pair) {
        __m512bh lines[num_columns];
#pragma GCC unroll 4
        for (int i = 0; i < num_columns; ++i) {
          _mm_prefetch(ahead + pair * v_dims * 4 + i * kLineBytes, _MM_HINT_T1);
          lines[i] = load_line(values + pair * v_dims * 4 + i * kLineBytes);
        }
#pragma GCC unroll 4
        for (int row = 0; row < num_rows; ++row) {
          const __m512bh weight = broadcast_pair(group_weights + row * kSplitTokens + 2 * pair);
#pragma GCC unroll 4
          for (int i = 0; i < num_columns; ++i) sums[row][i] = _mm512_dpbf16_ps(sums[row][i], weight, lines[i]);
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < num_rows; ++row) {
#pragma GCC unroll 4
      for (int i = 0; i < num_columns; ++i) _mm512_storeu_ps(to + row * v_dims + column + i * 16, sums[row][i]);
    }
  }

  template <int num_columns>
  static void sum_columns(TileState<Bfloat16Dots>& state, const SplitGroups& groups, int64_t column, int64_t v_dims) {
    static constexpr decltype(&sum_rows<1, num_columns>) kernels[] = {
        sum_rows<1, num_columns>, sum_rows<2, num_columns>, sum_rows<3, num_columns>, sum_rows<4, num_columns>};
    for (int64_t row = 0; row < state.num_rows; row += kSumRows) {
      const int64_t rest = state.num_rows - row;
      kernels[(rest < kSumRows ? rest : kSumRows) - 1](groups, column, v_dims, state.weights + row * kSplitTokens,
                                                       state.split_sums + row * v_dims);
    }
  }

  static void sum_values(TileState<Bfloat16Dots>& state, const KvLayout& layout, const SplitGroups& groups) {
    int64_t column = 0;
    for (; column + 64 <= layout.v_dims; column += 64) sum_columns<4>(state, groups, column, layout.v_dims);
    if (column < layout.v_dims) sum_columns<2>(state, groups, column, layout.v_dims);
  }
};

}  // namespace

AttentionKernels attention_kernels_avx512(bool is_bfloat16) {
  return is_bfloat16 ? kernels_of<Bfloat16Dots>() : kernels_of<LanesDots<false>>();
}

}  // namespace pelton
