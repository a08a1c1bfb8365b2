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
    float *slots; // [slices, parts, columns of a slice, 2, channels of a column]
    int slices, parts;
    int ring; // batches of a thread's rows in shared memory
};

struct alignas(16) norm_shared {
    // Of each column of a slice two values for each channel, [2, channels].
    float warps[norm_threads / 32][norm_sums], results[norm_sums];
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

// To shared memory.
template <typename E, int wide>
SPIRA_DEVICE void norm_hold(E *to, const wide_elements<E, wide> &from) {
    if constexpr (wide == 1) {
        *to = from.at[0];
    } else {
        shared_store_4(shared_address(to), make_uint4(wide_word(from, 0), wide_word(from, 1),
                                                      wide_word(from, 2), wide_word(from, 3)));
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

// Without statistics.
template <int wide>
SPIRA_DEVICE norm_column<wide> norm_column_of(const norm_job &job, int column) {
    norm_column<wide> c = {};
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        c.scale[i] = job.weight ? job.weight[column * wide + i] : 1.0f;
        c.bias[i] = job.bias ? job.bias[column * wide + i] : 0.0f;
    }
    return c;
}

// mean, invstd: of the column
template <int wide>
SPIRA_DEVICE void norm_column_set(norm_column<wide> *c, const float *mean, const float *invstd) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        c->mean[i] = mean[i];
        c->scale[i] *= invstd[i];
    }
}

// The output before the residual and the ReLU, from x - mean. Backward computes it again: the same
// bits.
SPIRA_DEVICE float norm_value(float d, float scale, float bias) {
    return fmaf(d, scale, bias);
}

// The largest value that becomes 0 in the format.
template <typename E>
SPIRA_DEVICE constexpr float norm_zero() {
    return sizeof(E) == 4 ? 0.0f : std::is_same<E, __half>::value ? 0x1p-25f : 0x1p-134f;
}

// Where the output was 0, the gradient becomes 0, that of NaN, too, but NaN stays where the output
// is none: what scales losses sees it. d: x - mean
template <typename E, int wide>
SPIRA_DEVICE void norm_mask(const norm_column<wide> &c, const float (&d)[wide], float (&g)[wide]) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        g[i] = norm_value(d[i], c.scale[i], c.bias[i]) <= norm_zero<E>() ? 0.0f : g[i];
    }
}

// ---- the rows of a thread -----------------------------------------------------------------------

// Every `lines`th row of a part, in batches. They lie in places of shared memory that no other
// thread reads: the latest batches of what is read twice (x; backward the gradient, too), and
// norm_held of the third array, which is read once (the residual; backward y). Sizes in bytes.
template <typename E, int wide, bool backward>
struct norm_walk {
    static constexpr int batch = backward ? 1 : 2, arrays = backward ? 2 : 1;
    static constexpr int pack = sizeof(E) * wide;
    const char *x, *g, *third;
    int64_t offset, stride; // of the first row, of a row to the next
    int rows, batches;
    int kept;                // the first batch of the last ring
    int step;                // a pack of each thread
    int slot, ring;          // of a batch, of all batches that there is memory for
    char *memory, *memory_3; // of the thread
};

template <typename E, int wide, bool backward>
SPIRA_DEVICE norm_walk<E, wide, backward> norm_walk_of(const norm_params &p, const norm_place &at,
                                                       char *memory) {
    typedef norm_walk<E, wide, backward> walk;
    const unsigned rows = (unsigned)norm_rows(p.job), parts = (unsigned)p.parts;
    const unsigned each = (rows + parts - 1) / parts, first = blockIdx.y * each;
    const int own = (int)min_of((int64_t)each, (int64_t)rows - first) - at.line;
    walk w;
    w.x = (const char *)p.job.x;
    w.g = (const char *)p.job.grad;
    w.third = (const char *)(backward ? p.job.output : p.job.residual);
    w.stride = (int64_t)p.job.channels * (int)sizeof(E);
    w.offset = ((int64_t)first + at.line) * w.stride + at.column * walk::pack;
    w.stride *= at.lines;
    w.rows = at.column * wide < p.job.channels && own > 0 ? (own + at.lines - 1) / at.lines : 0;
    w.batches = (w.rows + walk::batch - 1) / walk::batch;
    w.kept = w.batches - p.ring;
    w.step = (int)blockDim.x * walk::pack;
    w.slot = w.step * walk::batch * walk::arrays;
    w.ring = p.ring * w.slot;
    w.memory = memory + threadIdx.x * walk::pack;
    w.memory_3 = w.memory + w.ring;
    return w;
}

