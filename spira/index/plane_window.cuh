// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/plane_window.cuh: the window of source words in which one warp searches one plane of
// a tile (plane_search.cuh), and its copy in shared memory.
#ifndef SPIRA_INDEX_PLANE_WINDOW_CUH
#define SPIRA_INDEX_PLANE_WINDOW_CUH

#include "compact.h"
#include "plane_asm.cuh"

namespace spira {

// Outputs of a tile, and outputs that a lane searches in one pass.
SPIRA_BOTH constexpr int plane_rows(int K) {
    return K <= 3 ? 128 : 64;
}

SPIRA_BOTH constexpr int plane_ahead(int K) {
    return K <= 3 ? 2 : 1;
}

// Words of a window's buffer: a multiple of what plane_load loads at once. A window that does not
// fit is sampled.
SPIRA_BOTH constexpr int plane_window_words(int K) {
    return K <= 3 ? 576 : 512;
}

// Columns of the map: all offsets, or those before the centre (half).
SPIRA_BOTH constexpr int plane_columns(int K, bool half) {
    return half ? K * K * K / 2 : K * K * K;
}

// Planes that have these columns. The last plane of a half map has only its lower half.
SPIRA_BOTH constexpr int plane_count(int K, bool half) {
    return half ? K / 2 + 1 : K;
}

// Bytes of shared memory for the taps of a pass.
SPIRA_BOTH constexpr int plane_taps_bytes(int K, bool half) {
    return plane_ahead(K) * 32 * plane_columns(K, half) * (int)sizeof(int32_t);
}

// Bytes of shared memory for the windows.
SPIRA_BOTH constexpr int plane_windows_bytes(int planes, int K) {
    return planes * plane_window_words(K) * (int)sizeof(uint32_t);
}

// Length of step n of the search; the last step is number 0. From the fifth on, lengths are a
// little less than powers of two, so that the lanes read different banks.
SPIRA_BOTH constexpr int plane_step(int n) {
    return n < 4 ? 1 << n : 2 * plane_step(n - 1) - 1;
}

// Words that steps 0 .. steps - 1 can pass.
SPIRA_BOTH constexpr int plane_words_in(int steps) {
    return steps == 0 ? 0 : plane_words_in(steps - 1) + plane_step(steps - 1);
}

enum {
    plane_steps_least = 6,
    plane_key_margin = 64, // least distance between a key and the padding
};

SPIRA_BOTH constexpr int plane_steps_most(int K) {
    return plane_words_in(9) + K <= plane_window_words(K) ? 9 : 8;
}

// Number of steps of a search, and the words that its first step may pass.
struct plane_search_length {
    int steps, first;
};

// plane_words_in(length.steps); requires 5 steps or more.
SPIRA_BOTH int plane_words_of(plane_search_length length) {
    return 2 * length.first + length.steps - 5;
}

// Returns the shortest search that can pass `words` words; one of most + 1 steps if there is none.
SPIRA_BOTH plane_search_length plane_length_for(int words, int most) {
    plane_search_length length = {plane_steps_least, plane_step(plane_steps_least - 1)};
    while (length.steps <= most && words > plane_words_of(length)) {
        length.steps += 1;
        length.first = 2 * length.first - 1;
    }
    return length;
}

// The outputs of a tile as a warp holds them: lane l has numbers l, l + 32, ...
template <typename W, int K>
struct plane_outputs {
    W word[plane_rows(K) / 32];
    W lowest, highest;
    int first, rows;
};

// The window of a plane: source [begin, ...), as distances from the lowest query in row steps.
// Without steps the window is sampled (plane_far.cuh): then `first` is log2 of the distance between
// two samples.
struct plane_window {
    uint32_t words; // shared address
    int begin;
    plane_search_length length;
};

// The state of a warp that searches a plane of a tile.
template <typename W, int K>
struct plane_search {
    const search_walk<W> &walk;
    const search_sets<W> &sets;
    plane_outputs<W, K> queries;
    plane_window window;
    int plane;
};

// What a search finds for one output in a plane: for each row, K presence bits and the source
// position of the first member. A near search leaves bits from K on unspecified.
template <int K>
struct plane_found {
    uint32_t bits[K];
    int position[K];
};

// Reads the outputs of a tile before their count is known: never past the capacity. Called by a
// whole warp.
template <typename W, int K>
SPIRA_DEVICE void plane_read(const W *outputs, int capacity, int first,
                             plane_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        queries->word[g] = outputs[min(first + g * 32 + lane, capacity - 1)];
    }
    queries->lowest = __shfl_sync(~0u, queries->word[0], 0); // keeps the loads here
    queries->first = first;
}

