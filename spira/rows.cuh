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
        return row_launch(row_gather_kernel<typename decltype(tag)::element>, "row_gather", args,
                          row_gather_repeat(args), stream);
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
        return row_launch(row_blend_kernel<typename decltype(tag)::element>, "row_blend", args, 1,
                          stream);
    });
}

} // namespace spira

#endif
