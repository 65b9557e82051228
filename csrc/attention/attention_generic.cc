#include "attention/attention_lanes.h"

namespace pelton {

AttentionKernels attention_kernels_generic(KvDtype dtype) { return lanes_kernels(dtype); }

}  // namespace pelton
