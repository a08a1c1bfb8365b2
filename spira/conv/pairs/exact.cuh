// spira/conv/pairs/exact.cuh: the kernels in plain multiply-adds, atomic form and stripes: exact
// fp32, and every format on GPUs below sm_80.
//
// A lane computes one output channel; a unit has 8 pairs, whose rows a warp stages in shared memory
// (pairs_exact_add).
#ifndef SPIRA_CONV_PAIRS_EXACT_CUH
#define SPIRA_CONV_PAIRS_EXACT_CUH

#include "../weights.cuh"
#include "stripes.cuh"

namespace spira {

enum { exact_warps = 4, exact_channels = 32, exact_group = 8 };
static_assert((int)exact_channels == (int)conv_exact_out, "a warp reads a block of the weights");

// A lane's weights: of its output channel, for input channel 0 of a source.
struct pairs_exact_weights {
    const float *own;
    int chunk; // floats to the next chunk
};

// Adds the products of 8 pairs of one offset. source: of pair lane % 8, or -1.
template <typename E>
SPIRA_DEVICE void pairs_exact_add(const E *in, int cin, const pairs_exact_weights &weights,
                                  bool tf32, int32_t source, float (*stage)[exact_group],
                                  float (&sum)[exact_group]) {
    int lane = threadIdx.x % 32;
    for (int first = 0; first < cin; first += exact_channels) {
        __syncwarp();
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            int64_t row = __shfl_sync(~0u, source, r);
            bool inside = row >= 0 && first + lane < cin;
            float x = inside ? element_to_float(in[row * cin + first + lane]) : 0.0f;
            stage[lane][r] = tf32 ? __uint_as_float(tf32_bits(x)) : x;
        }
        __syncwarp();
        const int channels = min(cin - first, (int)exact_channels);
        const float *w = weights.own + (int64_t)(first / conv_exact_in) * weights.chunk;
        for (int i = 0; i < channels; ++i) {
            const int chunk = i / conv_exact_in * (weights.chunk - conv_exact_block);
            const float own = w[i * conv_exact_out + chunk];
#pragma unroll
            for (int r = 0; r < exact_group; ++r) {
                sum[r] = fmaf(stage[i][r], own, sum[r]);
            }
        }
    }
}

// Walks from `c` to its end.
//
// sums     row 0, the lane's channel; `pitch` floats to the next row
template <typename E, bool stripes>
SPIRA_DEVICE void pairs_walk_exact(const pairs_params &p, pairs_task &task, pairs_cursor c,
                                   int channel, int32_t rows, float (*stage)[exact_group],
                                   float *sums, int pitch) {
    const int cin = p.conv.cin, cin2 = p.conv.cin2, cout = p.conv.cout;
    const int chunk = conv_exact_chunk(cout), chunks1 = conv_exact_chunks(cin);
    const int64_t offset = (int64_t)(chunks1 + conv_exact_chunks(cin2)) * chunk; // floats
    const float *own = (const float *)p.conv.weights +
                       (channel / conv_exact_out * conv_exact_block + channel % conv_exact_out);
    for (pairs_cursor_step(p, rows, exact_group, c); c.offset >= 0;
         pairs_cursor_step(p, rows, exact_group, c)) {
        int32_t j = c.at + (int)threadIdx.x % exact_group;
        int32_t source = pairs_source(p, c, j), target = pairs_target(p, c, j);
        const float *w = own + c.offset * offset;
        float sum[exact_group] = {0, 0, 0, 0, 0, 0, 0, 0};
        pairs_exact_add((const E *)p.conv.in, cin, {w, chunk}, p.tf32, source, stage, sum);
        if (cin2) {
            pairs_exact_add((const E *)p.conv.in2, cin2, {w + (int64_t)chunks1 * chunk, chunk},
                            p.tf32, source, stage, sum);
        }
        if (stripes) {
            pairs_list_sync(task, c.list);
        }
#pragma unroll
        for (int r = 0; r < exact_group; ++r) {
            uint32_t row = (uint32_t)__shfl_sync(~0u, target, r) - task.first_row;
            float *to = sums + (int64_t)row * pitch;
            if (row < task.rows && channel < cout && stripes) {
                *to += sum[r];
            } else if (row < task.rows && channel < cout) {
                atomicAdd(to, sum[r]);
            }
        }
    }
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps)
    pairs_exact_atomic_kernel(const __grid_constant__ pairs_params p) {
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    const int warp = threadIdx.x / 32, channel = blockIdx.y * exact_channels + threadIdx.x % 32;
    const int32_t rows = pairs_rows(p);
    pairs_task task = {0, (uint32_t)rows, 0, nullptr, 0, 0};
    pairs_cursor c =
        pairs_share(p, (int64_t)blockIdx.x * exact_warps + warp, (int64_t)gridDim.x * exact_warps);
    pairs_walk_exact<E, false>(p, task, c, channel, rows, stages[warp], p.sums + channel, p.pitch);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(32 * exact_warps, 1)
    pairs_exact_stripe_kernel(const __grid_constant__ pairs_params p) {
    extern __shared__ __align__(128) char pairs_memory[];
    __shared__ __align__(16) float stages[exact_warps][exact_channels][exact_group];
    __shared__ pairs_stripe stripe;
    const int warp = threadIdx.x / 32, channel = blockIdx.y * exact_channels + threadIdx.x % 32;
    const int32_t rows = pairs_rows(p);
    const int64_t first_row = (int64_t)blockIdx.x * p.stripe;
    const int count = (int)min_of(rows - first_row, p.stripe);
    float *own = (float *)pairs_memory + threadIdx.x % 32, *far = p.sums + first_row * p.pitch;
    const bool inside = channel < p.conv.cout;
    if (count <= 0) {
        return;
    }

    // Start from zero, or from sums in global memory.
    for (int r = warp; r < count; r += exact_warps) {
        own[r * exact_channels] =
            p.from_sums && inside ? far[(int64_t)r * p.pitch + channel] : 0.0f;
    }

    // Add the products of all pairs.
    pairs_task task = {(uint32_t)first_row, (uint32_t)count, 0, nullptr, 0, 0};
    pairs_stripe_walk(
        p, rows, warp, true, task, &stripe, [&](pairs_task &t, const pairs_cursor &c) {
            pairs_walk_exact<E, true>(p, t, c, channel, rows, stages[warp], own, exact_channels);
        });

    // Write sums or outputs.
    const E *residual = (const E *)p.conv.residual;
    for (int r = warp; r < count && inside; r += exact_warps) {
        int64_t to = (first_row + r) * p.conv.cout + channel;
        if (p.to_sums) {
            far[(int64_t)r * p.pitch + channel] = own[r * exact_channels];
            continue;
        }
        float extra = residual ? element_to_float(residual[to]) : 0.0f;
        ((E *)p.conv.out)[to] = element_from_float<E>(
            epilogue_apply(own[r * exact_channels], &p.conv.epilogue, channel, extra));
    }
}

} // namespace spira

#endif
