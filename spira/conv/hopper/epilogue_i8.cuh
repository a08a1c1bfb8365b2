// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/epilogue_i8.cuh: from the integer sums of int8 layers to outputs of any format.
//
// Weights are packed so that a lane has, of each block of 32 channels, 8 neighbouring ones of two
// rows (hopper_channel_of): it stores 8 or 16 bytes at a time, without an exchange between lanes.
// The paths are those of epilogue.cuh. The plain one is for outputs of int8, fp16 and bf16, and
// residuals of int8.
#ifndef SPIRA_CONV_HOPPER_EPILOGUE_I8_CUH
#define SPIRA_CONV_HOPPER_EPILOGUE_I8_CUH

#include "residual.cuh"

namespace spira {

// Channels of a block that a lane has, of each of two rows.
enum { hopper_lane_channels = 8 };

// The lane's first channel of a block.
SPIRA_DEVICE int hopper_lane_channel() {
    return warp_lane() % 4 * hopper_lane_channels;
}

// The sums of a lane's channels of a block, both rows, with scale and shift. scale: of the lane's
// first channel. Two channels at a time: registers.
SPIRA_DEVICE void hopper_i8_affine(const float *scale, const int32_t *sum,
                                   float (&v)[2][hopper_lane_channels]) {
#pragma unroll
    for (int c = 0; c < hopper_lane_channels; c += 2) {
        const float2 by = *(const float2 *)(scale + c);
        const float2 shift = *(const float2 *)(scale + hopper_columns_most + c);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int32_t *const own = sum + 2 * c + 2 * h;
            v[h][c] = fmaf((float)own[0], by.x, shift.x);
            v[h][c + 1] = fmaf((float)own[1], by.y, shift.y);
        }
    }
}

// Adds a residual of int8.
SPIRA_DEVICE void hopper_i8_add(float scale, uint2 residual, float (&v)[hopper_lane_channels]) {
    const auto e = bytes_as<wide_elements<int8_t, hopper_lane_channels>>(residual);
#pragma unroll
    for (int i = 0; i < hopper_lane_channels; ++i) {
        v[i] = fmaf((float)e.at[i], scale, v[i]);
    }
}

// Rounds to 16 bits.
template <typename E>
SPIRA_DEVICE uint4 hopper_i8_to_half(const float (&v)[hopper_lane_channels]) {
    wide_elements<E, hopper_lane_channels> to;
#pragma unroll
    for (int i = 0; i < hopper_lane_channels; ++i) {
        to.at[i] = element_from_float<E>(v[i]);
    }
    return bytes_as<uint4>(to);
}

// Stores 8 neighbouring channels of an output, in int8, fp16 or bf16. at: the element.
SPIRA_DEVICE void hopper_i8_store(const conv_params &p, int64_t at,
                                  const float (&v)[hopper_lane_channels]) {
    const conv_quantisation &q = p.quantisation;
    if (q.out_type == numeric_i8) {
        *(uint2 *)((char *)p.out + at) =
            make_uint2(conv_i8_four(make_float4(v[0], v[1], v[2], v[3]), q.out_inverse),
                       conv_i8_four(make_float4(v[4], v[5], v[6], v[7]), q.out_inverse));
    } else if (q.out_type == numeric_f16) {
        *(uint4 *)((char *)p.out + 2 * at) = hopper_i8_to_half<__half>(v);
    } else {
        *(uint4 *)((char *)p.out + 2 * at) = hopper_i8_to_half<__nv_bfloat16>(v);
    }
}

// Finishes two rows of a lane. The residual may be the array of the outputs: of each batch it is
// loaded before the batch's outputs are stored.
//
// scale     of the first channel, then of the others (hopper_shared.scale); channel: the first
// residual  with `adds`: of the first T::prefetch blocks it is loaded already
template <typename T, bool adds>
SPIRA_DEVICE void hopper_i8_finish_rows(const conv_params &p, const float *scale, int channel,
                                        const int (&row)[2], uint2 (&residual)[T::batch][2],
                                        const int32_t (&sum)[T::finished / 2]) {
    enum { blocks = T::finished / hopper_block };
    const int own = hopper_lane_channel();
    const float bound = conv_bound(p.epilogue);
#pragma unroll
    for (int first = 0; first < blocks; first += T::batch) {
        if (adds) {
            hopper_residual_load<T, false>(p, channel + own, row, first, residual);
        }
#pragma unroll
        for (int i = 0; i < T::batch && first + i < blocks; ++i) {
            const int j = first + i;
            float v[2][hopper_lane_channels];
            hopper_i8_affine(scale + hopper_block * j + own, sum + 16 * j, v);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                if (adds) {
                    hopper_i8_add(p.quantisation.residual_scale, residual[i][h], v[h]);
                }
#pragma unroll
                for (float &f : v[h]) {
                    f = conv_max_nan(f, bound);
                }
                if (row[h] >= 0 && channel + own + hopper_block * j < p.cout) {
                    const int64_t at = (int64_t)row[h] * p.cout + channel + own; // again: registers
                    hopper_i8_store(p, at + hopper_block * j, v[h]);
                }
            }
        }
    }
}

template <typename T>
SPIRA_DEVICE void hopper_i8_finish_plain(const conv_params &p, const float *scale, int channel,
                                         const int (&row)[2], uint2 (&residual)[T::batch][2],
                                         const int32_t (&sum)[T::finished / 2]) {
    if (!T::shortcut && p.residual) {
        hopper_i8_finish_rows<T, true>(p, scale, channel, row, residual, sum);
    } else {
        hopper_i8_finish_rows<T, false>(p, scale, channel, row, residual, sum);
    }
}

// Whether the plain path has the layer's formats, and rows are aligned to 8 elements.
SPIRA_BOTH bool hopper_i8_is_plain(const conv_params &p) {
    const conv_quantisation &q = p.quantisation;
    const int out = numeric_size(q.out_type);
    return out <= 2 && (!p.residual || q.residual_type == numeric_i8) && p.cout % 8 == 0 &&
           (uintptr_t)p.out % (uintptr_t)(8 * out) == 0 && (uintptr_t)p.residual % 8 == 0;
}

} // namespace spira

#endif
