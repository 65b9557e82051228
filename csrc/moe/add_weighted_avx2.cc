#include "moe/add_weighted_body.h"

namespace pelton {

void add_weighted_avx2(const float* x, float weight, float* y, int64_t size) { add_weighted_body(x, weight, y, size); }

}  // namespace pelton
