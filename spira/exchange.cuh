// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/exchange.cuh: kernel maps in the forms that other engines read, on the GPU.
#ifndef SPIRA_EXCHANGE_CUH
#define SPIRA_EXCHANGE_CUH

#include "exchange.h"
#include "index/exchange_lists.cuh"

namespace spira {

// Writes pair lists in an engine's form (exchange_spconv, exchange_torchsparse,
// exchange_minkowski).
//
// inputs   pairs: from map_build_lists, in device memory. Offsets that they leave out (half or
//          hybrid maps) have empty lists
// outputs  to: the arrays of an engine, which must not overlap pairs; of lists that follow one
//          another, entries behind the last pair are not written
//          trouble: a list longer than `stride` is cut off; `needed` is the length of the longest
// Asynchronous, deterministic, equal to exchange_host. No scratch.
// cost     reads 8 bytes a pair; writes as many, or 8 * volume * stride; one launch
SPIRA_LAUNCHER status exchange(const map_lists *pairs, const exchange_lists *to,
                               device_status *trouble, cudaStream_t stream) {
    SPIRA_TRY(exchange_check(pairs, to, trouble));
    const int64_t volume = exchange_volume(to), longest = to->stride ? to->stride : pairs->capacity;
    int64_t blocks = ceil_div(longest, exchange_chunk);
    if (!to->stride) { // one list rarely has most of the pairs, so fewer thread blocks are enough
        const int64_t even = ceil_div(longest, volume * exchange_chunk);
        blocks = min_of(blocks, max_of(even, ceil_div(exchange_blocks, volume)));
    }
    return kernel_launch(
        exchange_lists_kernel<>,
        {dim3((unsigned)blocks, (unsigned)volume), exchange_threads, stream, "exchange"}, *to,
        *pairs, trouble);
}

} // namespace spira

#endif
