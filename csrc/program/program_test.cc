// A whole program under ThreadSanitizer: a small transformer over several steps gives the same bits on 1, 2, 3 and 4
// threads, with prompts in chunks, decoding requests beside them, contexts beyond one split, a prefix that two requests
// share, and sampling.
#include "program/program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/check.h"
#include "gated/gated.h"
#include "program/ops.h"
#include "rms_norm/rms_norm.h"

namespace pelton {
namespace {

constexpr int64_t kVocab = 100, kHidden = 96, kHeads = 4, kKvHeads = 2, kHeadDim = 24, kFeedForward = 160, kLayers = 2;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr int64_t kMaxTokens = 64, kMaxRequests = 3, kBlockSize = 16, kMaxBlocks = 40;
constexpr int64_t kNumBlocks = kMaxRequests * kMaxBlocks;

// Numbers between -1 and 1 that look random and are the same for every program.
std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 23) - 1.0f;
  }
  return values;
}

// Gives out the program's buffers one after the other; none is used twice.
class Layouter {
 public:
  size_t take(size_t size_bytes) {
    const size_t offset = used_bytes_;
    used_bytes_ += round_up(size_bytes, 4096);
    check(used_bytes_ <= kBufferBytes, "the arena holds every buffer");
    return offset;
  }
  static constexpr size_t kBufferBytes = 16 << 20;

 private:
  size_t used_bytes_ = 0;
};

class Transformer {
 public:
  explicit Transformer(int num_threads) : program_(sizes(), num_threads), cache_(cache_bytes() + 64) {
    embed_ = numbers(kVocab * kHidden, 1);
    Rows x = new_rows(kHidden);
    add_row_op(Embedding{reinterpret_cast<const uint8_t*>(embed_.data()), Scheme::F32, kVocab, 4 * kHidden, kHidden,
                         program_.token_ids(), x},
               embedding);
    for (int64_t layer = 0; layer < kLayers; ++layer) add_layer(layer, x);
    Rows selected = new_rows(kHidden), logits = new_rows(kVocab);
    add_barrier();
    program_.add_op(std::make_unique<SelectRowsOp>(x, selected, kHidden));
    add_linear(RowAxis::Logits, selected, kVocab, kHidden, 99, {}, logits);
    add_barrier();
    program_.set_logits(logits);
    uint8_t* aligned = cache_.data() + (64 - reinterpret_cast<uintptr_t>(cache_.data()) % 64) % 64;
    std::memset(aligned, 0xff, cache_bytes());
    program_.bind_kv(aligned, kNumBlocks);
  }

  void run(const StepArrays& arrays, const Sampling& sampling, const SamplingResult& result, float* logits) {
    program_.run(arrays, sampling, result, logits);
  }

 private:
  static KvLayout layout(int64_t layer) {
    KvLayout one;
    one.block_size = kBlockSize;
    one.num_kv_heads = kKvHeads;
    one.k_dims = one.v_dims = padded_dims(kHeadDim);
    one.layer_offset_bytes = layer * one.layer_bytes();
    return one;
  }
  static size_t cache_bytes() { return static_cast<size_t>(kNumBlocks * kLayers * layout(0).layer_bytes()); }

  static ProgramSizes sizes() {
    ProgramSizes sizes{};
    sizes.max_num_tokens = kMaxTokens;
    sizes.max_num_requests = kMaxRequests;
    sizes.max_num_logits_rows = kMaxTokens;
    sizes.block_size = kBlockSize;
    sizes.max_blocks_per_request = kMaxBlocks;
    sizes.vocab_size = sizes.token_rows = kVocab;
    sizes.position_rows = std::numeric_limits<int32_t>::max();
    sizes.buffer_bytes = Layouter::kBufferBytes;
    sizes.packed_bytes = 4 << 20;
    sizes.scratch_bytes = std::max(linear_scratch_bytes(kMaxTokens), attention_scratch_bytes(kHeadDim, kHeadDim));
    sizes.kv_block_bytes = kLayers * layout(0).layer_bytes();
    return sizes;
  }

  Rows new_rows(int64_t width) {
    const int64_t stride = static_cast<int64_t>(round_up(static_cast<size_t>(width), 16));
    return program_.rows(layouter_.take(static_cast<size_t>(kMaxTokens * stride) * sizeof(float)), stride);
  }

  void add_barrier() { program_.add_op(std::make_unique<Barrier>()); }

  template <typename Task>
  void add_row_op(const Task& task, typename RowOp<Task>::Kernel kernel) {
    program_.add_op(std::make_unique<RowOp<Task>>(RowAxis::Tokens, task, kernel));
  }

