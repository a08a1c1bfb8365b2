// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm.cu: the kernels of norm.h.
//
// Each direction is one kernel. A thread block has a part of the rows of a slice, some neighbouring
// channels: it sums its part, waits for the others, adds up the sums of all parts of its slice, and
// writes its part, from the end on: what was read last is in the GPU's caches still.
#include "norm_walk.cuh"

#include "spira/base/launch.cuh"

#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

namespace spira_torch {
namespace gpu {

using namespace spira;

enum { norm_sums = 64, norm_warps = 16 };
enum { apply_threads = 256, apply_batch = 2, apply_resident = 3, apply_waves = 2 };

// Threads of a thread block, and thread blocks that fit on a multiprocessor. A grid has one for
// each multiprocessor and starts when all of them fit. Those of a backward pass fit on half of the
// GPU: beside it NCCL's kernels wait for other GPUs.
SPIRA_BOTH constexpr int norm_threads(bool backward) {
    return backward ? 384 : 512;
}

SPIRA_BOTH constexpr int norm_resident(bool backward) {
    return backward ? 2 : 1;
}

struct alignas(16) norm_shared {
    // Of each column of a slice two values for each channel, [2, channels].
    float warps[norm_warps][norm_sums], results[norm_sums];
};

// ---- sums ---------------------------------------------------------------------------------------

// All rows of a thread, from first to last. kept: where the gradient behind the ReLU is written, or
// null
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_sum(const norm_job &job, const norm_column<wide> &c,
                           const norm_walk<E, wide, backward> &w, char *kept,
                           float (&sum)[2 * wide]) {
    typedef norm_walk<E, wide, backward> walk;
    for (int b = 0; b < norm_ahead; ++b) {
        norm_copy_batch(w, b, backward);
    }
    for (int b = 0; b < w.batches; ++b) {
        norm_copy_batch(w, b + norm_ahead, backward);
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            if (b * walk::batch + j < w.rows) {
                const auto x = norm_load<E, wide>(norm_at(w, b, j, 0));
                if constexpr (backward) {
                    auto g = norm_load<E, wide>(norm_at(w, b, j, 1));
                    norm_add_gradient(job, c, x, &g, norm_at(w, b, j, 2), sum);
                    if (kept)
                        norm_store((E *)(kept + norm_from(w, b, j)), g);
                } else {
                    norm_add(c, x, sum);
                }
            }
        }
    }
}

// Adds up the values of the lanes of a warp that are equal modulo `lanes`, and writes them to
// shared memory, one lane's behind the other's.
template <int lanes, int values>
SPIRA_DEVICE void norm_fold(float (&v)[values], norm_shared *shared) {
#pragma unroll
    for (int i = 0; i < values; ++i) {
#pragma unroll
        for (int step = lanes; step < 32; step *= 2) {
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], step);
        }
        if (threadIdx.x % 32 < lanes) {
            shared->warps[threadIdx.x / 32][threadIdx.x % 32 * values + i] = v[i];
        }
    }
    __syncthreads();
}

// Sum i of the thread block.
SPIRA_DEVICE float norm_total(const norm_shared *shared, int i) {
    float total = 0.0f;
#pragma unroll 16
    for (int warp = 0; warp < (int)blockDim.x / 32; ++warp) {
        total += shared->warps[warp][i];
    }
    return total;
}

// Writes the statistics of a channel, and the running ones.
SPIRA_DEVICE void norm_record(const norm_job &job, int channel, float n, float mean, float variance,
                              float invstd) {
    job.mean[channel] = mean;
    job.invstd[channel] = invstd;
    if (job.running_mean && n > 0.0f) {
        const float unbiased = variance * n / fmaxf(n - 1.0f, 1.0f);
        job.running_mean[channel] += job.momentum * (mean - job.running_mean[channel]);
        job.running_var[channel] += job.momentum * (unbiased - job.running_var[channel]);
    }
    if (job.batches && channel == 0) {
        *job.batches += 1;
    }
}

