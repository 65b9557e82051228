#include "elementwise/elementwise.h"

#include "core/isa.h"

namespace pelton {

ElementwiseKernel elementwise_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return elementwise_avx512;
  if (isa() == Isa::Avx2) return elementwise_avx2;
#endif
  return elementwise_generic;
}

}  // namespace pelton
