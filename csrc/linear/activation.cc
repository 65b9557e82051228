#include "linear/activation.h"

#include <cassert>

#include "core/isa.h"
#include "linear/layout.h"

namespace pelton {
namespace {

static_assert(kTilesPerSlab == kSlabTiles);

int64_t num_slabs(int64_t k) { return (k + kSlabSize - 1) / kSlabSize; }

// Values are whole cache lines per row and slab, sums and shifts multiples of 16 bytes: each stays aligned for its loads.
int64_t value_bytes(ActivationKind kind) {
  return is_int8(kind) ? 1 : kind == ActivationKind::BFloat16 ? 2 : 4;
}

}  // namespace

size_t activation_size_bytes(ActivationKind kind, int64_t max_rows, int64_t k) {
  int64_t bytes_per_slab = kSlabSize * value_bytes(kind);
  if (is_int8(kind)) bytes_per_slab += sizeof(float) + kSlabTiles * 4 * sizeof(int32_t);
  return static_cast<size_t>(num_slabs(k) * max_rows * num_terms(kind) * bytes_per_slab);
}

Activation make_activation(ActivationKind kind, int64_t num_rows, int64_t k, void* memory) {
  assert(reinterpret_cast<uintptr_t>(memory) % 64 == 0 && "an activation begins at a cache line");
  const int64_t stored_rows = num_rows * num_terms(kind);
  const int64_t row_slabs = num_slabs(k) * stored_rows;
  Activation activation{kind, stored_rows, k, memory, nullptr, nullptr, nullptr, nullptr};
  if (is_int8(kind)) {
    auto* after_values = static_cast<uint8_t*>(memory) + row_slabs * kSlabSize;
    activation.sums16 = reinterpret_cast<int32_t*>(after_values);
    activation.sums32 = activation.sums16 + row_slabs * 2 * kSlabTiles;
    activation.shifts = activation.sums32 + row_slabs * kSlabTiles;
    activation.scales = reinterpret_cast<float*>(activation.shifts + row_slabs * kSlabTiles);
  }
  return activation;
}

void quantize_slab(const Activation& activation, int64_t slab, const float* x, int64_t x_stride, int64_t row_begin,
                   int64_t row_end) {
  switch (isa()) {
#if defined(__x86_64__)
    case Isa::Avx512: return quantize_slab_avx512(activation, slab, x, x_stride, row_begin, row_end);
    case Isa::Avx2: return quantize_slab_avx2(activation, slab, x, x_stride, row_begin, row_end);
#endif
    default: return quantize_slab_generic(activation, slab, x, x_stride, row_begin, row_end);
  }
}

void quantize_rows(const Activation& activation, const float* x, int64_t x_stride, int64_t row_begin,
                   int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t slab = 0; slab < num_slabs(activation.row_size); ++slab) {
      quantize_slab(activation, slab, x + slab * kSlabSize, x_stride, row, row + 1);
    }
  }
}

}  // namespace pelton
