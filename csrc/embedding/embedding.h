// embedding: y[t, :] = table[ids[t], :], dequantized row by row from the checkpoint's own bytes.
//
//   table     num_rows rows of scheme_row_bytes(scheme, size) bytes, usually a mapped file: only used rows are read
//   ids       in [0, num_rows): the caller has checked
//   y         rows of `size` floats, exactly what the scheme defines
//   threads   each row on its own; the caller shares rows out
#pragma once

#include "core/views.h"
#include "scheme/scheme.h"

namespace pelton {

struct Embedding {
  const uint8_t* table;
  Scheme scheme;
  int64_t num_rows;
  int64_t row_bytes;
  int64_t size;
  const int32_t* ids;
  Rows y;
};

void embedding(const Embedding&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
