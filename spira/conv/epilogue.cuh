// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/epilogue.cuh: from the sums of an output to its channels: initial sums, scale and
// shift, residual, activation, one rounding. narrow/, pairs/ and gemm/ finish four neighbouring
// channels at a time (conv_output); hopper/ and portable/ have epilogues of their own over the same
// functions, with scale and shift in shared memory.
#ifndef SPIRA_CONV_EPILOGUE_CUH
#define SPIRA_CONV_EPILOGUE_CUH

#include "params.cuh"

namespace spira {

SPIRA_DEVICE float conv_max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
#else
    return a != a || a > b ? a : b;
#endif
}

// The lower bound of ReLU, otherwise -infinity, so that one instruction serves all activations that
// are a bound.
SPIRA_DEVICE float conv_bound(const conv_epilogue &e) {
    return e.act == activation_relu ? 0.0f : -INFINITY;
}

// Activations that take more than a multiplication. Not inlined: an epilogue has many places that
// apply its activation, and with this code in each of them kernels were twice as large.
[[maybe_unused]] static __device__ __noinline__ float conv_activate_curved(float x,
                                                                           activation act) {
    return activation_apply(x, act, 0.0f);
}

// The activation. bound: conv_bound
SPIRA_DEVICE float conv_activate(const conv_epilogue &e, float bound, float x) {
    x = conv_max_nan(x, bound);
    if (e.act > activation_leaky) {
        return conv_activate_curved(x, e.act);
    }
    return activation_is_bound(e.act) ? x : activation_apply(x, activation_leaky, e.slope);
}

template <activation act>
SPIRA_DEVICE float4 conv_activate_as(float4 x) {
    return make_float4(activation_apply(x.x, act, 0.0f), activation_apply(x.y, act, 0.0f),
                       activation_apply(x.z, act, 0.0f), activation_apply(x.w, act, 0.0f));
}

[[maybe_unused]] static __device__ __noinline__ float4 conv_activate_curved_4(float4 x,
                                                                              activation act) {
    static_assert(activation_count == activation_gelu_tanh + 1, "one that is not listed here");
    return act == activation_silu   ? conv_activate_as<activation_silu>(x)
           : act == activation_gelu ? conv_activate_as<activation_gelu>(x)
                                    : conv_activate_as<activation_gelu_tanh>(x);
}

// Applies what is more than a bound to `count` numbers, four side by side, so that they do not wait
// for one another: where a kernel has the registers (those of groups, wide, would spill).
template <int count>
SPIRA_DEVICE void conv_activate_beyond(const conv_epilogue &e, float *v) {
    if (e.act > activation_leaky) {
#pragma unroll
        for (int i = 0; i < count; i += 4) {
            const float4 x =
                conv_activate_curved_4(make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]), e.act);
            v[i] = x.x, v[i + 1] = x.y, v[i + 2] = x.z, v[i + 3] = x.w;
        }
    } else if (e.act == activation_leaky) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            v[i] = activation_apply(v[i], activation_leaky, e.slope);
        }
    }
}

// The activation of four numbers. bound: conv_bound
SPIRA_DEVICE void conv_activate_4(const conv_epilogue &e, float bound, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = conv_max_nan(v[i], bound);
    }
    conv_activate_beyond<4>(e, v);
}

// ---- pairs of 16-bit elements -------------------------------------------------------------------
// One piece of assembly each: of single conversions compilers make three times the code.

template <typename E>
struct __align__(2 * sizeof(E)) conv_pair {
    E element[2];
};

template <typename E>
SPIRA_DEVICE float2 conv_pair_to_floats(uint32_t pair) {
    const conv_pair<E> e = bytes_as<conv_pair<E>>(pair);
    return make_float2(element_to_float(e.element[0]), element_to_float(e.element[1]));
}

// Rounds two floats, of which none stays below its bound. A bound is 0 or infinite, so the larger
// one of rounded values is the rounded larger one. NaN stays.
template <typename E>
SPIRA_DEVICE uint32_t conv_pair_bounded(float x, float y, float bound) {
    conv_pair<E> v;
    v.element[0] = element_from_float<E>(conv_max_nan(x, bound));
    v.element[1] = element_from_float<E>(conv_max_nan(y, bound));
    return bytes_as<uint32_t>(v);
}

