// What the C++ tests check with: the first expectation that does not hold is printed with its place, and ends the test.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace pelton {

inline void check(bool holds, const char* expectation,
                  const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), static_cast<unsigned>(where.line()), expectation);
  std::exit(1);
}

// A few microseconds of work that no compiler removes.
inline void linger() {
  std::atomic<int> count{0};
  while (count.fetch_add(1, std::memory_order_relaxed) < 2000) continue;
}

}  // namespace pelton
