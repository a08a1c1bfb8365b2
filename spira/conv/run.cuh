// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/run.cuh: from the arguments of a convolution to the launch of its kernel: checks,
// parameters, launch.
#ifndef SPIRA_CONV_RUN_CUH
#define SPIRA_CONV_RUN_CUH

#include "../conv_i8.h"
#include "choice.cuh"

namespace spira {

// ---- checks -------------------------------------------------------------------------------------

// Bias, scale and shift of an epilogue or a shortcut: null, or aligned. name: of the three.
SPIRA_API status conv_vectors_check(const float *bias, const float *scale, const float *shift,
                                    const char *name) {
    const float *const vectors[] = {bias, scale, shift};
    for (const float *vector : vectors) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, sizeof(float), name));
        }
    }
    return status_success();
}

SPIRA_API status conv_check_shortcut(const device_info *gpu, const conv_args *a) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    SPIRA_TRY(conv_shape_check_i8(&shape));
    if (shape.type == numeric_i8) {
        SPIRA_TRY(conv_i8_shortcut_check(&a->shape, s));
    }
    SPIRA_REQUIRE(conv_shortcut_takes(&a->shape, gpu), status_unsupported, "shortcut", 0);
    SPIRA_REQUIRE(!a->sums, status_unsupported, "shortcut (with sums)", 0);
    const size_t element = (size_t)numeric_size(shape.type);
    SPIRA_TRY(pointer_check(s->in, element, "shortcut.in"));
    if (s->cin2) {
        SPIRA_TRY(pointer_check(s->in2, element, "shortcut.in2"));
    }
    SPIRA_TRY(pointer_check(s->weights, workspace_alignment, "shortcut.weights"));
    SPIRA_TRY(conv_vectors_check(s->bias, s->scale, s->shift, "shortcut (bias, scale, shift)"));
    SPIRA_REQUIRE(a->out != s->in && (!s->cin2 || a->out != s->in2), status_unsupported,
                  "out (overlaps an input of the shortcut)", 0);
    return status_success();
}

SPIRA_API status conv_check_map(const device_info *gpu, const conv_args *a) {
    SPIRA_TRY(conv_map_check(a->map, a->shape.volume));
    const bool narrow = conv_kernel_of(&a->shape, gpu) == conv_kernel_narrow;
    return narrow && a->map->form == conv_form_order ? narrow_layout_check(&a->map->order)
                                                     : status_success();
}

// Residual and output, and what int8 layers have besides.
SPIRA_API status conv_check_formats(const conv_args *a) {
    const conv_quantisation *q = &a->quantisation;
    const void *residual = a->epilogue.residual;
    SPIRA_TRY(conv_quantisation_check(&a->shape, q, residual));
    const numeric out = conv_out_type(&a->shape, q), from = conv_residual_type(&a->shape, q);
    SPIRA_TRY(pointer_check(a->out, (size_t)numeric_size(out), "out"));
    if (residual) {
        SPIRA_TRY(pointer_check(residual, (size_t)numeric_size(from), "epilogue.residual"));
        SPIRA_REQUIRE(residual != a->out || numeric_size(from) == numeric_size(out),
                      status_unsupported, "out (the residual, in another format)", 0);
    }
    if (q->step) {
        SPIRA_TRY(pointer_check(q->step, sizeof(float), "quantisation.step"));
        SPIRA_REQUIRE(!a->sums, status_unsupported, "sums (of an int8 layer)", 0);
    }
    return status_success();
}

// Pitches that are given: of rows of cin and cout channels at least, and of 2 GiB at most, as
// kernels count their bytes.
SPIRA_API status conv_check_pitch(const conv_args *a, int cin, int cout) {
    if (!a->pitch_in && !a->pitch_out) {
        return status_success();
    }
    const numeric type = a->shape.type;
    SPIRA_REQUIRE(type != numeric_i8 && !a->quantisation.mixed, status_unsupported,
                  "pitch_in, pitch_out (of an int8 or mixed layer)", 0);
    const int64_t most = INT32_MAX / numeric_size(type);
    SPIRA_TRY(size_check(a->pitch_in ? a->pitch_in : cin, cin, most, "pitch_in"));
    return size_check(a->pitch_out ? a->pitch_out : cout, cout, most, "pitch_out");
}

