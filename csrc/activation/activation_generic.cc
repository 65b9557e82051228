#include "activation/activation_body.h"

namespace pelton {

void activation_generic(const ElementwiseActivation& op, int64_t row_begin, int64_t row_end) {
  activation_body(op, row_begin, row_end);
}

}  // namespace pelton