  // Quantizes x, and multiplies it with a BF16 weight of n rows of k numbers.
  void add_linear(RowAxis axis, Rows x, int64_t n, int64_t k, uint32_t seed, Rows residual, Rows y) {
    std::vector<uint16_t> weight;
    for (const float value : numbers(n * k, seed)) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      weight.push_back(static_cast<uint16_t>(bits >> 16));
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(weight.data());
    const PackedMatrix matrix = program_.place_matrix(Scheme::BF16, n, k, false);
    program_.pack_strips(matrix, bytes, nullptr, 0, matrix.num_strips);
    void* memory = program_.buffer(layouter_.take(activation_size_bytes(matrix.activation, kMaxTokens, k)));
    program_.add_op(std::make_unique<QuantizeOp>(axis, x, matrix.activation, k, memory));
    add_barrier();
    std::vector<LinearPart> parts = {{matrix, matrix.activation, memory}};
    program_.add_op(std::make_unique<LinearOp>(axis, std::move(parts), nullptr, residual, y));
  }

  void add_layer(int64_t layer, Rows x) {
    const auto seed = static_cast<uint32_t>(10 * layer + 10);
    Rows h = new_rows(kHidden), qkv = new_rows(kQkv), attended = new_rows(kHeads * kHeadDim);
    Rows gate_up = new_rows(2 * kFeedForward), gate = new_rows(kFeedForward);
    if (layer > 0) add_barrier();
    add_row_op(RmsNorm{x, h, nullptr, 1, kHidden, 1e-5f}, rms_norm_kernel());
    add_linear(RowAxis::Tokens, h, kQkv, kHidden, seed, {}, qkv);
    add_barrier();
    const Rows k{qkv.data + kHeads * kHeadDim, qkv.stride}, v{k.data + kKvHeads * kHeadDim, qkv.stride};
    const KvWrite write{k, v, kHeadDim, kHeadDim, layout(layer)};
    program_.add_op(std::make_unique<KvWriteOp>(write, kv_write_kernel(write.layout.dtype)));
    add_barrier();
    Attention attention{};
    attention.q = qkv;
    attention.y = attended;
    attention.num_heads = kHeads;
    attention.k_dim = attention.v_dim = kHeadDim;
    attention.scale = 0.05f;
    attention.window = std::numeric_limits<int32_t>::max();
    attention.layout = layout(layer);
    constexpr int64_t kMaxContext = kMaxBlocks * kBlockSize;
    const int64_t num_splits = kMaxContext / kSplitTokens + 1;
    const int64_t partials = 4 * AttentionOp::kTilesPerWorker * num_splits * partial_floats(padded_dims(kHeadDim));
    auto* partial_memory = reinterpret_cast<float*>(program_.buffer(layouter_.take(4 * static_cast<size_t>(partials))));
    const int64_t prefixes = kHeads * kMaxRequests * prefix_stride(padded_dims(kHeadDim));
    auto* prefix_memory = reinterpret_cast<float*>(program_.buffer(layouter_.take(4 * static_cast<size_t>(prefixes))));
    program_.add_op(std::make_unique<AttentionOp>(attention, partial_memory, prefix_memory, kMaxContext));
    add_barrier();
    add_linear(RowAxis::Tokens, attended, kHidden, kHeads * kHeadDim, seed + 1, x, x);
    add_barrier();
    add_row_op(RmsNorm{x, h, nullptr, 1, kHidden, 1e-5f}, rms_norm_kernel());
    add_linear(RowAxis::Tokens, h, 2 * kFeedForward, kHidden, seed + 2, {}, gate_up);
    add_barrier();
    add_row_op(Gated{gate_up, gate, kFeedForward, ActivationFunction::Silu}, gated_kernel());
    add_linear(RowAxis::Tokens, gate, kHidden, kFeedForward, seed + 3, x, x);
  }

  Layouter layouter_;
  Program program_;
  std::vector<uint8_t> cache_;
  std::vector<float> embed_;
};

// Requests that grow together: `counts` tokens of each in the step, all of whose logits are wanted.
class Requests {
 public:
  // Requests 0 and 1 have the first `num_shared` blocks in common.
  Requests(std::vector<int32_t> context_len, int64_t num_shared) : context_len_(std::move(context_len)) {
    for (int32_t i = 0; i < kNumBlocks; ++i) block_table_.push_back(kNumBlocks - 1 - i);
    std::copy_n(block_table_.begin(), num_shared, block_table_.begin() + kMaxBlocks);
  }

