// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/choice.cuh: which layers the portable kernel computes, and how it cuts them.
#ifndef SPIRA_CONV_PORTABLE_CHOICE_CUH
#define SPIRA_CONV_PORTABLE_CHOICE_CUH

#include "traits.cuh"

namespace spira {

// Formats of 16 bits.
SPIRA_API constexpr bool portable_half(numeric type) {
    return type == numeric_f16 || type == numeric_bf16;
}

// Whether the kernel computes layers that neither Hopper's nor the narrow kernel does.
SPIRA_API bool portable_takes(const device_info *d) {
    return device_code_within(80, 999) && d->capability >= 80;
}

// Output channels of a thread block at least: exact fp32 has slices of 32.
SPIRA_API int portable_columns_least(numeric type) {
    return type == numeric_f32 ? 32 : 64;
}

// And at most: with 128 fp32 and tf32 lack registers.
SPIRA_API int portable_columns_most(numeric type) {
    return numeric_size(type) < 4 ? 128 : 96;
}

// Output channels of a thread block, at most `most`: 64, 96 or 128, whichever leaves the fewest
// empty; of those the most.
SPIRA_API int portable_columns_choose(int cout, int most = 128) {
    int best = most;
    for (int columns = most - 32; columns >= 64; columns -= 32) {
        best = round_up(cout, columns) < round_up(cout, best) ? columns : best;
    }
    return best;
}

// Whether a layer can be cut so. conv_sizes: `slices` is columns / 32: 2, 3, in fp16, bf16 and int8
// 4, or 1 in exact fp32; `tiles` is the pairs of row groups of a tile: 1, or 2 with 128 columns, in
// exact fp32 with 64; `split` is the sets of consumer warps: 1, or 2 with 64 columns and one pair,
// but not in exact fp32.
SPIRA_API bool portable_sizes_fit(numeric type, const device_info *d, const conv_sizes *size) {
    if (size->slices < 1 || size->slices > 4 || size->tiles < 1 || size->tiles > 2) {
        return false;
    }
    const int columns = 32 * size->slices, rows = 128 * size->tiles;
    const bool exact = type == numeric_f32;
    const bool splits = columns == 64 && size->tiles == 1 && !exact;
    return columns >= portable_columns_least(type) && columns <= portable_columns_most(type) &&
           (size->split == 1 || (size->split == 2 && splits)) &&
           (size->tiles == 1 ||
            (size->tiles == 2 && (columns == 128 || (columns == 64 && exact)))) &&
           portable_stages(columns, rows, 1, d->shared_max) >= portable_stages_least;
}

// The choice without measurements. Where there are few tiles, narrow slices make more of them.
// Larger tiles read the weights half as often: where there are enough for all multiprocessors (not
// in int8, whose weights are half as large), or where shared memory leaves room for one thread
// block only, which is then a larger one. Where all
// tiles of 64 columns would begin at once, a layer waits for the heaviest: two sets of warps take
// turns with its stages, if these are many.
SPIRA_API conv_sizes portable_sizes_choose(const conv_shape *s, int32_t capacity,
                                           const device_info *d) {
    enum { enough = 16 };    // pairs of row groups of a multiprocessor, for larger tiles
    enum { long_tile = 48 }; // stages of a tile with all offsets, for two sets of warps
    const int64_t pairs = order_pairs(order_count(capacity));
    auto few = [&](int columns, int each) { // tiles of 128 rows, of a multiprocessor
        return pairs * ceil_div(s->cout, columns) <= (int64_t)each * d->multiprocessors;
    };
    const int most_columns = portable_columns_most(s->type);
    const bool narrow = portable_columns_least(s->type) == 32 && (s->cout <= 32 || few(64, 1));
    const bool halves = most_columns == 128 && s->cout % 128 == 0; // 64 columns leave none empty
    const int most = few(128, halves ? 2 : 1) ? 64 : most_columns;
    const int columns = narrow ? 32 : portable_columns_choose(s->cout, most);
    const int slices = columns / 32;
    const bool many =
        s->type != numeric_i8 && pairs * ceil_div(s->cout, columns) >= enough * d->multiprocessors;
    const bool alone = portable_resident_on(columns, 128, 1, d->shared_max) == 1;
    const conv_sizes large = {2, slices, 1, 1};
    const conv_sizes both = {1, slices, 2, 1};
    const bool turns = few(64, 2) && s->volume * conv_shape_chunks(s) >= long_tile;
    if (columns == 128 && (many || alone) && portable_sizes_fit(s->type, d, &large)) {
        return large;
    }
    return turns && portable_sizes_fit(s->type, d, &both) ? both : conv_sizes{1, slices, 1, 1};
}

} // namespace spira

#endif
