#include "moe/experts_op.h"

#include <algorithm>
#include <stdexcept>

#include "core/arena.h"
#include "linear/layout.h"
#include "moe/copy_row.h"

namespace pelton {
namespace {

constexpr int64_t kLanesPerLine = 16;

int64_t max_pairs(const ExpertsTask& task) {
  return experts_pass_tokens(task.max_tokens, task.max_chosen) * task.max_chosen;
}

constexpr size_t kLineBytes = 64;

// Activations of the groups stand one behind the other, each at a cache line: where group `group`, whose rows come after
// `num_rows` others, begins. A group has a row at least, so this is also enough for `num_rows` rows in `group` groups.
size_t copied_bytes(const ExpertsTask& task, int64_t num_rows, int64_t group) {
  const size_t bytes = activation_size_bytes(task.h_kind, num_rows, task.hidden_size);
  return round_up(bytes, kLineBytes) + static_cast<size_t>(group) * kLineBytes;
}

size_t inner_bytes(const ExpertsTask& task, int64_t num_rows, int64_t group) {
  const size_t bytes = activation_size_bytes(task.inner_kind, num_rows, task.inner_size);
  return round_up(bytes, kLineBytes) + static_cast<size_t>(group) * kLineBytes;
}

int64_t gate_up_stride(const ExpertsTask& task) {
  return (2 * task.inner_size + kLanesPerLine - 1) / kLanesPerLine * kLanesPerLine;
}

size_t grouping_part_bytes(const ExpertsTask& task, int64_t num_experts) {
  return grouping_bytes(experts_pass_tokens(task.max_tokens, task.max_chosen), num_experts, task.max_chosen);
}

int64_t count_strips(const ExpertMatrices& expert) {
  int64_t num_strips = 0;
  for (const PackedMatrix& part : expert.gate_up) num_strips += part.num_strips;
  return num_strips;
}

// One strip as a matrix of its own, whose output begins at column 0.
PackedMatrix strip_of(const PackedMatrix& matrix, int64_t strip) {
  const int64_t channel = strip * kStripChannels;
  PackedMatrix one = matrix;
  one.num_rows = std::min<int64_t>(kStripChannels, matrix.num_rows - channel);
  one.num_strips = 1;
  one.data = matrix.data + strip * matrix.strip_bytes;
  return one;
}

void check_expert(const ExpertsTask& task, const ExpertMatrices& expert, int64_t num_strips) {
  int64_t num_rows = 0;
  for (const PackedMatrix& part : expert.gate_up) {
    num_rows += part.num_rows;
    if (part.row_size != task.hidden_size) throw std::invalid_argument("experts: gate and up do not fit the rows");
  }
  if (num_rows != 2 * task.inner_size || expert.down.num_rows != task.hidden_size ||
      expert.down.row_size != task.inner_size || count_strips(expert) != num_strips ||
      (task.is_interleaved && expert.gate_up.size() != 1)) {
    throw std::invalid_argument("experts: the matrices of one expert have other sizes than those of the first");
  }
}

}  // namespace

int64_t experts_pass_tokens(int64_t max_tokens, int64_t max_chosen) {
  return std::min(max_tokens, std::max<int64_t>(1, kMaxPassPairs / max_chosen));
}

size_t experts_memory_bytes(const ExpertsTask& task) {
  const int64_t num_rows = max_pairs(task);
  const size_t float_bytes =
      task.is_interleaved ? 0 : static_cast<size_t>(num_rows * gate_up_stride(task)) * sizeof(float);
  return copied_bytes(task, num_rows, num_rows) + inner_bytes(task, num_rows, num_rows) + float_bytes;
}

size_t experts_own_bytes(const ExpertsTask& task, int64_t num_experts) {
  const int64_t num_rows = experts_pass_tokens(task.max_tokens, task.max_chosen);
  return grouping_part_bytes(task, num_experts) + static_cast<size_t>(num_rows * kStripChannels) * sizeof(float);
}

// Tokens [token_begin, token_end) of a step, as one worker sees them.
struct ExpertsOp::Pass {
  int64_t token_begin, token_end;
  int64_t num_step_tokens;
  Grouping grouping;
  float* strip_rows;  // [tokens][64], of the worker

