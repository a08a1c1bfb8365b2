// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/group/depthwise.cuh: the kernel of depthwise convolution. Weights are fp32, products
// are fp32 multiply-adds.
//
// A warp first lists the pairs of its outputs, in shared memory: map entries are read once, all
// lanes at a time, and offsets without a source cost nothing more. Then a lane computes 4 channels
// of an output at a time: it requests several rows of the list before it multiplies. Neighbouring
// outputs share most of their rows, which so come from the L1 cache.
#ifndef SPIRA_CONV_GROUP_DEPTHWISE_CUH
#define SPIRA_CONV_GROUP_DEPTHWISE_CUH

#include "../../base/async.cuh"
#include "../../base/launch.cuh"
#include "../../base/wide.cuh"
#include "../../conv_group.h"

namespace spira {

enum {
    group_threads = 256,
    group_warps = group_threads / 32,
    group_piece = 4,   // channels of a lane
    group_flight = 4,  // rows, or map entries, that a lane requests at a time
    group_rows = 8,    // outputs of a warp, at most
    group_pairs = 512, // that the lists of a warp have room for
};

// How a launch is cut.
struct group_cut {
    int pieces;  // of a row
    int rows;    // outputs of a warp
    int offsets; // that a list has room for: all, or as many as fit
};

SPIRA_API group_cut group_cut_of(const conv_group_shape *s) {
    const int offsets = (int)min_of(s->volume, group_pairs);
    return {(int)ceil_div(s->cout, group_piece), (int)min_of(group_rows, group_pairs / offsets),
            offsets};
}

// A source row, and where the weights of its offset begin.
struct alignas(8) group_pair {
    int32_t source, weight;
};

// What a warp lists: `offsets` offsets from `first` on, of `rows` outputs.
struct group_span {
    const int32_t *map; // of the first output
    int rows, first, offsets;
};

// The place of a map entry: the output, and the offset that lane 0 has.
struct group_place {
    int row, k;
};

SPIRA_DEVICE void group_place_next(const group_span &s, group_place &at) {
    at.k += 32;
    if (at.k >= s.offsets) {
        at.k = 0;
        ++at.row;
    }
}

// Lists the pairs of each output, offsets ascending. list [span.rows, pitch]. Returns how many
// output `lane` has.
SPIRA_DEVICE int group_list(const conv_group_args &a, const group_span &span, int pitch,
                            group_pair *list) {
    const int lane = warp_lane(), volume = a.shape.volume;
    const bool mirrored = a.order == conv_weights_of_layer_mirrored;
    group_place ahead = {}, at = {};
    int own = 0, found = 0;
    while (at.row < span.rows) {
        int32_t source[group_flight];
#pragma unroll
        for (int i = 0; i < group_flight; ++i) {
            const int k = ahead.k + lane;
            const bool there = ahead.row < span.rows && k < span.offsets;
            source[i] = there ? span.map[(int64_t)ahead.row * volume + span.first + k] : -1;
            group_place_next(span, ahead);
        }
#pragma unroll
        for (int i = 0; i < group_flight; ++i) {
            const uint32_t all = __ballot_sync(~0u, source[i] >= 0);
            if (source[i] >= 0) {
                const int k = span.first + at.k + lane;
                list[at.row * pitch + found + __popc(all & ((1u << lane) - 1))] = {
                    source[i], (mirrored ? volume - 1 - k : k) * a.shape.cin};
            }
            found += __popc(all);
            own = at.row == lane ? found : own;
            group_place_next(span, at);
            found = at.k ? found : 0;
        }
    }
    return own;
}

// Adds `pairs` products of channels c .. c + 3, in the order of the list.
template <typename E, bool wide>
SPIRA_DEVICE void group_list_add(const conv_group_args &a, const group_pair *list, int pairs, int c,
                                 float (&sum)[group_piece]) {
    const int channels = a.shape.cin;
#pragma unroll 1
    for (int first = 0; first < pairs; first += group_flight) {
        wide_elements<E, group_piece> row[group_flight];
        wide_elements<float, group_piece> weight[group_flight];
#pragma unroll
        for (int i = 0; i < group_flight; ++i) {
            if (first + i < pairs) {
                const group_pair pair = list[first + i];
                wide_read_channels((const E *)a.in + (int64_t)pair.source * channels, channels, c,
                                   wide, row[i]);
                wide_read_channels(a.weight + pair.weight, channels, c, wide, weight[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < group_flight; ++i) {
            if (first + i < pairs) {
#pragma unroll
                for (int e = 0; e < group_piece; ++e) {
                    sum[e] = fmaf(element_to_float(row[i].at[e]), weight[i].at[e], sum[e]);
                }
            }
        }
    }
}

// Finishes 4 channels of an output.
template <typename E, bool wide>
SPIRA_DEVICE void group_store(const conv_group_args &a, int64_t row, int c,
                              const float (&sum)[group_piece]) {
    const int channels = a.shape.cout;
    wide_elements<E, group_piece> v = {};
    if (a.epilogue.residual) {
        wide_read_channels((const E *)a.epilogue.residual + row * channels, channels, c, wide, v);
    }
#pragma unroll
    for (int i = 0; i < group_piece; ++i) {
        const int own = wide || c + i < channels ? c + i : channels - 1;
        const float residual = a.epilogue.residual ? element_to_float(v.at[i]) : 0.0f;
        v.at[i] = element_from_float<E>(conv_group_finish(a.epilogue, sum[i], own, residual));
    }
    wide_write_channels(v, (E *)a.out + row * channels, channels, c, wide);
}

// wide: rows and weights are aligned to 4 elements. Where the lists have no room for all offsets, a
// warp has one output, and lists some offsets at a time.
template <typename E, bool wide>
SPIRA_KERNEL void __launch_bounds__(group_threads, 4)
    group_depthwise_kernel(const __grid_constant__ conv_group_args a, const group_cut cut) {
    extern __shared__ __align__(128) char group_memory[]; // [group_warps, cut.rows, cut.offsets]
    const int32_t outputs = count_clamp(*a.count, a.capacity);
    const int lane = warp_lane(), warp = (int)threadIdx.x / 32, volume = a.shape.volume;
    const int64_t begin = ((int64_t)blockIdx.x * group_warps + warp) * cut.rows;
    if (begin >= outputs) {
        return;
    }
    group_pair *const list = (group_pair *)group_memory + warp * cut.rows * cut.offsets;
    const int rows = (int)min_of(cut.rows, outputs - begin), items = rows * cut.pieces;
    int own = 0;
#pragma unroll 1
    for (int first = 0; first < items; first += 32) {
        const int item = min(first + lane, items - 1), row = item / cut.pieces;
        const int c = (item - row * cut.pieces) * group_piece;
        float sum[group_piece] = {};
#pragma unroll 1
        for (int k = 0; k < volume; k += cut.offsets) {
            if (first == 0 || cut.offsets < volume) {
                const group_span span = {a.map + begin * volume, rows, k,
                                         min(cut.offsets, volume - k)};
                __syncwarp(); // the lists have been read
                own = group_list(a, span, cut.offsets, list);
                __syncwarp();
            }
            const int pairs = __shfl_sync(~0u, own, row);
            group_list_add<E, wide>(a, list + row * cut.offsets, first + lane < items ? pairs : 0,
                                    c, sum);
        }
        if (first + lane < items) {
            group_store<E, wide>(a, begin + row, c, sum);
        }
    }
}

template <typename E>
SPIRA_API status group_depthwise_launch(const conv_group_args *a, cudaStream_t stream) {
    const group_cut cut = group_cut_of(&a->shape);
    const size_t bytes = group_piece * sizeof(E);
    const bool wide = a->shape.cout % group_piece == 0 && wide_aligned(a->in, bytes) &&
                      wide_aligned(a->out, bytes) && wide_aligned(a->epilogue.residual, bytes) &&
                      wide_aligned(a->weight, group_piece * sizeof(float));
    const auto blocks = (unsigned)ceil_div(a->capacity, (int64_t)cut.rows * group_warps);
    const size_t lists = (size_t)(group_warps * cut.rows * cut.offsets) * sizeof(group_pair);
    return kernel_launch(wide ? group_depthwise_kernel<E, true> : group_depthwise_kernel<E, false>,
                         {blocks, group_threads, stream, "conv_group", false, lists}, *a, cut);
}

} // namespace spira

#endif
