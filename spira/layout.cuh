// spira/layout.cuh: the tiled layout on the GPU: one block sorts and writes one scope.
#ifndef SPIRA_LAYOUT_CUH
#define SPIRA_LAYOUT_CUH

#include "layout.h"
#include "status.cuh"

#include <cub/block/block_radix_sort.cuh>

namespace spira {

enum {
    tile_threads = 512,
    tile_items = tile_scope / tile_threads,
    tile_columns = 9, // offsets staged at a time: odd, so that rows spread over the banks
};

typedef cub::BlockRadixSort<uint32_t, tile_threads, tile_items, int16_t> tile_sort;

// The sorting key of each row of the scope, from a coalesced read of the map. Rows beyond the
// count keep the largest key and, the sort being stable, end up last.
SPIRA_DEVICE void tile_keys(const tile_key &bits, const int32_t *map, int rows, int volume,
                            uint32_t *keys) {
    for (int s = threadIdx.x; s < tile_scope; s += tile_threads) {
        keys[s] = s < rows ? 0 : UINT32_MAX;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < (int64_t)rows * volume; i += tile_threads) {
        if (map[i] >= 0) {
            atomicOr(&keys[i / volume], 1u << bits.bit[i % volume]);
        }
    }
    __syncthreads();
}

// Writes offsets [first, first + columns) of the scope's 16 tiles: a warp for a (tile, offset).
SPIRA_DEVICE void tile_write(const int32_t *stage, const int16_t *slots, int first, int columns,
                             int64_t first_tile, const tile_layout &t) {
    int lane = threadIdx.x % 32;
    for (int task = threadIdx.x / 32; task < tile_scope_tiles * columns;
         task += tile_threads / 32) {
        int tile = task / columns, column = task % columns;
        int64_t to = (first_tile + tile) * t.volume + first + column;
        uint32_t bits = 0;
        for (int half = 0; half < 2; ++half) {
            int slot = half * 32 + lane;
            int32_t source = stage[slots[tile * tile_rows + slot] * tile_columns + column];
            uint32_t valid = __ballot_sync(~0u, source >= 0);
            t.index[to * tile_rows + slot] = source;
            for (int g = 0; g < 4; ++g) {
                bits |= (uint32_t)((valid >> (tile_group * g) & 0xff) != 0) << (4 * half + g);
            }
        }
        if (lane == 0) {
            t.active[to] = (uint8_t)bits;
        }
    }
}

SPIRA_KERNEL void __launch_bounds__(tile_threads)
    tile_kernel(const __grid_constant__ tile_key bits, const int32_t *__restrict__ map,
                const int32_t *__restrict__ count, tile_layout t, int key_bits) {
    __shared__ union {
        tile_sort::TempStorage sort;
        int32_t stage[tile_scope * tile_columns];
    } shared;
    __shared__ uint32_t keys[tile_scope];
    __shared__ int16_t slots[tile_scope];
    int64_t first_row = (int64_t)blockIdx.x * tile_scope;
    int64_t first_tile = (int64_t)blockIdx.x * tile_scope_tiles;
    int rows = (int)max_of(0, min_of(*count - first_row, tile_scope));
    map += first_row * t.volume;

    tile_keys(bits, map, rows, t.volume, keys);
    uint32_t key[tile_items];
    int16_t slot[tile_items];
    for (int j = 0; j < tile_items; ++j) {
        slot[j] = (int16_t)(threadIdx.x * tile_items + j);
        key[j] = keys[slot[j]];
    }
    tile_sort(shared.sort).Sort(key, slot, 0, key_bits);
    for (int j = 0; j < tile_items; ++j) {
        slots[threadIdx.x * tile_items + j] = slot[j];
    }
    __syncthreads();
    for (int s = threadIdx.x; s < tile_scope; s += tile_threads) {
        t.row[first_row + s] = slots[s] < rows ? (int32_t)(first_row + slots[s]) : -1;
    }
    for (int first = 0; first < t.volume; first += tile_columns) {
        int columns = t.volume - first < tile_columns ? t.volume - first : tile_columns;
        for (int i = threadIdx.x; i < tile_scope * columns; i += tile_threads) {
            int row = i / columns, column = i % columns;
            shared.stage[row * tile_columns + column] =
                row < rows ? map[(int64_t)row * t.volume + first + column] : -1;
        }
        __syncthreads();
        tile_write(shared.stage, slots, first, columns, first_tile, t);
        __syncthreads(); // the next columns overwrite the stage
    }
}

// Builds the tiled layout of a kernel map.
//
// inputs   kernel: the map's; map [capacity, volume]; count [1]: rows that are read
// outputs  t: all tiles of the capacity; slots beyond the count are -1 and inactive
// errors   null pointers, sizes, a layout that is too small for the capacity
// Asynchronous, deterministic, equal to tile_build_host. No scratch.
// cost     reads the map twice (the second time from L2) and writes it once
SPIRA_API status tile_build(const kernel_shape *kernel, const int32_t *map, const int32_t *count,
                            int32_t capacity, tile_layout t, cudaStream_t stream) {
    SPIRA_TRY(tile_check(kernel, map, capacity, &t));
    SPIRA_REQUIRE(count, status_null_pointer, "count", 0);
    int key_bits = (int)min_of(t.volume, 32);
    tile_kernel<<<(unsigned)(t.tiles / tile_scope_tiles), tile_threads, 0, stream>>>(
        tile_key_make(kernel), map, count, t, key_bits);
    return status_of_launch("tile_build");
}

} // namespace spira

#endif
