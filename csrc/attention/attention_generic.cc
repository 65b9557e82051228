#include "attention/attention_lanes.h"

namespace pelton {

AttentionKernels attention_kernels_generic(bool is_bfloat16) {
  return is_bfloat16 ? kernels_of<LanesDots<true>>() : kernels_of<LanesDots<false>>();
}

}  // namespace pelton
