// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm.cu: the kernels of norm.h.
//
// Each direction is one kernel, whose thread blocks wait for one another twice: two sums of each
// channel over a part of the rows for each thread block; the sums of the parts; and the rows
// themselves. A thread stays with a few neighbouring channels (a column), so that their statistics
// lie in its registers.
#include "../norm.h"

#include "spira/base/launch.cuh"
#include "spira/numeric.cuh"

#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

namespace spira_torch {
namespace gpu {

using namespace spira;

enum { norm_threads = 256, norm_batch = 4, norm_waves = 2 };

typedef float norm_shared[norm_threads];

// Thread blocks of a multiprocessor at a time: backward loads three arrays and needs twice the
// registers.
SPIRA_BOTH constexpr int norm_resident(bool backward) {
    return backward ? 2 : 3;
}

template <typename E, int wide>
struct alignas(sizeof(E) * wide) norm_pack {
    E v[wide];
};

// Thread blocks of a grid, at most: it starts when all of them fit. Those of a backward pass leave
// room: beside it NCCL's kernels wait for other GPUs.
static int64_t norm_blocks(const device_info *info, bool backward) {
    const int64_t gpu = info->multiprocessors;
    return (backward ? gpu - gpu / 4 : gpu) * norm_resident(backward);
}

struct norm_params {
    norm_job job;
    float *slots; // [parts, 2, channels]
    int parts;
};

SPIRA_DEVICE int64_t norm_rows(const norm_job &job) {
    return job.count ? max_of(min_of((int64_t)*job.count, job.capacity), (int64_t)0) : job.capacity;
}

// Where a thread stands: the threads of a block are `lines` rows of `width` columns.
struct norm_place {
    int columns, width, lines, x, y;
};

SPIRA_DEVICE norm_place norm_place_of(int columns) {
    norm_place p;
    p.columns = columns;
    p.width = min_of(columns, (int)norm_threads);
    p.lines = norm_threads / p.width;
    p.x = (int)threadIdx.x % p.width;
    p.y = (int)threadIdx.x / p.width;
    return p;
}

// ---- channels -----------------------------------------------------------------------------------

// The statistics of a column.
template <int wide>
struct norm_column {
    float mean[wide], invstd[wide], scale[wide], bias[wide];
};

template <int wide>
SPIRA_DEVICE norm_column<wide> norm_column_of(const norm_job &job, int column) {
    norm_column<wide> c;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const int channel = column * wide + i;
        c.mean[i] = job.mean[channel];
        c.invstd[i] = job.var ? rsqrtf(job.var[channel] + job.eps) : job.invstd[channel];
        c.scale[i] = c.invstd[i] * (job.weight ? job.weight[channel] : 1.0f);
        c.bias[i] = job.bias ? job.bias[channel] : 0.0f;
    }
    return c;
}

// The output before the residual and the ReLU. Backward computes it again: the same bits.
SPIRA_DEVICE float norm_value(float x, float mean, float scale, float bias) {
    return fmaf(x - mean, scale, bias);
}

// The gradient behind the ReLU. y: where it was kept.
template <typename E, int wide>
SPIRA_DEVICE float norm_masked(const norm_job &job, const norm_column<wide> &c, int i, float x,
                               float g, E y) {
    if (!job.relu) {
        return g;
    }
    if (!job.output) {
        y = element_from_float<E>(norm_value(x, c.mean[i], c.scale[i], c.bias[i]));
    }
    return element_to_float(y) <= 0.0f ? 0.0f : g; // of NaN, too: what scales losses sees it
}

// ---- sums ---------------------------------------------------------------------------------------

// Rows first, first + lines, ... of one column. Forward: x - x of the first row, and its square.
// Backward: the gradient, and its product with the normalised x.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_sum(const norm_job &job, int column, int64_t first, int64_t end, int lines,
                           float (&a)[wide], float (&b)[wide]) {
    typedef norm_pack<E, wide> pack;
    const int columns = job.channels / wide;
    const pack *x = (const pack *)job.x + column, *g = (const pack *)job.grad + column;
    const pack *y = (const pack *)job.output + column;
    norm_column<wide> c = {};
    if constexpr (backward) {
        c = norm_column_of<wide>(job, column);
    } else {
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            c.mean[i] = element_to_float(x[0].v[i]);
        }
    }
    for (int64_t r = first; r < end; r += lines * norm_batch) {
        pack px[norm_batch], pg[norm_batch], py[norm_batch]; // loaded together; past the last, the
#pragma unroll                                               // last again
        for (int j = 0; j < norm_batch; ++j) {
            const int64_t row = min_of(r + (int64_t)j * lines, end - 1) * columns;
            px[j] = x[row];
            if (backward) {
                pg[j] = g[row];
                py[j] = job.output ? y[row] : px[j];
            }
        }
#pragma unroll
        for (int j = 0; j < norm_batch; ++j) {
            if (r + (int64_t)j * lines >= end) {
                break;
            }
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                const float v = element_to_float(px[j].v[i]), d = v - c.mean[i];
                float t = d;
                if constexpr (backward) {
                    t = norm_masked<E, wide>(job, c, i, v, element_to_float(pg[j].v[i]),
                                             py[j].v[i]);
                }
                a[i] += t;
                b[i] += t * (backward ? d * c.invstd[i] : d);
            }
        }
    }
}

