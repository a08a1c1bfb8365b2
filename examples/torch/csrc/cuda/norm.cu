// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm.cu: the kernels of norm.h.
//
// Each direction is one kernel. A thread block has a part of the rows of a slice, some neighbouring
// channels: it sums its part, waits for the others, adds up the sums of all parts of its slice and
// writes its part. The rows stay in shared memory in between; of a part that is larger, those that
// were read last.
#include "../norm.h"

#include "spira/base/async.cuh"
#include "spira/base/launch.cuh"
#include "spira/base/wide.cuh"
#include "spira/numeric.cuh"

#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

namespace spira_torch {
namespace gpu {

using namespace spira;

// norm_ahead: batches of rows that a thread copies ahead of the one that it reads.
enum { norm_threads = 512, norm_ahead = 3, norm_held = norm_ahead + 1, norm_sums = 64 };
enum { apply_threads = 256, apply_batch = 2, apply_resident = 3, apply_waves = 2 };

// Columns of a slice. A column is what a thread reads of a row: 16 bytes, or one channel of arrays
// that allow no more.
SPIRA_BOTH constexpr int norm_width(int wide) {
    return wide > 1 ? 4 : 8;
}

// Thread blocks of a grid, at most: it starts when all of them fit, one on a multiprocessor. Those
// of a backward pass leave room: beside it NCCL's kernels wait for other GPUs.
static int norm_blocks(const device_info *info, bool backward) {
    const int gpu = info->multiprocessors;
    return backward ? gpu - gpu / 4 : gpu;
}

struct norm_params {
    norm_job job;
    float *slots; // [slices, parts, 2, channels of a slice]
    int slices, parts;
    int ring; // batches of a thread's rows in shared memory
};

struct alignas(16) norm_shared {
    float warps[norm_threads / 32][norm_sums]; // two sums for each channel of a slice
    float results[norm_sums];                  // of them: mean and invstd; backward: the sums
};

SPIRA_DEVICE int64_t norm_rows(const norm_job &job) {
    return job.count ? max_of(min_of((int64_t)*job.count, job.capacity), (int64_t)0) : job.capacity;
}

// A thread's column, and its row among those that a thread block reads at a time.
struct norm_place {
    int x, column, line, lines;
};

template <int wide>
SPIRA_DEVICE norm_place norm_place_of(int slice) {
    constexpr int width = norm_width(wide);
    norm_place p;
    p.x = (int)threadIdx.x % width;
    p.column = slice * width + p.x;
    p.line = (int)threadIdx.x / width;
    p.lines = (int)blockDim.x / width;
    return p;
}

template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide> norm_load(const E *from) {
    wide_elements<E, wide> to;
    if constexpr (wide == 1) {
        to.at[0] = *from;
    } else {
        wide_read(from, to);
    }
    return to;
}

template <typename E, int wide>
SPIRA_DEVICE void norm_store(E *to, const wide_elements<E, wide> &from) {
    if constexpr (wide == 1) {
        *to = from.at[0];
    } else {
        wide_write(from, to);
    }
}

// Rows behind the count are zeros.
template <typename E, int wide>
SPIRA_DEVICE void norm_clear(const norm_job &job, const norm_place &at, void *rows) {
    const wide_elements<E, wide> zeros = {};
    for (int64_t r = norm_rows(job) + (int64_t)blockIdx.y * at.lines + at.line;
         rows && at.column * wide < job.channels && r < job.capacity; r += gridDim.y * at.lines) {
        norm_store((E *)rows + r * job.channels + at.column * wide, zeros);
    }
}

// ---- channels -----------------------------------------------------------------------------------

// What the output of a column is made with.
template <int wide>
struct norm_column {
    float mean[wide], scale[wide], bias[wide];
};

// mean, invstd: of the column
template <int wide>
SPIRA_DEVICE norm_column<wide> norm_column_of(const norm_job &job, int column, const float *mean,
                                              const float *invstd) {
    norm_column<wide> c;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const int channel = column * wide + i;
        c.mean[i] = mean[i];
        c.scale[i] = invstd[i] * (job.weight ? job.weight[channel] : 1.0f);
        c.bias[i] = job.bias ? job.bias[channel] : 0.0f;
    }
    return c;
}

// The output before the residual and the ReLU. Backward computes it again: the same bits.
SPIRA_DEVICE float norm_value(float x, float mean, float scale, float bias) {
    return fmaf(x - mean, scale, bias);
}

// The largest value that becomes 0 in the format.
template <typename E>
SPIRA_DEVICE constexpr float norm_zero() {
    return sizeof(E) == 4 ? 0.0f : std::is_same<E, __half>::value ? 0x1p-25f : 0x1p-134f;
}

// The gradient behind the ReLU. y: where it was kept.
template <typename E, int wide>
SPIRA_DEVICE float norm_masked(const norm_job &job, const norm_column<wide> &c, int i, float x,
                               float g, E y) {
    const bool is_zero = job.output
                             ? element_to_float(y) <= 0.0f
                             : norm_value(x, c.mean[i], c.scale[i], c.bias[i]) <= norm_zero<E>();
    return job.relu && is_zero ? 0.0f : g; // of NaN g, too: what scales losses sees it
}

// ---- the rows of a thread -----------------------------------------------------------------------

// Every `lines`th row of a part, in batches. They lie in places of shared memory that no other
// thread reads: the latest batches of what is read twice (x; backward the gradient, too), and
// norm_held of the third array, which is read once (the residual; backward y).
template <typename E, int wide, bool backward>
struct norm_walk {
    static constexpr int batch = backward ? 1 : 2, arrays = backward ? 2 : 1;
    static constexpr int pack = sizeof(E) * wide;
    const E *x, *g, *third; // the first row
    int64_t offset, stride; // elements: of the first row from the array, from row to row
    int rows, batches, ring;
    char *ring_at, *third_at;
};

template <typename E, int wide, bool backward>
SPIRA_DEVICE norm_walk<E, wide, backward> norm_walk_of(const norm_params &p, const norm_place &at) {
    typedef norm_walk<E, wide, backward> walk;
    extern __shared__ __align__(128) char norm_memory[];
    const unsigned rows = (unsigned)norm_rows(p.job), parts = (unsigned)p.parts;
    const unsigned each = (rows + parts - 1) / parts, first = blockIdx.y * each;
    const int own = (int)min_of((int64_t)each, (int64_t)rows - first) - at.line;
    const int threads = (int)blockDim.x;
    walk w;
    w.offset = ((int64_t)first + at.line) * p.job.channels + at.column * wide;
    w.stride = (int64_t)at.lines * p.job.channels;
    w.x = (const E *)p.job.x + w.offset;
    w.g = (const E *)p.job.grad + w.offset;
    w.third = (const E *)(backward ? p.job.output : p.job.residual);
    w.third = w.third ? w.third + w.offset : nullptr;
    w.rows = at.column * wide < p.job.channels && own > 0 ? (own + at.lines - 1) / at.lines : 0;
    w.batches = (w.rows + walk::batch - 1) / walk::batch;
    w.ring = p.ring;
    w.ring_at = norm_memory + threadIdx.x * walk::pack;
    w.third_at = w.ring_at + p.ring * walk::batch * walk::arrays * threads * walk::pack;
    return w;
}

// The place of row j of a batch, and behind it that of its gradient.
template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_at(const norm_walk<E, wide, backward> &w, int slot, int j, int array = 0) {
    typedef norm_walk<E, wide, backward> walk;
    return (E *)(w.ring_at +
                 ((slot * walk::batch + j) * walk::arrays + array) * (int)blockDim.x * walk::pack);
}

template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_third_at(const norm_walk<E, wide, backward> &w, int batch, int j) {
    typedef norm_walk<E, wide, backward> walk;
    return (E *)(w.third_at + (batch % norm_held * walk::batch + j) * (int)blockDim.x * walk::pack);
}

template <typename E, int wide>
SPIRA_DEVICE void norm_copy(E *to, const E *from) {
    if constexpr (wide == 1) {
        *to = *from;
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        *(uint4 *)to = *(const uint4 *)from;
#else
        async_copy_16(shared_address(to), from, true);
#endif
    }
}

// Begins to copy a batch into a slot of the ring. again: backwards from the last one, what is no
// longer there; the third array where it is needed.
template <bool again, typename E, int wide, bool backward>
SPIRA_DEVICE void norm_copy_batch(const norm_walk<E, wide, backward> &w, int batch, int slot) {
    typedef norm_walk<E, wide, backward> walk;
#pragma unroll
    for (int j = 0; j < walk::batch; ++j) {
        const int row = batch * walk::batch + j;
        if ((unsigned)row < (unsigned)w.rows) {
            const int64_t from = row * w.stride;
            if (!again || batch < w.batches - w.ring) {
                norm_copy<E, wide>(norm_at(w, slot, j), w.x + from);
                if (backward)
                    norm_copy<E, wide>(norm_at(w, slot, j, 1), w.g + from);
            }
            if (again != backward && w.third) {
                norm_copy<E, wide>(norm_third_at(w, batch, j), w.third + from);
            }
        }
    }
    async_copy_commit();
}

// A slot of the ring, up to one ring in front of the first or behind the last.
template <typename E, int wide, bool backward>
SPIRA_DEVICE int norm_slot(const norm_walk<E, wide, backward> &w, int slot) {
    return slot < 0 ? slot + w.ring : slot < w.ring ? slot : slot - w.ring;
}

// ---- sums ---------------------------------------------------------------------------------------

// One pack: the first sum is of x - mean, and backward of the gradient behind the ReLU; the second
// of its products with x - mean. Forward the mean is near the true one alone. g: behind the ReLU
// afterwards.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_add(const norm_job &job, const norm_column<wide> &c,
                           const wide_elements<E, wide> &x, wide_elements<E, wide> &g,
                           const wide_elements<E, wide> &y, float (&sum)[2][wide]) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float v = element_to_float(x.at[i]), d = v - c.mean[i];
        float t = d;
        if constexpr (backward) {
            t = norm_masked<E, wide>(job, c, i, v, element_to_float(g.at[i]), y.at[i]);
            g.at[i] = element_from_float<E>(t);
        }
        sum[0][i] += t;
        sum[1][i] = fmaf(t, d, sum[1][i]);
    }
}

