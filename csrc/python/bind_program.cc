// The program executor for Python: backends/cpu builds a program op by op and runs it. Used by that package alone.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <optional>
#include <tuple>

#include "activation/activation.h"
#include "core/checksum.h"
#include "core/arena.h"
#include "core/isa.h"
#include "elementwise/elementwise.h"
#include "gated/gated.h"
#include "layer_norm/layer_norm.h"
#include "program/ops.h"
#include "program/program.h"
#include "python/program_handles.h"
#include "rms_norm/rms_norm.h"

namespace nb = nanobind;

namespace pelton {

void bind_linear_ops(nb::module_& m, nb::class_<Program>& program);
void bind_moe(nb::module_& m, nb::class_<Program>& program);

namespace {

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

ActivationKind activation_kind(const std::string& scheme, bool exact, bool is_wide) {
  const ActivationKind kind = pack_strips(scheme_from_name(scheme), nullptr, nullptr, 0, 256, nullptr, exact, 0, 0).activation;
  return is_wide ? widened(kind) : kind;
}

void add_embedding(Program& program, bool by_position, const Matrix<uint8_t>& table, const std::string& scheme,
                   int64_t size, View y) {
  const int32_t* ids = by_position ? program.positions() : program.token_ids();
  const Embedding task{table.data(), scheme_from_name(scheme), static_cast<int64_t>(table.shape(0)),
                       static_cast<int64_t>(table.shape(1)), size, ids, rows_of(program, y)};
  add_row_op(program, false, task, embedding);
}

void add_elementwise(Program& program, bool is_logits, ElementwiseKind kind, View x, std::optional<View> other, View y,
                     int64_t size, float constant) {
  const Elementwise task{kind, rows_of(program, x), other ? rows_of(program, *other) : Rows{}, rows_of(program, y),
                         size, constant};
  add_row_op(program, is_logits, task, elementwise_kernel());
}

void add_attention(Program& program, const KvLayout& layout, View q, View y, size_t partials, size_t prefixes,
                   int64_t max_context, int64_t num_heads, int64_t k_dim, int64_t v_dim, float scale,
                   std::optional<int64_t> window, float softcap,
                   std::optional<VectorHandle> sinks, std::optional<VectorHandle> key_balance) {
  const int64_t seen = window.value_or(std::numeric_limits<int32_t>::max());
  const Attention task{rows_of(program, q), rows_of(program, y), num_heads,      k_dim, v_dim, scale, seen,
                       softcap,             data_of(sinks),      layout, data_of(key_balance)};
  program.add_op(std::make_unique<AttentionOp>(task, reinterpret_cast<float*>(program.buffer(partials)),
                                               reinterpret_cast<float*>(program.buffer(prefixes)), max_context));
}

size_t length(const nb::tuple& arrays, size_t index) { return nb::len(nb::object(arrays[index])); }

void check_lengths(const nb::tuple& sampling, size_t num_rows) {
  for (size_t i = 0; i < 10; ++i) {
    if (length(sampling, i) != num_rows) throw std::invalid_argument("step: sampling arrays need one entry per row");
  }
}

template <typename T>
const T* array_data(const nb::tuple& arrays, size_t index) {
  return nb::cast<Vector<T>>(arrays[index]).data();
}

// The fields of SamplingInputs, in their order.
Sampling sampling_of(const nb::tuple& arrays, size_t num_rows) {
  check_lengths(arrays, num_rows);
  const auto history_start = nb::cast<Vector<int32_t>>(arrays[11]);
  const auto bias_start = nb::cast<Vector<int32_t>>(arrays[15]);
  const auto num_history = static_cast<int64_t>(length(arrays, 10));
  const auto num_bias = static_cast<int64_t>(length(arrays, 13));
  if (history_start.shape(0) != num_rows + 1 || bias_start.shape(0) != num_rows + 1 ||
      length(arrays, 12) != num_rows || length(arrays, 14) != static_cast<size_t>(num_bias)) {
    throw std::invalid_argument("step: ragged sampling arrays need one start per row and one end");
  }
  for (size_t row = 0; row < num_rows; ++row) {
    if (history_start(row) < 0 || history_start(row) > history_start(row + 1) || bias_start(row) < 0 ||
        bias_start(row) > bias_start(row + 1)) {
      throw std::invalid_argument("step: rows of ragged sampling arrays follow one another");
    }
  }
  if (history_start(num_rows) > num_history || bias_start(num_rows) > num_bias) {
    throw std::invalid_argument("step: the last row of a ragged sampling array ends behind the array");
  }
  return {static_cast<int64_t>(num_rows),   array_data<float>(arrays, 0),    array_data<int32_t>(arrays, 1),
          array_data<float>(arrays, 2),     array_data<float>(arrays, 3),    array_data<float>(arrays, 4),
          array_data<float>(arrays, 5),     array_data<float>(arrays, 6),    array_data<uint64_t>(arrays, 7),
          array_data<int64_t>(arrays, 8),   array_data<int32_t>(arrays, 9),  array_data<int32_t>(arrays, 10),
          history_start.data(),             array_data<int32_t>(arrays, 12), array_data<int32_t>(arrays, 13),
          array_data<float>(arrays, 14),    bias_start.data()};
}

void run(Program& program, const Vector<int32_t>& token_ids, const Vector<int32_t>& positions,
         const Vector<int32_t>& query_start, const Vector<int32_t>& context_len, const Matrix<int32_t>& block_table,
         const Vector<int32_t>& logits_index, const nb::tuple& sampling_arrays, OutMatrix<int32_t> out_ids,
         OutVector<float> out_logprob, OutMatrix<int32_t> out_top_ids, OutMatrix<float> out_top_logprobs,
         std::optional<OutMatrix<float>> out_logits) {
  const size_t num_rows = logits_index.shape(0), num_requests = context_len.shape(0);
  if (positions.shape(0) != token_ids.shape(0) || query_start.shape(0) != num_requests + 1 ||
      block_table.shape(0) != num_requests) {
    throw std::invalid_argument("step: positions, query starts and block tables do not fit the tokens and requests");
  }
  const StepArrays arrays{static_cast<int64_t>(token_ids.shape(0)), static_cast<int64_t>(num_requests),
                          static_cast<int64_t>(num_rows),           static_cast<int64_t>(block_table.shape(1)),
                          token_ids.data(),                         positions.data(),
                          query_start.data(),                       context_len.data(),
                          block_table.data(),                       logits_index.data(),
                          static_cast<int64_t>(out_ids.shape(0))};
  if (out_ids.shape(1) != num_rows) throw std::invalid_argument("step: a row of chosen ids for every repeat");
  const Sampling sampling = sampling_of(sampling_arrays, num_rows);
  const SamplingResult result{out_ids.data(), out_logprob.data(), out_top_ids.data(), out_top_logprobs.data(),
                              static_cast<int64_t>(out_top_ids.shape(1))};
  nb::gil_scoped_release release;
  program.run(arrays, sampling, result, out_logits ? out_logits->data() : nullptr);
}

void make_program(Program* self, int num_threads, int64_t max_num_tokens, int64_t max_num_requests,
                  int64_t max_num_logits_rows, int64_t block_size, int64_t max_blocks_per_request, int64_t vocab_size,
                  int64_t token_rows, int64_t position_rows, size_t buffer_bytes, size_t packed_bytes,
                  size_t scratch_bytes, int64_t kv_block_bytes) {
  const ProgramSizes sizes{max_num_tokens, max_num_requests, max_num_logits_rows, block_size,  max_blocks_per_request,
                           vocab_size,     token_rows,       position_rows,       buffer_bytes, packed_bytes,
                           scratch_bytes,  kv_block_bytes};
  new (self) Program(sizes, num_threads);
}

void bind_row_ops(nb::class_<Program>& c) {
  c.def("add_embedding", &add_embedding)
      .def("add_rms_norm",
           [](Program& p, bool is_logits, View x, View y, std::optional<VectorHandle> weight, int64_t num_heads,
              int64_t size, float eps) {
             add_row_op(p, is_logits, RmsNorm{rows_of(p, x), rows_of(p, y), data_of(weight), num_heads, size, eps},
                        rms_norm_kernel());
           })
      .def("add_layer_norm",
           [](Program& p, bool is_logits, View x, View y, VectorHandle weight, std::optional<VectorHandle> bias,
              int64_t size, float eps) {
             add_row_op(p, is_logits, LayerNorm{rows_of(p, x), rows_of(p, y), weight.data, data_of(bias), size, eps},
                        layer_norm_kernel());
           })
      .def("add_rotary",
           [](Program& p, View x, View y, RotaryHandle table, int64_t num_heads, int64_t head_dim) {
             add_row_op(p, false,
                        Rotary{rows_of(p, x), rows_of(p, y), p.positions(), table.table, num_heads, head_dim},
                        rotary_kernel());
           })
      .def("add_activation",
           [](Program& p, bool is_logits, View x, View y, int64_t size, const std::string& function) {
             add_row_op(p, is_logits,
                        ElementwiseActivation{rows_of(p, x), rows_of(p, y), size, activation_from_name(function)},
                        activation_kernel());
           })
      .def("add_gated",
           [](Program& p, bool is_logits, View x, View y, int64_t size, const std::string& function) {
             add_row_op(p, is_logits, Gated{rows_of(p, x), rows_of(p, y), size, activation_from_name(function)},
                        gated_kernel());
           })
      .def("add_add",
           [](Program& p, bool is_logits, View x, View other, View y, int64_t size) {
             add_elementwise(p, is_logits, ElementwiseKind::Add, x, other, y, size, 0.0f);
           })
      .def("add_scale",
           [](Program& p, bool is_logits, View x, View y, int64_t size, float factor) {
             add_elementwise(p, is_logits, ElementwiseKind::Scale, x, std::nullopt, y, size, factor);
           })
      .def("add_softcap", [](Program& p, bool is_logits, View x, View y, int64_t size, float cap) {
        add_elementwise(p, is_logits, ElementwiseKind::Softcap, x, std::nullopt, y, size, cap);
      });
}

void bind_other_ops(nb::class_<Program>& c) {
  c.def("add_barrier", [](Program& p) { p.add_op(std::make_unique<Barrier>()); })
      .def("add_quantize",
           [](Program& p, bool is_logits, View x, ActivationKind kind, int64_t size, size_t activation) {
             uint8_t* memory = p.buffer(activation);
             p.add_op(std::make_unique<QuantizeOp>(axis_of(is_logits), rows_of(p, x), kind, size, memory));
           })
      .def("add_select_rows",
           [](Program& p, View x, View y, int64_t size) {
             p.add_op(std::make_unique<SelectRowsOp>(rows_of(p, x), rows_of(p, y), size));
           })
      .def("add_kv_write",
           [](Program& p, const KvLayout& layout, View k, View v, int64_t k_dim, int64_t v_dim,
              std::optional<VectorHandle> inverse_balance) {
             const KvWrite task{rows_of(p, k), rows_of(p, v), k_dim, v_dim, layout, data_of(inverse_balance)};
             p.add_op(std::make_unique<KvWriteOp>(task, kv_write_kernel(layout.dtype)));
           })
      .def("add_attention", &add_attention, nb::arg("layout"), nb::arg("q"), nb::arg("y"), nb::arg("partials"),
           nb::arg("prefixes"), nb::arg("max_context"), nb::arg("num_heads"), nb::arg("k_dim"), nb::arg("v_dim"),
           nb::arg("scale"), nb::arg("window").none(), nb::arg("softcap"), nb::arg("sinks").none(),
           nb::arg("key_balance").none());
}

void pack_strips_of(Program& program, const MatrixHandle& handle, const Matrix<uint8_t>& rows,
                    std::optional<Matrix<uint8_t>> up_rows, int first, int last) {
  const PackedMatrix& matrix = handle.matrix;
  const int64_t num_rows = up_rows ? matrix.num_rows / 2 : matrix.num_rows;
  const auto fits = [&](const Matrix<uint8_t>& source) {
    return static_cast<int64_t>(source.shape(0)) == num_rows &&
           static_cast<int64_t>(source.shape(1)) == scheme_row_bytes(matrix.scheme, matrix.row_size);
  };
  if (!fits(rows) || (up_rows && (!fits(*up_rows) || num_rows % 32 != 0)) || first < 0 || last > matrix.num_strips) {
    throw std::invalid_argument("pack_strips: the rows or the strips are not those of the matrix");
  }
  const uint8_t* ups = up_rows ? up_rows->data() : nullptr;
  nb::gil_scoped_release release;
  program.pack_strips(matrix, rows.data(), ups, first, last);
}

void bind_memory(nb::class_<Program>& c) {
  c.def("place_matrix",
        [](Program& p, const std::string& scheme, int64_t n, int64_t k, bool exact) {
          return MatrixHandle{p.place_matrix(scheme_from_name(scheme), n, k, exact)};
        })
      .def("pack_strips", &pack_strips_of, nb::arg("matrix"), nb::arg("rows"), nb::arg("up_rows").none(),
           nb::arg("first"), nb::arg("last"))
      .def("buffers",
           [](nb::handle_t<Program> self) {
             Program& p = nb::cast<Program&>(self);
             return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(p.buffer(0), {p.buffer_bytes()}, self);
           })
      .def("packed",
           [](nb::handle_t<Program> self) {
             Program& p = nb::cast<Program&>(self);
             return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(p.packed(), {p.packed_bytes()}, self);
           })
      .def("add_vector",
           [](Program& p, const Vector<float>& values) {
             return VectorHandle{p.add_vector({values.data(), values.data() + values.shape(0)})};
           })
      .def("add_rotary_table",
           [](Program& p, const std::vector<double>& inv_freq, double attention_factor) {
             return RotaryHandle{p.add_rotary_table(inv_freq, attention_factor)};
           })
      .def("set_logits", [](Program& p, View view) { p.set_logits(rows_of(p, view)); })
      .def("bind_kv", [](Program& p, nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> memory,
                         int64_t num_blocks) { p.bind_kv(memory.data(), num_blocks); })
      .def("start_profile", &Program::start_profile)
      .def("op_ns", &Program::op_ns)
      .def("op_wall_ns", &Program::op_wall_ns)
      .def("run", &run, nb::arg("token_ids"), nb::arg("positions"), nb::arg("query_start"), nb::arg("context_len"),
           nb::arg("block_table"), nb::arg("logits_index"), nb::arg("sampling"), nb::arg("out_ids"),
           nb::arg("out_logprob"), nb::arg("out_top_ids"), nb::arg("out_top_logprobs"), nb::arg("out_logits").none());
}

// The groups that PrefixSharing finds: (a request, splits in common, tokens of the group), for tests.
std::vector<std::tuple<int64_t, int64_t, std::vector<int32_t>>> prefix_groups(const Vector<int32_t>& positions,
                                                                              const Vector<int32_t>& query_start,
                                                                              const Matrix<int32_t>& block_table,
                                                                              int64_t block_size) {
  const auto num_requests = static_cast<int64_t>(block_table.shape(0));
  const AttentionStep step{{},
                           positions.data(),
                           nullptr,
                           query_start.data(),
                           block_table.data(),
                           static_cast<int64_t>(block_table.shape(1))};
  PrefixSharing sharing(num_requests);
  sharing.find(step, num_requests, block_size);
  std::vector<std::tuple<int64_t, int64_t, std::vector<int32_t>>> found;
  for (const PrefixGroup& group : sharing.groups()) {
    const int32_t* first = sharing.tokens() + group.first_token;
    found.emplace_back(group.request, group.num_splits, std::vector<int32_t>(first, first + group.num_tokens));
  }
  return found;
}

}  // namespace

void bind_program(nb::module_& m) {
  m.def("detected_isa", [] { return isa_name(detected_isa()); });
  m.def("isa", [] { return isa_name(isa()); });
  nb::enum_<ArenaEdge>(m, "ArenaEdge")
      .value("Nowhere", ArenaEdge::None)
      .value("Begin", ArenaEdge::Begin)
      .value("End", ArenaEdge::End);
  m.def("set_arena_edge", &set_arena_edge, nb::arg("edge"));
  m.def("set_isa", [](const std::string& name) { set_isa(isa_from_name(name)); });
  m.def("checksum",
        [](const Vector<uint8_t>& data) {
          nb::gil_scoped_release release;
          return checksum(data.data(), data.shape(0));
        });
  m.def("activation_kind", &activation_kind, nb::arg("scheme"), nb::arg("exact"), nb::arg("is_wide"));
  m.def("activation_size_bytes", &activation_size_bytes, nb::arg("kind"), nb::arg("max_rows"), nb::arg("k"));
  m.def("packed_matrix_bytes",
        [](const std::string& scheme, int64_t n, int64_t k, bool exact) {
          return round_up(packed_size_bytes(scheme_from_name(scheme), n, k, exact), 4096);
        },
        nb::arg("scheme"), nb::arg("n"), nb::arg("k"), nb::arg("exact"));
  m.def("linear_scratch_bytes", &linear_scratch_bytes, nb::arg("max_rows"));
  m.def("attention_scratch_bytes", &attention_scratch_bytes, nb::arg("k_dim"), nb::arg("v_dim"));
  m.def("attention_partial_bytes",
        [](int64_t v_dim, int64_t max_context, int64_t num_threads) {
          const int64_t num_splits = (max_context + kSplitTokens - 1) / kSplitTokens;
          const int64_t num_tiles = AttentionOp::kTilesPerWorker * num_threads;
          return num_tiles * num_splits * partial_floats(padded_dims(v_dim)) * static_cast<int64_t>(sizeof(float));
        },
        nb::arg("v_dim"), nb::arg("max_context"), nb::arg("num_threads"));
  m.def("attention_prefix_bytes",
        [](int64_t num_heads, int64_t v_dim, int64_t max_num_requests) {
          return num_heads * max_num_requests * prefix_stride(padded_dims(v_dim)) * static_cast<int64_t>(sizeof(float));
        },
        nb::arg("num_heads"), nb::arg("v_dim"), nb::arg("max_num_requests"));
  m.def("prefix_groups", &prefix_groups, nb::arg("positions"), nb::arg("query_start"), nb::arg("block_table"),
        nb::arg("block_size"));
  m.def("padded_dims", &padded_dims, nb::arg("dims"));
  nb::enum_<ActivationKind>(m, "ActivationKind")
      .value("Int8", ActivationKind::Int8)
      .value("Int8Pair", ActivationKind::Int8Pair)
      .value("BFloat16", ActivationKind::BFloat16)
      .value("Float32", ActivationKind::Float32);
  nb::class_<MatrixHandle>(m, "Matrix");
  nb::class_<VectorHandle>(m, "Vector");
  nb::class_<RotaryHandle>(m, "RotaryTable");
  nb::enum_<KvDtype>(m, "KvDtype")
      .value("bfloat16", KvDtype::Bfloat16)
      .value("float32", KvDtype::Float32)
      .value("int8", KvDtype::Int8);
  nb::class_<KvLayout>(m, "KvLayout")
      .def("__init__",
           [](KvLayout* self, int64_t block_size, int64_t num_kv_heads, int64_t k_dim, int64_t v_dim, KvDtype dtype,
              int64_t layer_offset_bytes) {
             new (self) KvLayout{block_size, num_kv_heads,      padded_dims(k_dim), padded_dims(v_dim),
                                 dtype,      layer_offset_bytes};
           })
      .def_prop_ro("layer_bytes", &KvLayout::layer_bytes);
  nb::class_<Program> program(m, "Program");
  program.def("__init__", &make_program, nb::kw_only(), nb::arg("num_threads"), nb::arg("max_num_tokens"),
              nb::arg("max_num_requests"), nb::arg("max_num_logits_rows"), nb::arg("block_size"),
              nb::arg("max_blocks_per_request"), nb::arg("vocab_size"), nb::arg("token_rows"),
              nb::arg("position_rows"), nb::arg("buffer_bytes"), nb::arg("packed_bytes"), nb::arg("scratch_bytes"),
              nb::arg("kv_block_bytes"));
  bind_memory(program);
  bind_row_ops(program);
  bind_other_ops(program);
  bind_linear_ops(m, program);
  bind_moe(m, program);
}

}  // namespace pelton
