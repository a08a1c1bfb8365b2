// spira/conv/narrow/kernel.cuh: the narrow kernel (conv/narrow.cuh): epilogue and kernel.
#ifndef SPIRA_CONV_NARROW_KERNEL_CUH
#define SPIRA_CONV_NARROW_KERNEL_CUH

#include "walk.cuh"

namespace spira {

// ---- epilogue -----------------------------------------------------------------------------------

// What a lane finishes: four channels of `rows` outputs.
template <int rows>
struct narrow_finished {
    int32_t row[rows]; // -1: none
    float4 sum[rows];
    int channel; // the first of four
};

// Loads the output rows of some places.
SPIRA_DEVICE void narrow_outputs_load(const conv_tensor_params &p, int place, int outputs,
                                      int32_t *row) {
    int32_t own[narrow_groups];
#pragma unroll
    for (int i = 0; i < narrow_groups; ++i) {
        own[i] = place + i;
    }
    if (p.order.row) {
        narrow_load_once(own, p.order.row + place, 0);
    }
#pragma unroll
    for (int i = 0; i < narrow_groups; ++i) {
        row[i] = place + i < outputs ? own[i] : -1;
    }
}

// 32 output channels: a lane has four of each of its columns.
SPIRA_DEVICE void narrow_quads(const narrow_sums<2> &sum, narrow_finished<2 * narrow_groups> &to) {
    to.channel = (int)(threadIdx.x % 32 / 4 * 4);
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const float *low = sum.at[j][0], *high = sum.at[j][1];
        to.sum[j] = make_float4(low[0], low[2], high[0], high[2]);
        to.sum[narrow_groups + j] = make_float4(low[1], low[3], high[1], high[3]);
    }
}

// 16 output channels: a lane has two of each of its columns. Two lanes exchange them, so that each
// has four of one column.
SPIRA_DEVICE void narrow_quads(const narrow_sums<1> &sum, narrow_finished<narrow_groups> &to) {
    const int g = (int)(threadIdx.x % 32 / 4), odd = g & 1;
    to.channel = g / 2 * 4;
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const float *own = sum.at[j][0];
        const float x = __shfl_xor_sync(~0u, odd ? own[0] : own[1], 4);
        const float y = __shfl_xor_sync(~0u, odd ? own[2] : own[3], 4);
        to.sum[j] = odd ? make_float4(x, y, own[1], own[3]) : make_float4(own[0], own[2], x, y);
    }
}

// Loads the residuals of all rows before it stores the first output: a load behind a store would
// wait for the load in front of it.
template <typename E, bool wide, int rows>
SPIRA_DEVICE void narrow_store(const conv_tensor_params &p, const narrow_finished<rows> &f) {
    const conv_output output = conv_output_of(p, f.channel);
    conv_quad<E> extra[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if (f.row[i] >= 0) {
            extra[i] = conv_residual_load<E, wide>(p, output, f.row[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if (f.row[i] >= 0) {
            conv_output_finish<E, wide>(p, output, f.row[i], f.sum[i], extra[i]);
        }
    }
}

template <typename E, int halves>
SPIRA_DEVICE void narrow_finish(const conv_tensor_params &p, int first, int outputs,
                                const narrow_sums<halves> &sum) {
    enum { groups = narrow_groups, rows = groups * halves };
    const int lane = threadIdx.x % 32;
    narrow_finished<rows> f;
    narrow_quads(sum, f);
    const int column = lane % 4 * 2 + (halves == 1 ? lane / 4 % 2 : 0);
#pragma unroll
    for (int c = 0; c < halves; ++c) {
        narrow_outputs_load(p, first + (column + c) * groups, outputs, f.row + c * groups);
    }
    if (f.channel >= p.cout) {
        return;
    }
    if (p.wide_out) {
        narrow_store<E, true>(p, f);
    } else {
        narrow_store<E, false>(p, f);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// A warp's accumulators in shared memory.
template <int halves>
struct narrow_shared {
    float at[narrow_groups * halves * 4][32];
};

// Adds the accumulators of the warps that share places to those of the first, in a fixed order. All
// threads of the thread block call this.
template <int halves>
SPIRA_DEVICE void narrow_join(int split, int share, narrow_shared<halves> *shared,
                              narrow_sums<halves> &sum) {
    enum { count = narrow_groups * halves * 4 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *own = &sum.at[0][0][0];
#pragma unroll
    for (int i = 0; i < count && share; ++i) {
        shared[warp].at[i][lane] = own[i];
    }
    __syncthreads();
    for (int other = 1; other < split && share == 0; ++other) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            own[i] += shared[warp + other].at[i][lane];
        }
    }
}

template <typename E, int steps, int halves, bool wide>
SPIRA_KERNEL void __launch_bounds__(narrow_threads, narrow_resident(steps, halves, wide))
    narrow_kernel(const __grid_constant__ conv_tensor_params p) {
#if SPIRA_MMA
    enum { places = 8 * narrow_groups, each = narrow_pair / places }; // of a warp; warps of a pair
    enum { shares = narrow_resident(steps, halves, wide) };
    // ---- warm the cache
    // narrow_warm loads into each thread's own words, so that it waits for no other thread.
    __shared__ narrow_shared<halves> shared[narrow_warps];
    static_assert(narrow_warm_loads(shares) <= sizeof shared->at / sizeof *shared->at,
                  "room for narrow_warm");
    narrow_warm<shares>(p, p.volume * narrow_offset_bytes(steps, halves),
                        shared_address(&shared[threadIdx.x / 32].at[0][threadIdx.x % 32]));
    if (!p.programmatic) {
        pdl_wait();
    }
    // ---- find the warp's places
    const int outputs = min(*p.count, p.capacity), split = p.size.split;
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), share = warp % split;
    const int unit = ((int)blockIdx.x * narrow_warps + warp) / split, pair = unit / each;
    int first = outputs;
    if (pair * narrow_pair < outputs) {
        first = (p.order.row ? __ldg(p.order.schedule + pair) : pair) * narrow_pair +
                unit % each * places;
    }
    // ---- multiply
    narrow_sums<halves> sum = {};
#pragma unroll 1
    for (int begin = 0; begin < p.volume && first < outputs; begin += narrow_scope) {
        narrow_accumulate<E, steps, halves, wide>(p, first, outputs, begin, share, sum);
    }
    // ---- finish
    async_copy_wait();
    if (split > 1) {
        narrow_join<halves>(split, share, shared, sum);
    }
    if (first < outputs && share == 0) {
        narrow_finish<E, halves>(p, first, outputs, sum);
    }
    pdl_wait(); // for warps without outputs
#endif
}

} // namespace spira

#endif
