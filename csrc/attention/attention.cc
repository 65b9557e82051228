#include "attention/attention.h"

#include "core/arena.h"
#include "core/isa.h"

namespace pelton {

size_t attention_scratch_bytes(int64_t k_dim, int64_t v_dim) {
  const int64_t tile_floats = kTileRows * (padded_dims(k_dim) + 2 * padded_dims(v_dim));
  const int64_t block_floats = kBlockRows * 2 * kScoreStride;
  const int64_t last_group_floats = padded_dims(v_dim) * kGroupTokens;
  return round_up(static_cast<size_t>(tile_floats + block_floats + last_group_floats) * sizeof(float), 4096);
}

KvWriteKernel kv_write_kernel(KvDtype dtype) {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return kv_write_kernel_avx512(dtype);
  if (isa() == Isa::Avx2) return kv_write_kernel_avx2(dtype);
#endif
  return kv_write_kernel_generic(dtype);
}

AttentionKernels attention_kernels(KvDtype dtype) {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return attention_kernels_avx512(dtype);
  if (isa() == Isa::Avx2) return attention_kernels_avx2(dtype);
#endif
  return attention_kernels_generic(dtype);
}

}  // namespace pelton
