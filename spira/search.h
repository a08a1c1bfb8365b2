// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/search.h: the z-delta search (Spira paper), for one query at a time.
//
// A kernel map needs, for each output voxel q and each offset d of the kernel, the position of q +
// d in the sorted array of source words. The offsets of one z-row look for words that lie close
// together: one binary search finds the row's anchor (its lowest z), and a short scan upward finds
// the others.
//
// These functions run on the host and in kernels, also in those that are compiled at run time
// (NVRTC), and allocate nothing. They need only the coordinate word (word.h) and the offsets
// (offset.h), so they can be lifted out as they are. search.cuh and index/plane_search.cuh search
// the same walk by warps and thread blocks.
//
// Invariants: `source` ascends, without duplicates. Every voxel is inside the layout, and the
// layout's guard margin covers the kernel's reach, so that no query wraps.
#ifndef SPIRA_SEARCH_H
#define SPIRA_SEARCH_H

#include "offset.h"
#include "word.h"

namespace spira {

// A kernel as the search walks it: by ascending displacement. Step number a is offset a, or offset
// volume - 1 - a of a transposed kernel. A row is the size_z steps that share x and y, a plane the
// size_y rows that share x.
template <typename W>
struct search_walk {
    W base, step_x, step_y; // packed: the lowest displacement, and from one to the next
    uint32_t span;          // from the lowest to the highest member of a row
    uint32_t step;          // between neighbours of a row
    int shift;              // log2(step), or -1 if step is no power of two
    int size_x, size_y, size_z, volume;
    bool transposed;
};

template <typename W>
SPIRA_BOTH search_walk<W> search_walk_make(const word_layout *layout, const kernel_shape *kernel) {
    search_walk<W> walk;
    triple unit = triple_multiply(kernel->dilation, kernel->stride);
    walk.volume = kernel_volume(kernel);
    triple lowest = kernel_displacement(kernel, kernel->transposed ? walk.volume - 1 : 0);
    walk.base = word_delta<W>(layout, lowest);
    walk.step_x = word_delta<W>(layout, triple_make(unit.x, 0, 0));
    walk.step_y = word_delta<W>(layout, triple_make(0, unit.y, 0));
    walk.span = (uint32_t)(kernel->size.z - 1) * (uint32_t)unit.z;
    walk.step = (uint32_t)unit.z;
    walk.shift = is_power_of_two(unit.z) ? bits_for((uint64_t)unit.z) - 1 : -1;
    walk.size_x = kernel->size.x;
    walk.size_y = kernel->size.y;
    walk.size_z = kernel->size.z;
    walk.transposed = kernel->transposed;
    return walk;
}

// The word that an output looks for at the first step of row y of a plane.
template <typename W>
SPIRA_BOTH W search_anchor(const search_walk<W> &walk, W output, int plane, int y) {
    return output + walk.base + (W)plane * walk.step_x + (W)y * walk.step_y;
}

// Returns the first position in source [begin, end) whose word is not below `key`, or `end`.
template <typename W>
SPIRA_BOTH int search_lower_bound(const W *source, int begin, int end, W key) {
    return first_not(begin, end, [&](int i) { return source[i] < key; });
}

// One step of the scan: advances the cursor to the first word that is not below `query`, and
// returns its position if it is `query`, or -1. Any number of words may lie between two members of
// a row: behind the next few it goes on by binary search. It never reads at or past `end`.
template <typename W>
SPIRA_BOTH int search_scan(const W *source, int end, W query, int *cursor) {
    const int few = end - *cursor < 16 ? end : *cursor + 16;
    int c = *cursor;
    while (c < few && source[c] < query) {
        ++c;
    }
    c = c == few ? search_lower_bound(source, c, end, query) : c;
    *cursor = c;
    return c < end && source[c] == query ? c : -1;
}

// Searches one row of one output in source [0, count) of sorted words. Writes to taps [volume] the
// source positions, or -1, of the row's offsets.
//
// row   0 .. size_x * size_y - 1, by ascending displacement
// cost  one binary search and about size_z + 1 reads
template <typename W>
SPIRA_BOTH void search_row(const search_walk<W> &walk, const W *source, int count, W query, int row,
                           int32_t *taps) {
    W wanted = search_anchor(walk, query, row / walk.size_y, row % walk.size_y);
    int cursor = search_lower_bound(source, 0, count, wanted);
    for (int a = row * walk.size_z; a < (row + 1) * walk.size_z; ++a, wanted += (W)walk.step) {
        taps[walk.transposed ? walk.volume - 1 - a : a] =
            search_scan(source, count, wanted, &cursor);
    }
}

// Searches all offsets of one output: writes taps [volume].
template <typename W>
SPIRA_BOTH void search_voxel(const search_walk<W> &walk, const W *source, int count, W query,
                             int32_t *taps) {
    for (int row = 0; row < walk.size_x * walk.size_y; ++row) {
        search_row(walk, source, count, query, row, taps);
    }
}

// Refuses a kernel that reaches beyond the layout's guard margin.
SPIRA_API status search_check(const word_layout *layout, const kernel_shape *kernel) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_TRY(kernel_check(kernel));
    const triple reach = kernel_reach(kernel);
    for (int a = 0; a < 3; ++a) {
        const int64_t need = triple_at(reach, a), bias = triple_at(layout->bias, a);
        const int64_t last = ((int64_t)1 << triple_at(layout->width, a)) - 2; // of the field
        SPIRA_REQUIRE(need <= triple_at(layout->lo, a) + bias &&
                          need <= last - bias - triple_at(layout->hi, a),
                      status_unsupported,
                      "kernel (reaches beyond the word layout's margin: raise word_need.reach)",
                      need);
    }
    return status_success();
}

} // namespace spira

#endif
