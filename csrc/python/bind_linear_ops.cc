// The ops around linears, for the program executor's Python face.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "program/refine_op.h"
#include "python/program_handles.h"

namespace nb = nanobind;

namespace pelton {
namespace {

void add_linear(Program& program, bool is_logits, const std::vector<std::tuple<MatrixHandle, ActivationKind, size_t>>& parts,
                std::optional<VectorHandle> bias, std::optional<View> residual, View y) {
  std::vector<LinearPart> bound;
  for (const auto& [handle, kind, activation] : parts) {
    bound.push_back({handle.matrix, kind, program.buffer(activation)});
  }
  const Rows residual_rows = residual ? rows_of(program, *residual) : Rows{};
  program.add_op(std::make_unique<LinearOp>(axis_of(is_logits), std::move(bound), data_of(bias), residual_rows,
                                            rows_of(program, y)));
}

void add_linear_gated(Program& program, bool is_logits, const std::tuple<MatrixHandle, ActivationKind, size_t>& part,
                      std::optional<VectorHandle> bias, const std::string& function, ActivationKind kind, int64_t size,
                      size_t activation) {
  const auto& [handle, x_kind, x_activation] = part;
  const GatedTarget target{activation_from_name(function), kind, size, program.buffer(activation)};
  const LinearPart bound{handle.matrix, x_kind, program.buffer(x_activation)};
  program.add_op(std::make_unique<GatedLinearOp>(axis_of(is_logits), bound, data_of(bias), target));
}

void add_norm_quantize(Program& p, bool is_logits, View x, std::optional<VectorHandle> weight, int64_t size, float eps,
                       ActivationKind kind, size_t activation) {
  const RmsNorm norm{rows_of(p, x), Rows{}, data_of(weight), 1, size, eps};
  p.add_op(std::make_unique<NormQuantizeOp>(axis_of(is_logits), norm, kind, p.buffer(activation)));
}

void add_refine(Program& p, bool is_logits, const std::vector<MatrixHandle>& matrices, View x, View y,
                int64_t max_rows, size_t memory) {
  std::vector<PackedMatrix> parts;
  for (const MatrixHandle& handle : matrices) parts.push_back(handle.matrix);
  p.add_op(std::make_unique<RefineOp>(axis_of(is_logits), std::move(parts), rows_of(p, x), rows_of(p, y), max_rows,
                                      p.buffer(memory)));
}

}  // namespace

void bind_linear_ops(nb::module_& m, nb::class_<Program>& program) {
  m.def("refine_bytes", &refine_bytes, nb::arg("num_outputs"), nb::arg("num_parts"), nb::arg("row_size"),
        nb::arg("max_rows"));
  m.def("refine_scratch_bytes", &refine_scratch_bytes, nb::arg("row_size"), nb::arg("max_rows"));
  m.def("linear_gated_scratch_bytes", &linear_gated_scratch_bytes, nb::arg("max_rows"));
  program.def("add_norm_quantize", &add_norm_quantize)
      .def("add_linear", &add_linear, nb::arg("is_logits"), nb::arg("parts"), nb::arg("bias").none(),
           nb::arg("residual").none(), nb::arg("y"))
      .def("add_linear_gated", &add_linear_gated, nb::arg("is_logits"), nb::arg("part"), nb::arg("bias").none(),
           nb::arg("function"), nb::arg("kind"), nb::arg("size"), nb::arg("activation"))
      .def("add_refine", &add_refine);
}

}  // namespace pelton
