// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_bucket.cuh: last step of the sort (sort.cuh): a thread block sorts a bucket.
//
// The block gathers the bucket's keys from all segments, and sorts them in registers by a bitonic
// network: by 32-bit keys if words and rows can be packed so, else by 64-bit keys. If any bucket
// has more keys than there are registers for, all thread blocks sort all rows instead
// (sort_overflow.cuh).
#ifndef SPIRA_INDEX_SORT_BUCKET_CUH
#define SPIRA_INDEX_SORT_BUCKET_CUH

#include "sort_keys.cuh"
#include "sort_network.cuh"
#include "sort_overflow.cuh"

namespace spira {

// A bucket, and the threads that sort it.
template <typename W>
struct sort_bucket_of {
    sort_pieces pieces;
    sort_range<W> range;
    sort_packing pack;
    sort_target<W> to;
    int thread, used; // this one of the first `used` threads
};

// Writes key i of the bucket's order.
template <typename W>
SPIRA_DEVICE void sort_write(const sort_bucket_of<W> &b, int i, uint64_t distance, int32_t row) {
    b.to.sorted[b.pieces.first + i] = sort_word_at(b.range, (W)distance);
    b.to.order[b.pieces.first + i] = row;
}

// Whether more than sort_run_few keys share their upper bits. key: sorted. Called by the threads
// that sort, with a barrier inside.
template <int items, typename W>
SPIRA_DEVICE bool sort_has_long_runs(const sort_bucket_of<W> &b, const uint32_t *key) {
    bool is_long = false;
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        const int i = j * b.used + b.thread;
        if (i + sort_run_few < b.pieces.count) {
            is_long |= sort_same(b.pack, key[i], key[i + sort_run_few]);
        }
    }
    return named_barrier_any(1, b.used, is_long);
}

// Finds the place of each key among those with the same upper bits, which are few.
template <typename W>
SPIRA_DEVICE void sort_short_runs(const sort_bucket_of<W> &b, const uint32_t *key,
                                  const uint32_t *rest) {
    const sort_packing &pack = b.pack;
    for (int i = b.thread; i < b.pieces.count; i += b.used) {
        uint32_t mine = key[i], mine_rest = rest[sort_number_of(pack, mine)];
        int begin = i, end = i + 1, to = i;
        while (begin > 0 && sort_same(pack, key[begin - 1], mine)) {
            to -= rest[sort_number_of(pack, key[--begin])] > mine_rest;
        }
        while (end < b.pieces.count && sort_same(pack, key[end], mine)) {
            to += rest[sort_number_of(pack, key[end++])] < mine_rest;
        }
        if (to != i) {
            sort_write(b, to, sort_unpack(pack, mine, mine_rest), sort_unpack_row(pack, mine_rest));
        }
    }
}

// Makes keys that order the runs of keys with equal upper bits: number of the run | rest. The rest
// of what is sorted takes the place of `rest`, which becomes a copy of key. Returns false if such a
// key has more than 32 bits: nothing is changed then. Called by the
// threads that sort, with barriers inside.
template <int items, typename W>
SPIRA_DEVICE bool sort_number_runs(const sort_bucket_of<W> &b, const uint32_t *key, uint32_t *rest,
                                   uint32_t (&mine)[items]) {
    __shared__ int32_t heads[sort_bucket_threads / 32]; // of each warp: keys that begin a run
    const sort_packing &pack = b.pack;
    const int first = b.thread * items, lane = b.thread % 32, warp = b.thread / 32;
    const int bits = pack.low + pack.row;
    uint32_t begins = 0, before = key[max(first - 1, 0)];
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        const uint32_t own = key[first + j];
        const bool begin = first + j < b.pieces.count && !sort_same(pack, before, own);
        begins |= (uint32_t)begin << j;
        before = own;
    }
    const int count = __popc(begins), up_to = warp_sum_up_to(count);
    if (lane == 31) {
        heads[warp] = up_to;
    }
    named_barrier_sync(1, b.used);
    int run = up_to - count, runs = 0;
