// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/search_minuet.cuh: "minuet", segmented queries and the double-traversed binary search of
// Minuet (Yang et al., "Minuet: Accelerating 3D Sparse Convolutions on GPUs", EuroSys 2024).
//
// The queries of one offset form a segment. Minuet sorts each segment; here the outputs are sorted
// words and an offset adds the same number to all of them, so that every segment is sorted as it
// stands. The sources are cut into blocks of B words. Then the search goes twice:
//
// - backward: where each source block's ends would stand in the segment, by binary search. Between
//   them are the queries that only this block can answer.
// - forward: these queries, at most C for a thread block, search the block in shared memory.
//
// Made quicker than the original in two ways. The offsets of one z-row share a source block: their
// queries differ by size.z - 1 voxels at most, so that one pair of searches brackets all of them,
// a source block is read once, and the map is written in runs of size.z. And queries beyond the
// first C of a source block, which Minuet finds with a prefix sum and a copy of its total to the
// host, are found by a few thread blocks that look for them, so that nothing waits for the host.
#ifndef SPIRA_BENCH_SEARCH_MINUET_CUH
#define SPIRA_BENCH_SEARCH_MINUET_CUH

#include "search_query.cuh"

enum {
    minuet_threads = 256,
    minuet_ends_threads = 64,   // of the backward search: little work, over many multiprocessors
    minuet_windows = 64,        // looked through by one thread block
    minuet_source_max = 2048,   // B: the block and the tile of the map fit 48 KiB
    minuet_query_max = 1 << 20, // C
    minuet_elsewhere = -2,      // a query of another source block
};

struct search_minuet {
    int B, C;      // words of a source block, outputs of a query block
    int32_t *ends; // [rows, 2, blocks] device memory: the outputs that a source block may answer
};

// How the map is cut up; all but `deltas` is the same for every z-row.
template <typename W>
struct minuet_plan {
    search_deltas<W> deltas;
    int B, C, rows, size_z;
    int blocks;  // source blocks, for the capacity
    int finders; // thread blocks of a z-row that look for queries beyond the first C
    int stride;  // outputs from one window of theirs to the next
    int32_t *ends;
};

// Outputs [from, to) and the source block that answers them.
struct minuet_range {
    int block, from, to;
};

SPIRA_API int64_t minuet_ends(const spira::kernel_shape *kernel, int64_t voxels, int B) {
    return 2 * spira::kernel_rows(kernel) * spira::ceil_div(voxels, B);
}

// Backward: one thread for one end of a source block and a z-row. The first output whose query of
// the row's last offset has reached the block; behind the last output whose query of the row's
// first offset has not left it. The guard margin keeps word - delta exact.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(minuet_ends_threads)
    minuet_backward_kernel(const __grid_constant__ minuet_plan<W> p, const W *__restrict__ words,
                           const int32_t *count, int32_t capacity) {
    int total = (int)spira::min_of(*count, capacity);
    int block = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y / 2, side = blockIdx.y % 2;
    int64_t source = (int64_t)(block + side) * p.B;
    if ((int64_t)block * p.B >= total) {
        return;
    }
    int end = side ? total : 0; // of the first and the last block: nothing is beyond them
    if (source > 0 && source < total) {
        int k = row * p.size_z + (side ? 0 : p.size_z - 1);
        W key = (W)(words[source] - p.deltas.delta[k]);
        end = search_lower<true>(words, total, key);
        end += words[end] < key;
    }
    p.ends[(int64_t)blockIdx.y * p.blocks + block] = end;
}

// The first C outputs of a source block.
template <typename W>
SPIRA_DEVICE minuet_range minuet_head(const minuet_plan<W> &p, const int32_t *first,
                                      const int32_t *last, int block) {
    int from = first[block];
    return minuet_range{block, from, (int)spira::min_of(last[block], (int64_t)from + p.C)};
}

// The outputs of window w that are beyond the first C of their source block. `stride` is shorter
// than C by more than neighbouring blocks overlap, so that there is one such block at most: the one
// in which the window begins.
template <typename W>
SPIRA_DEVICE minuet_range minuet_window(const minuet_plan<W> &p, const int32_t *first,
                                        const int32_t *last, int total, int64_t w) {
    minuet_range r = {0, 0, 0};
    if (w * p.stride < total) {
        int begin = (int)w * p.stride;
        int from, blocks = (int)spira::ceil_div(total, p.B);
        r.block = search_lower<true>(last, blocks, begin + 1);
        from = first[r.block] + p.C;
        r.from = from > begin ? from : begin;
        r.to = (int)spira::min_of(last[r.block], (int64_t)begin + p.stride);
    }
    return r;
}

