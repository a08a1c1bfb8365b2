// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/reduce.cuh: adds the sums that parts have left in slots to the weight gradient.
//
// For each list: the part that it begins in has written the gradient. The later ones have written
// slots, which are added in a fixed order, the same on every run. Lists without pairs become zero.
//
// A thread has 4 elements of a tile (grad_fragment). With many parts, groups of threads share the
// slots of an element: each adds every second (fourth, ..) slot in ascending order, and the first
// group adds up the groups.
//
// Where a bias gradient is asked for, further thread blocks add up its slots (bias.cuh).
#ifndef SPIRA_GRAD_REDUCE_CUH
#define SPIRA_GRAD_REDUCE_CUH

#include "bias.cuh"
#include "share.cuh"

namespace spira {

enum {
    grad_reduce_threads = grad_bias_add_threads,
    grad_reduce_each = 4,  // elements of a thread
    grad_reduce_batch = 4, // slots that a thread loads together
};

// Groups that share the slots of an element, with so many parts. elements: of a tile; small ones
// leave room for more thread blocks.
SPIRA_API int grad_reduce_groups(int parts, int elements) {
    return parts > 192 ? (elements > 1024 ? 8 : 16) : parts > 144 ? 4 : parts > 72 ? 2 : 1;
}

SPIRA_DEVICE void grad_add(float4 &to, const float4 &v) {
    to.x += v.x;
    to.y += v.y;
    to.z += v.z;
    to.w += v.w;
}

// The sum of slots first, first + step, ... last of 4 elements. from: those of slot 0; slot: floats
// from one to the next.
SPIRA_DEVICE float4 grad_slots_sum(const float *from, uint32_t slot, uint32_t first, uint32_t last,
                                   uint32_t step) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (uint32_t at = first; at <= last; at += step * grad_reduce_batch) {
        float4 v[grad_reduce_batch]; // loaded together; past the last, the last again
#pragma unroll
        for (uint32_t i = 0; i < grad_reduce_batch; ++i) {
            const uint32_t own = at + i * step;
            v[i] = *(const float4 *)(from + conv_multiply_wide(own < last ? own : last, slot));
        }
#pragma unroll
        for (uint32_t i = 0; i < grad_reduce_batch; ++i) {
            if (at + i * step <= last) {
                grad_add(sum, v[i]);
            }
        }
    }
    return sum;
}

// 2 elements of the gradient. from: the first; left: that are there.
SPIRA_DEVICE float2 grad_reduce_load(const float *from, int left, bool wide) {
    if (wide && left > 0) { // both are there
        return *(const float2 *)from;
    }
    return make_float2(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f);
}

SPIRA_DEVICE void grad_reduce_store(float *to, int left, bool wide, float x, float y) {
    if (wide && left > 0) {
        *(float2 *)to = make_float2(x, y);
        return;
    }
    if (left > 0) {
        to[0] = x;
    }
    if (left > 1) {
        to[1] = y;
    }
}

// Thread blocks: x elements of a tile, y tiles, z lists: the last one first, since it is the
// longest of a half map. In front of them those of the bias gradient, if there is one.
SPIRA_PLAIN_KERNEL void __launch_bounds__(grad_reduce_threads,
                                          launch_resident(grad_reduce_threads, 6))
    grad_reduce_kernel(const __grid_constant__ grad_params p, int groups) {
    __shared__ union {
        float4 sums[grad_reduce_threads];
        float bias[grad_bias_add_threads];
    } shared;
    const int layers = p.args.bias_grad ? 1 : 0; // of the grid, for the bias gradient
    if ((int)blockIdx.z < layers) {
        pdl_wait();
        grad_bias_add_slots(p, shared.bias);
        return;
    }
    const int across = grad_reduce_threads / groups, own = (int)threadIdx.x % across;
    const int group = (int)threadIdx.x / across, elements = p.cut.rows * p.cut.columns;
    const int at = ((int)blockIdx.x * across + own) * grad_reduce_each;
    const int j = p.args.shape.volume - 1 - ((int)blockIdx.z - layers);
    // ---- which slots: the kernel before reads the lists, too
    const int32_t outputs = grad_rows(p);
    const uint32_t start = grad_list_start(p, outputs, j), end = grad_list_start(p, outputs, j + 1);
    const uint32_t each = grad_part_size(p, grad_list_start(p, outputs, p.args.shape.volume));
    const bool empty = start == end;
    const uint32_t first = start / each, last = empty ? first : (end - 1) / each;
    // ---- which elements
    const grad_tile tile = grad_tile_of(p, (int)blockIdx.y, p.cut.rows, p.cut.columns, 1);
    const grad_fragment from = grad_fragment_of(at / 4, p.cut.columns);
    const int64_t row = (int64_t)grad_list_offset(p, j) * (p.args.shape.cin + p.args.shape.cin2) +
                        tile.row + from.row;
    float *const to = p.args.weight_grad + (row * p.args.shape.cout + tile.column + from.column);
    const int rows = at < elements ? tile.in.left - from.row : 0; // from the first element on
    const int low = rows > 0 ? tile.out.left - from.column : 0;   // elements of its row
    const int high = rows > 8 ? low : 0;                          // of the row 8 further
    pdl_wait();
    if (!empty && first == last) {
        return;
    }
    // ---- add
    float4 sum = make_float4(0, 0, 0, 0);
    float2 old[2] = {};
    if (group == 0 && !empty) {
        old[0] = grad_reduce_load(to, low, p.wide_grad);
        old[1] = grad_reduce_load(to + (int64_t)8 * p.args.shape.cout, high, p.wide_grad);
    }
    if (low > 0 && !empty) {
        const uint32_t slot =
            (uint32_t)(p.cut.down * p.cut.across * elements); // 32 bits: registers
        sum = grad_slots_sum(p.slots + (int64_t)blockIdx.y * elements + at, slot,
                             first + 1 + (uint32_t)group, last, (uint32_t)groups);
    }
    if (groups > 1) {
        shared.sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; group == 0 && i < groups; ++i) {
            grad_add(sum, shared.sums[i * across + own]);
        }
    }
    // ---- write
    if (group == 0) {
        grad_reduce_store(to, low, p.wide_grad, old[0].x + sum.x, old[0].y + sum.y);
        grad_reduce_store(to + (int64_t)8 * p.args.shape.cout, high, p.wide_grad, old[1].x + sum.z,
                          old[1].y + sum.w);
    }
}

} // namespace spira

#endif
