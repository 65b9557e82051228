#include "rms_norm/rms_norm.h"

#include "core/isa.h"

namespace pelton {

RmsNormKernel rms_norm_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return rms_norm_avx512;
  if (isa() == Isa::Avx2) return rms_norm_avx2;
#endif
  return rms_norm_generic;
}

}  // namespace pelton
