// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/launch.cuh: launches the variant of Hopper's kernel that a layer's sizes name.
#ifndef SPIRA_CONV_HOPPER_LAUNCH_CUH
#define SPIRA_CONV_HOPPER_LAUNCH_CUH

#include "choice.cuh"
#include "kernel.cuh"

namespace spira {

// Whether each tile has a cluster of its own (hopper_several). A grid has room for so many.
SPIRA_API bool hopper_shares_several(const conv_sizes *size, int32_t capacity) {
    enum { most = 65535 };
    return (size->split > 2 || (size->split == 2 && size->slices == 3)) &&
           order_pairs(order_count(capacity)) <= most;
}

template <typename T>
SPIRA_API status hopper_launch(const device_info *gpu, conv_params p, cudaStream_t stream) {
    const int split = T::split > 2 ? p.sizes.split : T::split;
    p.sizes.split = split;
    p.split_log = (split > 1) + (split > 2) + (split > 4);
    p.sizes.tiles = T::tiles;
    p.sizes.depth = hopper_stages(T::columns, T::row, &p.sizes, gpu->shared_max);
    const int bytes = hopper_memory_bytes(T::columns, T::row, T::split, p.sizes.depth);
    const int64_t slices = ceil_div(p.cout, T::columns);
    const int64_t tiles = order_pairs(order_count(p.capacity));
    const int64_t room = gpu->multiprocessors * T::resident / slices / split;
    const int64_t workers = T::split > 2 ? tiles : min_of(tiles, room);
    const dim3 grid((unsigned)split, (unsigned)slices, (unsigned)max_of(workers, 1));
    auto kernel = hopper_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(
        kernel, {grid, T::threads, stream, "conv", p.programmatic, (size_t)bytes, (unsigned)split},
        p);
}

// The variant of so many columns. Few layers have a shortcut, or formats of their own, so there are
// fewer variants of these: with a shortcut 64 columns serve for 32, too, and are not split in two;
// mixed ones are not split at all, and have one tile in progress.
template <typename E, bool shortcut, bool mixed, int columns, int split = 1, int tiles = 1,
          int row = hopper_chunk_whole>
using hopper_variant = hopper_traits<E, shortcut && columns == 32 ? 64 : columns,
                                     mixed || (shortcut && columns == 64 && split == 2) ? 1 : split,
                                     mixed ? 1 : tiles, row, shortcut, mixed>;

typedef status hopper_launcher(const device_info *gpu, conv_params p, cudaStream_t stream);

// What computes a layer. p.sizes must fit (hopper_sizes_fit). shortcut: whether it has one; mixed:
// of a floating-point layer, whether residual and output have formats of their own.
template <typename E, bool shortcut = false, bool mixed = false>
SPIRA_API hopper_launcher *hopper_launcher_of(const conv_params &p) {
    enum { longer = hopper_chunk_long(sizeof(E)) };
    const bool split =
        p.sizes.split > 1 && hopper_is_plain<hopper_variant<E, shortcut, mixed, 64>>(p);
    const bool several = split && hopper_shares_several(&p.sizes, p.capacity);
    switch (p.sizes.slices) {
    case 1:
        return hopper_launch<hopper_variant<E, shortcut, mixed, 32>>;
    case 2:
        return several ? hopper_launch<hopper_variant<E, shortcut, mixed, 64, hopper_several>>
               : split ? hopper_launch<hopper_variant<E, shortcut, mixed, 64, 2>>
               : p.sizes.tiles > 1 ? hopper_launch<hopper_variant<E, shortcut, mixed, 64, 1, 2>>
                                   : hopper_launch<hopper_variant<E, shortcut, mixed, 64>>;
    case 3:
        if (p.chunk_bytes == longer) {
            return several ? hopper_launch<
                                 hopper_variant<E, shortcut, mixed, 96, hopper_several, 1, longer>>
                           : hopper_launch<hopper_variant<E, shortcut, mixed, 96, 1, 1, longer>>;
        }
        return several ? hopper_launch<hopper_variant<E, shortcut, mixed, 96, hopper_several>>
                       : hopper_launch<hopper_variant<E, shortcut, mixed, 96>>;
    case 4:
        return several ? hopper_launch<hopper_variant<E, shortcut, mixed, 128, hopper_several>>
               : split ? hopper_launch<hopper_variant<E, shortcut, mixed, 128, 2>>
                       : hopper_launch<hopper_variant<E, shortcut, mixed, 128>>;
    default: // few tiles that cannot be shared: 128 columns make more thread blocks
        return split               ? hopper_launch<hopper_variant<E, shortcut, mixed, 256, 2>>
               : p.sizes.split > 1 ? hopper_launch<hopper_variant<E, shortcut, mixed, 128>>
                                   : hopper_launch<hopper_variant<E, shortcut, mixed, 256>>;
    }
}

} // namespace spira

#endif
