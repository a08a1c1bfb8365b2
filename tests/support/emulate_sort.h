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

#include "../../spira/index/sort_bucket.cuh"

#endif
