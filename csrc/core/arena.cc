#include "core/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace pelton {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kSlackBytes = size_t{16} << 10;
constexpr size_t kAlignment = 64;

ArenaEdge& edge() {
  static ArenaEdge value = ArenaEdge::None;
  return value;
}

uint8_t* map(size_t size_bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapping = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  return static_cast<uint8_t*>(mapping);
}

}  // namespace

void set_arena_edge(ArenaEdge wanted) { edge() = wanted; }

Arena::Arena(size_t size_bytes) : size_bytes_(size_bytes) {
  if (edge() != ArenaEdge::None) {
    place_at_edge();
    return;
  }
  const size_t usable_bytes = round_up(size_bytes + kSlackBytes, kHugePageBytes);
  mapping_bytes_ = usable_bytes + kHugePageBytes;
  mapping_ = map(mapping_bytes_);
  data_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(mapping_), kHugePageBytes));
  madvise(data_, usable_bytes, MADV_HUGEPAGE);  // advice: a system without huge pages ignores it
}

// A page that may not be touched, the arena in whole pages, and another such page.
void Arena::place_at_edge() {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t usable_bytes = round_up(size_bytes_, page_bytes);
  mapping_bytes_ = usable_bytes + 2 * page_bytes;
  uint8_t* first = map(mapping_bytes_);
  mapping_ = first;
  const bool is_guarded = mprotect(first, page_bytes, PROT_NONE) == 0 &&
                          mprotect(first + page_bytes + usable_bytes, page_bytes, PROT_NONE) == 0;
  if (!is_guarded) throw std::bad_alloc();
  data_ = first + page_bytes;
  if (edge() == ArenaEdge::End) data_ += usable_bytes - round_up(size_bytes_, kAlignment);
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
