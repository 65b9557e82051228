#include "layer_norm/layer_norm.h"

#include "core/isa.h"

namespace pelton {

LayerNormKernel layer_norm_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return layer_norm_avx512;
  if (isa() == Isa::Avx2) return layer_norm_avx2;
#endif
  return layer_norm_generic;
}

}  // namespace pelton
