// spira/voxel_features_grad.cuh: the gradient of voxel features on the GPU.
#ifndef SPIRA_VOXEL_FEATURES_GRAD_CUH
#define SPIRA_VOXEL_FEATURES_GRAD_CUH

#include "base/launch.cuh"
#include "index/voxel_reduce.cuh"
#include "numeric.cuh"
#include "voxel_features_grad.h"

namespace spira {

template <typename E>
SPIRA_DEVICE float voxel_grad_load(const voxel_features_grad_args &a, int64_t voxel, int channel) {
    return element_to_float(((const E *)a.features_grad)[voxel * a.features_channels + channel]);
}

// A row of a voxel, by its number, and its value.
struct voxel_candidate {
    float value;
    int32_t number; // INT32_MAX: none
};

// The one of two that gets the gradient of the largest.
SPIRA_DEVICE voxel_candidate voxel_grad_winner(voxel_candidate a, voxel_candidate b) {
    const bool swaps = b.number < a.number;
    const voxel_candidate earlier = swaps ? b : a, later = swaps ? a : b;
    return later.number != INT32_MAX && voxel_grad_takes(later.value, earlier.value) ? later
                                                                                     : earlier;
}

// The largest of many rows of a voxel. Called by all threads of a block, with barriers inside.
// Thread 0 returns it. shared [voxel_warps].
SPIRA_DEVICE int32_t voxel_grad_find(const voxel_features_grad_args &a, const int32_t *order,
                                     int32_t rows, int channel, voxel_candidate *shared) {
    voxel_candidate own = {0, INT32_MAX};
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x; i < rows; i += voxel_threads) {
        own = voxel_grad_winner(own, {a.values[(int64_t)order[i] * a.columns + channel], i});
    }
#pragma unroll
    for (int step = 16; step; step /= 2) {
        const float value = __shfl_xor_sync(~0u, own.value, step);
        own = voxel_grad_winner(own, {value, __shfl_xor_sync(~0u, own.number, step)});
    }
    __syncthreads(); // shared is free
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = own;
    }
    __syncthreads();
    for (int w = 1; w < voxel_warps && threadIdx.x == 0; ++w) {
        own = voxel_grad_winner(own, shared[w]);
    }
    return own.number;
}

// The rows of crowded voxels, by all threads of a block. first: voxel of the block; channel: its
// first one; width: its channels.
template <typename E>
SPIRA_DEVICE void voxel_grad_crowded(const voxel_features_grad_args &a, int64_t first, int channel,
                                     int width, const voxel_crowded &s) {
    __shared__ voxel_candidate shared[voxel_warps];
    for (int e = 0; e < s.entries; ++e) {
        const int64_t voxel = first + s.voxel[e];
        const int32_t *order = a.rows.order + s.begin[e];
        const int32_t rows = s.rows[e];
        for (int64_t i = threadIdx.x; a.kind == voxel_feature_mean && i < (int64_t)rows * width;
             i += voxel_threads) {
            const int c = channel + (int)(i % width);
            a.values_grad[(int64_t)order[i / width] * a.channels + c] =
                voxel_grad_share(voxel_grad_load<E>(a, voxel, c), rows);
        }
        for (int c = channel; a.kind == voxel_feature_max && c < channel + width; ++c) {
            const int32_t winner = voxel_grad_find(a, order, rows, c, shared);
            if (threadIdx.x == 0) {
                a.values_grad[(int64_t)order[winner] * a.channels + c] =
                    voxel_grad_load<E>(a, voxel, c);
            }
        }
    }
}

// A thread for each channel of each voxel; voxels of many rows are shared by a thread block.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(voxel_threads)
    voxel_features_grad_kernel(voxel_features_grad_args a, voxel_features_cut cut) {
    __shared__ voxel_crowded crowded;
    const int tile = (int)(blockIdx.x % (unsigned)cut.tiles) * cut.width;
    const int64_t first = (int64_t)(blockIdx.x / (unsigned)cut.tiles) * cut.voxels;
    const int own = (int)(threadIdx.x / (unsigned)cut.width);
    const int channel = tile + (int)(threadIdx.x % (unsigned)cut.width);
    const int64_t voxel = first + own;
    const bool has =
        own < cut.voxels && channel < cut.channels && voxel < min_of(*a.count, a.capacity);
    const int32_t begin = has ? a.rows.begin[voxel] : 0;
    const int32_t rows =
        has ? voxel_feature_rows(a.max_points, a.rows.begin[voxel + 1] - begin) : 0;
    const bool many = rows > voxel_rows_few && a.kind != voxel_feature_first;
    if (has && !many) {
        voxel_features_grad_put(a, voxel, channel, voxel_grad_load<E>(a, voxel, channel));
    }
    if (__syncthreads_or(many)) {
        voxel_list_crowded(&crowded, many && channel == tile, own, begin, rows);
        voxel_grad_crowded<E>(a, first, tile, min(cut.channels - tile, cut.width), crowded);
    }
}

// The gradient of `voxel_features` by the values of the rows.
//
// format   compiled for; numeric_any: all four, chosen by args->type
//
// inputs   args: see voxel_features_grad_args; arrays in device memory
// outputs  args->values_grad, all row_capacity rows, fp32: 0 for a row that no feature depends on
//          (dropped, beyond max_points, not the first or not the largest)
// errors   null or misaligned pointers, sizes
// Asynchronous, deterministic, equal to voxel_features_grad_host; a memset and one launch.
template <numeric format = numeric_any>
SPIRA_API status voxel_features_grad(const voxel_features_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_grad_check(args));
    const int64_t rows = (int64_t)args->row_capacity * args->channels;
    const voxel_features_cut cut = voxel_features_cut_make(args->capacity, args->channels);
    SPIRA_REQUIRE(cut.blocks <= INT32_MAX, status_bad_size, "capacity * channels", cut.blocks);
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        SPIRA_TRY(status_from_cuda(
            cudaMemsetAsync(args->values_grad, 0, (size_t)rows * sizeof(float), stream),
            "voxel_features_grad"));
        return kernel_launch(voxel_features_grad_kernel<typename decltype(tag)::element>,
                             (unsigned)cut.blocks, voxel_threads, 0, false, 1, stream,
                             "voxel_features_grad", *args, cut);
    });
}

} // namespace spira

#endif
