// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_pairs.h: convolution over the pair lists of a kernel map, offset by offset (Spira
// paper: weight-stationary dataflow): what the lists mean, and the host loop.
//
// map_build_lists (map.h) makes the lists: of all offsets, of the sparse offsets of a hybrid map,
// or of a half map, where the pair (i, o) of an offset is the pair (o, i) of its mirror.
#ifndef SPIRA_CONV_PAIRS_H
#define SPIRA_CONV_PAIRS_H

#include "conv.h"
#include "map.h"

namespace spira {

// Which products the lists stand for.
enum pairs_sides : int {
    pairs_sides_one,    // those of the listed pairs
    pairs_sides_both,   // half map: a pair of an offset also stands for the mirrored offset's pair
    pairs_sides_centre, // the same, and each row is paired with itself at the centre
};

// The pairs of an offset.
struct pairs_list {
    map_span span;          // in the arrays, clamped to the capacity of the lists
    const int32_t *sources; // input row of each; null: pair i has row i
    const int32_t *targets; // output row of each; the same
};

// rows     number of outputs: the pairs of the centre
SPIRA_BOTH pairs_list pairs_list_of(const map_lists *pairs, int volume, pairs_sides sides,
                                    int32_t rows, int k) {
    const int mirror = volume - 1 - k;
    const bool listed = sides == pairs_sides_one || k != mirror;
    const bool turned = sides != pairs_sides_one && k > mirror;
    pairs_list list = {{0, sides == pairs_sides_centre ? rows : 0}, nullptr, nullptr};
    if (listed) { // without a return: loads behind one are no longer known as global, and wait
        list.span = map_lists_span(pairs, turned ? mirror : k);
    }
    list.sources = !listed ? nullptr : turned ? pairs->output : pairs->input;
    list.targets = !listed ? nullptr : turned ? pairs->input : pairs->output;
    return list;
}

SPIRA_API status pairs_sides_check(const conv_shape *s, pairs_sides sides) {
    SPIRA_REQUIRE(sides >= pairs_sides_one && sides <= pairs_sides_centre, status_unsupported,
                  "sides", sides);
    SPIRA_REQUIRE(sides == pairs_sides_one || s->volume % 2, status_unsupported,
                  "sides (half map of an even volume)", s->volume);
    return status_success();
}

// Adds the products of all pairs to the sums: the host loop of conv_pairs_run (conv_pairs.cuh), in
// float or double. Rows that are negative, and outputs from `outputs` on, are skipped.
//
// inputs   a: without a map; pairs: of map_build_lists_host
// outputs  sum [outputs, cout]: accumulated onto
// errors   a half map of an even volume
// The order of the additions is fixed: offsets ascending, channels ascending.
template <typename Sum>
SPIRA_API status conv_pairs_host(const conv_host_args *a, const map_lists *pairs, pairs_sides sides,
                                 Sum *sum) {
    SPIRA_TRY(conv_host_check(a, sum));
    SPIRA_REQUIRE(!a->map, status_unsupported, "map (beside pairs)", 0);
    SPIRA_TRY(map_lists_check(pairs));
    const conv_shape *s = &a->shape;
    SPIRA_TRY(pairs_sides_check(s, sides));
    for (int k = 0; k < s->volume; ++k) {
        const pairs_list list = pairs_list_of(pairs, s->volume, sides, a->outputs, k);
        const float *weight = a->weight + (int64_t)k * (s->cin + s->cin2) * s->cout;
        SPIRA_PARALLEL_FOR
        for (int32_t j = list.span.begin; j < list.span.begin + list.span.count; ++j) {
            const int64_t source = list.sources ? list.sources[j] : j;
            const int64_t target = list.targets ? list.targets[j] : j;
            if (source >= 0 && target >= 0 && target < a->outputs) {
                conv_host_add(s, a->in, a->in2, weight, source, sum + target * s->cout);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
