#include "attention/attention_lanes.h"

namespace pelton {

AttentionKernels attention_kernels_avx2(KvDtype dtype) { return lanes_kernels(dtype); }

}  // namespace pelton
