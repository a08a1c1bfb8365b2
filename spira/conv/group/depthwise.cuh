// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/depthwise.cuh: the kernel of depthwise convolution. Weights are fp32, products
// are fp32 multiply-adds.
//
// A warp first lists the pairs of its outputs, in shared memory: map entries are read once, all
// lanes at a time, and offsets without a source cost nothing more. Then a lane computes 4 channels
// of an output: it requests 4 rows of the list before it multiplies. Neighbouring outputs share
// most of their rows, which so come from the L1 cache.
#ifndef SPIRA_CONV_GROUP_DEPTHWISE_CUH
#define SPIRA_CONV_GROUP_DEPTHWISE_CUH

#include "../../base/launch.cuh"
#include "../../conv_group.h"
#include "../epilogue.cuh"

namespace spira {

enum {
    group_threads = 256,
    group_warps = group_threads / 32,
    group_piece = 4,   // channels
    group_rows = 8,    // outputs of a warp, at most
    group_pairs = 512, // that the lists of a warp have room for
    group_starts = group_rows + 1,
};

// Divides by multiplication: quotients up to 127, dividend * divisor below 2^24.
enum { group_divide_log = 24 };

SPIRA_API uint32_t group_divider(int divisor) {
    return (1u << group_divide_log) / (uint32_t)divisor + 1;
}

SPIRA_DEVICE int group_divide(int a, uint32_t divider) {
    return (int)((uint32_t)a * divider >> group_divide_log);
}

// How a launch is cut.
struct group_cut {
    int pieces;  // of a row
    int rows;    // outputs of a warp
    int offsets; // of an output, that the lists have room for: all, or as many as fit
    uint32_t by_pieces, by_offsets; // group_divider
};

SPIRA_API group_cut group_cut_of(const conv_group_shape *s) {
    const int offsets = (int)min_of(s->volume, group_pairs);
    const int pieces = (int)ceil_div(s->cout, group_piece);
    const int most = pieces > 32 ? group_rows / 2 : group_rows; // rows of the L1 cache are longer
    return {pieces, (int)min_of(most, group_pairs / offsets), offsets, group_divider(pieces),
            group_divider(offsets)};
}

// A source row, and where the weights of its offset begin.
struct alignas(8) group_pair {
    int32_t source, weight;
};

// The pairs of a warp's outputs, in shared memory.
struct group_lists {
    group_pair *pair; // [cut.rows * cut.offsets]
    int32_t *start;   // [group_starts] of each output, and the end
};

// Lists the pairs of `rows` outputs, offsets ascending: of all offsets, or of one output from
// offset `first` on. map: of the first output.
SPIRA_DEVICE void group_list(const conv_group_args &a, const group_cut &cut, const int32_t *map,
                             int rows, int first, const group_lists &lists) {
    enum { flight = 4 };
    const int lane = warp_lane(), volume = a.shape.volume, channels = a.shape.cin;
    const bool mirrored = a.order == conv_weights_of_layer_mirrored;
    const int weight = (mirrored ? volume - 1 - first : first) * channels;
    const int step = mirrored ? -channels : channels;
    const int entries = rows * min(cut.offsets, volume - first);
    const uint32_t below = (1u << lane) - 1;
    map += first + lane;
    int found = 0;
#pragma unroll 1
    for (int begin = lane; begin - lane < entries; begin += 32 * flight, map += 32 * flight) {
        int32_t source[flight];
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            source[i] = begin + 32 * i < entries ? map[32 * i] : -1;
        }
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            const int at = begin + 32 * i, row = group_divide(at, cut.by_offsets);
            const int k = at - row * cut.offsets;
            const uint32_t all = __ballot_sync(~0u, source[i] >= 0);
            const int own = found + __popc(all & below);
            if (source[i] >= 0) {
                lists.pair[own] = {source[i], weight + k * step};
            }
            if (k == 0 && at < entries) {
                lists.start[row] = own;
            }
            found += __popc(all);
        }
    }
    if (lane == 0) {
        lists.start[rows] = found;
    }
}

// Adds the products of two times four numbers.
template <typename A, typename B>
SPIRA_DEVICE void group_quad_add(const conv_quad<A> &a, const conv_quad<B> &b, float4 &sum) {
    sum.x = fmaf(element_to_float(a.element[0]), element_to_float(b.element[0]), sum.x);
    sum.y = fmaf(element_to_float(a.element[1]), element_to_float(b.element[1]), sum.y);
    sum.z = fmaf(element_to_float(a.element[2]), element_to_float(b.element[2]), sum.z);
    sum.w = fmaf(element_to_float(a.element[3]), element_to_float(b.element[3]), sum.w);
}

// Keeps the loads before it together.
SPIRA_DEVICE void group_fence() {
#ifdef __CUDA_ARCH__
    asm volatile("" ::: "memory");
#endif
}

// Keeps a pointer in registers: compilers would compute it anew for each row.
template <typename T>
SPIRA_DEVICE T *group_keep(T *pointer) {
#ifdef __CUDA_ARCH__
    asm("" : "+l"(pointer));
    __builtin_assume(__isGlobal(pointer)); // it would no longer be known
#endif
    return pointer;
}

// Row `row` of an array, of `pitch` bytes each.
template <typename E>
SPIRA_DEVICE const E *group_row(const E *base, int32_t row, uint32_t pitch) {
    return (const E *)((const char *)base + conv_multiply_wide((uint32_t)row, pitch));
}

