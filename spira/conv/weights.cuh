// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/weights.cuh: the two orders of packed weights that several kernels read: operands of
// matrix instructions, and plain floats. narrow and hopper have orders of their own.
#ifndef SPIRA_CONV_WEIGHTS_CUH
#define SPIRA_CONV_WEIGHTS_CUH

#include "../base/launch.cuh"
#include "params.cuh"

namespace spira {

// ---- packing ------------------------------------------------------------------------------------

// The parameters of the kernels that pack weights.
struct conv_pack_params {
    conv_shape shape;
    int chunk_bytes;        // of a row; conv/hopper.cuh
    int rows;               // see conv_weight_index
    int pitch;              // weights from an input channel to the next, in their own order
    const float *weight;    //
    int64_t first;          // number of weight[0] among all that the caller has
    int64_t total;          // pieces: one for each thread
    void *packed;           //
    device_status *trouble; // or null
    conv_weights_tag *tag;  // or null: where `own` is written
    conv_weights_tag own;   // it
    const float *step;      // of int8 layers, as the scales: see conv_weights
    float scale_in, scale_in2;
    const float *scale; // of int8 layers, or null: see conv_weights
};

// The first thread writes the tag.
SPIRA_DEVICE void conv_pack_tag(const conv_pack_params &p, int64_t i) {
    if (i == 0 && p.tag) {
        *p.tag = p.own;
    }
}

struct conv_pack_place {
    int in, out; // channels
};

// The weights of an offset and of input channels of the first or the `second` source, rounded to
// the format: those that place(i) says, 0 where there is none. See conv_weights. All are loaded
// before one is looked at: a branch behind each would make each wait for the one before.
template <conv_weights_order order, typename E, int n, typename F>
SPIRA_DEVICE void conv_pack_weights(const conv_pack_params &p, int64_t offset, bool second,
                                    const F &place, E (&to)[n]) {
    const conv_shape &s = p.shape;
    conv_shape whole = s;
    whole.cout = p.pitch;
    const auto number = [&](int i) {
        const conv_pack_place at = place(i);
        return conv_weight_index<order>(&whole, p.rows, offset, (second ? s.cin : 0) + at.in,
                                        at.out);
    };
    float w[n], step[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
        const conv_pack_place at = place(i);
        const bool inside = at.in < (second ? s.cin2 : s.cin) && at.out < s.cout;
        w[i] = inside ? p.weight[number(i)] : 0.0f;
        w[i] *= sizeof(E) == 1 && inside && p.scale ? p.scale[at.out] : 1.0f;
        step[i] = sizeof(E) == 1 && inside ? p.step[at.out] : 1.0f;
    }
    uint32_t bad = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
        bool good;
        if constexpr (sizeof(E) == 1) {
            to[i] = conv_i8_weight(w[i], second ? p.scale_in2 : p.scale_in, step[i]);
            good = float_is_finite(w[i]) && step[i] > 0 && float_is_finite(step[i]);
        } else {
            const bool half = sizeof(E) == 2;
            to[i] = element_from_float<E>(half ? w[i] : element_operand(p.shape.type, w[i]));
            good = float_is_finite(element_to_float(to[i]));
            const float most = copysignf(numeric_largest(p.shape.type), w[i]);
            to[i] = good ? to[i] : element_from_float<E>(most);
        }
        bad |= good ? 0 : 1u << i;
    }
    for (; bad && p.trouble; bad &= bad - 1) {
        const int64_t first = p.first + number(__ffs((int)bad) - 1);
        device_status_raise(p.trouble, device_flag_weights, (uint32_t)min_of(first, UINT32_MAX));
    }
}

template <typename E, conv_weights_order order>
SPIRA_DEVICE E conv_pack_weight(const conv_pack_params &p, int64_t offset, bool second, int in,
                                int out) {
    E to[1];
    const auto place = [=](int) { return conv_pack_place{in, out}; };
    conv_pack_weights<order>(p, offset, second, place, to);
    return to[0];
}

// ---- operands of mma.sync: portable/, pairs/ ----------------------------------------------------

enum { conv_fragment_bytes = 512 }; // a warp's bytes: weights of a chunk and a channel group

// Channel groups of a slice, which is what one warp computes.
SPIRA_BOTH int conv_slice_channel_groups(int cout) {
    return cout <= 16 ? 2 : 4;
}

