// spira/grad/reduce.cuh: adds the sums that parts have left in slots to the weight gradient.
//
// For each list: the part that it begins in has written the gradient. The later ones have written
// slots, which are added in a fixed order, the same on every run. Lists without pairs become zero.
//
// A thread has 4 elements of a tile (grad_fragment). With many parts, groups of warps share the
// slots of an element: each adds every second (fourth, eighth) slot in ascending order, and the
// first group adds up the groups.
#ifndef SPIRA_GRAD_REDUCE_CUH
#define SPIRA_GRAD_REDUCE_CUH

#include "../base/launch.cuh"
#include "share.cuh"

namespace spira {

enum {
    grad_reduce_threads = 256,
    grad_reduce_each = 4,  // elements of a thread
    grad_reduce_batch = 4, // slots that a thread loads together
};

// Groups that share the slots of an element, with so many parts.
SPIRA_API int grad_reduce_groups(int parts) {
    return parts > 192 ? 8 : parts > 144 ? 4 : parts > 72 ? 2 : 1;
}

// How the kernel is cut.
struct grad_reduce_cut {
    int rows, columns; // of a tile
    int groups;        // grad_reduce_groups
};

SPIRA_DEVICE void grad_add(float4 &to, const float4 &v) {
    to.x += v.x;
    to.y += v.y;
    to.z += v.z;
    to.w += v.w;
}

// The sum of slots first, first + step, ... last of 4 elements. from: those of slot 0; slot: floats
// from one to the next.
SPIRA_DEVICE float4 grad_slots_sum(const float *from, int64_t slot, uint32_t first, uint32_t last,
                                   uint32_t step) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (uint32_t at = first; at <= last; at += step * grad_reduce_batch) {
        float4 v[grad_reduce_batch]; // loaded together; past the last, the last again
#pragma unroll
        for (uint32_t i = 0; i < grad_reduce_batch; ++i) {
            const uint32_t own = at + i * step;
            v[i] = *(const float4 *)(from + (own < last ? own : last) * slot);
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

// Adds to 2 elements of the gradient, or sets them. to: the first; left: that are there.
SPIRA_DEVICE void grad_reduce_put(float *to, int left, bool wide, bool set, float2 v) {
    if (wide && left > 0) { // both are there
        const float2 old = set ? make_float2(0, 0) : *(const float2 *)to;
        *(float2 *)to = set ? v : make_float2(old.x + v.x, old.y + v.y);
        return;
    }
    if (left > 0) {
        to[0] = set ? v.x : to[0] + v.x;
    }
    if (left > 1) {
        to[1] = set ? v.y : to[1] + v.y;
    }
}

// Thread blocks: x elements of a tile, y tiles, z lists.
SPIRA_PLAIN_KERNEL void __launch_bounds__(grad_reduce_threads)
    grad_reduce_kernel(const __grid_constant__ grad_params p, grad_reduce_cut cut) {
    __shared__ float4 shared[grad_reduce_threads];
    const int across = grad_reduce_threads / cut.groups, own = (int)threadIdx.x % across;
    const int group = (int)threadIdx.x / across, elements = cut.rows * cut.columns;
    const int at = ((int)blockIdx.x * across + own) * grad_reduce_each, j = (int)blockIdx.z;
    const grad_tile tile = grad_tile_of(p, (int)blockIdx.y, cut.rows, cut.columns, 1);
    const grad_fragment own4 = grad_fragment_of(at / 4, cut.columns);
    // Those that are there from the thread's first element on.
    const int rows = at < elements ? tile.in.left - own4.row : 0;
    const int columns = tile.out.left - own4.column;
    // ---- which slots: the kernel before reads the lists, too
    const int32_t outputs = grad_rows(p);
    const uint32_t start = grad_list_start(p, outputs, j), end = grad_list_start(p, outputs, j + 1);
    const uint32_t each = grad_part_size(p, grad_list_start(p, outputs, p.volume));
    const bool empty = start == end;
    const uint32_t first = start / each, last = empty ? first : (end - 1) / each;
    pdl_wait();
    if (!empty && first == last) {
        return;
    }
    // ---- add
    float4 sum = make_float4(0, 0, 0, 0);
    if (rows > 0 && columns > 0 && !empty) {
        const int64_t slot = (int64_t)p.down * p.across * elements;
        sum = grad_slots_sum(p.slots + (int64_t)blockIdx.y * elements + at, slot,
                             first + 1 + (uint32_t)group, last, (uint32_t)cut.groups);
    }
    if (cut.groups > 1) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; group == 0 && i < cut.groups; ++i) {
            grad_add(sum, shared[i * across + own]);
        }
    }
    // ---- write
    if (group == 0 && rows > 0) {
        const int64_t row =
            (int64_t)grad_list_offset(p, j) * (p.cin + p.cin2) + tile.row + own4.row;
        float *const to = p.weight_grad + (row * p.cout + tile.column + own4.column);
        grad_reduce_put(to, columns, p.wide_grad, empty, make_float2(sum.x, sum.y));
        grad_reduce_put(to + (int64_t)8 * p.cout, rows > 8 ? columns : 0, p.wide_grad, empty,
                        make_float2(sum.z, sum.w));
    }
}

} // namespace spira

#endif
