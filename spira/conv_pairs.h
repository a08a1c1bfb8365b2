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

// The offset whose list holds the pairs of offset k; -1: the centre, which has no list.
SPIRA_BOTH int pairs_own(int volume, pairs_sides sides, int k) {
    int mirror = volume - 1 - k;
    return sides == pairs_sides_one || k < mirror ? k : k > mirror ? mirror : -1;
}

// The pairs of offset k, clamped to the capacity of the lists.
//
// rows     number of outputs: the pairs of the centre
SPIRA_BOTH map_span pairs_span_of(const map_lists *pairs, int volume, pairs_sides sides,
                                  int32_t rows, int k) {
    const int own = pairs_own(volume, sides, k);
    return own >= 0 ? map_lists_span(pairs, own)
                    : map_span{0, sides == pairs_sides_centre ? rows : 0};
}

// The input rows of offset k's pairs, indexed like the lists; null: pair i has row i.
SPIRA_BOTH const int32_t *pairs_sources(const map_lists *pairs, int volume, pairs_sides sides,
                                        int k) {
    int own = pairs_own(volume, sides, k);
    return own < 0 ? nullptr : own == k ? pairs->input : pairs->output;
}

// The output rows of offset k's pairs; the same.
SPIRA_BOTH const int32_t *pairs_targets(const map_lists *pairs, int volume, pairs_sides sides,
                                        int k) {
    int own = pairs_own(volume, sides, k);
    return own < 0 ? nullptr : own == k ? pairs->output : pairs->input;
}

SPIRA_API status pairs_sides_check(const conv_shape *s, pairs_sides sides) {
    SPIRA_REQUIRE(sides >= pairs_sides_one && sides <= pairs_sides_centre, status_unsupported,
                  "sides", sides);
    SPIRA_REQUIRE(sides == pairs_sides_one || s->volume % 2, status_unsupported,
                  "sides (half map of an even volume)", s->volume);
    return status_success();
}

// Adds the products of one offset to sum [outputs, cout]. sources, targets [count], or null.
template <typename Sum>
SPIRA_API void conv_pairs_host_list(const conv_shape *s, const float *in, const float *in2,
                                    const float *weight, const int32_t *sources,
                                    const int32_t *targets, int32_t count, int32_t outputs,
                                    Sum *sum) {
    const int64_t cout = s->cout, chunk = 64, chunks = ceil_div(count, chunk);
    SPIRA_PARALLEL_FOR
    for (int64_t c = 0; c < chunks; ++c) {
        for (int64_t j = c * chunk; j < min_of(count, (c + 1) * chunk); ++j) {
            int64_t source = sources ? sources[j] : j, target = targets ? targets[j] : j;
            if (source >= 0 && target >= 0 && target < outputs) { // as the kernels do
                conv_host_add(s, in, in2, weight, source, sum + target * cout);
            }
        }
    }
}

// Adds the products of all pairs to the sums: the host loop of conv_pairs_run (conv_pairs.cuh), in
// float or double.
//
// inputs   in [inputs, cin], in2 [inputs, cin2] or null; weight [volume, cin + cin2, cout];
//          pairs: of map_build_lists_host
// outputs  sum [outputs, cout]: accumulated onto
// errors   null pointers, sizes, a half map of an even volume
// The order of the additions is fixed: offsets ascending, channels ascending.
template <typename Sum>
SPIRA_API status conv_pairs_host(const conv_shape *s, const float *in, const float *in2,
                                 const float *weight, const map_lists *pairs, pairs_sides sides,
                                 int32_t outputs, Sum *sum) {
    SPIRA_TRY(conv_shape_check(s));
    SPIRA_REQUIRE(in && (in2 || !s->cin2), status_null_pointer, "in", 0);
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_TRY(map_lists_check(pairs));
    SPIRA_TRY(pairs_sides_check(s, sides));
    SPIRA_REQUIRE(sum, status_null_pointer, "sum", 0);
    SPIRA_REQUIRE(outputs >= 0, status_bad_size, "outputs", outputs);
    const int64_t pitch = (int64_t)(s->cin + s->cin2) * s->cout;
    for (int k = 0; k < s->volume; ++k) {
        map_span list = pairs_span_of(pairs, s->volume, sides, outputs, k);
        const int32_t *sources = pairs_sources(pairs, s->volume, sides, k);
        const int32_t *targets = pairs_targets(pairs, s->volume, sides, k);
        conv_pairs_host_list(s, in, in2, weight + k * pitch,
                             sources ? sources + list.begin : nullptr,
                             targets ? targets + list.begin : nullptr, list.count, outputs, sum);
    }
    return status_success();
}

} // namespace spira

#endif