SPIRA_BOTH int conv_channel_slices(int cout) {
    return (int)ceil_div(cout, 8 * conv_slice_channel_groups(cout));
}

SPIRA_BOTH int conv_channel_groups(int cout) {
    return conv_channel_slices(cout) * conv_slice_channel_groups(cout);
}

// Packed weights [volume, chunks, conv_channel_groups, 32 lanes] of 16 bytes: the lane's operand of
// two mma_steps, with neighbouring input channels. Channels past the last are zero. Returns the
// number of lanes' operands.
SPIRA_API int64_t conv_mma_weights(const conv_shape *s) {
    return (int64_t)s->volume * conv_channel_groups(s->cout) * conv_shape_chunks(s) * 32;
}

// The indices of operand `number` of packed weights [volume, chunks, channel groups, 32 lanes].
struct conv_packed_place {
    int64_t offset;
    int chunk, group, lane;
};

SPIRA_DEVICE conv_packed_place conv_packed_place_of(int64_t number, int chunks,
                                                    int channel_groups) {
    return {number / 32 / channel_groups / chunks, (int)(number / 32 / channel_groups % chunks),
            (int)(number / 32 % channel_groups), (int)(number % 32)};
}

template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    conv_mma_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    enum { per_lane = conv_lane_bytes / sizeof(E) };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    pdl_wait_alone();
    conv_pack_tag(p, i);
    if (i >= p.total) {
        return;
    }
    const conv_packed_place at =
        conv_packed_place_of(i, conv_shape_chunks(&s), conv_channel_groups(s.cout));
    const int chunks1 = conv_chunks(s.cin, s.type);
    bool second = at.chunk >= chunks1;
    int first = ((second ? at.chunk - chunks1 : at.chunk) * 4 + at.lane % 4) * per_lane;
    int out = at.group * 8 + at.lane / 4;
    conv_lane<E> to;
    const auto place = [=](int e) { return conv_pack_place{first + e, out}; };
    conv_pack_weights<order>(p, at.offset, second, place, to.element);
    ((uint4 *)p.packed)[i] = bytes_as<uint4>(to);
}

// ---- plain floats: exact.cuh, portable/ in exact fp32, pairs/ -----------------------------------
// [volume, chunks, blocks of 32 output channels, 16, 32] floats, of int8 layers int32: a chunk is
// 16 input channels of one source. So a warp reads an input channel's weights of 32 neighbouring
// output channels as 128 contiguous bytes. They are rounded to the format. Channels past the last
// are zero.

enum {
    conv_exact_in = 16,  // input channels of a chunk
    conv_exact_out = 32, // output channels of a block
    conv_exact_block = conv_exact_in * conv_exact_out,
};

SPIRA_BOTH int conv_exact_chunks(int channels) {
    return (channels + conv_exact_in - 1) / conv_exact_in;
}

// Floats of a chunk: its weights of all output channels.
SPIRA_BOTH int conv_exact_chunk(int cout) {
    return (cout + conv_exact_out - 1) / conv_exact_out * conv_exact_block;
}

SPIRA_API int64_t conv_exact_weights(const conv_shape *s) {
    return (int64_t)s->volume * (conv_exact_chunks(s->cin) + conv_exact_chunks(s->cin2)) *
           conv_exact_chunk(s->cout);
}

// total: conv_exact_weights; i8: of an int8 layer
template <bool i8 = false, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    conv_exact_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    pdl_wait_alone();
    conv_pack_tag(p, i);
    if (i >= p.total) {
        return;
    }
    const int chunks1 = conv_exact_chunks(s.cin), chunks = chunks1 + conv_exact_chunks(s.cin2);
    const int size = conv_exact_chunk(s.cout), at = (int)(i % size);
    const int chunk = (int)(i / size % chunks);
    const bool second = chunk >= chunks1;
    const int in =
        (second ? chunk - chunks1 : chunk) * conv_exact_in + at % conv_exact_block / conv_exact_out;
    const int out = at / conv_exact_block * conv_exact_out + at % conv_exact_out;
    const int64_t offset = i / size / chunks;
    if constexpr (i8) {
        ((int32_t *)p.packed)[i] = conv_pack_weight<int8_t, order>(p, offset, second, in, out);
    } else {
        ((float *)p.packed)[i] = conv_pack_weight<float, order>(p, offset, second, in, out);
    }
}

} // namespace spira

#endif
