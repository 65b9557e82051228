// The likeliest outputs of a head again, with what its 8-bit activations left over.
//
// A head's rounding goes straight into the logits, and only the large ones matter. So strips of 64 outputs whose largest
// is within kRefinedRange of the row's largest get the product of the second term of Int8Pair (activation.h) added to
// them: three quarters of what two terms everywhere would gain in KL, for half a percent of the strips of a row.
//
//   y         rows of N floats, the product with first terms; changed in place
//   x         the rows that were multiplied, in float32
//   numerics  which strips are refined depends on the row alone, and so do their bits
//   cost      one pass over y, and 2 * K * 64 operations for each strip of a row that is refined
#pragma once

#include <vector>

#include "program/ops.h"

namespace pelton {

constexpr float kRefinedRange = 4.0f;

class RefineOp final : public Op {
 public:
  // memory: refine_bytes, shared. Scratch of each worker: refine_scratch_bytes. All parts multiply Int8.
  RefineOp(RowAxis axis, std::vector<PackedMatrix> parts, Rows x, Rows y, int64_t max_rows, uint8_t* memory);
  void execute(const Step& step, Worker& worker) const override;

 private:
  struct Place {
    const PackedMatrix* matrix;
    int64_t strip;         // of the matrix
    int64_t first_column;  // of y
    int64_t num_columns;
  };
  Place place_of(int64_t strip) const;
  void find_largest(int64_t num_rows, Worker& worker) const;
  void refine_strip(const Place& place, const Activation& pairs, const std::vector<int32_t>& rows, void* scratch) const;

  RowAxis axis_;
  std::vector<PackedMatrix> parts_;
  Rows x_, y_;
  int64_t row_size_, num_strips_ = 0;
  uint8_t* pairs_;   // make_activation's arrays, Int8Pair
  float* largest_;   // [strip][row]
};

size_t refine_bytes(int64_t num_outputs, int64_t num_parts, int64_t row_size, int64_t max_rows);
size_t refine_scratch_bytes(int64_t row_size, int64_t max_rows);

}  // namespace pelton