// The results of a channel from its sums, a and b: forward mean and invstd, backward what
// norm_gradient takes away. The first part writes them. given: the first x, backward invstd, 0
// without rows
template <bool backward>
SPIRA_DEVICE void norm_channel(const norm_job &job, int channel, float n, float given, float a,
                               float b, float *first, float *second) {
    const float inverse_n = 1.0f / fmaxf(n, 1.0f);
    if (backward) {
        *first = a * inverse_n;
        *second = -given * given * b * inverse_n;
        if (blockIdx.y == 0) {
            job.bias_grad[channel] = a;
            job.weight_grad[channel] = b * given;
        }
        return;
    }
    const float shift = a / fmaxf(n, 1.0f);
    const float spread = b / fmaxf(n, 1.0f) - shift * shift;
    const float variance = spread < 0.0f ? 0.0f : spread; // NaN stays
    *first = given + shift;
    *second = rsqrtf(variance + job.eps);
    if (blockIdx.y == 0) {
        norm_record(job, channel, n, *first, variance, *second);
    }
}

// The results of a slice from the sums of its parts, which each of its thread blocks adds up in the
// same order. slots: of the slice
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_finish(const norm_params &p, int slice, int rows, const float *slots,
                              norm_shared *shared) {
    constexpr int channels = norm_width(wide) * wide, quads = 2 * channels / 4;
    const int thread = (int)threadIdx.x, channel = slice * channels + thread;
    const bool has_channel = thread < channels && channel < p.job.channels;
    float given = 0.0f; // loaded together with the sums
    if (has_channel && rows) {
        given = backward ? p.job.invstd[channel] : element_to_float(((const E *)p.job.x)[channel]);
    }
    float v[4] = {};
#pragma unroll 4
    for (int part = thread / quads; part < p.parts; part += (int)blockDim.x / quads) {
        const float4 more = ((const float4 *)slots)[part * quads + thread % quads];
        v[0] += more.x;
        v[1] += more.y;
        v[2] += more.z;
        v[3] += more.w;
    }
    norm_fold<quads>(v, shared);
    if (has_channel) {
        const int at = thread / wide * 2 * wide + thread % wide;
        norm_channel<backward>(p.job, channel, (float)rows, given, norm_total(shared, at),
                               norm_total(shared, at + wide), &shared->results[at],
                               &shared->results[at + wide]);
    }
    __syncthreads();
}

// ---- rows ---------------------------------------------------------------------------------------

// Begins to copy the last rows of a thread for norm_write.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_write_begin(const norm_walk<E, wide, backward> &w) {
    for (int b = 1; b <= norm_ahead; ++b) {
        norm_copy_batch(w, w.batches - b, !backward);
    }
}

// All rows of a thread, from last to first.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_write(const norm_job &job, const norm_column<wide> &c,
                             const float (&rest)[2 * wide], const norm_walk<E, wide, backward> &w) {
    typedef norm_walk<E, wide, backward> walk;
    char *const to = (char *)(backward ? job.grad_x : job.y);
    for (int b = w.batches - 1; b >= 0; --b) {
        norm_copy_batch(w, b - norm_ahead, !backward);
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            if (b * walk::batch + j < w.rows) {
                const auto x = norm_load<E, wide>(norm_at(w, b, j, 0));
                const auto z = norm_load<E, wide>(norm_at(w, b, j, 1)); // forward: the residual
                wide_elements<E, wide> out;
                if constexpr (backward) {
                    out = norm_gradient(job, c, rest, x, z);
                } else {
                    out = norm_forward(job, c, x, z);
                }
                norm_store((E *)(to + norm_from(w, b, j)), out);
            }
        }
    }
    async_copy_wait();
}

// ---- kernels ------------------------------------------------------------------------------------

