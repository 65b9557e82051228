// The AVX-512 kernels by scheme: one source file each, because each is much unrolled code to compile.
#pragma once

#include "linear/linear.h"

namespace pelton {

void linear_strip_q4_0_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q4_1_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q5_0_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q5_1_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q8_0_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q2_k_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q3_k_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q4_k_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q5_k_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_q6_k_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_iq4_nl_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_iq4_xs_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_mxfp4_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_int4_g32_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_int4_g128_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_int8_g32_avx512(const Linear& linear, int strip, void* scratch);
void linear_strip_int8_g128_avx512(const Linear& linear, int strip, void* scratch);

// Activation BFloat16, scheme BF16.
void linear_strip_bf16_avx512(const Linear& linear, int strip, void* scratch);

// Activation Float32, any scheme: tiles are expanded to float32.
void linear_strip_float32_avx512(const Linear& linear, int strip, void* scratch);

}  // namespace pelton
