// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/conv.cuh: convolutions as layers on the GPU.
#ifndef SPIRA_NET_OPS_CONV_CUH
#define SPIRA_NET_OPS_CONV_CUH

#include "../../conv_linear.cuh"
#include "../../tune.cuh"
#include "../place.h"
#include "base.cuh"
#include "conv.h"

namespace spira {

// The epilogue of a layer, but for the residual, and its packed weights.
SPIRA_API conv_epilogue net_loaded_epilogue(const net_plan *p, int layer, const void *loaded) {
    return net_epilogue(p, layer, (const float *)((const char *)loaded + p->step[layer].vectors));
}

SPIRA_API const void *net_loaded_weights(const net_plan *p, int layer, const void *loaded) {
    return (const char *)loaded + p->step[layer].packed;
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
    const conv_epilogue epilogue = net_loaded_epilogue(p, own, run->loaded);
    return net_shortcut_of(p, own, &epilogue, net_loaded_weights(p, own, run->loaded), run);
}

template <numeric format, typename W>
SPIRA_API status net_op_run(net_op_conv, const net_launch<W> *a) {
    const net_layer *l = &a->plan->layers[a->layer];
    const net_step *step = &a->plan->step[a->layer];
    const conv_map map = net_conv_map(a->plan, a->layer, a->run);
    const conv_sizes sizes = tune_sizes(&step->choice);
    conv_shortcut shortcut = {};
    conv_args args = {};
    args.shape = step->shape;
    args.map = &map;
    args.in = net_in(a->plan, l->source, a->run);
    args.in2 = net_in(a->plan, l->source2, a->run);
    args.weights = net_loaded_weights(a->plan, a->layer, a->run->loaded);
    args.epilogue = net_loaded_epilogue(a->plan, a->layer, a->run->loaded);
    if (step->shortcut != net_none) {
        shortcut = net_conv_shortcut(a->plan, a->layer, a->run);
        args.shortcut = &shortcut;
    } else {
        args.epilogue.residual = net_in(a->plan, l->residual, a->run);
    }
    args.out = net_target(a->plan, a->layer, a->run);
    args.programmatic = a->programmatic;
    args.sizes = step->choice.tiles ? &sizes : nullptr;
    args.quantisation = net_quantisation(
        a->plan, a->layer, (const float *)((const char *)a->run->loaded + step->vectors));
    return net_dispatch<format>(step->shape.type, [&](auto own) {
        constexpr numeric type = decltype(own)::value;
        return conv_linear<type, true, net_has_i8(format)>(&a->plan->gpu, &args, a->stream);
    });
}

SPIRA_API status net_op_packed_bytes(net_op_conv, const net_plan *p, int i, size_t *bytes) {
    const net_step *step = &p->step[i];
    const conv_shape *s = &step->shape;
    return step->fused_into == net_none
               ? conv_weights_bytes(&p->gpu, s, bytes)
               : conv_shortcut_bytes(&p->gpu, &p->step[step->fused_into].shape, s->cin, s->cin2,
                                     bytes);
}

SPIRA_API conv_weights_tag net_op_packed_tag(net_op_conv, const net_plan *p, int i) {
    const net_step *step = &p->step[i];
    const conv_shape *s = &step->shape;
    return step->fused_into == net_none
               ? conv_weights_tag_make(&p->gpu, s, conv_kernel_of(s, &p->gpu))
               : conv_shortcut_tag(&p->gpu, &p->step[step->fused_into].shape, s->cin, s->cin2);
}

// Steps that two layers share. Pointers are device memory: steps and scales of both [cout], scale
// null or given.
struct net_i8_steps {
    const float *step[2], *scale[2];
    float *shared; // [cout]
    int cout;
};

SPIRA_PLAIN_KERNEL void net_i8_steps_kernel(net_i8_steps s) {
    const int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (c < s.cout) {
        s.shared[c] = conv_i8_step_shared(s.step[0][c], s.scale[0] ? s.scale[0][c] : 1.0f,
                                          s.step[1][c], s.scale[1] ? s.scale[1][c] : 1.0f);
    }
}

// Fills the steps that a layer and its shortcut share, in the loaded parameters of the layer.
SPIRA_LAUNCHER status net_i8_steps_load(const net_plan *p, int layer, const float *params,
                                        char *loaded, const float **step, cudaStream_t stream) {
    const int pair[2] = {layer, p->step[layer].shortcut};
    net_i8_steps s = {};
    for (int n = 0; n < 2; ++n) {
        const net_params at = net_op_params(net_op_conv(), p, pair[n]);
        s.step[n] = params + at.step;
        s.scale[n] = at.scale < 0 ? nullptr : params + at.scale;
        s.shared =
            n ? s.shared : (float *)(loaded + p->step[layer].vectors) + (at.step - at.vectors);
    }
    s.cout = p->step[layer].shape.cout;
    *step = s.shared;
    const unsigned blocks = (unsigned)ceil_div(s.cout, 128);
    return kernel_launch(net_i8_steps_kernel<0>, {blocks, 128, stream, "net_load"}, s);
}

// The weights of an int8 layer, from those of any layer.
SPIRA_LAUNCHER status net_i8_pack_weights(const net_plan *p, int i, const conv_weights *from,
                                          conv_weights *to, cudaStream_t stream) {
    const net_step *step = &p->step[i];
    const net_params at = net_op_params(net_op_conv(), p, i);
    const float *params = from->weight - step->params;
    const conv_i8_weights scales = net_i8_weights(p, i, nullptr);
    *to = *from;
    to->step = params + at.step;
    to->scale_in = scales.scale_in;
    to->scale_in2 = scales.scale_in2;
    if (!net_i8_shares_steps(step)) {
        return status_success();
    }
    to->scale = at.scale < 0 ? nullptr : params + at.scale;
    return net_i8_steps_load(p, step->fused_into == net_none ? i : step->fused_into, params,
                             (char *)from->packed - step->packed, &to->step, stream);
}

template <numeric format>
SPIRA_API status net_op_pack(net_op_conv, const net_plan *p, int i, const conv_weights *weights,
                             cudaStream_t stream) {
    const net_step *step = &p->step[i];
    const conv_shape *s = &step->shape;
    conv_weights own = *weights;
    if (s->type == numeric_i8) {
        SPIRA_TRY(net_i8_pack_weights(p, i, weights, &own, stream));
    }
    return net_dispatch<format>(s->type, [&](auto type) {
        return step->fused_into == net_none
                   ? conv_weights_pack<decltype(type)::value>(&p->gpu, s, &own, stream)
                   : conv_shortcut_pack<decltype(type)::value>(
                         &p->gpu, &p->step[step->fused_into].shape, s->cin, s->cin2, &own, stream);
    });
}

} // namespace spira

#endif
