// tests/support/emulate_sort.h: emulate_hopper.h for the kernels of the sort, and these kernels.
#ifndef SPIRA_TESTS_EMULATE_SORT_H
#define SPIRA_TESTS_EMULATE_SORT_H

#include "emulate_hopper.h"

static inline uint32_t min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t max(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static inline int __clzll(long long bits) {
    return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}

inline int32_t atomicMin(int32_t *least, int32_t value) {
    const int32_t before = *least;
    *least = value < before ? value : before;
    return before;
}

namespace spira {

// Dynamic shared memory of split, under the name that the kernel declares.
alignas(16) inline thread_local int4 sort_shared[4096];

} // namespace spira

#include "../../spira/index/sort_bucket.cuh"
#include "../../spira/index/sort_sample.cuh"
#include "../../spira/index/sort_split.cuh"

#endif
