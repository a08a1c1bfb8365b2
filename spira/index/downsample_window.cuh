// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/downsample_window.cuh: fills windows of a set's words in shared memory
// (downsample_grid.cuh).
//
// A window holds 64-bit words as 32-bit distances from `base`, one group below the tile's first
// word: 0 for lower words, UINT32_MAX for those too far above. base has no bit that a mask clears,
// so that the masks serve words and distances. 32-bit words are kept as they are, with base 0.
#ifndef SPIRA_INDEX_DOWNSAMPLE_WINDOW_CUH
#define SPIRA_INDEX_DOWNSAMPLE_WINDOW_CUH

#include "../base/async.cuh"
#include "downsample_search.cuh"

namespace spira {

// The base of a tile's distances; first: its first word.
template <typename W>
SPIRA_DEVICE W downsample_base(const downsample_grid<W> &g, W first) {
    return sizeof(W) == 4 ? 0 : (first & g.group) - (g.group & (~g.group + 1));
}

template <typename W>
SPIRA_DEVICE uint32_t downsample_distance(const downsample_grid<W> &g, W word, W base) {
    if (sizeof(W) == 4) {
        return (uint32_t)word;
    }
    const W room = g.group & (~g.group + 1), away = word - base;
    // The distance may wrap for the topmost group, whose base is below the first one.
    const bool told = away >= room && away < UINT32_MAX;
    return word < (W)(base + room) ? 0 : told ? (uint32_t)away : UINT32_MAX;
}

enum { downsample_far = 1 << 30 };

// Whether the whole group of a word at this distance has exact distances.
template <typename W>
SPIRA_DEVICE bool downsample_fits(const downsample_grid<W> &g, uint32_t distance) {
    return sizeof(W) == 4 || (distance < downsample_far && g.reach < (W)downsample_far);
}

template <typename W>
SPIRA_DEVICE downsample_grid<uint32_t> downsample_grid_near(const downsample_grid<W> &g) {
    const auto floor = (uint32_t)g.floor, row = (uint32_t)g.row, plane = (uint32_t)g.plane;
    const auto step_x = (uint32_t)g.step_x, step_y = (uint32_t)g.step_y;
    const auto span = (uint32_t)g.span, group = (uint32_t)g.group, reach = (uint32_t)g.reach;
    return {floor, row, plane, step_x, step_y, span, group, reach, 0, g.two_x, g.two_y};
}

// ---- filling windows ----------------------------------------------------------------------------

// A thread's share of the near window's words, their loads in flight.
template <typename W, int tile, int threads>
struct downsample_words {
    W word[(tile + 2 * downsample_margin + threads - 1) / threads];
    W base; // of their distances; until downsample_put: the tile's first word
};

// The first word of the near window of a tile that starts at voxel `first`.
SPIRA_DEVICE int downsample_origin(int first) {
    return max(first - (int)downsample_margin, 0);
}

// Starts the loads of the near window, a tile and its margins, before the set's count is known.
// Words behind the set's count are loaded, too, and have no effect (downsample_put).
template <typename W, int tile, int threads>
SPIRA_DEVICE downsample_words<W, tile, threads> downsample_read(const W *words, int32_t capacity,
                                                                int first) {
    downsample_words<W, tile, threads> read;
    const unsigned from = (unsigned)downsample_origin(first) + threadIdx.x;
    words += from;
#pragma unroll
    for (int j = 0; j < (tile + 2 * downsample_margin + threads - 1) / threads; ++j) {
        read.word[j] = word_none<W>();
        if (from + j * threads < (unsigned)capacity) {
            read.word[j] = words[j * threads];
        }
    }
    read.base = sizeof(W) == 4 ? 0 : words[first - (int)from];
    return read;
}

// Stores the near window, padded for searches from any voxel of the tile. buffer: shared address of
// [pad + window + pad] words; words: how many the set has from the window's origin on.
template <typename W, int tile, int threads>
SPIRA_DEVICE void downsample_put(const downsample_grid<W> &g,
                                 downsample_words<W, tile, threads> &read, int words,
                                 uint32_t buffer) {
    read.base = downsample_base(g, read.base); // here, so that nothing waited for it before
    const int all = tile + 2 * downsample_margin, thread = (int)threadIdx.x,
              end = tile + downsample_margin + downsample_near_reach;
    const uint32_t to = buffer + downsample_bytes(downsample_pad) + downsample_bytes(thread);
#pragma unroll
    for (int j = 0; j < all; j += threads) {
        const uint32_t away = downsample_distance(g, read.word[j / threads], read.base);
        if (j + threads <= all || thread < all - j) {
            shared_store(to + downsample_bytes(j), thread < words - j ? away : UINT32_MAX);
        }
    }
#pragma unroll
    for (int j = all; j < end; j += threads) {
        if (j + threads <= end || thread < end - j) {
            shared_store(to + downsample_bytes(j), UINT32_MAX);
        }
    }
    if (thread < downsample_pad) {
        shared_store(to - downsample_bytes(downsample_pad), 0);
    }
}

// Whether all groups of the voxels [first, last) lie in the near window.
template <typename W, int tile>
SPIRA_DEVICE bool downsample_is_near(const downsample_grid<W> &g, uint32_t words, int first,
                                     int last) {
    const int origin = downsample_origin(first);
    const uint32_t from = words + downsample_bytes(first - origin);
    const uint32_t low = search_load<0>(from),
                   high = search_load<-1>(from + downsample_bytes(last - first));
    const uint32_t group = (uint32_t)g.group;
    return (origin == 0 || search_load<0>(words) < (low & group)) &&
           search_load<tile + downsample_margin - 1>(from) >= (high & group) + (uint32_t)g.reach &&
           downsample_fits(g, high);
}

// Finds the span of the voxels [first, last). Called by all threads of a block of at least two
// warps, with a barrier inside.
template <typename W>
SPIRA_DEVICE downsample_span downsample_find_span(const downsample_grid<W> &g, const W *words,
                                                  int count, int first, int last) {
    __shared__ int bound[2];
    int warp = threadIdx.x / 32;
    if (warp < 2) {
        const W group = words[warp ? last - 1 : first] & g.group;
        // The end is the lower bound of the last group's highest word, which is no voxel: its y and
        // z are all ones. It does not wrap: the guard margin keeps planes away from the field's
        // end, or the plane ends with the highest word there is.
        const W key = warp ? group + g.reach : group;
        int at = search_warp_lower_bound(words, count, key, warp ? last : first);
        if (threadIdx.x % 32 == 0) {
            bound[warp] = at;
        }
    }
    __syncthreads();
    // Voxels off the lattice may lie behind all planes of their group.
    const int begin = bound[0] & ~31, end = max(bound[1], last);
    const W base = downsample_base(g, words[first]);
    const bool fits = end - begin <= downsample_window - downsample_pad &&
                      downsample_fits(g, downsample_distance(g, words[last - 1], base));
    return {begin, fits ? end : ~end};
}

// Stores the words of a span as a window. Returns the window's reach. Called by all threads of a
// block; the caller needs a barrier before it searches.
template <typename W>
SPIRA_DEVICE int downsample_copy(const downsample_grid<W> &g, const W *words, W base,
                                 downsample_span span, int threads, uint32_t buffer) {
    const int n = span.end - span.begin,
              reach = max(1 << (32 - __clz(n)), (int)search_length_min), // above the words
        end = max(reach, n + (int)downsample_pad);                       // with their padding
    words += span.begin;
    buffer += downsample_bytes(downsample_pad);
    int i = (int)threadIdx.x;
#pragma unroll 4
    for (; i < n; i += threads) {
        shared_store(buffer + downsample_bytes(i), downsample_distance(g, words[i], base));
    }
#pragma unroll 1
    for (; i < end; i += threads) {
        shared_store(buffer + downsample_bytes(i), UINT32_MAX);
    }
    return reach;
}

} // namespace spira

#endif
