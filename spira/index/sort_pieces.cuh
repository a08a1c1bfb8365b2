// spira/index/sort_pieces.cuh: the keys of a bucket of the sort (sort_bucket.cuh), which are in
// pieces: some from each segment of the rows.
#ifndef SPIRA_INDEX_SORT_PIECES_CUH
#define SPIRA_INDEX_SORT_PIECES_CUH

#include "../base/async.cuh"
#include "sort_shape.h"

namespace spira {

// Where the keys of a bucket are. The keys from one segment are a piece: keys [begin[k], begin[k +
// 1]) of the bucket are piece k, and key i of it is at i + from[k] in the array of all keys.
struct sort_pieces {
    const int32_t *begin, *from; // [pieces]
    // [keys / 32], for as many keys as a block has in registers. x: which of 32 keys begin a piece;
    // y: the piece of the first of them
    const uint2 *heads;
    int pieces;
    int first, count; // of the bucket: its first place in the result, and its keys
};

// Finds the pieces of a bucket from its row of the table. Called by all threads of a block, with a
// barrier inside; another one must follow before they are used.
SPIRA_DEVICE sort_pieces sort_find_pieces(const sort_shape &shape,
                                          const uint32_t *__restrict__ table, int bucket) {
    const int warps = sort_bucket_threads / 32,
              groups = sort_bucket_threads * sort_bucket_most / 32;
    __shared__ int32_t begin[sort_bucket_threads], from[sort_bucket_threads];
    __shared__ uint2 heads[groups];
    __shared__ int4 total[warps]; // pieces, their keys, keys of the buckets before
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    uint32_t entry = 0;
    if (thread < shape.blocks) {
        entry = table[(int64_t)bucket * shape.blocks + thread];
    }
    if (thread < groups) {
        heads[thread] = make_uint2(0, 0);
    }
    const int start = (int)(entry >> 16), keys = (int)(entry & 0xffff);
    uint32_t pieces = __ballot_sync(~0u, keys > 0);
    int to = warp_sum_up_to(keys), before = warp_sum(start);
    if (lane == 31) {
        total[warp] = make_int4(__popc(pieces), to, before, 0);
    }
    __syncthreads();
    int piece = __popc(pieces & ((1u << lane) - 1));
    sort_pieces p = {begin, from, heads, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        int4 t = total[w];
        piece += w < warp ? t.x : 0;
        to += w < warp ? t.y : 0;
        p.pieces += t.x;
        p.count += t.y;
        p.first += t.z;
    }
    if (keys) {
        int key = to - keys;
        begin[piece] = key;
        from[piece] = thread * sort_threads * shape.each + start - key;
        if (key < 32 * groups) {
            atomicOr(&heads[(uint32_t)key / 32].x, 1u << key % 32);
        }
#pragma unroll 1
        for (int g = (int)(key + 31u) / 32; g < min((int)(to + 31u) / 32, groups); ++g) {
            heads[g].y = (uint32_t)piece;
        }
    }
    return p;
}

// Where key i is; past the last key, where the first one is. The lanes of a warp must ask for keys
// 32 n, 32 n + 1, ...
SPIRA_DEVICE int sort_piece_at(const sort_pieces &p, int i) {
    uint2 heads = p.heads[(uint32_t)i / 32];
    uint32_t piece = heads.y + (uint32_t)__popc(heads.x & ((2u << threadIdx.x % 32) - 2));
    int at = i + p.from[piece];
    return i < p.count ? at : p.from[0];
}

// Calls use(i, key) for key i of a bucket, each by one thread of the block.
template <typename W, typename consumer>
SPIRA_DEVICE void sort_gather(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                              consumer use) {
    const int batch = sort_bucket_batch;
#pragma unroll 1
    for (int first = 0; first < p.count; first += batch * sort_bucket_threads) {
        sort_key<W> key[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            if (first + j * sort_bucket_threads < p.count) {
                key[j] = from[sort_piece_at(p, first + j * sort_bucket_threads + (int)threadIdx.x)];
            }
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int i = first + j * sort_bucket_threads + (int)threadIdx.x;
            if (i < p.count) {
                use(i, key[j]);
            }
        }
    }
}

} // namespace spira

#endif
