#include "core/isa.h"

#include <atomic>
#include <stdexcept>
#include <string>

namespace pelton {
namespace {

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
                          __builtin_cpu_supports("avx512bf16");
  if (has_avx2 && has_avx512) return Isa::Avx512;
  if (has_avx2) return Isa::Avx2;
#endif
  return Isa::Generic;
}

std::atomic<Isa>& chosen() {
  static std::atomic<Isa> value{detected_isa()};
  return value;
}

}  // namespace

Isa detected_isa() {
  static const Isa best = detect();
  return best;
}

Isa isa() { return chosen().load(std::memory_order_relaxed); }

void set_isa(Isa isa) {
  if (static_cast<int>(isa) > static_cast<int>(detected_isa())) {
    const std::string wanted = isa_name(isa), best = isa_name(detected_isa());
    throw std::invalid_argument("instruction set '" + wanted + "' is not there; this machine has '" + best + "'");
  }
  chosen().store(isa, std::memory_order_relaxed);
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::Avx512:
      return "avx512";
    case Isa::Avx2:
      return "avx2";
    case Isa::Generic:
      break;
  }
  return "generic";
}

Isa isa_from_name(std::string_view name) {
  for (Isa each : {Isa::Generic, Isa::Avx2, Isa::Avx512}) {
    if (name == isa_name(each)) return each;
  }
  throw std::invalid_argument("'" + std::string(name) + "' is not an instruction set: generic, avx2, avx512");
}

}  // namespace pelton
