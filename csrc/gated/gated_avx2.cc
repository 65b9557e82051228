#include "gated/gated_body.h"

namespace pelton {

void gated_avx2(const Gated& op, int64_t row_begin, int64_t row_end) { gated_body(op, row_begin, row_end); }

}  // namespace pelton
