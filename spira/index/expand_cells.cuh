// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/expand_cells.cuh: output sets without a sort: sets the bits of the outputs that the
// inputs touch, and lists these cells (expand_box.h).
#ifndef SPIRA_INDEX_EXPAND_CELLS_CUH
#define SPIRA_INDEX_EXPAND_CELLS_CUH

#include "../base/launch.cuh"
#include "../status.cuh"
#include "bitmap.cuh"

namespace spira {

// What is cleared first.
template <typename W>
struct expand_clearing {
    expand_scratch scratch;
    int levels;
    voxel_set<W> out[expand_levels_most];
};

// Clears the bitmaps and what belongs to them, and fills the output sets with word_none().
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    expand_clear_kernel(const __grid_constant__ expand_clearing<W> to) {
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x,
                  threads = (int64_t)gridDim.x * blockDim.x;
    pdl_launch_dependents();
    for (int64_t i = first; i < to.scratch.cleared; i += threads) {
        ((bitmap_group<4> *)to.scratch.bitmap)[i] = {};
    }
    for (int l = 0; l < to.levels; ++l) {
        for (int64_t i = first; i < to.out[l].capacity; i += threads) {
            to.out[l].words[i] = word_none<W>();
        }
    }
}

// Sets the bits of `pattern`, whose lowest one is bit `first` of the bitmap.
SPIRA_DEVICE void expand_set_bits(uint32_t *bitmap, uint32_t first, uint32_t pattern) {
    const uint32_t shift = first % 32, above = shift ? pattern >> (32 - shift) : 0;
    atomicOr(&bitmap[first / 32], pattern << shift);
    if (above) {
        atomicOr(&bitmap[first / 32 + 1], above);
    }
}

// The outputs of a voxel in a column, which differ in z only.
struct expand_column {
    int first;        // the lowest one, by its place in the box
    uint32_t pattern; // bit i: the one i above; 0: there is none
    bool cramped;     // the layout has no room for another one
};

SPIRA_DEVICE expand_column expand_column_make(const word_layout &l, const expand_axis &z,
                                              const expand_touch &touch, int first) {
    expand_column c = {0, 0, false};
    for (int k = 0; k < z.most; ++k) { // from above
        int coordinate;
        const expand_verdict verdict = expand_candidate(&z, &touch, k, l.lo.z, l.hi.z, &coordinate);
        c.cramped = c.cramped || verdict == expand_no_room;
        if (verdict == expand_present) {
            const int at = touch.index - k * z.apart - first;
            c.pattern = c.pattern ? c.pattern << (c.first - at) | 1 : 1;
            c.first = at;
        }
    }
    return c;
}

// The bits of neighbouring lanes with the same column, together: in the first one of these lanes;
// the others get 0. Called by whole warps.
template <typename W>
SPIRA_DEVICE uint32_t expand_unite_columns(W column, uint32_t bits) {
    const int lane = (int)(threadIdx.x % 32);
    const bool first = __shfl_up_sync(~0u, column, 1) != column || lane == 0;
    const uint32_t behind = __ballot_sync(~0u, first) & ~1u << lane;
    const int last = behind ? __ffs((int)behind) - 2 : 31; // lane with this column
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_sync(~0u, bits, lane + step);
        bits |= lane + step <= last ? other : 0;
    }
    return first ? bits : 0;
}

template <typename W>
struct expand_marking {
    word_layout layout;
    expand_axes axes; // of the first level
    expand_box box;
    voxel_set<W> in;
    device_status *trouble;
};

