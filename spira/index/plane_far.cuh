// spira/index/plane_far.cuh: the search of a plane whose window does not fit its buffer.
//
// A window does not fit if it has too many words, if its words are too far apart for 32-bit
// distances, or if they are off the row's lattice. Then the buffer holds samples: the last word of
// each chunk of 2^spacing words. A search in the samples finds the chunk of a row's anchor, and
// `spacing` steps in global memory find the anchor in its chunk; the samples have brought most of
// these words to the L1 cache. So a window takes three dependent loads more than one that fits, and
// the searches one for each doubling of the window. Samples are whole words.
//
// The K words from the anchor on hold the members of a row, as in a near search, unless words off
// the lattice lie between them. Such a row is walked word by word.
#ifndef SPIRA_INDEX_PLANE_FAR_CUH
#define SPIRA_INDEX_PLANE_FAR_CUH

#include "plane_window.cuh"

namespace spira {

// Bits of a row whose members do not stand side by side in the source: plane_row_gaps, the members
// up to the first gap, and all members from bit plane_row_all on.
enum : uint32_t { plane_row_gaps = 1u << 31, plane_row_all = 8 };

// Samples of a window: a power of two.
template <typename W>
SPIRA_BOTH constexpr int plane_samples(int K) {
    int samples = 32;
    while (2 * samples * (int)sizeof(W) <= plane_window_words(K) * (int)sizeof(uint32_t)) {
        samples *= 2;
    }
    return samples;
}

// Returns word i of the source; word_none() behind its end.
template <typename W>
SPIRA_DEVICE W plane_far_word(const search_sets<W> &sets, int i) {
    return (uint32_t)i < (uint32_t)sets.count ? sets.source[i] : word_none<W>();
}

// The word that an output looks for at the first offset of row y of a plane.
template <typename W>
SPIRA_DEVICE W plane_far_key(const search_walk<W> &walk, W output, int plane, int y) {
    return output + walk.base + (W)plane * walk.step_x + (W)y * walk.step_y;
}

// Samples the words from `near` up to `top`. hint: a position near that of `top`. Called by a whole
// warp; a __syncwarp must precede and follow.
template <typename W, int K>
SPIRA_DEVICE plane_window plane_far_load(const search_sets<W> &sets, int near, W top, int hint,
                                         uint32_t *buffer) {
    const int samples = plane_samples<W>(K), loads = 8, lane = threadIdx.x & 31;
    static_assert(samples % (32 * loads) == 0, "whole loads");
    const int slack = 255; // mostly without another load
    W *sample = (W *)buffer;
    // Room for the words that the rows read behind the last member.
    int words = search_warp_bracket(sets.source, sets.count, top, hint, slack) + slack + K - near;
    int spacing = 0;
    while (samples << spacing < words) {
        ++spacing;
    }
#pragma unroll 1
    for (int at = lane; at < samples; at += 32 * loads) {
        W word[loads];
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            word[j] = plane_far_word(sets, near + ((at + 32 * j + 1) << spacing) - 1);
        }
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            sample[at + 32 * j] = word[j];
        }
    }
    return {shared_address(buffer), near, {0, spacing}};
}

// Walks a row from *position, its anchor, on. Returns its bits, and sets *position to its first
// member.
template <typename W, int K>
SPIRA_DEVICE uint32_t plane_far_walk(const search_walk<W> &walk, const search_sets<W> &sets, W key,
                                     int *position) {
    uint32_t bits = 0, all = 0;
    int cursor = *position, next = -1;
#pragma unroll 1
    for (int m = 0; m < K; ++m, key += (W)walk.step) {
        const int tap = search_scan(sets.source, sets.count, key, &cursor);
        const bool first = tap >= 0 && next < 0;
        *position = first ? tap : *position;
        all |= tap >= 0 ? 1u << m : 0;
        bits |= first || (tap >= 0 && tap == next) ? 1u << m : 0;
        next = first || (tap >= 0 && tap == next) ? tap + 1 : next;
    }
    return bits == all ? bits : bits | all << plane_row_all | plane_row_gaps;
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
template <typename W, int K>
SPIRA_DEVICE void plane_far_anchors(const search_sets<W> &sets, const plane_window &window,
                                    const W (&key)[K], int (&position)[K]) {
    uint32_t at[K];
#pragma unroll
    for (int y = 0; y < K; ++y) {
        at[y] = window.words;
    }
    plane_far_steps<W, K, plane_samples<W>(K) / 2>(at, key);
#pragma unroll
    for (int y = 0; y < K; ++y) {
        const int chunk = (int)((at[y] - window.words) / (uint32_t)sizeof(W));
        position[y] = window.begin + (chunk << window.length.first);
    }
#pragma unroll 1
    for (int step = (1 << window.length.first) / 2; step; step /= 2) {
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

// Searches the rows of an output in a sampled window. Calls row(y, bits, position) for each:
// presence bits (plane_row_gaps), and the source position of the first member.
template <typename W, int K, typename F>
SPIRA_DEVICE void plane_far_find(const search_walk<W> &walk, const search_sets<W> &sets,
                                 const plane_window &window, W output, int plane, F row) {
    W key[K];
    int position[K];
#pragma unroll
    for (int y = 0; y < K; ++y) {
        key[y] = plane_far_key(walk, output, plane, y);
    }
    plane_far_anchors<W, K>(sets, window, key, position);
#pragma unroll
    for (int y = 0; y < K; ++y) {
        // Without spacing the samples are the words. With it there are K words, and those below the
        // anchor have no bits.
        const W *word = window.length.first ? sets.source + min(position[y], sets.count - K)
                                            : (const W *)shared_pointer(window.words) +
                                                  (position[y] - window.begin);
        bool off;
        uint32_t bits = plane_far_members<W, K>(walk, word, key[y], &off);
        if (off) {
            bits = plane_far_walk<W, K>(walk, sets, key[y], &position[y]);
        }
        row(y, bits, position[y]);
    }
}

} // namespace spira

#endif
