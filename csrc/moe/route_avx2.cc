#include "moe/route_body.h"

namespace pelton {

void route_avx2(const Route& op, int64_t row_begin, int64_t row_end) { route_body(op, row_begin, row_end); }

}  // namespace pelton
