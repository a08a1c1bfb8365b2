// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/weights.cu: weights between spconv's order and spira's, in one kernel.
//
// spconv 2 has [cout, z, y, x, cin]; spira has [x, y, z, cin, cout] in fp32. For each offset that
// is the transposition of a matrix, by tiles in shared memory: both sides are read and written
// along their rows. The weights of an input gradient, [x, y, z, cout, cin], need none.
#include "../gpu.h"
#include "spira/base/launch.cuh"
#include "spira/numeric.cuh"

namespace spira_torch {
namespace gpu {

// A thread block of 32 x 8 threads has a tile of 32 x 32 weights.
enum { tile = 32, tile_rows = 8, tile_items = tile / tile_rows };

// Where offset k of spira stands among those of spconv.
static __device__ __forceinline__ int offset_outside(spira::triple size, int k) {
    const int row = k / size.z;
    return (k % size.z * size.y + row % size.y) * size.x + row / size.y;
}

// What a thread of a tile works on: four weights, all loaded before the first is stored.
struct weight_tile {
    int k, own; // the offset, as spira and as spconv count it
    int x, y;   // of the thread in the tile
    int64_t first_in, first_out;
    int64_t cin, cout, volume;
};

static __device__ __forceinline__ weight_tile weight_tile_of(const weight_job &job) {
    weight_tile t;
    t.k = (int)blockIdx.z;
    t.volume = gridDim.z;
    t.own = offset_outside(job.size, job.way == weight_mirrored ? (int)t.volume - 1 - t.k : t.k);
    t.x = (int)threadIdx.x;
    t.y = (int)threadIdx.y;
    t.first_in = (int64_t)blockIdx.x * tile;
    t.first_out = (int64_t)blockIdx.y * tile;
    t.cin = job.cin;
    t.cout = job.cout;
    return t;
}

// Thread blocks: cin / 32, cout / 32, volume.
template <typename E>
static __global__ void __launch_bounds__(tile *tile_rows)
    weights_order_kernel(weight_job job, const E *__restrict__ weight, float *__restrict__ to) {
    __shared__ float part[tile][tile + 1];
    const weight_tile t = weight_tile_of(job);
    const int64_t in = t.first_in + t.x, out = t.first_out + t.x;
    float w[tile_items];
#pragma unroll
    for (int j = 0; j < tile_items; ++j) {
        const int64_t n = t.first_out + t.y + j * tile_rows;
        const bool there = n < t.cout && in < t.cin;
        w[j] = there ? spira::element_to_float(weight[(n * t.volume + t.own) * t.cin + in]) : 0;
    }
#pragma unroll
    for (int j = 0; j < tile_items; ++j) {
        const int64_t n = t.first_out + t.y + j * tile_rows;
        part[t.y + j * tile_rows][t.x] = w[j];
        if (job.way != weight_forward && n < t.cout && in < t.cin) {
            to[(t.k * t.cout + n) * t.cin + in] = w[j];
        }
    }
    if (job.way != weight_forward) {
        return;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tile_items; ++j) {
        const int64_t i = t.first_in + t.y + j * tile_rows;
        if (out < t.cout && i < t.cin) {
            to[(t.k * t.cin + i) * t.cout + out] = part[t.x][t.y + j * tile_rows];
        }
    }
}

// The same thread blocks.
template <typename E>
static __global__ void __launch_bounds__(tile *tile_rows)
    weights_restore_kernel(weight_job job, const float *__restrict__ from, E *__restrict__ weight) {
    __shared__ float part[tile][tile + 1];
    const weight_tile t = weight_tile_of(job);
    const int64_t in = t.first_in + t.x, out = t.first_out + t.x;
#pragma unroll
    for (int j = 0; j < tile_items; ++j) {
        const int64_t i = t.first_in + t.y + j * tile_rows;
        const bool there = out < t.cout && i < t.cin;
        part[t.y + j * tile_rows][t.x] = there ? from[(t.k * t.cin + i) * t.cout + out] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tile_items; ++j) {
        const int64_t n = t.first_out + t.y + j * tile_rows;
        if (n < t.cout && in < t.cin) {
            weight[(n * t.volume + t.own) * t.cin + in] =
                spira::element_from_float<E>(part[t.x][t.y + j * tile_rows]);
        }
    }
}

static dim3 weight_grid(const weight_job *job) {
    return dim3((unsigned)spira::ceil_div(job->cin, tile),
                (unsigned)spira::ceil_div(job->cout, tile),
                (unsigned)(job->size.x * job->size.y * job->size.z));
}

status weights_order(const weight_job *job, const void *weight, float *to, stream_ref stream) {
    return spira::numeric_dispatch<spira::numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return spira::kernel_launch(
            weights_order_kernel<E>,
            {weight_grid(job), dim3(tile, tile_rows), stream, "weights_order"}, *job,
            (const E *)weight, to);
    });
}

status weights_restore(const weight_job *job, const float *from, void *weight, stream_ref stream) {
    return spira::numeric_dispatch<spira::numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return spira::kernel_launch(
            weights_restore_kernel<E>,
            {weight_grid(job), dim3(tile, tile_rows), stream, "weights_restore"}, *job, from,
            (E *)weight);
    });
}

} // namespace gpu
} // namespace spira_torch
