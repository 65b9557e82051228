#include "moe/sigmoid_scale_body.h"

namespace pelton {

void sigmoid_scale_generic(const SigmoidScale& op, int64_t row_begin, int64_t row_end) { sigmoid_scale_body(op, row_begin, row_end); }

}  // namespace pelton