// A part of a slice.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_part(const norm_params &p, int slice, char *memory, norm_shared *shared) {
    constexpr int width = norm_width(wide), sums = 2 * width * wide;
    const norm_job &job = p.job;
    const norm_place at = norm_place_of<wide>(slice);
    const int rows = norm_rows(job);
    norm_walk<E, wide, backward> w = norm_walk_of<E, wide, backward>(p, at, rows, memory);
    norm_column<wide> c = {};
    if (w.rows) {
        c = norm_column_of<wide>(job, at.column);
        if constexpr (backward) {
            norm_column_set(&c, job.mean + at.column * wide, job.invstd + at.column * wide);
        } else {
            const auto first = norm_load<E, wide>((const E *)job.x + at.column * wide);
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                c.mean[i] = element_to_float(first.at[i]);
            }
        }
    }
    float sum[2 * wide] = {};
    norm_sum(job, c, w, (char *)p.kept, sum);
    norm_clear<E, wide>(job, at, rows, backward ? job.grad_x : job.y);
    norm_clear<E, wide>(job, at, rows, backward ? job.grad_residual : nullptr);
    w.g = (const char *)p.again;
    if (!p.kept) { // while others are waited for
        norm_write_begin(w);
    }
    float *const slots = p.slots + (int64_t)slice * p.parts * sums;
    norm_fold<width>(sum, shared);
    if (threadIdx.x < sums) {
        slots[blockIdx.y * sums + threadIdx.x] = norm_total(shared, (int)threadIdx.x);
    }
    if (p.parts > 1) {
        cooperative_groups::this_grid().sync();
    } else {
        __syncthreads();
    }
    if (p.kept) { // its writes are visible to copies from here on
        norm_write_begin(w);
    }
    norm_finish<E, wide, backward>(p, slice, rows, slots, shared);
    const float *const results = shared->results + at.x * 2 * wide;
    float rest[2 * wide] = {};
    if constexpr (backward) {
        memcpy(rest, results, sizeof rest);
    } else {
        norm_column_set(&c, results, results + wide);
    }
    norm_write(job, c, rest, w);
}

// grid (slices at a time, parts), all of them at a time. Of several parts all slices are.
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads(backward), norm_resident(backward))
    norm_kernel(const __grid_constant__ norm_params p) {
    extern __shared__ __align__(128) char norm_memory[];
    __shared__ norm_shared shared;
    pdl_wait();
    for (int slice = (int)blockIdx.x; slice < p.slices; slice += (int)gridDim.x) {
        norm_part<E, wide, backward>(p, slice, norm_memory, &shared);
        __syncthreads();
    }
}

// grid (slices, thread blocks of a slice)
template <typename E, int wide>
SPIRA_KERNEL void __launch_bounds__(apply_threads, apply_resident)
    norm_apply_kernel(const __grid_constant__ norm_job job) {
    const norm_place at = norm_place_of<wide>((int)blockIdx.x);
    const int64_t step = (int64_t)gridDim.y * at.lines;
    pdl_wait();
    const int rows = norm_rows(job);
    norm_clear<E, wide>(job, at, rows, job.y);
    if (at.column * wide >= job.channels) {
        return;
    }
    float invstd[wide];
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const int channel = at.column * wide + i;
        invstd[i] = job.var ? rsqrtf(job.var[channel] + job.eps) : job.invstd[channel];
    }
    norm_column<wide> c = norm_column_of<wide>(job, at.column);
    norm_column_set(&c, job.mean + at.column * wide, invstd);
    const int64_t column = at.column * wide;
    for (int64_t r = (int64_t)blockIdx.y * at.lines + at.line; r < rows; r += step * apply_batch) {
        wide_elements<E, wide> x[apply_batch] = {}, z[apply_batch] = {}; // loaded together
#pragma unroll
        for (int j = 0; j < apply_batch; ++j) {
            const int64_t from = (r + j * step) * job.channels + column;
            if (r + j * step < rows) {
                x[j] = norm_load<E, wide>((const E *)job.x + from);
                if (job.residual)
                    z[j] = norm_load<E, wide>((const E *)job.residual + from);
            }
        }
#pragma unroll
        for (int j = 0; j < apply_batch; ++j) {
            if (r + j * step < rows) {
                norm_store((E *)job.y + (r + j * step) * job.channels + column,
                           norm_forward(job, c, x[j], z[j]));
            }
        }
    }
}

