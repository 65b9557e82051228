#include "layer_norm/layer_norm_body.h"

namespace pelton {

void layer_norm_avx2(const LayerNorm& op, int64_t row_begin, int64_t row_end) {
  layer_norm_body(op, row_begin, row_end);
}

}  // namespace pelton
