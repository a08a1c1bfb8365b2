// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel/source.cuh: points or coordinates as a source of the sort (sort_source.cuh), and the
// kernel that moves points in double.
#ifndef SPIRA_VOXEL_SOURCE_CUH
#define SPIRA_VOXEL_SOURCE_CUH

#include "../base/launch.cuh"
#include "../index/sort_source.cuh"
#include "../voxel.h"

namespace spira {

enum { voxel_shift_threads = 256 };

// A thread for each value.
SPIRA_PLAIN_KERNEL void __launch_bounds__(voxel_shift_threads)
    voxel_shift_kernel(voxel_shift_args a) {
    const int64_t i = (int64_t)blockIdx.x * voxel_shift_threads + threadIdx.x;
    if (i < (int64_t)count_clamp(*a.count, a.rows) * a.columns) {
        a.points[i] = voxel_shift_value(a, i);
    }
}

// The input as a source of the sort (index/sort_source.cuh), whose kernels pack the words.
template <typename W, bool points, bool ranged>
struct voxelize_source {
    word_layout layout;
    voxel_input in;
    device_status *trouble;
};

template <typename W, bool points, bool ranged>
SPIRA_DEVICE int32_t sort_rows(const voxelize_source<W, points, ranged> &from) {
    return *from.in.count;
}

// Rows behind the count are not read: they may be uninitialised.
template <typename W, bool points, bool ranged>
SPIRA_DEVICE voxel_raw sort_load(const voxelize_source<W, points, ranged> &from, int32_t row) {
    return voxel_load<points>(&from.in, row);
}

template <typename W, bool points, bool ranged>
SPIRA_DEVICE W sort_word(const voxelize_source<W, points, ranged> &from, const voxel_raw &raw,
                         int32_t row, int32_t there, bool report) {
    if (report && row == 0) {
        device_status_raise_count(from.trouble, there, from.in.rows);
    }
    if (row >= there) {
        return word_none<W>();
    }
    W word;
    voxel_verdict verdict = voxel_word<points, ranged>(&from.layout, &from.in, &raw, &word);
    if (!report || verdict == voxel_good) {
        return word;
    }
    if (ranged && verdict == voxel_outside) {
        device_status_count(&from.trouble->outside, 1);
    } else if (points && verdict == voxel_not_finite && from.in.drop_not_finite) {
        device_status_count(&from.trouble->dropped_not_finite, 1);
    } else {
        device_status_raise(
            from.trouble, verdict == voxel_not_finite ? device_flag_not_finite : device_flag_range,
            (uint32_t)row);
    }
    return word;
}

} // namespace spira

#endif
