// BF16 weights and activations: vdpbf16ps, one float32 chain per output in ascending pairs of k.
//
// Up to 6 rows x 64 channels at a time (24 accumulators). For more than 6 rows the slab after this one is prefetched
// into L2 by the first row blocks; for fewer the hardware prefetcher does better alone.
#include "linear/intrinsics.h"

#include <array>
#include <utility>

#include "linear/strip.h"
#include "linear/strips_avx512.h"

namespace pelton {
namespace {

constexpr int kMaxRows = 6;
constexpr int kPairBytes = 4 * kStripChannels;
constexpr int kSlabPairs = kSlabSize / 2;

// num_pairs is a multiple of 4. Prefetches num_pairs * 64 bytes from `ahead`.
template <int num_rows, bool prefetch>
__attribute__((noinline)) void multiply_pairs(const uint8_t* weights, const uint16_t* x, float* totals, int num_pairs,
                                              const uint8_t* ahead) {
  __m512 sums[num_rows][4];
#pragma GCC unroll 6
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_load_ps(totals + r * kStripChannels + 16 * c);
  }
#pragma GCC unroll 1
  for (int pair = 0; pair < num_pairs; pair += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if constexpr (prefetch) _mm_prefetch(reinterpret_cast<const char*>(ahead) + 64 * i, _MM_HINT_T1);
      __m512bh w[4];
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) w[c] = reinterpret_cast<__m512bh>(_mm512_load_si512(weights + 64 * c));
#pragma GCC unroll 6
      for (int r = 0; r < num_rows; ++r) {
        int32_t two_values;
        __builtin_memcpy(&two_values, x + r * kSlabSize + 2 * i, 4);
        const __m512i x_pair = _mm512_set1_epi32(two_values);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          sums[r][c] = _mm512_dpbf16_ps(sums[r][c], w[c], reinterpret_cast<__m512bh>(x_pair));
        }
      }
      weights += kPairBytes;
    }
    ahead += 4 * 64;
    x += 8;
  }
#pragma GCC unroll 6
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_store_ps(totals + r * kStripChannels + 16 * c, sums[r][c]);
  }
}

using Kernel = void (*)(const uint8_t*, const uint16_t*, float*, int, const uint8_t*);

template <bool prefetch>
constexpr auto kernels() {
  return []<int... rows>(std::integer_sequence<int, rows...>) {
    return std::array<Kernel, kMaxRows>{multiply_pairs<rows + 1, prefetch>...};
  }(std::make_integer_sequence<int, kMaxRows>{});
}

}  // namespace

void linear_strip_bf16_avx512(const Linear& linear, int strip, void* scratch) {
  static constexpr auto kPrefetching = kernels<true>();
  static constexpr auto kPlain = kernels<false>();
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  float* totals = split_scratch(scratch).sums;
  const int64_t num_pairs = num_tiles_of(linear.x.row_size) * kTileSize / 2;
  for (int64_t first_row = 0; first_row < linear.x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, linear.x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t pair = 0, slab = 0; pair < num_pairs; pair += kSlabPairs, ++slab) {
      const uint8_t* weights = data + pair * kPairBytes;
      const int count = static_cast<int>(std::min<int64_t>(kSlabPairs, num_pairs - pair));
      const uint8_t* ahead = weights + kSlabPairs * kPairBytes;
      for (int64_t row = 0; row < num_rows;) {
        const int64_t left = num_rows - row;
        const int64_t block_rows = left == 7 || left == 8 ? 4 : std::min<int64_t>(left, kMaxRows);
        const int64_t place = slab * linear.x.num_rows + first_row + row;
        const auto* x = static_cast<const uint16_t*>(linear.x.values) + place * kSlabSize;
        const bool prefetches = num_rows > kMaxRows && row < 4 * kMaxRows;  // each block a quarter of the slab
        const Kernel multiply = (prefetches ? kPrefetching : kPlain)[static_cast<size_t>(block_rows - 1)];
        multiply(weights, x, totals + row * kStripChannels, count, ahead);
        ahead += count * 64;
        row += block_rows;
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace pelton
