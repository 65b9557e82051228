// Float activations with AVX2: dense weights, and every scheme in exact mode. A tile is expanded to [32 k][64 channels]
// float32 in L1, unless it is F32 or BF16, then multiplied with 1 row x 64, 2 x 32 or up to 4 x 16 channels at a time.
//
// Limit: two fused multiply-adds of 8 floats a cycle, 115 GOP/s at 3.6 GHz.
#include "linear/strip.h"
#include "linear/strips_avx2.h"
#include "linear/weights_avx2.h"

namespace pelton {
namespace {

constexpr int kMaxRows = 4;

template <Scheme scheme>
void expand_block(const uint8_t* src, const uint8_t* super, float* weights) {
  constexpr Layout layout = layout_of(scheme);
  const __m256i low_byte = _mm256_set1_epi32(255);
  ExpandedTile tile;
  const uint8_t* integers = expand_tile<layout>(src, super, tile);
  for (int kgroup = 0; kgroup < kIntegerLines; ++kgroup) {
    const int half = has_halves(layout.form) ? kgroup / 4 : 0;
    for (int c = 0; c < kStripChannels; c += 8) {
      const __m256i q = _mm256_load_si256(reinterpret_cast<const __m256i*>(integers + kgroup * kLineBytes + 4 * c));
      const __m256 scale = _mm256_load_ps(tile.scales[half] + c);
      __m256i zero = _mm256_set1_epi32(layout.zero_shift == 0 ? 0 : 1 << layout.zero_shift);
      if constexpr (has_zeros(layout.form)) zero = _mm256_load_si256(reinterpret_cast<const __m256i*>(tile.zeros + c));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m256i integer = _mm256_sub_epi32(_mm256_and_si256(_mm256_srli_epi32(q, 8 * i), low_byte), zero);
        __m256 value = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(integer));
        if constexpr (has_min(layout.form)) value = _mm256_sub_ps(value, _mm256_load_ps(tile.mins[half] + c));
        _mm256_store_ps(weights + (4 * kgroup + i) * kStripChannels + c, value);
      }
    }
  }
}

void expand_f16(const uint8_t* tile, const uint8_t*, float* weights) {
  for (int i = 0; i < kTileSize * kStripChannels; i += 8) _mm256_store_ps(weights + i, load_halves(tile, i));
}

using Expand = void (*)(const uint8_t* tile, const uint8_t* super, float* weights);

Expand expansion_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::F32:
    case Scheme::BF16: return nullptr;  // multiplied as they lie
    case Scheme::F16: return expand_f16;
    case Scheme::Q4_0: return expand_block<Scheme::Q4_0>;
    case Scheme::Q4_1: return expand_block<Scheme::Q4_1>;
    case Scheme::Q5_0: return expand_block<Scheme::Q5_0>;
    case Scheme::Q5_1: return expand_block<Scheme::Q5_1>;
    case Scheme::Q8_0: return expand_block<Scheme::Q8_0>;
    case Scheme::Q2_K: return expand_block<Scheme::Q2_K>;
    case Scheme::Q3_K: return expand_block<Scheme::Q3_K>;
    case Scheme::Q4_K: return expand_block<Scheme::Q4_K>;
    case Scheme::Q5_K: return expand_block<Scheme::Q5_K>;
    case Scheme::Q6_K: return expand_block<Scheme::Q6_K>;
    case Scheme::IQ4_NL: return expand_block<Scheme::IQ4_NL>;
    case Scheme::IQ4_XS: return expand_block<Scheme::IQ4_XS>;
    case Scheme::MXFP4: return expand_block<Scheme::MXFP4>;
    case Scheme::INT4_G32: return expand_block<Scheme::INT4_G32>;
    case Scheme::INT4_G128: return expand_block<Scheme::INT4_G128>;
    case Scheme::INT8_G32: return expand_block<Scheme::INT8_G32>;
    case Scheme::INT8_G128: return expand_block<Scheme::INT8_G128>;
  }
  return nullptr;
}

// One row of the tile as float32.
void load_row(const Activation& x, int64_t place, float* out) {
  for (int k = 0; k < kTileSize; k += 8) {
    if (x.kind == ActivationKind::Float32) {
      _mm256_store_ps(out + k, _mm256_loadu_ps(static_cast<const float*>(x.values) + place + k));
    } else {
      const auto* halves = reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(x.values) + place + k);
      const __m256i upper = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves)), 16);
      _mm256_store_ps(out + k, _mm256_castsi256_ps(upper));
    }
  }
}

// How many vectors of 8 channels are multiplied at a time: enough sums in flight to hide the latency of a fused
// multiply-add, and no more than there are registers for.
constexpr int num_vectors_of(int num_rows) { return num_rows == 1 ? 8 : num_rows == 2 ? 4 : 2; }

