#include "sampling/sampling.h"

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "sampling/largest_first.h"
#include "sampling/philox.h"

namespace pelton {
namespace {

constexpr float kGreedyBelow = 1e-5f;
constexpr int64_t kPart = 1024;       // weights computed at a time
constexpr int64_t kFirstGuess = 256;  // candidates collected first for top_p

// One row being sampled, and the memory for it.
struct Row {
  const Sampling& sampling;
  const ScanKernels& scans;
  int64_t index;
  int64_t size;
  float* logits;          // a copy that may be changed
  Candidate* candidates;  // [size]
  int32_t* counts;        // [size], zeros between uses
};

Row make_row(const Sampling& sampling, const ScanKernels& scans, int64_t index, int64_t size, void* scratch) {
  auto* logits = static_cast<float*>(scratch);
  auto* candidates = reinterpret_cast<Candidate*>(logits + round_up(size, 16));
  auto* counts = reinterpret_cast<int32_t*>(candidates + round_up(size, 16));
  return {sampling, scans, index, size, logits, candidates, counts};
}

bool is_adjusted(const Sampling& s, int64_t row) {
  return s.history_start[row] != s.history_start[row + 1] || s.bias_start[row] != s.bias_start[row + 1];
}

// Bias, then the repetition penalty once per id seen, then frequency and presence for what was written.
void apply_bias_and_penalties(const Row& row) {
  const Sampling& s = row.sampling;
  for (int32_t i = s.bias_start[row.index]; i < s.bias_start[row.index + 1]; ++i) {
    row.logits[s.bias_ids[i]] += s.bias_values[i];
  }
  constexpr int32_t seen = 1 << 30;
  const int32_t begin = s.history_start[row.index], end = s.history_start[row.index + 1];
  const int32_t first_written = begin + s.history_num_prompt[row.index];
  const float repetition = s.repetition[row.index];
  for (int32_t i = begin; i < end; ++i) {
    int32_t& count = row.counts[s.history_ids[i]];
    if ((count & seen) == 0) {
      float& logit = row.logits[s.history_ids[i]];
      logit = logit > 0.0f ? logit / repetition : logit * repetition;
    }
    count |= seen;
    count += i >= first_written;
  }
  for (int32_t i = begin; i < end; ++i) {
    int32_t& count = row.counts[s.history_ids[i]];
    if (i >= first_written && count != 0) {
      const float times = static_cast<float>(count & ~seen);
      row.logits[s.history_ids[i]] -= s.frequency[row.index] * times + s.presence[row.index];
      count = 0;
    }
  }
  for (int32_t i = begin; i < end; ++i) row.counts[s.history_ids[i]] = 0;
}

// The sum of exp(l - largest) over l >= threshold in ascending id order. With `target` >= 0 it stops at the first id
// whose running sum exceeds it, and tells the id.
double sum_weights(const Row& row, const float* logits, double largest, double threshold, double target, int64_t* id) {
  double weights[kPart];
  double sum = 0.0;
  for (int64_t begin = 0; begin < row.size; begin += kPart) {
    const int64_t count = std::min(kPart, row.size - begin);
    row.scans.compute_weights(logits + begin, count, largest, weights);
    for (int64_t i = 0; i < count; ++i) {
      if (logits[begin + i] < threshold) continue;
      sum += weights[i];
      if (target >= 0.0 && sum > target) {
        *id = begin + i;
        return sum;
      }
    }
  }
  return sum;
}

double weight_of(const Candidate& candidate, double largest) { return std::exp(candidate.logit - largest); }

// How many of the largest candidates reach `top_p` of `total`, at most `num_kept`.
int64_t count_top_p(LargestFirst& sorted, int64_t num_kept, double largest, double threshold, double wanted) {
  double sum = 0.0;
  int64_t rank = 0;
  for (int64_t guess = kFirstGuess; rank < num_kept; guess *= 8) {
    const int64_t available = std::min(sorted.collect(std::min(guess, num_kept)), num_kept);
    if (available == rank) break;
    for (; rank < available; ++rank) {
      if (sorted[rank].logit < threshold) return rank;
      sum += weight_of(sorted[rank], largest);
      if (sum >= wanted) return rank + 1;
    }
  }
  return rank;
}

// Draws among the first `num_kept` candidates, which it puts into the order of ids.
int64_t draw_among(Candidate* candidates, int64_t num_kept, double largest, double u) {
  std::sort(candidates, candidates + num_kept, [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0.0;
  for (int64_t i = 0; i < num_kept; ++i) total += weight_of(candidates[i], largest);
  double sum = 0.0;
  for (int64_t i = 0; i < num_kept; ++i) {
    sum += weight_of(candidates[i], largest);
    if (sum > u * total) return candidates[i].id;
  }
  return candidates[num_kept - 1].id;
}

int64_t draw(const Row& row) {
  const Sampling& s = row.sampling;
  const float temperature = s.temperature[row.index];
  for (int64_t i = 0; i < row.size; ++i) row.logits[i] /= temperature;
  const double largest = row.scans.find_largest(row.logits, row.size).value;
  const double u = philox_uniform(s.seed[row.index], static_cast<uint64_t>(s.position[row.index]));
  const double min_p = s.min_p[row.index], top_p = s.top_p[row.index];
  const int64_t top_k = s.top_k[row.index];
  const double threshold = min_p > 0.0 ? largest + std::log(min_p) : -INFINITY;
  const bool has_top_k = top_k > 0 && top_k < row.size;
  if (!has_top_k && top_p >= 1.0) {
    int64_t id = -1;
    const double total = sum_weights(row, row.logits, largest, threshold, -1.0, nullptr);
    sum_weights(row, row.logits, largest, threshold, u * total, &id);
    return id;
  }
  LargestFirst sorted(row.scans, row.logits, row.size, static_cast<float>(largest), row.candidates);
  int64_t num_kept = row.size;
  if (has_top_k) {
    num_kept = std::min(sorted.collect(top_k), top_k);
    while (num_kept > 1 && sorted[num_kept - 1].logit < threshold) --num_kept;
  }
  if (top_p < 1.0) {
    double total = 0.0;
    if (has_top_k) {
      for (int64_t i = 0; i < num_kept; ++i) total += weight_of(sorted[i], largest);
    } else {
      total = sum_weights(row, row.logits, largest, threshold, -1.0, nullptr);
    }
    num_kept = std::max<int64_t>(1, count_top_p(sorted, num_kept, largest, threshold, top_p * total));
  }
  return draw_among(row.candidates, num_kept, largest, u);
}

void fill_logprobs(const Row& row, const float* raw, double largest, int64_t token_id, const SamplingResult& result) {
  const double log_total = std::log(sum_weights(row, raw, largest, -INFINITY, -1.0, nullptr));
  const auto logprob = [&](float logit) { return static_cast<float>(logit - largest - log_total); };
  result.logprob[row.index] = logprob(raw[token_id]);
  const int64_t num_top = std::min<int64_t>({row.sampling.num_logprobs[row.index], result.num_top, row.size});
  if (num_top == 0) return;
  LargestFirst sorted(row.scans, raw, row.size, static_cast<float>(largest), row.candidates);
  sorted.collect(num_top);
  for (int64_t i = 0; i < num_top; ++i) {
    result.top_ids[row.index * result.num_top + i] = sorted[i].id;
    result.top_logprobs[row.index * result.num_top + i] = logprob(sorted[i].logit);
  }
}

}  // namespace

size_t sampling_scratch_bytes(int64_t vocab_size) {
  return round_up(round_up(vocab_size, 16) * (sizeof(float) + sizeof(Candidate) + sizeof(int32_t)), 4096);
}

void sample_row(const Sampling& sampling, const ScanKernels& scans, const float* logits, int64_t vocab_size,
                int64_t row_index, const SamplingResult& result, void* scratch) {
  result.token_ids[row_index] = -1;
  result.logprob[row_index] = NAN;
  std::fill_n(result.top_ids + row_index * result.num_top, result.num_top, -1);
  std::fill_n(result.top_logprobs + row_index * result.num_top, result.num_top, NAN);
  const Largest raw = scans.find_largest(logits, vocab_size);
  if (!raw.is_finite) return;
  const Row row = make_row(sampling, scans, row_index, vocab_size, scratch);
  const bool is_greedy = sampling.temperature[row_index] < kGreedyBelow;
  int64_t token_id = raw.id;
  if (!is_greedy || is_adjusted(sampling, row_index)) {
    std::copy_n(logits, vocab_size, row.logits);
    apply_bias_and_penalties(row);
    const Largest adjusted = scans.find_largest(row.logits, vocab_size);
    if (adjusted.id < 0 || !std::isfinite(adjusted.value)) return;
    token_id = is_greedy ? adjusted.id : draw(row);
  }
  result.token_ids[row_index] = static_cast<int32_t>(token_id);
  if (sampling.num_logprobs[row_index] >= 0 && token_id >= 0) {
    fill_logprobs(row, logits, raw.value, token_id, result);
  }
}

}  // namespace pelton
