// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/fast_math.h: included in front of test files that are compiled with -ffast-math.
//
// Under -ffast-math the compiler takes isnan and isfinite for constants: it assumes that no NaN and
// no infinity exists. The library must find them all the same, by their bits, and so must its
// tests.
#ifndef SPIRA_TESTS_FAST_MATH_H
#define SPIRA_TESTS_FAST_MATH_H

#ifndef __FAST_MATH__
#error "this file is for tests that are compiled with -ffast-math"
#endif

#include <cmath>
#include <math.h>
#include <stdint.h>
#include <string.h>

inline uint64_t fast_math_bits(double value) { // without the sign
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & ~((uint64_t)1 << 63);
}

inline uint64_t fast_math_bits(float value) { // as of the double with the same meaning
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7fffffff;
    return bits < 0x7f800000 ? 0 : ((uint64_t)0x7ff << 52) + (bits - 0x7f800000);
}

#define isnan(x) (fast_math_bits(x) > (uint64_t)0x7ff << 52)
#define isinf(x) (fast_math_bits(x) == (uint64_t)0x7ff << 52)
#define isfinite(x) (fast_math_bits(x) < (uint64_t)0x7ff << 52)

#endif
