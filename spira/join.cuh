// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/join.cuh: unions and projections of sets on the GPU, and sums of their features. What they
// are, and the host loops: join.h.
//
// The words of all sets become one sorted array with repeats (index/join_merge.cuh). The result is
// made from it as voxels are made from sorted points (index/unique.cuh).
#ifndef SPIRA_JOIN_CUH
#define SPIRA_JOIN_CUH

#include "device.h"
#include "index/join_merge.cuh"
#include "join.h"
#include "join/sum.cuh"

namespace spira {

// Bytes of scratch for join. Reads `sets`, `axis` and the capacities alone.
template <typename W>
SPIRA_API status join_workspace(const join_args<W> *args, size_t *bytes) {
    int32_t total;
    SPIRA_TRY(join_sources(args, &total));
    SPIRA_TRY(size_check(args->out.capacity, 1, INT64_MAX, "out.capacity"));
    join_scratch<W> s;
    return workspace_measure(bytes, [&](workspace *w) { join_carve(w, args, total, &s); });
}

// The union of up to four sets, the projection of a set along an axis, or the projection of a
// union.
//
// inputs   args: see join_args. All sets have words of args.words
// outputs  args.out: the set, then word_none(), and its count
//          args.rows: begin [count + 1], order [begin[count]]: the source rows of each voxel; the
//          rest is unspecified
//          args.trouble: the count of a set above its capacity; the number of voxels, if it is
//          above out.capacity. Voxels that do not fit are left out
// errors   2^30 or more source rows; `at` outside of the layout; `out` that is one of the sets
// Asynchronous, deterministic, equal to join_host. Nothing may overlap.
// cost     three small kernels; a binary search of each other set for each source row. Where x or y
//          is dropped, a radix sort of the words with their rows instead of the search
template <typename W>
SPIRA_API status join(const join_args<W> *args, void *scratch, size_t scratch_bytes,
                      cudaStream_t stream) {
    int32_t total;
    SPIRA_TRY(join_check(args));
    SPIRA_TRY(join_sources(args, &total));
    join_scratch<W> s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { join_carve(w, args, total, &s); }));
    const join_task<W> task = join_task_make(args, total);
    const unsigned blocks = (unsigned)ceil_div(total, join_threads);
    if (join_sorts(args->axis)) {
        const int bits = word_bits(args->layout);
        SPIRA_TRY(kernel_launch(join_words_kernel<W>, {blocks, join_threads, stream, "join"}, task,
                                radix_input(&s.radix, s.sorted, 0, bits)));
        SPIRA_TRY(radix_sort<true>(&s.radix, s.sorted, args->rows.order, 0, bits, stream));
    } else {
        SPIRA_TRY(kernel_launch(join_merge_kernel<W>, {blocks, join_threads, stream, "join"}, task,
                                s.sorted, args->rows.order));
    }
    const voxel_rows rows = {s.voxel, args->rows.order, args->rows.begin};
    return unique_launch<W>({s.sorted, total, s.heads, args->out, rows, false, args->trouble},
                            stream);
}

// The features of a joined set: sums over the source rows of each voxel.
//
// inputs   args: see join_sum_args; rows and count of `join`. `format` is the only format that is
//          compiled; int8 only where it is named
// outputs  args.out [count, channels]: sums in fp32, in the order of the rows (join.h), rounded
//          once. Rows from the count on are not written
// errors   `out` that is one of `in`
// Asynchronous, deterministic, equal to join_sum_host (a NaN may have other bits).
// cost     one launch, no scratch; it reads each source row once. Reads and writes are widest if
//          channels is a multiple of 8 and the arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status join_sum(const device_info *gpu, const join_sum_args *args, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(join_sum_check(args));
    join_sum_task task;
    unsigned blocks;
    SPIRA_TRY(join_sum_task_make(args, args->in, args->out, &task, &blocks));
    memcpy(task.scale, args->scale, sizeof task.scale);
    task.out_inverse = args->out_inverse;
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(
            join_sum_kernel<E>,
            {blocks, join_sum_threads, stream, "join_sum", args->programmatic && gpu->programmatic},
            task);
    });
}

// ---- gradient -----------------------------------------------------------------------------------

// The gradient of `join_sum`: each source row gets that of its voxel.
//
// inputs   `format` as in join_sum; args: see join_sum_grad_args; arrays in device memory; rows and count of `join`
// outputs  args.in_grad, all rows of each set that is wanted: the gradient of the row's voxel; 0 for
//          a row that has none (beyond its set's count, or the result's capacity)
// errors   an in_grad that is out_grad; no set that is wanted
// Asynchronous, deterministic, equal to join_sum_grad_host; a memset for each set, and one launch.
template <numeric format = numeric_any>
SPIRA_API status join_sum_grad(const join_sum_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(join_sum_grad_check(args));
    join_sum_task task;
    unsigned blocks;
    SPIRA_TRY(join_sum_task_make(args, args->in_grad, args->out_grad, &task, &blocks));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        for (int s = 0; s < args->sets; ++s) {
            if (args->in_grad[s]) {
                SPIRA_TRY(status_from_cuda(
                    cudaMemsetAsync(args->in_grad[s], 0, join_sum_grad_bytes(args, s), stream),
                    "join_sum_grad"));
            }
        }
        return kernel_launch(join_sum_grad_kernel<typename decltype(tag)::element>,
                             {blocks, join_sum_threads, stream, "join_sum_grad"}, task);
    });
}

} // namespace spira

#endif