SPIRA_API status conv_check(const device_info *gpu, const conv_args *a) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check_i8(&a->shape));
    SPIRA_TRY(epilogue_check(&a->epilogue));
    SPIRA_TRY(conv_check_formats(a));
    const size_t element = (size_t)numeric_size(a->shape.type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    if (a->shape.cin2) {
        SPIRA_TRY(pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(pointer_check(a->weights, workspace_alignment, "weights"));
    const conv_epilogue &e = a->epilogue;
    SPIRA_TRY(conv_vectors_check(e.bias, e.scale, e.shift, "epilogue (bias, scale, shift)"));
    if (a->sums) {
        SPIRA_TRY(pointer_check(a->sums, sizeof(float4), "sums"));
    }
    SPIRA_REQUIRE(a->out != a->in && (!a->shape.cin2 || a->out != a->in2) && a->out != a->sums,
                  status_unsupported, "out (overlaps an input)", 0);
    SPIRA_TRY(conv_check_map(gpu, a));
    SPIRA_TRY(conv_check_pitch(a, a->shape.cin, a->shape.cout));
    return a->shortcut ? conv_check_shortcut(gpu, a) : status_success();
}

// ---- parameters ---------------------------------------------------------------------------------

// The ordered layout of a map. The identity is one without arrays.
SPIRA_API order_layout conv_order(const conv_map *map) {
    order_layout none = {};
    none.volume = 1;
    return map->form == conv_form_order ? map->order : none;
}

// Whether rows of a source are read 16 bytes at a time.
SPIRA_API bool conv_rows_aligned(const void *in, int channels, numeric type) {
    return conv_aligned(in, channels, numeric_size(type), conv_lane_bytes);
}

// Bytes of the widest asynchronous copies, 8 or 4, that rows of a source allow, at most `most`; 0:
// none.
SPIRA_API uint8_t conv_rows_copy_bytes(const void *in, int channels, numeric type, uint8_t most) {
    const int element = numeric_size(type);
    return most == 8 && conv_aligned(in, channels, element, 8)   ? 8
           : most >= 4 && conv_aligned(in, channels, element, 4) ? 4
                                                                 : 0;
}

// Sets what conv_params and conv_params_shortcut have alike. from: conv_args or conv_shortcut.
template <typename A, typename P>
SPIRA_API void conv_sources_set(const conv_shape *s, const A *from, P *p) {
    p->in = from->in;
    p->in2 = from->in2;
    p->weights = from->weights;
    p->cin = s->cin;
    p->cin2 = s->cin2;
    p->pitch = s->cin;
    p->chunks = conv_shape_chunks(s);
    p->wide_in = conv_rows_aligned(p->in, s->cin, s->type);
    p->wide_in2 = !s->cin2 || conv_rows_aligned(p->in2, s->cin2, s->type);
    p->copy_bytes = conv_rows_copy_bytes(p->in, s->cin, s->type, 8);
    if (s->cin2) {
        p->copy_bytes = conv_rows_copy_bytes(p->in2, s->cin2, s->type, p->copy_bytes);
    }
}

SPIRA_API conv_params_shortcut conv_shortcut_params(const conv_args *a, conv_kernel kernel) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    conv_params_shortcut p = {};
    conv_sources_set(&shape, s, &p);
    p.bias = s->bias;
    p.scale = s->scale;
    p.shift = s->shift;
    if (kernel == conv_kernel_hopper) {
        p.chunks = (int)ceil_div(hopper_row_bytes(&shape),
                                 hopper_chunk_shortcut(hopper_stage_row(&a->shape)));
    }
    return p;
}

// The formats of residual and output in full.
SPIRA_API conv_quantisation conv_quantisation_of(const conv_args *a) {
    conv_quantisation q = a->quantisation;
    q.residual_type = conv_residual_type(&a->shape, &q);
    q.out_type = conv_out_type(&a->shape, &q);
    q.mixed =
        q.out_type != a->shape.type || (a->epilogue.residual && q.residual_type != a->shape.type);
    q.residual_scale = q.residual_scale > 0 ? q.residual_scale : 1;
    q.out_inverse = q.out_inverse > 0 ? q.out_inverse : 1;
    return q;
}

// All but p.sizes, and what follows from these.
SPIRA_API conv_params conv_params_of(const device_info *gpu, const conv_args *a,
                                     conv_kernel kernel) {
    const conv_shape *s = &a->shape;
    conv_params p = {};
    conv_sources_set(s, a, &p);
    p.quantisation = conv_quantisation_of(a);
    p.residual = a->epilogue.residual;
    p.out = a->out;
    p.order = conv_order(a->map);
    p.count = a->map->count;
    p.capacity = a->map->capacity;
    p.epilogue = a->epilogue;
    p.sums = a->sums;
    p.volume = s->volume;
    p.cout = s->cout;
    p.pitch = a->pitch_in ? a->pitch_in : s->cin;
    p.pitch_out = a->pitch_out ? a->pitch_out : s->cout;
    p.wide_in = p.wide_in && conv_rows_aligned(p.in, p.pitch, s->type);
    p.copy_bytes = conv_rows_copy_bytes(p.in, p.pitch, s->type, p.copy_bytes);
    p.chunks1 = conv_chunks(s->cin, s->type);
    if (kernel == conv_kernel_hopper) {
        p.chunks = hopper_chunks(s);
        p.chunk_bytes = hopper_chunk_bytes(s);
    }
    p.multiprocessors = gpu->multiprocessors;
    p.tf32 = s->type == numeric_tf32;
    const int out = numeric_size(p.quantisation.out_type);
    const int residual = numeric_size(p.quantisation.residual_type);
    p.wide_out = s->cout % 4 == 0 && conv_aligned(a->out, p.pitch_out, out, 4 * out) &&
                 conv_aligned(p.residual, p.pitch_out, residual, 4 * residual);
    p.programmatic = a->programmatic && gpu->programmatic;
    if (a->shortcut) {
        p.shortcut = conv_shortcut_params(a, kernel);
    }
    return p;
}

// ---- launch -------------------------------------------------------------------------------------

// Launches the kernel of a layer. mixed: for floating-point layers whose residual or output has
// another format.
template <bool shortcuts, bool mixed, typename tag>
SPIRA_API status conv_launch(tag own, const device_info *gpu, const conv_params &p,
                             conv_kernel kernel, cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (shortcuts && kernel == conv_kernel_hopper && p.shortcut.chunks) {
            return hopper_launcher_of<E, shortcuts, mixed>(p)(gpu, p, stream);
        }
        if (kernel == conv_kernel_hopper) {
            return hopper_launcher_of<E, false, mixed>(p)(gpu, p, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_portable, tag::value)) {
        if (kernel == conv_kernel_portable) {
            return portable_run<mixed>(own, gpu, p, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_narrow, tag::value)) {
        if (kernel == conv_kernel_narrow) {
            return narrow_run<E, mixed>(p, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_exact, tag::value)) {
        if (kernel == conv_kernel_exact) {
            return exact_run<E, mixed>(p, stream);
        }
    }
    return conv_not_compiled();
}

// `conv` of arguments that conv_check has passed.
template <bool shortcuts, bool mixed, typename tag>
SPIRA_API status conv_run(tag own, const device_info *gpu, const conv_args *a,
                          cudaStream_t stream) {
    SPIRA_REQUIRE(shortcuts || !a->shortcut, status_unsupported,
                  "shortcut (call conv<format, true>)", 0);
    const conv_kernel kernel = conv_kernel_of(&a->shape, gpu);
    conv_params p = conv_params_of(gpu, a, kernel);
    p.sizes = a->sizes ? *a->sizes : conv_sizes_choose(&a->shape, p.capacity, gpu);
    SPIRA_REQUIRE(conv_sizes_fit(&a->shape, gpu, &p.sizes), status_unsupported, "sizes", 0);
    // int8 kernels write any format, so there is no variant of them for that.
    constexpr bool floats = tag::value != numeric_i8;
    if constexpr (floats && mixed) {
        if (p.quantisation.mixed) {
            return conv_launch<shortcuts, true>(own, gpu, p, kernel, stream);
        }
    }
    SPIRA_REQUIRE(!floats || mixed || !p.quantisation.mixed, status_unsupported,
                  "quantisation.mixed (call conv<format, shortcuts, true>)", 0);
    return conv_launch<shortcuts, false>(own, gpu, p, kernel, stream);
}

} // namespace spira

#endif
