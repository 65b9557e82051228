// Reading packed integers and scales into 512-bit registers: 16 channels x 4 k of integers, or 16 channels' scales.
//
// All bit work here runs beside vpdpbusd on other ports of Zen 4; multiplies would not.
#pragma once

#include "linear/intrinsics.h"

#include "linear/layout.h"

namespace pelton {
namespace {

// Bits of `a` where `mask` is set, of `b` elsewhere.
PELTON_INLINE __m512i select(__m512i mask, __m512i a, __m512i b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xCA); }

template <Codebook codebook>
PELTON_INLINE __m512i look_up(__m512i codes) {
  if constexpr (codebook == Codebook::None) return codes;
  const auto* values = reinterpret_cast<const __m128i*>(codebook_values(codebook));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_load_si128(values)), codes);
}

// q of k group `kgroup` for channels [16 * column, +16): unsigned bytes.
template <Layout layout>
PELTON_INLINE __m512i load_integers(const uint8_t* tile, int kgroup, int column) {
  const auto line = [tile, column](int i) { return _mm512_load_si512(tile + i * kLineBytes + column * 64); };
  if constexpr (layout.bits == 8) {
    return line(kgroup);
  } else if constexpr (layout.bits == 4) {
    const __m512i pair = line(kgroup / 2);
    const __m512i nibbles = kgroup % 2 == 0 ? pair : _mm512_srli_epi16(pair, 4);
    return look_up<layout.codebook>(_mm512_and_si512(nibbles, _mm512_set1_epi8(15)));
  } else if constexpr (layout.bits == 5) {
    const __m512i low5 = _mm512_set1_epi8(31), low3 = _mm512_set1_epi8(7);
    if (kgroup < 5) return _mm512_and_si512(line(kgroup), low5);
    if (kgroup < 7) {
      const int first = 2 * (kgroup - 5);
      const __m512i q = select(low3, _mm512_srli_epi16(line(first), 5), _mm512_srli_epi16(line(first + 1), 3));
      return _mm512_and_si512(q, low5);
    }
    const __m512i line3 = line(3);
    const __m512i upper = select(_mm512_set1_epi8(32), line(1), _mm512_add_epi8(line3, line3));
    const __m512i q = select(low3, _mm512_srli_epi16(line(4), 5), _mm512_srli_epi16(upper, 2));
    return _mm512_and_si512(q, low5);
  } else {
    const __m512i low6 = _mm512_set1_epi8(63);
    if (kgroup < 6) return _mm512_and_si512(line(kgroup), low6);
    const int first = kgroup == 6 ? 0 : 3;
    const __m512i bits01 = _mm512_srli_epi16(line(first), 6), bits23 = _mm512_srli_epi16(line(first + 1), 4);
    const __m512i bits45 = _mm512_srli_epi16(line(first + 2), 2);
    const __m512i q = select(_mm512_set1_epi8(15), select(_mm512_set1_epi8(3), bits01, bits23), bits45);
    return _mm512_and_si512(q, low6);
  }
}

PELTON_INLINE __m512 load_halves(const uint8_t* halves, int channel) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves + 2 * channel)));
}

template <bool is_signed>
PELTON_INLINE __m512 load_bytes(const uint8_t* bytes, int channel) {
  const __m128i packed = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + channel));
  return _mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(packed) : _mm512_cvtepu8_epi32(packed));
}

PELTON_INLINE __m512 load_floats(const uint8_t* floats, int channel) {
  return _mm512_load_ps(reinterpret_cast<const float*>(floats) + channel);
}

// As exponent_to_half_float.
PELTON_INLINE __m512 load_exponents(const uint8_t* exponents, int channel) {
  const __m128i packed = _mm_load_si128(reinterpret_cast<const __m128i*>(exponents + channel));
  const __m512i exponent = _mm512_cvtepu8_epi32(packed);
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(exponent, _mm512_set1_epi32(1)), 23);
  const __mmask16 is_denormal = _mm512_cmplt_epu32_mask(exponent, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_denormal, _mm512_set1_epi32(0x00200000), exponent));
}

// The zero points of channels [16 * column, +16) as int32, for forms that have them.
template <ScaleForm form>
PELTON_INLINE __m512i load_zeros(const uint8_t* scales, const uint8_t* super, int column) {
  if constexpr (!has_zeros(form)) return _mm512_setzero_si512();
  const uint8_t* zeros = (form == ScaleForm::SlabZero ? super : scales) + sizeof(float) * kStripChannels;
  return _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(zeros + 16 * column)));
}

// Scale of channels [16 * column, +16) for the first or second 16 k of a tile (`half`; 0 where there is one per 32).
template <ScaleForm form>
PELTON_INLINE __m512 load_scale(const uint8_t* scales, const uint8_t* super, int half, int column) {
  const int channel = 16 * column;
  if constexpr (form == ScaleForm::Half32 || form == ScaleForm::HalfMin32) {
    return load_halves(scales, channel);
  } else if constexpr (is_super(form)) {
    const __m512 integer = load_bytes<has_signed_scales(form)>(scales + half * kStripChannels, channel);
    return _mm512_mul_ps(load_halves(super, channel), integer);
  } else if constexpr (form == ScaleForm::Exponent32) {
    return load_exponents(scales, channel);
  } else if constexpr (form == ScaleForm::SlabZero) {
    return load_floats(super, channel);
  } else {
    return load_floats(scales, half * kStripChannels + channel);
  }
}

// The minimum that is subtracted; zero for forms that have none.
template <ScaleForm form>
PELTON_INLINE __m512 load_min(const uint8_t* scales, const uint8_t* super, int half, int column) {
  const int channel = 16 * column;
  const int num_halves = has_halves(form) ? 2 : 1;
  if constexpr (!has_min(form)) {
    return _mm512_setzero_ps();
  } else if constexpr (form == ScaleForm::HalfMin32) {
    return load_halves(scales, kStripChannels + channel);
  } else if constexpr (is_super(form)) {
    const __m512 integer = load_bytes<false>(scales + (num_halves + half) * kStripChannels, channel);
    return _mm512_mul_ps(load_halves(super, kStripChannels + channel), integer);
  } else {
    return load_floats(scales, (num_halves + half) * kStripChannels + channel);
  }
}

}  // namespace
}  // namespace pelton
