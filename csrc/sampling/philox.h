// Noise that depends on (seed, position) alone: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as
// 1, 2, 3"). The seed is the key, the position the counter, so a restart or another batch draws the same number.
#pragma once

#include <cstdint>

namespace pelton {

// A double in [0, 1) with 53 random bits, from the first two words of the block.
inline double philox_uniform(uint64_t seed, uint64_t position) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  uint32_t x0 = static_cast<uint32_t>(position), x1 = static_cast<uint32_t>(position >> 32), x2 = 0, x3 = 0;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x0;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x2;
    x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key0;
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x1 = static_cast<uint32_t>(product1);
    x3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return (static_cast<double>(x0 >> 5) * 67108864.0 + static_cast<double>(x1 >> 6)) / 9007199254740992.0;
}

}  // namespace pelton
