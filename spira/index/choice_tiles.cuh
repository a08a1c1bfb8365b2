// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/choice_tiles.cuh: sums over tiles of rows, for sets that are made from features
// (prune_write.cuh, subdivide_place.cuh).
#ifndef SPIRA_INDEX_CHOICE_TILES_CUH
#define SPIRA_INDEX_CHOICE_TILES_CUH

#include "../base/launch.cuh"
#include "../numeric.cuh"
#include "../prune.h"
#include "map_scan.cuh"

namespace spira {

enum { choice_tile = 256 }; // rows of a tile, and threads of its thread block

SPIRA_BOTH int32_t choice_tiles(int32_t capacity) {
    return (int32_t)ceil_div(capacity, (int)choice_tile);
}

// Thread blocks for all rows of both sets.
SPIRA_API unsigned choice_blocks(int32_t in, int32_t out) {
    return (unsigned)choice_tiles((int32_t)max_of(in, out));
}

// Replaces the sums of tiles by those of the tiles in front; behind them comes the sum of all.
//
// sums [gridDim.x, tiles + 1]: a thread block for each kind of sum
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_scan_threads)
    choice_scan_kernel(int32_t *sums, int32_t tiles) {
    __shared__ int shared[map_scan_threads / 32];
    int32_t *const mine = sums + (int64_t)blockIdx.x * (tiles + 1);
    const int all = map_scan_tiles([&](int t) { return mine[t]; }, tiles, 0, mine, shared);
    if (threadIdx.x == 0) {
        mine[tiles] = all;
    }
}

// Pads a set behind `all` voxels; one thread writes its count.
template <typename W>
SPIRA_DEVICE void choice_end(const voxel_set<W> &out, int32_t all, device_status *trouble) {
    const int64_t i = (int64_t)blockIdx.x * choice_tile + threadIdx.x;
    if (i >= all && i < out.capacity) {
        out.words[i] = word_none<W>();
    }
    if (i == 0) {
        *out.count = (int32_t)min_of(all, out.capacity);
        device_status_raise_count(trouble, all, out.capacity);
    }
}

// Returns body(E()) for the element type of a choice: uint8_t for a mask or all.
template <numeric format, typename F>
SPIRA_API status choice_dispatch(const row_choice &c, F body) {
    if (!c.scores) {
        return body((uint8_t)0);
    }
    return numeric_dispatch<format>(
        c.type, [&](auto tag) { return body(typename decltype(tag)::element()); });
}

} // namespace spira

#endif
