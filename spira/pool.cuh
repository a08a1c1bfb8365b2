// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/pool.cuh: pooling on the GPU. `format` is the only format that is compiled; numeric_any:
// all four, chosen by args->type.
#ifndef SPIRA_POOL_CUH
#define SPIRA_POOL_CUH

#include "pool/kernel.cuh"

namespace spira {

// Local max or average pooling over a kernel map.
//
// outputs  args->out: 0 where there is no source; rows from the count on are not written
// Asynchronous, deterministic, equal to pool_host; one launch.
template <numeric format = numeric_any>
SPIRA_API status pool(const pool_args *args, cudaStream_t stream) {
    SPIRA_TRY(pool_check(args));
    const int64_t blocks = ceil_div((int64_t)args->capacity * args->channels, pool_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return kernel_launch(pool_kernel<typename decltype(tag)::element>,
                             {(unsigned)blocks, pool_threads, stream, "pool"}, *args);
    });
}

// Global max or average pooling: one row for each batch index.
//
// outputs  args->out: 0 for a batch index without voxels
// errors   more than 65535 batch indices
// Asynchronous, deterministic: partial sums in fp32, joined in order; two launches.
template <typename W, numeric format = numeric_any>
SPIRA_API status pool_global(const pool_global_args<W> *args, void *scratch, size_t scratch_bytes,
                             cudaStream_t stream) {
    pool_global_places places;
    SPIRA_TRY(pool_global_check(args));
    SPIRA_TRY(pool_global_carve(args, scratch, scratch_bytes, &places));
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return pool_global_reduce<E>(pool_join_kernel<W, E>, *args, places, true, stream);
    });
}

// ---- gradient -----------------------------------------------------------------------------------

// The gradient of `pool`: what each input of a maximum or an average gets.
//
// outputs  args->in_grad: fp32 sums in the order of the offsets, rounded once; 0 for an input
//          without outputs. Rows from the count on are not written
// Asynchronous, deterministic, equal to pool_grad_host; one launch, no scratch, no atomics.
// cost     for each pair and channel, `volume` entries of the map; of a maximum, also the
//          sources of the pair's output
template <numeric format = numeric_any>
SPIRA_API status pool_grad(const pool_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(pool_grad_check(args));
    const int64_t blocks = ceil_div((int64_t)args->capacity * args->channels, pool_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        return kernel_launch(pool_grad_kernel<typename decltype(tag)::element>,
                             {(unsigned)blocks, pool_threads, stream, "pool_grad"}, *args);
    });
}

// The gradient of `pool_global`.
//
// outputs  args->in_grad, rounded once; rows from the count on are not written
// Asynchronous, deterministic, equal to pool_global_grad_host; two launches, three of a maximum.
template <typename W, numeric format = numeric_any>
SPIRA_API status pool_global_grad(const pool_global_grad_args<W> *args, void *scratch,
                                  size_t scratch_bytes, cudaStream_t stream) {
    pool_global_places places;
    SPIRA_TRY(pool_global_grad_check(args));
    SPIRA_TRY(pool_global_carve(args, scratch, scratch_bytes, &places));
    const bool max = args->kind == pool_max;
    const int64_t blocks =
        ceil_div((int64_t)args->set.capacity * args->channels, pool_global_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "set.capacity * channels", blocks);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        SPIRA_TRY(pool_global_reduce<E>(pool_winner_kernel<W, E>, *args, places, max, stream));
        return pool_global_start(pool_global_grad_kernel<W, E>, (unsigned)blocks, *args, places,
                                 stream);
    });
}

} // namespace spira

#endif
