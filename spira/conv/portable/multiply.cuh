// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/multiply.cuh: a warp multiplies a stage.
//
// The product is transposed, as in conv/narrow.cuh: the instruction's 16 rows are output channels
// (a band, of the weights), and its 8 columns are source rows (a fragment). Fragments without a
// source are skipped.
//
// With g = lane / 4 and t = lane % 4 (exact variants number their lanes otherwise: portable_g,
// portable_t), a lane's accumulators of bands 2 q and 2 q + 1 are the output
// channels 32 q + 4 g .. + 3, of rows 2 t and 2 t + 1 of each fragment:
//   channel + 0, + 1   at [2 q][h], [2 q][2 + h]            h: row 2 t + h
//   channel + 2, + 3   at [2 q + 1][h], [2 q + 1][2 + h]
#ifndef SPIRA_CONV_PORTABLE_MULTIPLY_CUH
#define SPIRA_CONV_PORTABLE_MULTIPLY_CUH

#include "../../base/mma.cuh"
#include "fill.cuh"

namespace spira {

// Where a warp stands in its thread block.
struct portable_place {
    int across, down, set;
};

template <typename T>
SPIRA_DEVICE portable_place portable_place_of() {
    const int warp = __shfl_sync(~0u, (int)(threadIdx.x / 32), 0) - T::producers;
    return {warp % T::across, warp / T::across % T::down, warp / T::across / T::down};
}

// The lane's g and t: which channels and rows are its own. In exact variants neighbouring lanes
// have the same g, and lanes 2 apart the same t: shared memory serves 16 of them at a time
// (LDS.128).
template <typename T>
SPIRA_DEVICE int portable_g() {
    const int lane = warp_lane();
    return T::exact ? lane / 2 % 8 : lane / 4;
}

template <typename T>
SPIRA_DEVICE int portable_t() {
    const int lane = warp_lane();
    return T::exact ? lane % 2 + lane / 16 * 2 : lane % 4;
}

// The fragment of the tile that is the warp's j-th: warps take turns, so that they have about the
// same work.
template <typename T>
SPIRA_DEVICE int portable_fragment_of(const portable_place &own, int j) {
    return j * T::down + own.down;
}

// What a warp reads from the header of a stage: a bit for each of its fragments that has a source,
// and from bit 8 on the stage's flags.
enum { portable_state_flags = 8 };

// Whether the warp's j-th fragment has a source.
SPIRA_DEVICE bool portable_valid(uint32_t state, int j) {
    return state >> j & 1;
}

SPIRA_DEVICE bool portable_flagged(uint32_t state, uint32_t flag) {
    return state & flag << portable_state_flags;
}

// Where a lane's row of 16 bytes is, of the four that ldmatrix reads for the first half of a chunk:
// of the weights of a band, rows g and g + 8 of both pieces. The second half is at ^ 32.
SPIRA_DEVICE uint32_t portable_weights_at() {
    const uint32_t lane = threadIdx.x % 32, g = lane % 8, which = lane / 8;
    return portable_weight_place(g * 256 + which % 2 * 64 + which / 2 * conv_lane_bytes);
}

// Of two fragments of the warp that follow each other, pieces 0 and 1 of row g.
template <typename T>
SPIRA_DEVICE uint32_t portable_rows_at() {
    const uint32_t lane = threadIdx.x % 32, which = lane / 8, row = lane % 8 * conv_chunk_bytes;
    const uint32_t next = T::down * portable_fragment_bytes;
    return portable_row_place(row + which % 2 * conv_lane_bytes) + which / 2 * next;
}

// Where a lane reads in a stage, from its first byte on, in one register: they are short. Rows and
// weights are multiples of 16.
//   bit 0    the lane's bits of the header's word, from an even bit of it on
//   bit 2    the word: bytes from the header's first on
//   bit 4    of rows
//   bit 15   the even bit / 2
//   bit 19   of weights / 16
struct portable_origin {
    uint32_t at;
};

// The same in a stage.
struct portable_place_in {
    uint32_t rows, weights, header, bits;
};

template <typename T>
SPIRA_DEVICE portable_place_in portable_origin_in(uint32_t stage, const portable_origin &o) {
    const uint32_t at = portable_here(o.at);
    portable_place_in in;
    in.rows = stage + (at & 0x7ff0);
    in.weights = stage + (at >> 15 & 0x7ff0);
    in.header = stage + T::header + (at & 0xc);
    in.bits = (at & 3) << (at >> 14 & 0x1e);
    return in;
}

// rows, weights: the lane's first bytes.
template <typename T>
SPIRA_DEVICE portable_origin portable_origin_make(const portable_place &own, uint32_t rows,
                                                  uint32_t weights) {
    static_assert(T::stage_bytes < 1 << 15, "15 bits");
    static_assert(T::flags - T::header < 16, "a word of the first four");
    const int lane = (int)threadIdx.x % 32;
    const int fragment = portable_fragment_of<T>(own, lane % T::fragments);
    const bool flag = lane >= portable_state_flags;
    const uint32_t word = flag ? T::flags - T::header : fragment / portable_word_fragments * 4;
    const uint32_t bit = (uint32_t)(flag ? (lane - portable_state_flags) % 8
                                         : fragment % portable_word_fragments * portable_word_bits);
    const uint32_t mask = !flag ? 3 : lane < portable_state_flags + 8 ? 1 << bit % 2 : 0;
    return {portable_keep(mask | word | rows | bit / 2 << 15 | weights << 15)};
}

template <typename T>
SPIRA_DEVICE portable_origin portable_origin_of(const portable_place &own) {
    enum { warp_bytes = T::bands * portable_band * conv_chunk_bytes };
    return portable_origin_make<T>(
        own, (uint32_t)(own.down * portable_fragment_bytes) + portable_rows_at<T>(),
        T::rows * conv_chunk_bytes + (uint32_t)(own.across * warp_bytes) + portable_weights_at());
}

// Returns the state of a stage. word: of the header, the one that the lane looks at.
SPIRA_DEVICE uint32_t portable_state_of(uint32_t word, const portable_place_in &from) {
    return __ballot_sync(~0u, (word & from.bits) != 0);
}

// Operands of half a chunk: the weights of all bands, and the rows of four fragments, two of them
// in each `b`.
template <typename T>
struct portable_operands {
    uint4 a[T::bands], b[2];
};

// Loads the rows of fragments 2 i and 2 i + 1. rows: the lane's address of the first.
template <typename T>
SPIRA_DEVICE void portable_rows_load(uint32_t rows, int i, portable_operands<T> &h) {
    h.b[i % 2] = matrix_load_4(rows + 2 * i * T::down * portable_fragment_bytes);
}

// Loads a half, as far as registers go. half: 0 or 1.
template <typename T>
SPIRA_DEVICE void portable_half_load(const portable_place_in &from, int half,
                                     portable_operands<T> &h) {
    const uint32_t weights = from.weights ^ (uint32_t)half * 32;
    const uint32_t rows = from.rows ^ (uint32_t)half * 32;
#pragma unroll
    for (int i = 0; i < T::bands; ++i) {
        h.a[i] = matrix_load_4(weights + i / 2 * 2048 + i % 2 * 128);
    }
    portable_rows_load<T>(rows, 0, h);
    portable_rows_load<T>(rows, 1, h);
}

// Rounds to tf32 in two instructions: to nearest, ties away from zero, but for the low 13 bits,
// which the matrix instruction does not read. NaN stays as it is, the sum would wrap.
SPIRA_DEVICE uint32_t portable_tf32(uint32_t v) {
#ifdef __CUDA_ARCH__
    asm("{ .reg .pred number;\n"
        "setp.num.f32 number, %1, %1;\n"
        "@number add.u32 %0, %0, 0x1000; }"
        : "+r"(v)
        : "f"(__uint_as_float(v)));
    return v;
#else
    return (v & 0x7fffffff) > 0x7f800000 ? v : v + 0x1000;
#endif
}

// Multiplies a half. Fragments are skipped by predicates: branches would keep the loads from
// overlapping with the products. So fragments are rounded before they are known to be there.
template <typename T>
SPIRA_DEVICE void portable_half_multiply(const portable_place_in &from, int half, uint32_t state,
                                         portable_operands<T> &h, portable_sums<T> &sum) {
    typedef typename T::element E;
    const uint32_t rows = from.rows ^ (uint32_t)half * 32;
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        if (j % 2 == 0 && j >= 2 && j + 2 < T::fragments) {
            portable_rows_load<T>(rows, j / 2 + 1, h);
        }
        uint4 &v = h.b[j / 2 % 2];
        if (sizeof(E) == 4 && j % 2 == 0) {
            v = make_uint4(portable_tf32(v.x), portable_tf32(v.y), portable_tf32(v.z),
                           portable_tf32(v.w));
        }
        if (portable_valid(state, j)) {
            mma_steps<E>(sum[j], h.a, j % 2 ? v.z : v.x, j % 2 ? v.w : v.y);
        }
    }
}