// A thread is a channel.
SPIRA_PLAIN_KERNEL void __launch_bounds__(apply_threads)
    norm_fold_kernel(const __grid_constant__ norm_job job, float *scale, float *shift) {
    const int channel = (int)(blockIdx.x * apply_threads + threadIdx.x);
    pdl_wait();
    if (channel < job.channels) {
        const float factor =
            rsqrtf(job.var[channel] + job.eps) * (job.weight ? job.weight[channel] : 1.0f);
        scale[channel] = factor;
        shift[channel] = fmaf(-job.mean[channel], factor, job.bias ? job.bias[channel] : 0.0f);
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Threads as many as have shared memory for their rows, parts as many as fit at a time.
template <typename E, int wide, bool backward>
static status norm_run(const device_info *info, const norm_job &job, float *slots,
                       cudaStream_t stream) {
    constexpr int width = norm_width(wide), bytes = norm_walk<E, wide, backward>::bytes;
    const int reserved = (int)sizeof(norm_shared) + 1024; // and the runtime's
    const int memory = info->shared_max / norm_resident(backward) - reserved;
    const int blocks = info->multiprocessors;
    int threads = norm_threads(backward);
    while (threads / 2 >= norm_sums && threads * bytes > memory) {
        threads /= 2;
    }
    norm_params p = {};
    p.job = job;
    p.slots = slots;
    p.stride = threads / width * job.channels * (int)sizeof(E);
    // A result, or what the second reading needs instead of y.
    p.kept = job.grad_residual ? job.grad_residual : job.output ? job.grad_x : nullptr;
    p.again = p.kept ? p.kept : job.grad;
    p.slices = (int)ceil_div(job.channels, width * wide);
    p.parts = (int)max_of(min_of(blocks / p.slices, ceil_div(job.capacity, threads / width)), 1);
    auto kernel = norm_kernel<E, wide, backward>;
    launch_config as = {dim3((unsigned)min_of(p.slices, blocks), (unsigned)p.parts),
                        (unsigned)threads, stream, "norm"};
    as.shared = (size_t)(threads * bytes);
    as.cooperative = p.parts > 1;
    as.programmatic = info->programmatic && !as.cooperative;
    SPIRA_TRY(kernel_shared_allow(kernel, (int)as.shared, "norm (shared memory)"));
    return kernel_launch(kernel, as, p);
}

template <typename E, int wide>
static status norm_run_apply(const device_info *info, const norm_job &job, cudaStream_t stream) {
    const int width = norm_width(wide), slices = (int)ceil_div(job.channels, width * wide);
    const int64_t most = (int64_t)info->multiprocessors * apply_resident * apply_waves / slices;
    const int64_t blocks = ceil_div(job.capacity, apply_threads / width * apply_batch);
    return kernel_launch(norm_apply_kernel<E, wide>,
                         {dim3((unsigned)slices, (unsigned)max_of(min_of(blocks, most), 1)),
                          apply_threads, stream, "norm", info->programmatic},
                         job);
}

// Whether all rows allow accesses of 16 bytes.
static bool norm_is_wide(const norm_job *job) {
    const void *arrays[] = {job->x,      job->y,      job->residual,     job->grad,
                            job->output, job->grad_x, job->grad_residual};
    for (const void *array : arrays) {
        if (!wide_aligned(array, 16)) {
            return false;
        }
    }
    return job->channels * numeric_size(job->type) % 16 == 0;
}

// body(element, std::integral_constant): the channels that a thread reads at a time.
template <typename F>
static status norm_dispatch(const norm_job *job, F body) {
    return numeric_dispatch<numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        constexpr int wide = 16 / (int)sizeof(E);
        return norm_is_wide(job) ? body(tag, std::integral_constant<int, wide>())
                                 : body(tag, std::integral_constant<int, 1>());
    });
}

int64_t norm_slots(const device_info *info, int channels) {
    return norm_sums * max_of(info->multiprocessors, ceil_div(channels, norm_sums / 2));
}

status norm(const device_info *info, const norm_job *job, float *slots, stream_ref stream) {
    return norm_dispatch(job, [&](auto tag, auto wide) {
        typedef typename decltype(tag)::element E;
        return norm_run<E, wide.value, false>(info, *job, slots, stream);
    });
}

status norm_apply(const device_info *info, const norm_job *job, stream_ref stream) {
    return norm_dispatch(job, [&](auto tag, auto wide) {
        typedef typename decltype(tag)::element E;
        return norm_run_apply<E, wide.value>(info, *job, stream);
    });
}

status norm_fold(const device_info *info, const norm_job *job, float *scale, float *shift,
                 stream_ref stream) {
    return kernel_launch(norm_fold_kernel<>,
                         {(unsigned)ceil_div(job->channels, (int)apply_threads), apply_threads,
                          stream, "norm", info->programmatic},
                         *job, scale, shift);
}

status norm_backward(const device_info *info, const norm_job *job, float *slots,
                     stream_ref stream) {
    return norm_dispatch(job, [&](auto tag, auto wide) {
        typedef typename decltype(tag)::element E;
        return norm_run<E, wide.value, true>(info, *job, slots, stream);
    });
}

} // namespace gpu
} // namespace spira_torch