// Forward, by all threads of a block: the queries of outputs [from, to) and a z-row that fall into
// a source block. Each one searches the block; the answers leave through taps [threads, Z].
template <int Z, typename W>
SPIRA_DEVICE void minuet_forward(const minuet_plan<W> &p, minuet_range r, int row,
                                 const W *__restrict__ words, int total, W *source, int32_t *taps,
                                 int32_t *__restrict__ map) {
    int base = r.block * p.B, length = total - base < p.B ? total - base : p.B;
    bool is_first = r.block == 0, is_last = base + length == total;
    for (int i = threadIdx.x; i < length + !is_last; i += minuet_threads) {
        source[i] = words[base + i]; // [B + 1]: and where the next block begins
    }
    __syncthreads();
    for (int at = r.from; at < r.to; at += minuet_threads) {
        int outputs = r.to - at < minuet_threads ? r.to - at : minuet_threads;
        if (threadIdx.x < outputs) {
            W word = words[at + threadIdx.x];
#pragma unroll
            for (int iz = 0; iz < Z; ++iz) {
                W query = (W)(word + p.deltas.delta[row * Z + iz]);
                bool here = (is_first || query >= source[0]) && (is_last || query < source[length]);
                int found = search_lower<false>(source, length, query);
                taps[threadIdx.x * Z + iz] = !here                    ? minuet_elsewhere
                                             : source[found] == query ? base + found
                                                                      : -1;
            }
        }
        __syncthreads();
        for (int e = threadIdx.x; e < outputs * Z; e += minuet_threads) {
            if (taps[e] != minuet_elsewhere) {
                map[(int64_t)(at + e / Z) * p.deltas.volume + row * Z + e % Z] = taps[e];
            }
        }
        __syncthreads();
    }
}

// The z-rows of a source block are neighbours in time, because they write the same lines of the
// map. First come the thread blocks that look for long ranges, as they may have the most to do:
// neighbouring windows are dealt out among them.
template <int Z, typename W>
SPIRA_KERNEL void __launch_bounds__(minuet_threads, sizeof(W) == 4 ? 8 : 5)
    minuet_forward_kernel(const __grid_constant__ minuet_plan<W> p, const W *__restrict__ words,
                          const int32_t *count, int32_t capacity, int32_t *__restrict__ map) {
    extern __shared__ int4 minuet_shared[]; // [B + 1] words
    __shared__ int32_t taps[minuet_threads * Z];
    __shared__ minuet_range range[minuet_windows];
    int total = (int)spira::min_of(*count, capacity);
    int row = blockIdx.x % p.rows, item = blockIdx.x / p.rows, block = item - p.finders;
    const int32_t *first = p.ends + (int64_t)2 * row * p.blocks, *last = first + p.blocks;
    int ranges = item < p.finders ? minuet_windows : (int64_t)block * p.B < total;
    if (threadIdx.x < ranges) {
        int64_t w = (int64_t)threadIdx.x * p.finders + item;
        range[threadIdx.x] = item < p.finders ? minuet_window(p, first, last, total, w)
                                              : minuet_head(p, first, last, block);
    }
    __syncthreads();
    for (int i = 0; i < ranges; ++i) {
        if (range[i].from < range[i].to) {
            minuet_forward<Z>(p, range[i], row, words, total, (W *)minuet_shared, taps, map);
        }
    }
}

template <typename W>
SPIRA_API spira::status minuet_plan_make(const search_case<W> *c, const search_minuet *m,
                                         minuet_plan<W> *p) {
    const spira::kernel_shape *kernel = &c->kernel;
    int overlap = (kernel->size.z - 1) * spira::kernel_step(kernel);
    SPIRA_REQUIRE(!kernel->transposed, spira::status_unsupported, "kernel.transposed", 0);
    SPIRA_REQUIRE(m->B >= 1 && m->B <= minuet_source_max, spira::status_bad_size, "B", m->B);
    SPIRA_REQUIRE(m->C > overlap && m->C <= minuet_query_max, spira::status_bad_size, "C", m->C);
    SPIRA_TRY(search_deltas_make(c, &p->deltas));
    p->B = m->B;
    p->C = m->C;
    p->rows = spira::kernel_rows(kernel);
    p->size_z = kernel->size.z;
    p->blocks = (int)spira::ceil_div(c->set.device.capacity, m->B);
    p->stride = m->C - overlap;
    p->finders = (int)spira::ceil_div(c->set.device.capacity, (int64_t)p->stride * minuet_windows);
    p->ends = m->ends;
    return spira::status_success();
}

// Builds the map. Every query is answered by the one source block in whose range it falls, so the
// map needs no filling beforehand.
template <typename W>
SPIRA_API spira::status minuet_map(const search_case<W> *c, const search_minuet *m,
                                   cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    minuet_plan<W> p;
    SPIRA_TRY(minuet_plan_make(c, m, &p));
    dim3 ends((unsigned)spira::ceil_div(p.blocks, minuet_ends_threads), (unsigned)(2 * p.rows));
    SPIRA_TRY(spira::kernel_launch(minuet_backward_kernel<W>,
                                   {ends, minuet_ends_threads, stream, "minuet_backward"}, p,
                                   set.words, set.count, set.capacity));
    unsigned blocks = (unsigned)((p.finders + p.blocks) * p.rows);
    size_t bytes = (size_t)(p.B + 1) * sizeof(W);
    auto *forward = p.size_z == 3   ? minuet_forward_kernel<3, W>
                    : p.size_z == 5 ? minuet_forward_kernel<5, W>
                    : p.size_z == 7 ? minuet_forward_kernel<7, W>
                                    : nullptr;
    SPIRA_REQUIRE(forward, spira::status_kernel_size, "kernel.size.z", p.size_z);
    spira::launch_config config = {blocks, minuet_threads, stream, "minuet_forward"};
    config.shared = bytes;
    return spira::kernel_launch(forward, config, p, set.words, set.count, set.capacity, c->map);
}

#endif
