// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/numeric.h: the number formats of features and weights, and their host conversions.
//
// Sums are fp32 in every floating-point format; a result is rounded once, to the storage type. Sums
// of int8 are int32, and exact: conv_i8.h.
#ifndef SPIRA_NUMERIC_H
#define SPIRA_NUMERIC_H

#include "config.h"

#include <math.h>
#include <string.h>

namespace spira {

enum numeric : int {
    numeric_f32,  // stored as float, multiplied exactly as fp32
    numeric_tf32, // stored as float, rounded to 10 bits of fraction before the product
    numeric_f16,  // IEEE binary16
    numeric_bf16, // bfloat16
    numeric_i8,   // int8; an element times the scale of its tensor is its value (symmetric)
};

// As a template argument: the format is chosen at run time, and code for the four floating-point
// formats is compiled. Code for int8 is compiled only where a caller names numeric_i8.
constexpr numeric numeric_any = (numeric)-1;

// Whether it is a floating-point format: most functions take no other.
SPIRA_BOTH bool numeric_valid(numeric n) {
    return n >= numeric_f32 && n <= numeric_bf16;
}

// Bytes of one stored element.
SPIRA_BOTH int numeric_size(numeric n) {
    return n == numeric_f16 || n == numeric_bf16 ? 2 : n == numeric_i8 ? 1 : 4;
}

// The largest finite number of a product's operand.
SPIRA_BOTH float numeric_largest(numeric n) {
    return n == numeric_f16    ? 0x1.ffcp15f
           : n == numeric_bf16 ? 0x1.fep127f
           : n == numeric_tf32 ? 0x1.ffcp127f
                               : 0x1.fffffep127f;
}

SPIRA_API const char *numeric_name(numeric n) {
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16", "int8"};
    return numeric_valid(n) || n == numeric_i8 ? names[n] : "?";
}

// The relative error of one rounding to a floating-point format (half a unit in the last place).
SPIRA_API double numeric_epsilon(numeric n) {
    static const double epsilon[] = {1.0 / (1 << 24), 1.0 / (1 << 11), 1.0 / (1 << 11),
                                     1.0 / (1 << 8), 0}; // int8's is not relative
    return epsilon[n];
}

SPIRA_BOTH uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

SPIRA_BOTH float float_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// By the bits, so that it also holds under -ffast-math.
SPIRA_BOTH bool float_is_finite(float f) {
    return (float_bits(f) & 0x7f800000u) != 0x7f800000u;
}

// The same of NaN.
SPIRA_BOTH bool float_is_nan(float f) {
    return (float_bits(f) & 0x7fffffffu) > 0x7f800000u;
}

// Whether a scale of int8, or its inverse, is a positive number where it is read, and 0 elsewhere.
SPIRA_BOTH bool numeric_scale_good(float scale, bool read) {
    return read ? scale > 0 && float_is_finite(scale) : float_bits(scale) == 0;
}

// The larger of two numbers; NaN if one is NaN, as in the frameworks.
SPIRA_BOTH float float_larger(float a, float b) {
    return float_is_nan(a) ? a : float_is_nan(b) ? b : a > b ? a : b;
}

// Rounded as IEEE 754 says, also by kernels that are compiled with fast maths.
SPIRA_BOTH float float_divide(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

SPIRA_BOTH float float_subtract(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fsub_rn(a, b);
#else
    return a - b;
#endif
}

// An element of an array as a number; of 16 bits: numeric.cuh.
template <typename E>
SPIRA_BOTH float element_to_float(E element);
template <>
SPIRA_HD inline float element_to_float<float>(float f) {
    return f;
}
template <>
SPIRA_HD inline float element_to_float<int8_t>(int8_t i) { // in units of the tensor's scale
    return (float)i;
}

// The type of the sums of products of elements.
template <typename E>
struct numeric_sum {
    typedef float type;
};
template <>
struct numeric_sum<int8_t> {
    typedef int32_t type;
};

// Rounds to nearest, ties to even, keeping the top 32 - `drop` bits. NaN stays NaN.
SPIRA_API uint32_t float_bits_rounded(uint32_t u, int drop) {
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return u | (1u << 22);
    }
    uint32_t half = (1u << (drop - 1)) - 1 + ((u >> drop) & 1);
    return (u + half) & ~((1u << drop) - 1);
}

SPIRA_API uint16_t bf16_from_float(float f) {
    return (uint16_t)(float_bits_rounded(float_bits(f), 16) >> 16);
}

SPIRA_API float bf16_to_float(uint16_t h) {
    return float_from_bits((uint32_t)h << 16);
}

SPIRA_API float f16_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
    if (exponent == 31) {
        return float_from_bits(sign | 0x7f800000u | (fraction << 13));
    }
    if (exponent == 0) { // zero and the subnormals: fraction * 2^-24, exact in fp32
        float magnitude = (float)fraction * (1.0f / 16777216.0f);
        return sign ? -magnitude : magnitude;
    }
    return float_from_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

SPIRA_API uint16_t f16_from_float(float f) {
    uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (u < 0x38800000u) { // below 2^-14: the fp32 adder rounds to the subnormal grid for us
        float shifted = float_from_bits(u) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000u));
    }
    u = float_bits_rounded(u, 13);
    return (uint16_t)(sign | (u >= 0x47800000u ? 0x7c00u : (u - 0x38000000u) >> 13));
}

