// spira/conv/run.cuh: from the arguments of a convolution to the launch of its kernel.
#ifndef SPIRA_CONV_RUN_CUH
#define SPIRA_CONV_RUN_CUH

#include "args.cuh"

namespace spira {

// The ordered layout of a map. The identity is one without arrays.
SPIRA_API order_layout conv_order(const conv_map *map) {
    order_layout none = {};
    none.volume = 1;
    return map->form == conv_form_order ? map->order : none;
}

// What does not depend on how the work is cut.
SPIRA_API conv_params conv_params_of(const conv_args *a, const device_info *d) {
    const conv_shape *s = &a->shape;
    int element = numeric_size(s->type);
    conv_params p = {};
    p.in = a->in;
    p.in2 = a->in2;
    p.weights = a->weights;
    p.residual = a->epilogue.residual;
    p.out = a->out;
    p.order = conv_order(a->map);
    p.count = a->map->count;
    p.capacity = a->map->capacity;
    p.epilogue = a->epilogue;
    p.sums = a->sums;
    p.volume = s->volume;
    p.cin = s->cin;
    p.cin2 = s->cin2;
    p.cout = s->cout;
    p.chunks1 = conv_chunks(s->cin, s->type);
    p.chunks = conv_shape_chunks(s);
    p.wide_in = conv_aligned(a->in, s->cin, element, conv_lane_bytes);
    p.wide_in2 = !s->cin2 || conv_aligned(a->in2, s->cin2, element, conv_lane_bytes);
    p.programmatic = a->programmatic && d->programmatic;
    p.wide_out = conv_aligned(a->out, s->cout, element, 4 * element) &&
                 conv_aligned(p.residual, s->cout, element, 4 * element);
    return p;
}

// ---- one launch for each kernel -----------------------------------------------------------------

template <typename tag>
SPIRA_API status conv_run_exact(tag, const conv_args *a, const device_info *d,
                                cudaStream_t stream) {
    conv_params p = conv_params_of(a, d);
    p.tf32 = tag::value == numeric_tf32;
    p.size = a->sizes ? *a->sizes : exact_sizes_choose(&a->shape);
    SPIRA_REQUIRE(exact_sizes_fit(&p.size), status_unsupported, "sizes", 0);
    return exact_run<typename tag::element>(p, stream);
}

template <typename E>
SPIRA_API status conv_run_narrow(const conv_args *a, const device_info *d, cudaStream_t stream) {
    conv_params p = conv_params_of(a, d);
    p.multiprocessors = d->multiprocessors;
    p.size = a->sizes ? *a->sizes : narrow_sizes_choose(&a->shape, p.capacity, d);
    SPIRA_REQUIRE(narrow_sizes_fit(&p.size), status_unsupported, "sizes", 0);
    return narrow_run<E>(p, stream);
}

SPIRA_API conv_params_shortcut conv_shortcut_params(const conv_args *a, conv_kernel kernel) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    const int element = numeric_size(shape.type);
    conv_params_shortcut p = {};
    p.in = s->in;
    p.in2 = s->in2;
    p.weights = s->weights;
    p.bias = s->bias;
    p.scale = s->scale;
    p.shift = s->shift;
    p.cin = s->cin;
    p.cin2 = s->cin2;
    p.parts = kernel == conv_kernel_hopper
                  ? (int)ceil_div(hopper_row_bytes(&shape), hopper_part_whole)
                  : conv_shape_chunks(&shape);
    p.wide_in = conv_aligned(s->in, s->cin, element, conv_lane_bytes);
    p.wide_in2 = !s->cin2 || conv_aligned(s->in2, s->cin2, element, conv_lane_bytes);
    return p;
}

template <typename E, bool shortcuts>
SPIRA_API status conv_run_hopper(const conv_args *a, const device_info *d, cudaStream_t stream) {
    const conv_shape *s = &a->shape;
    conv_params p = conv_params_of(a, d);
    p.size = a->sizes ? *a->sizes : hopper_sizes_choose(s, p.capacity, d);
    SPIRA_REQUIRE(hopper_sizes_fit(s, d, &p.size), status_unsupported, "sizes", 0);
    p.part = hopper_part_bytes(s);
    p.chunks = hopper_parts(s);
    if (a->shortcut) {
        p.shortcut = conv_shortcut_params(a, conv_kernel_hopper);
    }
    return hopper_run<E, shortcuts>(p, d, stream);
}

template <typename tag>
SPIRA_API status conv_run_portable(tag, const conv_args *a, const device_info *d,
                                   cudaStream_t stream) {
    conv_params p = conv_params_of(a, d);
    p.size = a->sizes ? *a->sizes : portable_sizes_choose(&a->shape, p.capacity, d);
    SPIRA_REQUIRE(portable_sizes_fit(a->shape.type, d, &p.size), status_unsupported, "sizes", 0);
    if (a->shortcut) {
        p.shortcut = conv_shortcut_params(a, conv_kernel_portable);
    }
    if constexpr (tag::value == numeric_f32) {
        return portable_run_exact(p, d, stream);
    } else {
        return portable_run<typename tag::element, portable_is_fallback(tag::value)>(p, d, stream);
    }
}

// kernel: conv_kernel_of
template <bool shortcuts, typename tag>
SPIRA_API status conv_run(tag own, const conv_args *a, conv_kernel kernel, const device_info *d,
                          cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (kernel == conv_kernel_hopper) {
            return conv_run_hopper<E, shortcuts>(a, d, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_portable, tag::value)) {
        if (kernel == conv_kernel_portable) {
            return conv_run_portable(own, a, d, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_narrow, tag::value)) {
        if (kernel == conv_kernel_narrow) {
            return conv_run_narrow<E>(a, d, stream);
        }
    }
    if (kernel == conv_kernel_exact && (d->capability >= 80 || device_code_within(0, 79))) {
        return conv_run_exact(own, a, d, stream);
    }
    return conv_not_compiled();
}

} // namespace spira

#endif