#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ float2 conv_pair_to_floats<__half>(uint32_t pair) {
    float2 v;
    asm("{ .reg .f16 x, y;\n"
        "mov.b32 {x, y}, %2;\n"
        "cvt.f32.f16 %0, x;\n"
        "cvt.f32.f16 %1, y; }"
        : "=f"(v.x), "=f"(v.y)
        : "r"(pair));
    return v;
}

template <>
__device__ __forceinline__ float2 conv_pair_to_floats<__nv_bfloat16>(uint32_t pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

#define SPIRA_PAIR_BOUNDED(E, type)                                                                \
    template <>                                                                                    \
    __device__ __forceinline__ uint32_t conv_pair_bounded<E>(float x, float y, float bound) {      \
        uint32_t v;                                                                                \
        asm("{ .reg .b32 b;\n"                                                                     \
            "cvt.rn." type ".f32 b, %3, %3;\n"                                                     \
            "cvt.rn." type ".f32 %0, %2, %1;\n"                                                    \
            "max.NaN." type " %0, %0, b; }"                                                        \
            : "=r"(v)                                                                              \
            : "f"(x), "f"(y), "f"(bound));                                                         \
        return v;                                                                                  \
    }
SPIRA_PAIR_BOUNDED(__half, "f16x2")
SPIRA_PAIR_BOUNDED(__nv_bfloat16, "bf16x2")
#undef SPIRA_PAIR_BOUNDED
#endif

// ---- four channels ------------------------------------------------------------------------------

// Four neighbouring channels of an output.
template <typename E>
struct __align__(4 * sizeof(E)) conv_quad {
    E element[4];
};

// Rounds v * inverse to four elements of int8 (i8_from_float), in few instructions.
SPIRA_DEVICE uint32_t conv_i8_four(float4 v, float inverse) {
#if __CUDA_ARCH__ >= 720
    uint32_t high, all; // cvt.pack: the second number is the lower byte
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;"
        : "=r"(high)
        : "r"(__float2int_rn(v.w * inverse)), "r"(__float2int_rn(v.z * inverse)));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(all)
        : "r"(__float2int_rn(v.y * inverse)), "r"(__float2int_rn(v.x * inverse)), "r"(high));
    return all;
#else
    const conv_quad<int8_t> q = {{i8_from_float(v.x * inverse), i8_from_float(v.y * inverse),
                                  i8_from_float(v.z * inverse), i8_from_float(v.w * inverse)}};
    return bytes_as<uint32_t>(q);
#endif
}

template <typename E, bool wide>
SPIRA_DEVICE conv_quad<E> conv_quad_load(const E *from, int left) {
    conv_quad<E> q;
    if (wide) {
        q = *(const conv_quad<E> *)from;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            q.element[i] = from[i < left ? i : 0];
        }
    }
    return q;
}

template <typename E, bool wide>
SPIRA_DEVICE void conv_quad_store(E *to, int left, const conv_quad<E> &q) {
    if (wide) {
        *(conv_quad<E> *)to = q;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i < left) {
                to[i] = q.element[i];
            }
        }
    }
}

// ---- scale and shift ----------------------------------------------------------------------------

// Scale and shift of a channel, the bias folded into the shift; 1 and 0 past the last channel.
struct conv_affine {
    float scale, shift;
};

// from: conv_epilogue or conv_params_shortcut.
template <typename V>
SPIRA_DEVICE conv_affine conv_affine_load(const V &from, int channel, bool inside) {
    const float scale = inside && from.scale ? from.scale[channel] : 1.0f;
    const float shift = inside && from.shift ? from.shift[channel] : 0.0f;
    const float bias = inside && from.bias ? from.bias[channel] : 0.0f;
    return {scale, fmaf(bias, scale, shift)};
}

// Of four neighbouring channels.
struct conv_affine_4 {
    float4 scale, shift;
};

// What the epilogue of four neighbouring channels needs.
struct conv_output {
    conv_affine_4 affine;
    int channel; // the first
};

// Loads four neighbouring values of a vector that is aligned, or null: `other`.
SPIRA_DEVICE float4 conv_vector_load(const float *vector, int channel, bool inside, float other) {
    return vector && inside ? *(const float4 *)(vector + channel)
                            : make_float4(other, other, other, other);
}

