#include "moe/add_weighted.h"

#include "core/isa.h"

namespace pelton {

AddWeightedKernel add_weighted_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return add_weighted_avx512;
  if (isa() == Isa::Avx2) return add_weighted_avx2;
#endif
  return add_weighted_generic;
}

}  // namespace pelton
