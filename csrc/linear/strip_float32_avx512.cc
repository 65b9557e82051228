// Float32 activations: F32 and F16 weights, and every scheme in exact mode. A tile is expanded to [32 k][64 channels]
// float32 in L1 (F32 tiles lie so already), then multiplied with up to 6 rows x 64 channels at a time.
#include "linear/intrinsics.h"

#include <array>
#include <utility>

#include "linear/strip.h"
#include "linear/strips_avx512.h"
#include "linear/weights_avx512.h"

namespace pelton {
namespace {

constexpr int kMaxRows = 6;

void store_lane(float* weights, int k, int column, __m512 value) {
  _mm512_store_ps(weights + k * kStripChannels + 16 * column, value);
}

template <Scheme scheme>
void expand_block_tile(const uint8_t* tile, const uint8_t* super, float* weights) {
  constexpr Layout layout = layout_of(scheme);
  const __m512i low_byte = _mm512_set1_epi32(255);
  const uint8_t* scales = tile + integer_bytes(layout);
  for (int c = 0; c < 4; ++c) {
    __m512i zero = _mm512_set1_epi32(layout.zero_shift == 0 ? 0 : 1 << layout.zero_shift);
    if constexpr (has_zeros(layout.form)) zero = load_zeros<layout.form>(scales, super, c);
#pragma GCC unroll 8
    for (int kgroup = 0; kgroup < kIntegerLines; ++kgroup) {
      const int half = has_halves(layout.form) ? kgroup / 4 : 0;
      const __m512 scale = load_scale<layout.form>(scales, super, half, c);
      const __m512i q = load_integers<layout>(tile, kgroup, c);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m512i integer = _mm512_sub_epi32(_mm512_and_si512(_mm512_srli_epi32(q, 8 * i), low_byte), zero);
        __m512 value = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(integer));
        if constexpr (has_min(layout.form)) value = _mm512_sub_ps(value, load_min<layout.form>(scales, super, half, c));
        store_lane(weights, 4 * kgroup + i, c, value);
      }
    }
  }
}

void expand_f16_tile(const uint8_t* tile, const uint8_t*, float* weights) {
  for (int i = 0; i < kTileSize * kStripChannels; i += 16) _mm512_store_ps(weights + i, load_halves(tile, i));
}

void expand_bf16_tile(const uint8_t* tile, const uint8_t*, float* weights) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int pair = 0; pair < kTileSize / 2; ++pair) {
    for (int c = 0; c < 4; ++c) {
      const __m512i two = _mm512_load_si512(tile + (pair * 4 + c) * 64);
      store_lane(weights, 2 * pair, c, _mm512_castsi512_ps(_mm512_slli_epi32(two, 16)));
      store_lane(weights, 2 * pair + 1, c, _mm512_castsi512_ps(_mm512_and_si512(two, upper)));
    }
  }
}

using Expand = void (*)(const uint8_t* tile, const uint8_t* super, float* weights);

Expand expansion_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::F32: return nullptr;
    case Scheme::F16: return expand_f16_tile;
    case Scheme::BF16: return expand_bf16_tile;
    case Scheme::Q4_0: return expand_block_tile<Scheme::Q4_0>;
    case Scheme::Q4_1: return expand_block_tile<Scheme::Q4_1>;
    case Scheme::Q5_0: return expand_block_tile<Scheme::Q5_0>;
    case Scheme::Q5_1: return expand_block_tile<Scheme::Q5_1>;
    case Scheme::Q8_0: return expand_block_tile<Scheme::Q8_0>;
    case Scheme::Q2_K: return expand_block_tile<Scheme::Q2_K>;
    case Scheme::Q3_K: return expand_block_tile<Scheme::Q3_K>;
    case Scheme::Q4_K: return expand_block_tile<Scheme::Q4_K>;
    case Scheme::Q5_K: return expand_block_tile<Scheme::Q5_K>;
    case Scheme::Q6_K: return expand_block_tile<Scheme::Q6_K>;
    case Scheme::IQ4_NL: return expand_block_tile<Scheme::IQ4_NL>;
    case Scheme::IQ4_XS: return expand_block_tile<Scheme::IQ4_XS>;
    case Scheme::MXFP4: return expand_block_tile<Scheme::MXFP4>;
    case Scheme::INT4_G32: return expand_block_tile<Scheme::INT4_G32>;
    case Scheme::INT4_G128: return expand_block_tile<Scheme::INT4_G128>;
    case Scheme::INT8_G32: return expand_block_tile<Scheme::INT8_G32>;
    case Scheme::INT8_G128: return expand_block_tile<Scheme::INT8_G128>;
  }
  return nullptr;
}

template <int num_rows>
__attribute__((noinline)) void multiply_tile(const float* weights, const float* x, float* totals) {
  __m512 sums[num_rows][4];
#pragma GCC unroll 6
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_load_ps(totals + r * kStripChannels + 16 * c);
  }
#pragma GCC unroll 1
  for (int k = 0; k < kTileSize; ++k, weights += kStripChannels) {
    __m512 w[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) w[c] = _mm512_load_ps(weights + 16 * c);
#pragma GCC unroll 6
    for (int r = 0; r < num_rows; ++r) {
      const __m512 x_k = _mm512_set1_ps(x[r * kSlabSize + k]);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_fmadd_ps(w[c], x_k, sums[r][c]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_store_ps(totals + r * kStripChannels + 16 * c, sums[r][c]);
  }
}

using Kernel = void (*)(const float*, const float*, float*);
constexpr std::array<Kernel, kMaxRows> kKernels = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                                   multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

}  // namespace

void linear_strip_float32_avx512(const Linear& linear, int strip, void* scratch) {
  const Scheme scheme = linear.weight->scheme;
  const Expand expand = expansion_of(scheme);
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  const auto [expanded, totals] = split_scratch(scratch);
  for (int64_t first_row = 0; first_row < linear.x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, linear.x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t tile = 0; tile < num_tiles_of(linear.x.row_size); ++tile) {
      const auto* weights = reinterpret_cast<const float*>(data + tile_offset(scheme, tile));
      if (expand != nullptr) {
        expand(data + tile_offset(scheme, tile), data + super_offset(scheme, tile), reinterpret_cast<float*>(expanded));
        weights = reinterpret_cast<const float*>(expanded);
      }
      const float* x = static_cast<const float*>(linear.x.values) +
                       (tile / kSlabTiles * linear.x.num_rows + first_row) * kSlabSize + tile % kSlabTiles * kTileSize;
      for (int64_t row = 0; row < num_rows; row += kMaxRows) {
        const int64_t block_rows = std::min<int64_t>(kMaxRows, num_rows - row);
        kKernels[static_cast<size_t>(block_rows - 1)](weights, x + row * kSlabSize, totals + row * kStripChannels);
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace pelton
