#include "linear/linear.h"

#include <algorithm>

#include "core/arena.h"
#include "core/isa.h"
#include "linear/strip.h"

namespace pelton {

size_t linear_scratch_bytes(int64_t max_rows) {
  const auto pass_rows = static_cast<size_t>(std::min<int64_t>(2 * max_rows, kMaxPassRows));
  return kExpandedBytes + sizeof(float) * kStripChannels * pass_rows;
}

size_t linear_gated_scratch_bytes(int64_t max_rows) {
  return round_up(linear_scratch_bytes(max_rows), 64) + sizeof(float) * kSlabSize * static_cast<size_t>(max_rows);
}

int64_t num_gated_slabs(const PackedMatrix& matrix) { return (matrix.num_strips + kSlabTiles - 1) / kSlabTiles; }

void linear_gated_slab(const Linear& linear, const Activation& to, int64_t slab, void* scratch) {
  const int64_t num_rows = linear.x.num_rows / num_terms(linear.x.kind);
  const int64_t first_strip = slab * kSlabTiles;
  PackedMatrix strips = *linear.weight;
  strips.num_strips = static_cast<int>(std::min<int64_t>(kSlabTiles, strips.num_strips - first_strip));
  strips.num_rows = strips.num_strips * kStripChannels;
  strips.data += first_strip * strips.strip_bytes;
  auto* products = static_cast<uint8_t*>(scratch) + round_up(linear_scratch_bytes(num_rows), 64);
  Linear part = linear;
  part.weight = &strips;
  if (linear.bias != nullptr) part.bias += first_strip * kStripChannels;
  part.y = reinterpret_cast<float*>(products);
  part.y_stride = kSlabSize;
  for (int strip = 0; strip < strips.num_strips; ++strip) linear_strip(part, strip, scratch);
  quantize_slab(to, slab, part.y, kSlabSize, 0, num_rows);
}

void linear_strip(const Linear& linear, int strip, void* scratch) {
  switch (isa()) {
#if defined(__x86_64__)
    case Isa::Avx512: return linear_strip_avx512(linear, strip, scratch);
    case Isa::Avx2: return linear_strip_avx2(linear, strip, scratch);
#endif
    default: return linear_strip_generic(linear, strip, scratch);
  }
}

}  // namespace pelton