// Sets the bits of the outputs that a voxel touches on the first level. Voxels of neighbouring
// lanes in one column of the input touch the same columns. If these have at most 32 cells in the
// box, the first lane sets the bits for all of them. Waits for the kernel before this one before
// the first is set. Returns whether the layout has no room for an output (device_flag_range).
// Called by whole warps. has: there is a voxel.
template <typename W>
SPIRA_DEVICE uint32_t expand_columns(const expand_marking<W> &m, bool has, W word,
                                     const expand_touches &t, uint32_t *bitmap) {
    const word_layout &l = m.layout;
    const expand_axes &axes = m.axes;
    const expand_box &box = m.box;
    voxel v = word_unpack<W>(&l, word);
    uint32_t wrong = 0;
    expand_column column = expand_column_make(l, axes.z, t.z, box.first.z);
    column.pattern = has ? column.pattern : 0;
    const bool touches = has && (column.pattern || column.cramped);
    if (box.size.z <= 32) {
        const uint32_t own = column.pattern ? column.pattern << column.first : 0;
        const uint32_t all = expand_unite_columns((W)(word >> l.shift_y), own);
        column.first = all ? __ffs((int)all) - 1 : 0;
        column.pattern = all >> column.first;
    }
    pdl_wait();
    if (!touches && !column.pattern) {
        return wrong;
    }
    for (int i = 0; i < axes.x.most; ++i) {
        const expand_verdict at_x = expand_candidate(&axes.x, &t.x, i, l.lo.x, l.hi.x, &v.x);
        const int x = t.x.index - i * axes.x.apart - box.first.x;
        for (int j = 0; at_x && j < axes.y.most; ++j) {
            const expand_verdict at_y = expand_candidate(&axes.y, &t.y, j, l.lo.y, l.hi.y, &v.y);
            const int y = t.y.index - j * axes.y.apart - box.first.y;
            const bool fits = at_x == expand_present && at_y == expand_present;
            if (at_y && touches) {
                wrong |= fits && !column.cramped ? 0u : (uint32_t)device_flag_range;
            }
            if (fits && column.pattern) {
                expand_set_bits(bitmap, expand_box_cell(&box, v.batch, x, y, column.first),
                                column.pattern);
            }
        }
    }
    return wrong;
}

// Records what is wrong with input i.
SPIRA_DEVICE void expand_report(device_status *trouble, uint32_t wrong, int64_t i) {
    if (wrong & device_flag_range) {
        device_status_raise(trouble, device_flag_range, (uint32_t)i);
    }
    if (wrong & device_flag_lattice) {
        device_status_raise(trouble, device_flag_lattice, (uint32_t)i);
    }
}

// Marks the outputs that the inputs touch, a thread for each input. Records trouble. The inputs are
// read while the kernel before this one, which clears the bitmap, still runs.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    expand_mark_kernel(const __grid_constant__ expand_marking<W> m, uint32_t *bitmap) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const W word = i < m.in.capacity ? m.in.words[i] : 0; // read before the count is known
    const int32_t given = *m.in.count;
    if (i == 0) {
        device_status_raise_count(m.trouble, given, m.in.capacity);
    }
    const bool has = i < min(given, m.in.capacity); // behind the count there is garbage
    if (!__any_sync(~0u, has)) {
        pdl_wait();
        return;
    }
    const voxel v = word_unpack<W>(&m.layout, word);
    expand_touches touches;
    uint32_t wrong = expand_touches_find(&m.layout, &m.axes, v, &touches);
    wrong = has ? wrong : 0;
    wrong |= expand_columns(m, has, word, touches, bitmap);
    expand_report(m.trouble, wrong, i);
}

// ---- levels behind the first --------------------------------------------------------------------

// The bits of a column. cells: of a column, at most 32; limit: see expand_scratch
SPIRA_DEVICE uint32_t expand_read_column(const uint32_t *bitmap, uint32_t column, int cells,
                                         uint32_t limit) {
    const uint32_t first = column * (uint32_t)cells, shift = first % 32;
    const uint32_t low = bitmap[first / 32],
                   high = shift + (uint32_t)cells > 32 ? bitmap[first / 32 + 1] : 0;
    const uint32_t all = (uint32_t)(((uint64_t)high << 32 | low) >> shift) & ~0u >> (32 - cells);
    if (limit && limit - 1 < first + (uint32_t)cells) { // of a level that is cut off
        return limit - 1 > first ? all & ~0u >> (32 - (limit - 1 - first)) : 0;
    }
    return all;
}

