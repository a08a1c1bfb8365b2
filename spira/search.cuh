// spira/search.cuh: the z-delta search for a block of consecutive outputs.
//
// Consecutive sorted outputs ask for consecutive stretches of the source: for one x-offset of the
// kernel, the words that can answer a whole tile of outputs form one window of little more than the
// tile's length. A warp brackets the window with one search and copies it to shared memory; every
// thread finishes its search there.
//
// Called by all lanes of a warp: search_warp_*. By one thread: search.h.
#ifndef SPIRA_SEARCH_CUH
#define SPIRA_SEARCH_CUH

#include "search.h"

#include <cuda_runtime.h>

namespace spira {

// The words of a source set that can answer some queries: [begin, begin + length) of the source.
// If they do not fit the buffer, `words` points at the source itself and reaches to its end.
template <typename W>
struct search_window {
    const W *words;
    int begin;
    int length;
};

// The lower bound of `key` in source [0, count), by a whole warp, starting near `hint`: one probe
// at exponentially growing distances, then 33-ary steps. About three loads deep near the hint.
template <typename W>
SPIRA_DEVICE int search_warp_lower_bound(const W *source, int count, W key, int hint) {
    int lane = threadIdx.x & 31;
    int64_t away = lane < 16 ? -((int64_t)16 << (15 - lane)) : (int64_t)16 << (lane - 16);
    int64_t probe = hint + away;
    bool below = probe < 0 || (probe < count && source[probe] < key);
    int passed = __popc(__ballot_sync(~0u, below));
    int64_t lo = passed ? __shfl_sync(~0u, probe, passed - 1) + 1 : 0;
    int64_t hi = passed < 32 ? __shfl_sync(~0u, probe, passed & 31) : count;
    int begin = (int)(lo < 0 ? 0 : lo > count ? count : lo);
    int end = (int)(hi < 0 ? 0 : hi > count ? count : hi);
    while (begin < end) { // the answer is in [begin, end]
        int step = (end - begin + 31) / 32;
        int64_t at = (int64_t)begin + (int64_t)(lane + 1) * step - 1;
        below = at < end && source[at] < key;
        passed = __popc(__ballot_sync(~0u, below));
        int64_t top = (int64_t)begin + (int64_t)(passed + 1) * step - 1;
        begin += passed * step;
        end = top < end ? (int)top : end;
        begin = begin < end ? begin : end;
    }
    return begin;
}

// Copies the source words from `first` on, up to one that is above `last_key`, into buffer
// [capacity], and tells where they are. A block barrier must follow before other warps read them.
template <typename W>
SPIRA_DEVICE search_window<W> search_warp_window(const W *source, int count, int first, W last_key,
                                                 W *buffer, int capacity) {
    int lane = threadIdx.x & 31;
    int left = count - first;
    search_window<W> window = {buffer, first, 0};
    bool covered = left <= 0;
    while (!covered && window.length < capacity) {
        bool above = false;
        W word[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) { // four loads in flight
            int i = window.length + 32 * j + lane;
            word[j] = i < left && i < capacity ? source[first + i] : (W)0;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int i = window.length + 32 * j + lane;
            if (i < left && i < capacity) {
                buffer[i] = word[j];
                above = above || word[j] > last_key;
            }
        }
        int next = window.length + 128;
        next = next < capacity ? next : capacity;
        window.length = next < left ? next : left;
        covered = __any_sync(~0u, above) || window.length == left;
    }
    if (!covered) {
        window.words = source + first;
        window.length = left;
    }
    return window;
}

// Moves a cursor forward to the first word that is not below `key`: a few steps, then by doubling.
template <typename W>
SPIRA_DEVICE int search_advance(const W *words, int cursor, int length, W key) {
    int step = 1;
    while (cursor + step <= length && words[cursor + step - 1] < key) {
        cursor += step;
        step *= 2;
    }
    int end = cursor + step - 1 < length ? cursor + step - 1 : length;
    return search_lower_bound(words, cursor, end, key);
}

} // namespace spira

#endif
