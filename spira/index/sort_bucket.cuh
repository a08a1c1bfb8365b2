// spira/index/sort_bucket.cuh: last step of the sort (sort.cuh): a thread block sorts a bucket.
//
// The block gathers the bucket's keys from all segments. A bucket that fits registers is sorted
// there by a bitonic network: by 32-bit keys if words and rows can be packed so, else by 64-bit
// keys, or as sort_apart.cuh does. A larger bucket is sorted in memory, slowly.
#ifndef SPIRA_INDEX_SORT_BUCKET_CUH
#define SPIRA_INDEX_SORT_BUCKET_CUH

#include "sort_apart.cuh"
#include "sort_network.cuh"
#include "sort_pieces.cuh"
#include "sort_range.cuh"

namespace spira {

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

// Makes keys that order the runs of keys with equal upper bits: number of the run | rest. The rest
// of what is sorted takes the place of `rest`, which becomes a copy of key. Returns false if such a
// key has more than 32 bits: nothing is changed then. Called by the first `used` threads, with
// barriers inside.
template <int threads, int items>
SPIRA_DEVICE bool sort_number_runs(const sort_pieces &p, const sort_packing &pack, int thread,
                                   int used, const uint32_t *key, uint32_t *rest,
                                   uint32_t (&mine)[items]) {
    __shared__ int32_t heads[threads / 32]; // of each warp: keys that begin a run
    const int first = thread * items, lane = thread % 32, warp = thread / 32;
    const int bits = pack.low + pack.row;
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
    if (bits == 32 || (uint32_t)runs >> (32 - bits)) {
        return false;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        run += (int)(begins >> j & 1);
        mine[j] = first + j < p.count
                      ? (uint32_t)run << bits | rest[sort_number_of(pack, key[first + j])]
                      : ~0u;
    }
    named_barrier_sync(1, used);
#pragma unroll 4
    for (int j = 0; j < items; ++j) {
        rest[first + j] = key[first + j];
    }
    return true;
}

// Writes a sorted bucket: keys and, at their numbers, the rest. Returns whether any of the keys of
// this thread has the upper bits of the next one.
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
            found_rest[j] = rest[sort_number_of(pack, found[j])];
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            int at = p.first + min((first + j) * used + thread, p.count - 1);
            sorted[at] = sort_word_at(range, (W)sort_unpack(pack, found[j], found_rest[j]));
            order[at] = sort_unpack_row(pack, found_rest[j]);
        }
    }
    return same;
}

// Writes a bucket again whose runs have been sorted by the keys of sort_number_runs. by_run: these
// keys; key: the first keys, whose upper bits stay where they are.
template <int items, typename W>
SPIRA_DEVICE void sort_put_runs(const sort_pieces &p, const sort_range<W> &range,
                                const sort_packing &pack, int thread, int used,
                                const uint32_t *by_run, const uint32_t *key, W *sorted,
                                int32_t *order) {
    const uint32_t mask = (1u << (pack.low + pack.row)) - 1;
#pragma unroll 8
    for (int j = 0; j < items; ++j) {
        const int i = j * used + thread;
        if (i < p.count) {
            const uint32_t rest = by_run[i] & mask;
            sorted[p.first + i] = sort_word_at(range, (W)sort_unpack(pack, key[i], rest));
            order[p.first + i] = sort_unpack_row(pack, rest);
        }
    }
}

// Sorts a bucket by packed keys, by the first `used` threads. Keys with the same upper bits, which
// are mostly equal words, are then ordered one by one if they are few, else by sorting once more:
// by the number of their run, in place of the upper bits, and the rest. key, rest [items *
// threads]. Returns false if that takes more than 32 bits: `key` is sorted by its upper bits then.
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
#pragma unroll 1
    for (bool again = false;; again = true) { // the network's code is there once
        sort_block<threads>(mine, used, key);
        asm volatile("" : "+r"(thread), "+r"(used)); // otherwise places are kept over the loop
        if (again) {
            sort_put_runs<items>(p, range, pack, thread, used, key, rest, sorted, order);
            return true;
        }
        const bool same = sort_put<items>(p, range, pack, thread, used, key, rest, sorted, order);
        if (!named_barrier_any(1, used, same)) {
            return true;
        }
        if (!sort_has_long_runs<items>(p, pack, thread, used, key)) {
            sort_short_runs(p, range, pack, thread, used, key, rest, sorted, order);
            return true;
        }
        if (!sort_number_runs<threads>(p, pack, thread, used, key, rest, mine)) {
            return false;
        }
    }
}

