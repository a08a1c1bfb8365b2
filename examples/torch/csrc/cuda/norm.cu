// examples/torch/csrc/cuda/norm.cu: the kernels of norm.h.
//
// Each direction is three kernels: two sums of each channel over a part of the rows for each thread
// block; the sums of the parts; and the rows themselves.
#include "../norm.h"

#include "spira/base/launch.cuh"
#include "spira/numeric.cuh"

namespace spira_torch {
namespace gpu {

using namespace spira;

enum { norm_threads = 256, norm_resident = 4, norm_batch = 4 };

template <typename E, int wide>
struct alignas(sizeof(E) * wide) norm_pack {
    E v[wide];
};

struct norm_params {
    norm_job job;
    float *slots; // [parts, 2, channels]
    int parts;
};

// What is summed. Forward: x - x of the first row, and its square. Backward: the gradient, and its
// product with the normalised x.
template <bool backward>
SPIRA_DEVICE void norm_terms(float x, float g, float centre, float invstd, float *a, float *b) {
    if (backward) {
        *a += g;
        *b += g * ((x - centre) * invstd);
    } else {
        *a += x - centre;
        *b += (x - centre) * (x - centre);
    }
}

SPIRA_DEVICE int64_t norm_rows(const norm_job &job) {
    return max_of(min_of((int64_t)*job.count, job.capacity), (int64_t)0);
}

// Rows [part * each, end) of one column of packs; the threads of a block are `lines` rows.
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_column(const norm_job &job, int column, int64_t first, int64_t end,
                              int lines, float (&a)[wide], float (&b)[wide]) {
    typedef norm_pack<E, wide> pack;
    const int columns = job.channels / wide;
    const pack *x = (const pack *)job.x + column, *g = (const pack *)job.grad + column;
    float centre[wide], invstd[wide];
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        centre[i] = backward ? job.mean[column * wide + i] : element_to_float(x[0].v[i]);
        invstd[i] = backward ? job.invstd[column * wide + i] : 1.0f;
    }
    for (int64_t r = first; r < end; r += lines * norm_batch) {
        pack px[norm_batch], pg[norm_batch]; // loaded together; past the last, the last again
#pragma unroll
        for (int j = 0; j < norm_batch; ++j) {
            const int64_t row = min_of(r + (int64_t)j * lines, end - 1) * columns;
            px[j] = x[row];
            if (backward)
                pg[j] = g[row];
        }
#pragma unroll
        for (int j = 0; j < norm_batch; ++j) {
#pragma unroll
            for (int i = 0; i < wide; ++i) {
                if (r + (int64_t)j * lines < end) {
                    norm_terms<backward>(element_to_float(px[j].v[i]),
                                         backward ? element_to_float(pg[j].v[i]) : 0.0f, centre[i],
                                         invstd[i], &a[i], &b[i]);
                }
            }
        }
    }
}

// grid (parts): slots [part, 2, channels]
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_sums_kernel(const __grid_constant__ norm_params p) {
    __shared__ float shared[2 * wide][norm_threads];
    const int columns = p.job.channels / wide, width = (int)min_of(columns, (int)norm_threads);
    const int lines = norm_threads / width, part = (int)blockIdx.x;
    const int x = (int)threadIdx.x % width, y = (int)threadIdx.x / width;
    const int64_t rows = norm_rows(p.job), each = (rows + p.parts - 1) / p.parts;
    const int64_t first = part * each, end = min_of(first + each, rows);
    for (int from = 0; from < columns; from += width) {
        const int column = from + x;
        float a[wide] = {}, b[wide] = {};
        if (y < lines && column < columns && first + y < end) {
            norm_column<E, wide, backward>(p.job, column, first + y, end, lines, a, b);
        }
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            shared[i][threadIdx.x] = a[i];
            shared[wide + i][threadIdx.x] = b[i];
        }
        __syncthreads();
        for (int s = (int)threadIdx.x; s < 2 * wide * width; s += norm_threads) {
            const int sum = s / (wide * width), channel = s % (wide * width);
            float total = 0.0f;
            for (int line = 0; line < lines; ++line) {
                total += shared[sum * wide + channel % wide][line * width + channel / wide];
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
    const float variance = n > 0.0f ? fmaxf(b / n - shift * shift, 0.0f) : 0.0f;
    job.mean[channel] = centre + shift;
    job.invstd[channel] = rsqrtf(variance + job.eps);
    if (job.running_mean && n > 0.0f) {
        const float unbiased = variance * n / fmaxf(n - 1.0f, 1.0f);
        job.running_mean[channel] += job.momentum * (centre + shift - job.running_mean[channel]);
        job.running_var[channel] += job.momentum * (unbiased - job.running_var[channel]);
    }
}

// A thread block adds up 32 channels: warp w the parts w, w + 8, ...
template <typename E, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_finish_kernel(const __grid_constant__ norm_params p) {
    enum { warps = norm_threads / 32 };
    __shared__ float shared[2][warps][32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int channels = p.job.channels, channel = (int)blockIdx.x * 32 + lane;
    float a = 0.0f, b = 0.0f;
    if (channel < channels) {
#pragma unroll 8
        for (int part = warp; part < p.parts; part += warps) {
            a += p.slots[(int64_t)part * 2 * channels + channel];
            b += p.slots[((int64_t)part * 2 + 1) * channels + channel];
        }
    }
    shared[0][warp][lane] = a;
    shared[1][warp][lane] = b;
    __syncthreads();
    if (warp == 0 && channel < channels) {
        for (int i = 1; i < warps; ++i) {
            a += shared[0][i][lane];
            b += shared[1][i][lane];
        }
        norm_channel<E, backward>(p.job, channel, a, b);
    }
}

// One pack of a row: y, or the gradient of x.
template <typename E, int wide, bool backward>
SPIRA_DEVICE norm_pack<E, wide> norm_apply(const norm_job &job, int channel,
                                           const norm_pack<E, wide> &x, const norm_pack<E, wide> &g,
                                           float inverse_n) {
    norm_pack<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const int c = channel + i;
        const float weight = job.weight ? job.weight[c] : 1.0f, invstd = job.invstd[c];
        const float normal = (element_to_float(x.v[i]) - job.mean[c]) * invstd;
        float value;
        if (backward) {
            const float sums = job.bias_grad[c] + normal * job.weight_grad[c];
            value = weight * invstd * (element_to_float(g.v[i]) - sums * inverse_n);
        } else {
            value = normal * weight + (job.bias ? job.bias[c] : 0.0f);
        }
        out.v[i] = element_from_float<E>(value);
    }
    return out;
}

// Threads stride over the packs of all rows of the capacity; zeros from the count on.
template <typename E, int wide, bool backward>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_rows_kernel(const __grid_constant__ norm_params p) {
    typedef norm_pack<E, wide> pack;
    const norm_job &job = p.job;
    const int columns = job.channels / wide;
    const int64_t rows = norm_rows(job), all = job.capacity * columns;
    const int64_t step = (int64_t)gridDim.x * norm_threads;
    const float inverse_n = rows ? 1.0f / (float)rows : 0.0f;
    const pack *x = (const pack *)job.x, *g = (const pack *)job.grad;
    pack *to = (pack *)(backward ? job.grad_x : job.y);
    for (int64_t i = (int64_t)blockIdx.x * norm_threads + threadIdx.x; i < all; i += step) {
        pack out = {};
        if (i < rows * columns) {
            const int channel = (int)(i % columns) * wide;
            out = norm_apply<E, wide, backward>(job, channel, x[i], backward ? g[i] : x[i],
                                                inverse_n);
        }
        to[i] = out;
    }
}

template <typename E, int wide, bool backward>
static status norm_run(const norm_params &p, cudaStream_t stream) {
    const unsigned finish = (unsigned)ceil_div(p.job.channels, 32);
    const int64_t packs = p.job.capacity * (p.job.channels / wide);
    const int64_t blocks = ceil_div(packs, (int64_t)norm_threads * 2);
    SPIRA_TRY(kernel_launch(norm_sums_kernel<E, wide, backward>, (unsigned)p.parts, norm_threads, 0,
                            false, 1, stream, "norm", p));
    SPIRA_TRY(kernel_launch(norm_finish_kernel<E, backward>, finish, norm_threads, 0, false, 1,
                            stream, "norm", p));
    return kernel_launch(norm_rows_kernel<E, wide, backward>,
                         (unsigned)max_of(min_of(blocks, (int64_t)p.parts * 4), (int64_t)1),
                         norm_threads, 0, false, 1, stream, "norm", p);
}

static bool norm_is_wide(const norm_job *job) {
    const void *arrays[] = {job->x, job->y, job->grad, job->grad_x};
    for (const void *array : arrays) {
        if ((uintptr_t)array % 16) {
            return false;
        }
    }
    return job->channels % 4 == 0;
}

template <bool backward>
static status norm_any(const device_info *info, const norm_job *job, float *slots,
                       stream_ref stream) {
    norm_params p = {};
    p.job = *job;
    p.slots = slots;
    p.parts = info->multiprocessors * norm_resident;
    return numeric_dispatch<numeric_any>(job->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return norm_is_wide(job) ? norm_run<E, 4, backward>(p, stream)
                                 : norm_run<E, 1, backward>(p, stream);
    });
}

int64_t norm_slots(const device_info *info, int channels) {
    return (int64_t)info->multiprocessors * norm_resident * 2 * channels;
}

status norm(const device_info *info, const norm_job *job, float *slots, stream_ref stream) {
    return norm_any<false>(info, job, slots, stream);
}

status norm_backward(const device_info *info, const norm_job *job, float *slots,
                     stream_ref stream) {
    return norm_any<true>(info, job, slots, stream);
}

} // namespace gpu
} // namespace spira_torch
