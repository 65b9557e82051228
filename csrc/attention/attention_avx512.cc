// bfloat16 dot products (vdpbf16ps): key lines of 16 tokens meet all rows of a block, value lines of 16 dimensions too.
//
// Both loops are bound by one dot product per cycle, 24 to 28 of them in flight. Sums are arrays with constant indexes
// only (unrolled): gcc keeps an array in memory as soon as a loop variable indexes it. Decoding reads memory: lines are
// prefetched into the second level, spread over the products, eight groups ahead (18 GB/s without, 28-37 GB/s with it).
#include <immintrin.h>

#include <utility>

#include "attention/attention_lanes.h"
#include "core/bfloat16.h"

namespace pelton {
namespace {

constexpr __mmask16 kAll = 0xffff;  // gcc 12 warns of the unmasked forms

// 32 numbers as bfloat16: those of a cache line, or 32 bytes, which fit exactly.
template <bool is_int8>
PELTON_INLINE __m512bh load_line(const uint8_t* from) {
  if constexpr (is_int8) {
    const __m512i low = _mm512_maskz_cvtepi8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    const __m512i high = _mm512_maskz_cvtepi8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16)));
    return _mm512_cvtne2ps_pbh(_mm512_maskz_cvtepi32_ps(kAll, high), _mm512_maskz_cvtepi32_ps(kAll, low));
  } else {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
  }
}

PELTON_INLINE __m512bh broadcast_pair(const uint16_t* pair) {
  int32_t bits;
  memcpy(&bits, pair, sizeof bits);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

// sum += line . pair, the pair read from memory and broadcast by the instruction itself: with 28 sums there is no
// register for it.
PELTON_INLINE void add_dot(__m512& sum, __m512bh line, const uint16_t* pair) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(line), "m"(*reinterpret_cast<const uint32_t*>(pair)));
}

// function(0), function(1), ... with constants.
template <int... i, typename Function>
PELTON_INLINE void unrolled(std::integer_sequence<int, i...>, Function&& function) {
  (function(std::integral_constant<int, i>{}), ...);
}
template <int count>
constexpr auto kUpTo = std::make_integer_sequence<int, count>{};

#define PELTON_LAMBDA __attribute__((always_inline))

template <bool is_int8>
struct Bfloat16Dots {
  using Query = uint16_t;
  using Weight = uint16_t;
  using State = TileState<Bfloat16Dots>;
  static constexpr int64_t kLineBytes = is_int8 ? 32 : 64;

  static void load_query(const float* q, float factor, const float* balance, int64_t dim, int64_t padded,
                         uint16_t* to, int64_t stride) {
    const __m512 factors = _mm512_set1_ps(factor);
    for (int64_t i = 0; i < padded; i += kQueryDims) {
      const int64_t count = dim - i < 32 ? dim - i : 32;
      const uint32_t mask = count == 32 ? ~0u : (1u << count) - 1;
      const auto low_mask = static_cast<__mmask16>(mask), high_mask = static_cast<__mmask16>(mask >> 16);
      __m512 low = _mm512_mul_ps(_mm512_maskz_loadu_ps(low_mask, q + i), factors);
      __m512 high = _mm512_mul_ps(_mm512_maskz_loadu_ps(high_mask, q + i + 16), factors);
      if (balance != nullptr) {
        low = _mm512_mul_ps(low, _mm512_maskz_loadu_ps(low_mask, balance + i));
        high = _mm512_mul_ps(high, _mm512_maskz_loadu_ps(high_mask, balance + i + 16));
      }
      const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
      memcpy(to + i / kQueryDims * stride, &rounded, sizeof rounded);
    }
  }