// Rescales the accumulators of the offsets, so that the shortcut's products can be added: see
// conv_shortcut_load. Those of int8 share their scale. ratio: of the warp's channels.
template <typename T>
SPIRA_DEVICE void portable_scale(const float *ratio, portable_sums<T> &sum) {
    const float *own = ratio + portable_g<T>() * 4;
#pragma unroll
    for (int i = 0; i < T::bands; ++i) {
        const float2 r = *(const float2 *)(own + i / 2 * 32 + i % 2 * 2);
#pragma unroll
        for (int j = 0; j < T::fragments; ++j) {
            sum[j][i][0] *= r.x;
            sum[j][i][1] *= r.x;
            sum[j][i][2] *= r.y;
            sum[j][i][3] *= r.y;
        }
    }
}

// Multiplies a stage and returns its state. The first half is loaded while the header is. from: the
// lane's addresses; ratio: of the warp's channels, portable_scale.
template <typename T>
SPIRA_DEVICE uint32_t portable_multiply(const portable_place_in &from, const float *ratio,
                                        portable_sums<T> &sum) {
    portable_operands<T> h;
    const uint32_t word = shared_load(from.header);
    portable_half_load<T>(from, 0, h);
    const uint32_t state = portable_state_of(word, from);
    if constexpr (sizeof(typename T::element) > 1) {
        if (portable_flagged(state, portable_flag_scale)) {
            portable_scale<T>(ratio, sum);
        }
    }
    portable_half_multiply<T>(from, 0, state, h, sum);
    portable_half_load<T>(from, 1, h);
    portable_half_multiply<T>(from, 1, state, h, sum);
    return state;
}

template <typename T>
SPIRA_DEVICE void portable_clear(portable_sums<T> &sum) {
#pragma unroll
    for (int i = 0; i < T::fragments * T::bands * 4; ++i) {
        sum[i / 4 / T::bands][i / 4 % T::bands][i % 4] = 0;
    }
}

} // namespace spira

#endif
