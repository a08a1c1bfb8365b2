// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/search_query.cuh: searches that look at one (output, offset) at a time: "bsearch", "hash",
// "grid"; and what all searches that are compared have in common.
//
// All build the same thing, the submanifold kernel map [outputs, volume] of spira::map_build, on
// the same sorted words. Those of this file differ in how they find one word, and share the kernel
// around it: a finder is a plain struct with a
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
    spira::launch_config config = {blocks, threads, stream, "search_query"};
    config.shared = bytes;
    return spira::kernel_launch(search_query_kernel<Finder, W>, config, finder, deltas, set.words,
                                set.count, set.capacity, c->map);
}

// ---- "bsearch" ----------------------------------------------------------------------------------
// A binary search for every (output, offset): the plainest search over sorted words, one thread for
// one query, over the whole set. What the z-delta search saves is seen against this one. It is
// quick for what it is: all lanes of a warp take the same number of steps and most of them read the
// same word, the first steps of all warps hit the L1 cache, nothing branches, and the map is
// written in whole lines. cost: outputs * volume * log2(outputs) reads, most of them from L1.

template <typename W>
struct search_bsearch {
    const W *words; // sorted
    const int32_t *count;
    int32_t capacity;
};

template <typename W>
SPIRA_DEVICE int search_find(const search_bsearch<W> &b, W word) {
    int count = (int)spira::min_of(__ldg(b.count), b.capacity);
    int at = search_lower<true>(b.words, count, word);
    return __ldg(b.words + at) == word ? at : -1;
}

// ---- "grid" -------------------------------------------------------------------------------------
// A dense array with a cell for every word: the quickest lookup that there is, for those who have
// the memory. A word is its own address, one load answers a query. The cells cover the layout's
// fields, guard margins and all, so no query leaves them. Between maps all cells are -1, and they
// are kept so by clearing the ones that were written: a memset of gigabytes would take longer than
// the map.

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
    const unsigned blocks = (unsigned)spira::ceil_div(set.capacity, grid_threads);
    return spira::kernel_launch(grid_write_kernel<W>, {blocks, grid_threads, stream, "grid_write"},
                                grid, clear, set.words, set.count, set.capacity);
}

// ---- "hash" -------------------------------------------------------------------------------------
// An open-addressing hash table with linear probing: the search of the engines that do not sort
// (MinkowskiEngine, TorchSparse, spconv). The capacity is a power of two of at least twice the
// voxels; key and value stand side by side, so that a probe is one load, and a probe's neighbours
// come with its 32-byte sector. The free slot is all ones, which no word is (spira::word_none), and
// which a memset writes.

enum { hash_threads = 256 };

template <typename W>
struct alignas(2 * sizeof(W)) hash_slot {
    W key, value; // value: the position in the set
};

template <typename W>
struct search_hash {
    hash_slot<W> *slots; // [capacity] device memory
    int64_t capacity;    // a power of two
};

SPIRA_API int64_t hash_capacity(int64_t voxels) {
    return (int64_t)1 << spira::bits_for((uint64_t)(2 * voxels - 1));
}

// The finalisers of MurmurHash3: the words of neighbours differ in few bits, and go far apart.
SPIRA_DEVICE uint32_t hash_mix(uint32_t h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

SPIRA_DEVICE uint64_t hash_mix(uint64_t h) {
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

// Puts a word into a slot if it is free. 32-bit words: key and value at once.
SPIRA_DEVICE bool hash_put(hash_slot<uint32_t> *slot, uint32_t word, int position) {
    unsigned long long both = (unsigned long long)(uint32_t)position << 32 | word;
    return atomicCAS((unsigned long long *)slot, ~0ull, both) == ~0ull;
}

// 64-bit words: the value follows; nobody reads it before the kernel's end.
SPIRA_DEVICE bool hash_put(hash_slot<uint64_t> *slot, uint64_t word, int position) {
    bool mine = atomicCAS((unsigned long long *)&slot->key, ~0ull, word) == ~0ull;
    if (mine) {
        slot->value = (uint64_t)position;
    }
    return mine;
}

// The words are distinct: what is in a slot is never the one that is put.
template <typename W>
SPIRA_KERNEL void hash_insert_kernel(search_hash<W> table, const W *__restrict__ words,
                                     const int32_t *count, int32_t capacity) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < spira::min_of(*count, capacity)) {
        W word = words[i], mask = (W)(table.capacity - 1);
        for (W at = hash_mix(word) & mask; !hash_put(table.slots + at, word, i);) {
            at = (at + 1) & mask;
        }
    }
}

// At least half of the slots are free: the walk ends.
template <typename W>
SPIRA_DEVICE int search_find(const search_hash<W> &table, W word) {
    W mask = (W)(table.capacity - 1);
    for (W at = hash_mix(word) & mask;; at = (at + 1) & mask) {
        hash_slot<W> slot = table.slots[at];
        if (slot.key == word) {
            return (int)slot.value;
        }
        if (slot.key == spira::word_none<W>()) {
            return -1;
        }
    }
}

// Empties the table and puts the set into it.
template <typename W>
SPIRA_API spira::status hash_build(const search_case<W> *c, const search_hash<W> *table,
                                   cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    size_t bytes = (size_t)table->capacity * sizeof(hash_slot<W>);
    SPIRA_TRY(spira::status_from_cuda(cudaMemsetAsync(table->slots, 0xff, bytes, stream), "table"));
    const unsigned blocks = (unsigned)spira::ceil_div(set.capacity, hash_threads);
    return spira::kernel_launch(hash_insert_kernel<W>, {blocks, hash_threads, stream, "hash_build"},
                                *table, set.words, set.count, set.capacity);
}

#endif
