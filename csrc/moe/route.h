// route: which experts a token goes to, and how much each of them counts.
//
//   x         rows of `num_experts` logits
//   y         rows of as many weights: softmax(x) where the expert is one of the row's `num_chosen` largest, else zero.
//             Of equal logits the expert that comes first wins. May be x
//   is_normalised   the chosen weights are divided by their sum, which makes them the softmax of the chosen logits
//   factor    multiplies every weight
//   numerics  sums of 16 lanes by the tree of core/lanes.h, sums of chosen weights in ascending expert: the same bits
//             on every instruction set. A row with a NaN has NaN weights
//   cost      one pass with an exponential and one with a comparison per logit
//   threads   each row on its own; the caller shares rows out
//   paper     Shazeer et al. 2017, arXiv:1701.06538; softmax before the choice: Fedus et al. 2021, arXiv:2101.03961
#pragma once

#include "core/views.h"

namespace pelton {

constexpr int kMaxChosen = 64;

struct Route {
  Rows x;
  Rows y;
  int64_t num_experts;
  int num_chosen;  // at most kMaxChosen and num_experts
  bool is_normalised;
  float factor;
};

using RouteKernel = void (*)(const Route&, int64_t row_begin, int64_t row_end);
RouteKernel route_kernel();  // for the instruction set in use

void route_generic(const Route&, int64_t row_begin, int64_t row_end);
void route_avx2(const Route&, int64_t row_begin, int64_t row_end);
void route_avx512(const Route&, int64_t row_begin, int64_t row_end);

}  // namespace pelton
