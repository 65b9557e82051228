#include "linear/gated_output_body.h"

namespace pelton {

void write_gated_avx2(ActivationFunction function, const float* sums, const float* bias, int64_t num_rows,
                      const Rows& y) {
  write_gated_body(function, sums, bias, num_rows, y);
}

}  // namespace pelton