// Takes the count into account: lanes without an output repeat the tile's first output.
template <typename W, int K>
SPIRA_DEVICE void plane_limit(int rows, plane_outputs<W, K> *queries) {
    int lane = threadIdx.x & 31;
    W top = queries->word[0];
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        top = rows > g * 32 ? queries->word[g] : top;
        queries->word[g] = g * 32 + lane < rows ? queries->word[g] : queries->lowest;
    }
    queries->highest = __shfl_sync(~0u, top, (rows - 1) & 31);
    queries->rows = rows;
}

// Whether the distances between all outputs are multiples of the row's step.
template <typename W, int K>
SPIRA_DEVICE bool plane_on_lattice(const plane_outputs<W, K> &queries, W mask) {
    W off = 0;
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; ++g) {
        off |= queries.word[g] - queries.lowest;
    }
    return !__any_sync(~0u, (off & mask) != 0);
}

// Copies the words within [base, base + span] as distances from base, in row steps. At most 32 of
// the words from `start` on may be below base. The window has 0 steps if its words do not fit, or
// are not on the row's lattice.
template <typename W, int K>
SPIRA_DEVICE plane_window plane_load(const search_sets<W> &sets, int start, W base, W span,
                                     int shift, uint32_t *buffer) {
    const int loads = K <= 3 ? 6 : 4; // in flight together: enough for most windows
    const int capacity = plane_window_words(K);
    const int lane = threadIdx.x & 31;
    int loaded = 0; // words
    int below = 0;  // those of the first 32 that are below base: they are not stored
    int words = 0;  // within the window, before the last loads
    W mask = ((W)1 << shift) - 1, off = 0;
    bool within[loads];
    // Loads until a word is above the window, or the buffer is full.
    do {
        W word[loads];
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            int i = start + loaded + 32 * j + lane;
            word[j] = i < sets.count ? sets.source[i] : word_none<W>();
        }
        if (loaded == 0) {
            below = __popc(__ballot_sync(~0u, word[0] < base));
        }
        words = loaded ? loaded - below : 0;
        uint32_t *out = buffer + loaded - below + lane;
#pragma unroll
        for (int j = 0; j < loads; ++j) {
            W away = word[j] - base;
            within[j] = word[j] >= base && away <= span;
            off |= within[j] ? away : 0;
            if (loaded + j || lane >= below) {
                out[32 * j] = within[j] ? (uint32_t)(away >> shift) : UINT32_MAX;
            }
        }
        loaded += 32 * loads;
    } while (loaded < capacity && __any_sync(~0u, lane == 31 && within[loads - 1]));
    // Counts the window's words, and pads it to what its searches can pass and the K words that
    // they look at.
#pragma unroll
    for (int j = 0; j < loads; ++j) {
        words += __popc(__ballot_sync(~0u, within[j]));
    }
    plane_search_length length = plane_length_for(words, plane_steps_most(K));
    bool fits = words < loaded - below && length.steps <= plane_steps_most(K);
    int padded = fits ? plane_words_of(length) + K : 0;
#pragma unroll 1
    for (int i = loaded - below + lane; i < padded; i += 32) {
        buffer[i] = UINT32_MAX;
    }
    length.steps = fits && !__any_sync(~0u, (off & mask) != 0) ? length.steps : 0;
    return {shared_address(buffer), start + below, length};
}

} // namespace spira

#endif
