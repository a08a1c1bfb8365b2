// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_numeric.h: emulate_hopper.h, and the rest of numeric.cuh: for emulated
// kernels that are launched by number format.
#ifndef SPIRA_TESTS_EMULATE_NUMERIC_H
#define SPIRA_TESTS_EMULATE_NUMERIC_H

#include "emulate_hopper.h"

inline float __fdiv_rn(float a, float b) {
    return a / b;
}

namespace spira {

template <numeric n>
struct numeric_tag {
    static constexpr numeric value = n;
    typedef std::conditional_t<
        n == numeric_f16, __half,
        std::conditional_t<n == numeric_bf16, __nv_bfloat16,
                           std::conditional_t<n == numeric_i8, int8_t, float>>>
        element;
};

template <numeric format, typename F>
status numeric_dispatch(numeric type, F body) {
    if constexpr (format != numeric_any) {
        return type == format ? body(numeric_tag<format>())
                              : status_make(status_unsupported, "type", type);
    }
    return !numeric_valid(type)   ? status_make(status_unsupported, "type", type)
           : type == numeric_f16  ? body(numeric_tag<numeric_f16>())
           : type == numeric_bf16 ? body(numeric_tag<numeric_bf16>())
           : type == numeric_tf32 ? body(numeric_tag<numeric_tf32>())
                                  : body(numeric_tag<numeric_f32>());
}

} // namespace spira

#endif
