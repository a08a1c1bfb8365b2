// spira/conv/hopper/launch.cuh: launches the variant of Hopper's kernel that a layer's sizes name.
#ifndef SPIRA_CONV_HOPPER_LAUNCH_CUH
#define SPIRA_CONV_HOPPER_LAUNCH_CUH

#include "choice.cuh"
#include "kernel.cuh"

namespace spira {

// T: hopper_traits.
template <typename T>
SPIRA_API status hopper_launch(conv_params p, const device_info *d, cudaStream_t stream) {
    p.size.split = T::split;
    p.size.tiles = T::tiles;
    p.size.depth = hopper_stages(T::columns, T::row, &p.size, d->shared_max);
    p.slices = (int)ceil_div(p.cout, T::columns);
    int bytes = hopper_memory_bytes(T::columns, T::row, T::split, p.size.depth);
    int64_t tiles = order_pairs(order_count(p.capacity));
    int64_t resident = d->multiprocessors * T::resident / p.slices / T::split;
    const dim3 grid((unsigned)T::split, (unsigned)p.slices,
                    (unsigned)max_of(min_of(tiles, resident), 1));
    auto kernel = hopper_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv (shared memory)"));
    return kernel_launch(
        kernel, {grid, T::threads, stream, "conv", p.programmatic, (size_t)bytes, T::split}, p);
}

// Few layers have a shortcut, so there are fewer variants with one: 64 columns serve for 32, too,
// and are not split.
template <typename E, bool shortcut>
SPIRA_API status hopper_run_as(const conv_params &p, const device_info *d, cudaStream_t stream) {
    enum { row = hopper_part_whole, least = shortcut ? 64 : 32, split_of_64 = shortcut ? 1 : 2 };
    const bool split = p.size.split > 1 && hopper_is_plain(p);
    switch (p.size.slices) {
    case 1:
        return hopper_launch<hopper_traits<E, least, 1, 1, row, shortcut>>(p, d, stream);
    case 2:
        return split ? hopper_launch<hopper_traits<E, 64, split_of_64, 1, row, shortcut>>(p, d,
                                                                                          stream)
               : p.size.tiles > 1
                   ? hopper_launch<hopper_traits<E, 64, 1, 2, row, shortcut>>(p, d, stream)
                   : hopper_launch<hopper_traits<E, 64, 1, 1, row, shortcut>>(p, d, stream);
    case 3:
        return p.part == hopper_part_long
                   ? hopper_launch<hopper_traits<E, 96, 1, 1, hopper_part_long, shortcut>>(p, d,
                                                                                           stream)
                   : hopper_launch<hopper_traits<E, 96, 1, 1, row, shortcut>>(p, d, stream);
    case 4:
        return split ? hopper_launch<hopper_traits<E, 128, 2, 1, row, shortcut>>(p, d, stream)
                     : hopper_launch<hopper_traits<E, 128, 1, 1, row, shortcut>>(p, d, stream);
    default: // few tiles that cannot be shared: 128 columns make more thread blocks
        return split ? hopper_launch<hopper_traits<E, 256, 2, 1, row, shortcut>>(p, d, stream)
               : p.size.split > 1
                   ? hopper_launch<hopper_traits<E, 128, 1, 1, row, shortcut>>(p, d, stream)
                   : hopper_launch<hopper_traits<E, 256, 1, 1, row, shortcut>>(p, d, stream);
    }
}

// Computes a layer. p.size must fit (hopper_sizes_fit). shortcuts: compile the variants with a
// fused shortcut, too; without them a shortcut is refused.
template <typename E, bool shortcuts = true>
SPIRA_API status hopper_run(const conv_params &p, const device_info *d, cudaStream_t stream) {
    if constexpr (shortcuts) {
        if (p.shortcut.parts) {
            return hopper_run_as<E, true>(p, d, stream);
        }
    }
    SPIRA_REQUIRE(!p.shortcut.parts, status_unsupported,
                  "shortcut (the function is compiled without shortcuts)", 0);
    return hopper_run_as<E, false>(p, d, stream);
}

} // namespace spira

#endif
