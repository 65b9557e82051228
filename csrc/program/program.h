// A plan as the machine runs it: a flat list of ops over one static arena, and sampling, in one call per step.
//
// Built once: memory, then weights, then ops in order. Buffers are offsets into the arena, chosen by the lowering so
// that what is dead is overwritten. run() allocates nothing; results do not depend on the number of threads.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/thread_pool.h"
#include "core/work_ranges.h"
#include "linear/linear.h"
#include "program/op.h"
#include "rotary/rotary.h"
#include "sampling/sampling.h"

namespace pelton {

struct ProgramSizes {
  int64_t max_num_tokens;
  int64_t max_num_requests;
  int64_t max_num_logits_rows;
  int64_t block_size;
  int64_t max_blocks_per_request;
  int64_t vocab_size;        // of the logits
  int64_t token_rows;        // token ids are below this, positions below the next
  int64_t position_rows;
  size_t buffer_bytes;       // the arena of intermediate values
  size_t packed_bytes;       // all packed weights
  size_t scratch_bytes;      // per thread
  int64_t kv_block_bytes;
};

// The arrays of one step; names as in backends/executable.py. They are read until run() returns.
struct StepArrays {
  int64_t num_tokens, num_requests, num_logits_rows, max_blocks;
  const int32_t* token_ids;
  const int32_t* positions;
  const int32_t* query_start;
  const int32_t* context_len;
  const int32_t* block_table;
  const int32_t* logits_index;
  int64_t repeat = 1;  // the step is run so often, each time on the tokens just chosen
};

class Program {
 public:
  Program(const ProgramSizes& sizes, int num_threads);

  uint8_t* buffer(size_t offset_bytes) { return buffers_.data() + offset_bytes; }
  size_t buffer_bytes() const { return buffers_.size_bytes(); }
  Rows rows(size_t offset_bytes, int64_t stride);
  const int32_t* token_ids() const { return token_ids_.data(); }
  const int32_t* positions() const { return positions_.data(); }

  // The next free place among the packed weights, for a matrix of n rows. Places follow one another in order of calls.
  PackedMatrix place_matrix(Scheme scheme, int64_t n, int64_t k, bool exact);
  // Packs those strips of the checkpoint's rows with all threads; their rows are not needed after.
  // With `up_rows`, gates and ups are interleaved (linear.h) and the matrix has the rows of both.
  void pack_strips(const PackedMatrix& matrix, const uint8_t* rows, const uint8_t* up_rows, int strip_begin,
                   int strip_end);
  // All places together: what a file that holds packed weights is read into.
  uint8_t* packed() { return packed_.data(); }
  size_t packed_bytes() const { return packed_.size_bytes(); }
  const float* add_vector(std::vector<float> values);
  const RotaryTable* add_rotary_table(const std::vector<double>& inv_freq, double attention_factor);
  void add_op(std::unique_ptr<Op> op);
  void set_logits(Rows logits) { logits_ = logits; }

  void bind_kv(uint8_t* memory, int64_t num_blocks);

  // Throws std::invalid_argument, before anything is computed, if the arrays are not a step within the sizes.
  // A step that is repeated must compute one token of each request and choose the next of each, with nothing that
  // changes from token to token (penalties, biases, log-probabilities, copies of logits); every request must hold blocks
  // for all repeats. result.token_ids is then [repeat, rows].
  void run(const StepArrays& arrays, const Sampling& sampling, const SamplingResult& result, float* logits_copy);

  // From now on every worker takes the time of every op; reading the clock costs about 25 ns an op.
  void start_profile();
  // Nanoseconds of each op in order, and of sampling behind the last, since start_profile(). Empty if never started.
  // op_ns is what worker 0 spent, its waiting at barriers included. op_wall_ns is from when all workers had done the op
  // before until all have done this one: what an op costs, however well it is shared out.
  const std::vector<int64_t>& op_ns() const { return op_ns_; }
  const std::vector<int64_t>& op_wall_ns() const { return op_wall_ns_; }

 private:
  void execute_ops(const Step& step, Worker& worker);
  void sample(const Sampling& sampling, const SamplingResult& result, float* logits_copy, Worker& worker);
  void add_to_profile(int64_t start_ns);
  void check_step(const StepArrays& arrays) const;
  void check_request(const StepArrays& arrays, int64_t request) const;
  void check_repeat(const StepArrays& arrays, const Sampling& sampling, bool wants_logits) const;
  void check_sampling(const Sampling& sampling) const;
  void copy_inputs(const StepArrays& arrays, const Sampling& sampling);
  void feed_back(const int32_t* chosen, int64_t num_requests);

  const ProgramSizes sizes_;
  ThreadPool pool_;
  WorkRanges ranges_;
  Arena buffers_, packed_, scratch_, sampling_scratch_;
  size_t packed_used_bytes_ = 0;
  uint16_t phase_ = 0;
  ScanKernels scans_;
  std::vector<int32_t> token_ids_, positions_, request_index_;
  std::vector<int64_t> sampling_positions_;
  PrefixSharing sharing_;
  std::vector<std::unique_ptr<std::vector<float>>> vectors_;
  std::vector<std::unique_ptr<RotaryTable>> rotary_tables_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<const Op*> next_weights_;  // for each op that has weights the next one that has; null for other ops
  size_t last_weights_ = 0;              // the last op that has weights
  std::vector<int64_t> op_ns_, op_wall_ns_;
  std::vector<std::vector<int64_t>> op_ends_ns_;  // of each worker, of one run
  Rows logits_;
  KvCache cache_;
};

}  // namespace pelton
