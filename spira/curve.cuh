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
    curve_scratch s;
    return workspace_measure(bytes, [&](workspace *w) { curve_carve(w, args->set.capacity, &s); });
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
    curve_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { curve_carve(w, args->set.capacity, &s); }));
    const int bits = curve_bits(args->layout, args->depth);
    const unsigned blocks = (unsigned)ceil_div(args->set.capacity, curve_threads);
    SPIRA_TRY(kernel_launch(curve_code_kernel<W>, {blocks, curve_threads, stream, "curve_order"},
                            *args, *args->layout, (uint64_t)1 << bits,
                            radix_input(&s.radix, s.sorted, 0, bits + 1)));
    SPIRA_TRY(radix_sort<true>(&s.radix, s.sorted, args->order, 0, bits + 1, stream));
    return args->rank ? kernel_launch(curve_rank_kernel<W>,
                                      {blocks, curve_threads, stream, "curve_order"}, *args)
                      : status_success();
}

} // namespace spira

#endif
