// bench/search_grid.cuh: "grid", a dense array with a cell for every word.
//
// The quickest lookup that there is, for those who have the memory: a word is its own address, one
// load answers a query. The cells cover the layout's fields, guard margins and all, so no query
// leaves them. Between maps all cells are -1, and they are kept so by clearing the ones that were
// written: a memset of gigabytes would take longer than the map.
#ifndef SPIRA_BENCH_SEARCH_GRID_CUH
#define SPIRA_BENCH_SEARCH_GRID_CUH

#include "search_query.cuh"

enum { grid_threads = 256, grid_bits_max = 31 }; // 31: 8 GiB

struct search_grid {
    int32_t *cells; // [2^bits of a word] device memory, or null: left out
};

SPIRA_API int64_t grid_cells(const spira::word_layout *layout) {
    return (int64_t)1 << spira::word_bits(layout);
}

template <typename W>
SPIRA_DEVICE int search_find(const search_grid &grid, W word) {
    return __ldg(grid.cells + word);
}

// Writes the cell of each voxel: its position in the set, or -1.
template <typename W>
SPIRA_KERNEL void grid_write_kernel(search_grid grid, bool clear, const W *__restrict__ words,
                                    const int32_t *count, int32_t capacity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < spira::min_of(*count, capacity)) {
        grid.cells[words[i]] = clear ? -1 : i;
    }
}

template <typename W>
SPIRA_API spira::status grid_write(const search_case<W> *c, search_grid grid, bool clear,
                                   cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    grid_write_kernel<<<(unsigned)spira::ceil_div(set.capacity, grid_threads), grid_threads, 0,
                        stream>>>(grid, clear, set.words, set.count, set.capacity);
    return spira::status_of_launch("grid_write");
}

#endif
