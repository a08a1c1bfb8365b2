// spira/voxel_features.cuh: features of voxels on the GPU.
//
// A thread computes one channel of one voxel, from the rows in their order, so that results are
// those of the host loops (voxel_features.h) bit by bit.
#ifndef SPIRA_VOXEL_FEATURES_CUH
#define SPIRA_VOXEL_FEATURES_CUH

#include "base/launch.cuh"
#include "numeric.cuh"
#include "voxel_features.h"

namespace spira {

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    voxel_features_kernel(voxel_feature kind, const float *values, int columns, int channels,
                          voxel_rows rows, const int32_t *count, int32_t capacity, E *features) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t v = i / channels;
    if (v < min_of(*count, capacity)) {
        features[i] = element_from_float<E>(
            voxel_feature_value(kind, values, columns, &rows, (int32_t)v, (int)(i % channels)));
    }
}

// The features of the voxels from the values of their rows.
//
// format   numeric_any: chosen by `type` at run time. A caller that names the format compiles the
//          code for that one alone, and must pass the same `type`
// inputs   values [rows, columns], of which the first `channels` are used
//          rows: written by voxelize; rows.voxel is not used
//          count [1]: voxels; a larger count is clamped to `capacity`
// outputs  features [capacity, channels] of `type`, aligned to its element; rows from the count on
//          are not written
// errors   null or misaligned pointers, sizes, another type than `format`
// Asynchronous, deterministic, bit-identical to voxel_features_host.
template <numeric format = numeric_any>
SPIRA_API status voxel_features(voxel_feature kind, const float *values, int columns, int channels,
                                voxel_rows rows, const int32_t *count, int32_t capacity,
                                numeric type, void *features, cudaStream_t stream) {
    SPIRA_TRY(voxel_feature_check(kind));
    SPIRA_TRY(voxel_features_check(values, columns, channels, &rows, features, type));
    SPIRA_TRY(pointer_check(count, alignof(int32_t), "count"));
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    int64_t blocks = ceil_div((int64_t)capacity * channels, 256);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    return numeric_dispatch<format>(type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(voxel_features_kernel<E>, (unsigned)blocks, 256, 0, false, 1, stream,
                             "voxel_features", kind, values, columns, channels, rows, count,
                             capacity, (E *)features);
    });
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    voxel_features_args_kernel(voxel_features_args<W> args, word_layout words, int channels) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, v = i / channels;
    if (v < voxel_set_count(args.set)) {
        ((E *)args.features)[i] = element_from_float<E>(
            voxel_features_value(args, words, (int32_t)v, (int)(i % channels)));
    }
}

// The same with a limit on the rows of a voxel and with appended channels.
//
// format   see above
// inputs   args: see voxel_features_args; arrays in device memory, the layout in host memory
// outputs  args->features; rows from the count on are not written
// errors   null or misaligned pointers, sizes, bits of `append`, a layout of another word, another
//          type than `format`
// Asynchronous, deterministic, bit-identical to voxel_features_host.
template <typename W, numeric format = numeric_any>
SPIRA_API status voxel_features(const voxel_features_args<W> *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_args_check(args));
    const int channels = voxel_features_channels(args);
    const int64_t blocks = ceil_div((int64_t)args->set.capacity * channels, 256);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    const word_layout words = args->words ? *args->words : word_layout{};
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(voxel_features_args_kernel<W, E>, (unsigned)blocks, 256, 0, false, 1,
                             stream, "voxel_features", *args, words, channels);
    });
}

} // namespace spira

#endif