SPIRA_DEVICE conv_output conv_output_of(const conv_params &p, int channel) {
    const conv_epilogue &e = p.epilogue;
    if (((uintptr_t)e.scale | (uintptr_t)e.shift | (uintptr_t)e.bias) % 16 || p.cout % 4) {
        conv_affine a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            a[i] = conv_affine_load(e, channel + i, channel + i < p.cout);
        }
        return {{make_float4(a[0].scale, a[1].scale, a[2].scale, a[3].scale),
                 make_float4(a[0].shift, a[1].shift, a[2].shift, a[3].shift)},
                channel};
    }
    const bool inside = channel < p.cout;
    const float4 scale = conv_vector_load(e.scale, channel, inside, 1.0f);
    const float4 shift = conv_vector_load(e.shift, channel, inside, 0.0f);
    const float4 bias = conv_vector_load(e.bias, channel, inside, 0.0f);
    return {{scale, make_float4(fmaf(bias.x, scale.x, shift.x), fmaf(bias.y, scale.y, shift.y),
                                fmaf(bias.z, scale.z, shift.z), fmaf(bias.w, scale.w, shift.w))},
            channel};
}

// ---- of a slice ---------------------------------------------------------------------------------

// Loads scale and shift of a channel of the slice into shared memory.
//
// channel  the slice's first; columns: of the slice; i: the channel's number in it
// outputs  shared.scale: scales, and the shifts from `most` on
template <int most, typename S>
SPIRA_DEVICE void conv_scale_load(const conv_params &p, int channel, int columns, int i,
                                  S &shared) {
    if (i < columns) {
        const conv_affine a = conv_affine_load(p.epilogue, channel + i, channel + i < p.cout);
        shared.scale[i] = a.scale;
        shared.scale[most + i] = a.shift;
    }
}

// The rest for an int8 layer, by the same threads: its step, and the shift of a shortcut, whose
// scale is in its weights.
template <int most, typename S>
SPIRA_DEVICE void conv_step_load(const conv_params &p, int channel, int columns, int i, S &shared) {
    if (i < columns && channel + i < p.cout) {
        shared.scale[i] *= p.quantisation.step[channel + i];
        shared.scale[most + i] +=
            p.shortcut.chunks ? conv_affine_load(p.shortcut, channel + i, true).shift : 0.0f;
    }
}

// The same of the shortcut. The epilogue applies one scale to both, the shortcut's; so the
// accumulators of the offsets are rescaled by scale / scale' first (shared.ratio). |scale'| is at
// least 2^-60 |scale|, so that the ratio does not overflow: the change is below the rounding error.
template <int most, typename S>
SPIRA_DEVICE void conv_shortcut_load(const conv_params &p, int channel, int columns, int i,
                                     S &shared) {
    if (i < columns) {
        const conv_affine a = conv_affine_load(p.shortcut, channel + i, channel + i < p.cout);
        const float scale = shared.scale[i], least = fabsf(scale) * 0x1p-60f;
        const float own = fabsf(a.scale) < least ? copysignf(least, a.scale) : a.scale;
        shared.scale[most + i] += a.shift;
        shared.scale[i] = own;
        shared.ratio[i] = own == 0.0f ? 1.0f : scale / own;
    }
}

// ---- outputs ------------------------------------------------------------------------------------

// Finishes four channels of an output. plain: the activation is a bound; adds: the residual counts;
// O: what they are rounded to.
template <typename E, bool plain, typename O = E>
SPIRA_DEVICE conv_quad<O> conv_finish(const conv_params &p, const conv_affine_4 &a, float4 sum,
                                      bool adds, const conv_quad<E> &residual) {
    const float bound = conv_bound(p.epilogue);
    float v[4] = {fmaf(sum.x, a.scale.x, a.shift.x), fmaf(sum.y, a.scale.y, a.shift.y),
                  fmaf(sum.z, a.scale.z, a.shift.z), fmaf(sum.w, a.scale.w, a.shift.w)};
    conv_quad<O> out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (adds) {
            const float r = element_to_float(residual.element[i]);
            v[i] = sizeof(E) == 1 ? fmaf(r, p.quantisation.residual_scale, v[i]) : v[i] + r;
        }
        if (!plain || sizeof(O) != 2) {
            v[i] = plain ? conv_max_nan(v[i], bound) : conv_activate(p.epilogue, bound, v[i]);
            out.element[i] = element_from_float<O>(v[i]);
        }
    }
    if constexpr (sizeof(O) == 1) {
        const float4 four = make_float4(v[0], v[1], v[2], v[3]);
        out = bytes_as<conv_quad<O>>(conv_i8_four(four, p.quantisation.out_inverse));
    } else if constexpr (plain && sizeof(O) == 2) {
        const uint32_t low = conv_pair_bounded<O>(v[0], v[1], bound);
        out = bytes_as<conv_quad<O>>(make_uint2(low, conv_pair_bounded<O>(v[2], v[3], bound)));
    }
    return out;
}

