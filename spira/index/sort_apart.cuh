// spira/index/sort_apart.cuh: sorts a bucket (sort_bucket.cuh) whose words are so far apart that a
// distance and a row do not fit 64 bits together.
//
// Words that are spread over such a range hardly ever share their upper bits. So the first way
// sorts 32-bit keys: upper bits | number of the key in the bucket. Words with gaps between
// clusters, and words of many rows, share them. The second way sorts 64-bit keys twice, which is
// enough for all.
#ifndef SPIRA_INDEX_SORT_APART_CUH
#define SPIRA_INDEX_SORT_APART_CUH

#include "sort_network.cuh"
#include "sort_pieces.cuh"
#include "sort_range.cuh"

namespace spira {

// Sorts a bucket by 32-bit keys. Keys that share their upper bits are ordered one by one. Returns
// false if more than sort_run_few share them: the result is unspecified then.
//
// inputs   key [items * threads]: upper bits of the distance | number; place: where the key with each
//          number is in `from`
// Called by all threads of a block, after a barrier and with barriers inside.
template <int threads, int items, typename W>
SPIRA_DEVICE bool sort_by_upper_bits(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                                     const sort_packing &pack, int used, uint32_t *key,
                                     const uint32_t *place, W *sorted, int32_t *order) {
    const int batch = sort_apart_batch;
    int thread = (int)threadIdx.x;
    asm volatile("" : "+r"(thread), "+r"(used)); // not those of the caller: registers
    if (thread < used) {
        uint32_t mine[items];
#pragma unroll
        for (int j = 0; j < items; ++j) {
            const int i = j * used + thread;
            mine[j] = i < p.count ? key[i] : ~0u;
        }
        sort_block<threads>(mine, used, key);
    }
    __syncthreads();
    const auto key_at = [&](int i) { return from[place[sort_number_of(pack, key[i])]]; };
    const auto same = [&](int i, int j) { return sort_same(pack, key[i], key[j]); };
    const int last = p.count - 1;
    bool any = false, many = false;
#pragma unroll 1
    for (int first = thread; first <= last; first += batch * threads) {
        sort_key<W> k[batch];
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            k[j] = key_at(min(first + j * threads, last)); // past the last, the last again
        }
#pragma unroll
        for (int j = 0; j < batch; ++j) {
            const int i = min(first + j * threads, last), few = min(i + (int)sort_run_few, last);
            any |= i < last && same(i, i + 1);
            many |= few == i + sort_run_few && same(i, few);
            sorted[p.first + i] = k[j].word;
            order[p.first + i] = (int32_t)k[j].row;
        }
    }
    if (__syncthreads_or(many)) {
        return false;
    }
    if (!__syncthreads_or(any)) {
        return true;
    }
    for (int i = thread; i <= last; i += threads) {
        const sort_key<W> mine = key_at(i);
        const auto before = [&](int j) { // whether key j precedes this one
            const sort_key<W> k = key_at(j);
            return k.word != mine.word ? k.word < mine.word : k.row < mine.row;
        };
        int to = i;
        for (int j = i - 1; j >= 0 && same(j, i); --j) {
            to -= !before(j);
        }
        for (int j = i + 1; j <= last && same(j, i); ++j) {
            to += before(j);
        }
        if (to != i) {
            sorted[p.first + to] = mine.word;
            order[p.first + to] = (int32_t)mine.row;
        }
    }
    return true;
}

// Puts the keys of the second sort in place of the sorted ones of the first: place of the first key
// with the same upper bits | lower bits | row. Writes the words and rows in the order of the first.
// Returns whether any keys share their upper bits. Called by the first `used` threads, with
// barriers inside.
template <int threads, int items, typename W>
SPIRA_DEVICE bool sort_make_second(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                                   const sort_range<W> &range, int low, int row, int thread,
                                   int used, uint64_t *shared, W *sorted, int32_t *order) {
    const int first = thread * items, end = min(first + items, p.count);
    uint64_t upper = shared[first] >> row;
    int run = 0;
#pragma unroll 1
    for (int step = threads * items / 2; step; step /= 2) {
        run += run + step <= first && shared[run + step - 1] >> row < upper ? step : 0;
    }
    named_barrier_sync(1, used); // all have read
    bool same = false;
#pragma unroll 1
    for (int i = first; i < end; ++i) {
        const uint64_t mine = shared[i];
        run = mine >> row == upper ? run : i;
        upper = mine >> row;
        same |= run != i;
        const sort_key<W> k = from[mine & (((uint64_t)1 << row) - 1)];
        const uint64_t rest = sort_distance(range, k.word) & (((uint64_t)1 << low) - 1);
        shared[i] = ((uint64_t)run << low | rest) << row | (uint64_t)k.row;
        sorted[p.first + i] = k.word;
        order[p.first + i] = (int32_t)k.row;
    }
    return named_barrier_any(1, used, same);
}

// Sorts a bucket by 64-bit keys: first upper bits of the distance | place in `from`, then those of
// sort_make_second. A place in `from` has as many bits as a row, at most 20; so have the lower
// bits. A place in the bucket has at most 12. shared [items * threads].
template <int threads, int items, typename W>
SPIRA_DEVICE void sort_by_runs(const sort_pieces &p, const sort_key<W> *__restrict__ from,
                               const sort_range<W> &range, int row, int used, uint64_t *shared,
                               W *sorted, int32_t *order) {
    int thread = (int)threadIdx.x, low = max(sort_range_bits(range) + row - 64, 0);
    asm volatile("" : "+r"(thread), "+r"(used));
    sort_gather<threads, sort_apart_batch>(p, from, [&](int i, sort_key<W> k) {
        shared[i] = (uint64_t)(sort_distance(range, k.word) >> low) << row |
                    (uint64_t)(uint32_t)sort_piece_at(p, i);
    });
    __syncthreads();
    if (thread >= used) {
        return;
    }
#pragma unroll 1
    for (bool again = false;; again = true) { // the network's code is there once
        uint64_t key[items];
#pragma unroll
        for (int j = 0; j < items; ++j) {
            const int i = j * used + thread;
            key[j] = i < p.count ? shared[i] : UINT64_MAX;
        }
        sort_block<threads>(key, used, shared);
        asm volatile("" : "+r"(thread), "+r"(used), "+r"(low)); // what they make is not kept
        if (again) {
            break;
        }
        if (!sort_make_second<threads, items>(p, from, range, low, row, thread, used, shared,
                                              sorted, order)) {
            return;
        }
    }
    // The upper bits stay where they are: those of the word that is there.
    for (int i = thread; i < p.count; i += used) {
        const W rest = (W)(shared[i] >> row & (((uint64_t)1 << low) - 1));
        const W upper = (W)(sort_distance(range, sorted[p.first + i]) >> low << low);
        sorted[p.first + i] = sort_word_at(range, (W)(upper | rest));
        order[p.first + i] = (int32_t)(shared[i] & (((uint64_t)1 << row) - 1));
    }
}

} // namespace spira

#endif