// A batch of a walk: its first row in the arrays, its place in the ring.
struct norm_cursor {
    int batch;
    int64_t from;
    int slot;
};

// The next batch, or with by = -1 the one before.
template <int by, typename E, int wide, bool backward>
SPIRA_DEVICE void norm_move(const norm_walk<E, wide, backward> &w, norm_cursor *c) {
    c->batch += by;
    c->from += by * w.batch * w.stride;
    c->slot += by * w.slot;
    if (by > 0) {
        c->slot = c->slot == w.ring ? 0 : c->slot;
    } else {
        c->slot = c->slot < 0 ? c->slot + w.ring : c->slot;
    }
}

// Row j of the batch, and behind it its gradient; its row of the third array.
template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_at(const norm_walk<E, wide, backward> &w, const norm_cursor &c, int j) {
    return (E *)(w.memory + c.slot + j * w.arrays * w.step);
}

template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_gradient_at(const norm_walk<E, wide, backward> &w, const norm_cursor &c,
                                 int j) {
    return (E *)(w.memory + c.slot + (j * w.arrays + 1) * w.step);
}

template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_third_at(const norm_walk<E, wide, backward> &w, const norm_cursor &c, int j) {
    return (E *)(w.memory_3 + ((unsigned)c.batch % norm_held * w.batch + j) * w.step);
}

template <int wide, typename E>
SPIRA_DEVICE void norm_copy(E *to, const char *from) {
    if constexpr (wide == 1) {
        *to = *(const E *)from;
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        *(uint4 *)to = *(const uint4 *)from;
#else
        async_copy_16(shared_address(to), from, true);
#endif
    }
}

// Begins to copy a batch. again: backwards from the last one, what is no longer there. The third
// array: where it is needed.
template <bool again, typename E, int wide, bool backward>
SPIRA_DEVICE void norm_copy_batch(const norm_walk<E, wide, backward> &w, const norm_cursor &c) {
    typedef norm_walk<E, wide, backward> walk;
#pragma unroll
    for (int j = 0; j < walk::batch; ++j) {
        if ((unsigned)(c.batch * walk::batch + j) < (unsigned)w.rows) {
            const int64_t from = c.from + j * w.stride;
            if (!again || c.batch < w.kept) {
                norm_copy<wide>(norm_at(w, c, j), w.x + from);
                if (backward)
                    norm_copy<wide>(norm_gradient_at(w, c, j), w.g + from);
            }
            if (again != backward && w.third) {
                norm_copy<wide>(norm_third_at(w, c, j), w.third + from);
            }
        }
    }
    async_copy_commit();
}

// ---- sums ---------------------------------------------------------------------------------------

// One row. Forward: the sums of d = x - c.mean, near the true mean, and of d * d.
template <typename E, int wide>
SPIRA_DEVICE void norm_add(const norm_column<wide> &c, const wide_elements<E, wide> &x,
                           float (&sum)[2 * wide]) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float d = element_to_float(x.at[i]) - c.mean[i];
        sum[i] += d;
        sum[wide + i] = fmaf(d, d, sum[wide + i]);
    }
}

