// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm.cuh: LayerNorm and RMSNorm on the GPU. What they are, and the host loop: norm.h.
#ifndef SPIRA_NORM_CUH
#define SPIRA_NORM_CUH

#include "norm/row.cuh"

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
    const int lanes = norm_row_lanes(args->channels);
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

} // namespace spira

#endif
