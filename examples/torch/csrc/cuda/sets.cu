// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/sets.cu: voxel sets on the GPU, and rows of features.
#include "../gpu.h"
#include "spira/base/launch.cuh"
#include "spira/device.cuh"
#include "spira/expand.cuh"
#include "spira/voxel.cuh"

#include <atomic>
#include <mutex>

namespace spira_torch {
namespace gpu {

// ---- the device ---------------------------------------------------------------------------------

status device(int number, const spira::device_info **info) {
    enum { devices = 64 };
    static spira::device_info known[devices];
    static std::atomic<bool> have[devices];
    static std::mutex lock;
    SPIRA_REQUIRE(number < devices, spira::status_unsupported, "device", number);
    if (!have[number].load(std::memory_order_acquire)) {
        const std::lock_guard<std::mutex> held(lock);
        SPIRA_TRY(spira::device_info_query(known + number));
        have[number].store(true, std::memory_order_release);
    }
    *info = known + number;
    return spira::status_success();
}

// ---- sets ---------------------------------------------------------------------------------------

status voxelize_bytes(const voxelize_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        return spira::voxelize_workspace<decltype(word)>(job->in, job->in->rows, bytes);
    });
}

status voxelize(const voxelize_job *job, void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto args = job->args<decltype(word)>();
        return spira::voxelize(&args, scratch, scratch_bytes, stream);
    });
}

static __global__ void __launch_bounds__(256)
    rows_finish_kernel(const int32_t *count, int32_t rows, int32_t *order, const int32_t *voxel,
                       int32_t *unsorted) {
    const int32_t i = (int32_t)(blockIdx.x * 256 + threadIdx.x);
    if (i < rows && voxel[i] != i) {
        *unsorted = 1; // every thread writes the same
    }
    if (i < rows && i >= *count) {
        order[i] = -1;
    }
}

status rows_finish(const int32_t *count, int32_t rows, int32_t *order, const int32_t *voxel,
                   int32_t *unsorted, stream_ref stream) {
    return spira::kernel_launch(rows_finish_kernel,
                                {(unsigned)spira::ceil_div(rows, 256), 256, stream, "rows_finish"},
                                count, rows, order, voxel, unsorted);
}

status expand_bytes(const expand_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto args = job->args<decltype(word)>();
        return spira::expand_workspace(&args, bytes);
    });
}

status expand(const spira::device_info *info, const expand_job *job, void *scratch,
              size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto args = job->args<decltype(word)>();
        return spira::expand(info, &args, scratch, scratch_bytes, stream);
    });
}

// ---- coordinates --------------------------------------------------------------------------------

template <typename W>
static __global__ void __launch_bounds__(256)
    words_unpack_kernel(spira::word_layout layout, spira::voxel_set<W> set, int4 *coords) {
    const int32_t i = (int32_t)(blockIdx.x * 256 + threadIdx.x);
    if (i < spira::voxel_set_count(set)) {
        const spira::voxel v = spira::word_unpack<W>(&layout, set.words[i]);
        coords[i] = make_int4(v.batch, v.x, v.y, v.z);
    }
}

status words_unpack(const spira::word_layout *layout, set_ref set, int32_t *coords,
                    stream_ref stream) {
    return spira::word_dispatch(layout, [&](auto word) {
        typedef decltype(word) W;
        const unsigned blocks = (unsigned)spira::ceil_div(set.capacity, 256);
        return spira::kernel_launch(words_unpack_kernel<W>, {blocks, 256, stream, "unpack"},
                                    *layout, set_as<W>(set), (int4 *)coords);
    });
}

template <typename W, typename V>
static __global__ void __launch_bounds__(256)
    words_repack_kernel(repack_job job, spira::voxel_set<W> set, V *words) {
    const int32_t i = (int32_t)(blockIdx.x * 256 + threadIdx.x);
    if (i < set.capacity) {
        words[i] = i < spira::voxel_set_count(set) ? repack_word<W, V>(job, set.words[i])
                                                   : spira::word_none<V>();
    }
}

status words_repack(const repack_job *job, set_ref set, void *words, stream_ref stream) {
    const unsigned grid = (unsigned)spira::ceil_div(set.capacity, 256);
    return spira::word_dispatch(&job->from, [&](auto in) {
        return spira::word_dispatch(&job->to, [&](auto out) {
            typedef decltype(in) W;
            typedef decltype(out) V;
            return spira::kernel_launch(words_repack_kernel<W, V>, {grid, 256, stream, "repack"},
                                        *job, set_as<W>(set), (V *)words);
        });
    });
}

// ---- rows of features ---------------------------------------------------------------------------

// A piece of a row for each thread.
template <typename P>
static __global__ void __launch_bounds__(256)
    rows_gather_kernel(const P *in, int64_t in_rows, const int32_t *index, int64_t rows, int pieces,
                       P *out) {
    const int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x, i = at / pieces;
    if (i < rows) {
        const int64_t from = index[i];
        out[at] = from >= 0 && from < in_rows ? in[from * pieces + at % pieces] : P();
    }
}

template <typename P>
static __global__ void __launch_bounds__(256)
    rows_clear_kernel(P *rows, const int32_t *count, int64_t capacity, int64_t pieces) {
    spira::pdl_wait();
    const int64_t first = spira::max_of(*count, 0) * pieces, step = (int64_t)gridDim.x * 256;
    for (int64_t at = first + (int64_t)blockIdx.x * 256 + threadIdx.x; at < capacity * pieces;
         at += step) {
        rows[at] = P();
    }
}

// Calls body with a pointer type as wide as rows of these bytes can be read.
template <typename F>
static status piece_dispatch(const void *a, const void *b, int64_t bytes, F body) {
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)bytes;
    return all % 16 == 0  ? body(int4())
           : all % 4 == 0 ? body(int())
           : all % 2 == 0 ? body(short())
                          : body(char());
}

status rows_gather(const void *in, int64_t in_rows, const int32_t *index, int64_t rows,
                   int64_t bytes, void *out, stream_ref stream) {
    return piece_dispatch(in, out, bytes, [&](auto piece) {
        typedef decltype(piece) P;
        const int64_t pieces = bytes / (int64_t)sizeof(P);
        const int64_t grid = spira::ceil_div(rows * pieces, 256);
        SPIRA_REQUIRE(grid <= INT32_MAX, spira::status_bad_size, "features", rows);
        return spira::kernel_launch(rows_gather_kernel<P>,
                                    {(unsigned)grid, 256, stream, "permute_rows"}, (const P *)in,
                                    in_rows, index, rows, (int)pieces, (P *)out);
    });
}

status rows_clear_tail(const spira::device_info *info, void *rows, const int32_t *count,
                       int64_t capacity, int64_t bytes, stream_ref stream) {
    return piece_dispatch(rows, rows, bytes, [&](auto piece) {
        typedef decltype(piece) P;
        const int64_t pieces = bytes / (int64_t)sizeof(P);
        const int64_t grid = spira::ceil_div(capacity * pieces, 4 * 256);
        return spira::kernel_launch(rows_clear_kernel<P>,
                                    {(unsigned)spira::min_of(grid, 1024), 256, stream,
                                     "rows_clear_tail", info->programmatic},
                                    (P *)rows, count, capacity, pieces);
    });
}

} // namespace gpu
} // namespace spira_torch
