// Packing with 32-byte vectors: one vector is the 32 integers that a channel has in a tile, so eight channels are an
// 8 x 8 transpose of groups of four, and what it leaves in registers are the lines of layout.h, ready to be squeezed.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "linear/pack.h"

namespace pelton {
namespace {

constexpr int kLanes = 8;  // channels per transpose

// The scales of a strip's blocks, in the order in which a tile takes them: one line of 64 channels after another.
struct Scales {
  uint16_t d[kStripChannels], dmin[kStripChannels];
  uint8_t scales[16][kStripChannels], mins[16][kStripChannels];
  float scale[kStripChannels];
  uint8_t zero[kStripChannels];
};

__m256i load(const uint8_t* src) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src)); }
__m256i bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
uint16_t read_half(const uint8_t* src) {
  uint16_t half;
  std::memcpy(&half, src, 2);
  return half;
}
uint32_t read_word(const uint8_t* src) {
  uint32_t word;
  std::memcpy(&word, src, 4);
  return word;
}

// Bits [shift, shift + width) of every byte, moved down.
template <int kWidth>
__m256i field(__m256i packed, int shift) {
  return _mm256_and_si256(_mm256_srl_epi16(packed, _mm_cvtsi32_si128(shift)), bytes((1 << kWidth) - 1));
}

// Bits [shift, shift + width) of every byte, moved to `to`.
template <int kWidth, int kTo>
__m256i field_at(__m256i packed, int shift) {
  const __m256i low = field<kWidth>(packed, shift);
  return _mm256_slli_epi16(low, kTo);
}

// 16 bytes of nibbles: the low ones, then the high ones.
__m256i nibbles(const uint8_t* src) {
  const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed), bytes(15));
}

// Bit i of 32 as the value 16 of byte i.
__m256i fifth_bits(const uint8_t* src) {
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(read_word(src))), byte_of);
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of), bytes(16));
}

// Eight 6-bit scales and eight 6-bit minima in twelve bytes (scheme/block.cc), four at a time.
void unpack_scales_and_mins(const uint8_t* src, int c, Scales& to) {
  const uint32_t a = read_word(src), b = read_word(src + 4), high = read_word(src + 8);
  const uint32_t words[4] = {a & 0x3f3f3f3f, (high & 0x0f0f0f0f) | (a >> 6 & 0x03030303) << 4,  //
                             b & 0x3f3f3f3f, (high >> 4 & 0x0f0f0f0f) | (b >> 6 & 0x03030303) << 4};
  for (int group = 0; group < 8; ++group) {
    to.scales[group][c] = static_cast<uint8_t>(words[group / 4] >> 8 * (group % 4));
    to.mins[group][c] = static_cast<uint8_t>(words[2 + group / 4] >> 8 * (group % 4));
  }
}

// One scheme each: the integers of tile t of a block, and the block's scales. Formats as in scheme/block.cc.
struct Q4_0 {
  static constexpr Scheme kScheme = Scheme::Q4_0;
  static constexpr int kBytes = 18, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) { return nibbles(block + 2); }
  static void scales(const uint8_t* block, int c, Scales& to) { to.d[c] = read_half(block); }
};

struct Q4_1 {
  static constexpr Scheme kScheme = Scheme::Q4_1;
  static constexpr int kBytes = 20, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) { return nibbles(block + 4); }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block);
    to.dmin[c] = read_half(block + 2) ^ 0x8000u;
  }
};

struct Q5_0 {
  static constexpr Scheme kScheme = Scheme::Q5_0;
  static constexpr int kBytes = 22, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) {
    return _mm256_or_si256(nibbles(block + 6), fifth_bits(block + 2));
  }
  static void scales(const uint8_t* block, int c, Scales& to) { to.d[c] = read_half(block); }
};

struct Q5_1 {
  static constexpr Scheme kScheme = Scheme::Q5_1;
  static constexpr int kBytes = 24, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) {
    return _mm256_or_si256(nibbles(block + 8), fifth_bits(block + 4));
  }
  static void scales(const uint8_t* block, int c, Scales& to) { Q4_1::scales(block, c, to); }
};

struct Q8_0 {
  static constexpr Scheme kScheme = Scheme::Q8_0;
  static constexpr int kBytes = 34, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) { return _mm256_xor_si256(load(block + 2), bytes(0x80)); }
  static void scales(const uint8_t* block, int c, Scales& to) { to.d[c] = read_half(block); }
};

struct Q2_K {
  static constexpr Scheme kScheme = Scheme::Q2_K;
  static constexpr int kBytes = 84, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) { return field<2>(load(block + 16 + t / 4 * 32), t % 4 * 2); }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block + 80);
    to.dmin[c] = read_half(block + 82);
    for (int group = 0; group < 16; ++group) {
      to.scales[group][c] = block[group] & 15;
      to.mins[group][c] = block[group] >> 4;
    }
  }
};

