// bench/search_query.cuh: what the searches that are compared have in common.
//
// All build the same thing, the submanifold kernel map [outputs, volume] of spira::map_build, on
// the same sorted words. The searches that look at one (output, offset) at a time differ in how
// they find one word, and share the kernel around it: a finder is a plain struct with a
//
//     SPIRA_DEVICE int search_find(const finder &f, W word)   // its position in the set, or -1
//
// Called by the benchmark, in its stream. Nothing here allocates or synchronises.
#ifndef SPIRA_BENCH_SEARCH_QUERY_CUH
#define SPIRA_BENCH_SEARCH_QUERY_CUH

#include "bench.cuh"

enum { search_volume_max = 7 * 7 * 7, search_rows = 32 };

// A map to build. The set is the source and the outputs; it has at least one voxel.
template <typename W>
struct search_case {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    bench_sets<W> set;
    int32_t *map; // [set.device.capacity, volume]
};

// packed(offset) of each offset. Passed by value: a warp reads one at a time, which the constant
// cache hands to all its lanes at once.
template <typename W>
struct search_deltas {
    W delta[search_volume_max];
    int volume;
};

template <typename W>
SPIRA_API spira::status search_deltas_make(const search_case<W> *c, search_deltas<W> *deltas) {
    deltas->volume = spira::kernel_volume(&c->kernel);
    SPIRA_REQUIRE(deltas->volume <= search_volume_max, spira::status_kernel_size, "kernel.size",
                  deltas->volume);
    for (int k = 0; k < deltas->volume; ++k) {
        spira::triple offset = spira::kernel_displacement(&c->kernel, k);
        deltas->delta[k] = spira::word_delta<W>(&c->layout, offset);
    }
    return spira::status_success();
}

// The first of sorted [length >= 1] that is not below the key; the last one if there is none. The
// number of steps depends on the length alone, so that the lanes of a warp stay together.
template <bool in_global, typename T>
SPIRA_DEVICE int search_lower(const T *sorted, int length, T key) {
    unsigned begin = 0, left = (unsigned)length; // unsigned: one instruction makes an address
    while (left > 1) {
        unsigned half = left / 2;
        const T *middle = sorted + (begin + half - 1);
        begin += (in_global ? __ldg(middle) : *middle) < key ? half : 0;
        left -= half;
    }
    return (int)begin;
}

// A warp takes one offset and 32 consecutive outputs at a time: the words that it asks for ascend
// and are close together, so that loads of the lanes fall together wherever the finder's memory has
// their order. The answers go through shared memory, because they leave in the other direction: as
// whole rows of the map. The volume is odd: no two lanes write to one bank.
template <typename Finder, typename W>
SPIRA_KERNEL void search_query_kernel(Finder finder,
                                      const __grid_constant__ search_deltas<W> deltas,
                                      const W *__restrict__ words, const int32_t *count,
                                      int32_t capacity, int32_t *__restrict__ map) {
    extern __shared__ int4 search_shared[];
    int32_t *taps = (int32_t *)search_shared; // [search_rows, volume]
    int volume = deltas.volume, lane = threadIdx.x % 32;
    int total = (int)spira::min_of(*count, capacity), first = blockIdx.x * search_rows;
    if (first >= total) {
        return;
    }
    int rows = total - first < search_rows ? total - first : search_rows;
    W word = words[first + (lane < rows ? lane : rows - 1)];
    for (int k = threadIdx.x / 32; k < volume; k += blockDim.x / 32) {
        taps[lane * volume + k] = search_find(finder, (W)(word + deltas.delta[k]));
    }
    __syncthreads();
    int elements = rows * volume, wide = elements / 4;
    int32_t *out = map + (int64_t)first * volume; // 32 rows are a multiple of 128 bytes
    for (int i = threadIdx.x; i < wide; i += blockDim.x) {
        ((int4 *)out)[i] = search_shared[i];
    }
    for (int i = 4 * wide + threadIdx.x; i < elements; i += blockDim.x) {
        out[i] = taps[i];
    }
}

// Fills the map, one thread for one (output, offset) at a time. Blocks are as large as fills a
// multiprocessor's 2048 threads and leaves most of its memory to the L1 cache.
template <typename Finder, typename W>
SPIRA_API spira::status search_query(const search_case<W> *c, Finder finder, cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    search_deltas<W> deltas;
    SPIRA_TRY(search_deltas_make(c, &deltas));
    int threads = deltas.volume <= 32 ? 128 : deltas.volume <= 128 ? 256 : 512;
    size_t bytes = (size_t)search_rows * deltas.volume * sizeof(int32_t);
    unsigned blocks = (unsigned)spira::ceil_div(set.capacity, search_rows);
    search_query_kernel<Finder, W><<<blocks, threads, bytes, stream>>>(
        finder, deltas, set.words, set.count, set.capacity, c->map);
    return spira::status_of_launch("search_query");
}

#endif
