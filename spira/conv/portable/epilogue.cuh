// spira/conv/portable/epilogue.cuh: from accumulators to outputs: initial sums, scale and shift,
// residual, activation, one rounding.
//
// A lane finishes four neighbouring channels at a time, of two rows of each fragment; 8 lanes have
// 32 neighbouring channels of a row.
#ifndef SPIRA_CONV_PORTABLE_EPILOGUE_CUH
#define SPIRA_CONV_PORTABLE_EPILOGUE_CUH

#include "multiply_exact.cuh"

namespace spira {

// The lane's output rows; -1: none. stage: a tile's last.
template <typename T>
SPIRA_DEVICE void portable_outputs_load(uint32_t stage, const portable_place &own,
                                        int (&row)[T::fragments][2]) {
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        const int first = portable_fragment_of<T>(own, j) * portable_fragment;
        const uint32_t at = stage + T::outputs + (uint32_t)(first + portable_t<T>() * 2) * 4;
        row[j][0] = (int)shared_load(at);
        row[j][1] = (int)shared_load(at + 4);
    }
}

// The lane's four channels of bands 2 q and 2 q + 1, of row h of a fragment.
template <int bands>
SPIRA_DEVICE float4 portable_quad(const float (&sum)[bands][4], int q, int h) {
    return make_float4(sum[2 * q][h], sum[2 * q][2 + h], sum[2 * q + 1][h], sum[2 * q + 1][2 + h]);
}

// Adds conv_tensor_params.sums. channel: the lane's first.
template <typename T>
SPIRA_DEVICE void portable_sums_add(const conv_tensor_params &p, int channel,
                                    const int (&row)[T::fragments][2],
                                    float (&sum)[T::fragments][T::bands][4]) {
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

// Finishes four channels of an output. first: their number in the layer. vectors: their scales in
// shared memory, and their shifts T::columns behind.
template <typename T, bool wide>
SPIRA_DEVICE void portable_finish(const conv_tensor_params &p, const float *vectors, int row,
                                  int first, float4 sum,
                                  const conv_quad<typename T::element> &residual) {
    typedef typename T::element E;
    const float floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    const bool leaky = p.epilogue.act == activation_leaky;
    const float4 scale = *(const float4 *)vectors, shift = *(const float4 *)(vectors + T::columns);
    float v[4] = {fmaf(sum.x, scale.x, shift.x), fmaf(sum.y, scale.y, shift.y),
                  fmaf(sum.z, scale.z, shift.z), fmaf(sum.w, scale.w, shift.w)};
    conv_quad<E> out;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        v[e] += p.residual ? element_to_float(residual.element[e]) : 0.0f;
        out.element[e] = element_from_float<E>(conv_activate(v[e], floor, leaky, p.epilogue.slope));
    }
    conv_quad_store<E, wide>((E *)p.out + ((int64_t)row * p.cout + first), p.cout - first, out);
}

// Four neighbouring elements as words: the compiler would keep each 16-bit element in a register of
// its own.
template <typename E>
union portable_packed {
    uint32_t word[sizeof(E)];
    conv_quad<E> quad;
};

template <typename E>
SPIRA_DEVICE void portable_packed_load(const E *from, portable_packed<E> &v) {
    if constexpr (sizeof(E) == 2) {
        const uint2 w = *(const uint2 *)from;
        v.word[0] = w.x, v.word[1] = w.y;
    } else {
        const uint4 w = *(const uint4 *)from;
        v.word[0] = w.x, v.word[1] = w.y, v.word[2] = w.z, v.word[3] = w.w;
    }
}

// Keeps the words in registers up to here.
template <typename E>
SPIRA_DEVICE const conv_quad<E> &portable_packed_quad(portable_packed<E> &v) {
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < (int)sizeof(E); ++i) {
        asm("" : "+r"(v.word[i]));
    }
#endif
    return v.quad;
}

// Finishes aligned outputs. The residual may be the array of the outputs: that of a batch is loaded
// before the outputs of the batch are stored. channel: the lane's first.
template <typename T>
SPIRA_DEVICE void portable_finish_wide(const conv_tensor_params &p, const float *vectors,
                                       int channel, const int (&row)[T::fragments][2],
                                       const float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
    enum { quads = T::bands / 2 };
#pragma unroll
    for (int begin = 0; begin < 2 * T::fragments; begin += T::batch) { // rows
        portable_packed<E> residual[T::batch][quads] = {};
        if (p.residual) {
#pragma unroll
            for (int i = 0; i < T::batch * quads; ++i) {
                const int u = i / quads, q = i % quads;
                const int own = row[(begin + u) / 2][(begin + u) % 2], first = channel + 32 * q;
                if (own >= 0 && first < p.cout) {
                    portable_packed_load((const E *)p.residual + ((int64_t)own * p.cout + first),
                                         residual[u][q]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < T::batch * quads; ++i) {
            const int u = i / quads, q = i % quads, j = (begin + u) / 2, h = (begin + u) % 2;
            const int own = row[j][h], first = channel + 32 * q;
            if (own >= 0 && first < p.cout) {
                portable_finish<T, true>(p, vectors + 32 * q, own, first,
                                         portable_quad<T::bands>(sum[j], q, h),
                                         portable_packed_quad(residual[u][q]));
            }
        }
    }
}

// Finishes unaligned outputs in a compact loop, in which the accumulators move down through their
// registers, two bands at a time.
template <typename T>
SPIRA_DEVICE void portable_finish_unaligned(const conv_tensor_params &p, const float *vectors,
                                            int channel, int (&row)[T::fragments][2],
                                            float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
    enum { quads = T::bands / 2, values = T::fragments * T::bands * 4 };
#pragma unroll 1
    for (int i = 0; i < T::fragments * quads; ++i) {
        const int q = i % quads, first = channel + 32 * q;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (row[0][h] >= 0 && first < p.cout) {
                conv_quad<E> residual = {};
                if (p.residual) {
                    residual = conv_quad_load<E, false>((const E *)p.residual +
                                                            ((int64_t)row[0][h] * p.cout + first),
                                                        p.cout - first);
                }
                portable_finish<T, false>(p, vectors + 32 * q, row[0][h], first,
                                          portable_quad<T::bands>(sum[0], 0, h), residual);
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

// Finishes a warp's outputs. from: its first channel in the slice; channel: in the layer.
template <typename T>
SPIRA_DEVICE void portable_finish_any(const conv_tensor_params &p, const float *scale, int from,
                                      int channel, int (&row)[T::fragments][2],
                                      float (&sum)[T::fragments][T::bands][4]) {
    const int own = portable_g<T>() * 4;
    const float *const vectors = scale + from + own;
    channel += own;
    if (p.sums) {
        portable_sums_add<T>(p, channel, row, sum);
    }
    if (p.wide_out) {
        portable_finish_wide<T>(p, vectors, channel, row, sum);
    } else {
        portable_finish_unaligned<T>(p, vectors, channel, row, sum);
    }
}

} // namespace spira

#endif
