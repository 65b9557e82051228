#pragma once

#include "linear/linear.h"

namespace pelton {

// Activation Float32 or BFloat16, any scheme: tiles are expanded to float32.
void linear_strip_floats_avx2(const Linear& linear, int strip, void* scratch);

}  // namespace pelton
