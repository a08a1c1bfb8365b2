// spira/net/layers.cuh: launches the layers of a plan whose index is there. `format` is the number
// format that convolutions and pooling are compiled for.
#ifndef SPIRA_NET_LAYERS_CUH
#define SPIRA_NET_LAYERS_CUH

#include "../conv.cuh"
#include "../conv/tune_fit.cuh"
#include "../dense.cuh"
#include "../join.cuh"
#include "../pool.cuh"
#include "place.h"

namespace spira {

// The loaded bias, scale and shift of a layer; null where the layer has none.
struct net_vectors {
    const float *bias, *scale, *shift;
};

SPIRA_API net_vectors net_vectors_of(const net_plan *p, int layer, const void *loaded) {
    const net_params at = net_params_of(p, layer);
    const float *begin = (const float *)((const char *)loaded + p->step[layer].vectors);
    net_vectors v;
    v.bias = at.bias < 0 ? nullptr : begin + (at.bias - at.vectors);
    v.scale = at.scale < 0 ? nullptr : begin + (at.scale - at.vectors);
    v.shift = at.shift < 0 ? nullptr : begin + (at.shift - at.vectors);
    return v;
}

// The map of a convolution, over the memory of the workspace.
template <typename W>
SPIRA_API conv_map net_conv_map(const net_plan *p, int layer, const net_run_args<W> *run) {
    const net_step *step = &p->step[layer];
    const voxel_set<W> outputs = net_voxels(p, step->set, run->input, run->memory);
    if (step->map != net_none) {
        const order_layout order = net_order(p, &p->map[step->map], run->memory);
        return conv_map_of_order(&order, outputs.count, outputs.capacity);
    }
    return conv_map_identity(outputs.count, outputs.capacity);
}

// The shortcut that is fused into a layer.
template <typename W>
SPIRA_API conv_shortcut net_conv_shortcut(const net_plan *p, int layer,
                                          const net_run_args<W> *run) {
    const int own = p->step[layer].shortcut;
    const net_step *step = &p->step[own];
    const net_vectors vectors = net_vectors_of(p, own, run->loaded);
    conv_shortcut s = {};
    s.cin = step->shape.cin;
    s.cin2 = step->shape.cin2;
    s.in = net_features_of(p, net_number(p->layers[own].source), run->features, run->memory);
    s.in2 = net_features_of(p, net_number(p->layers[own].source2), run->features, run->memory);
    s.weights = (const char *)run->loaded + step->packed;
    s.bias = vectors.bias;
    s.scale = vectors.scale;
    s.shift = vectors.shift;
    return s;
}

template <typename W, numeric format>
SPIRA_API status net_conv_run(const net_plan *p, int layer, const net_run_args<W> *run,
                              bool programmatic, cudaStream_t stream) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    const conv_map map = net_conv_map(p, layer, run);
    const net_vectors vectors = net_vectors_of(p, layer, run->loaded);
    const conv_sizes sizes = tune_sizes(&step->choice);
    conv_shortcut shortcut = {};
    conv_args args = {};
    args.shape = step->shape;
    args.map = &map;
    args.in = net_features_of(p, net_number(l->source), run->features, run->memory);
    args.in2 = net_features_of(p, net_number(l->source2), run->features, run->memory);
    args.weights = (const char *)run->loaded + step->packed;
    args.epilogue.bias = vectors.bias;
    args.epilogue.scale = vectors.scale;
    args.epilogue.shift = vectors.shift;
    args.epilogue.act = l->act;
    args.epilogue.slope = l->slope;
    if (step->shortcut != net_none) {
        shortcut = net_conv_shortcut(p, layer, run);
        args.shortcut = &shortcut;
    } else {
        args.epilogue.residual =
            net_features_of(p, net_number(l->residual), run->features, run->memory);
    }
    args.out = net_target(p, layer, run);
    args.programmatic = programmatic;
    args.sizes = step->choice.tiles ? &sizes : nullptr;
    return conv<format, true>(&p->gpu, &args, stream);
}

template <typename W, numeric format>
SPIRA_API status net_pool_run(const net_plan *p, int layer, const net_run_args<W> *run,
                              cudaStream_t stream) {
    const net_layer *l = &p->layers[layer];
    const net_step *step = &p->step[layer];
    const net_map *map = &p->map[step->map];
    const voxel_set<W> outputs = net_voxels(p, step->set, run->input, run->memory);
    char *memory = (char *)run->memory;
    return pool<format>(l->op == net_pool_max ? pool_max : pool_average, step->type,
                        net_features_of(p, net_number(l->source), run->features, memory),
                        step->channels, (const int32_t *)(memory + map->map), map->volume,
                        outputs.count, outputs.capacity, net_target(p, layer, run), stream);
}

template <typename W, numeric format>
SPIRA_API status net_dense_run(const net_plan *p, int layer, const net_run_args<W> *run,
                               bool programmatic, cudaStream_t stream) {
    dense_args<W> args = net_dense_args(p, layer, run);
    args.programmatic = programmatic;
    if constexpr (format == numeric_any) {
        return dense<W>(&p->gpu, &args, stream);
    } else { // the types of net_type_of
        constexpr numeric own = format == numeric_tf32 ? numeric_f32 : format;
        return args.out_type == numeric_f32 ? dense<W, format, numeric_f32>(&p->gpu, &args, stream)
                                            : dense<W, format, own>(&p->gpu, &args, stream);
    }
}

template <typename W, numeric format>
SPIRA_API status net_join_run(const net_plan *p, int layer, const net_run_args<W> *run,
                              bool programmatic, cudaStream_t stream) {
    join_sum_args args = net_join_sum_args(p, layer, run);
    args.programmatic = programmatic;
    return join_sum<format>(&p->gpu, &args, stream);
}

// Computes one layer. The arguments have been checked. A fused layer launches nothing.
//
// programmatic  the launch before this one on the stream is a layer too, and no other stream has
//               been waited for since
template <typename W, numeric format = numeric_any>
SPIRA_API status net_layer_start(const net_plan *p, int layer, const net_run_args<W> *run,
                                 bool programmatic, cudaStream_t stream) {
    if (p->step[layer].fused_into != net_none) {
        return status_success();
    }
    switch (p->layers[layer].op) {
    case net_conv:
        return net_conv_run<W, format>(p, layer, run, programmatic, stream);
    case net_join:
        return net_join_run<W, format>(p, layer, run, programmatic, stream);
    case net_dense:
        return net_dense_run<W, format>(p, layer, run, programmatic, stream);
    default:
        return net_pool_run<W, format>(p, layer, run, stream);
    }
}

// Computes layers [first, end). The first launch is not programmatic: what precedes it is no layer,
// or waits for the other stream.
template <typename W, numeric format = numeric_any>
SPIRA_API status net_layers_start(const net_plan *p, int first, int end, const net_run_args<W> *run,
                                  cudaStream_t stream) {
    bool programmatic = false;
    for (int i = first; i < end; ++i) {
        SPIRA_TRY(net_layer_start<W, format>(p, i, run, programmatic, stream));
        programmatic = programmatic || p->step[i].fused_into == net_none;
    }
    return status_success();
}

} // namespace spira

#endif
