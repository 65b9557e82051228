// Stores the step's keys and values in their groups. Compiled once per instruction set, to the same bits.
//
// Numbers are rounded 16 at a time; then the pairs of a key go to lines of their own, two numbers each. Values of two
// neighbouring tokens share lines, so two at once are whole stores and a single one is scattered. Nothing but the
// token's own bytes is written: its neighbour in a line may belong to another thread.
#pragma once

#include <type_traits>

#include "attention/attention.h"
#include "core/lanes.h"

namespace pelton {
namespace {  // each instruction set has its own: the linker must not merge them

constexpr float kSmallestMagnitude = 1e-30f;  // below, a head counts as zeros: 127 / magnitude must be finite

typedef uint16_t ShortBits __attribute__((vector_size(32)));
typedef uint8_t ByteBits __attribute__((vector_size(16)));

PELTON_INLINE Lanes load_at(const float* from, int64_t first, int64_t size) {
  if (first + kLanes <= size) return load_lanes(from + first);
  return first < size ? load_some(from + first, size - first) : Lanes{};
}

// Numbers of a head, times those of `factors` where there are any.
struct Head {
  const float* x;
  const float* factors;
  int64_t dim;
};

PELTON_INLINE Lanes load_at(const Head& head, int64_t first) {
  const Lanes x = load_at(head.x, first, head.dim);
  return head.factors != nullptr ? x * load_at(head.factors, first, head.dim) : x;
}

// bfloat16 numbers in the low halves, to nearest even; not a number stays one.
PELTON_INLINE LanesUInt bfloat16_lanes(Lanes x) {
  LanesUInt bits;
  memcpy(&bits, &x, sizeof bits);
  const LanesUInt rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40 : rounded;
}

struct Scale {
  float factor, inverse;
};

// A head that is not finite gets a scale that is not a number: it must not turn into numbers that look sound.
PELTON_INLINE Scale scale_of(const Head& head) {
  Lanes largest{}, poison{};
  for (int64_t i = 0; i < head.dim; i += kLanes) {
    const Lanes value = load_at(head, i);
    largest = larger(largest, absolute(value));
    poison += value * 0.0f;
  }
  const float magnitude = max_lanes(largest);
  return {magnitude / 127.0f + sum_lanes(poison), magnitude > kSmallestMagnitude ? 127.0f / magnitude : 0.0f};
}

// Numbers [first, first + 16) of a head as they are stored, in the low bits; zeros behind the last.
template <KvDtype dtype>
PELTON_INLINE LanesUInt stored_lanes(const Head& head, int64_t first, Scale scale) {
  const Lanes value = load_at(head, first);
  if constexpr (dtype == KvDtype::Bfloat16) return bfloat16_lanes(value);
  const LanesInt whole = as_bits(value * scale.inverse + 12582912.0f);  // 1.5 * 2^23 rounds to an integer, below
  LanesUInt bits;
  memcpy(&bits, &whole, sizeof bits);
  return bits & 0xffu;
}

template <KvDtype dtype>
using Element = std::conditional_t<dtype == KvDtype::Bfloat16, uint16_t, uint8_t>;
template <KvDtype dtype>
using PairBits = std::conditional_t<dtype == KvDtype::Bfloat16, uint32_t, uint16_t>;
template <KvDtype dtype>
using ElementLanes = std::conditional_t<dtype == KvDtype::Bfloat16, ShortBits, ByteBits>;
template <KvDtype dtype>
using PairLanes = std::conditional_t<dtype == KvDtype::Bfloat16, LanesUInt, ShortBits>;

template <KvDtype dtype>
PELTON_INLINE void store_key(const Head& k, int64_t dims, int64_t slot, uint8_t* group) {
  if constexpr (dtype == KvDtype::Float32) {
    auto* keys = reinterpret_cast<float*>(group) + slot;
    for (int64_t i = 0; i < dims; ++i) keys[i * kGroupTokens] = i < k.dim ? k.x[i] : 0.0f;
    return;
  }
  Scale scale{};
  if constexpr (dtype == KvDtype::Int8) {
    scale = scale_of(k);
    const_cast<float*>(scales_of(group, dims))[slot] = scale.factor;
  }
  auto* keys = reinterpret_cast<PairBits<dtype>*>(group) + slot;
  for (int64_t i = 0; i < dims; i += kLanes) {
    const auto numbers = __builtin_convertvector(stored_lanes<dtype>(k, i, scale), ElementLanes<dtype>);
    PairBits<dtype> pairs[kLanes / 2];
    memcpy(pairs, &numbers, sizeof pairs);
    for (int64_t pair = 0; pair < kLanes / 2; ++pair) keys[(i / 2 + pair) * kGroupTokens] = pairs[pair];
  }
}

// The value at `slot`, and the next one too where there are two: then `slot` is even.
template <KvDtype dtype, bool is_two>
PELTON_INLINE void store_values(const Head& v, const Head& next_v, int64_t dims, int64_t slot, uint8_t* group) {
  if constexpr (dtype == KvDtype::Float32) {
    auto* values = reinterpret_cast<float*>(group) + slot * dims;
    memcpy(values, v.x, static_cast<size_t>(v.dim) * sizeof(float));
    if constexpr (is_two) memcpy(values + dims, next_v.x, static_cast<size_t>(v.dim) * sizeof(float));
    return;
  }
  Scale scale{}, next_scale{};
  if constexpr (dtype == KvDtype::Int8) {
    float* scales = const_cast<float*>(scales_of(group, dims)) + slot;
    scale = scale_of(v);
    scales[0] = scale.factor;
    if constexpr (is_two) next_scale = scale_of(next_v), scales[1] = next_scale.factor;
  }
  uint8_t* pairs = group + slot / 2 * dims * static_cast<int64_t>(sizeof(PairBits<dtype>));
  for (int64_t i = 0; i < dims; i += kLanes) {
    const LanesUInt numbers = stored_lanes<dtype>(v, i, scale);
    if constexpr (is_two) {
      const LanesUInt both = numbers | stored_lanes<dtype>(next_v, i, next_scale) << 8 * sizeof(Element<dtype>);
      const auto packed = __builtin_convertvector(both, PairLanes<dtype>);
      memcpy(pairs + i * static_cast<int64_t>(sizeof(PairBits<dtype>)), &packed, sizeof packed);
    } else {
      const auto narrow = __builtin_convertvector(numbers, ElementLanes<dtype>);
      Element<dtype> elements[kLanes];
      memcpy(elements, &narrow, sizeof elements);
      auto* to = reinterpret_cast<Element<dtype>*>(pairs) + 2 * i + slot % 2;
      for (int64_t j = 0; j < kLanes; ++j) to[2 * j] = elements[j];
    }
  }
}

template <KvDtype dtype>
void kv_write(const KvWrite& op, const AttentionStep& step, int64_t token_begin, int64_t token_end) {
  const KvLayout& layout = op.layout;
  for (int64_t token = token_begin; token < token_end; ++token) {
    const int64_t position = step.positions[token], request = step.request_index[token];
    const int64_t slot = position % kGroupTokens;
    const bool starts_pair =
        slot % 2 == 0 && token + 1 < token_end && step.request_index[token + 1] == static_cast<int32_t>(request);
    const bool ends_pair = slot % 2 == 1 && token > token_begin &&
                           step.request_index[token - 1] == static_cast<int32_t>(request);
    const int32_t* table = step.block_table + request * step.max_blocks;
    uint8_t* block = step.cache.block(table[position / layout.block_size]);
    const int64_t group = position % layout.block_size / kGroupTokens;
    for (int64_t head = 0; head < layout.num_kv_heads; ++head) {
      const float* balance = op.inverse_balance != nullptr ? op.inverse_balance + head * op.k_dim : nullptr;
      const Head k{op.k.row(token) + head * op.k_dim, balance, op.k_dim};
      const Head v{op.v.row(token) + head * op.v_dim, nullptr, op.v_dim};
      uint8_t* values = block + layout.v_offset(head, group);
      store_key<dtype>(k, layout.k_dims, slot, block + layout.k_offset(head, group));
      if (starts_pair) {
        store_values<dtype, true>(v, {v.x + op.v.stride, nullptr, op.v_dim}, layout.v_dims, slot, values);
      } else if (!ends_pair) {
        store_values<dtype, false>(v, {}, layout.v_dims, slot, values);
      }
    }
  }
}

inline KvWriteKernel kv_write_of(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::Bfloat16:
      return kv_write<KvDtype::Bfloat16>;
    case KvDtype::Int8:
      return kv_write<KvDtype::Int8>;
    case KvDtype::Float32:
      break;
  }
  return kv_write<KvDtype::Float32>;
}

}  // namespace
}  // namespace pelton
