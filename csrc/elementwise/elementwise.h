// The ops of one line each: add y = x + other, scale y = factor * x, softcap y = cap * tanh(x / cap), copy of rows.
//
//   x, other, y   rows of `size` floats; y may be x or other
//   accuracy      core/lanes.h
//   threads       each row on its own; the caller shares rows out
#pragma once

#include "core/views.h"

namespace pelton {

enum class ElementwiseKind { Add, Scale, Softcap };

struct Elementwise {
  ElementwiseKind kind;
  Rows x;
  Rows other;  // add only
  Rows y;
  int64_t size;
  float constant;  // factor or cap
};

using ElementwiseKernel = void (*)(const Elementwise&, int64_t row_begin, int64_t row_end);
ElementwiseKernel elementwise_kernel();  // for the instruction set in use

void elementwise_generic(const Elementwise&, int64_t row_begin, int64_t row_end);
void elementwise_avx2(const Elementwise&, int64_t row_begin, int64_t row_end);
void elementwise_avx512(const Elementwise&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
