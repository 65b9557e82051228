#include "linear/block_strip_avx512.h"
#include "linear/strips_avx512.h"

namespace pelton {

void linear_strip_int4_g128_avx512(const Linear& linear, int strip, void* scratch) {
  multiply_block_strip<Scheme::INT4_G128>(linear, strip, scratch);
}

}  // namespace pelton
