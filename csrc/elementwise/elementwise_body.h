// The bodies of the one-line ops, compiled once per instruction set.
#pragma once

#include "core/lanes.h"
#include "elementwise/elementwise.h"

namespace pelton {

template <ElementwiseKind kind>
PELTON_INLINE Lanes combine(Lanes x, Lanes other, float constant) {
  if constexpr (kind == ElementwiseKind::Add) return x + other;
  if constexpr (kind == ElementwiseKind::Scale) return x * constant;
  return tanh_lanes(x / constant) * constant;
}

template <ElementwiseKind kind>
PELTON_INLINE void combine_rows(const Elementwise& op, int64_t row_begin, int64_t row_end) {
  const int64_t whole = op.size / kLanes * kLanes;
  const int64_t rest = op.size - whole;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = op.x.row(row);
    const float* other = kind == ElementwiseKind::Add ? op.other.row(row) : x;
    float* y = op.y.row(row);
    for (int64_t i = 0; i < whole; i += kLanes) {
      store_lanes(y + i, combine<kind>(load_lanes(x + i), load_lanes(other + i), op.constant));
    }
    if (rest > 0) {
      store_some(y + whole, combine<kind>(load_some(x + whole, rest), load_some(other + whole, rest), op.constant),
                 rest);
    }
  }
}

PELTON_INLINE void elementwise_body(const Elementwise& op, int64_t row_begin, int64_t row_end) {
  switch (op.kind) {
    case ElementwiseKind::Add:
      combine_rows<ElementwiseKind::Add>(op, row_begin, row_end);
      break;
    case ElementwiseKind::Scale:
      combine_rows<ElementwiseKind::Scale>(op, row_begin, row_end);
      break;
    case ElementwiseKind::Softcap:
      combine_rows<ElementwiseKind::Softcap>(op, row_begin, row_end);
      break;
  }
}

}  // namespace pelton