// Adds the products of channels c .. c + 3, in the order of the list.
template <typename E, bool wide>
SPIRA_DEVICE void group_list_add(const conv_group_args &a, const group_pair *list, int pairs, int c,
                                 float4 &sum) {
    enum { flight = wide ? 4 : 1 };
    const int left = a.shape.cin - c;
    uint32_t pitch = (uint32_t)a.shape.cin * (uint32_t)sizeof(E);
#ifdef __CUDA_ARCH__
    asm("" : "+r"(pitch)); // as group_keep
#endif
    const E *const in = group_keep((const E *)a.in + c);
    const float *const weights = group_keep(a.weight + c);
#pragma unroll 1
    for (; pairs > 0; pairs -= flight, list += flight) {
        conv_quad<E> row[flight];
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i < pairs) {
                row[i] = conv_quad_load<E, wide>(group_row(in, list[i].source, pitch), left);
            }
        }
        group_fence();
#pragma unroll
        for (int i = 0; i < flight; ++i) {
            if (i < pairs) {
                const conv_quad<float> weight =
                    conv_quad_load<float, wide>(weights + (uint32_t)list[i].weight, left);
                group_quad_add(row[i], weight, sum);
            }
        }
    }
}

// What conv_output_store reads. wide: rows of the outputs are aligned to 4 elements.
SPIRA_DEVICE conv_params group_output_params(const conv_group_args &a, bool wide) {
    conv_params p = {};
    p.epilogue = a.epilogue;
    p.residual = a.epilogue.residual;
    p.out = a.out;
    p.cout = p.pitch_out = a.shape.cout;
    p.wide_out = wide;
    return p;
}

// Finishes channels c .. c + 3 of an output. The usual epilogue is short: layers of few pairs would
// wait for it.
template <typename E, bool wide>
SPIRA_DEVICE void group_store(const conv_group_args &a, int row, int c, float4 sum) {
    const conv_params p = group_output_params(a, wide);
    const conv_epilogue &e = a.epilogue;
    conv_output out = {{make_float4(1, 1, 1, 1), make_float4(0, 0, 0, 0)}, c};
    if (e.bias || e.scale || e.shift) {
        out = conv_output_of(p, c);
    }
    if (wide && !e.residual && activation_is_bound(e.act)) {
        const conv_quad<E> none = {};
        E *const to = (E *)group_row((const E *)a.out + c, row, (uint32_t)p.cout * sizeof(E));
        conv_quad_store<E, wide>(to, 4, conv_finish<E, true>(p, out.affine, sum, false, none));
    } else {
        conv_output_store<E>(p, out, row, sum);
    }
}

// Bytes of the lists of a warp.
SPIRA_BOTH int group_lists_bytes(const group_cut &cut) {
    return cut.rows * cut.offsets * (int)sizeof(group_pair) +
           (int)round_up(group_starts * sizeof(int32_t), alignof(group_pair));
}

// wide: rows and weights are aligned to 4 elements. Where the lists have no room for all offsets, a
// warp has one output, and lists some offsets at a time.
template <typename E, bool wide>
SPIRA_KERNEL void __launch_bounds__(group_threads, std::is_same_v<E, __half> ? 4 : 3)
    group_depthwise_kernel(const __grid_constant__ conv_group_args a, const group_cut cut) {
    extern __shared__ __align__(128) char group_memory[]; // [group_warps, group_lists_bytes]
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32, volume = a.shape.volume;
    const int32_t outputs = count_clamp(*a.count, a.capacity);
    const int64_t all = ((int64_t)blockIdx.x * group_warps + warp) * cut.rows;
    if (all >= outputs) {
        return;
    }
    const int begin = (int)all, rows = min(cut.rows, outputs - begin), items = rows * cut.pieces;
    group_pair *const pair = (group_pair *)(group_memory + warp * group_lists_bytes(cut));
    const group_lists lists = {pair, (int32_t *)(pair + cut.rows * cut.offsets)};
    const int32_t *const map = a.map + (int64_t)begin * volume;
    const bool once = cut.offsets == volume;
    if (once) {
        group_list(a, cut, map, rows, 0, lists);
        __syncwarp();
    }
#pragma unroll 1
    for (int first = 0; first < items; first += 32) {
        const int item = first + lane, row = min(group_divide(item, cut.by_pieces), rows - 1);
        const int c = (item - row * cut.pieces) * group_piece;
        float4 sum = make_float4(0, 0, 0, 0);
        int k = 0;
        do {
            if (!once) {
                __syncwarp(); // the lists have been read
                group_list(a, cut, map, rows, k, lists);
                __syncwarp();
            }
            const int start = lists.start[row], pairs = lists.start[row + 1] - start;
            group_list_add<E, wide>(a, pair + start, item < items ? pairs : 0, c, sum);
            k += cut.offsets;
        } while (k < volume);
        if (item < items) {
            group_store<E, wide>(a, begin + row, c, sum);
        }
    }
}

template <typename E>
SPIRA_API status group_depthwise_launch(const conv_group_args *a, cudaStream_t stream) {
    const size_t bytes = group_piece * sizeof(E);
    const bool wide = a->shape.cout % group_piece == 0 && wide_aligned(a->in, bytes) &&
                      wide_aligned(a->out, bytes) && wide_aligned(a->epilogue.residual, bytes) &&
                      wide_aligned(a->weight, group_piece * sizeof(float));
    const group_cut cut = group_cut_of(&a->shape);
    const auto blocks = (unsigned)ceil_div(a->capacity, (int64_t)cut.rows * group_warps);
    const auto lists = (size_t)(group_warps * group_lists_bytes(cut));
    return kernel_launch(wide ? group_depthwise_kernel<E, true> : group_depthwise_kernel<E, false>,
                         {blocks, group_threads, stream, "conv_group", false, lists}, *a, cut);
}

} // namespace spira

#endif