// All rows of a thread, from first to last. kept: where the gradient behind the ReLU is written, or
// null. Returns the slot of the last batch.
template <typename E, int wide, bool backward>
SPIRA_DEVICE int norm_sum(const norm_job &job, const norm_column<wide> &c,
                          const norm_walk<E, wide, backward> &w, E *kept, float (&sum)[2][wide]) {
    typedef norm_walk<E, wide, backward> walk;
    int slot = -1;
    for (int b = 0; b < norm_ahead; ++b) {
        norm_copy_batch<false>(w, b, b);
    }
    for (int b = 0; b < w.batches; ++b) {
        slot = norm_slot(w, slot + 1);
        norm_copy_batch<false>(w, b + norm_ahead, norm_slot(w, slot + norm_ahead));
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            const int row = b * walk::batch + j;
            if (row < w.rows) {
                wide_elements<E, wide> g = {}, y = {};
                if (backward)
                    g = norm_load<E, wide>(norm_at(w, slot, j, 1));
                if (backward && w.third)
                    y = norm_load<E, wide>(norm_third_at(w, b, j));
                norm_add<E, wide, backward>(job, c, norm_load<E, wide>(norm_at(w, slot, j)), g, y,
                                            sum);
                if (backward && kept)
                    norm_store(kept + row * w.stride, g);
                if (backward && w.third)
                    memcpy(norm_at(w, slot, j, 1), &g, sizeof g);
            }
        }
    }
    return slot;
}

