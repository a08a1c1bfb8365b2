// spira/conv/portable/multiply_exact.cuh: a warp multiplies a stage in exact fp32.
//
// Fused multiply-adds in place of matrix instructions, with the accumulators and fragments of
// multiply.cuh: a lane has 4 neighbouring channels of each pair of bands, and 2 rows of each
// fragment. It multiplies 4 input channels at a time, as outer products in registers. Products and
// sums are fp32, added in ascending order of offsets and input channels: fmaf(row, weight, sum).
//
// All loads from shared memory are 16 bytes: of an input channel's weights, which 8 lanes read as
// 128 contiguous bytes, and of 4 input channels of a row, which 8 lanes share.
#ifndef SPIRA_CONV_PORTABLE_MULTIPLY_EXACT_CUH
#define SPIRA_CONV_PORTABLE_MULTIPLY_EXACT_CUH

#include "multiply.cuh"
#include "weights_exact.cuh"

namespace spira {

// Where a lane reads in a stage: its weights of the first input channel; its first row, whose piece
// i is at ^ 16 i.
template <typename T>
SPIRA_DEVICE portable_origin portable_origin_exact(const portable_place &own) {
    enum { warp_bytes = T::bands * portable_band * conv_chunk_bytes };
    const uint32_t row = (uint32_t)portable_t<T>() * 2 * conv_chunk_bytes;
    portable_origin o;
    o.rows = (uint32_t)(own.down * portable_fragment_bytes) + portable_row_place(row);
    o.weights = T::rows * conv_chunk_bytes + (uint32_t)(own.across * warp_bytes) +
                (uint32_t)portable_g<T>() * conv_lane_bytes;
    portable_origin_header<T>(own, o);
    return o;
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

// Adds the products of one input channel: of rows 2 t and 2 t + 1 of a fragment.
template <typename T>
SPIRA_DEVICE void portable_add_exact(float low, float high, const float4 (&weight)[T::bands / 2],
                                     float (&sum)[T::bands][4]) {
#pragma unroll
    for (int q = 0; q < T::bands / 2; ++q) {
        const float w[4] = {weight[q].x, weight[q].y, weight[q].z, weight[q].w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            float *const to = sum[2 * q + e / 2] + e % 2 * 2;
            to[0] = fmaf(low, w[e], to[0]);
            to[1] = fmaf(high, w[e], to[1]);
        }
    }
}

// A lane's row values of `many` input channels: 4, or 2 where registers are short.
template <int many>
SPIRA_DEVICE void portable_row_load(uint32_t from, float (&v)[many]) {
    if constexpr (many == 4) {
        const float4 all = portable_floats(shared_load_4(from));
        v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
    } else {
        const float2 all = shared_load_float_2(from);
        v[0] = all.x, v[1] = all.y;
    }
}

// Multiplies a stage. row: where the lane's first row is in it; weights: address of the lane's
// first. all: all of the warp's fragments have sources. Without branches between them, loads of one
// overlap products of another.
template <typename T, bool all>
SPIRA_DEVICE void portable_pieces_exact(uint32_t stage, uint32_t row, uint32_t weights,
                                        uint32_t pieces, uint32_t state,
                                        float (&sum)[T::fragments][T::bands][4]) {
    enum {
        quads = T::bands / 2,
        weights_row = portable_exact_out * sizeof(float),
        many = T::halves ? 2 : 4 // input channels at a time
    };
#pragma unroll 1
    for (uint32_t step = 0; step < pieces * (4 / many); ++step) {
        const uint32_t piece = step / (4 / many), part = step % (4 / many) * (many * 4);
        const uint32_t rows = stage + (row ^ piece * conv_lane_bytes) + part;
        const uint32_t from = weights + step * (many * weights_row);
        float4 w[many][quads];
#pragma unroll
        for (int i = 0; i < many * quads; ++i) {
            const int k = i / quads, q = i % quads;
            w[k][q] = portable_floats(
                shared_load_4(from + k * weights_row + q * (portable_exact_in * weights_row)));
        }
#pragma unroll
        for (int j = 0; j < T::fragments; ++j) {
            if (all || portable_valid(state, j)) {
                const uint32_t at = rows + j * T::down * portable_fragment_bytes;
                float low[many], high[many];
                portable_row_load(at, low);
                portable_row_load(at + conv_chunk_bytes, high);
#pragma unroll
                for (int k = 0; k < many; ++k) {
                    portable_add_exact<T>(low[k], high[k], w[k], sum[j]);
                }
            }
        }
    }
}

// stage: its address. With 8 fragments a warp, few warps are there to hide the latency of loads;
// with 4, registers are too short for both loops.
template <typename T>
SPIRA_DEVICE void portable_multiply_exact(uint32_t stage, const portable_origin &from,
                                          uint32_t state, float (&sum)[T::fragments][T::bands][4]) {
    enum { every = (1 << T::fragments) - 1 };
    const uint32_t weights = stage + from.weights;
    const uint32_t pieces = (state >> portable_state_flags) / portable_flag_piece;
    if (T::fragments > 4 && (state & every) == every) {
        portable_pieces_exact<T, true>(stage, from.rows, weights, pieces, state, sum);
    } else {
        portable_pieces_exact<T, false>(stage, from.rows, weights, pieces, state, sum);
    }
}

template <typename T>
SPIRA_DEVICE void portable_multiply_any(uint32_t stage, const portable_origin &from, uint32_t state,
                                        float (&sum)[T::fragments][T::bands][4]) {
    if constexpr (T::exact) {
        portable_multiply_exact<T>(stage, from, state, sum);
    } else {
        portable_multiply<T>(stage, from, state, sum);
    }
}

} // namespace spira

#endif
