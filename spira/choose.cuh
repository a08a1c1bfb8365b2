// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/choose.cuh: masks for `prune` on the GPU. What they are, and the host loops: choose.h.
#ifndef SPIRA_CHOOSE_CUH
#define SPIRA_CHOOSE_CUH

#include "index/choose_write.cuh"

namespace spira {

// Bytes of scratch for choose_largest. Reads set.capacity alone.
template <typename W>
SPIRA_API status choose_largest_workspace(const choose_largest_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(capacity_check(args->set.capacity, "set.capacity"));
    choose_scratch s;
    return workspace_measure(bytes, [&](workspace *w) { choose_carve(w, args->set.capacity, &s); });
}

// Chooses the voxels with the largest scores of each batch element.
//
// inputs   args: see choose_largest_args. `format` is the only format of scores that is compiled
// outputs  args.mask: of each voxel up to the count. Of equal scores the first in the order of the
//          set are chosen. NaN is never chosen
//          args.trouble: device_flag_not_finite with the first row whose score is NaN;
//          device_flag_capacity with a count above the capacity
// Asynchronous, deterministic, equal to choose_largest_host.
// cost     a radix sort of 33 bits and those of the batch: eight launches for one batch element
template <typename W, numeric format = numeric_any>
SPIRA_API status choose_largest(const choose_largest_args<W> *args, void *scratch,
                                size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(choose_largest_check(args));
    choose_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { choose_carve(w, args->set.capacity, &s); }));
    const launch_config as = radix_voxels_launch(args->set, stream, "choose_largest");
    SPIRA_TRY(numeric_dispatch<format>(args->type, [&](auto tag) {
        const choose_keys<W, typename decltype(tag)::element> of = {*args, *args->layout};
        return radix_voxels_sort(&s.voxels, of, 33 + args->layout->width_batch, s.order, as);
    }));
    return kernel_launch(choose_mark_kernel<W>, as, *args, s);
}

// Chooses the voxels that another set has (an intersection), or lacks (a difference). Unions:
// join.cuh.
//
// outputs  args.mask: of each voxel of `set` up to the count
//          args.trouble: device_flag_capacity with a count above its capacity
// Asynchronous, deterministic, equal to choose_members_host.
// cost     one launch; a binary search for each voxel
template <typename W>
SPIRA_API status choose_members(const choose_members_args<W> *args, cudaStream_t stream) {
    SPIRA_TRY(choose_members_check(args));
    return kernel_launch(choose_members_kernel<W>,
                         radix_voxels_launch(args->set, stream, "choose_members"), *args);
}

} // namespace spira

#endif
