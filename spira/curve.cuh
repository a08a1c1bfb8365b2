// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/curve.cuh: the order of a voxel set along a space-filling curve, on the GPU. What it is,
// and the host loop: curve.h.
#ifndef SPIRA_CURVE_CUH
#define SPIRA_CURVE_CUH

#include "index/curve_write.cuh"

namespace spira {

// Bytes of scratch for curve_order. Reads set.capacity alone.
template <typename W>
SPIRA_API status curve_order_workspace(const curve_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(capacity_check(args->set.capacity, "set.capacity"));
    radix_voxels s;
    return workspace_measure(bytes,
                             [&](workspace *w) { radix_voxels_carve(w, args->set.capacity, &s); });
}

// Orders the voxels of a set along a curve.
//
// outputs  args.code: of each voxel up to the count
//          args.order: a permutation of the rows up to the count, codes ascending; voxels of one
//          code in their order in the set. The rest of it is unspecified
//          args.rank: its inverse
//          args.trouble: device_flag_range with the first voxel whose cell is off the curve (it is
//          moved to the nearest cell that is on it); device_flag_capacity with a count above the
//          capacity
// errors   codes of more than 63 bits
// Asynchronous, deterministic, equal to curve_order_host.
// cost     a radix sort: two launches and one for each eight bits of the codes; one more for ranks
template <typename W>
SPIRA_API status curve_order(const curve_args<W> *args, void *scratch, size_t scratch_bytes,
                             cudaStream_t stream) {
    SPIRA_TRY(curve_check(args));
    radix_voxels s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { radix_voxels_carve(w, args->set.capacity, &s); }));
    const launch_config as = radix_voxels_launch(args->set, stream, "curve_order");
    SPIRA_TRY(radix_voxels_sort(&s, curve_keys<W>{*args, *args->layout},
                                curve_bits(args->layout, args->depth) + 1, args->order, as));
    return args->rank ? kernel_launch(curve_rank_kernel<W>, as, *args) : status_success();
}

} // namespace spira

#endif
