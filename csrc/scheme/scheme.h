// How a checkpoint stores the numbers of a weight, and what they are worth.
//
//   dense     F32, F16, BF16: one number per element
//   blocks    Q4_0 ... Q8_0: 32 elements, one half-precision scale d (and minimum m for _1)
//   super     Q2_K ... Q6_K: 256 elements, small integer scales per 16 or 32 elements times d (and minima times dmin)
//   codes     IQ4_NL, IQ4_XS, MXFP4: 4-bit codes that stand for the integers of a codebook
//   groups    INT4_*, INT8_*: 32 or 128 elements, one float scale and one zero point; what the weights of GPTQ, AWQ and
//             compressed-tensors become when they are read (src/pelton/checkpoint/hf)
//
// Every block scheme has one form: value = scale * (q - zero) - minimum, with q an unsigned integer.
#pragma once

#include <cstdint>
#include <string_view>

namespace pelton {

enum class Scheme : uint8_t {
  F32, F16, BF16,
  Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
  Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
  IQ4_NL, IQ4_XS, MXFP4,
  INT4_G32, INT4_G128, INT8_G32, INT8_G128,
};

// What the codes of a scheme stand for, if they are not integers themselves.
enum class Codebook : uint8_t { None, Iq4, E2m1 };

// q of each code. The formats' integers are signed: the zero point of the scheme is added to each of them.
alignas(16) inline constexpr uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                       129, 141, 153, 166, 181, 197, 217, 241};  // zero 128
alignas(16) inline constexpr uint8_t kE2m1Values[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                        16, 15, 14, 13, 12, 10, 8,  4};  // doubled; zero 16

static constexpr const uint8_t* codebook_values(Codebook codebook) {
  return codebook == Codebook::Iq4 ? kIq4Values : kE2m1Values;
}

struct SchemeInfo {
  std::string_view name;
  int block_size;    // elements
  int block_bytes;
  int group_size;    // elements that share a scale; 0 for dense schemes
  int zero;          // subtracted from q; groups have one of their own
  bool has_min;      // a minimum per group
  bool is_super;     // scales and minima are small integers times d and dmin
  Codebook codebook;
};

const SchemeInfo& scheme_info(Scheme scheme);

// Whether each group stores a float scale and a zero point of its own.
static constexpr bool has_zero_points(Scheme scheme) {
  return scheme == Scheme::INT4_G32 || scheme == Scheme::INT4_G128 || scheme == Scheme::INT8_G32 ||
         scheme == Scheme::INT8_G128;
}

// The scheme that a checkpoint names, for example "Q5_0". Throws std::invalid_argument for a name not in the list.
Scheme scheme_from_name(std::string_view name);

// Bytes of one row of k elements. Throws std::invalid_argument when k is not a whole number of blocks.
int64_t scheme_row_bytes(Scheme scheme, int64_t k);

// dst[0, k) = the row's values as float32, exactly as the format defines them. Plain loops; src needs no alignment.
void dequantize_row(Scheme scheme, const uint8_t* src, int64_t k, float* dst);

}  // namespace pelton
