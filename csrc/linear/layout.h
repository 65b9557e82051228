// T64: how a packed weight lies in memory. One layout for decode and prefill, for every instruction set.
//
//   strip     64 output channels over all of K: one sequential stream, and the unit of work of a thread
//   slab      128 k of a strip (the last one may be shorter): what a kernel multiplies at a time
//   tile      32 k of a strip: integers (or floats), then the tile's scales
//   super     what tiles share, behind the last of them: after every 8 tiles of a super-block scheme d[64], dmin[64]
//             as halves; after every slab of groups of 128 their scales and zero points
//
//   integers  8 lines [kgroup][64 channels][4 k], each byte an unsigned q, squeezed to 4, 5, 6 or 8 lines of 256 bytes:
//     4 bits    line j = q[2j] | q[2j+1] << 4; codes where there is a codebook, looked up when read
//     5 bits    the low 5 bits of line i are q[i], i < 5; the upper 3 bits of the five lines hold q[5], q[6], q[7]
//     6 bits    the low 6 bits of line i are q[i], i < 6; the upper 2 bits hold q[6] (lines 0-2) and q[7] (lines 3-5)
//     8 bits    as is
//   bf16      [k/2][64][2];  f16, f32   [k][64]
//
// K is padded to 32 and N to 64 with zeros. Everything starts at a multiple of 64 bytes.
#pragma once

#include <cstdint>

#include "scheme/scheme.h"

namespace pelton {

constexpr int kStripChannels = 64;
constexpr int kTileSize = 32;  // k
constexpr int kSlabSize = 128;
constexpr int kSlabTiles = kSlabSize / kTileSize;
constexpr int kSuperTiles = 8;
constexpr int kLineBytes = 4 * kStripChannels;
constexpr int kIntegerLines = 8;  // of a tile, one byte per integer

// The scales that a tile ends with. The Float forms are what kernels expand the others to, once for many rows.
enum class ScaleForm : uint8_t {
  Half32,      // half s[64]
  HalfMin32,   // half s[64], half m[64]
  Super32Min,  // u8 s[64], u8 m[64]; times d and dmin of the super-block
  Super16,     // s8 s[2][64]; times d
  Super16Min,  // u8 s[2][64], u8 m[2][64]; times d and dmin
  Super32,     // s8 s[64]; times d
  Exponent32,  // E8M0 s[64], each worth half of what the format says, for integers that are doubled
  SlabZero,    // nothing in the tile; float s[64], u8 zero[64] behind the slab
  FloatZero32, // float s[64], u8 zero[64]
  Float32,     // float s[64]
  FloatMin32,  // float s[64], m[64]
  Float16,     // float s[2][64]
  FloatMin16,  // float s[2][64], m[2][64]
};

struct Layout {
  int bits;
  ScaleForm form;
  int zero_shift;  // the zero point is 1 << zero_shift; 0 means there is none, or one for each channel
  Codebook codebook = Codebook::None;
};

// Bits of q itself, once it has been looked up.
static constexpr int integer_bits(const Layout& layout) {
  return layout.codebook == Codebook::None ? layout.bits : layout.codebook == Codebook::Iq4 ? 8 : 5;
}

// Whether each channel has a zero point of its own, an integer: value = scale * (dot - zero * sum), exact in int32.
static constexpr bool has_zeros(ScaleForm form) {
  return form == ScaleForm::SlabZero || form == ScaleForm::FloatZero32;
}

static constexpr bool has_min(ScaleForm form) {
  return form == ScaleForm::HalfMin32 || form == ScaleForm::Super32Min || form == ScaleForm::Super16Min ||
         form == ScaleForm::FloatMin32 || form == ScaleForm::FloatMin16;
}

// Whether a tile has two scales per channel, one per 16 k.
static constexpr bool has_halves(ScaleForm form) {
  return form == ScaleForm::Super16 || form == ScaleForm::Super16Min || form == ScaleForm::Float16 ||
         form == ScaleForm::FloatMin16;
}

static constexpr bool is_super(ScaleForm form) {
  return form == ScaleForm::Super32Min || form == ScaleForm::Super16 || form == ScaleForm::Super16Min ||
         form == ScaleForm::Super32;
}

static constexpr bool has_signed_scales(ScaleForm form) {
  return form == ScaleForm::Super16 || form == ScaleForm::Super32;
}

static constexpr int super_tiles(ScaleForm form) { return form == ScaleForm::SlabZero ? kSlabTiles : kSuperTiles; }

static constexpr int integer_bytes(const Layout& layout) { return layout.bits * kLineBytes; }

static constexpr int scale_bytes(ScaleForm form) {
  switch (form) {
    case ScaleForm::Half32: return 2 * kStripChannels;
    case ScaleForm::HalfMin32: return 4 * kStripChannels;
    case ScaleForm::Super32Min: return 2 * kStripChannels;
    case ScaleForm::Super16: return 2 * kStripChannels;
    case ScaleForm::Super16Min: return 4 * kStripChannels;
    case ScaleForm::Super32: return kStripChannels;
    case ScaleForm::Exponent32: return kStripChannels;
    case ScaleForm::SlabZero: return 0;
    case ScaleForm::FloatZero32: return 5 * kStripChannels;
    case ScaleForm::Float32: return 4 * kStripChannels;
    case ScaleForm::FloatMin32: return 8 * kStripChannels;
    case ScaleForm::Float16: return 8 * kStripChannels;
    case ScaleForm::FloatMin16: return 16 * kStripChannels;
  }
  return 0;
}

static constexpr int tile_bytes(const Layout& layout) { return integer_bytes(layout) + scale_bytes(layout.form); }

static constexpr int super_bytes(ScaleForm form) {
  if (form == ScaleForm::SlabZero) return scale_bytes(ScaleForm::FloatZero32);
  return !is_super(form) ? 0 : has_min(form) ? 4 * kStripChannels : 2 * kStripChannels;
}

// The layout of a block scheme. Schemes of 2 and 3 bits lie in 4-bit lines: exact, and read at the speed of 4 bits.
static constexpr Layout layout_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::Q4_0: return {4, ScaleForm::Half32, 3};
    case Scheme::Q4_1: return {4, ScaleForm::HalfMin32, 0};
    case Scheme::Q5_0: return {5, ScaleForm::Half32, 4};
    case Scheme::Q5_1: return {5, ScaleForm::HalfMin32, 0};
    case Scheme::Q8_0: return {8, ScaleForm::Half32, 7};
    case Scheme::Q2_K: return {4, ScaleForm::Super16Min, 0};
    case Scheme::Q3_K: return {4, ScaleForm::Super16, 2};
    case Scheme::Q4_K: return {4, ScaleForm::Super32Min, 0};
    case Scheme::Q5_K: return {5, ScaleForm::Super32Min, 0};
    case Scheme::Q6_K: return {6, ScaleForm::Super16, 5};
    case Scheme::IQ4_NL: return {4, ScaleForm::Half32, 7, Codebook::Iq4};
    case Scheme::IQ4_XS: return {4, ScaleForm::Super32, 7, Codebook::Iq4};
    case Scheme::MXFP4: return {4, ScaleForm::Exponent32, 4, Codebook::E2m1};
    case Scheme::INT4_G32: return {4, ScaleForm::FloatZero32, 0};
    case Scheme::INT4_G128: return {4, ScaleForm::SlabZero, 0};
    case Scheme::INT8_G32: return {8, ScaleForm::FloatZero32, 0};
    case Scheme::INT8_G128: return {8, ScaleForm::SlabZero, 0};
    default: return {0, ScaleForm::Half32, 0};
  }
}

