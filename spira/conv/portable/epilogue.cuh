// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/portable/epilogue.cuh: from accumulators to outputs: initial sums, scale and shift,
// residual, activation, one rounding.
//
// A lane finishes four neighbouring channels at a time, of two rows of each fragment; 8 lanes have
// 32 neighbouring channels of a row.
#ifndef SPIRA_CONV_PORTABLE_EPILOGUE_CUH
#define SPIRA_CONV_PORTABLE_EPILOGUE_CUH

#include "../epilogue.cuh"
#include "multiply_exact.cuh"

namespace spira {

// The lane's output rows; -1: none. stage: a tile's last.
template <typename T>
SPIRA_DEVICE void portable_outputs_load(uint32_t stage, int (&row)[T::fragments][2]) {
    const portable_place own = portable_place_of<T>(); // again, once a tile: registers
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        const int first = portable_fragment_of<T>(own, j) * portable_fragment;
        const uint32_t at = stage + T::outputs + (uint32_t)(first + portable_t<T>() * 2) * 4;
        row[j][0] = (int)shared_load(at);
        row[j][1] = (int)shared_load(at + 4);
    }
}

// The lane's four channels of bands 2 q and 2 q + 1, of row h of a fragment.
template <int bands, typename Sum>
SPIRA_DEVICE float4 portable_quad(const Sum (&sum)[bands][4], int q, int h) {
    return make_float4((float)sum[2 * q][h], (float)sum[2 * q][2 + h], (float)sum[2 * q + 1][h],
                       (float)sum[2 * q + 1][2 + h]);
}

// Adds conv_params.sums. channel: the lane's first.
template <typename T>
SPIRA_DEVICE void portable_sums_add(const conv_params &p, int channel,
                                    const int (&row)[T::fragments][2], portable_sums<T> &sum) {
    const int pitch = conv_sums_pitch(p.cout);
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        asm volatile("" ::: "memory"); // keeps the loads of a fragment together: registers
#pragma unroll
        for (int i = 0; i < T::bands; ++i) { // row h, quad q
            const int h = i % 2, q = i / 2, first = channel + 32 * q;
            if (row[j][h] >= 0 && first < p.cout) {
                const float4 v =
                    conv_sums_fetch(p.sums + (int64_t)row[j][h] * pitch + first, p.cout - first);
                sum[j][2 * q][h] += v.x;
                sum[j][2 * q][2 + h] += v.y;
                sum[j][2 * q + 1][h] += v.z;
                sum[j][2 * q + 1][2 + h] += v.w;
            }
        }
    }
}

// vectors: address of the scales of four channels in shared memory; their shifts are T::columns
// behind.
template <typename T>
SPIRA_DEVICE conv_affine_4 portable_affine_load(uint32_t vectors) {
    return {portable_floats(shared_load_4(vectors)),
            portable_floats(shared_load_4(vectors + T::columns * (int)sizeof(float)))};
}

// Four neighbouring elements as words: the compiler would keep each 16-bit element in a register of
// its own.
template <typename E>
struct portable_packed {
    uint32_t word[sizeof(E)];
};

template <typename E>
SPIRA_DEVICE void portable_packed_load(const E *from, portable_packed<E> &v) {
    if constexpr (sizeof(E) == 1) {
        v.word[0] = *(const uint32_t *)from;
    } else if constexpr (sizeof(E) == 2) {
        const uint2 w = *(const uint2 *)from;
        v.word[0] = w.x, v.word[1] = w.y;
    } else {
        const uint4 w = *(const uint4 *)from;
        v.word[0] = w.x, v.word[1] = w.y, v.word[2] = w.z, v.word[3] = w.w;
    }
}

// Keeps the words in registers up to here.
template <typename E>
SPIRA_DEVICE conv_quad<E> portable_packed_quad(portable_packed<E> &v) {
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < (int)sizeof(E); ++i) {
        asm("" : "+r"(v.word[i]));
    }
#endif
    return bytes_as<conv_quad<E>>(v);
}

