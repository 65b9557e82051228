#include "attention/attention_lanes.h"

namespace pelton {

void attention_avx2(const Attention& op, const AttentionStep& step, const AttentionTile& tile, void* scratch) {
  (op.layout.is_bfloat16 ? attend<LanesDots<true>> : attend<LanesDots<false>>)(op, step, tile, scratch);
}

}  // namespace pelton
