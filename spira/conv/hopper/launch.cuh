// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/launch.cuh: launches the variant of Hopper's kernel that a layer's sizes name.
#ifndef SPIRA_CONV_HOPPER_LAUNCH_CUH
#define SPIRA_CONV_HOPPER_LAUNCH_CUH

#include "choice.cuh"
#include "kernel.cuh"

namespace spira {

template <typename T>
SPIRA_API status hopper_launch(const device_info *gpu, conv_params p, cudaStream_t stream) {
    p.sizes.split = T::split;
    p.sizes.tiles = T::tiles;
    p.sizes.depth = hopper_stages(T::columns, T::row, &p.sizes, gpu->shared_max);
    const int bytes = hopper_memory_bytes(T::columns, T::row, T::split, p.sizes.depth);
    const int64_t slices = ceil_div(p.cout, T::columns);
    const int64_t tiles = order_pairs(order_count(p.capacity));
    const int64_t resident = gpu->multiprocessors * T::resident / slices / T::split;
    const dim3 grid((unsigned)T::split, (unsigned)slices,
                    (unsigned)max_of(min_of(tiles, resident), 1));
    auto kernel = hopper_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(
        kernel, {grid, T::threads, stream, "conv", p.programmatic, (size_t)bytes, T::split}, p);
}

// Computes a layer. p.sizes must fit (hopper_sizes_fit). shortcut: whether it has one. Few layers
// do, so there are fewer variants with one: 64 columns serve for 32, too, and are not split.
template <typename E, bool shortcut = false>
SPIRA_API status hopper_run(const device_info *gpu, const conv_params &p, cudaStream_t stream) {
    enum { row = hopper_chunk_whole, least = shortcut ? 64 : 32, split_of_64 = shortcut ? 1 : 2 };
    const bool split = p.sizes.split > 1 && hopper_is_plain(p);
    status (*launch)(const device_info *, conv_params, cudaStream_t);
    switch (p.sizes.slices) {
    case 1:
        launch = hopper_launch<hopper_traits<E, least, 1, 1, row, shortcut>>;
        break;
    case 2:
        launch = split ? hopper_launch<hopper_traits<E, 64, split_of_64, 1, row, shortcut>>
                 : p.sizes.tiles > 1 ? hopper_launch<hopper_traits<E, 64, 1, 2, row, shortcut>>
                                     : hopper_launch<hopper_traits<E, 64, 1, 1, row, shortcut>>;
        break;
    case 3:
        launch = p.chunk_bytes == hopper_chunk_long
                     ? hopper_launch<hopper_traits<E, 96, 1, 1, hopper_chunk_long, shortcut>>
                     : hopper_launch<hopper_traits<E, 96, 1, 1, row, shortcut>>;
        break;
    case 4:
        launch = split ? hopper_launch<hopper_traits<E, 128, 2, 1, row, shortcut>>
                       : hopper_launch<hopper_traits<E, 128, 1, 1, row, shortcut>>;
        break;
    default: // few tiles that cannot be shared: 128 columns make more thread blocks
        launch = split               ? hopper_launch<hopper_traits<E, 256, 2, 1, row, shortcut>>
                 : p.sizes.split > 1 ? hopper_launch<hopper_traits<E, 128, 1, 1, row, shortcut>>
                                     : hopper_launch<hopper_traits<E, 256, 1, 1, row, shortcut>>;
    }
    return launch(gpu, p, stream);
}

} // namespace spira

#endif