// Sorts a bucket by 64-bit keys, distance << row | row, by the first `used` threads. shared [items
// * threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_by_rows(const sort_pieces &p, const sort_range<W> &range, int row, int used,
                               uint64_t (&key)[items], uint64_t *shared, W *sorted,
                               int32_t *order) {
    sort_block<threads>(key, used, shared);
#pragma unroll 8
    for (int j = 0; j < items; ++j) {
        int i = j * used + (int)threadIdx.x;
        if (i < p.count) {
            sorted[p.first + i] = sort_word_at(range, (W)(shared[i] >> row));
            order[p.first + i] = (int32_t)(shared[i] & (((uint64_t)1 << row) - 1));
        }
    }
}

// Threads that sort a bucket.
template <int items>
SPIRA_DEVICE int sort_threads_of(int count) {
    return (int)((uint32_t)count + 32 * items - 1) / (32 * items) * 32;
}

// Sorts a bucket of at most items * threads keys in registers, by as few warps as that takes. row:
// bits of a row; these and the bits of a distance must be at most 64 together. shared [2 * items *
// threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_quickly(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                               const sort_range<W> &range, int row, uint32_t *shared, W *sorted,
                               int32_t *order) {
    const int used = sort_threads_of<items>(p.count);
    const sort_packing pack = sort_packing_of(range, p.count, row);
    const bool packs = sizeof(W) == 4 || pack.low + pack.row <= 32; // 32-bit words always fit
    uint32_t *rest = shared + items * threads;
    uint64_t *wide = (uint64_t *)shared, key[items];
    if (packs) {
        sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
            const W away = sort_distance(range, k.word);
            shared[i] = sort_pack(pack, away, i);
            rest[i] = sort_lower(pack, away) << row | (uint32_t)k.row;
        });
    } else {
        sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
            wide[i] = (uint64_t)sort_distance(range, k.word) << row | (uint64_t)k.row;
        });
    }
    __syncthreads();
    if ((int)threadIdx.x >= used ||
        (packs &&
         sort_by_numbers<threads, items>(p, range, pack, used, shared, rest, sorted, order))) {
        return;
    }
#pragma unroll
    for (int j = 0; j < items; ++j) {
        int i = j * used + (int)threadIdx.x;
        key[j] = UINT64_MAX;
        if (i < p.count && !packs) {
            key[j] = wide[i];
        } else if (i < p.count) {
            uint32_t k = shared[i], r = rest[sort_number_of(pack, k)];
            key[j] = sort_unpack(pack, k, r) << row | (uint64_t)(uint32_t)sort_unpack_row(pack, r);
        }
    }
    sort_by_rows<threads, items>(p, range, row, used, key, wide, sorted, order);
}

