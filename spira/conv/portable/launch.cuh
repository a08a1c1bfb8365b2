// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/launch.cuh: launches the variant of the portable kernel that a layer's sizes
// name.
#ifndef SPIRA_CONV_PORTABLE_LAUNCH_CUH
#define SPIRA_CONV_PORTABLE_LAUNCH_CUH

#include "choice.cuh"
#include "kernel.cuh"

namespace spira {

// Workers of a slice. Where there are few tiles for each thread block that has room, each tile is a
// worker's: the GPU then starts the next thread block, heavy tiles first, wherever one has ended.
// Otherwise workers stay for several tiles, and the next tile's stages are filled while one ends:
// what a new thread block costs matters less where tiles have many chunks. least: tiles for each,
// from which on they stay
SPIRA_API int64_t portable_workers(int64_t tiles, int64_t room, int chunks, int least) {
    return tiles <= min_of(max_of(chunks, least), 8) * room ? tiles : room;
}

// Tiles that two thread blocks halve, the heaviest: with few offsets the heaviest tile has up to
// four times the mean work, and the layer would wait for it. More of them would not pay: halves
// read the weights twice.
SPIRA_API int portable_halved(int64_t tiles, int volume) {
    enum { share = 16, few = 32 }; // one of how many; offsets
    return volume <= few ? (int)ceil_div(tiles, (int)share) : 0;
}

// Whether two sets of warps compute a layer that is to be cut so: each tile is a thread block's
// own, and a grid has room for so many. Otherwise one set does.
SPIRA_API bool portable_splits(const conv_sizes *size, int32_t capacity) {
    enum { most = 65535 };
    return size->split == 2 && order_pairs(order_count(capacity)) <= most;
}

template <typename T>
SPIRA_API status portable_launch(const device_info *gpu, conv_params p, cudaStream_t stream) {
    const int resident = portable_resident_on(T::columns, T::rows, T::split, gpu->shared_max);
    p.sizes.depth = portable_stages(T::columns, T::rows, resident, gpu->shared_max);
    const int64_t slices = ceil_div(p.cout, T::columns);
    p.weight_bytes = T::exact ? conv_exact_chunk(p.cout) * (int)sizeof(float)
                              : conv_channel_groups(p.cout) * conv_fragment_bytes;
    const int bytes = p.sizes.depth * portable_stage_bytes(T::columns, T::rows);
    const int64_t tiles = ceil_div(order_count(p.capacity), T::rows / order_rows);
    const int64_t room = gpu->multiprocessors * resident / slices;
    const int least = T::exact || (p.volume > 32 && p.chunks > 1) ? 4 : 2;
    const int64_t workers = T::split > 1 ? tiles : portable_workers(tiles, room, p.chunks, least);
    const bool apart = workers == tiles && tiles > room; // each tile a worker's, in several rounds
    p.halved = T::pairs == 1 && T::exact && apart ? portable_halved(tiles, p.volume) : 0;
    const dim3 grid(1, (unsigned)slices, (unsigned)max_of(workers + p.halved, 1));
    auto kernel = portable_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(kernel, {grid, T::threads, stream, "conv", p.programmatic, (size_t)bytes},
                         p);
}

// Computes a layer. p.sizes must fit (portable_sizes_fit). tag: of the format; p.weights: of
// conv_mma_pack_kernel, in exact fp32 of conv_exact_pack_kernel. mixed: see portable_traits
template <bool mixed = false, typename tag>
SPIRA_API status portable_run(tag, const device_info *gpu, const conv_params &p,
                              cudaStream_t stream) {
    typedef typename tag::element E;
    constexpr bool exact = tag::value == numeric_f32;
    const bool large = p.sizes.tiles > 1;
    auto launch = portable_launch<portable_traits<E, 4, 4, 1, 4, exact, 1, mixed>>;
    if constexpr (exact) {
        launch = p.sizes.slices == 1
                     ? portable_launch<portable_traits<E, 2, 4, 1, 4, true, 1, mixed>>
                 : large && p.sizes.slices == 2
                     ? portable_launch<portable_traits<E, 4, 4, 1, 8, true, 1, mixed>>
                     : launch;
    } else {
        launch = portable_splits(&p.sizes, p.capacity)
                     ? portable_launch<portable_traits<E, 4, 4, 1, 4, false, 2, mixed>>
                     : launch;
    }
    launch = p.sizes.slices == 3 ? portable_launch<portable_traits<E, 6, 4, 1, 4, exact, 1, mixed>>
                                 : launch;
    if constexpr (sizeof(E) < 4) {
        launch = p.sizes.slices < 4 ? launch
                 : large ? portable_launch<portable_traits<E, 4, 8, 2, 4, false, 1, mixed>>
                         : portable_launch<portable_traits<E, 4, 8, 2, 2, false, 1, mixed>>;
    }
    return launch(gpu, p, stream);
}

} // namespace spira

#endif
