// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_vectors.h: CUDA's vectors of integers, for emulated kernels.
#ifndef SPIRA_TESTS_EMULATE_VECTORS_H
#define SPIRA_TESTS_EMULATE_VECTORS_H

#include <stdint.h>

struct alignas(8) int2 {
    int32_t x, y;
};

struct alignas(16) int4 {
    int32_t x, y, z, w;
};

struct alignas(8) uint2 {
    uint32_t x, y;
};

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w) {
    return {x, y, z, w};
}

#endif
