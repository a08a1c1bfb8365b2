// spira/conv/portable/epilogue.cuh: from accumulators to outputs: initial sums, scale and shift,
// residual, activation, one rounding.
//
// A lane finishes four neighbouring channels at a time, of two rows of each fragment; 8 lanes have
// 32 neighbouring channels of a row.
#ifndef SPIRA_CONV_PORTABLE_EPILOGUE_CUH
#define SPIRA_CONV_PORTABLE_EPILOGUE_CUH

#include "multiply.cuh"

namespace spira {

// The lane's output rows; -1: none.
template <typename T>
SPIRA_DEVICE void portable_outputs_load(const conv_tensor_params &p, int outputs,
                                        const portable_header &header, const portable_place &own,
                                        int (&row)[T::fragments][2]) {
    enum { pair_rows = conv_pair_groups * order_rows };
#pragma unroll
    for (int j = 0; j < T::fragments; ++j) {
        const int first = portable_fragment_of<T>(own, j) * portable_fragment;
        const int pair = header.pair[T::pairs > 1 ? first / pair_rows : 0];
        const int place = pair * pair_rows + first % pair_rows + (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            row[j][h] = conv_output_load(p, outputs, place + h);
        }
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

// Finishes `count` fragments of a lane. The residual may be the array of the outputs: it is loaded
// before the outputs are stored.
//
// vectors  scales of the lane's first channels in shared memory; their shifts T::columns behind
template <typename T, int count, bool wide>
SPIRA_DEVICE void portable_finish(const conv_tensor_params &p, const float *vectors, int channel,
                                  const int (*row)[2], const float (*sum)[T::bands][4]) {
    typedef typename T::element E;
    enum { quads = T::bands / 2 };
    const float floor = p.epilogue.act == activation_relu ? 0.0f : -INFINITY;
    const bool leaky = p.epilogue.act == activation_leaky;
    conv_quad<E> residual[count][2][quads];
    if (p.residual) {
#pragma unroll
        for (int i = 0; i < count * T::bands; ++i) {
            const int j = i / T::bands, h = i % 2, q = i % T::bands / 2, first = channel + 32 * q;
            if (row[j][h] >= 0 && first < p.cout) {
                residual[j][h][q] = conv_quad_load<E, wide>(
                    (const E *)p.residual + ((int64_t)row[j][h] * p.cout + first), p.cout - first);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < count * T::bands; ++i) {
        const int q = i / count / 2, j = i / 2 % count, h = i % 2, first = channel + 32 * q;
        if (row[j][h] >= 0 && first < p.cout) {
            const float4 scale = *(const float4 *)(vectors + 32 * q);
            const float4 shift = *(const float4 *)(vectors + T::columns + 32 * q);
            const float4 s = portable_quad<T::bands>(sum[j], q, h);
            float v[4] = {fmaf(s.x, scale.x, shift.x), fmaf(s.y, scale.y, shift.y),
                          fmaf(s.z, scale.z, shift.z), fmaf(s.w, scale.w, shift.w)};
            conv_quad<E> out;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                v[e] += p.residual ? element_to_float(residual[j][h][q].element[e]) : 0.0f;
                out.element[e] =
                    element_from_float<E>(conv_activate(v[e], floor, leaky, p.epilogue.slope));
            }
            conv_quad_store<E, wide>((E *)p.out + ((int64_t)row[j][h] * p.cout + first),
                                     p.cout - first, out);
        }
    }
}

// Finishes a warp's outputs. from: its first channel in the slice; channel: in the layer. Unaligned
// outputs take a compact loop, in which the accumulators move down through their registers.
template <typename T>
SPIRA_DEVICE void portable_store(const conv_tensor_params &p, const float *scale, int from,
                                 int channel, int (&row)[T::fragments][2],
                                 float (&sum)[T::fragments][T::bands][4]) {
    const int own = (int)threadIdx.x % 32 / 4 * 4;
    const float *const vectors = scale + from + own;
    channel += own;
    if (p.sums) {
        portable_sums_add<T>(p, channel, row, sum);
    }
    if (p.wide_out) {
#pragma unroll
        for (int j = 0; j < T::fragments; j += T::batch) {
            portable_finish<T, T::batch, true>(p, vectors, channel, row + j, sum + j);
        }
        return;
    }
#pragma unroll 1
    for (int j = 0; j < T::fragments; ++j) {
        portable_finish<T, 1, false>(p, vectors, channel, row, sum);
#pragma unroll
        for (int i = 0; i + 1 < T::fragments; ++i) {
            row[i][0] = row[i + 1][0];
            row[i][1] = row[i + 1][1];
#pragma unroll
            for (int e = 0; e < T::bands * 4; ++e) {
                sum[i][e / 4][e % 4] = sum[i + 1][e / 4][e % 4];
            }
        }
    }
}

} // namespace spira

#endif