// The sums of a thread block's part of the rows, into slots [part, 2, channels].
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_sum_part(const norm_params &p, const norm_place &at, norm_shared *shared) {
    const int part = (int)blockIdx.x;
    const int64_t rows = norm_rows(p.job), each = (rows + p.parts - 1) / p.parts;
    const int64_t first = part * each, end = min_of(first + each, rows);
    for (int from = 0; from < at.columns; from += at.width) {
        const int column = from + at.x;
        float a[wide] = {}, b[wide] = {};
        if (at.y < at.lines && column < at.columns && first + at.y < end) {
            norm_sum<E, wide, backward>(p.job, column, first + at.y, end, at.lines, a, b);
        }
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            shared[i][threadIdx.x] = a[i];
            shared[wide + i][threadIdx.x] = b[i];
        }
        __syncthreads();
        for (int s = (int)threadIdx.x; s < 2 * wide * at.width; s += norm_threads) {
            const int sum = s / (wide * at.width), channel = s % (wide * at.width);
            float total = 0.0f;
            for (int line = 0; line < at.lines; ++line) {
                total += shared[sum * wide + channel % wide][line * at.width + channel / wide];
            }
            if (from * wide + channel < p.job.channels) {
                p.slots[((int64_t)part * 2 + sum) * p.job.channels + from * wide + channel] = total;
            }
        }
        __syncthreads();
    }
}

// The results of a channel from its sums.
template <typename E, bool backward>
SPIRA_DEVICE void norm_channel(const norm_job &job, int channel, float a, float b) {
    if (backward) {
        job.bias_grad[channel] = a;
        job.weight_grad[channel] = b;
        return;
    }
    const float n = (float)norm_rows(job);
    const float centre = n > 0.0f ? element_to_float(((const E *)job.x)[channel]) : 0.0f;
    const float shift = n > 0.0f ? a / n : 0.0f;
    const float spread = n > 0.0f ? b / n - shift * shift : 0.0f;
    const float variance = spread < 0.0f ? 0.0f : spread; // NaN stays
    job.mean[channel] = centre + shift;
    job.invstd[channel] = rsqrtf(variance + job.eps);
    if (job.running_mean && n > 0.0f) {
        const float unbiased = variance * n / fmaxf(n - 1.0f, 1.0f);
        job.running_mean[channel] += job.momentum * (centre + shift - job.running_mean[channel]);
        job.running_var[channel] += job.momentum * (unbiased - job.running_var[channel]);
    }
    if (job.batches && channel == 0) {
        *job.batches += 1;
    }
}

// The sum of the four lanes of a warp that have the same channel.
SPIRA_DEVICE float norm_fold(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 8);
    return v + __shfl_xor_sync(0xffffffffu, v, 16);
}

// Adds up the parts: a thread block has 8 channels, and a thread of it every 32nd part.
template <typename E, bool backward>
SPIRA_DEVICE void norm_finish(const norm_params &p, norm_shared *shared) {
    enum { own = 8, groups = norm_threads / own, warps = norm_threads / 32 };
    const int thread = (int)threadIdx.x, channels = p.job.channels;
    for (int from = (int)blockIdx.x * own; from < channels; from += (int)gridDim.x * own) {
        const int channel = from + thread % own;
        float a = 0.0f, b = 0.0f;
        if (channel < channels) {
#pragma unroll 8
            for (int part = thread / own; part < p.parts; part += groups) {
                a += p.slots[(int64_t)part * 2 * channels + channel];
                b += p.slots[((int64_t)part * 2 + 1) * channels + channel];
            }
        }
        a = norm_fold(a);
        b = norm_fold(b);
        __syncthreads();
        if (thread % 32 < own) {
            shared[0][thread / 32 * own + thread % own] = a;
            shared[1][thread / 32 * own + thread % own] = b;
        }
        __syncthreads();
        if (thread < own && channel < channels) {
            for (int i = 1; i < warps; ++i) {
                a += shared[0][i * own + thread];
                b += shared[1][i * own + thread];
            }
            norm_channel<E, backward>(p.job, channel, a, b);
        }
    }
}

