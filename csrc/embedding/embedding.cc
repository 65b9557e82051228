#include "embedding/embedding.h"

namespace pelton {

void embedding(const Embedding& op, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    dequantize_row(op.scheme, op.table + op.ids[row] * op.row_bytes, op.size, op.y.row(row));
  }
}

}  // namespace pelton
