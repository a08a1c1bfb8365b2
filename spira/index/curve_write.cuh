// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/curve_write.cuh: what curve_order (curve.cuh) has kernels for: codes, and ranks.
#ifndef SPIRA_INDEX_CURVE_WRITE_CUH
#define SPIRA_INDEX_CURVE_WRITE_CUH

#include "../curve.h"
#include "radix.cuh"

namespace spira {

template <typename W>
struct curve_keys {
    curve_args<W> args;
    word_layout layout;
};

// The voxel's code, which is an output, too.
template <typename W>
SPIRA_DEVICE uint64_t radix_voxel_key(const curve_keys<W> &of, int32_t i) {
    const curve_args<W> &a = of.args;
    uint64_t code;
    if (!curve_code(a, of.layout, a.set.words[i], &code)) {
        device_status_raise(a.trouble, device_flag_range, (uint32_t)i);
    }
    if (a.code) {
        a.code[i] = code;
    }
    return code;
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(radix_voxel_threads)
    curve_rank_kernel(const __grid_constant__ curve_args<W> a) {
    const int32_t i = (int32_t)(blockIdx.x * radix_voxel_threads + threadIdx.x);
    if (i < voxel_set_count(a.set)) {
        a.rank[a.order[i]] = i;
    }
}

} // namespace spira

#endif