#pragma unroll
    for (int w = 0; w < sort_bucket_threads / 32; ++w) {
        const int more = w * 32 < b.used ? heads[w] : 0;
        run += w < warp ? more : 0;
        runs += more;
    }
    if (bits == 32 || (uint32_t)runs >> (32 - bits)) {
        return false;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        run += (int)(begins >> j & 1);
        mine[j] = first + j < b.pieces.count
                      ? (uint32_t)run << bits | rest[sort_number_of(pack, key[first + j])]
                      : ~0u;
    }
    named_barrier_sync(1, b.used);
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        rest[first + j] = key[first + j];
    }
    return true;
}

// Writes a sorted bucket: keys and, at their numbers, the rest. Returns whether any of the keys of
// this thread has the upper bits of the next one.
template <int items, typename W>
SPIRA_DEVICE bool sort_put(const sort_bucket_of<W> &b, const uint32_t *key, const uint32_t *rest) {
    const int last = b.pieces.count - 1;
    const int batch = items < sort_bucket_batch ? items : (int)sort_bucket_batch;
    bool same = false;
#pragma unroll 1
    for (int first = 0; first < items; first += batch) {
        uint32_t found[batch], found_rest[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int i = (first + j) * b.used + b.thread;
            found[j] = key[min(i, last)]; // past the last, the last again
            same |= sort_same(b.pack, found[j], key[i + 1]) & (i < last);
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            found_rest[j] = rest[sort_number_of(b.pack, found[j])];
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            sort_write(b, min((first + j) * b.used + b.thread, last),
                       sort_unpack(b.pack, found[j], found_rest[j]),
                       sort_unpack_row(b.pack, found_rest[j]));
        }
    }
    return same;
}

// Writes a bucket again whose runs have been sorted by the keys of sort_number_runs. by_run: these
// keys; key: the first keys, whose upper bits stay where they are.
template <int items, typename W>
SPIRA_DEVICE void sort_put_runs(const sort_bucket_of<W> &b, const uint32_t *by_run,
                                const uint32_t *key) {
    const uint32_t mask = (1u << (b.pack.low + b.pack.row)) - 1;
#pragma unroll 8
    for (int j = 0; j < items; ++j) {
        const int i = j * b.used + b.thread;
        if (i < b.pieces.count) {
            const uint32_t rest = by_run[i] & mask;
            sort_write(b, i, sort_unpack(b.pack, key[i], rest), sort_unpack_row(b.pack, rest));
        }
    }
}

// Sorts a bucket by packed keys. Keys with the same upper bits, which are mostly equal words, are
// then ordered one by one if they are few, else by sorting once more: by the number of their run,
// in place of the upper bits, and the rest. key, rest [items * threads]. Returns false if that
// takes more than 32 bits: `key` is sorted by its upper bits then.
template <int items, typename W>
SPIRA_DEVICE bool sort_by_numbers(sort_bucket_of<W> b, uint32_t *key, uint32_t *rest) {
    uint32_t mine[items];
    asm volatile("" : "+r"(b.thread)); // its places are not those of the caller: registers
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * b.used + b.thread;
        mine[j] = i < b.pieces.count ? key[i] : ~0u;
    }
#pragma unroll 1
    for (bool again = false;; again = true) { // the network's code is there once
        sort_block(mine, b.used, key);
        asm volatile("" : "+r"(b.thread), "+r"(b.used)); // otherwise places are kept over the loop
        if (again) {
            sort_put_runs<items>(b, key, rest);
            return true;
        }
        const bool same = sort_put<items>(b, key, rest);
        if (!named_barrier_any(1, b.used, same)) {
            return true;
        }
        if (!sort_has_long_runs<items>(b, key)) {
            sort_short_runs(b, key, rest);
            return true;
        }
        if (!sort_number_runs(b, key, rest, mine)) {
            return false;
        }
    }
}

// Sorts a bucket by 64-bit keys, distance << row | row. shared [items * threads].
template <int items, typename W>
SPIRA_DEVICE void sort_by_rows(const sort_bucket_of<W> &b, uint64_t (&key)[items],
                               uint64_t *shared) {
    const int row = b.to.row;
    sort_block(key, b.used, shared);
#pragma unroll 8
    for (int j = 0; j < items; ++j) {
        int i = j * b.used + b.thread;
        if (i < b.pieces.count) {
            sort_write(b, i, shared[i] >> row, (int32_t)(shared[i] & (((uint64_t)1 << row) - 1)));
        }
    }
}

