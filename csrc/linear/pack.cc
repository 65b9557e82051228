// From rows as a checkpoint stores them to strips (layout.h). Plain loops over one strip at a time: each source byte is
// read once, and every integer and scale is copied as it is.
#include <cassert>
#include <cstring>
#include <vector>

#include "linear/layout.h"
#include "linear/linear.h"
#include "scheme/block.h"

namespace pelton {
namespace {

// One block of 64 channels: the integers of up to eight tiles, then the blocks' scales.
struct BlockColumn {
  uint8_t integers[kSuperTiles][kIntegerLines][kLineBytes];
  Block blocks[kStripChannels];
};

struct Source {
  Scheme scheme;
  const uint8_t* rows;
  const uint8_t* up_rows;  // or null
  int64_t num_rows;
  int64_t row_size;
  int64_t row_bytes;

  // The row of a channel of a strip, or null behind the last.
  const uint8_t* row_of(int strip, int channel) const {
    const int64_t row = static_cast<int64_t>(strip) * kStripChannels + channel;
    if (row >= num_rows) return nullptr;
    if (up_rows == nullptr) return rows + row * row_bytes;
    constexpr int half = kStripChannels / 2;
    const int64_t row_of_half = static_cast<int64_t>(strip) * half + channel % half;
    return (channel < half ? rows : up_rows) + row_of_half * row_bytes;
  }
};

void pack_integers(int bits, const uint8_t in[kIntegerLines][kLineBytes], uint8_t* out) {
  if (bits == 8) {
    std::memcpy(out, in, kIntegerLines * kLineBytes);
    return;
  }
  if (bits == 4) {
    for (int i = 0; i < 4; ++i) {
      for (int b = 0; b < kLineBytes; ++b) {
        out[i * kLineBytes + b] = static_cast<uint8_t>(in[2 * i][b] | in[2 * i + 1][b] << 4);
      }
    }
    return;
  }
  for (int b = 0; b < kLineBytes; ++b) {
    const int q5 = in[5][b], q6 = in[6][b], q7 = in[7][b];
    uint8_t* line = out + b;
    if (bits == 5) {
      line[0 * kLineBytes] = static_cast<uint8_t>(in[0][b] | (q5 & 7) << 5);
      line[1 * kLineBytes] = static_cast<uint8_t>(in[1][b] | (q7 >> 3 & 1) << 5 | q5 >> 3 << 6);
      line[2 * kLineBytes] = static_cast<uint8_t>(in[2][b] | (q6 & 7) << 5);
      line[3 * kLineBytes] = static_cast<uint8_t>(in[3][b] | (q7 >> 4 & 1) << 5 | q6 >> 3 << 6);
      line[4 * kLineBytes] = static_cast<uint8_t>(in[4][b] | (q7 & 7) << 5);
    } else {
      for (int i = 0; i < 6; ++i) {
        const int upper = (i < 3 ? q6 : q7) >> (i % 3 * 2) & 3;
        line[i * kLineBytes] = static_cast<uint8_t>(in[i][b] | upper << 6);
      }
    }
  }
}

void pack_half(uint16_t half, uint8_t* out, int index) { std::memcpy(out + 2 * index, &half, 2); }

void pack_group(const Block& block, uint8_t* out, int channel) {
  std::memcpy(out + sizeof(float) * channel, &block.scale, sizeof(float));
  out[sizeof(float) * kStripChannels + channel] = block.zero;
}

// The scales of tile `t` of a column, in the form of the layout.
void pack_scales(ScaleForm form, const BlockColumn& column, int t, uint8_t* out) {
  for (int c = 0; c < kStripChannels; ++c) {
    const Block& block = column.blocks[c];
    switch (form) {
      case ScaleForm::Half32: pack_half(block.d, out, c); break;
      case ScaleForm::HalfMin32:
        pack_half(block.d, out, c);
        pack_half(block.dmin, out, kStripChannels + c);
        break;
      case ScaleForm::Super32Min:
        out[c] = static_cast<uint8_t>(block.scales[t]);
        out[kStripChannels + c] = block.mins[t];
        break;
      case ScaleForm::Super16:
      case ScaleForm::Super16Min:
        for (int half = 0; half < 2; ++half) {
          out[half * kStripChannels + c] = static_cast<uint8_t>(block.scales[2 * t + half]);
          if (form == ScaleForm::Super16Min) out[(2 + half) * kStripChannels + c] = block.mins[2 * t + half];
        }
        break;
      case ScaleForm::Super32: out[c] = static_cast<uint8_t>(block.scales[t]); break;
      case ScaleForm::Exponent32: out[c] = block.exponent; break;
      case ScaleForm::FloatZero32: pack_group(block, out, c); break;
      case ScaleForm::SlabZero: break;
      default: assert(false && "the other float forms are never packed");
    }
  }
}

// Decode block `index` of the strip's rows. Channels beyond the last row become zeros.
void gather_column(const Source& source, int strip, int64_t index, BlockColumn& column) {
  const SchemeInfo& info = scheme_info(source.scheme);
  for (int c = 0; c < kStripChannels; ++c) {
    Block& block = column.blocks[c];
    const uint8_t* row = source.row_of(strip, c);
    if (row == nullptr) {
      std::memset(&block, 0, sizeof(block));
    } else {
      decode_block(source.scheme, row + index * info.block_bytes, block);
    }
    for (int group = 0; group < info.block_size / 4; ++group) {
      std::memcpy(column.integers[group / kIntegerLines][group % kIntegerLines] + 4 * c, block.integers + 4 * group, 4);
    }
  }
}

void pack_block_strip(const Source& source, int strip, BlockColumn& column, uint8_t* dst) {
  const SchemeInfo& info = scheme_info(source.scheme);
  const Layout layout = layout_of(source.scheme);
  const int tiles_per_block = info.block_size / kTileSize;
  for (int64_t index = 0; index < source.row_size / info.block_size; ++index) {
    gather_column(source, strip, index, column);
    for (int t = 0; t < tiles_per_block; ++t, dst += tile_bytes(layout)) {
      pack_integers(layout.bits, column.integers[t], dst);
      pack_scales(layout.form, column, t, dst + integer_bytes(layout));
    }
    if (super_bytes(layout.form) == 0) continue;
    for (int c = 0; c < kStripChannels; ++c) {
      if (layout.form == ScaleForm::SlabZero) {
        pack_group(column.blocks[c], dst, c);
        continue;
      }
      pack_half(column.blocks[c].d, dst, c);
      if (has_min(layout.form)) pack_half(column.blocks[c].dmin, dst, kStripChannels + c);
    }
    dst += super_bytes(layout.form);
  }
}

void pack_dense_strip(const Source& source, int strip, uint8_t* dst) {
  const int size = scheme_info(source.scheme).block_bytes;
  std::memset(dst, 0, static_cast<size_t>(strip_bytes_of(source.scheme, source.row_size)));
  for (int c = 0; c < kStripChannels; ++c) {
    const uint8_t* src = source.row_of(strip, c);
    if (src == nullptr) break;
    for (int64_t k = 0; k < source.row_size; ++k, src += size) {
      const bool is_paired = source.scheme == Scheme::BF16;
      const int64_t place = is_paired ? (k / 2 * kStripChannels + c) * 2 + k % 2 : k * kStripChannels + c;
      std::memcpy(dst + place * size, src, static_cast<size_t>(size));
    }
  }
}

ActivationKind activation_kind(Scheme scheme, bool exact) {
  if (exact || scheme == Scheme::F16 || scheme == Scheme::F32) return ActivationKind::Float32;
  return scheme == Scheme::BF16 ? ActivationKind::BFloat16 : ActivationKind::Int8;
}

}  // namespace

size_t packed_size_bytes(Scheme scheme, int64_t n, int64_t k, bool /*exact: the bytes are the same*/) {
  const int64_t num_strips = (n + kStripChannels - 1) / kStripChannels;
  return static_cast<size_t>(num_strips * strip_bytes_of(scheme, k));
}

PackedMatrix pack_strips(Scheme scheme, const uint8_t* rows, const uint8_t* up_rows, int64_t n, int64_t k, uint8_t* dst,
                         bool exact, int strip_begin, int strip_end) {
  assert(reinterpret_cast<uintptr_t>(dst) % 64 == 0 && "a packed matrix begins at a cache line");
  assert((up_rows == nullptr || n % kStripChannels == 0) && "gates and ups fill their strips");
  const Source source{scheme, rows, up_rows, n, k, scheme_row_bytes(scheme, k)};
  const int num_strips = static_cast<int>((n + kStripChannels - 1) / kStripChannels);
  const int64_t strip_bytes = strip_bytes_of(scheme, k);
  std::vector<BlockColumn> column(is_dense(scheme) ? 0 : 1);
  for (int strip = strip_begin; strip < strip_end; ++strip) {
    if (is_dense(scheme)) {
      pack_dense_strip(source, strip, dst + strip * strip_bytes);
    } else {
      pack_block_strip(source, strip, column[0], dst + strip * strip_bytes);
    }
  }
  return {scheme, activation_kind(scheme, exact), n, k, num_strips, strip_bytes, dst};
}

}  // namespace pelton
