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

static_assert(tile_threads == 32 * tile_quarters * tile_scope_tiles,
              "a warp for each quarter of a scope's tiles");

typedef cub::BlockRadixSort<uint32_t, tile_threads, tile_items, int16_t> tile_sort;

// The bitwise or of a value over the warp.
SPIRA_DEVICE uint32_t tile_warp_or(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, value);
#else
    for (int step = 16; step; step /= 2) {
        value |= __shfl_xor_sync(~0u, value, step);
    }
    return value;
#endif
}

// The sorting key of each row of the scope: a warp reads a row. Rows beyond the count keep the
// largest key and, the sort being stable, end up last.
SPIRA_DEVICE void tile_keys(const tile_key &bits, const int32_t *map, int rows, int volume,
                            uint32_t *keys) {
    enum { batch = 8 }; // rows in flight
    int lane = threadIdx.x % 32;
    for (int first = threadIdx.x / 32 * batch; first < tile_scope;
         first += tile_threads / 32 * batch) {
        uint32_t key[batch] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int k = lane; k < (volume + 31) / 32 * 32; k += 32) {
            uint32_t bit = k < volume ? 1u << bits.bit[k] : 0;
            int32_t source[batch];
#pragma unroll
            for (int j = 0; j < batch; ++j) {
                source[j] = bit && first + j < rows ? map[(first + j) * volume + k] : -1;
            }
#pragma unroll
            for (int j = 0; j < batch; ++j) {
                key[j] |= source[j] >= 0 ? bit : 0;
            }
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            key[j] = tile_warp_or(key[j]);
            if (lane == 0) {
                keys[first + j] = first + j < rows ? key[j] : UINT32_MAX;
            }
        }
    }
    __syncthreads();
}

// Bit g of the result: byte g of x is not zero.
SPIRA_DEVICE uint32_t tile_nonzero_bytes(uint32_t x) {
    uint32_t ones = __vminu4(x, 0x01010101u);
    return (ones * 0x01020408u) >> 24;
}

// Appends the staged offsets [first, + columns) to the scope's tiles: a warp for each quarter.
// groups [tile, column]: scratch. Returns how many steps the warp's tile has now.
SPIRA_DEVICE int tile_append(const int32_t *stage, const int16_t *slots,
                             uint8_t (*groups)[tile_columns][tile_quarters], int first, int columns,
                             int64_t first_tile, int steps, const tile_layout &t) {
    int lane = threadIdx.x % 32, tile = threadIdx.x / 32 / tile_quarters;
    int quarter = threadIdx.x / 32 % tile_quarters, slot = quarter * tile_quarter_rows + lane;
    const int32_t *lo = stage + slots[tile * tile_rows + tile_slot_order(slot)] * tile_columns;
    const int32_t *hi = stage + slots[tile * tile_rows + tile_slot_order(slot + 32)] * tile_columns;
    int32_t a[tile_columns], b[tile_columns];
#pragma unroll
    for (int c = 0; c < tile_columns; ++c) { // columns past the last are all -1
        a[c] = lo[c];
        b[c] = hi[c];
        uint32_t bits = tile_nonzero_bytes(__ballot_sync(~0u, a[c] >= 0)) |
                        tile_nonzero_bytes(__ballot_sync(~0u, b[c] >= 0)) << 4;
        if (lane == 0) {
            groups[tile][c][quarter] = (uint8_t)bits;
        }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < tile_columns; ++c) {
        uint32_t all = *(const uint32_t *)groups[tile][c];
        if (c < columns && all) {
            int64_t at = (first_tile + tile) * t.volume + steps++;
            t.index[at * tile_rows + slot] = a[c];
            t.index[at * tile_rows + slot + 32] = b[c];
            if (lane == 0 && quarter == 0) {
                tile_step step = {first + c, all};
                t.step[at] = step;
            }
        }
    }
    return steps;
}

SPIRA_KERNEL void __launch_bounds__(tile_threads)
    tile_kernel(const __grid_constant__ tile_key bits, const int32_t *__restrict__ map,
                const int32_t *__restrict__ count, int32_t capacity, tile_layout t, int key_bits) {
    __shared__ union {
        tile_sort::TempStorage sort;
        int32_t stage[tile_scope * tile_columns];
    } shared;
    __shared__ uint32_t keys[tile_scope];
    __shared__ int16_t slots[tile_scope];
    __shared__ __align__(4) uint8_t groups[tile_scope_tiles][tile_columns][tile_quarters];
    int64_t first_row = (int64_t)blockIdx.x * tile_scope;
    int64_t first_tile = (int64_t)blockIdx.x * tile_scope_tiles;
    int rows = (int)max_of(0, min_of(min_of(*count, capacity) - first_row, tile_scope));
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
        int row = slots[s / tile_rows * tile_rows + tile_slot_order(s % tile_rows)];
        t.row[first_row + s] = row < rows ? (int32_t)(first_row + row) : -1;
    }
    int steps = 0;
    for (int first = 0; first < t.volume && rows; first += tile_columns) {
        int columns = t.volume - first < tile_columns ? t.volume - first : tile_columns;
#pragma unroll 6
        for (int i = threadIdx.x; i < tile_scope * tile_columns; i += tile_threads) {
            int row = i / tile_columns, column = i % tile_columns;
            shared.stage[i] =
                row < rows && column < columns ? map[row * t.volume + first + column] : -1;
        }
        __syncthreads();
        steps = tile_append(shared.stage, slots, groups, first, columns, first_tile, steps, t);
        __syncthreads(); // the next columns overwrite the stage
    }
    if (threadIdx.x % (32 * tile_quarters) == 0) {
        t.steps[first_tile + threadIdx.x / 32 / tile_quarters] = steps;
    }
}

// Builds the tiled layout of a kernel map.
//
// inputs   kernel: the map's; map [capacity, volume]; count [1]: rows that are read
// outputs  t: all tiles of the capacity; slots beyond the count are -1 and have no steps
// errors   null pointers, sizes, a layout that is too small for the capacity
// Asynchronous, deterministic, equal to tile_build_host. No scratch.
// cost     reads the map twice (the second time from L2), writes the part of it that is not empty
SPIRA_API status tile_build(const kernel_shape *kernel, const int32_t *map, const int32_t *count,
                            int32_t capacity, tile_layout t, cudaStream_t stream) {
    SPIRA_TRY(tile_check(kernel, map, capacity, &t));
    SPIRA_REQUIRE(count, status_null_pointer, "count", 0);
    int key_bits = (int)min_of(t.volume, 32);
    tile_kernel<<<(unsigned)(t.tiles / tile_scope_tiles), tile_threads, 0, stream>>>(
        tile_key_make(kernel), map, count, capacity, t, key_bits);
    return status_of_launch("tile_build");
}

} // namespace spira

#endif
