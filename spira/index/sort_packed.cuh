// spira/index/sort_packed.cuh: sorts a bucket (sort_bucket.cuh) by 32-bit keys that hold the upper
// bits of a word and the number of its key, or its row.
#ifndef SPIRA_INDEX_SORT_PACKED_CUH
#define SPIRA_INDEX_SORT_PACKED_CUH

#include "../word.h"
#include "sort_network.cuh"
#include "sort_pieces.cuh"

namespace spira {

// ---- words as distances -------------------------------------------------------------------------

// The words of a bucket lie close together. They are represented by their distance from `base`;
// word_none() by the distance of `end`.
template <typename W>
struct sort_range {
    W base, last, end; // base <= last <= end
};

template <typename W>
SPIRA_DEVICE sort_range<W> sort_range_of(const W *__restrict__ split_word, int bucket, int buckets,
                                         W end) {
    W base = bucket ? split_word[bucket] : 0;
    W last = bucket + 1 < buckets ? split_word[bucket + 1] : end;
    return {base < end ? base : end, last < end ? last : end, end};
}

// How many bits distances have.
template <typename W>
SPIRA_DEVICE int sort_range_bits(const sort_range<W> &range) {
    return 64 - __clzll((long long)(uint64_t)(W)(range.last - range.base));
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
//
// Where distance and row fit 32 bits, the row is the number, and `rest` is not used: keys are all
// different then.
struct sort_packing {
    int number, low, row; // widths in bits: the number, the lower bits of the distance, the row
    bool whole;           // the number is the row
};

template <typename W>
SPIRA_DEVICE sort_packing sort_packing_of(const sort_range<W> &range, int count, int row) {
    const int bits = sort_range_bits(range), number = 32 - __clz(count - 1);
    const bool whole = bits + row <= 32;
    return {whole ? row : number, whole ? 0 : max(bits - (32 - number), 0), row, whole};
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

// ---- sorting ------------------------------------------------------------------------------------

// Whether more than sort_run_few keys share their upper bits. key: sorted. Called by the first
// `used` threads, with a barrier inside.
template <int items>
SPIRA_DEVICE bool sort_has_long_runs(const sort_pieces &p, const sort_packing &pack, int thread,
                                     int used, const uint32_t *key) {
    bool is_long = false;
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        const int i = j * used + thread;
        if (i + sort_run_few < p.count) {
            is_long |= sort_same(pack, key[i], key[i + sort_run_few]);
        }
    }
    return named_barrier_any(1, used, is_long);
}

// Finds the place of each key among those with the same upper bits, which are few.
template <typename W>
SPIRA_DEVICE void sort_short_runs(const sort_pieces &p, const sort_range<W> &range,
                                  const sort_packing &pack, int thread, int used,
                                  const uint32_t *key, const uint32_t *rest, W *sorted,
                                  int32_t *order) {
    for (int i = thread; i < p.count; i += used) {
        uint32_t mine = key[i], mine_rest = rest[sort_number_of(pack, mine)];
        int begin = i, end = i + 1, to = i;
        while (begin > 0 && sort_same(pack, key[begin - 1], mine)) {
            to -= rest[sort_number_of(pack, key[--begin])] > mine_rest;
        }
        while (end < p.count && sort_same(pack, key[end], mine)) {
            to += rest[sort_number_of(pack, key[end++])] < mine_rest;
        }
        if (to != i) {
            sorted[p.first + to] = sort_word_at(range, (W)sort_unpack(pack, mine, mine_rest));
            order[p.first + to] = sort_unpack_row(pack, mine_rest);
        }
    }
}

// Makes keys that order the runs of keys with equal upper bits. With `low`: number of the run |
// lower bits of the distance | number of the key. Else: number of the run | row. Returns false if
// such a key has more than 32 bits, which those with rows never have. Called by the first `used`
// threads, with a barrier inside.
template <int threads, int items>
SPIRA_DEVICE bool sort_number_runs(const sort_pieces &p, const sort_packing &pack, int thread,
                                   int used, const uint32_t *key, const uint32_t *rest, bool low,
                                   uint32_t (&mine)[items]) {
    __shared__ int32_t heads[threads / 32]; // of each warp: keys that begin a run
    const int first = thread * items, lane = thread % 32, warp = thread / 32;
    const int bits = low ? pack.low + pack.number : pack.row;
    uint32_t begins = 0, before = key[max(first - 1, 0)];
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        const uint32_t own = key[first + j];
        const bool begin = first + j < p.count && !sort_same(pack, before, own);
        begins |= (uint32_t)begin << j;
        before = own;
    }
    const int count = __popc(begins), up_to = warp_sum_up_to(count);
    if (lane == 31) {
        heads[warp] = up_to;
    }
    named_barrier_sync(1, used);
    int run = up_to - count, runs = 0;
#pragma unroll
    for (int w = 0; w < threads / 32; ++w) {
        const int more = w * 32 < used ? heads[w] : 0;
        run += w < warp ? more : 0;
        runs += more;
    }
    if (bits >= 32 || (uint32_t)runs >> (32 - bits)) {
        return false;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        run += (int)(begins >> j & 1);
        // Past the last key the number is the highest, within `rest`.
        const uint32_t number = sort_number_of(pack, key[first + j]), other = rest[number];
        const uint32_t lower = low ? other >> pack.row << pack.number | number
                                   : (uint32_t)sort_unpack_row(pack, other);
        mine[j] = first + j < p.count ? (uint32_t)run << bits | lower : ~0u;
    }
    return true;
}

// Writes a sorted bucket: keys and, at their numbers, the rest. Returns whether any of the keys of
// this thread must be ordered with the next one: they have the same upper bits.
template <int items, typename W>
SPIRA_DEVICE bool sort_put(const sort_pieces &p, const sort_range<W> &range,
                           const sort_packing &pack, int thread, int used, const uint32_t *key,
                           const uint32_t *rest, W *sorted, int32_t *order) {
    const int batch = items < sort_bucket_batch ? items : (int)sort_bucket_batch;
    bool same = false;
#pragma unroll 1
    for (int first = 0; first < items; first += batch) {
        uint32_t found[batch], found_rest[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int i = (first + j) * used + thread;
            found[j] = key[min(i, p.count - 1)]; // past the last, the last again
            same |= sort_same(pack, found[j], key[i + 1]) & (i + 1 < p.count);
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            const uint32_t number = sort_number_of(pack, found[j]);
            found_rest[j] = pack.whole ? number : rest[number];
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int at = p.first + min((first + j) * used + thread, p.count - 1);
            sorted[at] = sort_word_at(range, (W)sort_unpack(pack, found[j], found_rest[j]));
            order[at] = sort_unpack_row(pack, found_rest[j]);
        }
    }
    return same && !pack.whole;
}

// Writes a bucket again whose runs have been sorted by the lower bits of the distances. key: from
// sort_number_runs. Returns whether any of the keys of this thread has the word of the next one.
template <int items, typename W>
SPIRA_DEVICE bool sort_put_low(const sort_pieces &p, const sort_range<W> &range,
                               const sort_packing &pack, int thread, int used, const uint32_t *key,
                               const uint32_t *rest, W *sorted, int32_t *order) {
    bool same = false;
#pragma unroll 2
    for (int j = 0; j < items; ++j) {
        const int i = j * used + thread;
        if (i < p.count) {
            const uint32_t found = rest[sort_number_of(pack, key[i])];
            same |= i + 1 < p.count && sort_same(pack, key[i], key[i + 1]);
            // The upper bits stay where they are; this thread has written them.
            const W upper = (W)(sort_distance(range, sorted[p.first + i]) >> pack.low << pack.low);
            sorted[p.first + i] = sort_word_at(range, (W)(upper | found >> pack.row));
            order[p.first + i] = sort_unpack_row(pack, found);
        }
    }
    return same;
}

// Writes the rows of a bucket whose runs have been sorted by them. key: from sort_number_runs.
template <int items>
SPIRA_DEVICE void sort_put_rows(const sort_pieces &p, const sort_packing &pack, int thread,
                                int used, const uint32_t *key, int32_t *order) {
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        const int i = j * used + thread;
        if (i < p.count) {
            order[p.first + i] = sort_unpack_row(pack, key[i]);
        }
    }
}