// tf32 as `cvt.rna` makes it: to nearest, ties away from zero.
SPIRA_API float tf32_round(float f) {
    uint32_t u = float_bits(f);
    if ((u & 0x7f800000u) == 0x7f800000u) {
        return f;
    }
    return float_from_bits((u + 0x1000u) & ~0x1fffu);
}

// To nearest, ties to even, saturating: -128 .. 127. NaN becomes 0. The value is one in units of
// the tensor's scale: i8_from_float(f * (1 / scale)).
SPIRA_BOTH int8_t i8_from_float(float f) {
#ifdef __CUDA_ARCH__
    const int i = __float2int_rn(f);
    return (int8_t)(i < -128 ? -128 : i > 127 ? 127 : i);
#else
    return float_is_nan(f) ? 0 : (int8_t)rintf(f < -128 ? -128.0f : f > 127 ? 127.0f : f);
#endif
}

// What a value becomes when it is stored in the format (fp32 and tf32 are stored as fp32; int8: in
// units of the tensor's scale).
SPIRA_API float numeric_stored(numeric n, float f) {
    return n == numeric_f16    ? f16_to_float(f16_from_float(f))
           : n == numeric_bf16 ? bf16_to_float(bf16_from_float(f))
           : n == numeric_i8   ? (float)i8_from_float(f)
                               : f;
}

// What a value is when it enters a product of the format.
SPIRA_API float numeric_operand(numeric n, float f) {
    return n == numeric_tf32 ? tf32_round(f) : numeric_stored(n, f);
}

// Reads element i of an array stored in the format; int8 in units of the tensor's scale.
SPIRA_API float numeric_load(numeric n, const void *array, int64_t i) {
    return n == numeric_f16    ? f16_to_float(((const uint16_t *)array)[i])
           : n == numeric_bf16 ? bf16_to_float(((const uint16_t *)array)[i])
           : n == numeric_i8   ? (float)((const int8_t *)array)[i]
                               : ((const float *)array)[i];
}

// Writes element i of an array stored in the format, rounding once.
SPIRA_API void numeric_store(numeric n, void *array, int64_t i, float f) {
    if (n == numeric_f16) {
        ((uint16_t *)array)[i] = f16_from_float(f);
    } else if (n == numeric_bf16) {
        ((uint16_t *)array)[i] = bf16_from_float(f);
    } else if (n == numeric_i8) {
        ((int8_t *)array)[i] = i8_from_float(f);
    } else {
        ((float *)array)[i] = f;
    }
}

} // namespace spira

#endif
