// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/plane_search.cuh: the z-delta search of a small cubic kernel (size 2, 3, 5 or 7): one
// warp for each x-plane of the kernel.
//
// It finds the same taps as search_block (search.cuh). Each warp of a thread block takes one plane
// (the K * K offsets that share x) of a tile of plane_rows(K) outputs. The warp brackets the
// plane's window of source words by itself and copies it to shared memory. Then it searches the
// outputs in passes: in each pass a lane has plane_ahead(K) outputs.
//
// Distances in the window are counted in steps of the row (a row is K offsets that differ in z). So
// the members of a row lie within K words from the anchor, the first word that is not below the
// row's first query. They become presence bits. Every tap is stored, so that the caller clears
// nothing beforehand.
//
// A window that is too long for its buffer, whose words are too far apart for 32 bits, or off the
// row's lattice, is sampled instead, and its rows are searched as plane_far.cuh says.
//
// A warp calls plane_read, plane_limit and plane_begin. Then for each pass of a near window it
// calls plane_find, and plane_put if it wants taps in shared memory; for each output of a sampled
// one plane_far_find, or for each pass plane_put_far.
#ifndef SPIRA_INDEX_PLANE_SEARCH_CUH
#define SPIRA_INDEX_PLANE_SEARCH_CUH

#include "plane_far.cuh"

namespace spira {

// Steps n .. 0 of a search of `steps` steps, whose first step has been taken.
template <int n, int searches>
SPIRA_DEVICE void plane_walk(uint32_t (&at)[searches], const uint32_t (&key)[searches], int steps) {
    if (n < plane_steps_least - 1 || n < steps - 1) {
#pragma unroll
        for (int r = 0; r < searches; ++r) {
            search_step<plane_step(n)>(&at[r], key[r]);
        }
    }
    if constexpr (n > 0) {
        plane_walk<n - 1, searches>(at, key, steps);
    }
}

// Presence bits of a row: looks at K words from the anchor on.
template <int K, int j = 0>
SPIRA_DEVICE uint32_t plane_members(uint32_t at, uint32_t key) {
    uint32_t bits = plane_bit(search_load<j>(at) - key);
    if constexpr (j + 1 < K) {
        bits |= plane_members<K, j + 1>(at, key);
    }
    return bits;
}

// Where taps go: the shared address of a lane's first tap, and the bytes to the next, 4 or -4 (of a
// transposed kernel; other sizes: 4).
struct plane_to {
    uint32_t first;
    int side;
};

// Stores taps [m, end) of a row. Its members stand side by side in the source.
template <int K, int end, int m = 0>
SPIRA_DEVICE void plane_store(uint32_t bits, int position, plane_to to) {
    if constexpr (m < end) {
        shared_store(to.first + (uint32_t)(m * (K == 2 ? to.side : 4)),
                     plane_tap<m>(bits, &position));
        plane_store<K, end, m + 1>(bits, position, to);
    }
}

// Stores taps [0, taps) of the plane of one output.
template <int K, int taps, int y = 0>
SPIRA_DEVICE void plane_store_rows(const plane_found<K> &found, plane_to to) {
    if constexpr (y * K < taps) {
        const plane_to row = {to.first + (uint32_t)(y * K * (K == 2 ? to.side : 4)), to.side};
        plane_store<K, (taps - y * K < K ? taps - y * K : K)>(found.bits[y], found.position[y],
                                                              row);
        plane_store_rows<K, taps, y + 1>(found, to);
    }
}

// Brackets and copies the window of a plane. Called by a whole warp.
//
// inputs   walk: from search_walk_make, for a kernel of size K that plane_takes accepts
//          queries: from plane_read and plane_limit
//          buffer [plane_window_words(K)]: shared memory of this warp alone, aligned to 16 bytes
//          rows: of the plane, if that is not K
template <typename W, int K>
SPIRA_DEVICE plane_search<W, K> plane_begin(const search_walk<W> &walk, const search_sets<W> &sets,
                                            const plane_outputs<W, K> &queries, int plane,
                                            uint32_t *buffer, int rows = K) {
    // A good guess where the sets are the same, or one is the floor of the other.
    int hint = queries.first;
    if (sets.count != sets.total) {
        hint = (int)__fdividef((float)hint * (float)sets.count, (float)sets.total);
    }
    W base = queries.lowest + walk.base + (W)plane * walk.step_x;
    W span = queries.highest - queries.lowest + (W)(rows - 1) * walk.step_y + walk.span;
    int start = search_warp_bracket(sets.source, sets.count, base, hint, 31);
    plane_window window = {0, start, {0, 0}};
    if (span < (W)(UINT32_MAX - plane_key_margin) &&
        plane_on_lattice<W, K>(queries, ((W)1 << walk.shift) - 1)) {
        window = plane_load<W, K>(sets, start, base, span, walk.shift, buffer);
    }
    __syncwarp();
    if (window.length.steps == 0) {
        window = plane_far_load<W, K>(sets, start, base + span, hint, buffer);
        __syncwarp();
    }
    return {walk, sets, queries, window, plane};
}

// A lane's output number g + a of a pass that begins with g. again: reads it again, which takes
// fewer registers. Lanes without an output have the tile's first.
template <bool again, typename W, int K>
SPIRA_DEVICE W plane_output(const plane_search<W, K> &search, int g, int a) {
    static_assert(plane_ahead(K) <= 2, "a pass has one output or two");
    const plane_outputs<W, K> &queries = search.queries;
    if constexpr (again) {
        const int row = (g + a) * 32 + (int)(threadIdx.x & 31);
        return search.sets.outputs[queries.first + (row < queries.rows ? row : 0)];
    }
    return a ? queries.word[g + plane_ahead(K) - 1] : queries.word[g];
}

// Whether the window is near: not sampled.
template <typename W, int K>
SPIRA_DEVICE bool plane_near(const plane_search<W, K> &search) {
    return search.window.length.steps != 0;
}

// Searches the rows of outputs g .. g + plane_ahead(K) - 1 of each lane. The searches are
// interleaved.
template <typename W, int K>
SPIRA_DEVICE void plane_find(const plane_search<W, K> &search, int g, plane_found<K> *found) {
    const search_walk<W> &walk = search.walk;
    const plane_window &window = search.window;
    const int searches = K * plane_ahead(K);
    uint32_t at[searches], key[searches];
    uint32_t second = window.words + (uint32_t)window.length.first * (uint32_t)sizeof(uint32_t);
    uint32_t word = search_load<-1>(second); // all searches start at the same word
    uint32_t step_y = (uint32_t)(walk.step_y >> walk.shift);
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        const uint32_t away = (uint32_t)(search.queries.word[g + r / K] - search.queries.lowest);
        key[r] = (away >> walk.shift) + (uint32_t)(r % K) * step_y;
        at[r] = word < key[r] ? second : window.words;
    }
    plane_walk<plane_steps_most(K) - 2, searches>(at, key, window.length.steps);
    int offset = window.begin - (int)(window.words >> 2);
#pragma unroll
    for (int r = 0; r < searches; ++r) {
        found[r / K].bits[r % K] = plane_members<K>(at[r], key[r]);
        found[r / K].position[r % K] = (int)(at[r] >> 2) + offset;
    }
}

