// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/choice.cuh: which layers Hopper's kernel computes, and how it cuts them.
#ifndef SPIRA_CONV_HOPPER_CHOICE_CUH
#define SPIRA_CONV_HOPPER_CHOICE_CUH

#include "traits.cuh"

namespace spira {

// Whether the kernel computes a layer. Depends on the shape alone, since weights are packed for it.
SPIRA_API bool hopper_takes(const conv_shape *s, const device_info *d) {
    return d->hopper && numeric_size(s->type) <= 2;
}

// The next number of columns that there are kernels for.
SPIRA_API int hopper_columns_next(int columns) {
    return columns < 32 ? 32 : columns < 64 ? 64 : columns < 96 ? 96 : columns < 128 ? 128 : 256;
}

// The fewest columns that hold all output channels; 128, if more are needed.
SPIRA_API int hopper_columns_choose(int cout) {
    int columns = 32;
    while (columns < cout && columns < 128) {
        columns = hopper_columns_next(columns);
    }
    return columns;
}

// Whether a layer can be cut so. conv_sizes: `slices` is columns / 32; `split` is 1, from 64
// columns on 2, up to 128 also 4 or 8; `tiles` is 1, or 2 for 64 columns with a split of 1. Long
// chunks are for thread blocks that have all of 65 to 96 output channels. A layer that does not
// take the plain epilogue (hopper_is_plain) runs with a split of 1 in any case.
SPIRA_API bool hopper_sizes_fit(const conv_shape *s, const device_info *d, const conv_sizes *size) {
    if (size->slices < 1 || size->slices > hopper_columns_most / 32) {
        return false;
    }
    int columns = size->slices * 32, row = hopper_stage_row(s);
    return hopper_columns_next(columns - 1) == columns &&
           (size->tiles == 1 || (size->tiles == 2 && columns == 64 && size->split == 1)) &&
           (size->split == 1 || (size->split == 2 && columns >= 64) ||
            ((size->split == 4 || size->split == 8) && columns >= 64 && columns <= 128)) &&
           (columns <= hopper_columns_choose(s->cout) || s->cout > 128) &&
           (row == hopper_chunk_whole || columns == hopper_long_columns) &&
           hopper_stages(columns, row, size, d->shared_max) >= hopper_teams;
}

// Stages of a tile that has all offsets.
SPIRA_API int64_t hopper_stages_of_tile(const conv_shape *s) {
    return ceil_div((int64_t)s->volume * hopper_chunks(s), hopper_slots(hopper_chunk_bytes(s)));
}

// Thread blocks that share a tile where the GPU has room for more than there are: as many as fit,
// if each has enough stages.
SPIRA_API int hopper_split_choose(int64_t stages, int64_t units, const device_info *d) {
    enum { least = 6 };
    int split = 1;
    while (split < hopper_several && 2 * split * units <= d->multiprocessors &&
           stages >= 2 * split * (int64_t)least) {
        split *= 2;
    }
    return split;
}

// The choice without measurements.
//
// More than 128 output channels: with 256 columns each source row is gathered half as often. With
// at least two tiles for each multiprocessor, one thread block has 256 columns. With fewer, but
// enough that two thread blocks for each tile fill the GPU, two share a tile; unless 256 columns
// leave more channels empty than 128, or a tile has few stages. Up to 128: two thread blocks share
// a tile where all tiles are resident at once and a tile has enough stages; more, where there is
// room for them. Otherwise, with 64 columns, a thread block has two of few tiles under way. int8:
// with 128 columns two share from half as many stages on, with 256 from twice as many.
SPIRA_API conv_sizes hopper_sizes_choose(const conv_shape *s, int32_t capacity,
                                         const device_info *d) {
    enum { worth = 48 }; // stages of a tile from which on sharing it pays
    const bool i8 = s->type == numeric_i8;
    const int64_t stages = hopper_stages_of_tile(s);
    const int64_t tiles = order_pairs(order_count(capacity)), wide = ceil_div(s->cout, 256);
    const bool full = 2 * wide == ceil_div(s->cout, 128);
    const bool most = s->cout > 128 && tiles >= 2 * d->multiprocessors;
    const bool halves = full && !most && stages >= (i8 ? 2 * (int)worth : (int)worth) &&
                        2 * tiles * wide > d->multiprocessors;
    const int columns = most || halves ? 256 : hopper_columns_choose(s->cout);
    const int64_t units = tiles * ceil_div(s->cout, columns);
    const bool few = units <= d->multiprocessors * hopper_resident(columns, 1, 1);
    const int fill = columns < 64 || columns > 128 ? 1 : hopper_split_choose(stages, units, d);
    const bool worthy = stages >= (i8 && columns == 128 ? (int)worth / 2 : (int)worth);
    const int slices = columns / 32, pair = halves || (few && worthy) ? 2 : 1;
    const int split = max_of(pair, fill);
    const conv_sizes best = {few && split == 1 && columns == 64 ? 2 : 1, slices, split, 1};
    return hopper_sizes_fit(s, d, &best) ? best : conv_sizes{1, slices, 1, 1};
}

} // namespace spira

#endif
