// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/hopper/residual.cuh: a consumer lane loads the residual of its outputs, in the format
// of the features.
#ifndef SPIRA_CONV_HOPPER_RESIDUAL_CUH
#define SPIRA_CONV_HOPPER_RESIDUAL_CUH

#include "traits.cuh"

namespace spira {

// Byte of a channel of a row, in an array of the outputs' shape.
template <typename E>
SPIRA_DEVICE int64_t hopper_byte_of(const conv_params &p, int row, int channel) {
    return ((int64_t)row * p.pitch_out + channel) * (int)sizeof(E);
}

// Loads 8 bytes of each piece of the residual of two rows of a lane, for the pieces from `first`
// on: those that are loaded ahead of the products (T::prefetch), or the others. A piece is 32 bytes
// of a row. channel: the lane's first.
template <typename T, bool ahead>
SPIRA_DEVICE void hopper_residual_load(const conv_params &p, int channel, const int (&row)[2],
                                       int first, uint2 (&residual)[T::batch][2]) {
    typedef typename T::element E;
    enum { each = T::piece, begin = ahead ? 0 : T::prefetch };
    enum { end = ahead ? T::prefetch : T::finished / each };
#pragma unroll
    for (int i = 0; i < 2 * T::batch; ++i) {
        const int j = first + i / 2, h = i % 2;
        if (j >= begin && j < end) {
            residual[i / 2][h] = make_uint2(0, 0);
            if (row[h] >= 0 && channel + each * j < p.cout) {
                const char *from = (const char *)p.residual + hopper_byte_of<E>(p, row[h], channel);
                residual[i / 2][h] = *(const uint2 *)(from + 32 * j);
            }
        }
    }
}

} // namespace spira

#endif