// The bits of all columns of the level before that column (x, y) reads, together.
SPIRA_DEVICE uint32_t expand_gather(const expand_link &link, const uint32_t *before, uint32_t batch,
                                    int x, int y) {
    const int batch_of = 3; // columns on each axis whose loads are in flight
    const expand_step &to_x = link.x, &to_y = link.y;
    const uint32_t limit = *link.limit;
    uint32_t bits = 0;
    for (int t = 0; t < to_x.size; t += batch_of) {
        for (int u = 0; u < to_y.size; u += batch_of) {
#pragma unroll
            for (int i = 0; i < batch_of * batch_of; ++i) {
                const int tap_x = t + i / batch_of, tap_y = u + i % batch_of,
                          at_x = x * to_x.ratio - to_x.padding + tap_x * to_x.dilation,
                          at_y = y * to_y.ratio - to_y.padding + tap_y * to_y.dilation;
                if (tap_x < to_x.size && tap_y < to_y.size && at_x >= 0 && at_x < to_x.before &&
                    at_y >= 0 && at_y < to_y.before) {
                    const uint32_t row = batch * (uint32_t)to_x.before + (uint32_t)at_x;
                    bits |= expand_read_column(before, row * (uint32_t)to_y.before + (uint32_t)at_y,
                                               link.z.before, limit);
                }
            }
        }
    }
    return bits;
}

// The bits of a column by those of all columns that it reads.
SPIRA_DEVICE uint32_t expand_column_of(const expand_link &link, uint32_t before) {
    const uint64_t padded = (uint64_t)before << link.z.padding;
    uint32_t bits = 0;
    for (int i = 0; i < link.z.cells; ++i) {
        bits |= padded >> i * link.z.ratio & link.taps ? 1u << i : 0;
    }
    return bits;
}

// The words of 32 columns of `cells` bits: as many, one for each lane. Called by whole warps.
SPIRA_DEVICE uint32_t expand_join_columns(uint32_t column, int cells) {
    const int lane = (int)(threadIdx.x % 32), first = 32 * lane / cells;
    uint32_t word = 0;
    for (int i = 0; i <= 31 / cells + 1; ++i) { // as many columns reach into a word
        const uint32_t bits = __shfl_sync(~0u, column, min(first + i, 31));
        const int at = (first + i) * cells - 32 * lane; // of the column in the word
        word |= first + i > 31 || at > 31 ? 0 : at >= 0 ? bits << at : bits >> -at;
    }
    return word;
}

// Writes the bitmap of a level by that of the level before, a thread for each column. Words of
// zeros are there.
SPIRA_PLAIN_KERNEL void __launch_bounds__(256)
    expand_level_kernel(const __grid_constant__ expand_link link, uint32_t *bitmap) {
    const uint32_t column = blockIdx.x * 256 + threadIdx.x;
    uint32_t x, y;
    const uint32_t row = expand_divide(column, (uint32_t)link.y.cells, link.y.inverse, &y),
                   batch = expand_divide(row, (uint32_t)link.x.cells, link.x.inverse, &x);
    uint32_t bits = 0;
    pdl_wait();
    if (column < link.columns) {
        bits = expand_gather(link, bitmap + link.before, batch, (int)x, (int)y);
    }
    bits = expand_column_of(link, bits);
    if (__any_sync(~0u, bits != 0)) {
        const uint32_t word = expand_join_columns(bits, link.z.cells), lane = threadIdx.x % 32;
        if (word) {
            bitmap[link.word + column / 32 * (uint32_t)link.z.cells + lane] = word;
        }
    }
}

// ---- lists --------------------------------------------------------------------------------------

// How the bits of a level become a set.
template <typename W>
struct expand_listing {
    bitmap_source source;
    int32_t *drawn;
    uint32_t *limit;
    expand_packing<W> packing;
    voxel_set<W> out;
    device_status *trouble;
};

