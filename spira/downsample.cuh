// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/downsample.cuh: coarser coordinate sets on the GPU.
//
// The rule and the host loop are in downsample.h. From one level to the next no sort is needed
// (index/downsample_grid.cuh). Any other stride takes a floor, a radix sort and the removal of
// repeats.
#ifndef SPIRA_DOWNSAMPLE_CUH
#define SPIRA_DOWNSAMPLE_CUH

#include "device.h"
#include "downsample.h"
#include "index/downsample_rank.cuh"

namespace spira {

// Bytes of scratch for downsample.
template <typename W>
SPIRA_API status downsample_workspace(voxel_set<W> in, int32_t out_capacity, size_t *bytes) {
    SPIRA_TRY(size_check(in.capacity, 1, INT64_MAX, "in.capacity"));
    SPIRA_TRY(size_check(out_capacity, 1, INT64_MAX, "out.capacity"));
    downsample_scratch<W> s;
    return workspace_measure(
        bytes, [&](workspace *w) { downsample_carve(w, in.capacity, out_capacity, &s); });
}

// Floors the set `in` to `stride` (Spira paper: packed-native processing).
//
// inputs   args: see downsample_args. Powers of two are floored by a mask, other strides by
//          unpacking. Steps between powers of two that at most double x and y need no sort
//          (downsample_is_step): build each level of a network from the one before, and say its
//          stride in `from`. With gpu->programmatic the second kernel of a step begins while the
//          first one ends
// outputs  args.out: the coarse set, then word_none(), and its count
//          args.trouble: device_flag_lattice with the first voxel that is off the lattice of
//          `from`: it is left out if x or y is no multiple, else floored as any other;
//          device_flag_capacity with a count of `in` or a number of outputs above the capacity
// errors   a stride beyond the layout's, a `from` that does not divide it
// Asynchronous, deterministic, equal to downsample_host.
// cost     a step: two kernels, with up to three and six binary searches a voxel in shared memory,
//          or in the set where planes are too long for it. Any other: a radix sort of the bits that
//          the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample(const device_info *gpu, const downsample_args<W> *args, void *scratch,
                            size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(downsample_check(args));
    downsample_scratch<W> s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes, [&](workspace *w) {
        downsample_carve(w, args->in.capacity, args->out.capacity, &s);
    }));
    return downsample_is_step(downsample_from_of(args), args->stride)
               ? downsample_step_launch(gpu, args, s.marks, stream)
               : downsample_sort_launch(args, s.sort, stream);
}

} // namespace spira

#endif
