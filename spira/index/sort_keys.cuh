// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_keys.cuh: the keys of a bucket of the sort (sort_bucket.cuh). They are in
// pieces: some from each segment of the rows. Their words are represented by distances from the
// lowest one, which are packed into 32-bit keys.
#ifndef SPIRA_INDEX_SORT_KEYS_CUH
#define SPIRA_INDEX_SORT_KEYS_CUH

#include "../base/async.cuh"
#include "../word.h"
#include "sort_shape.h"

namespace spira {

// ---- where they are -----------------------------------------------------------------------------

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

// ---- words as distances -------------------------------------------------------------------------

// The words of a bucket lie close together. They are represented by their distance from `base`;
// word_none() by the distance of `end`.
template <typename W>
struct sort_range {
    W base, last, end; // base <= last <= end
};

// Called by whole warps. The shuffles hold the load where it is called, beside other loads.
template <typename W>
SPIRA_DEVICE sort_range<W> sort_range_of(const W *split_word, int bucket, int buckets, W end) {
    const int at = bucket + (int)(threadIdx.x & 1);
    const W word = at == 0 ? 0 : at < buckets ? split_word[at] : end, low = word < end ? word : end;
    return {__shfl_sync(~0u, low, 0), __shfl_sync(~0u, low, 1), end};
}

template <typename W>
SPIRA_DEVICE W sort_distance(const sort_range<W> &range, W word) {
    return (W)((word < range.end ? word : range.end) - range.base);
}

template <typename W>
SPIRA_DEVICE W sort_word_at(const sort_range<W> &range, W distance) {
    W word = (W)(range.base + distance);
    return word == range.end ? word_none<W>() : word;
}

// How a key and its row are packed into two 32-bit numbers, so that the network sorts 32 bits:
//
//   key     upper bits of the distance | number of the key in the bucket
//   rest    lower bits of the distance | row, stored at that number
struct sort_packing {
    int number, low, row; // widths in bits: the number, the lower bits of the distance, the row
};

template <typename W>
SPIRA_DEVICE sort_packing sort_packing_of(const sort_range<W> &range, int count, int row) {
    const int number = 32 - __clz(count - 1);
    const int bits =
        64 - __clzll((long long)(uint64_t)(W)(range.last - range.base)); // of distances
    return {number, max(bits - (32 - number), 0), row};
}

// The key of a distance: its upper bits | number.
template <typename W>
SPIRA_DEVICE uint32_t sort_pack(const sort_packing &pack, W distance, int number) {
    return (uint32_t)(distance >> pack.low) << pack.number | (uint32_t)number;
}

// The lower bits of a distance.
template <typename W>
SPIRA_DEVICE uint32_t sort_lower(const sort_packing &pack, W distance) {
    return (uint32_t)(distance & (((W)1 << pack.low) - 1));
}

SPIRA_DEVICE uint32_t sort_number_of(const sort_packing &pack, uint32_t key) {
    return key & ((1u << pack.number) - 1);
}

// Whether two keys have the same upper bits.
SPIRA_DEVICE bool sort_same(const sort_packing &pack, uint32_t a, uint32_t b) {
    return (a ^ b) >> pack.number == 0;
}

SPIRA_DEVICE uint64_t sort_unpack(const sort_packing &pack, uint32_t key, uint32_t rest) {
    return (uint64_t)(key >> pack.number) << pack.low | rest >> pack.row;
}

SPIRA_DEVICE int32_t sort_unpack_row(const sort_packing &pack, uint32_t rest) {
    return (int32_t)(rest & ((1u << pack.row) - 1));
}

} // namespace spira

#endif
