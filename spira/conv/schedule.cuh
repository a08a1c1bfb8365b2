// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/schedule.cuh: which tiles of the ordered layout a thread block computes, and which
// rows they read. For the kernels of hopper/, portable/ and exact.cuh.
//
// The grid is [split, slices of the output channels, workers]. With fewer workers than tiles it is
// persistent. A worker is a thread block, or a cluster of two that share each tile. Tiles are
// numbered by the ordered layout's schedule (heavy ones first). Each round deals one tile to every
// worker, and every other round deals them in reverse, so that all workers have about the same
// work. So does a third round that has no tile for some: these are then the workers with the
// heaviest first tile. (Of more rounds this matters less, and the first workers begin first. With
// 32 columns and long lists of offsets it is slower.)
#ifndef SPIRA_CONV_SCHEDULE_CUH
#define SPIRA_CONV_SCHEDULE_CUH

#include "params.cuh"

namespace spira {

enum {
    conv_pair_groups = 2,  // row groups of a pair
    conv_scope_words = 32, // of a mask: a lane has one. Tiles of more offsets (1024) are walked in
                           // scopes of so many words, one after the other
};

struct conv_work {
    int outputs, row_groups;
    int own, workers; // the number of this worker, of all
    int tiles;        // of this worker
    int reversed;     // a round dealt in reverse besides every other one; or one of these
    int channel;      // the slice's first
};

// Where the worker's tile stands in the schedule.
SPIRA_DEVICE int conv_tile_place(const conv_work &w, int tile) {
    const bool reverse = tile & 1 || tile == w.reversed;
    return tile * w.workers + (reverse ? w.workers - 1 - w.own : w.own);
}

// columns: output channels of a slice; tile_row_groups: of a tile.
template <int columns, int tile_row_groups>
SPIRA_DEVICE conv_work conv_work_of(const conv_params &p) {
    conv_work w;
    w.outputs = count_clamp(*p.count, p.capacity);
    w.row_groups = (w.outputs + order_rows - 1) / order_rows;
    w.workers = (int)gridDim.z;
    w.own = (int)blockIdx.z;
    w.channel = (int)blockIdx.y * columns;
    int all = (w.row_groups + tile_row_groups - 1) / tile_row_groups;
    int rounds = (int)((uint32_t)all / gridDim.z);
    w.reversed = rounds == 2 && (columns > 32 || p.volume <= 32) ? 2 : 1;
    w.tiles = rounds + (conv_tile_place(w, rounds) < all);
    return w;
}

// Number of the pair of row groups at a place of the schedule; unspecified where there is none.
SPIRA_DEVICE int conv_pair_at(const conv_params &p, bool there, int place) {
    return there && p.order.row ? __ldg(p.order.schedule + place) : place;
}

// Whether no scope of a tile follows the one that begins with word `first`.
SPIRA_DEVICE bool conv_scope_last(const conv_params &p, int first) {
    return first + conv_scope_words >= order_words(p.volume);
}

// Lanes that have words of a scope.
SPIRA_DEVICE int conv_lane_words(const conv_params &p) {
    return min(order_words(p.volume), (int)conv_scope_words);
}

// Loads the lane's words of the masks of a pair of row groups: 32 offsets each; 0 where there is no
// row group or word, or the worker has no such tile. first: the scope's first word.
SPIRA_DEVICE void conv_masks_load(const conv_params &p, const conv_work &work, int tile, int first,
                                  int number, uint32_t (&mask)[conv_pair_groups]) {
    const int word = first + (int)threadIdx.x % 32, words = order_words(p.volume);
#pragma unroll
    for (int g = 0; g < conv_pair_groups; ++g) {
        int group = number * conv_pair_groups + g;
        mask[g] = 0;
        if (tile < work.tiles && word < words && group < work.row_groups) {
            mask[g] = p.order.row ? __ldg(p.order.mask + (int64_t)group * words + word) : 1;
        }
    }
}

// The source row at a place of a row group, 0 .. 63, for an offset that the row group has: -1 where
// there is none.
SPIRA_DEVICE int32_t conv_source_load(const conv_params &p, const conv_work &w, int group,
                                      int offset, bool there, int place) {
    int row = group * order_rows + place;
    int32_t source = row < w.outputs ? row : -1;
    if (p.order.row && there) {
        int64_t from = ((int64_t)group * p.volume + offset) * order_rows + place;
        source = __ldg(p.order.source + from);
    }
    return source;
}

// The output row at a place of the layout; -1: none.
SPIRA_DEVICE int32_t conv_output_load(const conv_params &p, int outputs, int place) {
    return place >= outputs ? -1 : p.order.row ? __ldg(p.order.row + place) : place;
}

} // namespace spira

#endif
