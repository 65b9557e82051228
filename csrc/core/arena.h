// Memory that a program allocates once, at load: zeroed, 2 MiB aligned, in huge pages where the system gives them.
//
// Huge pages matter: one thread reads 28 GB/s from them and 18 GB/s from 4 KiB pages. Untouched pages cost nothing.
// Kernels may prefetch a little past the end of what they read, so 16 KiB of slack follow the last byte asked for; they
// may not load or store there. Tests see to it: they put arenas against pages that nothing may touch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pelton {

class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t size_bytes);  // throws std::bad_alloc
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void place_at_edge();
  void release();

  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
};

// For tests: from now on every arena begins behind a page that kills whoever touches it, or ends before one. With an
// edge there is no slack, and an arena is aligned to 64 bytes only; one of whole pages is aligned to those.
enum class ArenaEdge { None, Begin, End };
void set_arena_edge(ArenaEdge edge);

constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace pelton
