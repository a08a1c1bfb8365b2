// spira/conv/args.cuh: the arguments of a convolution, and their checks.
#ifndef SPIRA_CONV_ARGS_CUH
#define SPIRA_CONV_ARGS_CUH

#include "choice.cuh"

namespace spira {

// A 1x1x1 convolution over the outputs' own voxels, added before the activation: the shortcut of a
// residual block whose channels change, without an array of its own.
//
//   out[o, c] = act((sum + bias[c]) * scale[c] + shift[c] + residual[o, c] +
//                   (sum' + bias'[c]) * scale'[c] + shift'[c])
//
// sum' is over row o of in and in2. Null bias, scale or shift: that step is skipped.
struct conv_shortcut {
    int cin, cin2;       // cin2: 0 without a second source
    const void *in;      // [outputs, cin] of the convolution's type
    const void *in2;     // [outputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_shortcut_pack, with the same shapes and device_info
    const float *bias, *scale, *shift; // [cout]
};

// One convolution. A host struct, read during the call only. Arrays are in device memory; features
// have the storage type of shape.type. Start from a zeroed struct: null members are optional.
struct conv_args {
    conv_shape shape;
    const conv_map *map; // on the host; of conv_map_build
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_weights_pack, with the same shape and device_info
    conv_epilogue epilogue;
    void *out;                     // [map->capacity, cout]
    const conv_shortcut *shortcut; // on the host; see conv_shortcut_takes
    const float *sums;       // [map->capacity, conv_sums_pitch(cout)], aligned to 16: added to, as
                             // conv_pairs_run leaves them; null: the accumulators start at zero
    const conv_sizes *sizes; // how the work is cut (depth is not read); null: chosen
    // Programmatic dependent launch. The kernel before this one on the stream writes none of the
    // map, count, weights, bias, scale and shift: they are read while it still runs. It may write
    // features, residual and sums. If it is a kernel of the caller's that was itself launched
    // programmatically, it must release its dependents only after it has waited for its
    // predecessors (base/launch.cuh).
    bool programmatic;
};

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

SPIRA_API status conv_check_shortcut(const conv_args *a, const device_info *d) {
    const conv_shortcut *s = a->shortcut;
    const conv_shape shape = conv_shortcut_shape(&a->shape, s->cin, s->cin2);
    SPIRA_TRY(conv_shape_check(&shape));
    SPIRA_REQUIRE(conv_shortcut_takes(&a->shape, d), status_unsupported, "shortcut", 0);
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

SPIRA_API status conv_check_map(const conv_args *a, const device_info *d) {
    SPIRA_TRY(conv_map_check(a->map, a->shape.volume));
    const bool narrow = conv_kernel_of(&a->shape, d) == conv_kernel_narrow;
    return narrow && a->map->form == conv_form_order ? narrow_layout_check(&a->map->order)
                                                     : status_success();
}

SPIRA_API status conv_check(const conv_args *a, const device_info *d) {
    SPIRA_REQUIRE(d, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(epilogue_check(&a->epilogue));
    const size_t element = (size_t)numeric_size(a->shape.type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    if (a->shape.cin2) {
        SPIRA_TRY(pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    if (a->epilogue.residual) {
        SPIRA_TRY(pointer_check(a->epilogue.residual, element, "epilogue.residual"));
    }
    SPIRA_TRY(pointer_check(a->weights, workspace_alignment, "weights"));
    const conv_epilogue &e = a->epilogue;
    SPIRA_TRY(conv_vectors_check(e.bias, e.scale, e.shift, "epilogue (bias, scale, shift)"));
    if (a->sums) {
        SPIRA_TRY(pointer_check(a->sums, sizeof(float4), "sums"));
    }
    SPIRA_REQUIRE(a->out != a->in && (!a->shape.cin2 || a->out != a->in2) && a->out != a->sums,
                  status_unsupported, "out (overlaps an input)", 0);
    SPIRA_TRY(conv_check_map(a, d));
    return a->shortcut ? conv_check_shortcut(a, d) : status_success();
}

} // namespace spira

#endif
