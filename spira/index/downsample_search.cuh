// spira/index/downsample_search.cuh: heads and ranks of cells by searches in the set itself, where
// a span is too long for shared memory (downsample_grid.cuh).
//
// rx, ry: planes and rows of a cell, 1 or 2.
#ifndef SPIRA_INDEX_DOWNSAMPLE_SEARCH_CUH
#define SPIRA_INDEX_DOWNSAMPLE_SEARCH_CUH

#include "downsample_grid.cuh"

namespace spira {

// Lower bounds of `keys` words at a time; they lie in [begin, end].
template <typename W, int keys>
SPIRA_DEVICE void downsample_search(const W *words, int begin, int end, const W (&key)[keys],
                                    int (&at)[keys]) {
#pragma unroll
    for (int j = 0; j < keys; ++j) {
        at[j] = begin;
    }
#pragma unroll 1
    for (int step = end > begin ? 1 << (31 - __clz(end - begin)) : 0; step; step >>= 1) {
        W word[keys];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            word[j] = at[j] + step <= end ? words[at[j] + step - 1] : word_none<W>();
        }
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            at[j] += word[j] < key[j] ? step : 0;
        }
    }
}

// The lower bound of `key`, at or after `at`; all words before `at` must be below the key. A
// galloping search: quick where the bound is near.
template <typename W>
SPIRA_DEVICE int downsample_ahead(const W *words, int count, int at, W key) {
    int step = 1;
#pragma unroll 1
    while (at + step <= count && words[at + step - 1] < key) {
        at += step;
        step *= 2;
    }
    int end = min(at + step - 1, count);
#pragma unroll 1
    while (at < end) {
        int middle = (at + end) >> 1;
        bool below = words[middle] < key;
        at = below ? middle + 1 : at;
        end = below ? end : middle;
    }
    return at;
}

// The same at or before `at`; the word at `at` must not be below the key.
template <typename W>
SPIRA_DEVICE int downsample_behind(const W *words, int at, W key) {
    int step = 1;
#pragma unroll 1
    while (at >= step && !(words[at - step] < key)) {
        at -= step;
        step *= 2;
    }
    int begin = max(at - step + 1, 0);
#pragma unroll 1
    while (begin < at) {
        int middle = (begin + at) >> 1;
        bool below = words[middle] < key;
        begin = below ? middle + 1 : begin;
        at = below ? at : middle;
    }
    return at;
}

// Whether the row of a cell that starts at word `key` has a voxel. at: the key's lower bound.
template <typename W>
SPIRA_DEVICE bool downsample_there(const downsample_grid<W> &g, const W *words, int count, int at,
                                   W key) {
    return at < count && (W)(words[at] - key) <= g.span;
}

// Whether voxel i is the first one of its cell. Its group begins at `begin` or later.
template <typename W, int rx, int ry>
SPIRA_DEVICE bool downsample_is_head(const downsample_grid<W> &g, const W *words, int begin,
                                     int count, int i) {
    W word = words[i], cell = word & g.floor;
    bool x = rx == 2 && (word & g.step_x), y = ry == 2 && (word & g.step_y); // in the upper row
    W own = cell + (x ? g.step_x : 0) + (y ? g.step_y : 0);
    if (i > 0 && !(words[i - 1] < own)) {
        return false;
    }
    if (x) { // both rows of the lower plane
        W key[1] = {cell};
        int at[1];
        downsample_search<W, 1>(words, begin, i, key, at);
        if (downsample_there(g, words, count, at[0], cell)) {
            return false;
        }
        if (ry == 2) {
            at[0] = downsample_ahead(words, count, at[0], (W)(cell + g.step_y));
            if (downsample_there(g, words, count, at[0], (W)(cell + g.step_y))) {
                return false;
            }
        }
    }
    if (y) { // the lower row of the own plane
        W key = own - g.step_y;
        return !downsample_there(g, words, count, downsample_behind(words, i, key), key);
    }
    return true;
}

// What it takes to count the heads in front of a voxel.
struct downsample_places {
    const downsample_heads *heads;
    const int32_t *blocks; // heads in front of each thread block's 2^shift voxels
    int shift, count, total;
};

// The number of heads in front of voxel `at`.
SPIRA_DEVICE int downsample_before(const downsample_places &p, int at) {
    if (at >= p.count) {
        return p.total;
    }
    downsample_heads h = p.heads[at / 32];
    return p.blocks[at >> p.shift] + h.before + __popc(h.bits & ((1u << at % 32) - 1));
}

// The number of heads in the upper row of a cell in front of the cell. key: the cell's word there;
// at: the lower bound of the lower row's.
template <typename W>
SPIRA_DEVICE int downsample_upper_row(const downsample_grid<W> &g, const W *words,
                                      const downsample_places &p, int at, W key) {
    int begin = downsample_ahead(words, p.count, at, (W)(key & g.row));
    return downsample_before(p, downsample_ahead(words, p.count, begin, key)) -
           downsample_before(p, begin);
}

// The rank of head i's cell among all cells: the number of heads of cells with lower words. These
// are the heads in front of the cell in its lower row, and those of the upper row and of the upper
// plane that are in front of the cell there. The group is within [begin, end].
template <typename W, int rx, int ry>
SPIRA_DEVICE int downsample_rank(const downsample_grid<W> &g, const W *words,
                                 const downsample_places &p, int begin, int end, int i) {
    W cell = words[i] & g.floor;
    int lower = 0, upper = 0;
    if constexpr (rx == 2) {
        bool x = (words[i] & g.step_x) != 0; // one plane is far, the other near
        W key[2] = {(W)((cell + g.step_x) & g.plane), x ? cell : (W)(cell + g.step_x)};
        int at[2];
        downsample_search<W, 2>(words, begin, end, key, at);
        int near = downsample_behind(words, i, x ? (W)(cell + g.step_x) : cell);
        lower = x ? at[1] : near;
        upper = x ? near : at[1];
        int rank =
            downsample_before(p, lower) + downsample_before(p, upper) - downsample_before(p, at[0]);
        if constexpr (ry == 2) {
            rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
            rank += downsample_upper_row(g, words, p, upper, (W)(cell + g.step_x + g.step_y));
        }
        return rank;
    }
    lower = downsample_behind(words, i, cell);
    int rank = downsample_before(p, lower);
    if constexpr (ry == 2) {
        rank += downsample_upper_row(g, words, p, lower, (W)(cell + g.step_y));
    }
    return rank;
}

} // namespace spira

#endif
