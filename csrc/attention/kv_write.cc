// Stores the step's keys and values: num_kv_heads * (k_dim + v_dim) scattered elements per token, about 50 ns a head.
#include "attention/attention.h"
#include "core/bfloat16.h"

namespace pelton {
namespace {

void store_bfloat16(const float* k, const float* v, const KvWrite& op, int64_t slot, uint8_t* k_group,
                    uint8_t* v_group) {
  auto* keys = reinterpret_cast<uint32_t*>(k_group) + slot;
  const int64_t whole_pairs = op.k_dim / 2;
  for (int64_t i = 0; i < whole_pairs; ++i) {
    keys[i * kGroupTokens] = bfloat16_of(k[2 * i]) | static_cast<uint32_t>(bfloat16_of(k[2 * i + 1])) << 16;
  }
  for (int64_t i = whole_pairs; i < op.layout.k_dims / 2; ++i) {
    keys[i * kGroupTokens] = 2 * i < op.k_dim ? bfloat16_of(k[2 * i]) : 0;
  }
  auto* values = reinterpret_cast<uint16_t*>(v_group) + slot / 2 * op.layout.v_dims * 2 + slot % 2;
  for (int64_t i = 0; i < op.v_dim; ++i) values[2 * i] = bfloat16_of(v[i]);
}

void store_float32(const float* k, const float* v, const KvWrite& op, int64_t slot, uint8_t* k_group,
                   uint8_t* v_group) {
  auto* keys = reinterpret_cast<float*>(k_group) + slot;
  for (int64_t i = 0; i < op.layout.k_dims; ++i) keys[i * kGroupTokens] = i < op.k_dim ? k[i] : 0.0f;
  auto* values = reinterpret_cast<float*>(v_group) + slot * op.layout.v_dims;
  for (int64_t i = 0; i < op.v_dim; ++i) values[i] = v[i];
}

}  // namespace

void kv_write_generic(const KvWrite& op, const AttentionStep& step, int64_t token_begin, int64_t token_end) {
  const KvLayout& layout = op.layout;
  for (int64_t token = token_begin; token < token_end; ++token) {
    const int64_t position = step.positions[token];
    const int32_t* table = step.block_table + step.request_index[token] * step.max_blocks;
    uint8_t* block = step.cache.block(table[position / layout.block_size]);
    const int64_t group = position % layout.block_size / kGroupTokens;
    for (int64_t head = 0; head < layout.num_kv_heads; ++head) {
      (layout.is_bfloat16 ? store_bfloat16 : store_float32)(
          op.k.row(token) + head * op.k_dim, op.v.row(token) + head * op.v_dim, op, position % kGroupTokens,
          block + layout.k_offset(head, group), block + layout.v_offset(head, group));
    }
  }
}

}  // namespace pelton
