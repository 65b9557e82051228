// rotary: turns dimension i of each head with dimension i + half by the angle of the token's position.
//
//   y[i] = x[i] cos - x[i + half] sin;  y[i + half] = x[i + half] cos + x[i] sin;  from 2 * half on y = x
//   x, y      rows of num_heads * head_dim floats; x and y may be the same rows
//   table     RotaryTable: cos and sin, times the attention factor, computed in double and rounded once
//   threads   each row on its own; the caller shares rows out
//   paper     Su et al. 2021, arXiv:2104.09864
#pragma once

#include <vector>

#include "core/views.h"

namespace pelton {

// cos and sin of every position up to max_position: [position][cos half | sin half].
class RotaryTable {
 public:
  RotaryTable(const std::vector<double>& inv_freq, double attention_factor, int64_t max_position);
  int64_t half() const { return half_; }
  const float* row(int64_t position) const { return data_.data() + position * 2 * half_; }

 private:
  int64_t half_;
  std::vector<float> data_;
};

struct Rotary {
  Rows x;
  Rows y;
  const int32_t* positions;
  const RotaryTable* table;
  int64_t num_heads;
  int64_t head_dim;
};

using RotaryKernel = void (*)(const Rotary&, int64_t row_begin, int64_t row_end);
RotaryKernel rotary_kernel();  // for the instruction set in use

void rotary_generic(const Rotary&, int64_t row_begin, int64_t row_end);
void rotary_avx2(const Rotary&, int64_t row_begin, int64_t row_end);
void rotary_avx512(const Rotary&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
