// spira/grad/reduce.cuh: adds the sums that parts have left in slots to the weight gradient.
//
// For each list: the part that it begins in has written the gradient. The later ones have written
// slots, which are added in ascending order, the same on every run. Lists without pairs become
// zero.
#ifndef SPIRA_GRAD_REDUCE_CUH
#define SPIRA_GRAD_REDUCE_CUH

#include "../base/launch.cuh"
#include "share.cuh"

namespace spira {

enum {
    grad_reduce_warps = 8,
    grad_reduce_warp = 64, // elements of a warp: 2 a lane
    grad_reduce_batch = 8, // slots that a warp loads together
};

// Warps that share the slots of an element, with so many parts.
SPIRA_API int grad_reduce_along(int parts) {
    return parts > 192 ? 8 : parts > 96 ? 4 : parts > 48 ? 2 : 1;
}

SPIRA_DEVICE void grad_add(float2 &to, const float2 &v) {
    to.x += v.x;
    to.y += v.y;
}

// Thread blocks: x elements of a tile, y tiles, z lists. rows, columns: of a tile.
template <int rows, int columns>
SPIRA_KERNEL void __launch_bounds__(32 * grad_reduce_warps)
    grad_reduce_kernel(const __grid_constant__ grad_params p) {
    __shared__ float2 shared[grad_reduce_warps][32];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int rank = warp % p.along, group = warp / p.along, j = (int)blockIdx.z;
    const int at =
        ((int)blockIdx.x * (grad_reduce_warps / p.along) + group) * grad_reduce_warp + lane * 2;
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
    float2 sum = make_float2(0, 0);
    if (at < rows * columns) {
        const int64_t slot = (int64_t)p.down * p.across * (rows * columns);
        const float *from = p.slots + (int64_t)blockIdx.y * (rows * columns) + at;
        for (uint32_t part = first + 1 + (uint32_t)rank; part <= last;
             part += (uint32_t)(p.along * grad_reduce_batch)) {
            float2 v[grad_reduce_batch]; // loaded together; past the last, the last again
#pragma unroll
            for (int i = 0; i < grad_reduce_batch; ++i) {
                const uint32_t own = part + (uint32_t)(i * p.along);
                v[i] = *(const float2 *)(from + (own < last ? own : last) * slot);
            }
#pragma unroll
            for (int i = 0; i < grad_reduce_batch; ++i) {
                if (part + (uint32_t)(i * p.along) <= last) {
                    grad_add(sum, v[i]);
                }
            }
        }
    }
    shared[warp][lane] = sum;
    __syncthreads();
    if (rank || at >= rows * columns) {
        return;
    }
    for (int i = 1; i < p.along; ++i) {
        grad_add(sum, shared[warp + i][lane]);
    }
    // ---- write
    const grad_tile tile = grad_tile_of(p, (int)blockIdx.y, rows, columns, 1);
    const int row = at / columns, column = at % columns;
    const int64_t k = grad_list_offset(p, j);
    float *to =
        p.weight_grad + ((k * (p.cin + p.cin2) + tile.row + row) * p.cout + tile.column + column);
    const float v[2] = {sum.x, sum.y};
    for (int i = 0; i < 2 && row < tile.in.left && column + i < tile.out.left; ++i) {
        to[i] = empty ? 0.0f : to[i] + v[i];
    }
}

} // namespace spira

#endif
