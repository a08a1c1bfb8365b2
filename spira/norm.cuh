// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm.cuh: LayerNorm and RMSNorm on the GPU, and their gradients. What they are, and the
// host loop: norm.h.
#ifndef SPIRA_NORM_CUH
#define SPIRA_NORM_CUH

#include "norm/grad.cuh"
#include "workspace.h"

namespace spira {

// Normalises rows over their channels.
//
// inputs   args: see norm_args. `format` is the only format that is compiled
// outputs  args.out [count, channels]. Rows from the count on are not written; a count above the
//          capacity is clamped
// errors   an epsilon that is not above 0
// Asynchronous, deterministic, equal to norm_host (a NaN may have other bits; silu and gelu differ
// by the rounding of exp and erf). A NaN or an infinity stays in its row.
// cost     one launch, no scratch: each row is read and written once; above 1024 channels it is
//          read three times. Widest if channels is a multiple of 8 and all arrays are aligned to
//          16 bytes
template <numeric format = numeric_any>
SPIRA_API status norm(const norm_args *args, cudaStream_t stream) {
    SPIRA_TRY(norm_check(args));
    const int lanes = norm_row_lanes(args->channels, norm_lanes);
    const bool wide = args->channels % norm_group == 0 && wide_aligned(args->in, 16) &&
                      wide_aligned(args->out, 16) && wide_aligned(args->residual, 16) &&
                      wide_aligned(args->gain, 16) && wide_aligned(args->shift, 16);
    const norm_cut cut = {bits_for((uint64_t)lanes) - 1, wide, 1.0f / (float)args->channels};
    const int64_t blocks = ceil_div((int64_t)args->capacity * lanes, norm_threads);
    const int64_t held = ceil_div(args->channels, lanes * norm_group);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        void (*const kernel)(const norm_args, const norm_cut) = held <= 1   ? norm_kernel<E, 1>
                                                                : held <= 4 ? norm_kernel<E, 4>
                                                                            : norm_kernel<E, 0>;
        return kernel_launch(kernel, {(unsigned)blocks, norm_threads, stream, "norm"}, *args, cut);
    });
}

// ---- gradients ----------------------------------------------------------------------------------

SPIRA_API norm_pair *norm_grad_take(workspace *w, const norm_args &rows) {
    return workspace_take<norm_pair>(w, (int64_t)norm_grad_parts(rows.channels, rows.capacity) *
                                            rows.channels);
}

// Bytes of scratch for norm_grad.
SPIRA_API status norm_grad_workspace(const norm_grad_args *args, size_t *bytes) {
    SPIRA_TRY(norm_grad_check(args));
    return workspace_measure(bytes, [&](workspace *w) { norm_grad_take(w, args->norm); });
}

// The gradients of norm.
//
// inputs   args: see norm_grad_args
// outputs  args.in_grad [count, channels], gain_grad and shift_grad [channels]
// errors   as of norm; an activation, a residual or an output in args.norm
// Asynchronous, deterministic: sums are fp32, in an order that depends on the numbers of rows and
// channels and the capacity alone; norm_grad_host sums in double. A NaN or an infinity stays in its
// row of in_grad.
// cost     two launches, one without gain_grad and shift_grad; features and out_grad are read once,
//          in_grad is written once. Widest as of norm
template <numeric format = numeric_any>
SPIRA_API status norm_grad(const norm_grad_args *args, void *scratch, size_t scratch_bytes,
                           cudaStream_t stream) {
    SPIRA_TRY(norm_grad_check(args));
    const norm_args &rows = args->norm;
    const int lanes = norm_row_lanes(rows.channels, norm_threads);
    const int parts = norm_grad_parts(rows.channels, rows.capacity);
    const bool wide = rows.channels % norm_group == 0 && wide_aligned(rows.in, 16) &&
                      wide_aligned(args->out_grad, 16) && wide_aligned(args->in_grad, 16);
    norm_grad_task t = {
        *args, nullptr, {bits_for((uint64_t)lanes) - 1, wide, 1.0f / (float)rows.channels}};
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { t.part = norm_grad_take(w, rows); }));
    SPIRA_TRY(numeric_dispatch<format>(rows.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(rows.channels <= lanes * norm_group ? norm_grad_kernel<E, 1>
                                                                 : norm_grad_kernel<E, 2>,
                             {(unsigned)parts, norm_threads, stream, "norm_grad"}, t);
    }));
    return norm_vectors_launch({t.part, parts, rows.channels, args->shift_grad, args->gain_grad},
                               "norm_grad", stream);
}

} // namespace spira

#endif
