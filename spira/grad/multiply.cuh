// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/multiply.cuh: a warp multiplies a stage: sum[c, n] += in[pair, c] * out_grad[pair, n].
//
// The instruction's 16 rows are input channels (a band), its 8 columns output channels (a
// fragment), and its depth is pairs. Rows of a stage are pairs, so both operands are read
// transposed: by ldmatrix.trans (16 bits), or word by word (tf32).
#ifndef SPIRA_GRAD_MULTIPLY_CUH
#define SPIRA_GRAD_MULTIPLY_CUH

#include "../base/mma.cuh"
#include "traits.cuh"

namespace spira {

// Where a warp stands in its thread block.
struct grad_warp {
    int down, across, split;
};

template <typename T>
SPIRA_DEVICE grad_warp grad_warp_of() {
    const int warp = __shfl_sync(~0u, (int)(threadIdx.x / 32), 0);
    return {warp % T::down, warp / T::down % T::across, warp / T::down / T::across};
}

template <typename T>
SPIRA_DEVICE void grad_clear(float (&sum)[T::fragments][T::bands][4]) {
#pragma unroll
    for (int i = 0; i < T::fragments * T::bands * 4; ++i) {
        sum[i / 4 / T::bands][i / 4 % T::bands][i % 4] = 0.0f;
    }
}

// Where a lane reads in a stage, from its first byte on: of the first step, in the warp's first
// band and fragment.
struct grad_origin {
    uint32_t in, out;
};

template <typename T>
SPIRA_DEVICE grad_origin grad_origin_of(const grad_warp &own) {
    typedef typename T::element E;
    const uint32_t lane = threadIdx.x % 32, pair = (uint32_t)own.split * (T::chunk / T::split);
    const uint32_t c = (uint32_t)own.down * (T::bands * 16);
    const uint32_t n = (uint32_t)own.across * (T::fragments * 8);
    grad_origin o;
    if constexpr (sizeof(E) == 2) { // the row of a matrix that ldmatrix takes from the lane
        o.in = grad_place<E, T::in_pitch>(pair + lane / 16 * 8 + lane % 8, c / 8 + lane / 8 % 2);
        o.out = grad_place<E, T::out_pitch>(pair + lane / 8 % 2 * 8 + lane % 8, n / 8 + lane / 16);
    } else { // a word: pair t, channel g
        const uint32_t g = lane / 4, t = lane % 4;
        o.in = grad_place<E, T::in_pitch>(pair + t, c / 4 + g / 4) + g % 4 * 4;
        o.out = grad_place<E, T::out_pitch>(pair + t, n / 4 + g / 4) + g % 4 * 4;
    }
    o.out += T::in_bytes;
    return o;
}

// The place `bytes` further in the rows of a stage: what is below 128 is swizzled (grad_place).
SPIRA_DEVICE uint32_t grad_further(uint32_t at, uint32_t bytes) {
    return (at ^ (bytes & 127)) + (bytes & ~127u);
}

SPIRA_DEVICE uint32_t grad_word(uint32_t at) {
    return tf32_bits(__uint_as_float(shared_load(at)));
}

// Loads a band: of 16 bits, matrices of channels + 0 and + 8 of the first 8 pairs, then of the
// others.
template <typename T>
SPIRA_DEVICE uint4 grad_band_load(uint32_t at) {
    if constexpr (sizeof(typename T::element) == 2) {
        return matrix_load_4_transposed(at);
    } else {
        const uint32_t next = at + 4 * T::in_pitch;
        return make_uint4(grad_word(at), grad_word(grad_further(at, 32)), grad_word(next),
                          grad_word(grad_further(next, 32)));
    }
}

// Loads two fragments: x, y of the first, z, w of the second. Of 16 bits, matrices of the first and
// the last 8 pairs of channels + 0, then of + 8.
template <typename T>
SPIRA_DEVICE uint4 grad_fragments_load(uint32_t at) {
    if constexpr (sizeof(typename T::element) == 2) {
        return matrix_load_4_transposed(at);
    } else {
        const uint32_t next = at + 4 * T::out_pitch;
        return make_uint4(grad_word(at), grad_word(next), grad_word(grad_further(at, 32)),
                          grad_word(grad_further(next, 32)));
    }
}

// stage: its address, a multiple of 128.
template <typename T>
SPIRA_DEVICE void grad_multiply(uint32_t stage, const grad_origin &from,
                                float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
#pragma unroll
    for (int s = 0; s < T::steps; ++s) {
        const uint32_t in = stage + from.in + (uint32_t)(s * T::step * T::in_pitch);
        const uint32_t out = stage + from.out + (uint32_t)(s * T::step * T::out_pitch);
        uint4 a[T::bands];
#pragma unroll
        for (int i = 0; i < T::bands; ++i) {
            a[i] = grad_band_load<T>(grad_further(in, (uint32_t)(i * 16 * (int)sizeof(E))));
        }
#pragma unroll
        for (int j = 0; j < T::fragments; j += 2) {
            const uint4 b =
                grad_fragments_load<T>(grad_further(out, (uint32_t)(j * 8 * (int)sizeof(E))));
            mma_steps<E>(sum[j], a, b.x, b.y);
            mma_steps<E>(sum[j + 1], a, b.z, b.w);
        }
    }
}

} // namespace spira

#endif
