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
        return row_launch(row_gather_kernel<typename decltype(tag)::element>, args,
                          {(int64_t)args->channels * repeat, aligned, args->in, args->out},
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
                          {args->channels, true, args->in_grad, args->out_grad},
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
                          {args->channels, true, args->in, args->out}, {stream, "row_blend"});
    });
}

} // namespace spira

#endif
