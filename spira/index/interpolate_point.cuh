// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/interpolate_point.cuh: the kernel of interpolate_find (interpolate.cuh).
#ifndef SPIRA_INDEX_INTERPOLATE_POINT_CUH
#define SPIRA_INDEX_INTERPOLATE_POINT_CUH

#include "../base/launch.cuh"
#include "../interpolate.h"

namespace spira {

enum { interpolate_threads = 128 };

// A thread for each point.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(interpolate_threads)
    interpolate_kernel(const __grid_constant__ interpolate_args<W> args,
                       const __grid_constant__ word_layout layout) {
    const int32_t row = (int32_t)(blockIdx.x * interpolate_threads + threadIdx.x);
    if (row == 0) {
        device_status_raise_count(args.trouble, *args.set.count, args.set.capacity);
    }
    if (row < count_clamp(*args.count, args.rows)) {
        if (const int flag = interpolate_point(args, &layout, row)) {
            device_status_raise(args.trouble, (device_flag)flag, (uint32_t)row);
        }
    }
}

} // namespace spira

#endif
