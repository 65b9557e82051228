// linear: y[t, n] = sum_k x[t, k] * weight[n, k] (+ bias[n]) (+ residual[t, n])
//
//   weight    packed by pack_strips into the T64 layout (layout.h); integers and scales are copied, never rounded
//   x         an Activation of the weight's kind (activation.h): Int8 for block schemes, BFloat16 for BF16 weights,
//             Float32 for F16 and F32 weights and for every scheme packed with exact = true
//   y         float32, row stride in elements; y may be the residual, never x
//   sums      Int8: exact int32 within a tile of 32 k (16 where a scheme has a scale for each), times the tile's power of
//             two; float32 over the 4 tiles of a slab, one chain of weight scale * that; then over slabs, one chain of
//             activation scale * slab. BFloat16, Float32: one float32 chain in ascending k. The order depends on nothing but K: a row's
//             result is bitwise the same alone or among others. Instruction sets differ in float rounding only.
//   cost      2*T*N*K operations; the weight is read once per call and 128 rows
//   threads   one strip of 64 channels per task; strips are independent, each thread brings its own scratch
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "linear/activation.h"
#include "linear/gated_output.h"
#include "scheme/scheme.h"

namespace pelton {

// A description, trivially copyable; the bytes belong to somebody else.
struct PackedMatrix {
  Scheme scheme;
  ActivationKind activation;
  int64_t num_rows;     // N
  int64_t row_size;     // K
  int num_strips;
  int64_t strip_bytes;
  const uint8_t* data;  // 64-byte aligned
};

size_t packed_size_bytes(Scheme scheme, int64_t n, int64_t k, bool exact);

// Pack strips [strip_begin, strip_end) of rows[n][row_bytes] into their places in dst, and describe the whole matrix.
// dst: packed_size_bytes, 64-byte aligned. Threads may share the work by strips.
// With `up_rows`, `rows` are n / 2 gates and those are the n / 2 ups, n a multiple of 64: channels 0-31 of a strip are
// 32 gates, 32-63 the ups that belong to them (gated_output.h).
PackedMatrix pack_strips(Scheme scheme, const uint8_t* rows, const uint8_t* up_rows, int64_t n, int64_t k, uint8_t* dst,
                         bool exact, int strip_begin, int strip_end);

struct Linear {
  const PackedMatrix* weight;
  Activation x;
  const float* bias;      // [N] or null
  const float* residual;  // [T, N] or null
  int64_t residual_stride;
  float* y;
  int64_t y_stride;
  // Rows of gates and ups that were interleaved in packing: y gets their products (gated_output.h), N / 2 columns.
  std::optional<ActivationFunction> gated;
};

// Bytes of 64-byte aligned scratch that one thread needs.
size_t linear_scratch_bytes(int64_t max_rows);

// y[:, 64 * strip : 64 * strip + 64], clipped to N, for all rows.
void linear_strip(const Linear& linear, int strip, void* scratch);

// Columns [128 * slab, +128) of the gated product of all rows, quantized into `to`. For linears that are `gated`; y is not
// used. Thread's scratch: linear_gated_scratch_bytes.
size_t linear_gated_scratch_bytes(int64_t max_rows);
int64_t num_gated_slabs(const PackedMatrix& matrix);
void linear_gated_slab(const Linear& linear, const Activation& to, int64_t slab, void* scratch);

void linear_strip_generic(const Linear& linear, int strip, void* scratch);
void linear_strip_avx2(const Linear& linear, int strip, void* scratch);
void linear_strip_avx512(const Linear& linear, int strip, void* scratch);

}  // namespace pelton
