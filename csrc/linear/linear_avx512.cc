#include <cassert>

#include "linear/strips_avx512.h"

namespace pelton {

void linear_strip_avx512(const Linear& linear, int strip, void* scratch) {
  if (linear.x.kind == ActivationKind::Float32) return linear_strip_float32_avx512(linear, strip, scratch);
  switch (linear.weight->scheme) {
    case Scheme::BF16: return linear_strip_bf16_avx512(linear, strip, scratch);
    case Scheme::Q4_0: return linear_strip_q4_0_avx512(linear, strip, scratch);
    case Scheme::Q4_1: return linear_strip_q4_1_avx512(linear, strip, scratch);
    case Scheme::Q5_0: return linear_strip_q5_0_avx512(linear, strip, scratch);
    case Scheme::Q5_1: return linear_strip_q5_1_avx512(linear, strip, scratch);
    case Scheme::Q8_0: return linear_strip_q8_0_avx512(linear, strip, scratch);
    case Scheme::Q2_K: return linear_strip_q2_k_avx512(linear, strip, scratch);
    case Scheme::Q3_K: return linear_strip_q3_k_avx512(linear, strip, scratch);
    case Scheme::Q4_K: return linear_strip_q4_k_avx512(linear, strip, scratch);
    case Scheme::Q5_K: return linear_strip_q5_k_avx512(linear, strip, scratch);
    case Scheme::Q6_K: return linear_strip_q6_k_avx512(linear, strip, scratch);
    case Scheme::IQ4_NL: return linear_strip_iq4_nl_avx512(linear, strip, scratch);
    case Scheme::IQ4_XS: return linear_strip_iq4_xs_avx512(linear, strip, scratch);
    case Scheme::MXFP4: return linear_strip_mxfp4_avx512(linear, strip, scratch);
    case Scheme::INT4_G32: return linear_strip_int4_g32_avx512(linear, strip, scratch);
    case Scheme::INT4_G128: return linear_strip_int4_g128_avx512(linear, strip, scratch);
    case Scheme::INT8_G32: return linear_strip_int8_g32_avx512(linear, strip, scratch);
    case Scheme::INT8_G128: return linear_strip_int8_g128_avx512(linear, strip, scratch);
    case Scheme::F16:
    case Scheme::F32: assert(false && "F16 and F32 weights are packed for Float32 activations");
  }
}

}  // namespace pelton
