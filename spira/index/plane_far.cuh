// spira/index/plane_far.cuh: the search of a plane whose window does not fit its buffer.
//
// A window does not fit if it has too many words, if its words are too far apart for 32-bit
// distances, or if they are off the row's lattice. Then the buffer holds samples: the last word of
// each chunk of 2^spacing words, as whole words. A search in the samples finds the chunk of a row's
// anchor, steps in global memory find its plane_far_chunk words in the chunk, and the row's members
// are read together with these. The rows of all outputs that a lane has are searched interleaved:
// a thread block with such a window waits for one warp, so that the time is that of its dependent
// loads. It grows with the logarithm of the window.
//
// What the search finds replaces the samples: for each output a record as in compact.h. The K words
// from an anchor on hold the members of its row unless words off the lattice lie between them. An
// output with such a row is marked, and searched once more, word by word.
#ifndef SPIRA_INDEX_PLANE_FAR_CUH
#define SPIRA_INDEX_PLANE_FAR_CUH

#include "plane_window.cuh"

namespace spira {

enum { plane_far_chunk = 2 }; // words of a chunk that are read at once, with the members

// In the presence bits of a record: its rows may have gaps.
enum : uint32_t { plane_far_gaps = 1u << 31 };

// The word that an output looks for at the first offset of row y of a plane.
template <typename W>
SPIRA_DEVICE W plane_far_key(const search_walk<W> &walk, W output, int plane, int y) {
    return output + walk.base + (W)plane * walk.step_x + (W)y * walk.step_y;
}

// Copies samples of the words from `begin` on. Called by a whole warp; a __syncwarp must precede
// and follow.
template <typename W, int K>
SPIRA_DEVICE void plane_far_load(const search_sets<W> &sets, int begin, int spacing,
                                 uint32_t *buffer) {
    // Without spacing, also the words that are read behind the last anchor.
    const int loads = (plane_samples<W> + K + plane_far_chunk + 31) / 32;
    const uint32_t lane = threadIdx.x & 31;
    static_assert(loads * 32 * sizeof(W) <= plane_window_words(K) * sizeof(uint32_t), "buffer");
    W word[loads];
#pragma unroll
    for (uint32_t j = 0; j < loads; ++j) {
        word[j] = plane_far_word(sets, (uint32_t)begin + ((32 * j + lane + 1) << spacing) - 1);
    }
#pragma unroll
    for (uint32_t j = 0; j < loads; ++j) {
        ((W *)buffer)[32 * j + lane] = word[j];
    }
}

// What the words near an anchor say of its row.
struct plane_far_row {
    uint32_t bits; // presence, K of them
    int below;     // words below the anchor
    bool gaps;     // there are words off the lattice
};

// Looks at `words` words, which hold the anchor and the K - 1 words behind it.
template <typename W, int K, int words>
SPIRA_DEVICE plane_far_row plane_far_look(const search_walk<W> &walk, const W *word, W key) {
    plane_far_row row = {0, 0, false};
    int inside = 0;
#pragma unroll
    for (int j = 0; j < words; ++j) {
        // Words off the lattice have bits below the shift, which go to the top.
        const W one = word[j], above = one - key;
        const uint32_t low = (uint32_t)above, member = __funnelshift_r(low, low, walk.shift);
        row.bits |= above == (W)low ? plane_bit(member) : 0;
        row.below += one < key;
        inside += above <= walk.span;
    }
    row.bits &= (1u << K) - 1;
    row.gaps = inside != __popc(row.bits);
    return row;
}

// Place in the buffer of the record of output g of this lane. Its words are 32 words apart.
template <int K>
SPIRA_DEVICE int plane_far_record(int g) {
    return g * 32 * (K + 1) + (int)(threadIdx.x & 31);
}

// Searches all rows of the outputs in a sampled window, and replaces the samples by records: the
// positions of the anchors, then presence bits. Returns whether rows of any output may have gaps:
// those bits are unspecified. Called by a whole warp; a __syncwarp must follow.
template <typename W, int K>
SPIRA_DEVICE bool plane_far_search(const search_walk<W> &walk, const search_sets<W> &sets,
                                   const plane_outputs<W, K> &queries, int plane, int begin,
                                   int spacing, uint32_t *buffer) {
    const int groups = plane_rows(K) / 32, searches = groups * K, words = K + plane_far_chunk - 1;
    constexpr int steps = plane_far_steps<W>();
    static_assert(groups * 32 * (K + 1) <= plane_window_words(K), "records fit the buffer");
    const W *samples = (const W *)buffer;
    const W first = plane_far_key<W>(walk, 0, plane, 0);
    const auto key = [&](W base, int r) {
        return queries.word[r / K] + (base + (W)(r % K) * walk.step_y);
    };
    constexpr int longest = plane_step(steps - 1);
    int at[searches];
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        at[r] = 0;
    }
#pragma unroll 1
    for (int n = 0, step = longest; n < steps; ++n, step = (step + 1) / 2) {
        const W base = plane_again(first); // keys are many registers
#pragma unroll
        for (int r = 0; r < searches; ++r) {
            at[r] += samples[at[r] + step - 1] < key(base, r) ? step : 0;
        }
    }
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        at[r] = begin + (at[r] << spacing);
    }
