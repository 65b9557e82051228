#include "linear/gated_output_body.h"

namespace pelton {

void write_gated_avx2(const GatedOutput& output, const float* sums, const float* bias, int64_t first_row,
                  int64_t num_rows, int64_t strip) {
  write_gated_body<quantize_tile_avx2>(output, sums, bias, first_row, num_rows, strip);
}

}  // namespace pelton
