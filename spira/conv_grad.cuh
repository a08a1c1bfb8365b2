// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_grad.cuh: gradients of a sparse convolution on the GPU. conv_grad.h says what they
// are.
//
//   conv_grad_request          which map the input gradient reads; often the layer's own
//   conv_grad_weights_bytes,   whenever the weights have changed
//   conv_grad_weights_pack
//   conv_grad_input            the input gradient: a convolution
//   map_build_lists (map.cuh)  for each frame, coordinate set and kernel: the pair lists
//   conv_grad_weight           the weight gradient, fp32
//   conv_grad_bias             the bias gradient, fp32
//
// The machinery is in grad/: share (how the pairs are shared out), traits, fill, multiply and
// kernel (sm_80 and later), hopper/ (sm_90a), exact (fp32, older GPUs), bias, reduce, launch.
#ifndef SPIRA_CONV_GRAD_CUH
#define SPIRA_CONV_GRAD_CUH

#include "conv.cuh"
#include "grad/run.cuh"

namespace spira {

// ---- input gradient -----------------------------------------------------------------------------

// One input gradient, as in conv_args. Null members are optional.
struct conv_grad_input_args {
    conv_shape shape;     // of the layer
    grad_source source;   // of a layer with two sources
    const conv_map *map;  // on the host; of conv_grad_request
    const void *out_grad; // [outputs, cout]
    const void *weights;  // of conv_grad_weights_pack, with the same shape, source and device_info
    const void *residual; // [inputs, channels of `source`]: added, before the one rounding
    void *in_grad;        // [map->capacity, channels of `source`]
    bool programmatic;    // see conv_args
};

// What the map of an input gradient is made of, and the order of its weights. layer: the request of
// the layer's own map, which serves where *order is grad_order_mirrored.
template <typename W>
SPIRA_API conv_map_request<W> conv_grad_request(const conv_map_request<W> *layer,
                                                grad_order *order) {
    conv_map_request<W> r = *layer;
    const bool same = r.source.words == r.outputs.words && r.source.count == r.outputs.count;
    *order = conv_grad_mirrors(&r.kernel, same) ? grad_order_mirrored : grad_order_same;
    if (*order == grad_order_same) {
        r.source = layer->outputs;
        r.outputs = layer->source;
        r.kernel.transposed = !r.kernel.transposed;
    }
    return r;
}

// Bytes of the packed weights of an input gradient.
SPIRA_API status conv_grad_weights_bytes(const device_info *gpu, const conv_shape *shape,
                                         grad_source source, size_t *bytes) {
    SPIRA_TRY(conv_grad_shape_check(shape, source, grad_order_same));
    const conv_shape s = conv_grad_shape(shape, source);
    return conv_weights_bytes(gpu, &s, bytes);
}

// Packs a layer's weights for conv_grad_input, transposed, and mirrored if `order` says so
// (conv_grad_request): as conv_weights_pack, from the same weights, to conv_grad_weights_bytes.
// Both sources together must have at most 4096 channels.
template <numeric format = numeric_any>
SPIRA_API status conv_grad_weights_pack(const device_info *gpu, const conv_shape *shape,
                                        grad_source source, grad_order order,
                                        const conv_weights *weights, cudaStream_t stream) {
    size_t bytes = 0;
    SPIRA_TRY(conv_grad_shape_check(shape, source, order));
    SPIRA_TRY(conv_grad_weights_bytes(gpu, shape, source, &bytes));
    SPIRA_TRY(conv_pack_check(shape, weights, bytes));
    const conv_shape s = conv_grad_shape(shape, source);
    conv_pack_request r = conv_pack_request_of(gpu, &s, conv_kernel_of(&s, gpu), weights);
    r.rows = shape->cin + shape->cin2;
    r.first = (int64_t)grad_channels_of(shape, source).first * shape->cout;
    r.weight += r.first;
    return numeric_dispatch<format>(s.type, [&](auto tag) {
        return order == grad_order_mirrored
                   ? conv_pack_as<conv_weights_of_layer_mirrored>(tag, &r, stream)
                   : conv_pack_as<conv_weights_of_layer>(tag, &r, stream);
    });
}

// The input gradient: `conv` of the layer's out_grad with the weights of conv_grad_weights_pack.
//
// outputs  args->in_grad; rows from *map->count on are not written. The residual may be in_grad
//          itself: so gradients of several readers are accumulated
// errors, cost, determinism   those of conv (conv.cuh)
template <numeric format = numeric_any>
SPIRA_API status conv_grad_input(const device_info *gpu, const conv_grad_input_args *args,
                                 cudaStream_t stream) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_grad_shape_check(&args->shape, args->source, grad_order_same));
    const size_t element = (size_t)numeric_size(args->shape.type);
    SPIRA_TRY(pointer_check(args->out_grad, element, "out_grad"));
    SPIRA_TRY(pointer_check(args->in_grad, element, "in_grad"));
    conv_args a = {};
    a.shape = conv_grad_shape(&args->shape, args->source);
    a.map = args->map;
    a.in = args->out_grad;
    a.weights = args->weights;
    a.epilogue.residual = args->residual;
    a.out = args->in_grad;
    a.programmatic = args->programmatic;
    return conv<format>(gpu, &a, stream);
}