// Finishes aligned outputs. The residual may be the array of the outputs: that of a batch is loaded
// before the outputs of the batch are stored. channel: the lane's first; vectors: of this channel,
// portable_affine_load; O: of the outputs, the residual's too.
template <typename T, bool plain, typename O = typename T::element>
SPIRA_DEVICE void portable_finish_wide(const conv_params &p, uint32_t vectors, int channel,
                                       const int (&row)[T::fragments][2],
                                       const portable_sums<T> &sum) {
    const auto pitch = (uint32_t)(p.pitch_out * (int)sizeof(O));
#pragma unroll
    for (int q = 0; q < T::bands / 2; ++q) {
        const int first = channel + 32 * q;
        const bool inside = first < p.cout;
#pragma unroll
        for (int begin = 0; begin < 2 * T::fragments; begin += T::batch) { // rows
            portable_packed<O> residual[T::batch] = {};
            if (!plain && p.residual) {
#pragma unroll
                for (int u = 0; u < T::batch; ++u) {
                    const int own = row[(begin + u) / 2][u % 2];
                    if (own >= 0 && inside) {
                        const char *const from =
                            (const char *)p.residual + conv_multiply_wide((uint32_t)own, pitch);
                        portable_packed_load((const O *)from + first, residual[u]);
                    }
                }
            }
            const conv_affine_4 affine = // for each batch: registers
                portable_affine_load<T>(vectors + 32 * q * (int)sizeof(float));
#pragma unroll
            for (int u = 0; u < T::batch; ++u) {
                const int j = (begin + u) / 2, h = u % 2, own = row[j][h];
                if (own >= 0 && inside) {
                    const conv_quad<O> out = conv_finish<O, plain>(
                        p, affine, portable_quad<T::bands>(sum[j], q, h), !plain && p.residual,
                        portable_packed_quad(residual[u]));
                    char *const to = (char *)p.out + conv_multiply_wide((uint32_t)own, pitch);
                    conv_quad_store<O, true>((O *)to + first, 4, out);
                }
            }
        }
    }
}

// Finishes any outputs in a compact loop, in which the accumulators move down through their
// registers, two bands at a time.
template <typename T>
SPIRA_DEVICE void portable_finish_some(const conv_params &p, uint32_t vectors, int channel,
                                       int (&row)[T::fragments][2], portable_sums<T> &sum) {
    enum { quads = T::bands / 2, values = T::fragments * T::bands * 4 };
#pragma unroll 1
    for (int i = 0; i < T::fragments * quads; ++i) {
        const int q = i % quads, first = channel + 32 * q;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (row[0][h] >= 0 && first < p.cout) {
                const conv_affine_4 affine = // for each row: registers
                    portable_affine_load<T>(vectors + 32 * q * (int)sizeof(float));
                const float4 four = portable_quad<T::bands>(sum[0], 0, h);
                if constexpr (T::mixed) {
                    conv_output_store_mixed(p, {affine, first}, row[0][h], four);
                } else {
                    conv_output_store<typename T::element>(p, {affine, first}, row[0][h], four);
                }
            }
        }
#pragma unroll
        for (int e = 0; e + 8 < values; ++e) {
            sum[e / 4 / T::bands][e / 4 % T::bands][e % 4] =
                sum[(e + 8) / 4 / T::bands][(e + 8) / 4 % T::bands][e % 4];
        }
#pragma unroll
        for (int j = 0; j + 1 < T::fragments; ++j) {
            row[j][0] = q + 1 == quads ? row[j + 1][0] : row[j][0];
            row[j][1] = q + 1 == quads ? row[j + 1][1] : row[j][1];
        }
    }
}

// Finishes a warp's outputs. channel: its first; scale: of this one, then of the others. Their
// shifts are T::columns behind.
template <typename T>
SPIRA_DEVICE void portable_finish_any(const conv_params &p, const float *scale, int channel,
                                      int (&row)[T::fragments][2], portable_sums<T> &sum) {
    const int own = portable_g<T>() * 4;
    const uint32_t vectors = shared_address(scale + own);
    channel += own;
    constexpr bool integer = sizeof(typename T::element) == 1;
    if (!integer && p.sums) {
        portable_sums_add<T>(p, channel, row, sum);
    }
    const bool plain = p.wide_out && !p.residual && activation_is_bound(p.epilogue.act);
    if constexpr (T::mixed) {
        typedef std::conditional_t<integer, __half, int8_t> other; // as networks mix formats
        if (plain && p.quantisation.out_type == (integer ? numeric_f16 : numeric_i8)) {
            portable_finish_wide<T, true, other>(p, vectors, channel, row, sum);
            return;
        }
    }
    if (T::mixed && (!integer || p.quantisation.mixed)) {
        portable_finish_some<T>(p, vectors, channel, row, sum);
    } else if (plain) {
        portable_finish_wide<T, true>(p, vectors, channel, row, sum);
    } else if (p.wide_out && !T::exact) { // in exact arithmetic the products take most of the time
        portable_finish_wide<T, T::exact>(p, vectors, channel, row, sum);
    } else {
        portable_finish_some<T>(p, vectors, channel, row, sum);
    }
}

} // namespace spira

#endif
