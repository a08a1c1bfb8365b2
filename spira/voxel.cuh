// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel.cuh: voxelisation on the GPU. Includes the features of voxels, voxel_features.cuh.
//
// voxelize packs each row into a word and sorts words with their rows (index/sort.cuh), drops what
// is beyond the caller's cap (voxel/cap.cuh), then removes repeats and numbers the voxels
// (index/unique.cuh). The input and the host loop are in voxel.h.
#ifndef SPIRA_VOXEL_CUH
#define SPIRA_VOXEL_CUH

#include "index/sort.cuh"
#include "index/unique.cuh"
#include "voxel.h"
#include "voxel/cap.cuh"
#include "voxel/source.cuh"
#include "voxel_features.cuh"

namespace spira {

template <typename W>
struct voxelize_scratch {
    W *sorted; // [rows]
    int32_t *heads;
    sort_scratch<W> sort;
    cap_scratch<W> cap;
};

template <typename W>
SPIRA_API void voxelize_carve(workspace *w, const voxel_input *in, int32_t capacity,
                              voxelize_scratch<W> *s) {
    s->sorted = workspace_take<W>(w, in->rows);
    s->heads = workspace_take<int32_t>(w, unique_cut_make(in->rows, capacity).blocks);
    cap_carve(w, in, &s->cap);
    sort_carve(w, in->rows, &s->sort);
}

// Sorts the words of all rows of an input (sort_source).
template <bool ranged = false, typename W>
SPIRA_API status voxelize_sort(const voxelize_args<W> *args, W *sorted, int32_t *order,
                               sort_scratch<W> *s, cudaStream_t stream) {
    const auto sort = [&](auto points) {
        const voxelize_source<W, points, ranged> from = {*args->layout, *args->input,
                                                         args->trouble};
        return sort_source(from, word_bits(args->layout), sorted, order, s, stream);
    };
    return args->input->points ? sort(std::true_type()) : sort(std::false_type());
}

// Bytes of scratch for voxelize: rows of `in` into a set of `capacity`.
template <typename W>
SPIRA_API status voxelize_workspace(const voxel_input *in, int32_t capacity, size_t *bytes) {
    SPIRA_TRY(voxel_input_check(in));
    SPIRA_TRY(size_check(capacity, 1, INT64_MAX, "capacity"));
    voxelize_scratch<W> s;
    return workspace_measure(bytes, [&](workspace *w) { voxelize_carve(w, in, capacity, &s); });
}

// Moves points by an origin in double, then rounds them to float.
//
// inputs, outputs, errors  as voxel_shift_host; arrays in device memory, args on the host
// Asynchronous, deterministic, bit-identical to voxel_shift_host; one launch.
SPIRA_LAUNCHER status voxel_shift(const voxel_shift_args *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_shift_check(args));
    const int64_t blocks = ceil_div((int64_t)args->rows * args->columns, voxel_shift_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "rows * columns", blocks);
    return kernel_launch(voxel_shift_kernel<>,
                         {(unsigned)blocks, voxel_shift_threads, stream, "voxel_shift"}, *args);
}

// What voxelize compiles.
enum voxel_limits { voxel_limits_none, voxel_limits_any };

// Voxelises points or integer coordinates (Spira paper: packed-native processing).
//
// limits   voxel_limits_any compiles the kernels for a range and a cap, too. voxel_limits_none
//          compiles the plain ones alone, and refuses an input with a range or a cap
// inputs   args: see voxelize_args; all arrays in device memory
// outputs  args.set, args.rows and args.trouble: as voxelize_host
// errors   a layout of another word, a cap with more than 4096 batch indices
// Asynchronous, deterministic, bit-identical to voxelize_host.
// cost     a sort of (word, row) pairs, in three launches up to 2^19 rows, and two small kernels; a
//          cap adds four small kernels, a range none
template <typename W, voxel_limits limits = voxel_limits_none>
SPIRA_API status voxelize(const voxelize_args<W> *args, void *scratch, size_t scratch_bytes,
                          cudaStream_t stream) {
    SPIRA_TRY(voxelize_check(args));
    SPIRA_TRY(voxel_input_check(args->input));
    const word_layout *layout = args->layout;
    const voxel_input *in = args->input;
    voxelize_scratch<W> s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { voxelize_carve(w, in, args->set.capacity, &s); }));
    W *sorted = s.cap.sorted ? s.cap.sorted : s.sorted;
    int32_t *order = s.cap.sorted ? s.cap.order : args->rows.order;
    if constexpr (limits == voxel_limits_none) {
        SPIRA_REQUIRE(!voxel_is_ranged(in) && !voxel_is_capped(in), status_unsupported,
                      "input (a range or a cap: call voxelize<W, voxel_limits_any>)", 0);
        SPIRA_TRY(voxelize_sort(args, sorted, order, &s.sort, stream));
    } else {
        const bool many = in->batch && layout->batches > cap_batches_max;
        SPIRA_REQUIRE(!s.cap.sorted || !many, status_unsupported,
                      "input.max_voxels (with so many batch indices)", layout->batches);
        SPIRA_TRY(voxel_is_ranged(in) ? voxelize_sort<true>(args, sorted, order, &s.sort, stream)
                                      : voxelize_sort(args, sorted, order, &s.sort, stream));
        if (s.cap.sorted) {
            SPIRA_TRY(cap_launch(cap_task_make(args, s.cap, s.sorted), stream));
        }
    }
    const bool report = in->duplicates == duplicates_report;
    return unique_launch<W>(
        {s.sorted, in->rows, s.heads, args->set, args->rows, report, args->trouble}, stream);
}

} // namespace spira

#endif