// Backward: the sums of the gradient behind the ReLU, and of it times x - mean. y: the output,
// where it was kept. Leaves the gradient behind the ReLU in g.
template <typename E, int wide>
SPIRA_DEVICE void norm_add_gradient(const norm_job &job, const norm_column<wide> &c,
                                    const wide_elements<E, wide> &x, wide_elements<E, wide> *g,
                                    const E *y, float (&sum)[2 * wide]) {
    float d[wide], own[wide];
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        d[i] = element_to_float(x.at[i]) - c.mean[i];
        own[i] = element_to_float(g->at[i]);
    }
    if (job.relu && job.output) {
        const wide_elements<E, wide> out = norm_load<E, wide>(y);
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            own[i] = element_to_float(out.at[i]) <= 0.0f ? 0.0f : own[i];
        }
    } else if (job.relu) {
        norm_mask<E>(c, d, own);
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        sum[i] += own[i];
        sum[wide + i] = fmaf(own[i], d[i], sum[wide + i]);
        g->at[i] = element_from_float<E>(own[i]);
    }
}

// All rows of a thread, from first to last. kept: where the gradient behind the ReLU is written, or
// null. Leaves *at behind the last batch.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_sum(const norm_job &job, const norm_column<wide> &c,
                           const norm_walk<E, wide, backward> &w, char *kept, norm_cursor *at,
                           float (&sum)[2 * wide]) {
    typedef norm_walk<E, wide, backward> walk;
    norm_cursor next = *at;
    for (int b = 0; b < norm_ahead; ++b) {
        norm_copy_batch<false>(w, next);
        norm_move<1>(w, &next);
    }
    while (at->batch < w.batches) {
        norm_copy_batch<false>(w, next);
        norm_move<1>(w, &next);
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            if (at->batch * walk::batch + j < w.rows) {
                const wide_elements<E, wide> x = norm_load<E, wide>(norm_at(w, *at, j));
                if constexpr (backward) {
                    E *const to = norm_gradient_at(w, *at, j);
                    wide_elements<E, wide> g = norm_load<E, wide>(to);
                    norm_add_gradient(job, c, x, &g, norm_third_at(w, *at, j), sum);
                    if (job.relu)
                        norm_hold(to, g);
                    if (kept)
                        norm_store((E *)(kept + at->from + j * w.stride), g);
                } else {
                    norm_add(c, x, sum);
                }
            }
        }
        norm_move<1>(w, at);
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
// norm_gradient takes away. The first part writes them. given: the first x; backward invstd
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
    *first = n > 0.0f ? given + shift : 0.0f;
    *second = rsqrtf(variance + job.eps);
    if (blockIdx.y == 0) {
        norm_record(job, channel, n, *first, variance, *second);
    }
}

// The results of a slice from the sums of its parts, which each of its thread blocks adds up in the
// same order. slots: of the slice
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_finish(const norm_params &p, int slice, const float *slots,
                              norm_shared *shared) {
    constexpr int channels = norm_width(wide) * wide, quads = 2 * channels / 4;
    const int thread = (int)threadIdx.x, channel = slice * channels + thread;
    const bool has_channel = thread < channels && channel < p.job.channels;
    float n = 0.0f, given = 0.0f; // loaded together with the sums
    if (has_channel) {
        n = (float)norm_rows(p.job);
        given = backward         ? p.job.invstd[channel]
                : p.job.capacity ? element_to_float(((const E *)p.job.x)[channel])
                                 : 0.0f;
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
        norm_channel<backward>(p.job, channel, n, given, norm_total(shared, at),
                               norm_total(shared, at + wide), &shared->results[at],
                               &shared->results[at + wide]);
    }
    __syncthreads();
}

// ---- rows ---------------------------------------------------------------------------------------

// One row of y.
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide> norm_forward(const norm_job &job, const norm_column<wide> &c,
                                                 const wide_elements<E, wide> &x,
                                                 const wide_elements<E, wide> &residual) {
    float y[wide];
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        y[i] = norm_value(element_to_float(x.at[i]) - c.mean[i], c.scale[i], c.bias[i]);
    }
    if (job.residual) {
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            y[i] += element_to_float(residual.at[i]);
        }
    }
    if (job.relu) {
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            y[i] = y[i] <= 0.0f ? 0.0f : y[i]; // NaN stays
        }
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        out.at[i] = element_from_float<E>(y[i]);
    }
    return out;
}

