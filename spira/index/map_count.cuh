// spira/index/map_count.cuh: the kernel that counts the pairs of each offset of a map.
#ifndef SPIRA_INDEX_MAP_COUNT_CUH
#define SPIRA_INDEX_MAP_COUNT_CUH

#include "../base/integer.h"

#include <cuda_runtime.h>

namespace spira {

enum { map_count_threads = 256, map_count_rows = 512 }; // of a thread block

// Adds to pairs [volume] how many of the map's first min(*count, capacity) rows have each offset.
// Dynamic shared memory: volume numbers.
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_count_threads)
    map_count_kernel(const int32_t *__restrict__ map, int volume, const int32_t *count,
                     int32_t capacity, int32_t *pairs) {
    extern __shared__ int32_t map_count_shared[]; // [volume] pairs of this block's rows
    const int64_t first = (int64_t)blockIdx.x * map_count_rows;
    const int64_t last = min_of(first + map_count_rows, min_of(*count, capacity));
    if (first >= last) {
        return;
    }
    for (int k = threadIdx.x; k < volume; k += map_count_threads) {
        map_count_shared[k] = 0;
    }
    __syncthreads();
    // The offset of the thread's entry, carried along: a division for each entry costs more.
    const int step = map_count_threads % volume;
    int k = (int)threadIdx.x % volume;
    for (int64_t i = first * volume + threadIdx.x; i < last * volume; i += map_count_threads) {
        if (map[i] >= 0) {
            atomicAdd(&map_count_shared[k], 1);
        }
        k += step;
        k -= k >= volume ? volume : 0;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < volume; j += map_count_threads) {
        atomicAdd(&pairs[j], map_count_shared[j]);
    }
}

} // namespace spira

#endif