// Adds up the values of the lanes of a warp that are equal modulo `lanes`; adds those of a lane
// below to shared memory.
template <int lanes, int values>
SPIRA_DEVICE void norm_fold(float (&v)[values], norm_shared *shared, const int (&place)[values]) {
#pragma unroll
    for (int i = 0; i < values; ++i) {
#pragma unroll
        for (int step = lanes; step < 32; step *= 2) {
            v[i] += __shfl_xor_sync(0xffffffffu, v[i], step);
        }
        if (threadIdx.x % 32 < lanes) {
            shared->warps[threadIdx.x / 32][place[i]] = v[i];
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

// Writes the sums of a part to its slots.
template <int wide>
SPIRA_DEVICE void norm_sum_part(const norm_place &at, float (&sum)[2][wide], float *slots,
                                norm_shared *shared) {
    constexpr int width = norm_width(wide), channels = width * wide;
    float v[2 * wide];
    int place[2 * wide];
#pragma unroll
    for (int i = 0; i < 2 * wide; ++i) {
        v[i] = sum[i / wide][i % wide];
        place[i] = i / wide * channels + at.x * wide + i % wide;
    }
    norm_fold<width>(v, shared, place);
    if (threadIdx.x < 2 * channels) {
        slots[threadIdx.x] = norm_total(shared, (int)threadIdx.x);
    }
}

// The results of a channel from its sums, for the thread block, and in memory if it `writes`.
template <typename E, bool backward>
SPIRA_DEVICE void norm_channel(const norm_job &job, int channel, float a, float b, bool writes,
                               float *first, float *second) {
    if (backward) {
        *first = a;
        *second = b * job.invstd[channel];
        if (writes) {
            job.bias_grad[channel] = *first;
            job.weight_grad[channel] = *second;
        }
        return;
    }
    const float n = (float)norm_rows(job);
    const float centre = n > 0.0f ? element_to_float(((const E *)job.x)[channel]) : 0.0f;
    const float shift = n > 0.0f ? a / n : 0.0f;
    const float spread = n > 0.0f ? b / n - shift * shift : 0.0f;
    const float variance = spread < 0.0f ? 0.0f : spread; // NaN stays
    *first = centre + shift;
    *second = rsqrtf(variance + job.eps);
    if (!writes) {
        return;
    }
    job.mean[channel] = *first;
    job.invstd[channel] = *second;
    if (job.running_mean && n > 0.0f) {
        const float unbiased = variance * n / fmaxf(n - 1.0f, 1.0f);
        job.running_mean[channel] += job.momentum * (*first - job.running_mean[channel]);
        job.running_var[channel] += job.momentum * (unbiased - job.running_var[channel]);
    }
    if (job.batches && channel == 0) {
        *job.batches += 1;
    }
}

// The results of a slice from the sums of its parts, which each of its thread blocks adds up in the
// same order. slots: of the slice
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_finish(const norm_params &p, int slice, const float *slots,
                              norm_shared *shared) {
    constexpr int channels = norm_width(wide) * wide, quads = 2 * channels / 4;
    const int thread = (int)threadIdx.x, quad = thread % quads;
    float v[4] = {};
#pragma unroll 4
    for (int part = thread / quads; part < p.parts; part += (int)blockDim.x / quads) {
        const float4 more = ((const float4 *)slots)[part * quads + quad];
        v[0] += more.x;
        v[1] += more.y;
        v[2] += more.z;
        v[3] += more.w;
    }
    const int place[4] = {quad * 4, quad * 4 + 1, quad * 4 + 2, quad * 4 + 3};
    norm_fold<quads>(v, shared, place);
    const int channel = slice * channels + thread;
    if (thread < channels && channel < p.job.channels) {
        norm_channel<E, backward>(p.job, channel, norm_total(shared, thread),
                                  norm_total(shared, channels + thread), blockIdx.y == 0,
                                  &shared->results[thread], &shared->results[channels + thread]);
    }
    __syncthreads();
}

// ---- rows ---------------------------------------------------------------------------------------

// One pack of y.
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide> norm_forward(const norm_job &job, const norm_column<wide> &c,
                                                 const wide_elements<E, wide> &x,
                                                 const wide_elements<E, wide> &residual) {
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        float y = norm_value(element_to_float(x.at[i]), c.mean[i], c.scale[i], c.bias[i]);
        y += job.residual ? element_to_float(residual.at[i]) : 0.0f;
        out.at[i] = element_from_float<E>(job.relu && y <= 0.0f ? 0.0f : y);
    }
    return out;
}

// What is taken away from the gradient behind the ReLU: a constant, and a multiple of x - mean.
template <int wide>
struct norm_rest {
    float ones[wide], slope[wide];
};

// ones, normals: the sums of the column
template <int wide>
SPIRA_DEVICE norm_rest<wide> norm_rest_of(const norm_job &job, int column, const float *ones,
                                          const float *normals) {
    const float inverse_n = 1.0f / fmaxf((float)norm_rows(job), 1.0f);
    norm_rest<wide> s;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        s.ones[i] = ones[i] * inverse_n;
        s.slope[i] = -job.invstd[column * wide + i] * normals[i] * inverse_n;
    }
    return s;
}

// One pack of the gradient of x. Where y was kept, g is behind the ReLU already.
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide>
norm_gradient(const norm_job &job, const norm_column<wide> &c, const norm_rest<wide> &s,
              const wide_elements<E, wide> &x, const wide_elements<E, wide> &g) {
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float v = element_to_float(x.at[i]);
        float own = element_to_float(g.at[i]);
        if (!job.output) {
            own = norm_masked<E, wide>(job, c, i, v, own, E());
        }
        const float rest = fmaf(v - c.mean[i], s.slope[i], own - s.ones[i]);
        out.at[i] = element_from_float<E>(c.scale[i] * rest);
    }
    return out;
}