  bool is_one_token() const { return num_step_tokens == 1; }
};

ExpertsOp::ExpertsOp(const ExpertsTask& task, std::vector<ExpertMatrices> experts)
    : task_(task),
      experts_(std::move(experts)),
      pass_tokens_(experts_pass_tokens(task.max_tokens, task.max_chosen)),
      gated_(gated_kernel()),
      add_weighted_(add_weighted_kernel()) {
  if (experts_.empty()) throw std::invalid_argument("experts: there are none");
  num_strips_ = count_strips(experts_[0]);
  for (const ExpertMatrices& expert : experts_) check_expert(task_, expert, num_strips_);
  copied_ = task_.memory;
  inner_ = copied_ + copied_bytes(task_, max_pairs(task_), max_pairs(task_));
  gate_up_ = {reinterpret_cast<float*>(inner_ + inner_bytes(task_, max_pairs(task_), max_pairs(task_))), gate_up_stride(task_)};
}

void ExpertsOp::execute(const Step& step, Worker& worker) const {
  const auto num_experts = static_cast<int64_t>(experts_.size());
  uint8_t* own = task_.own_memory + static_cast<size_t>(worker.thread) * experts_own_bytes(task_, num_experts);
  auto* strip_rows = reinterpret_cast<float*>(own + grouping_part_bytes(task_, num_experts));
  for (int64_t begin = 0; begin < step.num_tokens; begin += pass_tokens_) {
    if (begin > 0) worker.pool.barrier();  // the memory is that of the pass before
    const int64_t end = std::min(begin + pass_tokens_, step.num_tokens);
    const Pass pass{begin, end, step.num_tokens,
                    make_grouping(task_.weights, begin, end, num_experts, task_.max_chosen, own), strip_rows};
    if (!pass.is_one_token()) {
      copy_rows(pass, worker);
      worker.pool.barrier();
    }
    multiply_gate_up(pass, worker);
    worker.pool.barrier();
    if (!task_.is_interleaved) {
      gate(pass, worker);
      worker.pool.barrier();
    }
    multiply_down(pass, worker);
  }
}

Activation ExpertsOp::h_of(const Pass& pass, int64_t group) const {
  if (pass.is_one_token()) return make_activation(task_.h_kind, 1, task_.hidden_size, task_.h);
  uint8_t* memory = copied_ + copied_bytes(task_, pass.grouping.first_pair[group], group);
  return make_activation(task_.h_kind, pass.grouping.group_size(group), task_.hidden_size, memory);
}

Activation ExpertsOp::inner_of(const Pass& pass, int64_t group) const {
  uint8_t* memory = inner_ + inner_bytes(task_, pass.grouping.first_pair[group], group);
  return make_activation(task_.inner_kind, pass.grouping.group_size(group), task_.inner_size, memory);
}

void ExpertsOp::copy_rows(const Pass& pass, Worker& worker) const {
  const Grouping& grouping = pass.grouping;
  const Share share = worker.share(grouping.num_pairs);
  const Activation from = make_activation(task_.h_kind, pass.num_step_tokens, task_.hidden_size, task_.h);
  for (int64_t group = 0; group < grouping.num_groups; ++group) {
    const int64_t first = grouping.first_pair[group];
    const int64_t end = std::min<int64_t>(share.end, grouping.first_pair[group + 1]);
    for (int64_t pair = std::max(share.begin, first); pair < end; ++pair) {
      copy_row(from, grouping.token[pair], h_of(pass, group), pair - first);
    }
  }
}

void ExpertsOp::multiply_gate_up(const Pass& pass, Worker& worker) const {
  const int64_t num_items = task_.is_interleaved ? num_gated_slabs(experts_[0].gate_up[0]) : num_strips_;
  worker.claim(pass.grouping.num_groups * num_items, [&](int64_t item) {
    const int64_t group = item / num_items;
    int64_t strip = item % num_items, first_column = 0;
    const PackedMatrix* part = experts_[static_cast<size_t>(pass.grouping.expert[group])].gate_up.data();
    for (; strip >= part->num_strips; ++part) {
      strip -= part->num_strips;
      first_column += part->num_rows;
    }
    Linear linear{part, h_of(pass, group), nullptr, nullptr, 0, nullptr, 0, {}};
    if (task_.is_interleaved) {
      linear.gated = task_.function;
      return linear_gated_slab(linear, inner_of(pass, group), strip, worker.scratch);
    }
    linear.y = gate_up_.row(pass.grouping.first_pair[group]) + first_column;
    linear.y_stride = gate_up_.stride;
    linear_strip(linear, static_cast<int>(strip), worker.scratch);
  });
}

void ExpertsOp::gate(const Pass& pass, Worker& worker) const {
  const Grouping& grouping = pass.grouping;
  const Share share = worker.share(grouping.num_pairs);
  gated_(Gated{gate_up_, gate_up_, task_.inner_size, task_.function}, share.begin, share.end);
  for (int64_t group = 0; group < grouping.num_groups; ++group) {
    const int64_t first = grouping.first_pair[group];
    const int64_t begin = std::max(share.begin, first);
    const int64_t end = std::min<int64_t>(share.end, grouping.first_pair[group + 1]);
    if (begin >= end) continue;
    quantize_rows(inner_of(pass, group), gate_up_.row(first), gate_up_.stride, begin - first, end - first);
  }
}

void ExpertsOp::multiply_down(const Pass& pass, Worker& worker) const {
  const Grouping& grouping = pass.grouping;
  worker.claim(experts_[0].down.num_strips, [&](int64_t strip) {
    const int64_t column = strip * kStripChannels;
    const int64_t size = std::min<int64_t>(kStripChannels, task_.hidden_size - column);
    for (int64_t token = pass.token_begin; token < pass.token_end; ++token) {
      std::fill_n(task_.y.row(token) + column, size, 0.0f);
    }
    for (int64_t group = 0; group < grouping.num_groups; ++group) {
      const PackedMatrix matrix = strip_of(experts_[static_cast<size_t>(grouping.expert[group])].down, strip);
      const Linear linear{&matrix, inner_of(pass, group), nullptr, nullptr, 0, pass.strip_rows, kStripChannels, {}};
      linear_strip(linear, 0, worker.scratch);
      const int64_t first = grouping.first_pair[group];
      for (int64_t row = 0; row < grouping.group_size(group); ++row) {
        add_weighted_(pass.strip_rows + row * kStripChannels, grouping.weight[first + row],
                      task_.y.row(grouping.token[first + row]) + column, size);
      }
    }
  });
}

}  // namespace pelton
