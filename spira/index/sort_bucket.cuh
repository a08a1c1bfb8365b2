// spira/index/sort_bucket.cuh: last step of the sort (sort.cuh): a thread block sorts a bucket.
//
// The block gathers the bucket's keys from all segments. A bucket that fits registers is sorted
// there by a bitonic network: by 32-bit keys if words and rows can be packed so, else by 64-bit
// keys. Any other bucket is sorted in memory, slowly.
#ifndef SPIRA_INDEX_SORT_BUCKET_CUH
#define SPIRA_INDEX_SORT_BUCKET_CUH

#include "sort_packed.cuh"

namespace spira {

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

// Sorts a bucket of at most items * threads keys in registers, by as few warps as that takes. row:
// bits of a row; these and the bits of a distance must be at most 64 together. shared [2 * items *
// threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_quickly(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                               const sort_range<W> &range, int row, uint32_t *shared, W *sorted,
                               int32_t *order) {
    const int used = (int)((uint32_t)p.count + 32 * items - 1) / (32 * items) * 32;
    const sort_packing pack = sort_packing_of(range, p.count, row);
    const bool packs = sizeof(W) == 4 || pack.low + pack.row <= 32; // 32-bit words always fit
    uint32_t *rest = shared + items * threads;
    uint64_t *wide = (uint64_t *)shared, key[items];
    if (packs) {
        sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
            W away = sort_distance(range, k.word);
            shared[i] = (uint32_t)(away >> pack.low) << pack.number |
                        (pack.whole ? (uint32_t)k.row : (uint32_t)i);
            rest[i] = (uint32_t)(away & (((W)1 << pack.low) - 1)) << row | (uint32_t)k.row;
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

// Sorts a bucket of at most items * threads keys whose words are too far apart for sort_quickly: by
// the upper bits of the distances, above the number of the key in the bucket. Keys that share their
// upper bits, and there are few such keys, are then ordered one by one. Returns false if more than
// sort_run_most share them: the result is unspecified then. shared [items * threads]. Called by all
// threads of a block, with barriers inside.
template <int threads, int items, typename W>
SPIRA_DEVICE bool sort_far_apart(const sort_pieces &p, const sort_key<W> *from,
                                 const sort_range<W> &range, uint64_t *shared, W *sorted,
                                 int32_t *order) {
    const int number = 32 - __clz(p.count - 1), low = max(sort_range_bits(range) + number - 64, 0);
    const int used = (int)((uint32_t)p.count + 32 * items - 1) / (32 * items) * 32;
    sort_gather<threads>(p, from, [&](int i, sort_key<W> k) {
        shared[i] = (uint64_t)sort_distance(range, k.word) >> low << number | (uint64_t)i;
    });
    __syncthreads();
    if ((int)threadIdx.x < used) {
        uint64_t key[items];
#pragma unroll
        for (int j = 0; j < items; ++j) {
            const int i = j * used + (int)threadIdx.x;
            key[j] = i < p.count ? shared[i] : UINT64_MAX;
        }
        sort_block<threads>(key, used, shared);
    }
    __syncthreads();
    bool many = false;
    for (int i = (int)threadIdx.x; i < p.count; i += threads) {
        const uint64_t own = shared[i];
        const auto key_at = [&](int j) {
            return from[sort_piece_find(p, (int)(shared[j] & (((uint64_t)1 << number) - 1)))];
        };
        const auto same = [&](int j) { return (shared[j] ^ own) >> number == 0; };
        const sort_key<W> mine = key_at(i);
        const auto before = [&](int j) { // whether key j precedes this one
            const sort_key<W> k = key_at(j);
            return k.word != mine.word ? k.word < mine.word : k.row < mine.row;
        };
        int begin = i, end = i + 1, to = i;
        while (begin > 0 && i - begin < sort_run_most && same(begin - 1)) {
            to -= !before(--begin);
        }
        while (end < p.count && end - i <= sort_run_most && same(end)) {
            to += before(end++);
        }
        many = many || end - begin > sort_run_most;
        sorted[p.first + to] = mine.word;
        order[p.first + to] = (int32_t)mine.row;
    }
    return !__syncthreads_or(many);
}

// Thread blocks per multiprocessor, for __launch_bounds__.
SPIRA_BOTH constexpr int sort_resident(int threads) {
    return 1024 / threads;
}

// Sorts each bucket, a thread block a bucket. end: above all words but word_none(); row: bits of a
// row.
template <typename W, int threads>
SPIRA_KERNEL void __launch_bounds__(threads, sort_resident(threads))
    sort_buckets_kernel(sort_shape shape, const uint32_t *__restrict__ table,
                        const W *__restrict__ split_word, const sort_key<W> *__restrict__ key,
                        W end, int row, W *sorted, int32_t *order) {
    const int most = sort_bucket_most, few = most / 2;
    __shared__ __align__(16) uint32_t shared[2 * most * threads];
    const int bucket = blockIdx.x;
    const sort_range<W> range = sort_range_of(split_word, bucket, shape.buckets, end);
    const sort_pieces p = sort_find_pieces<threads>(shape, table, bucket);
    const bool apart = sizeof(W) > 4 && sort_range_bits(range) + row > 64;
    if (p.count > most * threads) {
        sort_any(p, key, shared, (int)sizeof shared, sorted, order);
    } else if (apart) {
        uint64_t *const wide = (uint64_t *)shared;
        if (!(p.count <= few * threads
                  ? sort_far_apart<threads, few>(p, key, range, wide, sorted, order)
                  : sort_far_apart<threads, most>(p, key, range, wide, sorted, order))) {
            sort_any(p, key, shared, (int)sizeof shared, sorted, order);
        }
    } else if (p.count <= few * threads) {
        sort_quickly<threads, few>(p, key, range, row, shared, sorted, order);
    } else {
        sort_quickly<threads, most>(p, key, range, row, shared, sorted, order);
    }
}

} // namespace spira

#endif
