#include "linear/block_strip_avx512.h"
#include "linear/strips_avx512.h"

namespace pelton {

void linear_strip_q6_k_avx512(const Linear& linear, int strip, void* scratch) {
  multiply_block_strip<Scheme::Q6_K>(linear, strip, scratch);
}

}  // namespace pelton