// All rows of a thread, from last to first. slot: of the last batch
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_write(const norm_job &job, const norm_column<wide> &c,
                             const norm_rest<wide> &s, const norm_walk<E, wide, backward> &w,
                             int slot) {
    typedef norm_walk<E, wide, backward> walk;
    E *const to = (E *)(backward ? job.grad_x : job.y) + w.offset;
    for (int b = w.batches - 1; b >= 0; --b) {
        norm_copy_batch<true>(w, b - norm_ahead, norm_slot(w, slot - norm_ahead));
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            const int row = b * walk::batch + j;
            if (row < w.rows) {
                const wide_elements<E, wide> x = norm_load<E, wide>(norm_at(w, slot, j));
                wide_elements<E, wide> out, z = {};
                if constexpr (backward) {
                    z = norm_load<E, wide>(norm_at(w, slot, j, 1));
                    out = norm_gradient<E, wide>(job, c, s, x, z);
                } else {
                    if (w.third)
                        z = norm_load<E, wide>(norm_third_at(w, b, j));
                    out = norm_forward<E, wide>(job, c, x, z);
                }
                norm_store(to + row * w.stride, out);
            }
        }
        slot = norm_slot(w, slot - 1);
    }
    async_copy_wait();
}

// ---- kernels ------------------------------------------------------------------------------------

