#include "activation/activation.h"

#include <stdexcept>
#include <string>

#include "core/isa.h"

namespace pelton {

ActivationFunction activation_from_name(std::string_view name) {
  if (name == "silu") return ActivationFunction::Silu;
  if (name == "gelu") return ActivationFunction::Gelu;
  if (name == "gelu_tanh") return ActivationFunction::GeluTanh;
  if (name == "relu") return ActivationFunction::Relu;
  if (name == "relu2") return ActivationFunction::Relu2;
  throw std::invalid_argument("'" + std::string(name) + "' is not an activation: silu, gelu, gelu_tanh, relu, relu2");
}

ActivationKernel activation_kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::Avx512) return activation_avx512;
  if (isa() == Isa::Avx2) return activation_avx2;
#endif
  return activation_generic;
}

}  // namespace pelton
