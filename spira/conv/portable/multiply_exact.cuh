// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/multiply_exact.cuh: a warp multiplies a stage in exact fp32, or in int32.
//
// Fused multiply-adds in place of matrix instructions, with the accumulators and fragments of
// multiply.cuh: a lane has 4 neighbouring channels of each pair of bands, and 2 rows of each
// fragment. It multiplies 4 input channels at a time, as outer products in registers. Products and
// sums are fp32, added in ascending order of offsets and input channels: fmaf(row, weight, sum).
// Those of int8 layers (conv/exact.cuh) are int32, of operands that are int32.
//
// All loads from shared memory are 16 bytes: of an input channel's weights, which 8 lanes read as
// 128 contiguous bytes, and of 4 input channels of a row, which 8 lanes share.
#ifndef SPIRA_CONV_PORTABLE_MULTIPLY_EXACT_CUH
#define SPIRA_CONV_PORTABLE_MULTIPLY_EXACT_CUH

#include "../weights.cuh"
#include "multiply.cuh"

namespace spira {

// Where a lane reads in a stage: its weights of the first input channel; its first row, whose piece
// i is at ^ 16 i.
template <typename T>
SPIRA_DEVICE portable_origin portable_origin_exact(const portable_place &own) {
    enum { warp_bytes = T::bands * portable_band * conv_chunk_bytes };
    const uint32_t row = (uint32_t)portable_t<T>() * 2 * conv_chunk_bytes;
    return portable_origin_make<T>(
        own, (uint32_t)(own.down * portable_fragment_bytes) + portable_row_place(row),
        T::rows * conv_chunk_bytes + (uint32_t)(own.across * warp_bytes) +
            (uint32_t)portable_g<T>() * conv_lane_bytes);
}

template <typename T>
SPIRA_DEVICE portable_origin portable_origin_any(const portable_place &own) {
    if constexpr (T::exact) {
        return portable_origin_exact<T>(own);
    } else {
        return portable_origin_of<T>(own);
    }
}

SPIRA_DEVICE float4 portable_floats(uint4 v) {
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                       __uint_as_float(v.w));
}

// Four words of rows or weights, for sums of a type.
SPIRA_DEVICE float4 portable_factors(uint4 v, float) {
    return portable_floats(v);
}

SPIRA_DEVICE uint4 portable_factors(uint4 v, int32_t) {
    return v;
}

SPIRA_DEVICE void portable_add_product(float a, float b, float &sum) {
    sum = fmaf(a, b, sum);
}

SPIRA_DEVICE void portable_add_product(uint32_t a, uint32_t b, int32_t &sum) {
    sum += (int32_t)(a * b);
}

// Adds the products of one input channel: of rows 2 t and 2 t + 1 of a fragment.
template <int bands, typename Factor, typename Factors, typename Sum>
SPIRA_DEVICE void portable_add_exact(Factor low, Factor high, const Factors (&weight)[bands / 2],
                                     Sum (&sum)[bands][4]) {
#pragma unroll
    for (int q = 0; q < bands / 2; ++q) {
        const Factor w[4] = {weight[q].x, weight[q].y, weight[q].z, weight[q].w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            Sum *const to = sum[2 * q + e / 2] + e % 2 * 2;
            portable_add_product(low, w[e], to[0]);
            portable_add_product(high, w[e], to[1]);
        }
    }
}

// Pieces of 4 input channels follow each other. Shared memory is what bounds this loop: it loads
// nothing that it does not multiply.
template <typename T>
SPIRA_DEVICE void portable_multiply_exact(const portable_place_in &from, uint32_t state,
                                          portable_sums<T> &sum) {
    typedef typename numeric_sum<typename T::element>::type Sum;
    enum { quads = T::bands / 2, weights_row = conv_exact_out * sizeof(float) };
    const uint32_t pieces = (state >> portable_state_flags) / portable_flag_piece;
#pragma unroll 1
    for (uint32_t piece = 0; piece < pieces; ++piece) {
        const uint32_t rows = from.rows ^ piece * conv_lane_bytes;
        const uint32_t weights = from.weights + piece * (4 * weights_row);
        decltype(portable_factors(uint4(), Sum())) w[4][quads];
#pragma unroll
        for (int i = 0; i < 4 * quads; ++i) {
            const int k = i / quads, q = i % quads;
            w[k][q] = portable_factors(
                shared_load_4(weights + k * weights_row + q * ((int)conv_exact_in * weights_row)),
                Sum());
        }
#pragma unroll
        for (int j = 0; j < T::fragments; ++j) {
            if (portable_valid(state, j)) {
                const uint32_t at = rows + j * T::down * portable_fragment_bytes;
                const auto low = portable_factors(shared_load_4(at), Sum());
                const auto high = portable_factors(shared_load_4(at + conv_chunk_bytes), Sum());
                portable_add_exact<T::bands>(low.x, high.x, w[0], sum[j]);
                portable_add_exact<T::bands>(low.y, high.y, w[1], sum[j]);
                portable_add_exact<T::bands>(low.z, high.z, w[2], sum[j]);
                portable_add_exact<T::bands>(low.w, high.w, w[3], sum[j]);
            }
        }
    }
}

// Multiplies a stage and returns its state.
template <typename T>
SPIRA_DEVICE uint32_t portable_multiply_any(const portable_place_in &from, const float *ratio,
                                            portable_sums<T> &sum) {
    if constexpr (T::exact) {
        const uint32_t state = portable_state_of(shared_load(from.header), from);
        if (portable_flagged(state, portable_flag_scale)) {
            portable_scale<T>(ratio, sum);
        }
        portable_multiply_exact<T>(from, state, sum);
        return state;
    } else {
        return portable_multiply<T>(from, ratio, sum);
    }
}

} // namespace spira

#endif
