#include "linear/block_strip_avx512.h"
#include "linear/strips_avx512.h"

namespace pelton {

void linear_strip_mxfp4_avx512(const Linear& linear, int strip, void* scratch) {
  multiply_block_strip<Scheme::MXFP4>(linear, strip, scratch);
}

}  // namespace pelton