// ---- rows ---------------------------------------------------------------------------------------

// One pack of y.
template <typename E, int wide>
SPIRA_DEVICE norm_pack<E, wide> norm_forward(const norm_job &job, const norm_column<wide> &c,
                                             const norm_pack<E, wide> &x,
                                             const norm_pack<E, wide> &residual) {
    norm_pack<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        float y = norm_value(element_to_float(x.v[i]), c.mean[i], c.scale[i], c.bias[i]);
        y += job.residual ? element_to_float(residual.v[i]) : 0.0f;
        out.v[i] = element_from_float<E>(job.relu && y <= 0.0f ? 0.0f : y);
    }
    return out;
}

// What the gradient of a column is made of, besides its statistics: sums / n.
template <int wide>
struct norm_sums {
    float ones[wide], normals[wide];
};

template <int wide>
SPIRA_DEVICE norm_sums<wide> norm_sums_of(const norm_job &job, int column, float inverse_n) {
    norm_sums<wide> s;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        s.ones[i] = job.bias_grad[column * wide + i] * inverse_n;
        s.normals[i] = job.weight_grad[column * wide + i] * inverse_n;
    }
    return s;
}

// One pack of the gradient of x; that of the residual is left in g.
template <typename E, int wide>
SPIRA_DEVICE norm_pack<E, wide> norm_gradient(const norm_job &job, const norm_column<wide> &c,
                                              const norm_sums<wide> &s, const norm_pack<E, wide> &x,
                                              norm_pack<E, wide> &g, const norm_pack<E, wide> &y) {
    norm_pack<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float v = element_to_float(x.v[i]), normal = (v - c.mean[i]) * c.invstd[i];
        const float own = norm_masked<E, wide>(job, c, i, v, element_to_float(g.v[i]), y.v[i]);
        g.v[i] = element_from_float<E>(own);
        out.v[i] = element_from_float<E>(c.scale[i] * (own - s.ones[i] - normal * s.normals[i]));
    }
    return out;
}

// The rows of one column from `first` on, `step` apart; zeros from the count on.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_run_column(const norm_job &job, int column, int64_t first, int64_t step,
                                  int64_t rows) {
    typedef norm_pack<E, wide> pack;
    const int columns = job.channels / wide;
    const pack *x = (const pack *)job.x + column, *g = (const pack *)job.grad + column;
    const pack *z = (const pack *)(backward ? job.output : job.residual) + column;
    pack *to = (pack *)(backward ? job.grad_x : job.y) + column;
    pack *to_residual = (pack *)job.grad_residual + column;
    const bool third = backward ? job.output : job.residual;
    const norm_column<wide> c = norm_column_of<wide>(job, column);
    norm_sums<wide> s = {};
    if constexpr (backward) {
        s = norm_sums_of<wide>(job, column, rows ? 1.0f / (float)rows : 0.0f);
    }
    for (int64_t r = first; r < job.capacity; r += step * norm_batch) {
        pack px[norm_batch] = {}, pg[norm_batch] = {}, pz[norm_batch] = {}; // loaded together
#pragma unroll
        for (int j = 0; j < norm_batch; ++j) {
            const int64_t row = r + j * step;
            if (row < rows) {
                px[j] = x[row * columns];
                if (backward)
                    pg[j] = g[row * columns];
                if (third)
                    pz[j] = z[row * columns];
            }
        }
#pragma unroll
        for (int j = 0; j < norm_batch; ++j) {
            const int64_t row = r + j * step;
            pack out = {};
            if (row < rows) {
                if constexpr (backward) {
                    out = norm_gradient<E, wide>(job, c, s, px[j], pg[j], pz[j]);
                } else {
                    out = norm_forward<E, wide>(job, c, px[j], pz[j]);
                }
            }
            if (row < job.capacity) {
                to[row * columns] = out;
                if (backward && job.grad_residual)
                    to_residual[row * columns] = pg[j];
            }
        }
    }
}

// Thread blocks stride over all rows of the capacity.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_run_rows(const norm_job &job, const norm_place &at) {
    const int64_t rows = norm_rows(job);
    for (int column = at.x; at.y < at.lines && column < at.columns; column += at.width) {
        norm_run_column<E, wide, backward>(job, column, (int64_t)blockIdx.x * at.lines + at.y,
                                           (int64_t)gridDim.x * at.lines, rows);
    }
}

