// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/tensor.cuh: grouped convolution by matrix instructions: groups whose channels
// are a multiple of 16 on both sides, in fp16 and bf16.
//
// A warp computes 64 outputs by 16 or 32 channels of a group, a thread block 512. The product is
// transposed, as in portable/: the instruction's rows are output channels, its columns are outputs.
// A lane reads its operand of the features from global memory; the weights of some offsets at a
// time are rounded and arranged in shared memory. Fragments of 8 outputs without an offset are
// skipped.
#ifndef SPIRA_CONV_GROUP_TENSOR_CUH
#define SPIRA_CONV_GROUP_TENSOR_CUH

#include "../../base/mma.cuh"
#include "kernel.cuh"

namespace spira {

enum {
    group_fragment = 8, // outputs
    group_fragments = 8,
    group_mma_rows = group_fragment * group_fragments,  // of a warp
    group_mma_tile = (int)group_warps * group_mma_rows, // of a thread block
    group_mma_span = 32,                                // offsets whose map is in shared memory
    group_mma_stage = 16384,                            // bytes of weights
};

// wide: blocks of 16 channels, on both sides.
template <int wide>
struct group_mma_shared {
    enum { offsets = group_mma_stage / (512 * wide * wide) };
    uint4 weight[offsets][wide][wide][32];                        // of input and output channels
    int32_t map[group_warps][group_mma_rows][group_mma_span + 1]; // odd pitch: no bank conflicts
};

// Where a weight is: of an offset, and of channels of the thread block.
struct group_weights {
    const float *first;
    int64_t offset;
    int in, out;
};

// in: the first input channel, of its group; c: the first output channel.
SPIRA_DEVICE group_weights group_weights_of(const conv_group_args &a, int in, int c) {
    const conv_group_shape &s = a.shape;
    const int ins = s.cin / s.groups, outs = s.cout / s.groups;
    if (a.order == conv_weights_own) {
        return {a.weight + (int64_t)in * s.cout + c, (int64_t)ins * s.cout, s.cout, 1};
    }
    const int64_t offset = (int64_t)outs * s.cin;
    const float *const first = a.weight + (int64_t)(c % outs) * s.cin + c / outs * ins + in;
    return a.order == conv_weights_of_layer
               ? group_weights{first, offset, 1, s.cin}
               : group_weights{first + (s.volume - 1) * offset, -offset, 1, s.cin};
}

// The input channel of an operand: word `high` of block j, element e. A lane's words of a row are
// neighbours in memory.
template <int wide>
SPIRA_DEVICE int group_mma_channel(int j, int high, int e) {
    return warp_lane() % 4 * (4 * wide) + 4 * j + 2 * high + e;
}

// Rounds the weights of offsets first .. first + count - 1. Output channels 2 wide g .. of a lane
// are neighbours, too.
template <typename E, int wide>
SPIRA_DEVICE void group_mma_weights(const group_weights &w, numeric type, int first, int count,
                                    group_mma_shared<wide> &shared) {
    const float most = numeric_largest(type);
    const int lane = warp_lane(), g = lane / 4;
    for (int at = (int)threadIdx.x / 32; at < count * wide * wide; at += group_warps) {
        const int k = at / (wide * wide), j = at / wide % wide, band = at % wide;
        const float *const from = w.first + (first + k) * w.offset;
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int out = 2 * wide * g + 2 * band + i % 2;
            conv_pair<E> pair;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int in = group_mma_channel<wide>(j, i / 2, e);
                const float v = from[(int64_t)in * w.in + (int64_t)out * w.out];
                pair.element[e] = element_from_float<E>(fminf(fmaxf(v, -most), most));
            }
            word[i] = bytes_as<uint32_t>(pair);
        }
        shared.weight[k][j][band][lane] = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

// A warp's outputs and channels.
struct group_mma_place {
    int row, rows, c; // the first output, how many are there, the first channel
};

template <int wide>
SPIRA_DEVICE group_mma_place group_mma_place_of(const conv_group_args &a) {
    const int slices = a.shape.cout / (16 * wide), warp = (int)threadIdx.x / 32;
    const int32_t outputs = count_clamp(*a.count, a.capacity);
    const int64_t tile = (int64_t)(blockIdx.x / slices) * group_mma_tile;
    const int row = (int)min_of(tile + warp * group_mma_rows, outputs);
    return {row, min(outputs - row, (int)group_mma_rows), (int)(blockIdx.x % slices) * 16 * wide};
}

// Reads the map of the warp's outputs, of offsets from `first` on.
SPIRA_DEVICE void group_mma_map(const conv_group_args &a, const group_mma_place &own, int first,
                                int32_t (&map)[group_mma_rows][group_mma_span + 1]) {
    const int lane = warp_lane(), volume = a.shape.volume;
    const int32_t *const from = a.map + (int64_t)own.row * volume + first + lane;
#pragma unroll 8
    for (int row = 0; row < group_mma_rows; ++row) {
        const bool there = row < own.rows && first + lane < volume;
        map[row][lane] = there ? from[(int64_t)row * volume] : -1;
    }
}

// A lane's channels of a row.
template <int wide>
struct group_words {
    uint32_t at[2 * wide];
};

template <typename E, int wide>
SPIRA_DEVICE group_words<wide> group_words_read(const E *from) {
    if constexpr (wide == 1) {
        const uint2 v = *(const uint2 *)from;
        return {v.x, v.y};
    } else {
        const uint4 v = *(const uint4 *)from;
        return {v.x, v.y, v.z, v.w};
    }
}

// Adds the products of an offset, whose weights are `weight`. low, high: the sources of outputs
// `lane` and 32 + `lane` of the warp; in: the lane's channels of row 0.
template <typename E, int wide>
SPIRA_DEVICE void group_mma_add(const E *in, uint32_t pitch, int32_t low, int32_t high,
                                const uint4 (&weight)[wide][wide][32],
                                float (&sum)[group_fragments][wide][4]) {
    const uint32_t has[2] = {__ballot_sync(~0u, low >= 0), __ballot_sync(~0u, high >= 0)};
    if (!(has[0] | has[1])) {
        return;
    }
    const int lane = warp_lane();
    group_words<wide> row[group_fragments];
#pragma unroll
    for (int f = 0; f < group_fragments; ++f) {
        const int32_t source = __shfl_sync(~0u, f < 4 ? low : high, f % 4 * 8 + lane / 4);
        row[f] = {};
        if (source >= 0) {
            row[f] = group_words_read<E, wide>(group_row(in, source, pitch));
        }
    }
    uint4 own[wide][wide];
#pragma unroll
    for (int j = 0; j < wide; ++j) {
#pragma unroll
        for (int band = 0; band < wide; ++band) {
            own[j][band] = weight[j][band][lane];
        }
    }
#pragma unroll
    for (int f = 0; f < group_fragments; ++f) {
        if (has[f / 4] >> f % 4 * 8 & 0xff) {
#pragma unroll
            for (int j = 0; j < wide; ++j) {
                mma_steps<E>(sum[f], own[j], row[f].at[2 * j], row[f].at[2 * j + 1]);
            }
        }
    }
}

// Finishes the warp's outputs: in a loop in which the sums move down through their registers, since
// eight copies of the epilogue would take ten times as long to compile.
template <typename E, int wide>
SPIRA_DEVICE void group_mma_store(const conv_group_args &a, bool wide_out,
                                  const group_mma_place &own,
                                  float (&sum)[group_fragments][wide][4]) {
    const int lane = warp_lane(), g = lane / 4, odd = g % 2;
    const conv_params p = group_output_params(a, wide_out);
#pragma unroll 1
    for (int row = lane % 4 * 2; row < group_mma_rows; row += group_fragment) {
        const conv_output out = conv_output_of(p, own.c + g / (2 / wide) * 4);
        if constexpr (wide == 1) { // lanes of two channels exchange: each has four of one output
            const float(&s)[4] = sum[0][0];
            const float x = __shfl_xor_sync(~0u, odd ? s[0] : s[1], 4);
            const float y = __shfl_xor_sync(~0u, odd ? s[2] : s[3], 4);
            const float4 four = odd ? make_float4(x, y, s[1], s[3]) : make_float4(s[0], s[2], x, y);
            if (row + odd < own.rows) {
                conv_output_store<E>(p, out, own.row + row + odd, four);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (row + i < own.rows) {
                    conv_output_store<E>(p, out, own.row + row + i,
                                         make_float4(sum[0][0][i], sum[0][0][2 + i], sum[0][1][i],
                                                     sum[0][1][2 + i]));
                }
            }
        }
#pragma unroll
        for (int e = 0; e < (group_fragments - 1) * wide * 4; ++e) {
            const int f = e / (wide * 4), band = e / 4 % wide;
            sum[f][band][e % 4] = sum[f + 1][band][e % 4];
        }
    }
}

// Thread blocks: slices of 16 wide output channels, of 512 outputs after another.
template <typename E, int wide>
SPIRA_KERNEL void __launch_bounds__(group_threads, 2)
    group_mma_kernel(const __grid_constant__ conv_group_args a, bool wide_out) {
#if SPIRA_MMA
    extern __shared__ __align__(128) char group_memory[];
    enum { channels = 16 * wide };
    auto &shared = *(group_mma_shared<wide> *)group_memory;
    const conv_group_shape &s = a.shape;
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32;
    const int slices = s.cout / channels, c = (int)(blockIdx.x % slices) * channels;
    if ((int64_t)(blockIdx.x / slices) * group_mma_tile >= count_clamp(*a.count, a.capacity)) {
        return;
    }
    const int ins = s.cin / s.groups, first = c / (s.cout / s.groups) * ins;
    float sum[group_fragments][wide][4] = {};
#pragma unroll 1
    for (int i = 0; i < ins; i += channels) {
        const E *const in = (const E *)a.in + first + i + group_mma_channel<wide>(0, 0, 0);
        const group_weights weights = group_weights_of(a, i, c);
#pragma unroll 1
        for (int k = 0; k < s.volume; k += group_mma_shared<wide>::offsets) {
            const int count = min((int)group_mma_shared<wide>::offsets, s.volume - k);
            __syncthreads(); // the weights before have been read
            if (k % group_mma_span == 0 && (i == 0 || s.volume > group_mma_span)) {
                group_mma_map(a, group_mma_place_of<wide>(a), k, shared.map[warp]);
            }
            group_mma_weights<E, wide>(weights, s.type, k, count, shared);
            __syncthreads();
#pragma unroll 1
            for (int at = 0; at < count; ++at) {
                const int column = (k + at) % group_mma_span;
                group_mma_add<E, wide>(in, (uint32_t)s.cin * (uint32_t)sizeof(E),
                                       shared.map[warp][lane][column],
                                       shared.map[warp][lane + 32][column], shared.weight[at], sum);
            }
        }
    }
    group_mma_store<E, wide>(a, wide_out, group_mma_place_of<wide>(a), sum);
#else // no matrix instructions in this code: the same outputs, from weights that are not rounded
    const int slices = a.shape.cout / (16 * wide), slice = (int)(blockIdx.x % slices);
    for (int at = (int)threadIdx.x; at < group_mma_tile * 16 * wide; at += group_threads) {
        group_output<E>(a, (int64_t)(blockIdx.x / slices) * group_mma_tile + at / (16 * wide),
                        slice * 16 * wide + at % (16 * wide));
    }
#endif
}

template <typename E, int wide>
SPIRA_API status group_mma_launch(const conv_group_args *a, cudaStream_t stream) {
    const int bytes = (int)sizeof(group_mma_shared<wide>);
    const int64_t tiles = ceil_div(a->capacity, group_mma_tile);
    const int64_t blocks = max_of(tiles, 1) * (a->shape.cout / (16 * wide));
    const bool wide_out =
        wide_aligned(a->out, 4 * sizeof(E)) && wide_aligned(a->epilogue.residual, 4 * sizeof(E));
    auto kernel = group_mma_kernel<E, wide>;
    SPIRA_TRY(kernel_shared_allow(kernel, bytes, "conv_group (shared memory)"));
    return kernel_launch(
        kernel, {(unsigned)blocks, group_threads, stream, "conv_group", false, (size_t)bytes}, *a,
        wide_out);
}

} // namespace spira

#endif
