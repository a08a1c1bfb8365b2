// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/integer.h: small integer maths that both sides use.
#ifndef SPIRA_BASE_INTEGER_H
#define SPIRA_BASE_INTEGER_H

#include "../config.h"

namespace spira {

// Three integers, one for each axis.
struct triple {
    int x, y, z;
};

SPIRA_BOTH triple triple_make(int x, int y, int z) {
    triple t = {x, y, z};
    return t;
}

// Component 0, 1 or 2.
SPIRA_BOTH int *triple_at(triple *t, int axis) {
    return axis == 0 ? &t->x : axis == 1 ? &t->y : &t->z;
}

SPIRA_BOTH int triple_at(const triple &t, int axis) {
    return axis == 0 ? t.x : axis == 1 ? t.y : t.z;
}

SPIRA_BOTH bool triple_equal(triple a, triple b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

SPIRA_BOTH triple triple_multiply(triple a, triple b) {
    return triple_make(a.x * b.x, a.y * b.y, a.z * b.z);
}

SPIRA_BOTH int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

SPIRA_BOTH int64_t round_up(int64_t a, int64_t to) {
    return ceil_div(a, to) * to;
}

// The largest multiple of `step` that is not above a; right for negative a too. step > 0.
SPIRA_BOTH int64_t floor_to(int64_t a, int64_t step) {
    int64_t r = a % step;
    return a - (r < 0 ? r + step : r);
}

SPIRA_BOTH bool is_power_of_two(int64_t a) {
    return a > 0 && (a & (a - 1)) == 0;
}

// How many bits hold the values 0..a.
SPIRA_BOTH int bits_for(uint64_t a) {
    int bits = 0;
    for (; a; a >>= 1) {
        ++bits;
    }
    return bits;
}

SPIRA_BOTH int count_bits(uint32_t a) {
#if defined(__CUDA_ARCH__)
    return __popc(a);
#else
    return __builtin_popcount(a);
#endif
}

// Where element b = 1 .. leaves - 1 of a sorted list stands in a search tree: the two behind node n
// are 2 n and 2 n + 1, and node 0 is not used. Lanes that come to different nodes find them in
// different banks of shared memory. leaves: a power of two.
SPIRA_BOTH int tree_node(int leaves, int b) {
#if defined(__CUDA_ARCH__)
    return (leaves + b) >> __ffs(b);
#else
    return (leaves + b) >> __builtin_ffs(b);
#endif
}

SPIRA_BOTH int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

SPIRA_BOTH int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// The first of begin .. end - 1 for which `before` is false, or `end`. All that follow it are, too.
template <typename F>
SPIRA_BOTH int first_not(int begin, int end, F before) {
    while (begin < end) {
        const int middle = (int)(((unsigned)begin + (unsigned)end) >> 1);
        if (before(middle)) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// The rows that a count stands for: 0 .. capacity.
SPIRA_BOTH int32_t count_clamp(int32_t count, int32_t capacity) {
    const int32_t most = count < capacity ? count : capacity;
    return most > 0 ? most : 0;
}

} // namespace spira

#endif
