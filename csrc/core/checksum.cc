#include "core/checksum.h"

#include <cstring>

namespace pelton {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kRoundBytes = kLanes * sizeof(uint64_t);
constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd; the golden ratio in 64 bits

// The shift brings upper bits down: a product alone never lets them reach the lower ones.
uint64_t fold(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kFactor;
  return hash ^ hash >> 29;
}

void fold_round(uint64_t lanes[kLanes], const uint8_t* data) {
  uint64_t words[kLanes];
  std::memcpy(words, data, kRoundBytes);
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = fold(lanes[i], words[i]);
}

}  // namespace

uint64_t checksum(const uint8_t* data, size_t size_bytes) {
  uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const size_t whole_bytes = size_bytes / kRoundBytes * kRoundBytes;
  for (size_t offset = 0; offset < whole_bytes; offset += kRoundBytes) fold_round(lanes, data + offset);
  if (whole_bytes < size_bytes) {
    uint8_t last[kRoundBytes] = {};
    std::memcpy(last, data + whole_bytes, size_bytes - whole_bytes);
    fold_round(lanes, last);
  }
  uint64_t result = fold(0, size_bytes);
  for (uint64_t lane : lanes) result = fold(result, lane);
  return result;
}

}  // namespace pelton
