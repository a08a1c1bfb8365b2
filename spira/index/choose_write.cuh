// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/choose_write.cuh: the kernels of choose.cuh.
#ifndef SPIRA_INDEX_CHOOSE_WRITE_CUH
#define SPIRA_INDEX_CHOOSE_WRITE_CUH

#include "../choose.h"
#include "../numeric.cuh"
#include "radix.cuh"

namespace spira {

struct choose_scratch {
    radix_voxels voxels; // keys: batch << 32 | choose_key
    int32_t *order;      // [capacity] the row of each
};

SPIRA_API void choose_carve(workspace *w, int32_t capacity, choose_scratch *s) {
    radix_voxels_carve(w, capacity, &s->voxels);
    s->order = workspace_take<int32_t>(w, capacity);
}

template <typename W, typename E>
struct choose_keys {
    choose_largest_args<W> args;
    word_layout layout;
};

template <typename W, typename E>
SPIRA_DEVICE uint64_t radix_voxel_key(const choose_keys<W, E> &of, int32_t i) {
    const choose_largest_args<W> &a = of.args;
    const float score =
        element_to_float(((const E *)a.scores)[(int64_t)i * a.channels + a.channel]);
    if (float_is_nan(score)) {
        device_status_raise(a.trouble, device_flag_not_finite, (uint32_t)i);
    }
    const uint64_t batch = (uint64_t)word_unpack<W>(&of.layout, a.set.words[i]).batch;
    return batch << 32 | choose_key(score);
}

// Marks the first `most` rows of each batch element in the order of the keys.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(radix_voxel_threads)
    choose_mark_kernel(const __grid_constant__ choose_largest_args<W> a, const choose_scratch s) {
    const int32_t i = (int32_t)(blockIdx.x * radix_voxel_threads + threadIdx.x);
    const int32_t count = voxel_set_count(a.set);
    if (i < count) {
        const uint64_t *const sorted = s.voxels.sorted, key = sorted[i];
        const int first = search_lower_bound(sorted, 0, count, key >> 32 << 32);
        a.mask[s.order[i]] = i - first < a.most && (uint32_t)key != UINT32_MAX;
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(radix_voxel_threads)
    choose_members_kernel(const __grid_constant__ choose_members_args<W> a) {
    const int32_t i = (int32_t)(blockIdx.x * radix_voxel_threads + threadIdx.x);
    if (i == 0) {
        device_status_raise_count(a.trouble, *a.set.count, a.set.capacity);
        device_status_raise_count(a.trouble, *a.other.count, a.other.capacity);
    }
    if (i < voxel_set_count(a.set)) {
        a.mask[i] = choose_member(a, i);
    }
}

} // namespace spira

#endif
