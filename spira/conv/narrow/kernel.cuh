// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow/kernel.cuh: the narrow kernel (conv/narrow.cuh): epilogue and kernel.
#ifndef SPIRA_CONV_NARROW_KERNEL_CUH
#define SPIRA_CONV_NARROW_KERNEL_CUH

#include "walk.cuh"

namespace spira {

// ---- shared memory ------------------------------------------------------------------------------

// Of a warp. A warp that hands over its accumulators writes `at`, each lane where its own words of
// narrow_warm are: others may still be on their way.
template <int halves>
struct narrow_shared {
    float at[narrow_groups * halves * 4][32];
};

// ---- epilogue -----------------------------------------------------------------------------------

// What a lane finishes: four channels of `rows` outputs.
template <int rows>
struct narrow_outputs {
    int32_t row[rows];          // -1: none
    uint32_t residual[rows][2]; // 16 bits each, where it is aligned
    conv_output vectors;
};

// The first place of a lane's outputs. column: one of `halves` columns of which the lane has
// outputs.
template <int halves>
SPIRA_DEVICE int narrow_place(int first, int column) {
    const int lane = threadIdx.x % 32;
    return first + (lane % 4 * 2 + (halves == 1 ? lane / 4 % 2 : column)) * narrow_groups;
}

// Loads what the epilogue needs besides the sums; the residual only where it is aligned.
template <int halves>
SPIRA_DEVICE void narrow_outputs_load(const conv_params &p, int first, int outputs,
                                      narrow_outputs<narrow_groups * halves> &to) {
    const int lane = threadIdx.x % 32, channel = (halves == 1 ? lane / 8 : lane / 4) * 4;
    int32_t row[halves][narrow_groups];
#pragma unroll
    for (int c = 0; c < halves && p.order.row; ++c) {
        narrow_load_once(row[c], p.order.row + narrow_place<halves>(first, c), 0);
    }
#pragma unroll
    for (int i = 0; i < narrow_groups * halves; ++i) {
        const int c = i / narrow_groups, place = narrow_place<halves>(first, c) + i % narrow_groups;
        const bool inside = place < outputs && channel < p.cout;
        to.row[i] = !inside ? -1 : p.order.row ? row[c][i % narrow_groups] : place;
    }
    const char *residual = (const char *)p.residual + channel * narrow_element;
#pragma unroll
    for (int i = 0; i < narrow_groups * halves; ++i) {
        const bool there = p.residual && p.wide_out && to.row[i] >= 0;
        narrow_load_row(to.residual[i],
                        narrow_row(residual, to.row[i], (uint32_t)p.cout * narrow_element), there);
    }
    to.vectors = conv_output_of(p, channel);
}

// 32 output channels: a lane has four of each of its columns.
SPIRA_DEVICE void narrow_quads(const narrow_sums<2> &sum, float4 (&to)[2 * narrow_groups]) {
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const float *low = sum.at[j][0], *high = sum.at[j][1];
        to[j] = make_float4(low[0], low[2], high[0], high[2]);
        to[narrow_groups + j] = make_float4(low[1], low[3], high[1], high[3]);
    }
}

// 16 output channels: a lane has two of each of its columns. Two lanes exchange them, so that each
// has four of one column.
SPIRA_DEVICE void narrow_quads(const narrow_sums<1> &sum, float4 (&to)[narrow_groups]) {
    const int odd = threadIdx.x / 4 & 1;
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const float *own = sum.at[j][0];
        const float x = __shfl_xor_sync(~0u, odd ? own[0] : own[1], 4);
        const float y = __shfl_xor_sync(~0u, odd ? own[2] : own[3], 4);
        to[j] = odd ? make_float4(x, y, own[1], own[3]) : make_float4(own[0], own[2], x, y);
    }
}

// Finishes the outputs with few instructions: aligned, without initial sums, and with an activation
// that is a bound. A residual that is not there is zero.
template <typename E, int rows>
SPIRA_DEVICE void narrow_store_plain(const conv_params &p, const narrow_outputs<rows> &f,
                                     const float4 (&sum)[rows]) {
    char *const out = (char *)p.out + f.vectors.channel * narrow_element;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if (f.row[i] >= 0) {
            const conv_quad<E> residual =
                bytes_as<conv_quad<E>>(make_uint2(f.residual[i][0], f.residual[i][1]));
            const conv_quad<E> q =
                conv_finish<E, true>(p, f.vectors.affine, sum[i], true, residual);
            const uint32_t pitch = (uint32_t)p.cout * narrow_element;
            *(conv_quad<E> *)(out + conv_multiply_wide((uint32_t)f.row[i], pitch)) = q;
        }
    }
}