// grid (parts), all of them at a time
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads, norm_resident(backward))
    norm_kernel(const __grid_constant__ norm_params p) {
    __shared__ norm_shared shared[2 * wide];
    const norm_place at = norm_place_of(p.job.channels / wide);
    pdl_wait();
    norm_sum_part<E, wide, backward>(p, at, shared);
    cooperative_groups::this_grid().sync();
    norm_finish<E, backward>(p, shared);
    cooperative_groups::this_grid().sync();
    norm_run_rows<E, wide, backward>(p.job, at);
}

template <typename E, int wide>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_apply_kernel(const __grid_constant__ norm_job job) {
    const norm_place at = norm_place_of(job.channels / wide);
    pdl_wait();
    norm_run_rows<E, wide, false>(job, at);
}

// A thread is a channel.
SPIRA_PLAIN_KERNEL void __launch_bounds__(norm_threads)
    norm_fold_kernel(const __grid_constant__ norm_job job, float *scale, float *shift) {
    const int channel = (int)(blockIdx.x * norm_threads + threadIdx.x);
    pdl_wait();
    if (channel < job.channels) {
        const float factor =
            rsqrtf(job.var[channel] + job.eps) * (job.weight ? job.weight[channel] : 1.0f);
        scale[channel] = factor;
        shift[channel] = fmaf(-job.mean[channel], factor, job.bias ? job.bias[channel] : 0.0f);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename E, int wide, bool backward>
static status norm_run(const norm_params &p, cudaStream_t stream) {
    launch_config as = {(unsigned)p.parts, norm_threads, stream, "norm"};
    as.cooperative = true;
    return kernel_launch(norm_kernel<E, wide, backward>, as, p);
}

template <typename E, int wide>
static status norm_run_apply(const device_info *info, const norm_job &job, cudaStream_t stream) {
    const int lines = max_of((int)norm_threads * wide / job.channels, 1);
    const int64_t blocks = ceil_div(job.capacity, (int64_t)lines * norm_batch);
    const int64_t most = (int64_t)info->multiprocessors * norm_resident(false) * norm_waves;
    return kernel_launch(norm_apply_kernel<E, wide>,
                         {(unsigned)max_of(min_of(blocks, most), (int64_t)1), norm_threads, stream,
                          "norm", info->programmatic},
                         job);
}

static bool norm_is_wide(const norm_job *job) {
    const void *arrays[] = {job->x,      job->y,      job->residual,     job->grad,
                            job->output, job->grad_x, job->grad_residual};
    for (const void *array : arrays) {
        if ((uintptr_t)array % 16) {
            return false;
        }
    }
    return job->channels % 4 == 0;
}

// Parts: none without rows, and no more than a GPU has thread blocks at a time.
static int norm_parts(const device_info *info, const norm_job *job, int wide, bool backward) {
    const int lines = max_of((int)norm_threads * wide / job->channels, 1);
    const int64_t most = norm_blocks(info, backward);
    return (int)max_of(min_of(ceil_div(job->capacity, (int64_t)lines), most), (int64_t)1);
}

template <bool backward>
static status norm_any(const device_info *info, const norm_job *job, float *slots,
                       stream_ref stream) {
    norm_params p = {};
    p.job = *job;
    p.slots = slots;
    return numeric_dispatch<numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        const bool is_wide = norm_is_wide(job);
        p.parts = norm_parts(info, job, is_wide ? 4 : 1, backward);
        return is_wide ? norm_run<E, 4, backward>(p, stream) : norm_run<E, 1, backward>(p, stream);
    });
}

int64_t norm_slots(const device_info *info, int channels) {
    return (int64_t)info->multiprocessors * norm_resident(false) * 2 * channels;
}

status norm(const device_info *info, const norm_job *job, float *slots, stream_ref stream) {
    return norm_any<false>(info, job, slots, stream);
}

status norm_apply(const device_info *info, const norm_job *job, stream_ref stream) {
    return numeric_dispatch<numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return norm_is_wide(job) ? norm_run_apply<E, 4>(info, *job, stream)
                                 : norm_run_apply<E, 1>(info, *job, stream);
    });
}

status norm_fold(const device_info *info, const norm_job *job, float *scale, float *shift,
                 stream_ref stream) {
    return kernel_launch(norm_fold_kernel<>,
                         {(unsigned)ceil_div(job->channels, (int)norm_threads), norm_threads,
                          stream, "norm", info->programmatic},
                         *job, scale, shift);
}

status norm_backward(const device_info *info, const norm_job *job, float *slots,
                     stream_ref stream) {
    return norm_any<true>(info, job, slots, stream);
}

} // namespace gpu
} // namespace spira_torch
