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
// errors   null or misaligned pointers; sizes; an epsilon that is not above 0
// Asynchronous, deterministic, equal to norm_host (a NaN may have other bits; silu and gelu differ
// by the rounding of exp and erf). A NaN or an infinity stays in its
// row.
// cost     one launch, no scratch: each row is read and written once. Widest if channels is a
//          multiple of 8 and all arrays are aligned to 16 bytes
template <numeric format = numeric_any>
SPIRA_API status norm(const norm_args *args, cudaStream_t stream) {
    SPIRA_TRY(norm_check(args));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return norm_launch<typename decltype(tag)::element>(args, stream);
    });
}

} // namespace spira

#endif
