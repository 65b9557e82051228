#include "linear/linear.h"

#include <algorithm>

#include "core/isa.h"
#include "linear/strip.h"

namespace pelton {

size_t linear_scratch_bytes(int64_t max_rows) {
  const auto pass_rows = static_cast<size_t>(std::min<int64_t>(2 * max_rows, kMaxPassRows));
  return kExpandedBytes + sizeof(float) * kStripChannels * pass_rows;
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