// The gradient behind the ReLU is a result, or what the second reading needs instead of y.
template <typename E>
SPIRA_DEVICE E *norm_kept(const norm_job &job) {
    return (E *)(job.grad_residual ? job.grad_residual : job.output ? job.grad_x : nullptr);
}

// A part of a slice.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_part(const norm_params &p, int slice, norm_shared *shared) {
    constexpr int channels = norm_width(wide) * wide;
    const norm_place at = norm_place_of<wide>(slice);
    const norm_job &job = p.job;
    norm_walk<E, wide, backward> w = norm_walk_of<E, wide, backward>(p, at);
    norm_column<wide> c = {};
    norm_rest<wide> s = {};
    float sum[2][wide] = {};
    if (w.rows && backward) {
        c = norm_column_of<wide>(job, at.column, job.mean + at.column * wide,
                                 job.invstd + at.column * wide);
    } else if (w.rows) {
        const auto first = norm_load<E, wide>((const E *)job.x + at.column * wide);
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            c.mean[i] = element_to_float(first.at[i]);
        }
    }
    E *const kept = backward ? norm_kept<E>(job) : nullptr;
    const int last = norm_sum<E, wide, backward>(job, c, w, kept ? kept + w.offset : kept, sum);
    w.g = kept ? kept + w.offset : w.g;
    for (int b = 1; b <= norm_ahead; ++b) { // forward: the residual, while others are waited for
        norm_copy_batch<true>(w, w.batches - b, 0);
    }
    float *const slots = p.slots + (int64_t)slice * p.parts * 2 * channels;
    norm_sum_part<wide>(at, sum, slots + blockIdx.y * 2 * channels, shared);
    if (p.parts > 1) {
        cooperative_groups::this_grid().sync();
    } else {
        __syncthreads();
    }
    norm_finish<E, wide, backward>(p, slice, slots, shared);
    const float *const results = shared->results + at.x * wide;
    if (w.rows && backward) {
        s = norm_rest_of<wide>(job, at.column, results, results + channels);
    } else if (w.rows) {
        c = norm_column_of<wide>(job, at.column, results, results + channels);
    }
    norm_write<E, wide, backward>(job, c, s, w, last);
    norm_clear<E, wide>(job, at, backward ? job.grad_x : job.y);
    norm_clear<E, wide>(job, at, backward ? job.grad_residual : nullptr);
}

