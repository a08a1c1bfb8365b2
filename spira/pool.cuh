// spira/pool.cuh: pooling on the GPU.
#ifndef SPIRA_POOL_CUH
#define SPIRA_POOL_CUH

#include "base/launch.cuh"
#include "numeric.cuh"
#include "pool.h"

namespace spira {

template <typename E>
SPIRA_KERNEL void __launch_bounds__(256)
    pool_kernel(pool_kind kind, const E *__restrict__ in, int channels,
                const int32_t *__restrict__ map, int volume, const int32_t *count, int32_t capacity,
                E *out) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t o = i / channels, c = i % channels;
    if (o >= count_clamp(*count, capacity)) {
        return;
    }
    float value = 0;
    int taps = 0;
    for (int k = 0; k < volume; ++k) {
        int64_t source = map[o * volume + k];
        if (source >= 0) {
            float x = element_to_float(in[source * channels + c]);
            value = taps == 0 ? x : kind == pool_max ? pool_larger(x, value) : value + x;
            ++taps;
        }
    }
    out[i] =
        element_from_float<E>(kind == pool_average && taps ? __fdiv_rn(value, (float)taps) : value);
}

SPIRA_API status pool_device_check(pool_kind kind, numeric type, const void *in, int channels,
                                   const void *out) {
    SPIRA_TRY(pool_check(kind, in, channels, out));
    SPIRA_REQUIRE(numeric_valid(type), status_unsupported, "type", type);
    const size_t element = (size_t)numeric_size(type);
    SPIRA_TRY(pointer_check(in, element, "in"));
    return pointer_check(out, element, "out");
}

// Local max or average pooling over a kernel map.
//
// inputs   in [inputs, channels] of `type`; map [capacity, volume]; count [1]: outputs
// outputs  out [capacity, channels], not `in`: 0 where there is no source; rows from the count on
//          are not written
// Asynchronous, deterministic, equal to pool_host.
template <numeric format = numeric_any>
SPIRA_API status pool(pool_kind kind, numeric type, const void *in, int channels,
                      const int32_t *map, int volume, const int32_t *count, int32_t capacity,
                      void *out, cudaStream_t stream) {
    SPIRA_TRY(pool_device_check(kind, type, in, channels, out));
    SPIRA_TRY(pointer_check(map, sizeof(int32_t), "map"));
    SPIRA_TRY(pointer_check(count, sizeof(int32_t), "count"));
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    SPIRA_REQUIRE(capacity >= 1, status_bad_size, "capacity", capacity);
    int64_t grid = ceil_div((int64_t)capacity * channels, 256);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "capacity * channels", grid);
    return numeric_dispatch<format>(type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch_plain(pool_kernel<E>, (unsigned)grid, 256, stream, "pool", kind,
                                   (const E *)in, channels, map, volume, count, capacity, (E *)out);
    });
}

enum { pool_splits = 64, pool_threads = 256 }; // parts of a batch, summed in a fixed order

// Partial results of one part of one batch index: part [batches, splits, channels].
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads)
    pool_part_kernel(pool_kind kind, word_layout layout, const W *__restrict__ words,
                     const int32_t *count, int32_t capacity, const E *__restrict__ in, int channels,
                     float *part) {
    int32_t first, last;
    pool_batch_range(&layout, words, count_clamp(*count, capacity), (int)blockIdx.y, &first, &last);
    int64_t length = ceil_div(last - first, pool_splits);
    int64_t begin = min_of(first + blockIdx.x * length, last), end = min_of(begin + length, last);
    for (int c = threadIdx.x; c < channels; c += pool_threads) {
        float value = 0;
        for (int64_t v = begin; v < end; ++v) {
            float x = element_to_float(in[v * channels + c]);
            value = v == begin ? x : kind == pool_max ? pool_larger(x, value) : value + x;
        }
        part[((int64_t)blockIdx.y * pool_splits + blockIdx.x) * channels + c] = value;
    }
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_threads)
    pool_join_kernel(pool_kind kind, word_layout layout, const W *__restrict__ words,
                     const int32_t *count, int32_t capacity, int channels,
                     const float *__restrict__ part, E *out) {
    int32_t first, last;
    pool_batch_range(&layout, words, count_clamp(*count, capacity), (int)blockIdx.y, &first, &last);
    int64_t length = ceil_div(last - first, pool_splits);
    int c = (int)(blockIdx.x * pool_threads + threadIdx.x);
    if (c >= channels) {
        return;
    }
    float value = 0;
    for (int s = 0; s < pool_splits && first + s * length < last; ++s) {
        float x = part[((int64_t)blockIdx.y * pool_splits + s) * channels + c];
        value = s == 0 ? x : kind == pool_max ? pool_larger(x, value) : value + x;
    }
    bool mean = kind == pool_average && last > first;
    out[(int64_t)blockIdx.y * channels + c] =
        element_from_float<E>(mean ? __fdiv_rn(value, (float)(last - first)) : value);
}

SPIRA_API float *pool_global_carve(workspace *w, const word_layout *layout, int channels) {
    return workspace_take<float>(w, (int64_t)layout->batches * pool_splits * channels);
}

// Bytes of scratch for pool_global.
SPIRA_API status pool_global_workspace(const word_layout *layout, int channels, size_t *bytes) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(layout->batches >= 1 && layout->batches <= 65535, status_bad_size, "batches",
                  layout->batches);
    SPIRA_REQUIRE(channels >= 1, status_bad_size, "channels", channels);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    pool_global_carve(&w, layout, channels);
    *bytes = w.used;
    return status_success();
}

template <typename W, typename E>
SPIRA_API status pool_global_start(pool_kind kind, const word_layout *layout,
                                   const voxel_set<W> *set, const E *in, int channels, E *out,
                                   float *part, cudaStream_t stream) {
    dim3 parts(pool_splits, (unsigned)layout->batches);
    SPIRA_TRY(kernel_launch_plain(pool_part_kernel<W, E>, parts, pool_threads, stream,
                                  "pool_global", kind, *layout, set->words, set->count,
                                  set->capacity, in, channels, part));
    dim3 joins((unsigned)ceil_div(channels, pool_threads), (unsigned)layout->batches);
    return kernel_launch_plain(pool_join_kernel<W, E>, joins, pool_threads, stream, "pool_global",
                               kind, *layout, set->words, set->count, set->capacity, channels, part,
                               out);
}

// Global max or average pooling: one row for each batch index.
//
// inputs   set: the voxels of the features; in [voxels, channels] of `type`
//          scratch: the bytes of pool_global_workspace, aligned to 256
// outputs  out [batches, channels] of `type`: 0 for a batch index without voxels
// errors   null or misaligned pointers, sizes, more than 65535 batch indices, scratch
// Asynchronous, deterministic: 64 partial sums in fp32, joined in order.
template <typename W, numeric format = numeric_any>
SPIRA_API status pool_global(pool_kind kind, numeric type, const word_layout *layout,
                             voxel_set<W> set, const void *in, int channels, void *out,
                             void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(pool_device_check(kind, type, in, channels, out));
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(voxel_set_check(&set));
    size_t needed;
    SPIRA_TRY(pool_global_workspace(layout, channels, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    float *part = pool_global_carve(&w, layout, channels);
    return numeric_dispatch<format>(type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return pool_global_start(kind, layout, &set, (const E *)in, channels, (E *)out, part,
                                 stream);
    });
}

} // namespace spira

#endif
