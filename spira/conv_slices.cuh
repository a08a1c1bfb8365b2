// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_slices.cuh: grouped convolution by a `conv` for each group, over slices of the rows.
//
// What it computes is in conv_group.h. It reads the map and packed weights of convolutions, where
// `conv_group` reads a plain map and plain weights: conv_slices_pay says which one is faster.
//
//   conv_slices_bytes, conv_slices_pack    once for each layer
//   conv_map_bytes, conv_map_build         as for `conv`
//   conv_slices                            for each layer
#ifndef SPIRA_CONV_SLICES_CUH
#define SPIRA_CONV_SLICES_CUH

#include "conv/pack.cuh"
#include "conv/run.cuh"
#include "conv_group.h"

namespace spira {

// The shape of the convolution of one group.
SPIRA_BOTH conv_shape conv_slices_shape(const conv_group_shape &s) {
    return {s.volume, s.cin / s.groups, 0, s.cout / s.groups, s.type};
}

// Bytes from the packed weights of a group to those of the next. Behind those of each group is a
// tag, so that the tag of the last one ends all (conv_weights_stored).
SPIRA_API status conv_slices_step(const device_info *gpu, const conv_group_shape *shape,
                                  size_t *step, size_t *last) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_group_shape_check(shape));
    const conv_shape own = conv_slices_shape(*shape);
    *last = conv_packed_bytes(&own, conv_kernel_of(&own, gpu)) + sizeof(conv_weights_tag);
    *step = (size_t)round_up((int64_t)*last, workspace_alignment);
    return status_success();
}

// Bytes of packed weights.
SPIRA_API status conv_slices_bytes(const device_info *gpu, const conv_group_shape *shape,
                                   size_t *bytes) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    size_t step = 0, last = 0;
    SPIRA_TRY(conv_slices_step(gpu, shape, &step, &last));
    *bytes = (size_t)(shape->groups - 1) * step + last;
    return status_success();
}

// Packs the weights of all groups, as conv_weights_pack.
//
// inputs   weights->weight [volume, cin / groups, cout]
// outputs  weights->packed: conv_slices_bytes
template <numeric format = numeric_any>
SPIRA_API status conv_slices_pack(const device_info *gpu, const conv_group_shape *shape,
                                  const conv_weights *weights, cudaStream_t stream) {
    size_t step = 0, last = 0, bytes = 0;
    SPIRA_TRY(conv_slices_step(gpu, shape, &step, &last));
    SPIRA_TRY(conv_slices_bytes(gpu, shape, &bytes));
    const conv_shape own = conv_slices_shape(*shape);
    SPIRA_TRY(conv_pack_check(&own, weights, bytes));
    conv_pack_request r = conv_pack_request_of(gpu, &own, conv_kernel_of(&own, gpu), weights);
    r.tag = conv_weights_tag_make(gpu, &own, r.kernel);
    r.bytes = last;
    r.pitch = shape->cout;
    for (int g = 0; g < shape->groups; ++g) {
        r.first = (int64_t)g * own.cout;
        r.weight = weights->weight + r.first;
        r.packed = (char *)weights->packed + (size_t)g * step;
        SPIRA_TRY(numeric_dispatch<format>(
            own.type, [&](auto tag) { return conv_pack_as(tag, &r, stream); }));
    }
    return status_success();
}

// Refuses what only whole layers have. a: of conv_slices.
SPIRA_API status conv_slices_check(const conv_args *a, const conv_group_shape *shape) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_group_shape_check(shape));
    SPIRA_REQUIRE(!a->in2, status_unsupported, "in2 (of a grouped layer)", 0);
    SPIRA_REQUIRE(!a->shortcut, status_unsupported, "shortcut (of a grouped layer)", 0);
    SPIRA_REQUIRE(!a->sums, status_unsupported, "sums (of a grouped layer)", 0);
    return status_success();
}

// Grouped convolution with a fused epilogue: as `conv`, but for
//
// inputs   shape: of the layer, for args->shape, which is not read. args: features, residual,
//          outputs, bias, scale and shift of all groups; weights: of conv_slices_pack; pitch_in,
//          pitch_out: of rows that are slices themselves; 0: cin, cout
// errors   groups that do not divide the channels; int8; in2, shortcut, sums, quantisation.mixed
// A launch for each group; from the second on they are programmatic: a group writes nothing that
// another one reads before it waits.
template <numeric format = numeric_any>
SPIRA_API status conv_slices(const device_info *gpu, const conv_group_shape *shape,
                             const conv_args *args, cudaStream_t stream) {
    SPIRA_TRY(conv_slices_check(args, shape));
    size_t step = 0, last = 0;
    SPIRA_TRY(conv_slices_step(gpu, shape, &step, &last));
    conv_args a = *args;
    a.shape = conv_slices_shape(*shape);
    a.pitch_in = args->pitch_in ? args->pitch_in : shape->cin;
    a.pitch_out = args->pitch_out ? args->pitch_out : shape->cout;
    SPIRA_TRY(conv_check_pitch(&a, shape->cin, shape->cout)); // conv_check: of a group's channels
    const size_t element = (size_t)numeric_size(shape->type);
    const size_t in = element * (size_t)a.shape.cin, out = element * (size_t)a.shape.cout;
    for (int g = 0; g < shape->groups; ++g) {
        SPIRA_TRY(conv_check(gpu, &a));
        SPIRA_TRY(numeric_dispatch<format>(
            a.shape.type, [&](auto tag) { return conv_run<false, false>(tag, gpu, &a, stream); }));
        a.programmatic = true;
        a.in = (const char *)a.in + in;
        a.out = (char *)a.out + out;
        a.weights = (const char *)a.weights + step;
        conv_epilogue *const e = &a.epilogue;
        e->residual = e->residual ? (const char *)e->residual + out : nullptr;
        for (const float **vector : {&e->bias, &e->scale, &e->shift}) {
            *vector = *vector ? *vector + a.shape.cout : nullptr;
        }
    }
    return status_success();
}

} // namespace spira

#endif