  // Every bit of what the step gives: logits, then ids and log-probabilities.
  void step(Transformer& model, const std::vector<int32_t>& counts, std::vector<uint32_t>& bits, int64_t repeat = 1) {
    std::vector<int32_t> token_ids, positions, query_start = {0}, logits_index;
    for (size_t request = 0; request < counts.size(); ++request) {
      for (int32_t i = 0; i < counts[request]; ++i) {
        const int32_t position = context_len_[request]++;
        token_ids.push_back((position * 7 + static_cast<int32_t>(request) * 31) % kVocab);
        positions.push_back(position);
        logits_index.push_back(static_cast<int32_t>(logits_index.size()));
      }
      query_start.push_back(static_cast<int32_t>(token_ids.size()));
    }
    const auto num_tokens = static_cast<int64_t>(token_ids.size());
    const StepArrays arrays{num_tokens,         static_cast<int64_t>(counts.size()), num_tokens,
                            kMaxBlocks,         token_ids.data(),                    positions.data(),
                            query_start.data(), context_len_.data(),                 block_table_.data(),
                            logits_index.data(), repeat};
    sample(model, arrays, bits);
    for (int32_t& context_len : context_len_) context_len += static_cast<int32_t>(repeat - 1);
  }

 private:
  static void sample(Transformer& model, const StepArrays& arrays, std::vector<uint32_t>& bits) {
    const auto rows = static_cast<size_t>(arrays.num_logits_rows);
    const std::vector<float> temperature(rows, 0.9f), zeros(rows), ones(rows, 1.0f), top_p(rows, 0.95f);
    const std::vector<int32_t> top_k(rows, 20), num_logprobs(rows, arrays.repeat == 1 ? 2 : -1);
    const std::vector<int32_t> no_start(rows + 1), no_prompt(rows);
    const std::vector<uint64_t> seed(rows, 5);
    const std::vector<int64_t> position(arrays.positions, arrays.positions + rows);
    const Sampling sampling{arrays.num_logits_rows, temperature.data(), top_k.data(),   top_p.data(),
                            zeros.data(),           zeros.data(),       zeros.data(),   ones.data(),
                            seed.data(),            position.data(),    num_logprobs.data(), nullptr,
                            no_start.data(),        no_prompt.data(),   nullptr,        nullptr,
                            no_start.data()};
    std::vector<int32_t> ids(rows * static_cast<size_t>(arrays.repeat)), top_ids(2 * rows);
    std::vector<float> logprob(rows), top_logprobs(2 * rows), logits(rows * kVocab);
    const SamplingResult result{ids.data(), logprob.data(), top_ids.data(), top_logprobs.data(), 2};
    model.run(arrays, sampling, result, arrays.repeat == 1 ? logits.data() : nullptr);
    for (const float value : logits) check(std::isfinite(value), "logits are finite");
    append(bits, logits);
    append(bits, ids);
    append(bits, logprob);
    append(bits, top_ids);
    append(bits, top_logprobs);
  }

  template <typename T>
  static void append(std::vector<uint32_t>& bits, const std::vector<T>& values) {
    const size_t first = bits.size();
    bits.resize(first + values.size());
    std::memcpy(bits.data() + first, values.data(), values.size() * sizeof(uint32_t));
  }

  std::vector<int32_t> context_len_, block_table_;
};

std::vector<uint32_t> run_steps(int num_threads) {
  Transformer model(num_threads);
  Requests requests({0, 0, 0}, 0);
  std::vector<uint32_t> bits;
  for (int i = 0; i < 9; ++i) requests.step(model, {60, 3, 1}, bits);
  for (int i = 0; i < 4; ++i) requests.step(model, {1, 1, 20}, bits);  // the first context is beyond a split
  for (int i = 0; i < 3; ++i) requests.step(model, {1, 0, 0}, bits);   // few tiles: its splits are shared out
  Requests sharing({0, kSplitTokens, 0}, kSplitTokens / kBlockSize);
  for (int i = 0; i < 9; ++i) sharing.step(model, {60, 0, 0}, bits);
  for (int i = 0; i < 4; ++i) sharing.step(model, {1, 1, 2}, bits);  // the split in common is read once for both
  for (int i = 0; i < 2; ++i) sharing.step(model, {1, 1, 1}, bits, 3);
  return bits;
}

}  // namespace
}  // namespace pelton

int main() {
  const std::vector<uint32_t> alone = pelton::run_steps(1);
  for (const int num_threads : {2, 3, 4}) {
    pelton::check(pelton::run_steps(num_threads) == alone, "the bits do not depend on the number of threads");
  }
}