static constexpr bool is_dense(Scheme scheme) {
  return scheme == Scheme::F32 || scheme == Scheme::F16 || scheme == Scheme::BF16;
}

static constexpr int tile_bytes_of(Scheme scheme) {
  if (is_dense(scheme)) return kTileSize * kStripChannels * (scheme == Scheme::F32 ? 4 : 2);
  return tile_bytes(layout_of(scheme));
}

static constexpr int super_bytes_of(Scheme scheme) {
  return is_dense(scheme) ? 0 : super_bytes(layout_of(scheme).form);
}

static constexpr int super_tiles_of(Scheme scheme) {
  return is_dense(scheme) ? kSuperTiles : super_tiles(layout_of(scheme).form);
}

static constexpr int64_t num_tiles_of(int64_t k) { return (k + kTileSize - 1) / kTileSize; }

// Where tile t of a strip begins, and what it shares with its neighbours.
static constexpr int64_t tile_offset(Scheme scheme, int64_t tile) {
  return tile * tile_bytes_of(scheme) + tile / super_tiles_of(scheme) * super_bytes_of(scheme);
}

static constexpr int64_t super_offset(Scheme scheme, int64_t tile) {
  const int num_tiles = super_tiles_of(scheme);
  return tile_offset(scheme, tile / num_tiles * num_tiles) + num_tiles * tile_bytes_of(scheme);
}

static constexpr int64_t strip_bytes_of(Scheme scheme, int64_t k) { return tile_offset(scheme, num_tiles_of(k)); }

}  // namespace pelton