// One row of the gradient of x. rest: what is taken away from the gradient behind the ReLU, a
// constant and a multiple of x - mean. masks: g is the gradient in front of the ReLU.
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide>
norm_gradient(const norm_column<wide> &c, const float (&rest)[2 * wide],
              const wide_elements<E, wide> &x, const wide_elements<E, wide> &g, bool masks) {
    float d[wide], own[wide];
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        d[i] = element_to_float(x.at[i]) - c.mean[i];
        own[i] = element_to_float(g.at[i]);
    }
    if (masks) {
        norm_mask<E>(c, d, own);
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float left = fmaf(d[i], rest[wide + i], own[i] - rest[i]);
        out.at[i] = element_from_float<E>(c.scale[i] * left);
    }
    return out;
}

// All rows of a thread, from last to first. at: the last batch; next: the next one to copy
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_write(const norm_job &job, const norm_column<wide> &c,
                             const float (&rest)[2 * wide], const norm_walk<E, wide, backward> &w,
                             norm_cursor at, norm_cursor next) {
    typedef norm_walk<E, wide, backward> walk;
    char *const to = (char *)(backward ? job.grad_x : job.y);
    const bool masks = backward && job.relu && !w.third;
    while (at.batch >= 0) {
        norm_copy_batch<true>(w, next);
        norm_move<-1>(w, &next);
        async_copy_wait_but<norm_ahead>();
#pragma unroll
        for (int j = 0; j < walk::batch; ++j) {
            if (at.batch * walk::batch + j < w.rows) {
                const wide_elements<E, wide> x = norm_load<E, wide>(norm_at(w, at, j));
                wide_elements<E, wide> out, z = {};
                if constexpr (backward) {
                    z = norm_load<E, wide>(norm_gradient_at(w, at, j));
                    out = norm_gradient(c, rest, x, z, masks && at.batch < w.kept);
                } else {
                    if (w.third)
                        z = norm_load<E, wide>(norm_third_at(w, at, j));
                    out = norm_forward(job, c, x, z);
                }
                norm_store((E *)(to + at.from + j * w.stride), out);
            }
        }
        norm_move<-1>(w, &at);
    }
    async_copy_wait();
}

// ---- kernels ------------------------------------------------------------------------------------

// The gradient behind the ReLU is a result, or what the second reading needs instead of y.
SPIRA_DEVICE char *norm_kept(const norm_job &job) {
    return (char *)(job.grad_residual ? job.grad_residual : job.output ? job.grad_x : nullptr);
}

// A part of a slice.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_part(const norm_params &p, int slice, char *memory, norm_shared *shared) {
    constexpr int width = norm_width(wide), sums = 2 * width * wide;
    const norm_job &job = p.job;
    const norm_place at = norm_place_of<wide>(slice);
    norm_walk<E, wide, backward> w = norm_walk_of<E, wide, backward>(p, at, memory);
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
    char *const kept = backward ? norm_kept(job) : nullptr;
    norm_cursor last = {0, w.offset, 0};
    float sum[2 * wide] = {};
    norm_sum(job, c, w, kept, &last, sum);
    norm_move<-1>(w, &last);
    w.g = kept ? kept : w.g;
    norm_cursor next = last;
    for (int b = 0; b < norm_ahead; ++b) { // forward: the residual, while others are waited for
        norm_copy_batch<true>(w, next);
        norm_move<-1>(w, &next);
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
    norm_finish<E, wide, backward>(p, slice, slots, shared);
    const float *const results = shared->results + at.x * 2 * wide;
    float rest[2 * wide] = {};
    if constexpr (backward) {
        memcpy(rest, results, sizeof rest);
    } else {
        norm_column_set(&c, results, results + wide);
    }
    norm_write(job, c, rest, w, last, next);
    norm_clear<E, wide>(job, at, backward ? job.grad_x : job.y);
    norm_clear<E, wide>(job, at, backward ? job.grad_residual : nullptr);
}

// grid (slices at a time, parts), all of them at a time. Of several parts all slices are.
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads, 1)
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
    norm_column<wide> c = norm_column_of<wide>(job, at.column);
    norm_column_set(&c, job.mean + at.column * wide, invstd);
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