// The same for words that may be any distance apart.
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_far_apart(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                                 const sort_range<W> &range, int row, uint32_t *shared, W *sorted,
                                 int32_t *order) {
    const int used = sort_threads_of<items>(p.count);
    const sort_packing pack = sort_packing_of(range, p.count, row);
    const bool packs = pack.low + row <= 32;
    uint32_t *rest = shared + items * threads; // packed, or where the key is
    __shared__ sort_range<W> held_range;       // both held over the first sort: registers
    __shared__ sort_packing held_pack;
    if (threadIdx.x == 0) {
        held_range = range;
        held_pack = pack;
    }
    sort_gather<threads, sort_apart_batch>(p, from, [&](int i, sort_key<W> k) {
        const W away = sort_distance(range, k.word);
        shared[i] = sort_pack(pack, away, i);
        rest[i] =
            packs ? sort_lower(pack, away) << row | (uint32_t)k.row : (uint32_t)sort_piece_at(p, i);
    });
    __syncthreads();
    bool done;
    if (packs) {
        done = (int)threadIdx.x >= used ||
               sort_by_numbers<threads, items>(p, held_range, held_pack, used, shared, rest, sorted,
                                               order);
        done = !__syncthreads_or(!done);
    } else {
        done = sort_by_upper_bits<threads, items>(p, from, pack, used, shared, rest, sorted, order);
    }
    if (!done) {
        sort_by_runs<threads, items>(p, from, held_range, row, used, (uint64_t *)shared, sorted,
                                     order);
    }
}

// Sorts a bucket of any size and range: in shared [bytes] if it fits, else in the result.
template <typename W>
SPIRA_DEVICE void sort_any(const sort_pieces &p, const sort_key<W> *__restrict__ from, void *shared,
                           int bytes, W *sorted, int32_t *order) {
    bool fits = p.count <= bytes / (int)(sizeof(W) + sizeof(int32_t));
    sorted += p.first;
    order += p.first;
    W *to = fits ? (W *)shared : sorted;
    int32_t *row = fits ? (int32_t *)(to + p.count) : order;
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        sort_key<W> k = from[sort_piece_find(p, i)];
        to[i] = k.word;
        row[i] = (int32_t)k.row;
    }
    __syncthreads();
    sort_slowly(to, row, p.count);
    for (int i = threadIdx.x; fits && i < p.count; i += blockDim.x) {
        sorted[i] = to[i];
        order[i] = row[i];
    }
}

// Thread blocks per multiprocessor, for __launch_bounds__.
SPIRA_BOTH constexpr int sort_resident(int threads) {
    return 1024 / threads;
}

// Whether a distance and a row may take more than 64 bits together. bits: of the words; there is
// one distance that has a bit more, that of `end`.
SPIRA_BOTH constexpr bool sort_may_be_apart(int bits, int row) {
    return bits + row >= 64;
}

// Sorts each bucket, a thread block a bucket. end: above all words but word_none(); row: bits of a
// row; apart: sort_may_be_apart. It is a template argument because the code for such buckets would
// slow down all others.
template <typename W, int threads, bool apart>
SPIRA_KERNEL void __launch_bounds__(threads, sort_resident(threads))
    sort_buckets_kernel(sort_shape shape, const uint32_t *__restrict__ table,
                        const W *__restrict__ split_word, const sort_key<W> *__restrict__ key,
                        W end, int row, W *sorted, int32_t *order) {
    const int most = sort_bucket_most, few = most / 2;
    __shared__ __align__(16) uint32_t shared[2 * most * threads];
    const int bucket = blockIdx.x;
    const sort_range<W> range = sort_range_of(split_word, bucket, shape.buckets, end);
    const sort_pieces p = sort_find_pieces<threads>(shape, table, bucket);
    if (p.count > most * threads) {
        sort_any(p, key, shared, (int)sizeof shared, sorted, order);
        return;
    }
    if constexpr (apart) {
        p.count <= few *threads
            ? sort_far_apart<threads, few>(p, key, range, row, shared, sorted, order)
            : sort_far_apart<threads, most>(p, key, range, row, shared, sorted, order);
    } else {
        p.count <= few *threads
            ? sort_quickly<threads, few>(p, key, range, row, shared, sorted, order)
            : sort_quickly<threads, most>(p, key, range, row, shared, sorted, order);
    }
}

// The kernel for words of `bits` bits and rows of `row` bits.
template <typename W, int threads>
SPIRA_API auto sort_buckets_choose(int bits, int row) {
    if constexpr (sizeof(W) > 4) {
        if (sort_may_be_apart(bits, row)) {
            return sort_buckets_kernel<W, threads, true>;
        }
    }
    return sort_buckets_kernel<W, threads, false>;
}

} // namespace spira

#endif
