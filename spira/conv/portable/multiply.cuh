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

#include "fill.cuh"

namespace spira {

// Where a warp stands in its thread block.
struct portable_place {
    int across, down;
};

template <typename T>
SPIRA_DEVICE portable_place portable_place_of() {
    const int warp = __shfl_sync(~0u, (int)(threadIdx.x / 32), 0) - T::producers;
    return {warp % T::across, warp / T::across};
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
// of the weights of a band, rows g and g + 8 of both pieces; of a fragment, all pieces of row g.
// The second half of the weights is at ^ 32.
SPIRA_DEVICE uint32_t portable_weights_at() {
    const uint32_t lane = threadIdx.x % 32, g = lane % 8, which = lane / 8;
    return portable_weight_place(g * 256 + which % 2 * 64 + which / 2 * conv_lane_bytes);
}

// With halves (portable_multiply_halves): pieces 0 and 1 of row g of the warp's fragments j and
// j + 1.
template <typename T>
SPIRA_DEVICE uint32_t portable_rows_at() {
    const uint32_t lane = threadIdx.x % 32, which = lane / 8, row = lane % 8 * conv_chunk_bytes;
    const uint32_t next = T::down * portable_fragment_bytes;
    return T::halves ? portable_row_place(row + which % 2 * conv_lane_bytes) + which / 2 * next
                     : portable_row_place(row + which * conv_lane_bytes);
}

// Where a lane reads in a stage, from its first byte on.
struct portable_origin {
    uint32_t rows, weights;
    uint32_t header, bits; // the word of the header that the lane looks at, and its bits
};

template <typename T>
SPIRA_DEVICE void portable_origin_header(const portable_place &own, portable_origin &o) {
    const int lane = (int)threadIdx.x % 32;
    const int fragment = portable_fragment_of<T>(own, lane % T::fragments);
    const bool flag = lane >= portable_state_flags;
    o.header = flag ? T::flags : T::header + fragment / portable_word_fragments * 4;
    o.bits = flag ? lane < portable_state_flags + 8 ? 1u << (lane - portable_state_flags) : 0
                  : 0xffu << fragment % portable_word_fragments * portable_fragment;
    o.header = portable_keep(o.header);
    o.bits = portable_keep(o.bits);
}

template <typename T>
SPIRA_DEVICE portable_origin portable_origin_of(const portable_place &own) {
    enum { warp_bytes = T::bands * portable_band * conv_chunk_bytes };
    portable_origin o;
    o.rows = (uint32_t)(own.down * portable_fragment_bytes) + portable_rows_at<T>();
    o.weights =
        T::rows * conv_chunk_bytes + (uint32_t)(own.across * warp_bytes) + portable_weights_at();
    o.rows = portable_keep(o.rows);
    o.weights = portable_keep(o.weights);
    portable_origin_header<T>(own, o);
    return o;
}

// Returns the state of a stage: bits of its fragments, and its flags.
SPIRA_DEVICE uint32_t portable_state_load(uint32_t stage, const portable_origin &from) {
    return __ballot_sync(~0u, (shared_load(stage + from.header) & from.bits) != 0);
}

// With 8 fragments, registers are short: the first half of the chunk is multiplied before the
// weights of the second are loaded. An ldmatrix reads this half of two fragments.
template <typename T>
SPIRA_DEVICE void portable_multiply_halves(uint32_t stage, const portable_origin &from,
                                           uint32_t state,
                                           float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const uint32_t weights = stage + (from.weights ^ half * 32);
        const uint32_t rows = stage + (from.rows ^ half * 32);
        uint4 a[T::bands], b[2];
#pragma unroll
        for (int i = 0; i < T::bands; ++i) {
            a[i] = matrix_load_4(weights + i / 2 * 2048 + i % 2 * 128);
        }
        b[0] = matrix_load_4(rows);
#pragma unroll
        for (int j = 0; j < T::fragments; ++j) {
            if (j % 2 == 0 && j + 2 < T::fragments) {
                b[(j / 2 + 1) % 2] =
                    matrix_load_4(rows + (j + 2) * T::down * portable_fragment_bytes);
            }
            if (portable_valid(state, j)) {
                const uint4 v = sizeof(E) == 4 ? conv_tf32(b[j / 2 % 2]) : b[j / 2 % 2];
                mma_steps<E>(sum[j], a, j % 2 ? v.z : v.x, j % 2 ? v.w : v.y);
            }
        }
    }
}

// stage: its address.
template <typename T>
SPIRA_DEVICE void portable_multiply(uint32_t stage, const portable_origin &from, uint32_t state,
                                    float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
    if constexpr (T::halves) {
        portable_multiply_halves<T>(stage, from, state, sum);
        return;
    }
    const uint32_t rows = stage + from.rows;
    const uint32_t weights[2] = {stage + from.weights, stage + (from.weights ^ 32)};
    uint4 a[2][T::bands], b[2];
#pragma unroll
    for (int i = 0; i < T::bands; ++i) {
        a[0][i] = matrix_load_4(weights[0] + i / 2 * 2048 + i % 2 * 128);
        a[1][i] = matrix_load_4(weights[1] + i / 2 * 2048 + i % 2 * 128);
    }
    b[0] = matrix_load_4(rows);
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        if (j + 1 < T::fragments) {
            b[(j + 1) % 2] = matrix_load_4(rows + (j + 1) * T::down * portable_fragment_bytes);
        }
        if (portable_valid(state, j)) {
            const uint4 v = sizeof(E) == 4 ? conv_tf32(b[j % 2]) : b[j % 2];
            mma_steps<E>(sum[j], a[0], v.x, v.y);
            mma_steps<E>(sum[j], a[1], v.z, v.w);
        }
    }
}

// Rescales the accumulators of the offsets, so that the shortcut's products can be added: see
// conv_shortcut_load. ratio: of the warp's channels.
template <typename T>
SPIRA_DEVICE void portable_scale(const float *ratio, float (&sum)[T::fragments][T::bands][4]) {
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

template <typename T>
SPIRA_DEVICE void portable_clear(float (&sum)[T::fragments][T::bands][4]) {
#pragma unroll
    for (int i = 0; i < T::fragments * T::bands * 4; ++i) {
        sum[i / 4 / T::bands][i / 4 % T::bands][i % 4] = 0.0f;
    }
}

} // namespace spira

#endif
