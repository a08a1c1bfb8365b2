// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow/kernel.cuh: the narrow kernel (conv/narrow.cuh): epilogue and kernel.
#ifndef SPIRA_CONV_NARROW_KERNEL_CUH
#define SPIRA_CONV_NARROW_KERNEL_CUH

#include "walk.cuh"

#include <type_traits>

namespace spira {

// ---- shared memory ------------------------------------------------------------------------------

// Of a warp. A warp that hands over its accumulators writes `at`, each lane where its own words of
// narrow_warm are: others may still be on their way.
template <typename E, int halves>
struct narrow_shared {
    typename numeric_sum<E>::type at[narrow_groups * halves * 4][32];
};

// ---- epilogue -----------------------------------------------------------------------------------

// What a lane finishes: four channels of `rows` outputs.
template <typename E, int rows>
struct narrow_outputs {
    int32_t row[rows];                  // -1: none
    uint32_t residual[rows][sizeof(E)]; // where it is aligned, of the format of the features
    conv_output vectors;
};

// Whether the outputs of a layer with formats of its own are finished with few instructions: they
// are int8, and the residual has the format of the features.
template <typename E>
SPIRA_DEVICE bool narrow_is_plain(const conv_params &p) {
    constexpr numeric type = sizeof(E) == 1                   ? numeric_i8
                             : std::is_same<E, __half>::value ? numeric_f16
                                                              : numeric_bf16;
    const conv_quantisation &q = p.quantisation;
    return q.out_type == numeric_i8 && (!p.residual || q.residual_type == type);
}

// The first place of a lane's outputs. column: one of `halves` columns of which the lane has
// outputs.
template <int halves>
SPIRA_DEVICE int narrow_place(int first, int column) {
    const int lane = threadIdx.x % 32;
    return first + (lane % 4 * 2 + (halves == 1 ? lane / 4 % 2 : column)) * narrow_groups;
}

// Loads what the epilogue needs besides the sums; the residual only where it is aligned. mixed: it
// may have another format
template <bool mixed, int halves, typename E>
SPIRA_DEVICE void narrow_outputs_load(const conv_params &p, int first, int outputs,
                                      narrow_outputs<E, narrow_groups * halves> &to) {
    enum { element = sizeof(E) };
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
    const char *residual = (const char *)p.residual + channel * element;
    const bool plain = p.wide_out && (!mixed || narrow_is_plain<E>(p));
#pragma unroll
    for (int i = 0; i < narrow_groups * halves; ++i) {
        const bool there = p.residual && plain && to.row[i] >= 0;
        narrow_load_row(to.residual[i],
                        narrow_row(residual, to.row[i], (uint32_t)p.pitch_out * element), there);
    }
    to.vectors = conv_output_of(p, channel);
    if constexpr (element == 1) {
        float4 &scale = to.vectors.affine.scale;
        float *const by[4] = {&scale.x, &scale.y, &scale.z, &scale.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            *by[i] *= channel + i < p.cout ? p.quantisation.step[channel + i] : 1.0f;
        }
    }
}

// 32 output channels: a lane has four of each of its columns.
template <typename E>
SPIRA_DEVICE void narrow_quads(const narrow_sums<E, 2> &sum, float4 (&to)[2 * narrow_groups]) {
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const auto *low = sum.at[j][0], *high = sum.at[j][1];
        to[j] = make_float4((float)low[0], (float)low[2], (float)high[0], (float)high[2]);
        to[narrow_groups + j] =
            make_float4((float)low[1], (float)low[3], (float)high[1], (float)high[3]);
    }
}

// 16 output channels: a lane has two of each of its columns. Two lanes exchange them, so that each
// has four of one column.
template <typename E>
SPIRA_DEVICE void narrow_quads(const narrow_sums<E, 1> &sum, float4 (&to)[narrow_groups]) {
    const int odd = threadIdx.x / 4 & 1;
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const auto *s = sum.at[j][0];
        const float own[4] = {(float)s[0], (float)s[1], (float)s[2], (float)s[3]};
        const float x = __shfl_xor_sync(~0u, odd ? own[0] : own[1], 4);
        const float y = __shfl_xor_sync(~0u, odd ? own[2] : own[3], 4);
        to[j] = odd ? make_float4(x, y, own[1], own[3]) : make_float4(own[0], own[2], x, y);
    }
}

