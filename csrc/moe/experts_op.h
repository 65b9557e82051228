// experts: y[t] = sum over the experts x chosen for t of weight[t, x] * down_x(act(gate_x(h[t])) * up_x(h[t])).
//
//   h         quantized rows of the step's tokens; each chosen row is copied below those of its expert, which are then
//             one activation and go through the strips of linear.h like those of any linear
//   weights   rows of one float per expert, zero for those not chosen (route.h)
//   experts   matrices of each: gate and up are one matrix of 2F rows or several; experts nobody chose are not read
//   y         float32; of each token the experts add up in ascending order, so a row's result depends on nothing but
//             the row: not on who shares its experts, nor on the number of threads
//   phases    copy rows | gate and up, claimed by (expert, strip) | down, claimed by strip, with the experts of a strip
//             one after the other. A single token needs no copy. Gates and ups that are interleaved write the quantized
//             product (gated_output.h); others write floats, and a phase in between multiplies and quantizes
//   memory    pairs of (token, expert) times a few rows; steps with more than `pass_tokens` tokens take several passes
//   cost      each chosen expert's weights are read once per pass
#pragma once

#include <vector>

#include "gated/gated.h"
#include "linear/linear.h"
#include "moe/add_weighted.h"
#include "moe/grouping.h"
#include "program/op.h"

namespace pelton {

// Tokens of one pass: as many as may be without more than this number of pairs.
constexpr int64_t kMaxPassPairs = 4096;

struct ExpertMatrices {
  std::vector<PackedMatrix> gate_up;  // 2F rows in all; one matrix where they are interleaved
  PackedMatrix down;
};

struct ExpertsTask {
  Rows weights;
  Rows y;
  ActivationKind h_kind;      // the form that every gate_up multiplies, and that `h` has
  ActivationKind inner_kind;  // and every down
  int64_t hidden_size;
  int64_t inner_size;  // F
  int64_t max_chosen;  // experts of a token
  int64_t max_tokens;
  ActivationFunction function;
  bool is_interleaved;  // all gates and ups
  void* h;              // make_activation's arrays of the step's tokens
  uint8_t* memory;      // shared by the workers: experts_memory_bytes
  uint8_t* own_memory;  // of the workers: experts_own_bytes each
};

int64_t experts_pass_tokens(int64_t max_tokens, int64_t max_chosen);
size_t experts_memory_bytes(const ExpertsTask& task);
size_t experts_own_bytes(const ExpertsTask& task, int64_t num_experts);

class ExpertsOp final : public Op {
 public:
  // Throws std::invalid_argument where the matrices are not of one shape and one form.
  ExpertsOp(const ExpertsTask& task, std::vector<ExpertMatrices> experts);
  void execute(const Step& step, Worker& worker) const override;

 private:
  struct Pass;

  void copy_rows(const Pass& pass, Worker& worker) const;
  void multiply_gate_up(const Pass& pass, Worker& worker) const;
  void gate(const Pass& pass, Worker& worker) const;
  void multiply_down(const Pass& pass, Worker& worker) const;
  Activation h_of(const Pass& pass, int64_t group) const;
  Activation inner_of(const Pass& pass, int64_t group) const;

  ExpertsTask task_;
  std::vector<ExpertMatrices> experts_;
  int64_t pass_tokens_;
  int64_t num_strips_ = 0;  // of gate_up, the same for all experts
  GatedKernel gated_;
  AddWeightedKernel add_weighted_;
  // Parts of the shared memory.
  uint8_t* copied_;  // activations of the groups, one behind the other
  uint8_t* inner_;
  Rows gate_up_;     // [pairs][2F]
};

}  // namespace pelton
