// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/ops/conv.h: convolutions as layers.
#ifndef SPIRA_NET_OPS_CONV_H
#define SPIRA_NET_OPS_CONV_H

#include "../../conv_i8.h"
#include "base.h"

namespace spira {

struct net_op_conv : net_op_kernel {
    enum {
        members = net_member_source2 | net_member_channels | net_member_kernel |
                  net_member_epilogue | net_member_conv | net_member_range,
    };
};

SPIRA_API status net_op_check(net_op_conv, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const int source2 = net_number(l->source2);
    SPIRA_TRY(net_op_check(net_op_kernel(), p, i));
    if (l->channels < 1 || l->channels > conv_channels_max) {
        return net_fault("channels (1 to 4096)", i);
    }
    if (source2 != net_none &&
        net_source_set(p, source2) != net_source_set(p, net_number(l->source))) {
        return net_fault("source2 (of another set than source)", i);
    }
    SPIRA_TRY(net_check_act(l, i));
    return l->pairs < 0 ? net_fault("pairs (a negative number)", i) : status_success();
}

SPIRA_API unsigned net_op_wish(net_op_conv, const net_plan *p, int i, bool residual) {
    const bool i8 = net_is_i8(&p->layers[i]);
    return residual ? (i8 ? net_wish_small : net_wish_none) : i8 ? net_wish_i8 : net_wish_float;
}

SPIRA_API status net_op_shape(net_op_conv, net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    net_step *step = &p->step[i];
    SPIRA_TRY(net_op_shape(net_op_base(), p, i));
    step->shape.type = net_is_i8(l) ? numeric_i8 : net_type_wanted(p, i);
    step->shape.cin2 = net_source_channels(p, net_number(l->source2));
    step->channels = step->shape.cout = l->channels;
    const status good = conv_shape_check_i8(&step->shape);
    if (status_failed(good)) {
        return net_fault(good, i);
    }
    return net_check_residual(p, i);
}

// Weights, then what the layer has of bias, scale, shift and step.
SPIRA_API net_params net_op_params(net_op_conv, const net_plan *p, int i) {
    const net_layer *l = &p->layers[i];
    const conv_shape *s = &p->step[i].shape;
    net_params at;
    at.weight = p->step[i].params;
    at.vectors = at.weight + (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
    at.bias = l->bias ? at.vectors : -1;
    at.end = at.vectors + (l->bias ? s->cout : 0);
    at.scale = l->norm ? at.end : -1;
    at.shift = l->norm ? at.end + s->cout : -1;
    at.end += l->norm ? 2 * s->cout : 0;
    at.step = net_is_i8(l) ? at.end : -1;
    at.end += net_is_i8(l) ? s->cout : 0;
    return at;
}

// Whether a layer and the shortcut that is fused into it, which may be this one, share steps.
SPIRA_API bool net_i8_shares_steps(const net_step *step) {
    return step->shape.type == numeric_i8 &&
           (step->shortcut != net_none || step->fused_into != net_none);
}

// The epilogue of a layer, but for the residual. vectors: its bias, scale and shift. The scales of
// an int8 layer with a shortcut, and those of the shortcut, are in the weights.
SPIRA_API conv_epilogue net_epilogue(const net_plan *p, int i, const float *vectors) {
    const net_params at = net_op_params(net_op_conv(), p, i);
    conv_epilogue e = {};
    e.bias = at.bias < 0 ? nullptr : vectors + (at.bias - at.vectors);
    e.scale = at.scale < 0 || net_i8_shares_steps(&p->step[i]) ? nullptr
                                                               : vectors + (at.scale - at.vectors);
    e.shift = at.shift < 0 ? nullptr : vectors + (at.shift - at.vectors);
    e.act = p->layers[i].act;
    e.slope = p->layers[i].slope;
    return e;
}

// The formats of a layer's residual and output. vectors: as above
SPIRA_API conv_quantisation net_quantisation(const net_plan *p, int i, const float *vectors) {
    const net_step *step = &p->step[i];
    const net_params at = net_op_params(net_op_conv(), p, i);
    const int residual =
        step->shortcut == net_none ? net_number(p->layers[i].residual) : (int)net_none;
    conv_quantisation q = {};
    q.step = at.step < 0 ? nullptr : vectors + (at.step - at.vectors);
    q.out_type = step->type;
    q.out_inverse = step->type == numeric_i8 ? 1.0f / step->scale : 0.0f;
    if (residual != net_none) {
        q.residual_type = net_type_of(p, residual);
        q.residual_scale = q.residual_type == numeric_i8 ? net_scale_of(p, residual) : 0.0f;
    }
    const bool i8 = step->shape.type == numeric_i8; // other formats are stored alike (net_op_type)
    q.mixed = (q.out_type == numeric_i8) != i8 ||
              (residual != net_none && (q.residual_type == numeric_i8) != i8);
    if (!q.mixed) {
        q.out_type = q.residual_type = (numeric)0;
    }
    return q;
}

// The floating-point weights of an int8 layer. weight: those of the layer, in host memory
SPIRA_API conv_i8_weights net_i8_weights(const net_plan *p, int i, const float *weight) {
    const net_layer *l = &p->layers[i];
    const conv_shape *s = &p->step[i].shape;
    return {*s, weight, net_scale_of(p, net_number(l->source)),
            s->cin2 ? net_scale_of(p, net_number(l->source2)) : 0.0f};
}

// ---- int8 on the host ---------------------------------------------------------------------------

// What an int8 layer is computed from on the host, in scratch: the integers of its weights, those
// of its shortcut, and steps.
struct net_i8_operands {
    float *step;               // [cout]
    int8_t *weight, *shortcut; // of the shapes of the layers; shortcut: null without one
};

// Carves the scratch, and returns its bytes.
SPIRA_API int64_t net_i8_carve(const net_plan *p, int i, void *scratch, net_i8_operands *to) {
    const net_step *step = &p->step[i];
    const int64_t cout = step->shape.cout, own = conv_products(&step->shape) * cout;
    const int64_t more =
        step->shortcut == net_none ? 0 : conv_products(&p->step[step->shortcut].shape) * cout;
    const int64_t steps = cout * (int64_t)sizeof(float);
    *to = {(float *)scratch, (int8_t *)scratch + steps,
           more ? (int8_t *)scratch + steps + own : nullptr};
    return steps + own + more;
}

// The steps that a layer and its shortcut share. at: of the parameters of both
SPIRA_API void net_i8_steps_share(const net_params *at, const net_params *shortcut, int cout,
                                  const float *params, float *step) {
    const auto scale = [params](const net_params *of, int c) {
        return of->scale < 0 ? 1.0f : params[of->scale + c];
    };
    for (int c = 0; c < cout; ++c) {
        step[c] = conv_i8_step_shared(params[at->step + c], scale(at, c),
                                      params[shortcut->step + c], scale(shortcut, c));
    }
}

// Quantises the weights of a layer by these steps. shares: with a shortcut's
SPIRA_API status net_i8_quantise(const net_plan *p, int i, bool shares, const float *params,
                                 const float *step, int8_t *to) {
    const net_params at = net_op_params(net_op_conv(), p, i);
    conv_i8_weights weights = net_i8_weights(p, i, params + at.weight);
    weights.scale = shares && at.scale >= 0 ? params + at.scale : nullptr;
    return conv_i8_weights_host(&weights, step, to);
}

SPIRA_API status net_i8_operands_make(const net_plan *p, int i, const float *params,
                                      const net_i8_operands *to) {
    const net_step *step = &p->step[i];
    const net_params at = net_op_params(net_op_conv(), p, i);
    const bool shares = step->shortcut != net_none;
    if (shares) {
        const net_params own = net_op_params(net_op_conv(), p, step->shortcut);
        net_i8_steps_share(&at, &own, step->shape.cout, params, to->step);
        SPIRA_TRY(net_i8_quantise(p, step->shortcut, true, params, to->step, to->shortcut));
    } else {
        std::copy(params + at.step, params + at.step + step->shape.cout, to->step);
    }
    return net_i8_quantise(p, i, shares, params, to->step, to->weight);
}

// On the host: the operands of an int8 layer; else the sums of a layer whose output or residual is
// int8.
SPIRA_API int64_t net_op_scratch_host(net_op_conv, const net_plan *p, int i) {
    const net_step *step = &p->step[i];
    const int64_t cout = step->shape.cout;
    net_i8_operands none;
    return step->shape.type == numeric_i8 ? net_i8_carve(p, i, nullptr, &none)
           : net_quantisation(p, i, nullptr).mixed
               ? p->set[step->set].capacity * cout * (int64_t)sizeof(float)
               : 0;
}

// The shortcut that is fused into an int8 layer, on the host or the device. e: its bias and shift
template <typename W>
SPIRA_API conv_shortcut net_shortcut_of(const net_plan *p, int shortcut, const conv_epilogue *e,
                                        const void *weights, const net_run_args<W> *run) {
    const net_step *step = &p->step[shortcut];
    conv_shortcut s = {};
    s.cin = step->shape.cin;
    s.cin2 = step->shape.cin2;
    s.in = net_in(p, p->layers[shortcut].source, run);
    s.in2 = net_in(p, p->layers[shortcut].source2, run);
    s.weights = weights;
    s.bias = e->bias;
    s.scale = e->scale;
    s.shift = e->shift;
    return s;
}

// An int8 layer on the host.
template <typename W>
SPIRA_API status net_conv_i8_host(const net_plan *p, int i, const conv_host_args *a,
                                  conv_i8_host_args *args, const net_run_args<W> *run) {
    const float *params = (const float *)run->loaded;
    const int shortcut = p->step[i].shortcut;
    net_i8_operands operands;
    conv_shortcut added = {};
    (void)net_i8_carve(p, i, (char *)run->memory + p->scratch, &operands);
    SPIRA_TRY(net_i8_operands_make(p, i, params, &operands));
    if (shortcut != net_none) {
        const net_params at = net_op_params(net_op_conv(), p, shortcut);
        const conv_epilogue e = net_epilogue(p, shortcut, params + at.vectors);
        added = net_shortcut_of(p, shortcut, &e, operands.shortcut, run);
        args->shortcut = &added;
    }
    args->quantisation.step = operands.step;
    args->shape = a->shape;
    args->in = (const int8_t *)a->in;
    args->in2 = (const int8_t *)a->in2;
    args->weight = operands.weight;
    args->map = a->map;
    args->outputs = a->outputs;
    return conv_i8_host(args, net_target(p, i, run));
}

// A floating-point layer on the host whose output or residual is int8.
SPIRA_API status net_conv_mixed_host(const conv_host_args *a, const conv_epilogue *e,
                                     const conv_quantisation *q, float *sums, void *out) {
    SPIRA_TRY(conv_sum_host<float>(a, sums));
    const int64_t cout = a->shape.cout, total = a->outputs * cout;
    const float scale = q->residual_scale > 0 ? q->residual_scale : 1.0f;
    const float inverse = q->out_inverse > 0 ? q->out_inverse : 1.0f;
    for (int64_t n = 0; n < total; ++n) {
        const float residual =
            e->residual ? scale * numeric_load(q->residual_type, e->residual, n) : 0.0f;
        numeric_store(q->out_type, out, n,
                      epilogue_apply(sums[n], e, (int)(n % cout), residual) * inverse);
    }
    return status_success();
}

template <typename W>
SPIRA_API status net_op_run_host(net_op_conv op, const net_plan *p, int i,
                                 const net_run_args<W> *run) {
    const net_layer *l = &p->layers[i];
    const net_step *step = &p->step[i];
    if (step->fused_into != net_none) {
        return status_success();
    }
    const net_params at = net_op_params(op, p, i);
    const float *params = (const float *)run->loaded;
    conv_epilogue e = net_epilogue(p, i, params + at.vectors);
    e.residual = step->shortcut == net_none ? net_in(p, l->residual, run) : nullptr;
    const conv_quantisation q = net_quantisation(p, i, params + at.vectors);
    const conv_host_args args = {step->shape,
                                 (const float *)net_in(p, l->source, run),
                                 (const float *)net_in(p, l->source2, run),
                                 params + at.weight,
                                 net_map_of(p, i, run->memory),
                                 net_voxels_count(p, step->set, run)};
    void *const scratch = (char *)run->memory + p->scratch, *const out = net_target(p, i, run);
    if (step->shape.type == numeric_i8) {
        conv_i8_host_args more = {};
        more.epilogue = e;
        more.quantisation = q;
        return net_conv_i8_host(p, i, &args, &more, run);
    }
    return q.mixed ? net_conv_mixed_host(&args, &e, &q, (float *)scratch, out)
                   : conv_host(&args, &e, (float *)out);
}

} // namespace spira

#endif
