// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/downsample_search.cuh: heads and ranks of cells (downsample_grid.cuh), by searches in
// one of two sources of words: a window in shared memory, or the set itself where no window holds
// the span of a tile.
//
// A place is where a word of the source is: a shared address in a window, an index in a set.
// square: cells of two planes with two rows each, the common step; else the grid says.
#ifndef SPIRA_INDEX_DOWNSAMPLE_SEARCH_CUH
#define SPIRA_INDEX_DOWNSAMPLE_SEARCH_CUH

#include "../search.cuh"
#include "downsample_grid.cuh"

namespace spira {

// ---- a window -----------------------------------------------------------------------------------

// The words of a span in shared memory, with zeros before and UINT32_MAX after them. The first
// word's place in the set is a multiple of 32. nearby: the near window.
template <bool nearby>
struct downsample_window_of {
    typedef uint32_t place;
    uint32_t words; // shared address of the first word
    uint32_t marks; // and of the heads of the window's words; for ranks
    int reach;      // a power of two above the distance of any search
};

SPIRA_DEVICE uint32_t downsample_bytes(int words) {
    return (uint32_t)words * (uint32_t)sizeof(uint32_t);
}

template <bool nearby>
SPIRA_DEVICE uint32_t downsample_place(const downsample_window_of<nearby> &window, int i) {
    return window.words + downsample_bytes(i);
}

template <int index = 0, bool nearby>
SPIRA_DEVICE uint32_t downsample_word_at(const downsample_window_of<nearby> &, uint32_t at) {
    return search_load<index>(at);
}

// Lower bounds, all at once. ahead: they are at or after `from`.
template <bool nearby, int keys>
SPIRA_DEVICE void downsample_find(const downsample_window_of<nearby> &window, uint32_t from,
                                  bool ahead, const uint32_t (&key)[keys], uint32_t (&at)[keys]) {
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = nearby && ahead ? from : window.words;
    }
    if (nearby) {
        search_steps<downsample_near_reach / 2, keys>(at, key, downsample_near_reach);
    } else {
        search_steps<downsample_window / 2, keys>(at, key, window.reach);
    }
}

// The same for bounds that are probably within downsample_close words of `from`, ahead or behind.
// wanted: the bounds are used.
template <bool nearby, int keys>
SPIRA_DEVICE void downsample_find_close(const downsample_window_of<nearby> &window, uint32_t from,
                                        bool ahead, bool wanted, const uint32_t (&key)[keys],
                                        uint32_t (&at)[keys]) {
    const uint32_t close = downsample_bytes(downsample_close), begin = ahead ? from : from - close,
                   out = ahead ? from + close : begin;
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = begin;
    }
    search_steps<(downsample_close + 1) / 2, keys>(at, key, 0);
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        if (wanted && at[j] == out) { // it ran out of words
            at[j] = window.words;
#pragma unroll 1
            for (uint32_t step = downsample_bytes(window.reach) / 2; step >= sizeof(uint32_t);
                 step /= 2) {
                at[j] += search_load<-1>(at[j] + step) < key[j] ? step : 0;
            }
        }
    }
}

// The number of heads in front of a place, counted from the start of the thread block's voxels.
template <bool nearby>
SPIRA_DEVICE int downsample_before(const downsample_window_of<nearby> &window, uint32_t at) {
    const uint32_t away = at - window.words;
    const uint2 heads =
        shared_load_2(window.marks + away / 128 * (uint32_t)sizeof(downsample_heads));
    return (int)heads.y + __popc(heads.x & ((1u << away / 4 % 32) - 1));
}

// ---- the set itself -----------------------------------------------------------------------------

template <typename W>
struct downsample_set_of {
    typedef int place;
    const W *words;
    int begin, end, count; // of the span; of the set
    // For ranks:
    const downsample_heads *marks;
    const int32_t *blocks; // heads in front of each thread block's 2^shift voxels
    int shift, total;
};

template <typename W>
SPIRA_DEVICE int downsample_place(const downsample_set_of<W> &, int i) {
    return i;
}

template <int index = 0, typename W>
SPIRA_DEVICE W downsample_word_at(const downsample_set_of<W> &set, int at) {
    return at + index < set.count ? set.words[at + index] : word_none<W>();
}

template <typename W, int keys>
SPIRA_DEVICE void downsample_find(const downsample_set_of<W> &set, int, bool, const W (&key)[keys],
                                  int (&at)[keys]) {
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = set.begin;
    }
