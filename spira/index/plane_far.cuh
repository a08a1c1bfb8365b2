// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/plane_far.cuh: the search of a plane whose window does not fit its buffer.
//
// A window does not fit if it has too many words, if its words are too far apart for 32-bit
// distances, or if they are off the row's lattice. Then the buffer holds samples: the last word of
// each chunk of 2^spacing words. A search in the samples finds the chunk of a row's anchor, and
// `spacing` steps in global memory find the anchor in its chunk; the samples have brought most of
// these words to the L1 cache. So the time grows with the logarithm of the window. Samples are
// whole words.
//
// The K words from the anchor on hold the members of a row, as in a near search, unless words off
// the lattice lie between them. An output with such a row is searched once more, word by word.
#ifndef SPIRA_INDEX_PLANE_FAR_CUH
#define SPIRA_INDEX_PLANE_FAR_CUH

#include "plane_window.cuh"

namespace spira {

// Samples of a window. More of them would be loaded in two goes, for one step less in the source.
enum {
    plane_samples = 256,
    plane_spacing_most = 22, // 2^30 words: all that a set can have
};

// Returns word i of the source; word_none() behind its end.
template <typename W>
SPIRA_DEVICE W plane_far_word(const search_sets<W> &sets, int i) {
    return (uint32_t)i < (uint32_t)sets.count ? sets.source[i] : word_none<W>();
}

// Chunks of 2^spacing words, so that the samples reach over `words` of them.
SPIRA_BOTH int plane_spacing(int words) {
    int spacing = 0;
    while (spacing < plane_spacing_most && plane_samples << spacing < words) {
        ++spacing;
    }
    return spacing;
}

// Samples the words from `start` up to `top`. hint: a position near that of `top`. Called by a
// whole warp; a __syncwarp must precede and follow.
template <typename W, int K>
SPIRA_DEVICE plane_window plane_far_load(const search_sets<W> &sets, int start, W top, int hint,
                                         uint32_t *buffer) {
    const int loads = plane_samples / 32, lane = threadIdx.x & 31;
    const int slack = plane_samples - 1; // mostly without another load
    static_assert(plane_samples * sizeof(W) <= plane_window_words(K) * sizeof(uint32_t), "buffer");
    // Room for the words that the rows read behind the last member.
    int words = search_warp_bracket(sets.source, sets.count, top, hint, slack) + slack + K - start;
    words = min(words, sets.count - start + K); // so that with spacing there are K words at least
    const int spacing = plane_spacing(words);
    W word[loads];
#pragma unroll
    for (int j = 0; j < loads; ++j) {
        word[j] = plane_far_word(sets, start + ((32 * j + lane + 1) << spacing) - 1);
    }
#pragma unroll
    for (int j = 0; j < loads; ++j) {
        ((W *)buffer)[32 * j + lane] = word[j];
    }
    return {shared_address(buffer), start, {0, spacing}};
}

// Steps of a search in samples, the first of `step` words. at: shared addresses.
template <typename W, int K, int step>
SPIRA_DEVICE void plane_far_steps(uint32_t (&at)[K], const W (&key)[K]) {
#pragma unroll
    for (int y = 0; y < K; ++y) {
        plane_far_step<step>(&at[y], key[y]);
    }
    if constexpr (step > 1) {
        plane_far_steps<W, K, step / 2>(at, key);
    }
}

// Finds the positions of the anchors of rows in a sampled window, interleaved.
//
// wide: takes two steps at once if K is 3, which needs registers
template <typename W, int K, bool wide>
SPIRA_DEVICE void plane_far_anchors(const search_sets<W> &sets, const plane_window &window,
                                    const W (&key)[K], int (&position)[K]) {
    uint32_t at[K];
#pragma unroll
    for (int y = 0; y < K; ++y) {
        at[y] = window.words;
    }
    plane_far_steps<W, K, plane_samples / 2>(at, key);
#pragma unroll
    for (int y = 0; y < K; ++y) {
        const int chunk = (int)((at[y] - window.words) / (uint32_t)sizeof(W));
        position[y] = window.begin + (chunk << window.length.first);
    }
    int step = 1 << window.length.first;
    if constexpr (wide && K <= 3) { // two steps at once: three words, loaded together
#pragma unroll 1
        for (; step > 2; step /= 4) {
            int more[K] = {};
#pragma unroll
            for (int y = 0; y < K; ++y) {
#pragma unroll
                for (int n = 1; n < 4; ++n) {
                    const W word = plane_far_word(sets, position[y] + n * (step / 4) - 1);
                    more[y] += word < key[y] ? step / 4 : 0;
                }
            }
#pragma unroll
            for (int y = 0; y < K; ++y) {
                position[y] += more[y];
            }
        }
    }
#pragma unroll 1
    for (step /= 2; step; step /= 2) {
#pragma unroll
        for (int y = 0; y < K; ++y) {
            position[y] += plane_far_word(sets, position[y] + step - 1) < key[y] ? step : 0;
        }
    }
}

// Presence bits of a row, K of them, of the K words from its anchor on. *off: one of them is in the
// row but off its lattice.
template <typename W, int K>
SPIRA_DEVICE uint32_t plane_far_members(const search_walk<W> &walk, const W *word, W key,
                                        bool *off) {
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
        // Words off the lattice have bits below the shift, which go to the top.
        const W above = word[j] - key;
        const uint32_t low = (uint32_t)above, member = __funnelshift_r(low, low, walk.shift);
        bits |= above == (W)low ? plane_bit(member) : 0;
    }
    *off = false;
    const W mask = ((W)1 << walk.shift) - 1;
#pragma unroll 1
    for (int j = 0; j < K && mask; ++j) {
        const W above = word[j] - key;
        *off = *off || (above <= walk.span && (above & mask));
    }
    return bits & ((1u << K) - 1);
}

// Searches the rows of an output in a sampled window. Returns false if there are words off the
// lattice: then what it found is unspecified. wide: as in plane_far_anchors
template <typename W, int K, bool wide>
SPIRA_DEVICE bool plane_far_find(const plane_search<W, K> &search, W output,
                                 plane_found<K> *found) {
    const plane_window &window = search.window;
    W key[K];
    bool any = false;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        key[y] = search_anchor(search.walk, output, search.plane, y);
    }
    plane_far_anchors<W, K, wide>(search.sets, window, key, found->position);
#pragma unroll
    for (int y = 0; y < K; ++y) {
        // Without spacing the samples are the words. With it there are K words, and those below the
        // anchor have no bits.
        const W *word =
            window.length.first
                ? search.sets.source + min(found->position[y], search.sets.count - K)
                : (const W *)shared_pointer(window.words) + (found->position[y] - window.begin);
        bool off;
        found->bits[y] = plane_far_members<W, K>(search.walk, word, key[y], &off);
        any = any || off;
    }
    return !any;
}

// Searches an output word by word, and calls tap(c, position or -1) for offset c of the plane.
// Slow: for words off the lattice.
template <typename W, int K, typename F>
SPIRA_DEVICE void plane_far_walk(const plane_search<W, K> &search, W output, F tap) {
    int cursor = search.window.begin;
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        const W key = search_anchor(search.walk, output, search.plane, c / K) +
                      (W)(c % K) * (W)search.walk.step;
        if (c % K == 0) {
            cursor = search_lower_bound(search.sets.source, cursor, search.sets.count, key);
        }
        tap(c, search_scan(search.sets.source, search.sets.count, key, &cursor));
    }
}

} // namespace spira

#endif
