#include "rotary/rotary.h"

#include <cmath>

#include "core/isa.h"

namespace pelton {

RotaryTable::RotaryTable(const std::vector<double>& inv_freq, double attention_factor, int64_t max_position)
    : half_(static_cast<int64_t>(inv_freq.size())), data_(static_cast<size_t>(max_position * 2 * half_)) {
  for (int64_t position = 0; position < max_position; ++position) {
    float* row = data_.data() + position * 2 * half_;
    for (int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * inv_freq[static_cast<size_t>(i)];
      row[i] = static_cast<float>(attention_factor * std::cos(angle));
      row[half_ + i] = static_cast<float>(attention_factor * std::sin(angle));
    }
  }
}

RotaryKernel rotary_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return rotary_avx512;
  if (isa() == Isa::Avx2) return rotary_avx2;
#endif
  return rotary_generic;
}

}  // namespace pelton
