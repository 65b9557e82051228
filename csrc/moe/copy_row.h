// copy_row: one row of an activation, with its scales and sums, to a row of another of the same kind and row size.
//
// So a token is quantized once, however many experts it goes to.
//   cost      the bytes of a row, slab by slab: 128 values and what belongs to them
#pragma once

#include "linear/activation.h"

namespace pelton {

void copy_row(const Activation& from, int64_t from_row, const Activation& to, int64_t to_row);

}  // namespace pelton