struct Q3_K {
  static constexpr Scheme kScheme = Scheme::Q3_K;
  static constexpr int kBytes = 110, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) {
    const __m256i low = field<2>(load(block + 32 + t / 4 * 32), t % 4 * 2);
    return _mm256_or_si256(low, field_at<1, 2>(load(block), t));
  }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block + 108);
    const uint32_t words[2] = {read_word(block + 96), read_word(block + 100)};
    const uint32_t high = read_word(block + 104);
    for (int group = 0; group < 16; ++group) {
      const uint32_t low = words[group / 4 % 2] >> (group / 8 * 4) >> (group % 4 * 8) & 15;
      const uint32_t upper = high >> (group % 4 * 8) >> (group / 4 * 2) & 3;
      to.scales[group][c] = static_cast<uint8_t>((low | upper << 4) - 32);
    }
  }
};

struct Q4_K {
  static constexpr Scheme kScheme = Scheme::Q4_K;
  static constexpr int kBytes = 144, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) { return field<4>(load(block + 16 + t / 2 * 32), t % 2 * 4); }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block);
    to.dmin[c] = read_half(block + 2);
    unpack_scales_and_mins(block + 4, c, to);
  }
};

struct Q5_K {
  static constexpr Scheme kScheme = Scheme::Q5_K;
  static constexpr int kBytes = 176, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) {
    const __m256i low = field<4>(load(block + 48 + t / 2 * 32), t % 2 * 4);
    return _mm256_or_si256(low, field_at<1, 4>(load(block + 16), t));
  }
  static void scales(const uint8_t* block, int c, Scales& to) { Q4_K::scales(block, c, to); }
};

struct Q6_K {
  static constexpr Scheme kScheme = Scheme::Q6_K;
  static constexpr int kBytes = 210, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) {
    const int half = t / 4, quarter = t % 4;
    const __m256i low = field<4>(load(block + 64 * half + 32 * (quarter % 2)), quarter / 2 * 4);
    return _mm256_or_si256(low, field_at<2, 4>(load(block + 128 + 32 * half), 2 * quarter));
  }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block + 208);
    for (int group = 0; group < 16; ++group) to.scales[group][c] = block[192 + group];
  }
};

struct IQ4_NL : Q4_0 {
  static constexpr Scheme kScheme = Scheme::IQ4_NL;
};

struct IQ4_XS {
  static constexpr Scheme kScheme = Scheme::IQ4_XS;
  static constexpr int kBytes = 136, kTiles = 8;
  static __m256i integers(const uint8_t* block, int t) { return nibbles(block + 8 + 16 * t); }
  static void scales(const uint8_t* block, int c, Scales& to) {
    to.d[c] = read_half(block);
    const uint32_t high = read_half(block + 2), low = read_word(block + 4);
    for (int group = 0; group < 8; ++group) {
      const uint32_t scale = (low >> 4 * group & 15) | (high >> 2 * group & 3) << 4;
      to.scales[group][c] = static_cast<uint8_t>(scale - 32);
    }
  }
};

struct MXFP4 {
  static constexpr Scheme kScheme = Scheme::MXFP4;
  static constexpr int kBytes = 17, kTiles = 1;
  static __m256i integers(const uint8_t* block, int) { return nibbles(block + 1); }
  static void scales(const uint8_t* block, int c, Scales& to) { to.scales[0][c] = block[0]; }
};

// A float scale and a zero point, then the integers of kGroupTiles tiles.
template <Scheme kGroup, int kBits, int kGroupTiles>
struct Group {
  static constexpr Scheme kScheme = kGroup;
  static constexpr int kTiles = kGroupTiles, kTileBytes = 4 * kBits, kBytes = 5 + kTiles * kTileBytes;
  static __m256i integers(const uint8_t* block, int t) {
    const uint8_t* src = block + 5 + kTileBytes * t;
    return kBits == 4 ? nibbles(src) : load(src);
  }
  static void scales(const uint8_t* block, int c, Scales& to) {
    std::memcpy(&to.scale[c], block, sizeof(float));
    to.zero[c] = block[4];
  }
};

