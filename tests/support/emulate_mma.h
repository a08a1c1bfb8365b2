// tests/support/emulate_mma.h: emulate_hopper.h with the warp's matrix instructions (base/mma.cuh),
// and asynchronous copies in groups.
#ifndef SPIRA_TESTS_EMULATE_MMA_H
#define SPIRA_TESTS_EMULATE_MMA_H

#include "emulate_hopper.h"

#define SPIRA_MMA 1
#define portable_memory hopper_dynamic // the name that conv/portable/kernel.cuh declares

namespace emulate {

// A lane's operands of mma_chunk.
struct chunk_operands {
    uint4 low[8], high[8], b;
};

// Of each warp, of this call and the last one: lanes that go on read them while others arrive.
inline thread_local std::vector<chunk_operands> chunk_lanes;
inline thread_local std::vector<unsigned> chunk_calls; // of each thread

// The elements of 16 bytes: 8, or 4 floats, which the instruction cuts to tf32.
template <typename E>
void chunk_values(const uint4 &v, float (&to)[16 / sizeof(E)]) {
    E stored[16 / sizeof(E)];
    memcpy(stored, &v, sizeof v);
    for (size_t i = 0; i < 16 / sizeof(E); ++i) {
        if constexpr (sizeof(E) == 4) {
            to[i] = spira::float_from_bits(spira::float_bits(stored[i]) & ~0x1fffu);
        } else {
            to[i] = values_of<E>()[stored[i].bits];
        }
    }
}

} // namespace emulate

namespace spira {

inline float element_to_float(float f) {
    return f;
}

template <>
inline float element_from_float<float>(float f) {
    return f;
}

template <typename E, int many>
void mma_chunk(float (&sum)[many][4], const uint4 (&low)[many], const uint4 (&high)[many], uint4 b,
               int line = __builtin_LINE()) {
    using namespace emulate;
    enum { elements = 16 / sizeof(E) };
    const size_t threads = clusters->threads, own = (size_t)blocks->own, warp = own / 32 * 32;
    chunk_lanes.resize(2 * threads);
    chunk_calls.resize(threads);
    chunk_operands *const all = &chunk_lanes[chunk_calls[own]++ % 2 * threads + warp];
    chunk_operands &mine = all[own - warp];
    std::copy_n(low, many, mine.low);
    std::copy_n(high, many, mine.high);
    mine.b = b;
    __syncwarp(line);
    const int g = lane() / 4, t = lane() % 4;
    for (int part = 0; part < 4; ++part) {
        float column[2][elements], row[elements];
        for (int c = 0; c < 2; ++c) {
            chunk_values<E>(all[(2 * t + c) * 4 + part].b, column[c]);
        }
        for (int i = 0; i < 2 * many; ++i) {
            const chunk_operands &a = all[g * 4 + part];
            chunk_values<E>(i % 2 ? a.high[i / 2] : a.low[i / 2], row);
            for (int c = 0; c < 2; ++c) {
                for (int e = 0; e < elements; ++e) {
                    sum[i / 2][i % 2 * 2 + c] += row[e] * column[c][e];
                }
            }
        }
    }
}

} // namespace spira

#endif
