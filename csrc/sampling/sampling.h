// How a row of logits becomes a token.
//
//   order     bias (-inf bans) -> repetition -> frequency and presence -> [greedy] -> temperature -> min_p -> top_k ->
//             top_p -> draw; log-probabilities are of the raw logits. Ties go to the lowest id.
//   sums      probabilities are exp(l - max) in double, added in ascending id order
//   refusal   token -1 for a row that is banned altogether or not finite
//   cost      greedy: one pass, about 30 us for 152,000 logits; drawing adds about 1 ms without top_k
//   threads   rows are independent, each thread brings its own scratch
#pragma once

#include <cstddef>
#include <cstdint>

#include "sampling/scan.h"

namespace pelton {

struct Sampling {  // names and meanings: backends/executable.py, SamplingInputs
  int64_t num_rows;
  const float* temperature;
  const int32_t* top_k;
  const float* top_p;
  const float* min_p;
  const float* presence;
  const float* frequency;
  const float* repetition;
  const uint64_t* seed;
  const int64_t* position;
  const int32_t* num_logprobs;
  const int32_t* history_ids;
  const int32_t* history_start;
  const int32_t* history_num_prompt;
  const int32_t* bias_ids;
  const float* bias_values;
  const int32_t* bias_start;
};

struct SamplingResult {
  int32_t* token_ids;     // [rows]
  float* logprob;         // [rows], nan where not asked
  int32_t* top_ids;       // [rows, num_top], -1 behind the last
  float* top_logprobs;    // [rows, num_top], nan behind the last
  int64_t num_top;
};

size_t sampling_scratch_bytes(int64_t vocab_size);  // per thread; zeroed before the first use, kept by sample_row

void sample_row(const Sampling& sampling, const ScanKernels& scans, const float* logits, int64_t vocab_size,
                int64_t row, const SamplingResult& result, void* scratch);

}  // namespace pelton
