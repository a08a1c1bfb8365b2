// bench/search_bsearch.cuh: "bsearch", a binary search for every (output, offset).
//
// The plainest search over sorted words, one thread for one query, over the whole set: what the
// z-delta search saves is seen against this one. It is quick for what it is: all lanes of a warp
// take the same number of steps and most of them read the same word, the first steps of all warps
// hit the L1 cache, nothing branches, and the map is written in whole lines.
#ifndef SPIRA_BENCH_SEARCH_BSEARCH_CUH
#define SPIRA_BENCH_SEARCH_BSEARCH_CUH

#include "search_query.cuh"

template <typename W>
struct search_bsearch {
    const W *words; // sorted
    const int32_t *count;
    int32_t capacity;
};

template <typename W>
SPIRA_DEVICE int search_find(const search_bsearch<W> &b, W word) {
    int count = (int)spira::min_of(__ldg(b.count), b.capacity);
    int at = search_lower<true>(b.words, count, word);
    return __ldg(b.words + at) == word ? at : -1;
}

// Builds the map. cost: outputs * volume * log2(outputs) reads, most of them from L1.
template <typename W>
SPIRA_API spira::status bsearch_map(const search_case<W> *c, cudaStream_t stream) {
    spira::voxel_set<W> set = c->set.device;
    return search_query(c, search_bsearch<W>{set.words, set.count, set.capacity}, stream);
}

#endif
