// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/subdivide.cuh: finer voxel sets from features on the GPU. The rule and the host loop are in
// subdivide.h.
//
// No sort: a child's place follows from how many children stand in front of its parent, of the
// parent's row of voxels and of its x-plane (index/subdivide_place.cuh).
#ifndef SPIRA_SUBDIVIDE_CUH
#define SPIRA_SUBDIVIDE_CUH

#include "index/subdivide_place.cuh"
#include "subdivide.h"

namespace spira {

// Bytes of scratch for subdivide. Reads in.capacity alone.
template <typename W>
SPIRA_API status subdivide_workspace(const subdivide_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(size_check(args->in.capacity, 1, INT64_MAX, "in.capacity"));
    subdivide_scratch s;
    return workspace_measure(bytes,
                             [&](workspace *w) { subdivide_carve(w, args->in.capacity, &s); });
}

// The children of a set's voxels that a mask or 8 numbers a voxel choose, or all.
//
// inputs   args: see subdivide_args. `format` is the only format of scores that is compiled
// outputs  args.out: the children, then word_none(), and their count
//          args.source [count]: 8 row + child number of each; the rest is not written
//          args.trouble: device_flag_not_finite with the first row that has a NaN (no child);
//          device_flag_lattice with the first voxel that is no multiple of the stride (no
//          children); device_flag_range with the first row that has a child beyond the layout
//          (left out); device_flag_capacity with a count of `in` or a number of children above the
//          capacity. Children that do not fit, the last ones, are left out
// errors   an odd stride; a mask with members of scores; `out` that is `in`
// Asynchronous, deterministic, equal to subdivide_host.
// cost     three small kernels; four binary searches a voxel
template <typename W, numeric format = numeric_any>
SPIRA_API status subdivide(const subdivide_args<W> *args, void *scratch, size_t scratch_bytes,
                           cudaStream_t stream) {
    SPIRA_TRY(subdivide_check(args));
    subdivide_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { subdivide_carve(w, args->in.capacity, &s); }));
    const bool wide = wide_aligned(args->choice.scores, 16);
    const subdivide_task<W> task = {*args, *args->layout, subdivide_half(args->stride), s, wide};
    const int32_t tiles = choice_tiles(args->in.capacity);
    SPIRA_TRY(choice_dispatch<format>(args->choice, [&](auto element) {
        return kernel_launch(subdivide_mark_kernel<W, decltype(element)>,
                             {(unsigned)tiles, choice_tile, stream, "subdivide"}, task);
    }));
    SPIRA_TRY(kernel_launch(choice_scan_kernel<>,
                            {subdivide_kinds, map_scan_threads, stream, "subdivide"}, s.sums,
                            tiles));
    const unsigned blocks = choice_blocks(args->in.capacity, args->out.capacity);
    return kernel_launch(subdivide_place_kernel<W>, {blocks, choice_tile, stream, "subdivide"},
                         task);
}

} // namespace spira

#endif
