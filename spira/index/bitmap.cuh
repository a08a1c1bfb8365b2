// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/bitmap.cuh: lists the set bits of a bitmap in order, in one launch.
//
// A thread block takes a tile of words, counts its bits, and learns from the tiles in front how
// many bits precede it (a decoupled look-back); where there are few tiles, it counts the bits in
// front itself. Threads then share the bits of the tile evenly, however they are distributed over
// its words.
#ifndef SPIRA_INDEX_BITMAP_CUH
#define SPIRA_INDEX_BITMAP_CUH

#include "../base/async.cuh"
#include "../base/block.cuh"
#include "../base/lookback.cuh"
#include "expand_box.h"

namespace spira {

// Words that a thread reads at once.
template <int words>
struct __align__(words < 4 ? 4 * words : 16) bitmap_group {
    uint32_t word[words];
};

struct bitmap_source {
    const uint32_t *words; // of whole tiles, aligned to 16 bytes
    uint32_t *state;       // [tiles], zeros; see base/lookback.cuh. Null: not needed (few tiles)
};

template <int words>
struct bitmap_shared {
    bitmap_group<words> group[bitmap_threads]; // the tile
    uint16_t rank[bitmap_threads * words];     // set bits of the tile in front of each word
    uint16_t list[bitmap_batch];               // set bits, by their place in the tile
    int sums[bitmap_threads / 32];
    int tile, before;
};

// The number of bits in front of a tile, counted. Called by all threads of a block. Each returns
// its share.
SPIRA_DEVICE int bitmap_count_front(const uint32_t *words, int front) {
    int bits = 0;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < front / 4; i += bitmap_threads) {
        const bitmap_group<4> group = ((const bitmap_group<4> *)words)[i];
        bits += __popc(group.word[0]) + __popc(group.word[1]) + __popc(group.word[2]) +
                __popc(group.word[3]);
    }
    return bits;
}

// Lists the set bits with ranks [begin, begin + bitmap_batch) in the tile. A warp takes
// neighbouring words, whose bits are of one batch where they are dense.
template <int words>
SPIRA_DEVICE void bitmap_list_batch(bitmap_shared<words> *s, int begin) {
    const uint32_t *word = (const uint32_t *)s->group;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < bitmap_threads * words; i += bitmap_threads) {
        int rank = s->rank[i] - begin;
        uint32_t left = rank > -32 ? word[i] : 0; // else of batches before
        for (; left && rank < bitmap_batch; left &= left - 1, ++rank) {
            if (rank >= 0) {
                s->list[rank] = (uint16_t)(i * 32 + __ffs((int)left) - 1);
            }
        }
    }
}

// Lists the set bits of a tile. Called by all threads of a block, with barriers inside.
//
// words    of a thread: a tile has bitmap_threads times as many
// put      put(rank, word, bit): called for each set bit, with the number of set bits in front
// Returns the number of set bits up to the end of the tile.
template <int words, typename P>
SPIRA_DEVICE int bitmap_list_tile(const bitmap_source &source, int tile, bitmap_shared<words> *s,
                                  const P &put) {
    static_assert(bitmap_threads * words * 32 <= 1 << 16, "bitmap: places have 16 bits");
    const int thread = (int)threadIdx.x, group = tile * bitmap_threads + thread;
    const bitmap_group<words> own = ((const bitmap_group<words> *)source.words)[group];

    // Count.
    const int front =
        source.state ? 0 : bitmap_count_front(source.words, tile * bitmap_threads * words);
    int bits = 0, total;
#pragma unroll
    for (int j = 0; j < words; ++j) {
        bits += __popc(own.word[j]);
    }
    const int rank = block_exclusive_sum<bitmap_threads>(bits, s->sums, &total);
    s->group[thread] = own;
    bits = rank;
#pragma unroll
    for (int j = 0; j < words; ++j) {
        s->rank[thread * words + j] = (uint16_t)bits;
        bits += __popc(own.word[j]);
    }

    // Learn the bits in front.
    if (!source.state) {
        __syncthreads();
        const int all = block_sum<bitmap_threads>(front, s->sums);
        if (thread == 0) {
            s->before = all;
        }
    } else if (thread < 32) {
        if (thread == 0 && tile > 0) {
            lookback_publish(source.state + tile, lookback_tile, total);
        }
        const int before = lookback_sum_warp(source.state, tile);
        if (thread == 0) {
            lookback_publish(source.state + tile, lookback_all, before + total);
            s->before = before;
        }
    }
    __syncthreads();
    const int before = s->before;

    // List them, some at a time.
    for (int begin = 0; begin < total; begin += bitmap_batch) {
        bitmap_list_batch(s, begin);
        __syncthreads();
        for (int i = thread; i < min(total - begin, (int)bitmap_batch); i += bitmap_threads) {
            const uint32_t at = s->list[i];
            put(before + begin + i, (uint32_t)tile * (bitmap_threads * words) + at / 32, at % 32);
        }
        __syncthreads();
    }
    return before + total;
}

} // namespace spira

#endif
