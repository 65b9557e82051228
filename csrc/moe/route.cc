#include "moe/route.h"

#include "core/isa.h"

namespace pelton {

RouteKernel route_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return route_avx512;
  if (isa() == Isa::Avx2) return route_avx2;
#endif
  return route_generic;
}

}  // namespace pelton
