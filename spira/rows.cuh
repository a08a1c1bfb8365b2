// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows.cuh: operations on rows of features on the GPU. What they are, and the host loops:
// rows.h.
#ifndef SPIRA_ROWS_CUH
#define SPIRA_ROWS_CUH

#include "rows.h"
#include "rows/kernel.cuh"

namespace spira {

// Gathers rows.
//
// inputs   args: see row_gather_args. `format` is the only format that is compiled
// outputs  args.out [count, channels * repeat]: copies, bit for bit. Rows from the count on are not
//          written; a count above the capacity is clamped
// errors   `out` that is `in`
// Asynchronous, deterministic, equal to row_gather_host.
// cost     one launch, no scratch. Reads and writes are widest if channels (without repeat) is a
//          multiple of 8 and both arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status row_gather(const row_gather_args *args, cudaStream_t stream) {
    SPIRA_TRY(row_gather_check(args));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        const int repeat = row_gather_repeat(args);
        const bool aligned = repeat > 1 || args->channels % row_channels == 0;
        return row_launch(
            row_gather_kernel<typename decltype(tag)::element>, args,
            {args->capacity, (int64_t)args->channels * repeat, aligned, args->in, args->out},
            {stream, "row_gather"});
    });
}

// The gradient of `row_gather`.
//
// inputs   args: see row_gather_grad_args. `format` is the only format that is compiled
// outputs  args.in_grad, all rows: the gradient of the row that has this source, over its
//          repetitions summed in fp32 and rounded once; 0 for a row that is no one's source
// errors   `in_grad` that is `out_grad`
// Asynchronous, deterministic, equal to row_gather_grad_host (a NaN may have other bits).
// cost     a memset and one launch, no scratch
template <numeric format = numeric_any>
SPIRA_API status row_gather_grad(const row_gather_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(row_gather_grad_check(args));
    SPIRA_TRY(status_from_cuda(
        cudaMemsetAsync(args->in_grad, 0, row_gather_grad_bytes(args), stream), "row_gather_grad"));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return row_launch(row_gather_grad_kernel<typename decltype(tag)::element>, args,
                          {args->capacity, args->channels, true, args->in_grad, args->out_grad},
                          {stream, "row_gather_grad"});
    });
}

// Adds up rows by weights.
//
// inputs   args: see row_blend_args. `format` is the only format that is compiled
// outputs  args.out [count, channels]: sums in fp32, rounded once. Rows from the count on are not
//          written; a count above the capacity is clamped
// errors   `out` that is `in`
// Asynchronous, deterministic, equal to row_blend_host (a NaN may have other bits).
// cost     one launch, no scratch. Reads and writes are widest if channels is a multiple of 8 and
//          both arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status row_blend(const row_blend_args *args, cudaStream_t stream) {
    SPIRA_TRY(row_blend_check(args));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return row_launch(row_blend_kernel<typename decltype(tag)::element>, args,
                          {args->capacity, args->channels, true, args->in, args->out},
                          {stream, "row_blend"});
    });
}

// ---- from points to voxels ----------------------------------------------------------------------

struct row_lists_scratch {
    radix_scratch<uint32_t> radix;
    uint32_t *sorted; // [capacity * neighbours]
};

SPIRA_API void row_lists_carve(workspace *w, const row_lists_args *a, row_lists_scratch *s) {
    const int32_t entries = a->capacity * a->neighbours;
    radix_carve(w, entries, true, &s->radix);
    s->sorted = workspace_take<uint32_t>(w, entries);
}

// Bytes of scratch for row_lists.
SPIRA_API status row_lists_workspace(const row_lists_args *args, size_t *bytes) {
    SPIRA_TRY(row_lists_check(args));
    row_lists_scratch s;
    return workspace_measure(bytes, [&](workspace *w) { row_lists_carve(w, args, &s); });
}

// Lists the entries of an index that name each row.
//
// outputs  args.begin; args.order up to begin[rows]; the rest of it is unspecified
// Asynchronous, deterministic, equal to row_lists_host.
// cost     a radix sort of as many bits as `rows` has, and two small kernels
template <typename K = uint32_t>
SPIRA_API status row_lists(const row_lists_args *args, void *scratch, size_t scratch_bytes,
                           cudaStream_t stream) {
    SPIRA_TRY(row_lists_check(args));
    row_lists_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { row_lists_carve(w, args, &s); }));
    const int bits = bits_for((uint64_t)args->rows);
    const auto launch = [&](int64_t threads) -> launch_config {
        return {(unsigned)ceil_div(threads, row_threads), row_threads, stream, "row_lists"};
    };
    SPIRA_TRY(kernel_launch(row_keys_kernel<K>, launch((int64_t)args->capacity * args->neighbours),
                            *args, radix_input(&s.radix, s.sorted, 0, bits)));
    SPIRA_TRY(radix_sort<true>(&s.radix, s.sorted, args->order, 0, bits, stream));
    return kernel_launch(row_begin_kernel<K>, launch((int64_t)args->rows + 1), *args, s.sorted);
}

// Adds up, by weights, the rows that name each row: from points to voxels.
//
// inputs   args: see row_splat_args. `format` is the only format that is compiled
// outputs  args.out [rows, channels]: sums in fp32, rounded once; 0 where no one names the row
// errors   `out` that is `in`
// Asynchronous, deterministic, equal to row_splat_host (a NaN may have other bits).
// cost     one launch, no scratch, no atomics. Reads and writes are widest if channels is a
// multiple
//          of 8 and both arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status row_splat(const row_splat_args *args, cudaStream_t stream) {
    SPIRA_TRY(row_splat_check(args));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return row_launch(row_splat_kernel<typename decltype(tag)::element>, args,
                          {args->rows, args->channels, true, args->in, args->out},
                          {stream, "row_splat"});
    });
}

} // namespace spira

#endif
