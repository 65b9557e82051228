#include "gated/gated.h"

#include "core/isa.h"

namespace pelton {

GatedKernel gated_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return gated_avx512;
  if (isa() == Isa::Avx2) return gated_avx2;
#endif
  return gated_generic;
}

}  // namespace pelton