#pragma unroll 1
    for (int step = 1 << (31 - __clz(max(set.end - set.begin, 1))); step; step >>= 1) {
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            at[j] += at[j] + step <= set.end && set.words[at[j] + step - 1] < key[j] ? step : 0;
        }
    }
}

template <typename W, int keys>
SPIRA_DEVICE void downsample_find_close(const downsample_set_of<W> &set, int from, bool ahead, bool,
                                        const W (&key)[keys], int (&at)[keys]) {
    downsample_find(set, from, ahead, key, at);
}

// Counted from the start of the set.
template <typename W>
SPIRA_DEVICE int downsample_before(const downsample_set_of<W> &set, int at) {
    if (at >= set.count) {
        return set.total;
    }
    const downsample_heads h = set.marks[at / 32];
    return set.blocks[at >> set.shift] + h.before + __popc(h.bits & ((1u << at % 32) - 1));
}

// ---- heads and ranks ----------------------------------------------------------------------------

// Whether the row of a cell that starts at word `key` has a voxel. at: the key's lower bound.
template <typename W, typename S>
SPIRA_DEVICE bool downsample_there(const downsample_grid<W> &g, const S &source,
                                   typename S::place at, W key) {
    return (W)(downsample_word_at(source, at) - key) <= g.span;
}

// Whether word i of the source is the first voxel of its cell.
template <bool square, typename W, typename S>
SPIRA_DEVICE bool downsample_head(const downsample_grid<W> &g, const S &source, int i) {
    const bool two_x = square || g.two_x, two_y = square || g.two_y;
    const typename S::place from = downsample_place(source, i);
    const W word = downsample_word_at(source, from), cell = word & g.floor;
    const bool x = two_x && (word & g.step_x), y = two_y && (word & g.step_y);
    const W own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    bool there = i > 0 && downsample_word_at<-1>(source, from) >= own;
    if (two_x) { // the rows of the lower plane
        const W key[2] = {cell, (W)(cell + g.step_y)};
        typename S::place at[2];
        downsample_find(source, from, false, key, at);
        const bool either = downsample_there(g, source, at[0], key[0]) ||
                            (two_y && downsample_there(g, source, at[1], key[1]));
        there = there || (x && either);
    }
    if (two_y) { // the lower row of the own plane
        const W key[1] = {(W)(own - g.step_y)};
        typename S::place at[1];
        downsample_find_close(source, from, false, y && !there, key, at);
        there = there || (y && downsample_there(g, source, at[0], key[0]));
    }
    return !there;
}

// The rank of head i's cell among all cells: the number of heads of cells with lower words. These
// are the heads in front of the cell in its lower row, and those of the upper row and of the upper
// plane that are in front of the cell there. Counted as downsample_before counts.
template <bool square, typename W, typename S>
SPIRA_DEVICE int downsample_rank(const downsample_grid<W> &g, const S &source, int i) {
    const bool two_x = square || g.two_x, two_y = square || g.two_y;
    const typename S::place from = downsample_place(source, i);
    const W word = downsample_word_at(source, from), cell = word & g.floor;
    const bool x = two_x && (word & g.step_x), y = two_y && (word & g.step_y);
    const W own = x ? cell + g.step_x : cell, other = x ? cell : cell + g.step_x;
    int rank = downsample_before(source, from);
    if (two_x) {
        // The start of the upper plane; in the other plane, the cell's place in its lower row, and
        // the start of its upper row and the cell's place there.
        const W away = other + g.step_y;
        const W key[4] = {(W)((cell + g.step_x) & g.plane), other, (W)(away & g.row), away};
        typename S::place at[4];
        downsample_find(source, from, !x, key, at);
        rank += downsample_before(source, at[1]) - downsample_before(source, at[0]);
        if (two_y) {
            rank += downsample_before(source, at[3]) - downsample_before(source, at[2]);
        }
    }
    if (two_y) {
        // In the own plane: the start of the upper row and the cell's place there; or, if the word
        // is in the upper row, the cell's place in the lower row and the start of the upper one.
        const W up = own + g.step_y, row = up & g.row;
        const W key[2] = {y ? own : row, y ? row : up};
        typename S::place at[2];
        downsample_find_close(source, from, !y, true, key, at);
        const int upper = downsample_before(source, at[1]) - downsample_before(source, at[0]);
        rank += y ? -upper : upper;
    }
    return rank;
}

} // namespace spira

#endif
