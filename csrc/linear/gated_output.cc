#include "linear/gated_output.h"

#include "core/isa.h"

namespace pelton {

WriteGated write_gated_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return write_gated_avx512;
  if (isa() == Isa::Avx2) return write_gated_avx2;
#endif
  return write_gated_generic;
}

}  // namespace pelton
