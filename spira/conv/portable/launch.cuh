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
// what a new thread block costs matters less where tiles have many chunks.
SPIRA_API int64_t portable_workers(int64_t tiles, int64_t room, int chunks) {
    return tiles <= min_of(max_of(chunks, 4), 8) * room ? tiles : room;
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

// T: portable_traits.
template <typename T>
SPIRA_API status portable_launch(conv_params p, const device_info *d, cudaStream_t stream) {
    const int resident = portable_resident_on(T::columns, T::rows, T::split, d->shared_max);
    p.size.depth = portable_stages(T::columns, T::rows, resident, d->shared_max);
    p.slices = (int)ceil_div(p.cout, T::columns);
    p.part = T::exact ? conv_exact_chunk(p.cout) * (int)sizeof(float)
                      : conv_channel_groups(p.cout) * conv_fragment_bytes;
    const int bytes = p.size.depth * portable_stage_bytes(T::columns, T::rows);
    const int64_t tiles = ceil_div(order_count(p.capacity), T::rows / order_rows);
    const int64_t room = (int64_t)d->multiprocessors * resident / p.slices;
    const int64_t workers = T::split > 1 ? tiles : portable_workers(tiles, room, p.chunks);
    const bool apart = workers == tiles && tiles > room; // each tile a worker's, in several rounds
    p.halved = T::pairs == 1 && T::exact && apart ? portable_halved(tiles, p.volume) : 0;
    const dim3 grid(1, (unsigned)p.slices, (unsigned)max_of(workers + p.halved, 1));
    auto kernel = portable_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(kernel, {grid, T::threads, stream, "conv", p.programmatic, (size_t)bytes},
                         p);
}

// Computes a layer. p.size must fit (portable_sizes_fit); fallback: portable_is_fallback;
// p.weights: of conv_mma_pack_kernel.
template <typename E, bool fallback = false>
SPIRA_API status portable_run(const conv_params &p, const device_info *d, cudaStream_t stream) {
    if constexpr (sizeof(E) == 2 && !fallback) {
        if (p.size.slices == 4) {
            return p.size.tiles > 1 ? portable_launch<portable_traits<E, 4, 8, 2, 4>>(p, d, stream)
                                    : portable_launch<portable_traits<E, 4, 8, 2, 2>>(p, d, stream);
        }
    }
    if constexpr (!fallback) {
        if (p.size.slices == 3) {
            return portable_launch<portable_traits<E, 6, 4, 1, 4>>(p, d, stream);
        }
        if (portable_splits(&p.size, p.capacity)) {
            return portable_launch<portable_traits<E, 4, 4, 1, 4, false, 2>>(p, d, stream);
        }
    }
    return portable_launch<portable_traits<E, 4, 4, 1, 4>>(p, d, stream);
}

// The same in exact fp32; p.weights: of conv_exact_pack_kernel.
SPIRA_LAUNCHER status portable_run_exact(const conv_params &p, const device_info *d,
                                         cudaStream_t stream) {
    switch (p.size.slices) {
    case 1:
        return portable_launch<portable_traits<float, 2, 4, 1, 4, true>>(p, d, stream);
    case 2:
        return p.size.tiles > 1
                   ? portable_launch<portable_traits<float, 4, 4, 1, 8, true>>(p, d, stream)
                   : portable_launch<portable_traits<float, 4, 4, 1, 4, true>>(p, d, stream);
    default:
        return portable_launch<portable_traits<float, 6, 4, 1, 4, true>>(p, d, stream);
    }
}

} // namespace spira

#endif