// Stores the first `taps` taps of each output of a pass that plane_find has searched.
//
// columns  taps from one output to the next
// to       of the lane's first output
template <typename W, int K, int taps, int columns>
SPIRA_DEVICE void plane_put(const plane_search<W, K> &search, const plane_found<K> *found, int g,
                            plane_to to) {
#pragma unroll
    for (int a = 0; a < plane_ahead(K); ++a) {
        if ((g + a) * 32 + (int)(threadIdx.x & 31) < search.queries.rows) {
            plane_store_rows<K, taps>(found[a],
                                      {to.first + (uint32_t)(a * 32 * columns) * 4, to.side});
        }
    }
}

// Searches a pass of a sampled window and stores its taps, as plane_put does; taps of outputs that
// a lane does not have are unspecified. One output after the other, in code that is there once.
template <typename W, int K, int columns>
SPIRA_DEVICE void plane_put_far(const plane_search<W, K> &search, int g, int taps, plane_to to) {
    constexpr bool wide = columns == K * K * K; // half maps have no registers left
    constexpr bool again = !wide && K > 3 && sizeof(W) > 4;
#pragma unroll 1
    for (int a = 0; a < plane_ahead(K); ++a) {
        const W output = plane_output<again>(search, g, a);
        const auto store = [&](int c, int tap) {
            if (c < taps) {
                shared_store(to.first + (uint32_t)(a * 32 * columns * 4 + c * to.side),
                             (uint32_t)tap);
            }
        };
        plane_found<K> found;
        if (!plane_far_find<W, K, wide>(search, output, &found)) {
            plane_far_walk<W, K>(search, output, store);
            continue;
        }
#pragma unroll
        for (int c = 0; c < K * K; ++c) {
            const bool has = found.bits[c / K] >> c % K & 1;
            store(c, has ? found.position[c / K] : -1);
            found.position[c / K] += has;
        }
    }
}

} // namespace spira

#endif
