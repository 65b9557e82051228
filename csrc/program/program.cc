#include "program/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

namespace pelton {
namespace {

constexpr size_t kPackedAlignment = 4096;

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument("step: " + message);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Program::Program(const ProgramSizes& sizes, int num_threads)
    : sizes_(sizes),
      pool_(num_threads),
      ranges_(num_threads),
      buffers_(sizes.buffer_bytes),
      packed_(sizes.packed_bytes),
      scratch_(round_up(sizes.scratch_bytes, 4096) * static_cast<size_t>(num_threads)),
      sampling_scratch_(sampling_scratch_bytes(sizes.vocab_size) * static_cast<size_t>(num_threads)),
      scans_(scan_kernels()),
      token_ids_(static_cast<size_t>(sizes.max_num_tokens)),
      positions_(static_cast<size_t>(sizes.max_num_tokens)),
      request_index_(static_cast<size_t>(sizes.max_num_tokens)),
      sampling_positions_(static_cast<size_t>(sizes.max_num_logits_rows)),
      sharing_(sizes.max_num_requests) {}

Rows Program::rows(size_t offset_bytes, int64_t stride) {
  return {reinterpret_cast<float*>(buffers_.data() + offset_bytes), stride};
}

PackedMatrix Program::place_matrix(Scheme scheme, int64_t n, int64_t k, bool exact) {
  const size_t size_bytes = round_up(packed_size_bytes(scheme, n, k, exact), kPackedAlignment);
  if (packed_used_bytes_ + size_bytes > sizes_.packed_bytes) throw std::logic_error("program: packed_bytes too small");
  uint8_t* to = packed_.data() + packed_used_bytes_;
  packed_used_bytes_ += size_bytes;
  return pelton::pack_strips(scheme, nullptr, nullptr, n, k, to, exact, 0, 0);
}

void Program::pack_strips(const PackedMatrix& matrix, const uint8_t* rows, const uint8_t* up_rows, int strip_begin,
                          int strip_end) {
  uint8_t* to = packed_.data() + (matrix.data - packed_.data());
  const bool exact = matrix.activation == ActivationKind::Float32;
  pool_.run([&](int thread) {
    const Share share(strip_end - strip_begin, thread, pool_.num_threads());
    pelton::pack_strips(matrix.scheme, rows, up_rows, matrix.num_rows, matrix.row_size, to, exact,
                        strip_begin + static_cast<int>(share.begin), strip_begin + static_cast<int>(share.end));
  });
}

const float* Program::add_vector(std::vector<float> values) {
  vectors_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
  return vectors_.back()->data();
}

const RotaryTable* Program::add_rotary_table(const std::vector<double>& inv_freq, double attention_factor) {
  const int64_t max_position = sizes_.block_size * sizes_.max_blocks_per_request;
  rotary_tables_.push_back(std::make_unique<RotaryTable>(inv_freq, attention_factor, max_position));
  return rotary_tables_.back().get();
}

void Program::bind_kv(uint8_t* memory, int64_t num_blocks) { cache_ = {memory, sizes_.kv_block_bytes, num_blocks}; }

void Program::check_request(const StepArrays& arrays, int64_t request) const {
  const std::string name = "request " + std::to_string(request);
  const int64_t begin = arrays.query_start[request], end = arrays.query_start[request + 1];
  const int64_t context_len = arrays.context_len[request];
  require(begin <= end && end <= arrays.num_tokens, name + " owns tokens that are not in the step");
  const int64_t last_len = context_len + arrays.repeat - 1;
  require(last_len <= sizes_.position_rows, name + " is longer than the table of learned positions");
  require(end - begin <= context_len, name + " has more tokens in the step than in its context");
  require(last_len <= sizes_.block_size * arrays.max_blocks, name + " has more tokens than its blocks hold");
  for (int64_t token = begin; token < end; ++token) {
    require(arrays.positions[token] == context_len - (end - token), name + " has a position out of order");
  }
  const int32_t* table = arrays.block_table + request * arrays.max_blocks;
  const int64_t num_blocks = (last_len + sizes_.block_size - 1) / sizes_.block_size;
  for (int64_t i = 0; i < num_blocks; ++i) {
    require(table[i] >= 0 && table[i] < cache_.num_blocks, name + " has a block id that is not in the cache");
  }
}

void Program::check_repeat(const StepArrays& arrays, const Sampling& sampling, bool wants_logits) const {
  require(arrays.repeat >= 1, "it is repeated less than once");
  if (arrays.repeat == 1) return;
  const int64_t num_rows = arrays.num_requests;
  require(arrays.num_tokens == num_rows && arrays.num_logits_rows == num_rows,
          "only a step of one token and one row of logits per request can be repeated");
  for (int64_t row = 0; row < num_rows; ++row) {
    require(arrays.logits_index[row] == row, "a step is repeated whose rows of logits are out of order");
    require(sampling.num_logprobs[row] < 0, "a step with log-probabilities cannot be repeated");
  }
  require(sampling.history_start[num_rows] == 0 && sampling.bias_start[num_rows] == 0 && !wants_logits,
          "a step with penalties, biases or copied logits cannot be repeated");
}

void Program::check_step(const StepArrays& arrays) const {
  require(cache_.memory != nullptr, "no cache is bound");
  require(arrays.num_tokens <= sizes_.max_num_tokens, "more tokens than the program was compiled for");
  require(arrays.num_requests <= sizes_.max_num_requests, "more requests than the program was compiled for");
  require(arrays.num_logits_rows <= sizes_.max_num_logits_rows, "more rows with logits than it was compiled for");
  require(arrays.max_blocks <= sizes_.max_blocks_per_request, "more blocks per request than it was compiled for");
  for (int64_t token = 0; token < arrays.num_tokens; ++token) {
    const int32_t id = arrays.token_ids[token];
    require(id >= 0 && id < sizes_.token_rows, "token id " + std::to_string(id) + " is not in the vocabulary");
  }
  require(arrays.query_start[0] == 0, "the first request starts at token 0");
  require(arrays.query_start[arrays.num_requests] == arrays.num_tokens, "requests own all tokens");
  for (int64_t request = 0; request < arrays.num_requests; ++request) check_request(arrays, request);
  for (int64_t row = 0; row < arrays.num_logits_rows; ++row) {
    const int32_t token = arrays.logits_index[row];
    require(token >= 0 && token < arrays.num_tokens, "a row with logits is not a token of the step");
  }
}

void Program::check_sampling(const Sampling& sampling) const {
  const auto is_token = [&](int32_t id) { return id >= 0 && id < sizes_.vocab_size; };
  const int64_t num_rows = sampling.num_rows;
  require(std::all_of(sampling.history_ids, sampling.history_ids + sampling.history_start[num_rows], is_token),
          "a history id is not in the vocabulary");
  require(std::all_of(sampling.bias_ids, sampling.bias_ids + sampling.bias_start[num_rows], is_token),
          "a bias id is not in the vocabulary");
}

void Program::copy_inputs(const StepArrays& arrays, const Sampling& sampling) {
  std::copy_n(arrays.token_ids, arrays.num_tokens, token_ids_.begin());
  std::copy_n(arrays.positions, arrays.num_tokens, positions_.begin());
  for (int64_t request = 0; request < arrays.num_requests; ++request) {
    std::fill(request_index_.begin() + arrays.query_start[request],
              request_index_.begin() + arrays.query_start[request + 1], static_cast<int32_t>(request));
  }
  std::copy_n(sampling.position, sampling.num_rows, sampling_positions_.begin());
}

void Program::feed_back(const int32_t* chosen, int64_t num_requests) {
  for (size_t row = 0; row < static_cast<size_t>(num_requests); ++row) {
    token_ids_[row] = std::max(chosen[row], 0);  // a row that chose nothing ends; what it computes until then is lost
    ++positions_[row];
    ++sampling_positions_[row];
  }
}

void Program::start_profile() {
  op_ns_.assign(ops_.size() + 1, 0);
  op_wall_ns_ = op_ns_;
  op_ends_ns_.assign(static_cast<size_t>(pool_.num_threads()), op_ns_);
}

void Program::add_op(std::unique_ptr<Op> op) {
  next_weights_.push_back(nullptr);
  if (op->weights(0, 1).left_bytes > 0) {
    if (last_weights_ < ops_.size()) next_weights_[last_weights_] = op.get();
    last_weights_ = ops_.size();
  }
  ops_.push_back(std::move(op));
}

void Program::execute_ops(const Step& step, Worker& worker) {
  int64_t* ends_ns = op_ns_.empty() ? nullptr : op_ends_ns_[static_cast<size_t>(worker.thread)].data();
  for (size_t i = 0; i < ops_.size(); ++i) {
    ops_[i]->execute(step, worker);
    if (next_weights_[i] != nullptr) worker.ahead = next_weights_[i]->weights(worker.thread, pool_.num_threads());
    if (ends_ns != nullptr) ends_ns[i] = now_ns();
  }
}

void Program::add_to_profile(int64_t start_ns) {
  int64_t begin_ns = start_ns, all_begin_ns = start_ns;
  for (size_t i = 0; i < op_ns_.size(); ++i) {
    const int64_t end_ns = op_ends_ns_[0][i];
    int64_t all_end_ns = end_ns;
    // A barrier is over when the first worker leaves it: one that wakes up later is late for the next op.
    const bool is_barrier = i < ops_.size() && ops_[i]->is_barrier();
    for (const std::vector<int64_t>& ends_ns : op_ends_ns_) {
      all_end_ns = is_barrier ? std::min(all_end_ns, ends_ns[i]) : std::max(all_end_ns, ends_ns[i]);
    }
    all_end_ns = std::max(all_end_ns, all_begin_ns);
    op_ns_[i] += end_ns - begin_ns;
    op_wall_ns_[i] += all_end_ns - all_begin_ns;
    begin_ns = end_ns;
    all_begin_ns = all_end_ns;
  }
}

void Program::run(const StepArrays& arrays, const Sampling& sampling, const SamplingResult& result,
                  float* logits_copy) {
  check_step(arrays);
  check_sampling(sampling);
  check_repeat(arrays, sampling, logits_copy != nullptr);
  copy_inputs(arrays, sampling);
  const AttentionStep attention{cache_,             positions_.data(),  request_index_.data(),
                                arrays.query_start, arrays.block_table, arrays.max_blocks};
  sharing_.find(attention, arrays.num_requests, sizes_.block_size);
  const Step step{arrays.num_tokens,   arrays.num_requests, arrays.num_logits_rows,
                  arrays.logits_index, attention,           &sharing_};
  Sampling own_sampling = sampling;
  own_sampling.position = sampling_positions_.data();
  uint16_t last_phase = phase_;
  const bool is_profiled = !op_ns_.empty();
  int64_t start_ns = is_profiled ? now_ns() : 0;
  pool_.run([&](int thread) {
    const size_t scratch_bytes = scratch_.size_bytes() / static_cast<size_t>(pool_.num_threads());
    Worker worker{thread, pool_, ranges_, phase_, scratch_.data() + static_cast<size_t>(thread) * scratch_bytes};
    SamplingResult chosen = result;
    for (int64_t left = arrays.repeat; left > 0; --left) {
      execute_ops(step, worker);
      pool_.barrier();
      sample(own_sampling, chosen, logits_copy, worker);
      if (is_profiled) op_ends_ns_[static_cast<size_t>(thread)].back() = now_ns();
      if (left == 1) break;
      pool_.barrier();
      if (thread == 0) {
        if (is_profiled) add_to_profile(start_ns);
        start_ns = is_profiled ? now_ns() : 0;
        feed_back(chosen.token_ids, arrays.num_requests);
        sharing_.find(attention, arrays.num_requests, sizes_.block_size);
      }
      chosen.token_ids += arrays.num_logits_rows;
      pool_.barrier();
    }
    if (thread == 0) last_phase = worker.phase;
  });
  phase_ = last_phase;
  if (is_profiled) add_to_profile(start_ns);
}

void Program::sample(const Sampling& sampling, const SamplingResult& result, float* logits_copy, Worker& worker) {
  const size_t scratch_bytes = sampling_scratch_.size_bytes() / static_cast<size_t>(pool_.num_threads());
  void* scratch = sampling_scratch_.data() + static_cast<size_t>(worker.thread) * scratch_bytes;
  worker.claim(sampling.num_rows, [&](int64_t row) {
    const float* logits = logits_.row(row);
    sample_row(sampling, scans_, logits, sizes_.vocab_size, row, result, scratch);
    if (logits_copy != nullptr) std::copy_n(logits, sizes_.vocab_size, logits_copy + row * sizes_.vocab_size);
  });
}

}  // namespace pelton
