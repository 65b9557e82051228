#include "sampling/scan_body.h"

namespace pelton {

ScanKernels scan_kernels_avx2() {
  return {find_largest_body, compute_weights_body, count_bins_body, collect_bins_body};
}

}  // namespace pelton
