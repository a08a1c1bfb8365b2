// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/curve_write.cuh: the kernels of curve_order (curve.cuh): the codes, and the ranks.
#ifndef SPIRA_INDEX_CURVE_WRITE_CUH
#define SPIRA_INDEX_CURVE_WRITE_CUH

#include "../curve.h"
#include "radix.cuh"

namespace spira {

enum { curve_threads = 256 };

struct curve_scratch {
    radix_scratch<uint64_t> radix;
    uint64_t *sorted; // [capacity]
};

SPIRA_API void curve_carve(workspace *w, int32_t capacity, curve_scratch *s) {
    radix_carve(w, capacity, true, &s->radix);
    s->sorted = workspace_take<uint64_t>(w, capacity);
}

// key [capacity]: the codes; behind the count, `end`, which is above all of them
template <typename W>
SPIRA_KERNEL void __launch_bounds__(curve_threads)
    curve_code_kernel(const __grid_constant__ curve_args<W> a,
                      const __grid_constant__ word_layout layout, uint64_t end, uint64_t *key) {
    const int32_t i = (int32_t)(blockIdx.x * curve_threads + threadIdx.x);
    if (i == 0) {
        device_status_raise_count(a.trouble, *a.set.count, a.set.capacity);
    }
    if (i >= voxel_set_count(a.set)) {
        if (i < a.set.capacity) {
            key[i] = end;
        }
        return;
    }
    uint64_t code;
    if (!curve_code(a, layout, a.set.words[i], &code)) {
        device_status_raise(a.trouble, device_flag_range, (uint32_t)i);
    }
    key[i] = code;
    if (a.code) {
        a.code[i] = code;
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(curve_threads)
    curve_rank_kernel(const __grid_constant__ curve_args<W> a) {
    const int32_t i = (int32_t)(blockIdx.x * curve_threads + threadIdx.x);
    if (i < voxel_set_count(a.set)) {
        a.rank[a.order[i]] = i;
    }
}

} // namespace spira

#endif
