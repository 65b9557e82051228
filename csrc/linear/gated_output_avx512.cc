#include "linear/gated_output_body.h"

namespace pelton {

void write_gated_avx512(const GatedOutput& output, const float* sums, const float* bias, int64_t first_row,
                  int64_t num_rows, int64_t strip) {
  write_gated_body<quantize_tile_avx512>(output, sums, bias, first_row, num_rows, strip);
}

}  // namespace pelton
