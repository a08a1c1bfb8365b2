// spira/conv/epilogue.cuh: from the sums of an output to its channels, four neighbouring ones at a
// time: initial sums, scale and shift, residual, activation, one rounding. hopper/ and portable/
// have epilogues of their own over the same parts.
#ifndef SPIRA_CONV_EPILOGUE_CUH
#define SPIRA_CONV_EPILOGUE_CUH

#include "params.cuh"

namespace spira {

// The larger of two numbers; NaN if one is NaN.
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

// Four neighbouring channels of an output.
template <typename E>
struct __align__(4 * sizeof(E)) conv_quad {
    E element[4];
};

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

// The epilogue of four channels. The bias is folded into the shift.
struct conv_output {
    alignas(16) float scale[4], shift[4];
    float bound; // conv_bound
    int channel; // the first
};

SPIRA_DEVICE conv_output conv_output_of(const conv_params &p, int channel) {
    conv_output f;
    f.channel = channel;
    f.bound = conv_bound(p.epilogue);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        bool inside = channel + i < p.cout;
        float scale = inside && p.epilogue.scale ? p.epilogue.scale[channel + i] : 1.0f;
        float shift = inside && p.epilogue.shift ? p.epilogue.shift[channel + i] : 0.0f;
        float bias = inside && p.epilogue.bias ? p.epilogue.bias[channel + i] : 0.0f;
        f.scale[i] = scale;
        f.shift[i] = fmaf(bias, scale, shift);
    }
    return f;
}

// Loads four neighbouring channels of a row of initial sums, of which `left` are there: those past
// the last are not initialised.
SPIRA_DEVICE float4 conv_sums_fetch(const float *from, int left) {
    if (left >= 4) {
        return *(const float4 *)from;
    }
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, 0.0f);
}

// Adds the initial sums of an output. wide: p.wide_out. hopper/ and portable/ have their own.
template <bool wide>
SPIRA_DEVICE float4 conv_sums_add(const conv_params &p, int row, int channel, float4 sum) {
    const int pitch = wide ? p.cout : conv_sums_pitch(p.cout);
    asm volatile("" : "+r"(row)); // otherwise the compiler keeps an address for each row
    const float *from = p.sums + (int64_t)row * pitch + channel;
    float4 first = conv_sums_fetch(from, wide ? 4 : p.cout - channel);
    return make_float4(first.x + sum.x, first.y + sum.y, first.z + sum.z, first.w + sum.w);
}

// Finishes four channels of an output: initial sums, epilogue, store. wide: p.wide_out.
template <typename E, bool wide>
SPIRA_DEVICE void conv_output_store_as(const conv_params &p, const conv_output &f, int row,
                                       float4 sum) {
    int64_t at = (int64_t)row * p.cout + f.channel;
    sum = p.sums ? conv_sums_add<wide>(p, row, f.channel, sum) : sum;
    const float value[4] = {sum.x, sum.y, sum.z, sum.w};
    conv_quad<E> extra, q;
    if (p.residual) {
        extra = conv_quad_load<E, wide>((const E *)p.residual + at, p.cout - f.channel);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float v = fmaf(value[i], f.scale[i], f.shift[i]);
        v += p.residual ? element_to_float(extra.element[i]) : 0.0f;
        q.element[i] = element_from_float<E>(conv_activate(p.epilogue, f.bound, v));
    }
    conv_quad_store<E, wide>((E *)p.out + at, p.cout - f.channel, q);
}

template <typename E>
SPIRA_DEVICE void conv_output_store(const conv_params &p, const conv_output &f, int row,
                                    float4 sum) {
    if (p.wide_out) {
        conv_output_store_as<E, true>(p, f, row, sum);
    } else {
        conv_output_store_as<E, false>(p, f, row, sum);
    }
}

} // namespace spira

#endif