// q[i] holds eight groups of four bytes of channel i; afterwards it holds group i of the eight channels.
void transpose(__m256i q[kLanes]) {
  __m256i pairs[kLanes], quads[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(q[i], q[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(q[i], q[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4) {
    quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < kLanes / 2; ++i) {
    q[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    q[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

void store(uint8_t* dst, int line, __m256i value) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(dst + line * kLineBytes), value);
}

// Those bits of every byte that `mask` has, moved up by kShift.
template <int kShift>
__m256i raised(__m256i q, int mask) {
  return _mm256_slli_epi16(_mm256_and_si256(q, bytes(mask)), kShift);
}

// Eight lines of integers, 32 bytes of each, squeezed to kBits lines.
template <int kBits>
void store_lines(const __m256i q[kLanes], uint8_t* dst) {
  if constexpr (kBits == 8) {
    for (int i = 0; i < 8; ++i) store(dst, i, q[i]);
  } else if constexpr (kBits == 4) {
    for (int i = 0; i < 4; ++i) store(dst, i, _mm256_or_si256(q[2 * i], _mm256_slli_epi16(q[2 * i + 1], 4)));
  } else if constexpr (kBits == 5) {
    store(dst, 0, _mm256_or_si256(q[0], raised<5>(q[5], 7)));
    store(dst, 1, _mm256_or_si256(q[1], _mm256_or_si256(raised<2>(q[7], 8), raised<3>(q[5], 24))));
    store(dst, 2, _mm256_or_si256(q[2], raised<5>(q[6], 7)));
    store(dst, 3, _mm256_or_si256(q[3], _mm256_or_si256(raised<1>(q[7], 16), raised<3>(q[6], 24))));
    store(dst, 4, _mm256_or_si256(q[4], raised<5>(q[7], 7)));
  } else {
    static_assert(kBits == 6);
    for (int i = 0; i < 2; ++i) {
      store(dst, 3 * i, _mm256_or_si256(q[3 * i], raised<6>(q[6 + i], 3)));
      store(dst, 3 * i + 1, _mm256_or_si256(q[3 * i + 1], raised<4>(q[6 + i], 12)));
      store(dst, 3 * i + 2, _mm256_or_si256(q[3 * i + 2], raised<2>(q[6 + i], 48)));
    }
  }
}

template <typename T>
uint8_t* put(uint8_t* dst, const T (&line)[kStripChannels]) {
  std::memcpy(dst, line, sizeof(line));
  return dst + sizeof(line);
}

// What a tile ends with, and what the tiles of a block share.
uint8_t* put_tile_scales(ScaleForm form, const Scales& scales, int t, uint8_t* dst) {
  if (form == ScaleForm::SlabZero) return dst;
  if (form == ScaleForm::FloatZero32) return put(put(dst, scales.scale), scales.zero);
  if (form == ScaleForm::Super32 || form == ScaleForm::Exponent32) return put(dst, scales.scales[t]);
  if (form == ScaleForm::Super32Min) return put(put(dst, scales.scales[t]), scales.mins[t]);
  if (form == ScaleForm::Super16 || form == ScaleForm::Super16Min) {
    dst = put(put(dst, scales.scales[2 * t]), scales.scales[2 * t + 1]);
    return form == ScaleForm::Super16 ? dst : put(put(dst, scales.mins[2 * t]), scales.mins[2 * t + 1]);
  }
  dst = put(dst, scales.d);
  return form == ScaleForm::HalfMin32 ? put(dst, scales.dmin) : dst;
}

uint8_t* put_block_scales(ScaleForm form, const Scales& scales, uint8_t* dst) {
  if (form == ScaleForm::SlabZero) return put(put(dst, scales.scale), scales.zero);
  if (!is_super(form)) return dst;
  dst = put(dst, scales.d);
  return has_min(form) ? put(dst, scales.dmin) : dst;
}

template <typename S>
void pack_blocks(const StripRows& rows, int64_t row_size, uint8_t* dst) {
  constexpr Layout layout = layout_of(S::kScheme);
  Scales scales;
  for (int64_t offset = 0; offset < row_size / (S::kTiles * kTileSize) * S::kBytes; offset += S::kBytes) {
    for (int c = 0; c < kStripChannels; ++c) {
      for (int line = 0; line < S::kBytes; line += 64) {
        _mm_prefetch(rows.row[c] + rows.next_bytes + offset + line, _MM_HINT_T1);
      }
      S::scales(rows.row[c] + offset, c, scales);
    }
    for (int t = 0; t < S::kTiles; ++t) {
      for (int c = 0; c < kStripChannels; c += kLanes) {
        __m256i q[kLanes];
        for (int i = 0; i < kLanes; ++i) q[i] = S::integers(rows.row[c + i] + offset, t);
        transpose(q);
        store_lines<layout.bits>(q, dst + 4 * c);
      }
      dst = put_tile_scales(layout.form, scales, t, dst + integer_bytes(layout));
    }
    dst = put_block_scales(layout.form, scales, dst);
  }
}

// F32 and pairs of BF16: dst[k][64] of four bytes each.
void pack_words(const StripRows& rows, int64_t num_words, uint8_t* dst) {
  for (int64_t k = 0; k < num_words; k += kLanes) {
    for (int c = 0; c < kStripChannels; c += kLanes) {
      __m256i q[kLanes];
      for (int i = 0; i < kLanes; ++i) q[i] = load(rows.row[c + i] + 4 * k);
      transpose(q);
      for (int i = 0; i < kLanes; ++i) store(dst + 4 * c, static_cast<int>(k) + i, q[i]);
    }
  }
}

// The even and the odd halves of 16 words, each 16 in a row.
void store_halves(__m256i first, __m256i second, uint8_t* even, uint8_t* odd) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i evens = _mm256_packus_epi32(_mm256_and_si256(first, low), _mm256_and_si256(second, low));
  const __m256i odds = _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16));
  _mm256_store_si256(reinterpret_cast<__m256i*>(even), _mm256_permute4x64_epi64(evens, 0xd8));
  _mm256_store_si256(reinterpret_cast<__m256i*>(odd), _mm256_permute4x64_epi64(odds, 0xd8));
}

// F16: dst[k][64] of two bytes each.
void pack_halves(const StripRows& rows, int64_t row_size, uint8_t* dst) {
  constexpr int kHalfLineBytes = 2 * kStripChannels;
  for (int64_t k = 0; k < row_size; k += 2 * kLanes) {
    for (int c = 0; c < kStripChannels; c += 2 * kLanes) {
      __m256i first[kLanes], second[kLanes];
      for (int i = 0; i < kLanes; ++i) first[i] = load(rows.row[c + i] + 2 * k);
      for (int i = 0; i < kLanes; ++i) second[i] = load(rows.row[c + kLanes + i] + 2 * k);
      transpose(first);
      transpose(second);
      for (int i = 0; i < kLanes; ++i) {
        uint8_t* line = dst + (k + 2 * i) * kHalfLineBytes + 2 * c;
        store_halves(first[i], second[i], line, line + kHalfLineBytes);
      }
    }
  }
}

}  // namespace

bool pack_strip_avx2(Scheme scheme, const StripRows& rows, int64_t row_size, uint8_t* dst) {
  const bool is_whole = std::find(rows.row, rows.row + kStripChannels, nullptr) == rows.row + kStripChannels;
  if (!is_whole || row_size % kTileSize != 0) return false;
  switch (scheme) {
    case Scheme::F32: pack_words(rows, row_size, dst); return true;
    case Scheme::BF16: pack_words(rows, row_size / 2, dst); return true;
    case Scheme::F16: pack_halves(rows, row_size, dst); return true;
    case Scheme::Q4_0: pack_blocks<Q4_0>(rows, row_size, dst); return true;
    case Scheme::Q4_1: pack_blocks<Q4_1>(rows, row_size, dst); return true;
    case Scheme::Q5_0: pack_blocks<Q5_0>(rows, row_size, dst); return true;
    case Scheme::Q5_1: pack_blocks<Q5_1>(rows, row_size, dst); return true;
    case Scheme::Q8_0: pack_blocks<Q8_0>(rows, row_size, dst); return true;
    case Scheme::Q2_K: pack_blocks<Q2_K>(rows, row_size, dst); return true;
    case Scheme::Q3_K: pack_blocks<Q3_K>(rows, row_size, dst); return true;
    case Scheme::Q4_K: pack_blocks<Q4_K>(rows, row_size, dst); return true;
    case Scheme::Q5_K: pack_blocks<Q5_K>(rows, row_size, dst); return true;
    case Scheme::Q6_K: pack_blocks<Q6_K>(rows, row_size, dst); return true;
    case Scheme::IQ4_NL: pack_blocks<IQ4_NL>(rows, row_size, dst); return true;
    case Scheme::IQ4_XS: pack_blocks<IQ4_XS>(rows, row_size, dst); return true;
    case Scheme::MXFP4: pack_blocks<MXFP4>(rows, row_size, dst); return true;
    case Scheme::INT4_G32: pack_blocks<Group<Scheme::INT4_G32, 4, 1>>(rows, row_size, dst); return true;
    case Scheme::INT4_G128: pack_blocks<Group<Scheme::INT4_G128, 4, 4>>(rows, row_size, dst); return true;
    case Scheme::INT8_G32: pack_blocks<Group<Scheme::INT8_G32, 8, 1>>(rows, row_size, dst); return true;
    case Scheme::INT8_G128: pack_blocks<Group<Scheme::INT8_G128, 8, 4>>(rows, row_size, dst); return true;
    default: return false;
  }
}

}  // namespace pelton
