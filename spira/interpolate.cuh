// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/interpolate.cuh: the voxels around points on the GPU. What they are, and the host loop:
// interpolate.h.
#ifndef SPIRA_INTERPOLATE_CUH
#define SPIRA_INTERPOLATE_CUH

#include "index/interpolate_point.cuh"

namespace spira {

// Finds the voxels around points, and their weights.
//
// outputs  args.index, args.weight: of each point up to the count; -1 and 0 where the set has no
//          such voxel. Rows from the count on are not written
//          args.trouble: device_flag_not_finite with the first point that is not finite,
//          device_flag_range with the first one of a batch index that there is not (neither has
//          voxels); a count of the set above its capacity
// errors   weights for interpolate_nearest
// Asynchronous, deterministic, equal to interpolate_find_host. Nothing may overlap.
// cost     one launch, no scratch; a binary search of the set for each voxel around a point
template <typename W>
SPIRA_API status interpolate_find(const interpolate_args<W> *args, cudaStream_t stream) {
    SPIRA_TRY(interpolate_check(args));
    const unsigned blocks = (unsigned)ceil_div(args->rows, interpolate_threads);
    return kernel_launch(interpolate_kernel<W>,
                         {blocks, interpolate_threads, stream, "interpolate_find"}, *args,
                         *args->layout);
}

} // namespace spira

#endif
