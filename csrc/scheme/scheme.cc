#include "scheme/scheme.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "core/float_formats.h"
#include "scheme/block.h"

namespace pelton {
namespace {

constexpr std::array<SchemeInfo, 20> kSchemes = {{
    {"F32", 1, 4, 0, 0, false, false, Codebook::None},
    {"F16", 1, 2, 0, 0, false, false, Codebook::None},
    {"BF16", 1, 2, 0, 0, false, false, Codebook::None},
    {"Q4_0", 32, 18, 32, 8, false, false, Codebook::None},
    {"Q4_1", 32, 20, 32, 0, true, false, Codebook::None},
    {"Q5_0", 32, 22, 32, 16, false, false, Codebook::None},
    {"Q5_1", 32, 24, 32, 0, true, false, Codebook::None},
    {"Q8_0", 32, 34, 32, 128, false, false, Codebook::None},
    {"Q2_K", 256, 84, 16, 0, true, true, Codebook::None},
    {"Q3_K", 256, 110, 16, 4, false, true, Codebook::None},
    {"Q4_K", 256, 144, 32, 0, true, true, Codebook::None},
    {"Q5_K", 256, 176, 32, 0, true, true, Codebook::None},
    {"Q6_K", 256, 210, 16, 32, false, true, Codebook::None},
    {"IQ4_NL", 32, 18, 32, 128, false, false, Codebook::Iq4},
    {"IQ4_XS", 256, 136, 32, 128, false, true, Codebook::Iq4},
    {"MXFP4", 32, 17, 32, 16, false, false, Codebook::E2m1},
    {"INT4_G32", 32, 21, 32, 0, false, false, Codebook::None},
    {"INT4_G128", 128, 69, 128, 0, false, false, Codebook::None},
    {"INT8_G32", 32, 37, 32, 0, false, false, Codebook::None},
    {"INT8_G128", 128, 133, 128, 0, false, false, Codebook::None},
}};

float scale_of(Scheme scheme, const SchemeInfo& info, const Block& block, int group) {
  if (has_zero_points(scheme)) return block.scale;
  if (scheme == Scheme::MXFP4) return exponent_to_half_float(block.exponent);
  const float d = half_to_float(block.d);
  return info.is_super ? d * static_cast<float>(block.scales[group]) : d;
}

void dequantize_block(Scheme scheme, const SchemeInfo& info, const Block& block, float* dst) {
  const int zero = has_zero_points(scheme) ? block.zero : info.zero;
  for (int first = 0; first < info.block_size; first += info.group_size) {
    const int group = first / info.group_size;
    const float scale = scale_of(scheme, info, block, group);
    float minimum = 0.0f;
    if (info.has_min) {
      minimum = half_to_float(block.dmin);
      if (info.is_super) minimum *= static_cast<float>(block.mins[group]);
    }
    for (int i = first; i < first + info.group_size; ++i) {
      const int code = block.integers[i];
      const int q = info.codebook == Codebook::None ? code : codebook_values(info.codebook)[code];
      const float value = scale * static_cast<float>(q - zero);
      dst[i] = info.has_min ? value - minimum : value;
    }
  }
}

}  // namespace

const SchemeInfo& scheme_info(Scheme scheme) { return kSchemes[static_cast<size_t>(scheme)]; }

Scheme scheme_from_name(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kSchemes.size(); ++i) {
    if (kSchemes[i].name == name) return static_cast<Scheme>(i);
    known += (i == 0 ? "" : ", ") + std::string(kSchemes[i].name);
  }
  throw std::invalid_argument("scheme '" + std::string(name) + "' is not one the kernels read. Known schemes: " +
                              known + ".");
}

int64_t scheme_row_bytes(Scheme scheme, int64_t k) {
  const SchemeInfo& info = scheme_info(scheme);
  if (k <= 0 || k % info.block_size != 0) {
    throw std::invalid_argument("scheme " + std::string(info.name) + ": a row of " + std::to_string(k) + " elements" +
                                " is not a whole number of blocks of " + std::to_string(info.block_size) + ".");
  }
  return k / info.block_size * info.block_bytes;
}

void dequantize_row(Scheme scheme, const uint8_t* src, int64_t k, float* dst) {
  const SchemeInfo& info = scheme_info(scheme);
  if (scheme == Scheme::F32) {
    std::memcpy(dst, src, static_cast<size_t>(k) * sizeof(float));
    return;
  }
  if (info.group_size == 0) {
    for (int64_t i = 0; i < k; ++i) {
      uint16_t bits;
      std::memcpy(&bits, src + 2 * i, 2);
      dst[i] = scheme == Scheme::F16 ? half_to_float(bits) : bfloat16_to_float(bits);
    }
    return;
  }
  Block block;
  for (int64_t first = 0; first < k; first += info.block_size, src += info.block_bytes) {
    decode_block(scheme, src, block);
    dequantize_block(scheme, info, block, dst + first);
  }
}

}  // namespace pelton
