// <immintrin.h> without gcc 12's false alarms: its headers leave the unused operand of some operations uninitialized.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#define PELTON_INLINE static inline __attribute__((always_inline))
