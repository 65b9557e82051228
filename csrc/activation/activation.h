// activation: y[t, i] = act(x[t, i]), and the names of the functions.
//
//   x, y      rows of `size` floats; x and y may be the same rows
//   accuracy  core/lanes.h
//   threads   each row on its own; the caller shares rows out
#pragma once

#include <string_view>

#include "core/views.h"

namespace pelton {

enum class ActivationFunction { Silu, Gelu, GeluTanh, Relu, Relu2 };
ActivationFunction activation_from_name(std::string_view name);  // throws std::invalid_argument

struct ElementwiseActivation {
  Rows x;
  Rows y;
  int64_t size;
  ActivationFunction function;
};

using ActivationKernel = void (*)(const ElementwiseActivation&, int64_t row_begin, int64_t row_end);
ActivationKernel activation_kernel();  // for the instruction set in use

void activation_generic(const ElementwiseActivation&, int64_t row_begin, int64_t row_end);
void activation_avx2(const ElementwiseActivation&, int64_t row_begin, int64_t row_end);
void activation_avx512(const ElementwiseActivation&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
