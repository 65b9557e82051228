#include "moe/sigmoid_scale.h"

#include "core/isa.h"

namespace pelton {

SigmoidScaleKernel sigmoid_scale_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return sigmoid_scale_avx512;
  if (isa() == Isa::Avx2) return sigmoid_scale_avx2;
#endif
  return sigmoid_scale_generic;
}

}  // namespace pelton