// ---- weight gradient ----------------------------------------------------------------------------

SPIRA_API status conv_grad_weight_check(const device_info *gpu, const conv_grad_weight_args *a) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_shape_check(&a->shape));
    SPIRA_TRY(pairs_sides_check(&a->shape, a->sides));
    const size_t element = (size_t)numeric_size(a->shape.type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    if (a->shape.cin2) {
        SPIRA_TRY(pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(pointer_check(a->out_grad, element, "out_grad"));
    if (a->shape.volume > 1 || a->sides != pairs_sides_centre) {
        SPIRA_TRY(map_lists_check(&a->pairs));
    }
    SPIRA_TRY(pointer_check(a->count, sizeof(int32_t), "count"));
    SPIRA_TRY(capacity_check(a->capacity, "capacity"));
    SPIRA_TRY(pointer_check(a->weight_grad, sizeof(float), "weight_grad"));
    const void *const to = a->weight_grad;
    SPIRA_REQUIRE(to != a->in && to != a->in2 && to != a->out_grad, status_unsupported,
                  "weight_grad (overlaps an input)", 0);
    return a->bias_grad ? pointer_check(a->bias_grad, sizeof(float), "bias_grad")
                        : status_success();
}

// Bytes of scratch for conv_grad_weight: the partial sums of one to three thread blocks a
// multiprocessor, and those of the bias. It depends on the shape and the device alone.
SPIRA_API status conv_grad_weight_workspace(const device_info *gpu, const conv_shape *shape,
                                            size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_shape_check(shape));
    const grad_cut cut = grad_cut_of(shape, gpu);
    conv_grad_weight_args none = {};
    none.shape = *shape;
    return workspace_measure(bytes, [&](workspace *w) { grad_params_of(&none, &cut, w); });
}

// The weight gradient, and the bias gradient.
//
// inputs   args: see conv_grad_weight_args. Pairs with a negative row, pairs of outputs from *count
//          on, and pairs from pairs.capacity on, are skipped
// outputs  args->weight_grad, all of it: 0 for an offset without pairs; args->bias_grad, the same
//          bits as those of conv_grad_bias
// errors   a half map of an even volume
// Asynchronous; two launches, three with a bias gradient. Products of fp16 and bf16 are exact, tf32
// rounds the features to 10 bits of fraction; sums are fp32. Bit-identical from run to run: the
// order of the additions depends on the pairs, the shape and the device_info, not on the
// capacities.
//
// cost     (cin + cout) elements gathered for each pair, times the tiles of up to 256 channels on
//          the other side; written and read once for each part: the sums of a tile
template <numeric format = numeric_any>
SPIRA_API status conv_grad_weight(const device_info *gpu, const conv_grad_weight_args *args,
                                  void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_TRY(conv_grad_weight_check(gpu, args));
    SPIRA_TRY(conv_grad_weight_workspace(gpu, &args->shape, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    grad_cut cut = grad_cut_of(&args->shape, gpu);
    if (args->bias_grad) {
        grad_cut_beside(&args->shape, gpu, &cut);
    }
    workspace w = workspace_begin(scratch);
    grad_params p = grad_params_of(args, &cut, &w);
    p.args.programmatic = args->programmatic && gpu->programmatic;
    return numeric_dispatch<format>(args->shape.type,
                                    [&](auto tag) { return grad_run(tag, gpu, p, stream); });
}

// ---- bias gradient ------------------------------------------------------------------------------

// Bytes of scratch for conv_grad_bias.
SPIRA_API status conv_grad_bias_workspace(int cout, size_t *bytes) {
    SPIRA_TRY(conv_grad_channels_check(cout));
    return workspace_measure_array<float>(grad_bias_slots(cout), bytes);
}

// The bias gradient by itself. conv_grad_weight computes it beside the weight gradient, in less
// time.
//
// outputs  args->bias_grad
// Asynchronous; two launches. Bit-identical from run to run and on every GPU: the order of the
// additions depends on the number of rows alone.
template <numeric format = numeric_any>
SPIRA_API status conv_grad_bias(const device_info *gpu, const conv_grad_bias_args *args,
                                void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    grad_params p = {};
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_grad_bias_check(args));
    const int64_t slots = grad_bias_slots(args->cout);
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, slots, &p.bias_slots));
    p.args.shape.cout = args->cout;
    p.args.out_grad = args->out_grad;
    p.args.count = args->count;
    p.args.capacity = args->capacity;
    p.args.bias_grad = args->bias_grad;
    p.wide_out = conv_aligned(args->out_grad, args->cout, numeric_size(args->type), 16);
    SPIRA_TRY(numeric_dispatch<format>(args->type, [&](auto tag) {
        return grad_bias_launch<typename decltype(tag)::element>(p, false, stream);
    }));
    return grad_reduce_launch(gpu, p, stream);
}

} // namespace spira

#endif
