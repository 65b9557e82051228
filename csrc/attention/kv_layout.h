// Where keys and values of a token are inside the cache.
//
// A block holds, for each layer and each kv head, `block_size` keys and then as many values, in groups of 16 tokens:
//   bfloat16   keys [k_dims / 2][16][2], values [8][v_dims][2]: the operand order of a pairwise dot product
//   float32    keys [k_dims][16], values [16][v_dims]
//   int8       as bfloat16, and behind each group of keys or values a float32 scale for each of its 16 tokens: a number
//              is scale * q, scale = largest magnitude of the token's head / 127; of keys that were divided by the
//              balance of their dimensions, which queries are multiplied by
// Dims are padded to a multiple of 32; the padding of keys is written as zeros, that of values is never used.
// One block is one contiguous piece of memory over all layers, so it can be copied or moved as a whole.
#pragma once

#include <cstdint>

namespace pelton {

constexpr int64_t kGroupTokens = 16;

enum class KvDtype { Bfloat16, Float32, Int8 };

constexpr int64_t element_bytes_of(KvDtype dtype) {
  return dtype == KvDtype::Bfloat16 ? 2 : dtype == KvDtype::Float32 ? 4 : 1;
}

struct KvLayout {
  int64_t block_size = 0;
  int64_t num_kv_heads = 0;
  int64_t k_dims = 0, v_dims = 0;  // padded
  KvDtype dtype = KvDtype::Bfloat16;
  int64_t layer_offset_bytes = 0;  // from the beginning of a block

  int64_t element_bytes() const { return element_bytes_of(dtype); }
  int64_t scale_bytes() const { return dtype == KvDtype::Int8 ? kGroupTokens * 4 : 0; }
  int64_t k_group_bytes() const { return k_dims * kGroupTokens * element_bytes() + scale_bytes(); }
  int64_t v_group_bytes() const { return v_dims * kGroupTokens * element_bytes() + scale_bytes(); }
  int64_t num_groups() const { return block_size / kGroupTokens; }
  int64_t head_bytes() const { return num_groups() * (k_group_bytes() + v_group_bytes()); }
  int64_t layer_bytes() const { return num_kv_heads * head_bytes(); }

  int64_t k_offset(int64_t head, int64_t group) const {
    return layer_offset_bytes + head * head_bytes() + group * k_group_bytes();
  }
  int64_t v_offset(int64_t head, int64_t group) const {
    return layer_offset_bytes + head * head_bytes() + num_groups() * k_group_bytes() + group * v_group_bytes();
  }
};

// The scales of an int8 group whose rows are `dims` wide.
inline const float* scales_of(const uint8_t* group, int64_t dims) {
  return reinterpret_cast<const float*>(group + dims * kGroupTokens);
}

constexpr int64_t padded_dims(int64_t dims) { return (dims + 31) / 32 * 32; }

// The cache itself, and the step's view of it.
struct KvCache {
  uint8_t* memory = nullptr;
  int64_t block_bytes = 0;
  int64_t num_blocks = 0;

  uint8_t* block(int64_t block_id) const { return memory + block_id * block_bytes; }
};

struct AttentionStep {
  KvCache cache;
  const int32_t* positions;        // [T]
  const int32_t* request_index;    // [T]
  const int32_t* query_start;      // [R + 1]
  const int32_t* block_table;      // [R, max_blocks]
  int64_t max_blocks;
};

}  // namespace pelton
