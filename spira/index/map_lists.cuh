// spira/index/map_lists.cuh: pair lists (the filtered form) of kernels of any size.
//
// Three launches. The search packs the pairs of each tile (map_pack.cuh) and counts them. A scan
// over the tiles finds where each tile's pairs go in the lists. The last kernel moves them there.
// So each output is searched once, no dense map is written, and the result does not depend on the
// order in which thread blocks run.
//
// Small cubic kernels with no other form have faster kernels: plane_pairs.cuh.
#ifndef SPIRA_INDEX_MAP_LISTS_CUH
#define SPIRA_INDEX_MAP_LISTS_CUH

#include "../workspace.h"
#include "map_scan.cuh"
#include "map_search.cuh"

namespace spira {

enum { map_move_threads = 128 };

// Searches and packs: one thread block for each tile.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(search_threads, 7)
    map_pack_kernel(const __grid_constant__ map_task<W> task,
                    const __grid_constant__ map_packed packed) {
    extern __shared__ int4 map_shared[];
    map_search_tile<W, map_mode_forms>(task, (int)blockIdx.x, &packed, map_shared);
}

// Turns counts [volume, tiles] into list positions, and writes pairs.begin. One thread block for
// each offset, and one more for the end.
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_scan_threads)
    map_scan_kernel(const __grid_constant__ map_packed packed, const int32_t *output_count,
                    int32_t output_capacity, int rows, map_pairs pairs, device_status *trouble) {
    __shared__ int shared[map_scan_threads / 32];
    unsigned long long all = *packed.cursor;
    int tiles = (count_clamp(*output_count, output_capacity) + rows - 1) / rows, lower = 0;
    for (int k = threadIdx.x; k < (int)blockIdx.x; k += map_scan_threads) {
        lower += packed.totals[k];
    }
    lower = block_sum<map_scan_threads>(lower, shared);
    if (threadIdx.x == 0) {
        bool fits = all <= (unsigned long long)pairs.capacity;
        pairs.begin[blockIdx.x] = fits ? lower : 0;
        if (!fits && blockIdx.x == 0) {
            device_status_raise(trouble, device_flag_capacity,
                                (uint32_t)min(all, (unsigned long long)UINT32_MAX));
        }
    }
    __syncthreads();
    tiles = blockIdx.x + 1 < gridDim.x ? tiles : 0;
    int32_t *counts = packed.counts + (int64_t)blockIdx.x * packed.tiles;
    map_scan_tiles([=](int tile) { return counts[tile]; }, tiles, lower, counts, shared);
}

// Moves the packed pairs to their lists: one thread block for each unit.
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_move_threads)
    map_move_kernel(const __grid_constant__ map_packed packed, int volume, int columns, int rows,
                    int pieces, map_pairs pairs) {
    __shared__ int32_t base[map_columns_most];
    int tile = blockIdx.x / pieces, k_begin = (blockIdx.x - tile * pieces) * columns;
    int k_end = min(k_begin + columns, volume);
    unsigned long long all = *packed.cursor;
    int count = packed.unit_pairs[blockIdx.x];
    const map_entry *entry = packed.entry + packed.unit_begin[blockIdx.x];
    if (count == 0 || all > (unsigned long long)pairs.capacity) {
        return;
    }
    const int ahead = 4; // entries in flight while the list positions are read
    for (int from = threadIdx.x; from - (int)threadIdx.x < count;
         from += ahead * map_move_threads) {
        map_entry e[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            int i = from + j * map_move_threads;
            e[j] = i < count ? entry[i] : map_entry{0, 0};
        }
        if (from == (int)threadIdx.x) {
            for (int k = k_begin + threadIdx.x; k < k_end; k += map_move_threads) {
                base[k - k_begin] = packed.counts[(int64_t)k * packed.tiles + tile];
            }
            __syncthreads();
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            int k = (int)(e[j].where >> 14), row = (int)(e[j].where >> 7 & 127);
            if (from + j * map_move_threads < count) {
                int at = base[k - k_begin] + (int)(e[j].where & 127);
                pairs.input[at] = e[j].input;
                pairs.output[at] = tile * rows + row;
            }
        }
    }
}

// Pieces in which a kernel is searched.
SPIRA_API int map_pieces(triple size) {
    return (int)ceil_div((int64_t)size.x * size.y * size.z, search_tile_columns(size));
}

// Carves the packed pairs out of scratch (or counts its bytes: workspace.h).
SPIRA_API map_packed map_packed_take(workspace *w, triple size, int32_t outputs, int32_t capacity) {
    map_packed p;
    int volume = size.x * size.y * size.z;
    p.tiles = (int32_t)ceil_div(outputs, search_tile_rows(volume));
    int64_t units = (int64_t)p.tiles * map_pieces(size);
    p.capacity = capacity;
    p.threshold = 0;
    p.cursor = workspace_take<unsigned long long>(w, 1 + (volume + 1) / 2); // with the totals
    p.totals = (int32_t *)(p.cursor + 1);
    p.entry = workspace_take<map_entry>(w, capacity);
    p.unit_begin = workspace_take<int64_t>(w, units);
    p.unit_pairs = workspace_take<int32_t>(w, units);
    p.counts = workspace_take<int32_t>(w, (int64_t)p.tiles * volume);
    return p;
}

// Builds the lists, and the other forms that `forms` asks for.
template <typename W>
SPIRA_API status map_lists_launch(const word_layout *layout, const map_request<W> *r,
                                  map_pairs pairs, device_status *trouble, void *scratch,
                                  cudaStream_t stream) {
    workspace w = workspace_begin(scratch);
    const triple size = r->kernel.size;
    map_packed packed = map_packed_take(&w, size, r->outputs.capacity, pairs.capacity);
    packed.threshold = r->forms.threshold;
    map_task<W> task =
        map_task_make(layout, &r->kernel, &r->source, &r->outputs, &r->forms, 0, true);
    int volume = task.walk.volume, rows = task.shape.rows, pieces = map_pieces(size);
    int64_t units = (int64_t)packed.tiles * pieces;
    size_t cleared = sizeof *packed.cursor + (size_t)volume * sizeof *packed.totals;
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(packed.cursor, 0, cleared, stream), "pairs"));
    map_pack_kernel<W><<<(unsigned)packed.tiles, search_threads,
                         (size_t)search_block_bytes(task.shape), stream>>>(task, packed);
    map_scan_kernel<<<(unsigned)volume + 1, map_scan_threads, 0, stream>>>(
        packed, r->outputs.count, r->outputs.capacity, rows, pairs, trouble);
    map_move_kernel<<<(unsigned)units, map_move_threads, 0, stream>>>(
        packed, volume, search_tile_columns(size), rows, pieces, pairs);
    return status_of_launch("map_build_pairs");
}

} // namespace spira

#endif