// Finishes the outputs with few instructions: aligned, without initial sums, and with an activation
// that is a bound. A residual that is not there is zero. O: what is stored.
template <typename E, typename O, int rows>
SPIRA_DEVICE void narrow_store_plain(const conv_params &p, const narrow_outputs<E, rows> &f,
                                     const float4 (&sum)[rows]) {
    char *const out = (char *)p.out + f.vectors.channel * (int)sizeof(O);
    const uint32_t pitch = (uint32_t)p.pitch_out * (int)sizeof(O);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        if (f.row[i] >= 0) {
            const auto residual = bytes_as<conv_quad<E>>(f.residual[i]);
            const auto q = conv_finish<E, true, O>(p, f.vectors.affine, sum[i], true, residual);
            *(conv_quad<O> *)(out + conv_multiply_wide((uint32_t)f.row[i], pitch)) = q;
        }
    }
}

// Finishes any outputs: in a loop in which rows and sums move down through their registers. The
// code is small since every kernel's code has to be compiled and fetched.
template <bool mixed, typename E, int rows>
SPIRA_DEVICE void narrow_store_any(const conv_params &p, narrow_outputs<E, rows> &f,
                                   float4 (&sum)[rows]) {
    const int pitch = conv_sums_pitch(p.cout);
#pragma unroll
    for (int i = 0; i < rows && sizeof(E) > 1 && p.sums; ++i) { // loaded together
        if (f.row[i] >= 0) {
            const int64_t at = (int64_t)f.row[i] * pitch + f.vectors.channel;
            const float4 v = conv_sums_fetch(p.sums + at, p.cout - f.vectors.channel);
            sum[i] = make_float4(v.x + sum[i].x, v.y + sum[i].y, v.z + sum[i].z, v.w + sum[i].w);
        }
    }
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
        if (f.row[0] >= 0) {
            if constexpr (mixed) {
                conv_output_store_mixed(p, f.vectors, f.row[0], sum[0]);
            } else {
                conv_output_store<E>(p, f.vectors, f.row[0], sum[0]);
            }
        }
#pragma unroll
        for (int j = 0; j + 1 < rows; ++j) {
            f.row[j] = f.row[j + 1];
            sum[j] = sum[j + 1];
        }
    }
}

template <bool mixed, typename E, int halves>
SPIRA_DEVICE void narrow_finish(const conv_params &p, narrow_outputs<E, narrow_groups * halves> &f,
                                const narrow_sums<E, halves> &sum) {
    float4 quad[narrow_groups * halves];
    narrow_quads(sum, quad);
    if (p.wide_out && !p.sums && activation_is_bound(p.epilogue.act) &&
        (!mixed || narrow_is_plain<E>(p))) {
        narrow_store_plain<E, std::conditional_t<mixed, int8_t, E>>(p, f, quad);
    } else {
        narrow_store_any<mixed>(p, f, quad);
    }
}

// ---- kernel -------------------------------------------------------------------------------------

// Adds the accumulators of the warps that share places to those of the first, in a fixed order. All
// threads of the thread block call this.
template <typename E, int halves>
SPIRA_DEVICE void narrow_join(int split, int share, narrow_shared<E, halves> *shared,
                              narrow_sums<E, halves> &sum) {
    enum { count = narrow_groups * halves * 4 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto *own = &sum.at[0][0][0];
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

template <typename E, int fold, int steps, int halves, bool wide, bool formats = false>
SPIRA_KERNEL void __launch_bounds__(narrow_threads, narrow_resident(steps, halves, wide, sizeof(E)))
    narrow_kernel(const __grid_constant__ conv_params p) {
#if SPIRA_MMA
    enum { places = 8 * narrow_groups, each = narrow_pair / places }; // of a warp; warps of a pair
    enum { shares = narrow_resident(steps, halves, wide, sizeof(E)) };
    constexpr bool mixed = formats || sizeof(E) == 1; // residual and output: formats of their own
    // ---- warm the cache
    // narrow_warm loads into each thread's own words, so that it waits for no other thread.
    __shared__ narrow_shared<E, halves> shared[narrow_warps];
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
    narrow_sums<E, halves> sum = {};
#pragma unroll 1
    for (int begin = 0; begin < p.volume && first < outputs; begin += narrow_scope) {
        narrow_accumulate<E, fold, steps, halves, wide>(p, first, outputs, begin, share, sum);
    }
    // ---- finish
    narrow_outputs<E, narrow_groups * halves> finished;
    async_copy_wait();
    if (finishes) {
        narrow_outputs_load<mixed, halves>(p, first, outputs, finished);
    }
    if (split > 1) {
        narrow_join(split, share, shared, sum);
    }
    if (finishes) {
        narrow_finish<mixed>(p, finished, sum);
    }
    pdl_wait(); // for warps without outputs
#endif
}

} // namespace spira

#endif