PELTON_INLINE __m256 upper_halves(__m256i two) {
  return _mm256_castsi256_ps(_mm256_and_si256(two, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
PELTON_INLINE __m256 lower_halves(__m256i two) { return _mm256_castsi256_ps(_mm256_slli_epi32(two, 16)); }

// One k: `load` gives the weights of 8 channels.
template <int num_rows, int num_vectors, typename Load>
PELTON_INLINE void add_products(const Load& load, const float* x, __m256 (&sums)[num_rows][num_vectors]) {
  __m256 x_k[num_rows];
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r) x_k[r] = _mm256_broadcast_ss(x + r * kTileSize);
#pragma GCC unroll 8
  for (int v = 0; v < num_vectors; ++v) {
    const __m256 weights = load(v);
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) sums[r][v] = _mm256_fmadd_ps(weights, x_k[r], sums[r][v]);
  }
}

// Weights [32][64] floats, or [16][64][2] bfloat16 that are widened as they are read.
template <int num_rows, bool is_bfloat16>
__attribute__((noinline)) void multiply_tile(const uint8_t* weights, const float* x, float* totals) {
  constexpr int num_vectors = num_vectors_of(num_rows);
#pragma GCC unroll 1
  for (int c = 0; c < kStripChannels; c += 8 * num_vectors) {
    __m256 sums[num_rows][num_vectors];
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < num_vectors; ++v) sums[r][v] = _mm256_load_ps(totals + r * kStripChannels + c + 8 * v);
    }
    const uint8_t* line = weights + 4 * c;
    const float* x_k = x;
#pragma GCC unroll 1
    for (int k = 0; k < kTileSize; k += 2, x_k += 2) {
      const auto load = [&line](int v) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32 * v));
      };
      if constexpr (is_bfloat16) {
        add_products<num_rows, num_vectors>([&](int v) { return lower_halves(load(v)); }, x_k, sums);
        add_products<num_rows, num_vectors>([&](int v) { return upper_halves(load(v)); }, x_k + 1, sums);
      } else {
        add_products<num_rows, num_vectors>([&](int v) { return _mm256_castsi256_ps(load(v)); }, x_k, sums);
        line += kLineBytes;
        add_products<num_rows, num_vectors>([&](int v) { return _mm256_castsi256_ps(load(v)); }, x_k + 1, sums);
      }
      line += kLineBytes;
    }
#pragma GCC unroll 4
    for (int r = 0; r < num_rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < num_vectors; ++v) _mm256_store_ps(totals + r * kStripChannels + c + 8 * v, sums[r][v]);
    }
  }
}

using Kernel = void (*)(const uint8_t*, const float*, float*);
template <bool is_bfloat16>
constexpr Kernel kKernels[kMaxRows] = {multiply_tile<1, is_bfloat16>, multiply_tile<2, is_bfloat16>,
                                       multiply_tile<3, is_bfloat16>, multiply_tile<4, is_bfloat16>};

}  // namespace

void linear_strip_floats_avx2(const Linear& linear, int strip, void* scratch) {
  const Scheme scheme = linear.weight->scheme;
  const Expand expand = expansion_of(scheme);
  const Kernel* kernels = scheme == Scheme::BF16 ? kKernels<true> : kKernels<false>;
  const Activation& x = linear.x;
  const uint8_t* data = linear.weight->data + strip * linear.weight->strip_bytes;
  const auto [expanded, totals] = split_scratch(scratch);
  alignas(32) float x_rows[kMaxRows * kTileSize];
  for (int64_t first_row = 0; first_row < x.num_rows; first_row += kMaxPassRows) {
    const int64_t num_rows = std::min<int64_t>(kMaxPassRows, x.num_rows - first_row);
    std::fill_n(totals, num_rows * kStripChannels, 0.0f);
    for (int64_t t = 0; t < num_tiles_of(x.row_size); ++t) {
      const uint8_t* weights = data + tile_offset(scheme, t);
      if (expand != nullptr) {
        expand(weights, data + super_offset(scheme, t), reinterpret_cast<float*>(expanded));
        weights = expanded;
      }
      const int64_t place = (t / kSlabTiles * x.num_rows + first_row) * kSlabSize + t % kSlabTiles * kTileSize;
      for (int64_t row = 0; row < num_rows; row += kMaxRows) {
        const int64_t block_rows = std::min<int64_t>(kMaxRows, num_rows - row);
        for (int64_t r = 0; r < block_rows; ++r) load_row(x, place + (row + r) * kSlabSize, x_rows + r * kTileSize);
        kernels[block_rows - 1](weights, x_rows, totals + row * kStripChannels);
      }
    }
    write_outputs(linear, strip, first_row, num_rows, totals);
  }
}

}  // namespace pelton
