#include "linear/block_strip_avx512.h"
#include "linear/strips_avx512.h"

namespace pelton {

void linear_strip_iq4_xs_avx512(const Linear& linear, int strip, void* scratch) {
  multiply_block_strip<Scheme::IQ4_XS>(linear, strip, scratch);
}

}  // namespace pelton
