// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_scan.cuh: prefix sums over the pair counts of an offset, for pair lists
// (map_starts.cuh).
#ifndef SPIRA_INDEX_MAP_SCAN_CUH
#define SPIRA_INDEX_MAP_SCAN_CUH

#include "../base/block.cuh"

namespace spira {

enum { map_scan_threads = 1024, map_scan_items = 4 };

// Writes to sums [tiles] the sum of `before` and of count(0) .. count(tile - 1); returns the sum of
// `before` and all counts. Called by all threads of a block of map_scan_threads. sums may be where
// the counts are. shared [map_scan_threads / 32]: shared memory.
template <typename F>
SPIRA_DEVICE int map_scan_tiles(F count, int tiles, int before, int32_t *sums, int *shared) {
    for (int at = 0; at < tiles; at += map_scan_threads * map_scan_items) {
        int items[map_scan_items], mine = 0, total;
        int from = at + threadIdx.x * map_scan_items;
#pragma unroll
        for (int j = 0; j < map_scan_items; ++j) {
            items[j] = from + j < tiles ? count(from + j) : 0;
            mine += items[j];
        }
        int sum = before + block_exclusive_sum<map_scan_threads>(mine, shared, &total);
#pragma unroll
        for (int j = 0; j < map_scan_items; ++j) {
            if (from + j < tiles) {
                sums[from + j] = sum;
            }
            sum += items[j];
        }
        before += total;
        __syncthreads();
    }
    return before;
}

} // namespace spira

#endif
