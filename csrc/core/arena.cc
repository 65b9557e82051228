#include "core/arena.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace pelton {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kSlackBytes = size_t{16} << 10;

}  // namespace

Arena::Arena(size_t size_bytes) : size_bytes_(size_bytes) {
  const size_t usable_bytes = round_up(size_bytes + kSlackBytes, kHugePageBytes);
  mapping_bytes_ = usable_bytes + kHugePageBytes;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  data_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(mapping_), kHugePageBytes));
  madvise(data_, usable_bytes, MADV_HUGEPAGE);  // advice: a system without huge pages ignores it
}

Arena::~Arena() { release(); }

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    mapping_ = std::exchange(other.mapping_, nullptr);
    mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  }
  return *this;
}

void Arena::release() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

}  // namespace pelton
