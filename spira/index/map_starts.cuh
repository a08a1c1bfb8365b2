// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_starts.cuh: where the pairs of each offset and stretch of outputs go in the
// lists.
//
// Lists are built in three steps: count, scan, move (map_lists.cuh, map_cube.cuh). This is the
// scan, and what the other two steps share.
#ifndef SPIRA_INDEX_MAP_STARTS_CUH
#define SPIRA_INDEX_MAP_STARTS_CUH

#include "../map.h"
#include "../status.cuh"
#include "../workspace.h"
#include "map_scan.cuh"

namespace spira {

struct map_starts {
    int32_t *before;           // [volume, stretches] pairs in the stretches before
    unsigned long long *begin; // [volume + 1] pairs of the offsets before; 0 before the scan
    int32_t stretches;
    int volume;
};

// Carves the starts out of scratch (or counts their bytes: workspace.h).
SPIRA_API map_starts map_starts_take(workspace *w, int volume, int32_t stretches) {
    map_starts s;
    s.before = workspace_take<int32_t>(w, (int64_t)volume * stretches);
    s.begin = workspace_take<unsigned long long>(w, volume + 1);
    s.stretches = stretches;
    s.volume = volume;
    return s;
}

// Clears `begin`, for the scan. The first thread block of the step before calls it.
SPIRA_DEVICE void map_starts_clear(const map_starts &starts) {
    for (int k = threadIdx.x; k <= starts.volume; k += (int)blockDim.x) {
        starts.begin[k] = 0;
    }
}

// Writes `before` and `begin`: one thread block for each offset.
// map_starts_counts(counts, k, outputs) is a function: stretch to its pairs at offset k.
// A stretch has 1 << shift outputs.
template <typename Counts>
SPIRA_KERNEL void __launch_bounds__(map_scan_threads)
    map_starts_kernel(const __grid_constant__ Counts counts,
                      const __grid_constant__ map_starts starts, const int32_t *output_count,
                      int32_t output_capacity, int shift) {
    __shared__ int shared[map_scan_threads / 32];
    const int k = blockIdx.x, outputs = count_clamp(*output_count, output_capacity);
    const int total =
        map_scan_tiles(map_starts_counts(counts, k, outputs), (outputs + (1 << shift) - 1) >> shift,
                       0, starts.before + (int64_t)k * starts.stretches, shared);
    for (int next = k + 1 + threadIdx.x; next <= (int)gridDim.x; next += map_scan_threads) {
        atomicAdd(starts.begin + next, (unsigned long long)total);
    }
}

// Returns whether all pairs (starts.begin[volume]) fit. The first thread block writes the begins of
// the lists, all 0 if they do not fit, and records how many pairs there are.
SPIRA_DEVICE bool map_starts_fit(const map_starts &starts, unsigned long long all,
                                 const map_lists &lists, device_status *trouble) {
    const bool fits = all <= (unsigned long long)lists.capacity;
    for (int k = threadIdx.x; blockIdx.x == 0 && k <= starts.volume; k += (int)blockDim.x) {
        lists.begin[k] = fits ? (int32_t)starts.begin[k] : 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && !fits) {
        device_status_raise(trouble, device_flag_capacity,
                            (uint32_t)min(all, (unsigned long long)UINT32_MAX));
    }
    return fits;
}

// Appends the pairs of 32 outputs at one offset to its list; returns the position behind them.
SPIRA_DEVICE int map_lists_append(const map_lists &lists, int at, bool has, int input, int output) {
    uint32_t all = __ballot_sync(~0u, has);
    if (has) {
        int mine = at + __popc(all & ((1u << (threadIdx.x & 31)) - 1));
        lists.input[mine] = input;
        lists.output[mine] = output;
    }
    return at + __popc(all);
}

} // namespace spira

#endif