// grid (slices at a time, parts), all of them at a time. Of several parts all slices are.
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads, 1)
    norm_kernel(const __grid_constant__ norm_params p) {
    __shared__ norm_shared shared;
    pdl_wait();
    for (int slice = (int)blockIdx.x; slice < p.slices; slice += (int)gridDim.x) {
        norm_part<E, wide, backward>(p, slice, &shared);
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
    norm_clear<E, wide>(job, at, job.y);
    if (at.column * wide >= job.channels) {
        return;
    }
    float invstd[wide];
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const int channel = at.column * wide + i;
        invstd[i] = job.var ? rsqrtf(job.var[channel] + job.eps) : job.invstd[channel];
    }
    const norm_column<wide> c =
        norm_column_of<wide>(job, at.column, job.mean + at.column * wide, invstd);
    const int64_t rows = norm_rows(job), column = at.column * wide;
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
                           norm_forward<E, wide>(job, c, x[j], z[j]));
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

// Threads as many as have shared memory for what a thread copies ahead; parts as many as fit at a
// time; and a ring of as many batches as there are, or as there is memory for.
template <typename E, int wide, bool backward>
static status norm_run(const device_info *info, const norm_job &job, float *slots,
                       cudaStream_t stream) {
    typedef norm_walk<E, wide, backward> walk;
    constexpr int width = norm_width(wide), packs = walk::batch * walk::arrays;
    const int third = (backward ? job.output : job.residual) ? norm_held * walk::batch : 0;
    const int memory = info->shared_max - (int)sizeof(norm_shared);
    int threads = norm_threads;
    while (threads > norm_sums && threads * walk::pack * (norm_held * packs + third) > memory) {
        threads /= 2;
    }
    const int lines = threads / width, blocks = norm_blocks(info, backward);
    norm_params p = {job, slots, (int)ceil_div(job.channels, width * wide), 0, 0};
    p.parts = (int)max_of(min_of(blocks / p.slices, ceil_div(job.capacity, lines)), 1);
    const int64_t batches = ceil_div(ceil_div(job.capacity, p.parts), lines * walk::batch);
    p.ring = (int)min_of((memory / (threads * walk::pack) - third) / packs,
                         max_of(batches, (int64_t)norm_held));
    auto kernel = norm_kernel<E, wide, backward>;
    SPIRA_TRY(kernel_shared_allow(kernel, memory, "norm (shared memory)"));
    launch_config as = {dim3((unsigned)min_of(p.slices, blocks), (unsigned)p.parts),
                        (unsigned)threads, stream, "norm"};
    as.shared = (size_t)(p.ring * packs + third) * (size_t)(threads * walk::pack);
    as.cooperative = p.parts > 1;
    as.programmatic = info->programmatic && !as.cooperative;
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
