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

enum { tile = 32, tile_rows = 8 }; // a thread block of 32 x 8 threads has a tile of 32 x 32 weights

// Where offset k of spira stands among those of spconv.
static __device__ __forceinline__ int offset_outside(spira::triple size, int k) {
    const int row = k / size.z;
    return (k % size.z * size.y + row % size.y) * size.x + row / size.y;
}

// Thread blocks: cin / 32, cout / 32, volume.
template <typename E>
static __global__ void __launch_bounds__(tile *tile_rows)
    weights_order_kernel(weight_job job, const E *__restrict__ weight, float *to) {
    __shared__ float part[tile][tile + 1];
    const int k = (int)blockIdx.z, volume = (int)gridDim.z;
    const int own = offset_outside(job.size, job.way == weight_mirrored ? volume - 1 - k : k);
    const int x = (int)threadIdx.x, first_in = (int)blockIdx.x * tile,
              first_out = (int)blockIdx.y * tile;
    for (int y = (int)threadIdx.y; y < tile; y += tile_rows) {
        const int64_t n = first_out + y, i = first_in + x;
        if (n < job.cout && i < job.cin) {
            const float w = spira::element_to_float(weight[(n * volume + own) * job.cin + i]);
            part[y][x] = w;
            if (job.way != weight_forward) {
                to[((int64_t)k * job.cout + n) * job.cin + i] = w;
            }
        }
    }
    __syncthreads();
    for (int y = (int)threadIdx.y; y < tile && job.way == weight_forward; y += tile_rows) {
        const int64_t i = first_in + y, n = first_out + x;
        if (n < job.cout && i < job.cin) {
            to[((int64_t)k * job.cin + i) * job.cout + n] = part[x][y];
        }
    }
}

template <typename E>
static __global__ void __launch_bounds__(tile *tile_rows)
    weights_restore_kernel(weight_job job, const float *__restrict__ from, E *weight) {
    __shared__ float part[tile][tile + 1];
    const int k = (int)blockIdx.z, volume = (int)gridDim.z, own = offset_outside(job.size, k);
    const int x = (int)threadIdx.x, first_in = (int)blockIdx.x * tile,
              first_out = (int)blockIdx.y * tile;
    for (int y = (int)threadIdx.y; y < tile; y += tile_rows) {
        const int64_t i = first_in + y, n = first_out + x;
        if (n < job.cout && i < job.cin) {
            part[y][x] = from[((int64_t)k * job.cin + i) * job.cout + n];
        }
    }
    __syncthreads();
    for (int y = (int)threadIdx.y; y < tile; y += tile_rows) {
        const int64_t n = first_out + y, i = first_in + x;
        if (n < job.cout && i < job.cin) {
            weight[(n * volume + own) * job.cin + i] = spira::element_from_float<E>(part[x][y]);
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
        weights_order_kernel<E>
            <<<weight_grid(job), dim3(tile, tile_rows), 0, stream>>>(*job, (const E *)weight, to);
        return spira::status_of_launch("weights_order");
    });
}

status weights_restore(const weight_job *job, const float *from, void *weight, stream_ref stream) {
    return spira::numeric_dispatch<spira::numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        weights_restore_kernel<E>
            <<<weight_grid(job), dim3(tile, tile_rows), 0, stream>>>(*job, from, (E *)weight);
        return spira::status_of_launch("weights_restore");
    });
}

} // namespace gpu
} // namespace spira_torch
