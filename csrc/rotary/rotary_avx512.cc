#include "rotary/rotary_body.h"

namespace pelton {

void rotary_avx512(const Rotary& op, int64_t row_begin, int64_t row_end) { rotary_body(op, row_begin, row_end); }

}  // namespace pelton
