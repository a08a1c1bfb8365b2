// spira/search.h: the z-delta search (Spira paper), for one query at a time.
//
// A kernel map needs, for each output voxel q and each offset d of the kernel, the position of q +
// d in the sorted array of source words. The offsets of one z-row look for words that lie close
// together: one binary search finds the row's anchor (its lowest z), and a short scan upward finds
// the others.
//
// These functions run on the host and in kernels, and allocate nothing. They need only the
// coordinate word (word.h) and the offsets (offset.h), so they can be lifted out as they are.
//
// Invariants: `source` ascends, without duplicates. Every voxel is inside the layout, and the
// layout's guard margin covers the kernel's reach, so that no query wraps.
#ifndef SPIRA_SEARCH_H
#define SPIRA_SEARCH_H

#include "offset.h"
#include "word.h"

namespace spira {

// Returns the first position in source [begin, end) whose word is not below `key`, or `end`.
template <typename W>
SPIRA_BOTH int search_lower_bound(const W *source, int begin, int end, W key) {
    while (begin < end) {
        int middle = (int)(((unsigned)begin + (unsigned)end) >> 1);
        if (source[middle] < key) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// One step of the scan: advances the cursor to the first word that is not below `query`, and
// returns its position if it is `query`, or -1. Any number of words may lie between two members of
// a row. It never reads at or past `end`.
template <typename W>
SPIRA_BOTH int search_scan(const W *source, int end, W query, int *cursor) {
    int c = *cursor;
    while (c < end && source[c] < query) {
        ++c;
    }
    *cursor = c;
    return c < end && source[c] == query ? c : -1;
}

// Searches one row of one output: writes taps [size.z], `spacing` apart, source positions or -1, in
// the order of the offsets.
//
// inputs   source [end] sorted words; the search looks at [begin, end)
//          query: the output's word; row: 0 .. kernel_rows - 1
// cost     one binary search and about size.z + 1 reads
template <typename W>
SPIRA_BOTH void search_row(const word_layout *layout, const kernel_shape *kernel, const W *source,
                           int begin, int end, W query, int row, int32_t *taps, int spacing) {
    W wanted = query + word_delta<W>(layout, kernel_anchor(kernel, row));
    W step = (W)kernel_step(kernel);
    int cursor = search_lower_bound(source, begin, end, wanted);
    for (int j = 0; j < kernel->size.z; ++j, wanted += step) {
        int k = kernel_row_member(kernel, row, j) - row * kernel->size.z;
        taps[k * spacing] = search_scan(source, end, wanted, &cursor);
    }
}

// Searches all offsets of one output: writes taps [volume], row by row.
template <typename W>
SPIRA_BOTH void search_voxel(const word_layout *layout, const kernel_shape *kernel, const W *source,
                             int count, W query, int32_t *taps) {
    for (int row = 0; row < kernel_rows(kernel); ++row) {
        search_row(layout, kernel, source, 0, count, query, row, taps + row * kernel->size.z, 1);
    }
}

// Refuses a kernel that reaches beyond the layout's guard margin.
SPIRA_API status search_check(const word_layout *layout, const kernel_shape *kernel) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_TRY(kernel_check(kernel));
    triple reach = kernel_reach(kernel);
    const int64_t below[3] = {(int64_t)layout->lo.x + layout->bias.x,
                              (int64_t)layout->lo.y + layout->bias.y,
                              (int64_t)layout->lo.z + layout->bias.z};
    const int64_t above[3] = {((int64_t)1 << layout->width.x) - 2 - layout->bias.x - layout->hi.x,
                              ((int64_t)1 << layout->width.y) - 2 - layout->bias.y - layout->hi.y,
                              ((int64_t)1 << layout->width.z) - 2 - layout->bias.z - layout->hi.z};
    const int need[3] = {reach.x, reach.y, reach.z};
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(need[a] <= below[a] && need[a] <= above[a], status_unsupported,
                      "kernel (reaches beyond the word layout's margin: raise word_need.reach)",
                      need[a]);
    }
    return status_success();
}

} // namespace spira

#endif
