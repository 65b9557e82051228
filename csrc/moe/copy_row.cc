#include "moe/copy_row.h"

#include <cassert>
#include <cstring>

#include "linear/layout.h"

namespace pelton {
namespace {

template <typename T>
void copy_part(const void* from, int64_t from_place, void* to, int64_t to_place, int64_t size) {
  memcpy(static_cast<T*>(to) + to_place * size, static_cast<const T*>(from) + from_place * size,
         static_cast<size_t>(size) * sizeof(T));
}

}  // namespace

void copy_row(const Activation& from, int64_t from_row, const Activation& to, int64_t to_row) {
  assert(from.kind == to.kind && from.row_size == to.row_size && "rows of one form");
  const int64_t terms = num_terms(from.kind);
  const int64_t num_slabs = (from.row_size + kSlabSize - 1) / kSlabSize;
  for (int64_t slab = 0; slab < num_slabs; ++slab) {
    const int64_t from_place = slab * from.num_rows + from_row * terms;
    const int64_t to_place = slab * to.num_rows + to_row * terms;
    for (int64_t term = 0; term < terms; ++term) {
      if (is_int8(from.kind)) {
        copy_part<int8_t>(from.values, from_place + term, to.values, to_place + term, kSlabSize);
        copy_part<float>(from.scales, from_place + term, to.scales, to_place + term, 1);
        copy_part<int32_t>(from.shifts, from_place + term, to.shifts, to_place + term, kSlabTiles);
        copy_part<int32_t>(from.sums32, from_place + term, to.sums32, to_place + term, kSlabTiles);
        copy_part<int32_t>(from.sums16, from_place + term, to.sums16, to_place + term, 2 * kSlabTiles);
      } else if (from.kind == ActivationKind::BFloat16) {
        copy_part<uint16_t>(from.values, from_place, to.values, to_place, kSlabSize);
      } else {
        copy_part<float>(from.values, from_place, to.values, to_place, kSlabSize);
      }
    }
  }
}

}  // namespace pelton
