// The ops of mixtures of experts, for the program executor's Python face.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "moe/experts_op.h"
#include "moe/route.h"
#include "moe/sigmoid_scale.h"
#include "python/program_handles.h"

namespace nb = nanobind;

namespace pelton {
namespace {

using ExpertHandles = std::tuple<std::vector<MatrixHandle>, MatrixHandle>;  // gate and up, down

void add_route(Program& p, bool is_logits, View x, View y, int64_t num_experts, int num_chosen, bool is_normalised,
               float factor) {
  const Route task{rows_of(p, x), rows_of(p, y), num_experts, num_chosen, is_normalised, factor};
  add_row_op(p, is_logits, task, route_kernel());
}

void add_experts(Program& p, ExpertsTask task, size_t h, View weights, View y, size_t memory, size_t own_memory,
                 const std::vector<ExpertHandles>& handles) {
  task.h = p.buffer(h);
  task.weights = rows_of(p, weights);
  task.y = rows_of(p, y);
  task.memory = p.buffer(memory);
  task.own_memory = p.buffer(own_memory);
  std::vector<ExpertMatrices> experts;
  for (const auto& [gate_up, down] : handles) {
    ExpertMatrices expert{{}, down.matrix};
    for (const MatrixHandle& part : gate_up) expert.gate_up.push_back(part.matrix);
    experts.push_back(std::move(expert));
  }
  p.add_op(std::make_unique<ExpertsOp>(task, std::move(experts)));
}

}  // namespace

void bind_moe(nb::module_& m, nb::class_<Program>& program) {
  m.attr("MAX_CHOSEN_EXPERTS") = kMaxChosen;
  nb::class_<ExpertsTask>(m, "ExpertsTask")
      .def("__init__",
           [](ExpertsTask* self, ActivationKind h_kind, ActivationKind inner_kind, int64_t hidden_size,
              int64_t inner_size, int64_t max_chosen, int64_t max_tokens, const std::string& function,
              bool is_interleaved) {
             ExpertsTask task{};
             task.h_kind = h_kind;
             task.inner_kind = inner_kind;
             task.hidden_size = hidden_size;
             task.inner_size = inner_size;
             task.max_chosen = max_chosen;
             task.max_tokens = max_tokens;
             task.function = activation_from_name(function);
             task.is_interleaved = is_interleaved;
             new (self) ExpertsTask(task);
           },
           nb::kw_only(), nb::arg("h_kind"), nb::arg("inner_kind"), nb::arg("hidden_size"), nb::arg("inner_size"),
           nb::arg("max_chosen"), nb::arg("max_tokens"), nb::arg("function"), nb::arg("is_interleaved"))
      .def("memory_bytes", &experts_memory_bytes)
      .def("own_bytes", &experts_own_bytes, nb::arg("num_experts"));
  program.def("add_route", &add_route)
      .def("add_sigmoid_scale",
           [](Program& p, bool is_logits, View x, View gate, View y, int64_t size) {
             add_row_op(p, is_logits, SigmoidScale{rows_of(p, x), rows_of(p, gate), rows_of(p, y), size},
                        sigmoid_scale_kernel());
           })
      .def("add_experts", &add_experts);
}

}  // namespace pelton