// Writes the words of all marked cells in order, and their number. The words behind them are those
// of expand_clear_kernel. A thread block for each tile.
template <typename W, int words>
SPIRA_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_kernel(const __grid_constant__ expand_listing<W> to) {
    __shared__ bitmap_shared<words> s;
    const voxel_set<W> &out = to.out;
    pdl_wait();
    const int tile = to.source.state ? block_ticket(to.drawn, &s.tile) : (int)blockIdx.x;
    const int total =
        bitmap_list_tile<words>(to.source, tile, &s, [&](int rank, uint32_t word, uint32_t bit) {
            const uint32_t cell = word * 32 + bit;
            if (rank < out.capacity) {
                out.words[rank] = expand_packing_word(&to.packing, cell);
            } else if (rank == out.capacity) {
                *to.limit = cell + 1;
            }
        });
    if (tile == (int)gridDim.x - 1 && threadIdx.x == 0) {
        *out.count = min(total, out.capacity);
        device_status_raise_count(to.trouble, total, out.capacity);
    }
}

// ---- all launches -------------------------------------------------------------------------------

template <typename W>
SPIRA_API status expand_list_launch(const expand_args<W> *a, const expand_plan &plan, int level,
                                    const expand_scratch &s, const launch_config &as) {
    const expand_sizes &sizes = plan.sizes[level];
    const expand_level *l = &plan.level[level];
    expand_listing<W> to = {};
    to.source.words = s.bitmap + sizes.word;
    to.source.state = sizes.tiles <= bitmap_tiles_few ? nullptr : s.state + sizes.tile;
    to.drawn = s.drawn + level;
    to.limit = s.limit + level;
    to.packing = expand_packing_make<W>(a->layout, &l->axes, &l->box);
    to.out = a->out;
    to.trouble = a->trouble;
    auto list = sizes.words == bitmap_words_small ? expand_list_kernel<W, bitmap_words_small>
                : sizes.words == bitmap_words     ? expand_list_kernel<W, bitmap_words>
                                                  : expand_list_kernel<W, bitmap_words_large>;
    return kernel_launch(list, as, to);
}

// The output sets of all levels, by bitmaps. programmatic: all kernels but the first one begin
// while the one before ends.
template <typename W>
SPIRA_API status expand_cells_launch(const expand_args<W> *a, const expand_plan &plan,
                                     void *scratch, bool programmatic, cudaStream_t stream) {
    expand_clearing<W> clearing = {};
    expand_scratch &s = clearing.scratch;
    workspace w = workspace_begin(scratch);
    expand_carve(&w, &plan.sizes[plan.levels - 1], &s);
    clearing.levels = plan.levels;
    int64_t cleared = s.cleared;
    for (int l = 0; l < plan.levels; ++l) {
        clearing.out[l] = a[l].out;
        cleared = max_of(cleared, a[l].out.capacity);
    }
    const unsigned clears = (unsigned)min_of(ceil_div(cleared, 256), 1024);
    SPIRA_TRY(kernel_launch(expand_clear_kernel<W>, {clears, 256, stream, "expand"}, clearing));
    expand_marking<W> m = {};
    m.layout = *a->layout;
    m.axes = plan.level[0].axes;
    m.box = plan.level[0].box;
    m.in = a->in;
    m.trouble = a->trouble;
    SPIRA_TRY(
        kernel_launch(expand_mark_kernel<W>,
                      {(unsigned)ceil_div(m.in.capacity, 256), 256, stream, "expand", programmatic},
                      m, s.bitmap));
    for (int l = 0; l < plan.levels; ++l) {
        if (l) {
            expand_link link = expand_link_make(&plan.level[l], &plan.sizes[l - 1], &plan.sizes[l]);
            link.limit = s.limit + l - 1;
            SPIRA_TRY(kernel_launch(
                expand_level_kernel<>,
                {(unsigned)ceil_div(link.columns, 256), 256, stream, "expand", programmatic}, link,
                s.bitmap));
        }
        const launch_config as = {(unsigned)plan.sizes[l].tiles, bitmap_threads, stream, "expand",
                                  programmatic};
        SPIRA_TRY(expand_list_launch(a + l, plan, l, s, as));
    }
    return status_success();
}

} // namespace spira

#endif
