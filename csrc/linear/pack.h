// Packing of one strip: 64 rows as a checkpoint stores them become one strip of layout.h. Bytes are moved, never rounded.
//
//   rows     where each channel's row begins, from whatever tensor; null is a channel of zeros
//   dst      strip_bytes_of(scheme, row_size) bytes, 64-byte aligned, all of them written
//   result   the same bytes from every version; the generic one is the oracle and knows every scheme
//   cost     each source byte read once, each packed byte written once: bound by memory in the AVX2 version
#pragma once

#include <cstdint>

#include "linear/layout.h"
#include "scheme/scheme.h"

namespace pelton {

struct StripRows {
  const uint8_t* row[kStripChannels];
  int64_t next_bytes;  // from a row to the same channel's row of the strip that is packed next: for prefetching only
};

void pack_strip_generic(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst);

// False, with nothing written, for a scheme or a strip that it does not specialise: the generic version is for those.
bool pack_strip_avx2(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst);

}  // namespace pelton
