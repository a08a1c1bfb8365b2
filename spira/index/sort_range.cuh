// spira/index/sort_range.cuh: the words of a bucket of the sort (sort_bucket.cuh) as distances from
// its lowest one, and how they are packed into 32-bit keys.
#ifndef SPIRA_INDEX_SORT_RANGE_CUH
#define SPIRA_INDEX_SORT_RANGE_CUH

#include "../config.h"
#include "../word.h"

namespace spira {

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
struct sort_packing {
    int number, low, row; // widths in bits: the number, the lower bits of the distance, the row
};

template <typename W>
SPIRA_DEVICE sort_packing sort_packing_of(const sort_range<W> &range, int count, int row) {
    int number = 32 - __clz(count - 1);
    return {number, max(sort_range_bits(range) - (32 - number), 0), row};
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