// Sorts a bucket by packed keys, by the first `used` threads. Keys with the same upper bits, which
// are mostly equal words, are then ordered one by one if they are few, else by sorting again with
// the number of their run in place of the upper bits: by the lower bits of the distances, if there
// are any, then by rows. key, rest [items * threads]. Returns false if the lower bits do not fit
// beside the run: `key` is sorted by its upper bits then.
template <int threads, int items, typename W>
SPIRA_DEVICE bool sort_by_numbers(const sort_pieces &p, const sort_range<W> &range,
                                  const sort_packing &pack, int used, uint32_t *key, uint32_t *rest,
                                  W *sorted, int32_t *order) {
    uint32_t mine[items];
    int thread = (int)threadIdx.x;
    asm volatile("" : "+r"(thread)); // its places are not those of the caller: registers
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + thread;
        mine[j] = i < p.count ? key[i] : ~0u;
    }
    enum { by_number, by_low, by_row };
#pragma unroll 1
    for (int stage = by_number;;) { // the network's code is there once
        sort_block<threads>(mine, used, key);
        asm volatile("" : "+r"(thread), "+r"(used)); // otherwise places are kept over the loop
        if (stage == by_row) {
            sort_put_rows<items>(p, pack, thread, used, key, order);
            return true;
        }
        const bool same =
            stage == by_number
                ? sort_put<items>(p, range, pack, thread, used, key, rest, sorted, order)
                : sort_put_low<items>(p, range, pack, thread, used, key, rest, sorted, order);
        if (!named_barrier_any(1, used, same)) {
            return true;
        }
        if (stage == by_number && !sort_has_long_runs<items>(p, pack, thread, used, key)) {
            sort_short_runs(p, range, pack, thread, used, key, rest, sorted, order);
            return true;
        }
        const bool low = stage == by_number && pack.low > 0;
        if (!sort_number_runs<threads>(p, pack, thread, used, key, rest, low, mine)) {
            return false;
        }
        stage = low ? by_low : by_row;
    }
}

} // namespace spira

#endif
