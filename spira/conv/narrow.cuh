// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow.cuh: convolution of few channels on the tensor cores.
//
// For up to 32 channels on each side, 16-bit formats and int8, sm_80 and later. Such a layer is
// bound by the latency of loads, not by its products. So the kernel keeps many loads in flight,
// with few instructions between them.
//
// Reads the ordered layout (order.h). A warp owns 32 neighbouring places of a row group, for
// all output channels, and keeps their accumulators in registers from the first offset to the
// epilogue. It walks the offsets in the row group's mask. Sources are loaded some offsets ahead,
// and rows as many offsets ahead of their products, both straight into registers. Offsets that none
// of the warp's own places has are skipped. The layout's schedule deals places to thread blocks,
// heavy ones first. Where there are few places, 2 or 4 warps share them: each takes every second or
// fourth offset, and their accumulators are added up in a fixed order. Otherwise warps are
// independent of each other.
//
// The products are transposed: the instruction's 16 rows are output channels (weights), and its 8
// columns are source rows. So the bytes that a lane loads of a row are its operand, and so are 16
// bytes of the packed weights. With up to 8 input channels, 16 of int8, 2 or 4 offsets share a
// product. narrow/walk.cuh says which lane has what.
#ifndef SPIRA_CONV_NARROW_CUH
#define SPIRA_CONV_NARROW_CUH

#include "narrow/kernel.cuh"

namespace spira {

// ---- choice -------------------------------------------------------------------------------------

// Whether the kernel computes a layer.
SPIRA_API bool narrow_takes(const conv_shape *s, const device_info *d) {
    return d->capability >= 80 && numeric_size(s->type) <= 2 && !s->cin2 &&
           s->cin <= narrow_channels_most && s->cout <= narrow_channels_most;
}

// Sources and outputs are loaded 16 bytes at a time.
SPIRA_API status narrow_layout_check(const order_layout *order) {
    SPIRA_TRY(pointer_check(order->row, 16, "layout.row"));
    return pointer_check(order->source, 16, "layout.source");
}

// Whether a layer can be cut so. conv_sizes: `split` warps share places; the others are 1.
SPIRA_API bool narrow_sizes_fit(const conv_sizes *size) {
    return size->tiles == 1 && size->slices == 1 &&
           (size->split == 1 || size->split == 2 || size->split == 4);
}

// The choice without measurements: warps share places where there are at most 1.5 times as many
// places as the device has room for, or many offsets (not in int8); half as many where four offsets
// share a step.
SPIRA_API conv_sizes narrow_sizes_choose(const conv_shape *s, int32_t capacity,
                                         const device_info *d) {
    const int64_t warps = ceil_div(capacity, 8 * narrow_groups);
    const int64_t room = (int64_t)d->multiprocessors * narrow_resident_16_16 * narrow_warps;
    const bool few = 2 * warps <= 3 * room;
    const bool long_lists = s->volume > 32 && s->type != numeric_i8;
    int split = 4 * warps <= room || (few && long_lists) ? 4 : few || long_lists ? 2 : 1;
    split = narrow_fold(s->cin, numeric_size(s->type)) == 4 && split > 1 ? split / 2 : split;
    return {1, 1, s->volume == 1 ? 1 : split, 1};
}

// ---- launch -------------------------------------------------------------------------------------

template <typename E, bool mixed, int fold, int steps, int halves>
SPIRA_API status narrow_launch(conv_params p, cudaStream_t stream) {
    p.fold = narrow_fold(p.cin, sizeof(E));
    const int64_t each = 8 * steps; // bytes of a lane
    p.wide_in =
        conv_aligned(p.in, p.cin, sizeof(E), each) && conv_aligned(p.in, p.pitch, sizeof(E), each);
    const int64_t pairs = order_pairs(order_count(p.capacity));
    const int64_t warps = narrow_pair / (8 * narrow_groups);
    const unsigned grid = (unsigned)ceil_div(pairs * warps * p.sizes.split, narrow_warps);
    enum { unaligned = steps == 2 ? 1 : 0 }; // its fold
    auto kernel = p.wide_in ? narrow_kernel<E, fold, steps, halves, true, mixed>
                            : narrow_kernel<E, unaligned, steps, halves, false, mixed>;
    return kernel_launch(kernel, {grid, narrow_threads, stream, "conv", p.programmatic}, p);
}

template <typename E, bool mixed, int fold, int steps>
SPIRA_API status narrow_launch_halves(const conv_params &p, cudaStream_t stream) {
    return narrow_halves(p.cout) == 1 ? narrow_launch<E, mixed, fold, steps, 1>(p, stream)
                                      : narrow_launch<E, mixed, fold, steps, 2>(p, stream);
}

// Computes a layer. p.sizes must fit (narrow_sizes_fit). mixed: of a floating-point layer, whether
// residual and output have formats of their own.
template <typename E, bool mixed = false>
SPIRA_API status narrow_run(const conv_params &p, cudaStream_t stream) {
    const int fold = narrow_fold(p.cin, sizeof(E));
    if constexpr (sizeof(E) > 1) { // 32 channels of int8 are one step
        if (narrow_steps(p.cin, sizeof(E)) > 1) {
            return narrow_launch_halves<E, mixed, 1, 2>(p, stream);
        }
    }
    return fold == 1   ? narrow_launch_halves<E, mixed, 1, 1>(p, stream)
           : fold == 2 ? narrow_launch_halves<E, mixed, 2, 1>(p, stream)
                       : narrow_launch_halves<E, mixed, 4, 1>(p, stream);
}

} // namespace spira

#endif
