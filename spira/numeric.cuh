// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/numeric.cuh: device types of the number formats, and their conversions.
#ifndef SPIRA_NUMERIC_CUH
#define SPIRA_NUMERIC_CUH

#include "numeric.h"
#include "status.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace spira {

// A format known at compile time, and the type that its elements are stored as.
template <numeric n>
struct numeric_tag {
    static constexpr numeric value = n;
    typedef float element;
};
template <>
struct numeric_tag<numeric_f16> {
    static constexpr numeric value = numeric_f16;
    typedef __half element;
};
template <>
struct numeric_tag<numeric_bf16> {
    static constexpr numeric value = numeric_bf16;
    typedef __nv_bfloat16 element;
};
template <>
struct numeric_tag<numeric_i8> {
    static constexpr numeric value = numeric_i8;
    typedef int8_t element;
};

// Returns body(numeric_tag<type>()). Where the caller names a format, code for that one alone is
// compiled, and any other `type` is refused.
template <numeric format, typename F>
SPIRA_API status numeric_dispatch(numeric type, F body) {
    if constexpr (format == numeric_any) {
        switch (type) {
        case numeric_f32:
            return body(numeric_tag<numeric_f32>());
        case numeric_tf32:
            return body(numeric_tag<numeric_tf32>());
        case numeric_f16:
            return body(numeric_tag<numeric_f16>());
        case numeric_bf16:
            return body(numeric_tag<numeric_bf16>());
        case numeric_i8:
            return status_make(status_unsupported, "type (int8 is compiled where it is named)",
                               type);
        default:
            return status_make(status_unsupported, "type", type);
        }
    } else {
        SPIRA_REQUIRE(type == format, status_unsupported,
                      "type (another one than the function is compiled for)", type);
        return body(numeric_tag<format>());
    }
}

template <>
SPIRA_HD inline float element_to_float<__half>(__half h) {
    return __half2float(h);
}
template <>
SPIRA_HD inline float element_to_float<__nv_bfloat16>(__nv_bfloat16 h) {
    return __bfloat162float(h);
}

template <typename E>
SPIRA_DEVICE E element_from_float(float f);
template <>
__device__ __forceinline__ float element_from_float<float>(float f) {
    return f;
}
template <>
__device__ __forceinline__ __half element_from_float<__half>(float f) {
    return __float2half_rn(f);
}
template <>
__device__ __forceinline__ __nv_bfloat16 element_from_float<__nv_bfloat16>(float f) {
    return __float2bfloat16_rn(f);
}
template <>
__device__ __forceinline__ int8_t element_from_float<int8_t>(float f) {
    return i8_from_float(f);
}

// tf32: to nearest, ties away from zero, as cvt.rna does it; the bits are a float's.
SPIRA_DEVICE uint32_t tf32_bits(float f) {
    uint32_t u = __float_as_uint(f);
    return (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0x1000u) & ~0x1fffu;
}

SPIRA_DEVICE uint4 tf32_bits_4(uint4 v) {
    return make_uint4(tf32_bits(__uint_as_float(v.x)), tf32_bits(__uint_as_float(v.y)),
                      tf32_bits(__uint_as_float(v.z)), tf32_bits(__uint_as_float(v.w)));
}

// What a value is when it enters a product of the format (see numeric_operand in numeric.h).
SPIRA_DEVICE float element_operand(numeric type, float f) {
    return type == numeric_f16    ? __half2float(__float2half_rn(f))
           : type == numeric_bf16 ? __bfloat162float(__float2bfloat16_rn(f))
           : type == numeric_tf32 ? __uint_as_float(tf32_bits(f))
                                  : f;
}

} // namespace spira

#endif