// Loads four neighbouring channels of a row of initial sums, of which `left` are there: those past
// the last are not initialised.
SPIRA_DEVICE float4 conv_sums_fetch(const float *from, int left) {
    if (left >= 4) {
        return *(const float4 *)from;
    }
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, 0.0f);
}

// Finishes four channels of an output: epilogue, store. Initial sums have been added.
template <typename E>
SPIRA_DEVICE void conv_output_store(const conv_params &p, const conv_output &f, int row,
                                    float4 sum) {
    const int64_t at = (int64_t)row * p.pitch_out + f.channel;
    const E *const from = (const E *)p.residual + at;
    E *const to = (E *)p.out + at;
    const int left = p.cout - f.channel;
    conv_quad<E> residual = {};
    if (p.residual) {
        residual =
            p.wide_out ? conv_quad_load<E, true>(from, left) : conv_quad_load<E, false>(from, left);
    }
    const conv_quad<E> q = conv_finish<E, false>(p, f.affine, sum, p.residual, residual);
    if (p.wide_out) {
        conv_quad_store<E, true>(to, left, q);
    } else {
        conv_quad_store<E, false>(to, left, q);
    }
}

// ---- formats at run time ------------------------------------------------------------------------

// Calls f with an element of a format: f(E()).
template <typename F>
SPIRA_DEVICE auto conv_format_call(numeric type, const F &f) {
    switch (type) {
    case numeric_i8:
        return f(int8_t());
    case numeric_f16:
        return f(__half());
    case numeric_bf16:
        return f(__nv_bfloat16());
    default:
        return f(float());
    }
}

// Loads four neighbouring elements of an array; `left` are there.
SPIRA_DEVICE float4 conv_load_mixed(numeric type, const void *array, int64_t at, int left,
                                    bool wide) {
    return conv_format_call(type, [&](auto element) {
        typedef decltype(element) E;
        const E *const from = (const E *)array + at;
        const conv_quad<E> q =
            wide ? conv_quad_load<E, true>(from, left) : conv_quad_load<E, false>(from, left);
        return make_float4(element_to_float(q.element[0]), element_to_float(q.element[1]),
                           element_to_float(q.element[2]), element_to_float(q.element[3]));
    });
}

SPIRA_DEVICE void conv_store_mixed(numeric type, void *array, int64_t at, int left, bool wide,
                                   const float (&v)[4]) {
    conv_format_call(type, [&](auto element) {
        typedef decltype(element) E;
        const conv_quad<E> q = {{element_from_float<E>(v[0]), element_from_float<E>(v[1]),
                                 element_from_float<E>(v[2]), element_from_float<E>(v[3])}};
        E *const to = (E *)array + at;
        wide ? conv_quad_store<E, true>(to, left, q) : conv_quad_store<E, false>(to, left, q);
    });
}

// conv_output_store where residual and output have the formats of p.quantisation. Of
// floating-point formats its scales are 1, which change no bit.
SPIRA_DEVICE void conv_output_store_mixed(const conv_params &p, const conv_output &f, int row,
                                          float4 sum) {
    const int64_t at = (int64_t)row * p.pitch_out + f.channel;
    const int left = p.cout - f.channel;
    const conv_quantisation &q = p.quantisation;
    const float bound = conv_bound(p.epilogue);
    const conv_affine_4 &a = f.affine;
    float v[4] = {fmaf(sum.x, a.scale.x, a.shift.x), fmaf(sum.y, a.scale.y, a.shift.y),
                  fmaf(sum.z, a.scale.z, a.shift.z), fmaf(sum.w, a.scale.w, a.shift.w)};
    if (p.residual) {
        const float4 r = conv_load_mixed(q.residual_type, p.residual, at, left, p.wide_out);
        v[0] = fmaf(r.x, q.residual_scale, v[0]);
        v[1] = fmaf(r.y, q.residual_scale, v[1]);
        v[2] = fmaf(r.z, q.residual_scale, v[2]);
        v[3] = fmaf(r.w, q.residual_scale, v[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = conv_activate(p.epilogue, bound, v[i]) * q.out_inverse;
    }
    conv_store_mixed(q.out_type, p.out, at, left, p.wide_out, v);
}

} // namespace spira

#endif
