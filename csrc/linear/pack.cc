// Which rows make a strip, and which version packs it (pack.h).
#include "linear/pack.h"

#include <cassert>

#include "core/isa.h"
#include "linear/linear.h"

namespace pelton {
namespace {

ActivationKind activation_kind(Scheme scheme, bool exact) {
  if (exact || scheme == Scheme::F16 || scheme == Scheme::F32) return ActivationKind::Float32;
  return scheme == Scheme::BF16 ? ActivationKind::BFloat16 : ActivationKind::Int8;
}

// Rows [64 * strip, 64 * strip + 64) of a matrix; null behind its last row.
StripRows rows_of_strip(const uint8_t* rows, int64_t num_rows, int64_t row_bytes, int strip) {
  StripRows result;
  for (int c = 0; c < kStripChannels; ++c) {
    const int64_t row = static_cast<int64_t>(strip) * kStripChannels + c;
    result.row[c] = row < num_rows ? rows + row * row_bytes : nullptr;
  }
  result.next_bytes = kStripChannels * row_bytes;
  return result;
}

// 32 gates, then their 32 ups (gated_output.h).
StripRows gates_and_ups_of_strip(const uint8_t* gates, const uint8_t* ups, int64_t row_bytes, int strip) {
  constexpr int kHalf = kStripChannels / 2;
  StripRows result;
  for (int c = 0; c < kHalf; ++c) {
    const int64_t offset = (static_cast<int64_t>(strip) * kHalf + c) * row_bytes;
    result.row[c] = gates + offset;
    result.row[kHalf + c] = ups + offset;
  }
  result.next_bytes = kHalf * row_bytes;
  return result;
}

void pack_strip(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst) {
#if defined(__x86_64__)
  if (isa() != Isa::Generic && pack_strip_avx2(scheme, rows, row_size, dst)) return;
#endif
  pack_strip_generic(scheme, rows, row_size, dst);
}

}  // namespace

size_t packed_size_bytes(Scheme scheme, int64_t n, int64_t k, bool /*exact: the bytes are the same*/) {
  const int64_t num_strips = (n + kStripChannels - 1) / kStripChannels;
  return static_cast<size_t>(num_strips * strip_bytes_of(scheme, k));
}

PackedMatrix pack_strips(Scheme scheme, const uint8_t* rows, const uint8_t* up_rows, int64_t n, int64_t k, uint8_t* dst,
                         bool exact, int strip_begin, int strip_end) {
  assert(reinterpret_cast<uintptr_t>(dst) % 64 == 0 && "a packed matrix begins at a cache line");
  assert((up_rows == nullptr || n % kStripChannels == 0) && "gates and ups fill their strips");
  const int64_t row_bytes = scheme_row_bytes(scheme, k);
  const int num_strips = static_cast<int>((n + kStripChannels - 1) / kStripChannels);
  const int64_t strip_bytes = strip_bytes_of(scheme, k);
  for (int strip = strip_begin; strip < strip_end; ++strip) {
    const StripRows strip_rows = up_rows == nullptr ? rows_of_strip(rows, n, row_bytes, strip)
                                                    : gates_and_ups_of_strip(rows, up_rows, row_bytes, strip);
    pack_strip(scheme, strip_rows, k, dst + strip * strip_bytes);
  }
  return {scheme, activation_kind(scheme, exact), n, k, num_strips, strip_bytes, dst};
}

}  // namespace pelton