// Sorts a bucket of at most items * threads keys, by as few warps as that takes. A row and a
// distance must have at most 64 bits together. shared [2 * items * threads].
template <int items, typename W>
SPIRA_DEVICE void sort_in_registers(sort_bucket_of<W> b, const sort_key<W> *__restrict__ from,
                                    uint32_t *shared) {
    const sort_pieces &p = b.pieces;
    const int row = b.to.row;
    b.used = (int)((uint32_t)p.count + 32 * items - 1) / (32 * items) * 32;
    b.pack = sort_packing_of(b.range, p.count, row);
    const bool packs = sizeof(W) == 4 || b.pack.low + row <= 32; // 32-bit words always fit
    uint32_t *rest = shared + items * sort_bucket_threads;
    uint64_t *wide = (uint64_t *)shared, key[items];
    if (packs) {
        sort_gather(p, from, [&](int i, sort_key<W> k) {
            const W away = sort_distance(b.range, k.word);
            shared[i] = sort_pack(b.pack, away, i);
            rest[i] = sort_lower(b.pack, away) << row | (uint32_t)k.row;
        });
    } else {
        sort_gather(p, from, [&](int i, sort_key<W> k) {
            wide[i] = (uint64_t)sort_distance(b.range, k.word) << row | (uint64_t)k.row;
        });
    }
    __syncthreads();
    if (b.thread >= b.used || (packs && sort_by_numbers<items>(b, shared, rest))) {
        return;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * b.used + b.thread;
        key[j] = UINT64_MAX;
        if (i < p.count && !packs) {
            key[j] = wide[i];
        } else if (i < p.count) {
            uint32_t k = shared[i], r = rest[sort_number_of(b.pack, k)];
            key[j] =
                sort_unpack(b.pack, k, r) << row | (uint64_t)(uint32_t)sort_unpack_row(b.pack, r);
        }
    }
    sort_by_rows<items>(b, key, wide);
}

// Whether one of this thread's share of the buckets has more keys than a thread block has room for.
// All of its loads are in flight at once.
template <typename W>
SPIRA_DEVICE bool sort_finds_overflow(const sort_steps<W> &s) {
    const int4 *keys = (const int4 *)s.overflow.keys;
    int most = 0;
#pragma unroll
    for (int j = 0; j * 4 * sort_bucket_threads < (int)sort_buckets_max; ++j) {
        const int i = j * sort_bucket_threads + (int)threadIdx.x;
        if (4 * i < s.shape.buckets) {
            const int4 k = keys[i];
            most = max(most, max(max(k.x, k.y), max(k.z, k.w)));
        }
    }
    return most > sort_bucket_most * sort_bucket_threads;
}

// Sorts each bucket, a thread block a bucket; or all rows together, if a bucket is too large.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(sort_bucket_threads, 1024 / sort_bucket_threads)
    sort_buckets_kernel(const __grid_constant__ sort_steps<W> s,
                        const __grid_constant__ sort_target<W> to) {
    const int most = sort_bucket_most, few = most / 2;
    __shared__ __align__(16) uint32_t shared[2 * most * sort_bucket_threads];
    const sort_range<W> range =
        sort_range_of(s.split_word, (int)blockIdx.x, s.shape.buckets, to.end);
    const bool found = sort_finds_overflow(s);
    const sort_pieces p = sort_find_pieces(s.shape, s.table, (int)blockIdx.x);
    if (__syncthreads_or(found)) {
        static_assert(sizeof(sort_overflow_shared<W>) <= sizeof shared, "sort: overflow");
        sort_overflow_rows(s, to, shared);
        return;
    }
    sort_bucket_of<W> b = {p, range, {}, to, (int)threadIdx.x, 0};
    p.count <= few *sort_bucket_threads ? sort_in_registers<few>(b, s.key, shared)
                                        : sort_in_registers<most>(b, s.key, shared);
}

} // namespace spira

#endif
