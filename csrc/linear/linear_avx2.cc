#include <cassert>

#include "linear/block_strip_avx2.h"
#include "linear/strips_avx2.h"

namespace pelton {

void linear_strip_avx2(const Linear& linear, int strip, void* scratch) {
  if (!is_int8(linear.x.kind)) return linear_strip_floats_avx2(linear, strip, scratch);
  switch (linear.weight->scheme) {
    case Scheme::Q4_0: return multiply_block_strip<Scheme::Q4_0>(linear, strip, scratch);
    case Scheme::Q4_1: return multiply_block_strip<Scheme::Q4_1>(linear, strip, scratch);
    case Scheme::Q5_0: return multiply_block_strip<Scheme::Q5_0>(linear, strip, scratch);
    case Scheme::Q5_1: return multiply_block_strip<Scheme::Q5_1>(linear, strip, scratch);
    case Scheme::Q8_0: return multiply_block_strip<Scheme::Q8_0>(linear, strip, scratch);
    case Scheme::Q2_K: return multiply_block_strip<Scheme::Q2_K>(linear, strip, scratch);
    case Scheme::Q3_K: return multiply_block_strip<Scheme::Q3_K>(linear, strip, scratch);
    case Scheme::Q4_K: return multiply_block_strip<Scheme::Q4_K>(linear, strip, scratch);
    case Scheme::Q5_K: return multiply_block_strip<Scheme::Q5_K>(linear, strip, scratch);
    case Scheme::Q6_K: return multiply_block_strip<Scheme::Q6_K>(linear, strip, scratch);
    case Scheme::IQ4_NL: return multiply_block_strip<Scheme::IQ4_NL>(linear, strip, scratch);
    case Scheme::IQ4_XS: return multiply_block_strip<Scheme::IQ4_XS>(linear, strip, scratch);
    case Scheme::MXFP4: return multiply_block_strip<Scheme::MXFP4>(linear, strip, scratch);
    case Scheme::INT4_G32: return multiply_block_strip<Scheme::INT4_G32>(linear, strip, scratch);
    case Scheme::INT4_G128: return multiply_block_strip<Scheme::INT4_G128>(linear, strip, scratch);
    case Scheme::INT8_G32: return multiply_block_strip<Scheme::INT8_G32>(linear, strip, scratch);
    case Scheme::INT8_G128: return multiply_block_strip<Scheme::INT8_G128>(linear, strip, scratch);
    case Scheme::F32:
    case Scheme::F16:
    case Scheme::BF16: assert(false && "dense weights are packed for float activations");
  }
}

}  // namespace pelton
