// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/prune.cuh: the subset of a voxel set that a mask or a channel chooses, on the GPU. The rule
// and the host loop are in prune.h.
#ifndef SPIRA_PRUNE_CUH
#define SPIRA_PRUNE_CUH

#include "index/prune_write.cuh"
#include "prune.h"

namespace spira {

// Bytes of scratch for prune. Reads in.capacity alone.
template <typename W>
SPIRA_API status prune_workspace(const prune_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(size_check(args->in.capacity, 1, INT64_MAX, "in.capacity"));
    prune_scratch s;
    return workspace_measure(bytes, [&](workspace *w) { prune_carve(w, args->in.capacity, &s); });
}

// Keeps the voxels of a set that a mask or a channel of their features chooses.
//
// inputs   args: see prune_args. `format` is the only format of scores that is compiled
// outputs  args.out: the chosen voxels, then word_none(), and their count
//          args.source [count]: the row of `in` of each; the rest is not written
//          args.trouble: device_flag_not_finite with the first row whose score is NaN;
//          device_flag_capacity with a count of `in` or a number of voxels above the capacity.
//          Voxels that do not fit are left out
// errors   a mask with members of scores; `out` that is `in`
// Asynchronous, deterministic, equal to prune_host.
// cost     three small kernels; each row is read once
template <typename W, numeric format = numeric_any>
SPIRA_API status prune(const prune_args<W> *args, void *scratch, size_t scratch_bytes,
                       cudaStream_t stream) {
    SPIRA_TRY(prune_check(args));
    prune_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { prune_carve(w, args->in.capacity, &s); }));
    const prune_task<W> task = {*args, s};
    const int32_t tiles = choice_tiles(args->in.capacity);
    SPIRA_TRY(choice_dispatch<format>(args->choice, [&](auto element) {
        return kernel_launch(prune_mark_kernel<W, decltype(element)>,
                             {(unsigned)tiles, choice_tile, stream, "prune"}, task);
    }));
    SPIRA_TRY(
        kernel_launch(choice_scan_kernel<>, {1, map_scan_threads, stream, "prune"}, s.sums, tiles));
    const unsigned blocks = choice_blocks(args->in.capacity, args->out.capacity);
    return kernel_launch(prune_write_kernel<W>, {blocks, choice_tile, stream, "prune"}, task);
}

} // namespace spira

#endif
