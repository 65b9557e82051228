#include "sampling/scan.h"

#include "core/isa.h"

namespace pelton {

ScanKernels scan_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return scan_kernels_avx512();
  if (isa() == Isa::Avx2) return scan_kernels_avx2();
#endif
  return scan_kernels_generic();
}

}  // namespace pelton
