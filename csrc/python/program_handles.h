// What Python holds of a program, and what the functions that add ops make of it.
#pragma once

#include <memory>
#include <optional>
#include <tuple>

#include "program/ops.h"
#include "program/program.h"

namespace pelton {

// A view of the arena, as the lowering writes it: (offset in bytes, floats from row to row).
using View = std::tuple<size_t, int64_t>;

// A matrix that Python has packed, to be named in linears.
struct MatrixHandle {
  PackedMatrix matrix;
};

// Pointers that live as long as the program.
struct VectorHandle {
  const float* data;
};
struct RotaryHandle {
  const RotaryTable* table;
};

inline Rows rows_of(Program& program, View view) { return program.rows(std::get<0>(view), std::get<1>(view)); }

inline RowAxis axis_of(bool is_logits) { return is_logits ? RowAxis::Logits : RowAxis::Tokens; }

inline const float* data_of(std::optional<VectorHandle> vector) { return vector ? vector->data : nullptr; }

template <typename Task>
void add_row_op(Program& program, bool is_logits, const Task& task, typename RowOp<Task>::Kernel kernel) {
  program.add_op(std::make_unique<RowOp<Task>>(axis_of(is_logits), task, kernel));
}

}  // namespace pelton