#pragma unroll 1
    for (int step = (1 << spacing) / 2; step >= plane_far_chunk; step /= 2) {
        const W base = plane_again(first);
#pragma unroll
        for (int r = 0; r < searches; ++r) {
            at[r] += plane_far_word(sets, (uint32_t)(at[r] + step - 1)) < key(base, r) ? step : 0;
        }
    }
    // Without spacing the samples are the words. With it there are `words` words.
    const W *from = spacing ? sets.source : samples;
    const int origin = spacing ? 0 : begin, last = spacing ? sets.count - words : INT32_MAX;
    uint32_t has[groups];
    bool any = false;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        if (g == groups / 2) {
            __syncwarp(); // no more loads ahead than there are registers for
        }
        const W base = plane_again(first);
        has[g] = 0;
#pragma unroll
        for (int r = g * K; r < g * K + K; ++r) {
            at[r] = min(at[r], last);
            const plane_far_row row =
                plane_far_look<W, K, words>(walk, from + (at[r] - origin), key(base, r));
            at[r] += row.below;
            has[g] |= row.bits << (r % K * K) | (row.gaps ? (uint32_t)plane_far_gaps : 0u);
        }
        any = any || (has[g] & plane_far_gaps);
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        buffer[plane_far_record<K>(r / K) + r % K * 32] = (uint32_t)at[r];
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        buffer[plane_far_record<K>(g) + K * 32] = has[g];
    }
    return __any_sync(~0u, any);
}

// Reads the records of outputs g .. g + plane_ahead(K) - 1 of each lane, as plane_find would find
// them.
template <int K>
SPIRA_DEVICE void plane_far_find(const plane_window &window, int g, plane_found<K> *found) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        const uint32_t record = window.words + (uint32_t)plane_far_record<K>(g + a) * 4;
        const uint32_t has = search_load<K * 32>(record);
#pragma unroll
        for (int y = 0; y < K; ++y) {
            found[a].position[y] = (int)search_load<0>(record + (uint32_t)y * 128);
            found[a].bits[y] = has >> (y * K);
        }
    }
}

// Calls output(a, word) for each output a of a pass whose rows may have gaps. For windows that
// plane_far_search found to have such rows.
template <typename W, int K, typename F>
SPIRA_DEVICE void plane_far_each_gap(const plane_window &window, const plane_outputs<W, K> &queries,
                                     int g, F output) {
    static_assert(plane_ahead(K) <= 2, "a pass has one output or two");
#pragma unroll 1
    for (int a = 0; a < plane_ahead(K); ++a) {
        const uint32_t record = window.words + (uint32_t)plane_far_record<K>(g + a) * 4;
        if (search_load<K * 32>(record) & plane_far_gaps) {
            output(a, a ? queries.word[g + plane_ahead(K) - 1] : queries.word[g]);
        }
    }
}

// Searches an output word by word, from source position `begin` on, and calls tap(c, position or
// -1) for offset c of the plane. Slow: for words off the lattice.
template <typename W, int K, typename F>
SPIRA_DEVICE void plane_far_walk(const search_walk<W> &walk, const search_sets<W> &sets, int begin,
                                 W output, int plane, F tap) {
    int cursor = begin;
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        const W key = plane_far_key(walk, output, plane, c / K) + (W)(c % K) * (W)walk.step;
        if (c % K == 0) {
            cursor = search_lower_bound(sets.source, cursor, sets.count, key);
        }
        tap(c, search_scan(sets.source, sets.count, key, &cursor));
    }
}

} // namespace spira

#endif
