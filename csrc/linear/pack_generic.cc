// From rows to a strip in plain loops over one block column at a time: the version to read, and the oracle of the others.
#include <cassert>
#include <cstring>
#include <memory>

#include "linear/pack.h"
#include "scheme/block.h"

namespace pelton {
namespace {

// One block of 64 channels: the integers of up to eight tiles, then the blocks' scales.
struct BlockColumn {
  uint8_t integers[kSuperTiles][kIntegerLines][kLineBytes];
  Block blocks[kStripChannels];
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

// Decode the blocks at `offset` of the strip's rows. Channels without a row become zeros.
void gather_column(Scheme scheme, const StripRows& rows, int64_t offset, BlockColumn& column) {
  const SchemeInfo& info = scheme_info(scheme);
  for (int c = 0; c < kStripChannels; ++c) {
    Block& block = column.blocks[c];
    if (rows.row[c] == nullptr) {
      std::memset(&block, 0, sizeof(block));
    } else {
      decode_block(scheme, rows.row[c] + offset, block);
    }
    for (int group = 0; group < info.block_size / 4; ++group) {
      std::memcpy(column.integers[group / kIntegerLines][group % kIntegerLines] + 4 * c, block.integers + 4 * group, 4);
    }
  }
}

void pack_blocks(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst) {
  const SchemeInfo& info = scheme_info(scheme);
  const Layout layout = layout_of(scheme);
  const auto column = std::make_unique<BlockColumn>();
  for (int64_t index = 0; index < row_size / info.block_size; ++index) {
    gather_column(scheme, rows, index * info.block_bytes, *column);
    for (int t = 0; t < info.block_size / kTileSize; ++t, dst += tile_bytes(layout)) {
      pack_integers(layout.bits, column->integers[t], dst);
      pack_scales(layout.form, *column, t, dst + integer_bytes(layout));
    }
    if (super_bytes(layout.form) == 0) continue;
    for (int c = 0; c < kStripChannels; ++c) {
      if (layout.form == ScaleForm::SlabZero) {
        pack_group(column->blocks[c], dst, c);
        continue;
      }
      pack_half(column->blocks[c].d, dst, c);
      if (has_min(layout.form)) pack_half(column->blocks[c].dmin, dst, kStripChannels + c);
    }
    dst += super_bytes(layout.form);
  }
}

void pack_dense(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst) {
  const int size = scheme_info(scheme).block_bytes;
  std::memset(dst, 0, static_cast<size_t>(strip_bytes_of(scheme, row_size)));
  for (int c = 0; c < kStripChannels; ++c) {
    const uint8_t* src = rows.row[c];
    if (src == nullptr) continue;
    for (int64_t k = 0; k < row_size; ++k, src += size) {
      const bool is_paired = scheme == Scheme::BF16;
      const int64_t place = is_paired ? (k / 2 * kStripChannels + c) * 2 + k % 2 : k * kStripChannels + c;
      std::memcpy(dst + place * size, src, static_cast<size_t>(size));
    }
  }
}

}  // namespace

void pack_strip_generic(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst) {
  if (is_dense(scheme)) return pack_dense(scheme, rows, row_size, dst);
  pack_blocks(scheme, rows, row_size, dst);
}

}  // namespace pelton
