// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm_groups.cuh: GroupNorm and instance norm on the GPU. What they are, and the host loop:
// norm_groups.h.
#ifndef SPIRA_NORM_GROUPS_CUH
#define SPIRA_NORM_GROUPS_CUH

#include "norm/batch.cuh"

namespace spira {

// Bytes of scratch for norm_groups.
template <typename W>
SPIRA_API status norm_groups_workspace(const norm_groups_args<W> *args, size_t *bytes) {
    SPIRA_TRY(norm_groups_check(args));
    norm_groups_places p;
    return workspace_measure(bytes, [&](workspace *w) {
        norm_groups_carve(w, args->layout->batches, args->channels, &p);
    });
}

// Normalises over all voxels of a batch element and the channels of a group.
//
// inputs   args: see norm_groups_args. `format` is the only format that is compiled
// outputs  args.out [count, channels]. Rows from the count on are not written; a count above the
//          capacity is clamped
// errors   an epsilon that is not above 0; groups that do not divide the channels
// Asynchronous, deterministic: sums are fp32, in an order that depends on the numbers of voxels and
// channels alone; norm_groups_host sums in double. A NaN or an infinity spreads over its batch
// element and group.
// cost     three launches; features are read twice, and written once. Widest if channels is a
//          multiple of 8 and all arrays are aligned to 16 bytes
template <typename W, numeric format = numeric_any>
SPIRA_API status norm_groups(const norm_groups_args<W> *args, void *scratch, size_t scratch_bytes,
                             cudaStream_t stream) {
    SPIRA_TRY(norm_groups_check(args));
    const unsigned batches = (unsigned)args->layout->batches;
    const unsigned parts = (unsigned)norm_parts(args->channels);
    norm_groups_task<W> t = {*args, *args->layout, {}, false};
    t.wide = args->channels % norm_group == 0 && wide_aligned(args->in, 16) &&
             wide_aligned(args->residual, 16) && wide_aligned(args->out, 16);
    SPIRA_TRY(workspace_open(scratch, scratch_bytes, [&](workspace *w) {
        norm_groups_carve(w, batches, args->channels, &t.places);
    }));
    const int64_t blocks =
        ceil_div((int64_t)args->set.capacity * ceil_div(args->channels, norm_group), norm_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "set.capacity * channels", blocks);
    const auto launch = [&](dim3 grid) -> launch_config {
        return {grid, norm_threads, stream, "norm_groups"};
    };
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        SPIRA_TRY(kernel_launch(norm_part_kernel<W, E>, launch(dim3(parts, batches)), t));
        SPIRA_TRY(
            kernel_launch(norm_join_kernel<W>, launch(dim3((unsigned)args->groups, batches)), t));
        return kernel_launch(norm_apply_kernel<W, E>, launch((unsigned)blocks), t);
    });
}

} // namespace spira

#endif