// Finishes any outputs: in a loop in which rows and sums move down through their registers. The
// code is small since every kernel's code has to be compiled and fetched.
template <typename E, int rows>
SPIRA_DEVICE void narrow_store_any(const conv_params &p, narrow_outputs<rows> &f,
                                   float4 (&sum)[rows]) {
    const int pitch = conv_sums_pitch(p.cout);
#pragma unroll
    for (int i = 0; i < rows && p.sums; ++i) { // loaded together
        if (f.row[i] >= 0) {
            const int64_t at = (int64_t)f.row[i] * pitch + f.vectors.channel;
            const float4 v = conv_sums_fetch(p.sums + at, p.cout - f.vectors.channel);
            sum[i] = make_float4(v.x + sum[i].x, v.y + sum[i].y, v.z + sum[i].z, v.w + sum[i].w);
        }
    }
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
        if (f.row[0] >= 0) {
            conv_output_store<E>(p, f.vectors, f.row[0], sum[0]);
        }
#pragma unroll
        for (int j = 0; j + 1 < rows; ++j) {
            f.row[j] = f.row[j + 1];
            sum[j] = sum[j + 1];
        }
    }
}

template <typename E, int halves>
SPIRA_DEVICE void narrow_finish(const conv_params &p, narrow_outputs<narrow_groups * halves> &f,
                                const narrow_sums<halves> &sum) {
    float4 quad[narrow_groups * halves];
    narrow_quads(sum, quad);
    if (p.wide_out && !p.sums && activation_is_bound(p.epilogue.act)) {
        narrow_store_plain<E>(p, f, quad);
    } else {
        narrow_store_any<E>(p, f, quad);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

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
#pragma unroll 1 // code is fetched anew for each layer
    for (int other = 1; other < split && share == 0; ++other) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            own[i] += shared[warp + other].at[i][lane];
        }
    }
}

template <typename E, int fold, int steps, int halves, bool wide>
SPIRA_KERNEL void __launch_bounds__(narrow_threads, narrow_resident(steps, halves, wide))
    narrow_kernel(const __grid_constant__ conv_params p) {
#if SPIRA_MMA
    enum { places = 8 * narrow_groups, each = narrow_pair / places }; // of a warp; warps of a pair
    enum { shares = narrow_resident(steps, halves, wide) };
    // ---- warm the cache
    // narrow_warm loads into each thread's own words, so that it waits for no other thread.
    __shared__ narrow_shared<halves> shared[narrow_warps];
    static_assert(narrow_warm_loads(shares) <= sizeof shared->at / sizeof *shared->at,
                  "room for narrow_warm");
    narrow_warm<shares>(p, p.volume * steps * halves * narrow_weight_bytes(narrow_fold_of<fold>(p)),
                        shared_address(&shared[threadIdx.x / 32].at[0][threadIdx.x % 32]));
    if (!p.programmatic) {
        pdl_wait();
    }
    // ---- find the warp's places
    int outputs = count_clamp(*p.count, p.capacity);
    asm volatile("" : "+r"(outputs)); // otherwise count is kept as well
    const int split = p.sizes.split;  // 1, 2 or 4
    const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), share = warp & (split - 1);
    const int unit = ((int)blockIdx.x * narrow_warps + warp) >> (split >> 1), pair = unit / each;
    int first = outputs;
    if (pair * narrow_pair < outputs) {
        first = (p.order.row ? __ldg(p.order.schedule + pair) : pair) * narrow_pair +
                unit % each * places;
    }
    const bool finishes = first < outputs && share == 0;
    // ---- multiply
    narrow_sums<halves> sum = {};
#pragma unroll 1
    for (int begin = 0; begin < p.volume && first < outputs; begin += narrow_scope) {
        narrow_accumulate<E, fold, steps, halves, wide>(p, first, outputs, begin, share, sum);
    }
    // ---- finish
    narrow_outputs<narrow_groups * halves> finished;
    async_copy_wait();
    if (finishes) {
        narrow_outputs_load<halves>(p, first, outputs, finished);
    }
    if (split > 1) {
        narrow_join<halves>(split, share, shared, sum);
    }
    if (finishes) {
        narrow_finish<E, halves>(p, finished, sum);
    }
    pdl_wait(); // for warps without outputs
#endif
}

} // namespace spira

#endif