  // 2^(score - maximum), exactly 0 for -inf; degree 4, minimax on [-0.5, 0.5]: 3e-6, far below the rounding to
  // bfloat16.
  PELTON_INLINE Lanes weigh(const float* scores, const SplitGroups& groups, const RowBlock& block, float maximum,
                            int64_t v_dims, uint16_t* weights) {
    __m512 total = _mm512_setzero_ps();
    const __m512 maxima = _mm512_set1_ps(maximum);
    for (int64_t group = block.begin; group < block.end; ++group) {
      const __m512 x = _mm512_sub_ps(_mm512_loadu_ps(scores + group * kGroupTokens), maxima);
      const __m512 whole = _mm512_maskz_roundscale_ps(kAll, x, 0);
      const __m512 f = _mm512_maskz_reduce_ps(kAll, x, 0);  // x - whole; 0 where x is infinite
      __m512 p = _mm512_set1_ps(9.5701013e-3f);
      p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5917859e-2f));
      p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4024744e-1f));
      p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9312179e-1f));
      p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.9999928e-1f));
      __m512 weight = _mm512_maskz_scalef_ps(kAll, p, whole);
      total = _mm512_add_ps(total, weight);
      if constexpr (is_int8) weight = _mm512_mul_ps(weight, _mm512_loadu_ps(scales_of(groups.v[group], v_dims)));
      const __m256bh rounded = _mm512_cvtneps_pbh(weight);
      memcpy(weights + group * kGroupTokens, &rounded, sizeof rounded);
    }
    return reinterpret_cast<Lanes>(total);
  }

  // 16 * num_groups tokens and `num_rows` rows.
  template <int num_rows, int num_groups>
  static void score_rows(const uint8_t* const* keys, const uint16_t* queries, int64_t k_dims, float* scores) {
    constexpr auto rows = kUpTo<num_rows>;
    constexpr auto columns = kUpTo<num_groups>;
    __m512 sums[num_rows][num_groups];
    const uint8_t* from[num_groups];
    const uint8_t* ahead[num_groups];
    unrolled(rows, [&](auto row) PELTON_LAMBDA {
      unrolled(columns, [&](auto i) PELTON_LAMBDA { sums[row][i] = _mm512_setzero_ps(); });
    });
    unrolled(columns, [&](auto i) PELTON_LAMBDA { from[i] = keys[i], ahead[i] = keys[kGroupsAhead + i]; });
    int64_t offset = 0;
    for (int64_t dim = 0; dim < k_dims; dim += kQueryDims) {
#pragma GCC unroll 1
      for (int64_t pair = 0; pair < kQueryDims / 2; ++pair) {
        __m512bh lines[num_groups];
        unrolled(columns, [&](auto i) PELTON_LAMBDA {
          _mm_prefetch(ahead[i] + offset, _MM_HINT_T1);
          lines[i] = load_line<is_int8>(from[i] + offset);
        });
        unrolled(rows, [&](auto row) PELTON_LAMBDA {
          const __m512bh query = broadcast_pair(queries + row * kQueryDims);
          unrolled(columns,
                   [&](auto i) PELTON_LAMBDA { sums[row][i] = _mm512_dpbf16_ps(sums[row][i], lines[i], query); });
        });
        queries += 2;
        offset += kLineBytes;
      }
      queries += (num_rows - 1) * kQueryDims;
    }
    unrolled(columns, [&](auto i) PELTON_LAMBDA {
      __m512 scales;
      if constexpr (is_int8) scales = _mm512_loadu_ps(scales_of(from[i], k_dims));
      unrolled(rows, [&](auto row) PELTON_LAMBDA {
        if constexpr (is_int8) sums[row][i] = _mm512_mul_ps(sums[row][i], scales);
        _mm512_storeu_ps(scores + row * kScoreStride + i * kGroupTokens, sums[row][i]);
      });
    });
  }

  using ScoreRows = void (*)(const uint8_t* const* keys, const uint16_t* queries, int64_t k_dims, float* scores);

  static void score(State& state, const KvLayout& layout, const SplitGroups& groups,
                    const RowBlock& block) {
    static constexpr ScoreRows many[] = {score_rows<1, 4>, score_rows<2, 4>, score_rows<3, 4>, score_rows<4, 4>,
                                         score_rows<5, 4>, score_rows<6, 4>, score_rows<7, 2>, score_rows<8, 2>};
    static constexpr ScoreRows one[] = {score_rows<1, 1>, score_rows<2, 1>, score_rows<3, 1>, score_rows<4, 1>,
                                        score_rows<5, 1>, score_rows<6, 1>, score_rows<7, 1>, score_rows<8, 1>};
    const int64_t width = block.num_rows > 6 ? 2 : 4;
    const uint16_t* queries = state.queries + block.first * layout.k_dims;
    for (int64_t group = block.begin; group < block.end;) {
      const bool is_whole = group + width <= block.end;
      (is_whole ? many : one)[block.num_rows - 1](groups.k + group, queries, layout.k_dims,
                                                  state.scores + group * kGroupTokens);
      group += is_whole ? width : 1;
    }
  }

  // 16 * num_columns value dimensions of `num_rows` rows, over all tokens of the split in order.
  template <int num_rows, int num_columns>
  static void sum_rows(const SplitGroups& groups, const RowBlock& block, int64_t column, int64_t v_dims,
                       const uint16_t* weights, float* to) {
    constexpr auto rows = kUpTo<num_rows>;
    constexpr auto columns = kUpTo<num_columns>;
    __m512 sums[num_rows][num_columns];
    unrolled(rows, [&](auto row) PELTON_LAMBDA {
      unrolled(columns, [&](auto i) PELTON_LAMBDA { sums[row][i] = _mm512_setzero_ps(); });
    });
    weights += block.begin * kGroupTokens;
    const int64_t line_bytes = v_dims / 16 * kLineBytes;
    for (int64_t group = block.begin; group < block.end; ++group) {
      const uint8_t* from = groups.v[group] + column / 16 * kLineBytes;
      const int64_t behind = group + kGroupsAhead - block.end;  // the columns that come next begin where these did
      const bool turns = behind >= 0 && behind < block.end - block.begin && column + 16 * num_columns < v_dims;
      const int64_t ahead_column = column / 16 + (turns ? num_columns : 0);
      const uint8_t* ahead = groups.v[turns ? block.begin + behind : group + kGroupsAhead] + ahead_column * kLineBytes;
#pragma GCC unroll 1
      for (int64_t pair = 0; pair < kGroupTokens / 2; ++pair) {
        unrolled(columns, [&](auto i) PELTON_LAMBDA {
          _mm_prefetch(ahead + i * kLineBytes, _MM_HINT_T1);
          const __m512bh line = load_line<is_int8>(from + i * kLineBytes);
          unrolled(rows, [&](auto row) PELTON_LAMBDA { add_dot(sums[row][i], line, weights + row * kScoreStride); });
        });
        weights += 2;
        from += line_bytes;
        ahead += line_bytes;
      }
    }
    unrolled(rows, [&](auto row) PELTON_LAMBDA {
      unrolled(columns,
               [&](auto i) PELTON_LAMBDA { _mm512_storeu_ps(to + row * v_dims + column + i * 16, sums[row][i]); });
    });
  }

  using SumRows = void (*)(const SplitGroups& groups, const RowBlock& block, int64_t column, int64_t v_dims,
                           const uint16_t* weights, float* to);

  static void sum_values(State& state, const KvLayout& layout, const SplitGroups& groups,
                         const RowBlock& block) {
    static constexpr SumRows four[] = {sum_rows<1, 4>, sum_rows<2, 4>, sum_rows<3, 4>, sum_rows<4, 4>,
                                       sum_rows<5, 4>, sum_rows<6, 4>, sum_rows<7, 4>};
    static constexpr SumRows two[] = {sum_rows<1, 2>, sum_rows<2, 2>, sum_rows<3, 2>, sum_rows<4, 2>,
                                      sum_rows<5, 2>, sum_rows<6, 2>, sum_rows<7, 2>, sum_rows<8, 2>};
    for (int64_t column = 0; column < layout.v_dims;) {
      const bool is_wide = block.num_rows < 8 && column + 64 <= layout.v_dims;
      (is_wide ? four : two)[block.num_rows - 1](groups, block, column, layout.v_dims, state.weights,
                                                 state.split_sums + block.first * layout.v_dims);
      column += is_wide ? 64 : 32;
    }
  }
};

}  // namespace

AttentionKernels attention_kernels_avx512(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::Bfloat16:
      return kernels_of<Bfloat16Dots<false>>();
    case KvDtype::Int8:
      return kernels_of<Bfloat16Dots<true>>();
    case KvDtype::Float32:
      break;
  }
  return lanes_kernels(KvDtype::Float32);
}

}  // namespace pelton
