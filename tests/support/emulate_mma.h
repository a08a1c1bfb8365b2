// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_mma.h: emulate_hopper.h with the warp's matrix instructions (base/mma.cuh),
// and asynchronous copies in groups.
#ifndef SPIRA_TESTS_EMULATE_MMA_H
#define SPIRA_TESTS_EMULATE_MMA_H

#include "emulate_hopper.h"

#define SPIRA_MMA 1
// The names that conv/portable/kernel.cuh and grad/ declare.
#define portable_memory hopper_dynamic
#define grad_memory hopper_dynamic

namespace emulate {

// What a lane gives to a matrix instruction.
struct matrix_operands {
    uint4 a[8];
    uint32_t b[2], row;
};

// Of each warp, of this call and the last one: lanes that go on read them while others arrive.
inline thread_local std::vector<matrix_operands> matrix_lanes;
inline thread_local std::vector<unsigned> matrix_calls; // of each thread

// The own place among the operands of the warp, which are in `all`.
inline matrix_operands &matrix_own(matrix_operands *&all) {
    const size_t threads = clusters->threads, own = (size_t)blocks->own;
    matrix_lanes.resize(2 * threads);
    matrix_calls.resize(threads);
    all = &matrix_lanes[matrix_calls[own]++ % 2 * threads + own / 32 * 32];
    return all[own % 32];
}

// The elements of a word: four of int8, two, or a float, which the instruction cuts to tf32.
template <typename E>
void matrix_values(uint32_t word, typename spira::numeric_sum<E>::type (&to)[4 / sizeof(E)]) {
    if constexpr (sizeof(E) == 1) {
        for (int i = 0; i < 4; ++i) {
            to[i] = (int8_t)(word >> 8 * i & 0xff);
        }
    } else if constexpr (sizeof(E) == 4) {
        to[0] = spira::float_from_bits(word & ~0x1fffu);
    } else {
        to[0] = values_of<E>()[word & 0xffff];
        to[1] = values_of<E>()[word >> 16];
    }
}

} // namespace emulate

namespace spira {

template <typename E, int many>
void mma_steps(typename numeric_sum<E>::type (&sum)[many][4], const uint4 (&a)[many], uint32_t b0,
               uint32_t b1, int line = __builtin_LINE()) {
    using namespace emulate;
    matrix_operands *all, &own = matrix_own(all);
    std::copy_n(a, many, own.a);
    own.b[0] = b0;
    own.b[1] = b1;
    __syncwarp(line);
    const int g = lane() / 4, t = lane() % 4;
    for (int depth = 0; depth < 8; ++depth) { // words of a row: four low, four high
        const int part = depth % 4, high = depth / 4;
        typename numeric_sum<E>::type column[2][4 / sizeof(E)], row[4 / sizeof(E)];
        for (int c = 0; c < 2; ++c) {
            matrix_values<E>(all[(2 * t + c) * 4 + part].b[high], column[c]);
        }
        for (int i = 0; i < 2 * many; ++i) { // rows g, g + 8
            const uint4 &from = all[g * 4 + part].a[i / 2];
            matrix_values<E>(i % 2 ? (high ? from.w : from.y) : (high ? from.z : from.x), row);
            for (int c = 0; c < 2; ++c) {
                for (size_t e = 0; e < 4 / sizeof(E); ++e) {
                    sum[i / 2][i % 2 * 2 + c] += row[e] * column[c][e];
                }
            }
        }
    }
}

template <typename E>
void mma_step(typename numeric_sum<E>::type (&sum)[4], uint4 a, uint32_t b0, uint32_t b1) {
    typename numeric_sum<E>::type one[1][4];
    std::copy_n(sum, 4, one[0]);
    mma_steps<E>(one, {a}, b0, b1);
    std::copy_n(one[0], 4, sum);
}

inline uint4 matrix_load_4(uint32_t row, int line = __builtin_LINE()) {
    using namespace emulate;
    matrix_operands *all, &own = matrix_own(all);
    own.row = row;
    __syncwarp(line);
    uint32_t word[4];
    for (int i = 0; i < 4; ++i) {
        const char *const from = at_address(all[8 * i + lane() / 4].row, 16);
        memcpy(word + i, from + lane() % 4 * 4, 4);
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

inline uint4 matrix_load_4_transposed(uint32_t row, int line = __builtin_LINE()) {
    using namespace emulate;
    matrix_operands *all, &own = matrix_own(all);
    own.row = row;
    __syncwarp(line);
    uint16_t half[4][2];
    for (int i = 0; i < 8; ++i) { // rows 2 t and 2 t + 1 of each matrix
        const uint32_t from = all[i / 2 * 8 + lane() % 4 * 2 + i % 2].row;
        memcpy(&half[i / 2][i % 2], at_address(from, 16) + lane() / 4 * 2, 2);
    }
    uint32_t word[4];
    memcpy(word, half, sizeof word);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

} // namespace spira

#endif
