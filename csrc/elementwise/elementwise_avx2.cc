#include "elementwise/elementwise_body.h"

namespace pelton {

void elementwise_avx2(const Elementwise& op, int64_t row_begin, int64_t row_end) {
  elementwise_body(op, row_begin, row_end);
}

}  // namespace pelton
