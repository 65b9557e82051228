#include "rms_norm/rms_norm_body.h"

namespace pelton {

void rms_norm_avx512(const RmsNorm& op, int64_t row_begin, int64_t row_end) { rms_norm_body(op, row_begin, row_end); }

}  // namespace pelton
