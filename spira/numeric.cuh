// spira/numeric.cuh: device types of the number formats, and their conversions.
#ifndef SPIRA_NUMERIC_CUH
#define SPIRA_NUMERIC_CUH

#include "numeric.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace spira {

// Calls body(E()), E being the type that elements of the format are stored as.
template <typename F>
SPIRA_API auto element_dispatch(numeric type, F body) {
    return type == numeric_f16    ? body(__half())
           : type == numeric_bf16 ? body(__nv_bfloat16())
                                  : body(float());
}

SPIRA_DEVICE float element_to_float(float f) {
    return f;
}
SPIRA_DEVICE float element_to_float(__half h) {
    return __half2float(h);
}
SPIRA_DEVICE float element_to_float(__nv_bfloat16 h) {
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

// tf32: to nearest, ties away from zero, as cvt.rna does it; the bits are a float's.
SPIRA_DEVICE uint32_t tf32_bits(float f) {
    uint32_t u = __float_as_uint(f);
    return (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0x1000u) & ~0x1fffu;
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
