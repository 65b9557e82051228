// Which instruction set the kernels use. Detected once by CPUID; a test or a person may ask for a lower one.
//
//   Generic   any machine of the family
//   Avx2      avx2, fma, f16c
//   Avx512    f, bw, vl, dq, vbmi, vnni, bf16: what the *_avx512.cc files are compiled for
//
// Ops read isa() when a program is built, not inside a step.
#pragma once

#include <string_view>

namespace pelton {

enum class Isa { Generic, Avx2, Avx512 };

Isa detected_isa();     // the best one of this machine
Isa isa();              // the one in use
void set_isa(Isa isa);  // throws std::invalid_argument if this machine lacks it

const char* isa_name(Isa isa);  // "generic", "avx2", "avx512"
Isa isa_from_name(std::string_view name);

}  // namespace pelton
