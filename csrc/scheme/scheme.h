// How a checkpoint stores the numbers of a weight, and what they are worth.
//
//   dense     F32, F16, BF16: one number per element
//   blocks    Q4_0 ... Q8_0: 32 elements, one half-precision scale d (and minimum m for _1)
//   super     Q2_K ... Q6_K: 256 elements, small integer scales per 16 or 32 elements times d (and minima times dmin)
//
// Every block scheme has one form: value = scale * (q - zero) - minimum, with q an unsigned integer.
#pragma once

#include <cstdint>
#include <string_view>

namespace pelton {

enum class Scheme : uint8_t { F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K };

struct SchemeInfo {
  std::string_view name;
  int block_size;    // elements
  int block_bytes;
  int group_size;    // elements that share a scale; 0 for dense schemes
  int zero;          // subtracted from the stored unsigned integer
  bool has_min;      // a minimum per group
  bool is_super;     // scales and minima are small integers times d and dmin
};

const SchemeInfo& scheme_info(Scheme scheme);

// The scheme that a checkpoint names, for example "Q5_0". Throws std::invalid_argument for a name not in the list.
Scheme scheme_from_name(std::string_view name);

// Bytes of one row of k elements. Throws std::invalid_argument when k is not a whole number of blocks.
int64_t scheme_row_bytes(Scheme scheme, int64_t k);

// dst[0, k) = the row's values as float32, exactly as the format defines them. Plain loops; src needs no alignment.
void dequantize_row(Scheme scheme, const uint8_t* src, int64_t k, float* dst);

}  // namespace pelton
