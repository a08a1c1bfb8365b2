// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_check.h: compares every layer that the GPU computed with the host, output by
// output.
//
// Each layer is recomputed in double precision from the inputs that the layer had on the GPU: a
// layer is judged by its own error. Bound: 2 (terms + 8) eps32 * sum of magnitudes, and one
// rounding of the result. int8 layers have the integers of their weights (conv_i8.h).
#ifndef SPIRA_EXAMPLES_SCAN_CHECK_H
#define SPIRA_EXAMPLES_SCAN_CHECK_H

#include "scan_side_device.h"

namespace side {

// One layer's arrays on the host. All but `map` and the parameters are owned.
struct check_layer {
    const spira::net_layer *layer;
    const spira::net_step *step;
    spira::net_params at;
    const float *params;
    const int32_t *map;
    int32_t outputs;
    float *in, *in2, *residual, *got; // as the GPU has them; of int8, without the scale
    float *weight;                    // rounded to the format
    float scale, scale_residual;      // of int8 outputs and residuals; else 0
    double *sum;
    float *magnitude;            // the same sum of absolute values
    const check_layer *shortcut; // fused into this one, of the same outputs; or null
};

static inline void absolute(float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = fabsf(values[i]);
    }
}

// An output before the activation, without its residual, and the sum of its magnitudes.
static inline void check_output(const check_layer *c, int64_t i, double *value, double *size) {
    const int n = (int)(i % c->step->shape.cout);
    double bias = c->at.bias < 0 ? 0 : c->params[c->at.bias + n];
    const bool within = spira::net_i8_shares_steps(c->step); // the scale is in the weights
    double scale = c->at.scale < 0 || within ? 1 : c->params[c->at.scale + n];
    double shift = c->at.shift < 0 ? 0 : c->params[c->at.shift + n];
    *value = (c->sum[i] + bias) * scale + shift;
    *size = (c->magnitude[i] + fabs(bias)) * fabs(scale) + fabs(shift);
}

// The worst error of a layer in units of its bound; infinite where something is not finite.
static inline double check_worst(const check_layer *c, spira::numeric type) {
    const spira::conv_shape *s = &c->step->shape;
    double worst = 0,
           eps = spira::numeric_epsilon(type == spira::numeric_tf32 ? spira::numeric_f32 : type);
    for (int64_t o = 0; o < c->outputs; ++o) {
        int taps = 0;
        for (int k = 0; k < s->volume; ++k) {
            taps += !c->map || c->map[o * s->volume + k] >= 0;
        }
        const spira::conv_shape *more = c->shortcut ? &c->shortcut->step->shape : nullptr;
        double count = (double)taps * (s->cin + s->cin2) + (more ? more->cin + more->cin2 : 0);
        double terms = 2.0 * (count + 8) / (1 << 24);
        for (int n = 0; n < s->cout; ++n) {
            int64_t i = o * s->cout + n;
            double y, size, extra = c->residual ? c->residual[i] : 0;
            extra *= c->scale_residual > 0 ? c->scale_residual : 1;
            double extra_size = fabs(extra);
            check_output(c, i, &y, &size);
            if (c->shortcut) {
                check_output(c->shortcut, i, &extra, &extra_size);
            }
            y += extra;
            size += extra_size;
            const double before = fabs(y), slope = (double)c->layer->slope;
            y = spira::activation_apply(y, c->layer->act, slope);
            double bound = terms * size * spira::activation_steepness(c->layer->act, slope) +
                           spira::activation_error(c->layer->act) * before;
            double got = c->got[i];
            if (c->scale > 0) {
                const double unit = c->scale;
                got *= unit;
                y = fmin(fmax(y, -128 * unit), 127 * unit);
                bound += 0.5 * unit * (1 + 1e-5);
            } else {
                bound += eps * fabs(y) + 1e-7; // fp16's subnormals
            }
            double ratio = fabs(got - y) / bound;
            worst = ratio <= worst ? worst : ratio == ratio ? ratio : HUGE_VAL;
        }
    }
    return worst;
}

template <typename W>
static spira::status check_fetch(const job *j, const device_job<W> *d, const result<W> *r,
                                 int source, float **out) {
    *out = nullptr;
    if (source == spira::net_none) {
        return spira::status_success();
    }
    int channels = spira::net_source_channels(j->plan, source);
    int32_t rows = r->voxels[spira::net_source_set(j->plan, source)];
    *out = (float *)malloc(((size_t)rows * channels + 1) * sizeof(float));
    return device_fetch(j, d, source, rows, *out);
}

// The weights of an int8 layer: integers times the step of their channel.
static inline spira::status check_weights_i8(const spira::net_plan *plan, int layer,
                                             check_layer *c) {
    const int64_t weights = c->at.vectors - c->at.weight, cout = c->step->shape.cout;
    const int into = c->step->fused_into, reader = into == spira::net_none ? layer : into;
    spira::net_i8_operands operands;
    std::vector<char> memory((size_t)spira::net_i8_carve(plan, reader, nullptr, &operands));
    (void)spira::net_i8_carve(plan, reader, memory.data(), &operands);
    SPIRA_TRY(spira::net_i8_operands_make(plan, reader, c->params, &operands));
    const int8_t *whole = reader == layer ? operands.weight : operands.shortcut;
    const float *step = operands.step;
    c->weight = (float *)malloc((size_t)weights * sizeof(float));
    for (int64_t i = 0; i < weights; ++i) {
        c->weight[i] = (float)whole[i] * step[i % cout];
    }
    return spira::status_success();
}

// The sums. c->weight: those of an int8 layer, else null
static inline spira::status check_compute(check_layer *c, int32_t inputs, spira::numeric type) {
    const spira::conv_shape *s = &c->step->shape;
    int64_t outputs = (int64_t)c->outputs * s->cout, weights = c->at.vectors - c->at.weight;
    c->sum = (double *)malloc((size_t)(outputs + 1) * sizeof(double));
    c->magnitude = (float *)malloc((size_t)(outputs + 1) * sizeof(float));
    const bool given = c->weight;
    c->weight = given ? c->weight : (float *)malloc((size_t)weights * sizeof(float));
    for (int64_t i = 0; !given && i < weights; ++i) {
        c->weight[i] = spira::numeric_operand(type, c->params[c->at.weight + i]);
    }
    if (type == spira::numeric_tf32) { // stored as fp32, rounded on the way into the product
        for (int64_t i = 0; i < (int64_t)inputs * s->cin; ++i) {
            c->in[i] = spira::tf32_round(c->in[i]);
        }
        for (int64_t i = 0; i < (int64_t)inputs * s->cin2; ++i) {
            c->in2[i] = spira::tf32_round(c->in2[i]);
        }
    }
    spira::conv_host_args args = {*s, c->in, c->in2, c->weight, c->map, c->outputs};
    args.shape.type = spira::numeric_f32; // operands are floats, those of int8 layers, too
    SPIRA_TRY(spira::conv_sum_host(&args, c->sum));
    absolute(c->in, (int64_t)inputs * s->cin);
    absolute(c->in2, (int64_t)inputs * s->cin2);
    absolute(c->weight, weights);
    return spira::conv_sum_host(&args, c->magnitude);
}

// Frees the operands of the sums.
static inline void check_free_operands(check_layer *c) {
    free(c->in);
    free(c->in2);
    free(c->weight);
    c->in = c->in2 = c->weight = nullptr;
}

static inline void check_free(check_layer *c) {
    check_free_operands(c);
    free(c->residual);
    free(c->got);
    free(c->sum);
    free(c->magnitude);
}

// The scale of a layer's features, or the input's: 0 unless they are int8.
static inline float scale_of(const spira::net_plan *plan, int layer) {
    return layer != spira::net_none && spira::net_type_of(plan, layer) == spira::numeric_i8
               ? spira::net_scale_of(plan, layer)
               : 0.0f;
}

// A layer's sums.
template <typename W>
static spira::status check_sum(const job *j, const device_job<W> *d, const result<W> *r, int layer,
                               const int32_t *map, check_layer *c) {
    c->layer = &j->plan->layers[layer];
    c->step = &j->plan->step[layer];
    c->at = spira::net_params_of(j->plan, layer);
    c->params = j->params;
    c->map = map;
    c->outputs = r->voxels[c->step->set];
    SPIRA_TRY(check_fetch(j, d, r, spira::net_number(c->layer->source), &c->in));
    SPIRA_TRY(check_fetch(j, d, r, spira::net_number(c->layer->source2), &c->in2));
    if (c->at.step >= 0) {
        SPIRA_TRY(check_weights_i8(j->plan, layer, c));
    }
    return check_compute(c, r->voxels[c->step->source_set], j->chosen->type);
}

// A layer, with its fused shortcut if it has one.
template <typename W>
static spira::status check_one(const job *j, const device_job<W> *d, const result<W> *r, int layer,
                               const int32_t *map, double *worst) {
    check_layer c = {}, own = {};
    const int shortcut = j->plan->step[layer].shortcut;
    spira::status s = check_sum(j, d, r, layer, map, &c);
    if (shortcut != spira::net_none) {
        s = spira::status_failed(s) ? s : check_sum(j, d, r, shortcut, nullptr, &own);
        c.shortcut = &own;
    } else {
        s = spira::status_failed(s)
                ? s
                : check_fetch(j, d, r, spira::net_number(c.layer->residual), &c.residual);
        c.scale_residual = scale_of(j->plan, spira::net_number(c.layer->residual));
    }
    c.scale = scale_of(j->plan, layer);
    s = spira::status_failed(s) ? s : check_fetch(j, d, r, layer, &c.got);
    *worst = spira::status_failed(s) ? HUGE_VAL : check_worst(&c, j->chosen->type);
    check_free(&c);
    check_free(&own);
    return s;
}

static bool check_is_norm(spira::net_op op) {
    return op == spira::net_norm_layer || op == spira::net_norm_rms || op == spira::net_norm_groups;
}

// A norm, by the host loop in fp32 on the rows that the GPU has: only the last rounding, exp and
// erf differ, and of groups the sums, which are long. words: of the set
template <typename W>
static spira::status check_norm(const job *j, const device_job<W> *d, const result<W> *r, int layer,
                                const W *words, double *worst) {
    const spira::net_layer *l = &j->plan->layers[layer];
    const spira::net_step *step = &j->plan->step[layer];
    const float *vectors = j->params + step->params;
    const int32_t count = r->voxels[step->set];
    float *in, *residual, *got;
    SPIRA_TRY(check_fetch(j, d, r, spira::net_number(l->source), &in));
    SPIRA_TRY(check_fetch(j, d, r, spira::net_number(l->residual), &residual));
    SPIRA_TRY(check_fetch(j, d, r, layer, &got));
    const bool groups = l->op == spira::net_norm_groups;
    const int32_t capacity = count ? count : 1;
    spira::norm_args a = {};
    a.in = a.out = in;
    a.channels = step->channels;
    a.type = spira::numeric_f32;
    a.kind = l->op == spira::net_norm_rms ? spira::norm_rms : spira::norm_layer;
    a.epsilon = l->epsilon;
    a.gain = l->norm ? vectors : nullptr;
    a.shift = l->norm ? vectors + step->channels : nullptr;
    a.residual = residual;
    a.act = l->act;
    a.slope = l->slope;
    a.count = groups ? nullptr : &count;
    a.capacity = groups ? 0 : capacity;
    const spira::norm_groups_args<W> of_groups = {
        &j->layout, {(W *)words, (int32_t *)&count, capacity}, l->groups, a};
    const spira::status s = groups ? spira::norm_groups_host(&of_groups) : spira::norm_host(&a);
    const double eps = spira::numeric_epsilon(step->type);
    const double sums = groups ? 1e-4 : 1e-5;
    *worst = 0;
    for (int64_t i = 0; i < (int64_t)count * step->channels; ++i) {
        const double wanted = in[i];
        const double ratio = fabs(got[i] - wanted) / (eps * fabs(wanted) + sums);
        *worst = ratio <= *worst ? *worst : ratio == ratio ? ratio : HUGE_VAL;
    }
    free(in);
    free(residual);
    free(got);
    return s;
}

// Compares the sets' sizes and pairs, then all convolutions and norms, with the host's index
// `plan`.
template <typename W>
static spira::status check_against(const job *j, const prepared<W> *p, const device_job<W> *d,
                                   const spira::net_plan *plan, void *memory, result<W> *r) {
    spira::device_status trouble = {};
    spira::net_run_args<W> run = {};
    run.input = p->set;
    run.trouble = &trouble;
    run.memory = memory;
    run.bytes = plan->workspace_bytes;
    SPIRA_TRY(spira::net_index_host(plan, &run));
    for (int s = 0; s < plan->sets; ++s) {
        int32_t voxels = *spira::net_voxels(plan, s, p->set, memory).count;
        SPIRA_REQUIRE(voxels == r->voxels[s], spira::status_bad_size,
                      "check (the GPU found another number of voxels)", r->voxels[s]);
    }
    for (int m = 0; m < plan->maps; ++m) {
        const int32_t *pairs = (const int32_t *)((char *)memory + plan->map[m].pairs);
        int64_t all = 0;
        for (int k = 0; k < plan->map[m].volume; ++k) {
            all += pairs[k];
        }
        SPIRA_REQUIRE(all == r->pairs[m], spira::status_bad_size,
                      "check (the GPU found another number of pairs)", r->pairs[m]);
    }
    for (int i = 0; i < plan->layer_count; ++i) {
        int m = plan->step[i].map;
        const spira::net_op op = plan->layers[i].op;
        double worst;
        progress("checking layer", i, plan->layer_count);
        if (check_is_norm(op)) {
            const W *const words = spira::net_voxels(plan, plan->step[i].set, p->set, memory).words;
            SPIRA_TRY(check_norm(j, d, r, i, words, &worst));
        } else if (spira::net_is_conv(&plan->layers[i]) &&
                   j->plan->step[i].fused_into == spira::net_none) {
            const int32_t *map =
                m < 0 ? nullptr : (const int32_t *)((char *)memory + plan->map[m].map);
            SPIRA_TRY(check_one(j, d, r, i, map, &worst));
        } else {
            continue;
        }
        ++r->checked;
        if (!(worst <= r->worst)) {
            r->worst = worst;
            r->worst_layer = i;
        }
    }
    progress("checking layer", plan->layer_count, plan->layer_count);
    return spira::status_success();
}

// Checks all layers; the plan of the job has kept them and counted the pairs.
template <typename W>
static spira::status check_layers(const job *j, const prepared<W> *p, const device_job<W> *d,
                                  result<W> *r) {
    SPIRA_REQUIRE(!j->plan->stages, spira::status_unsupported,
                  "check (sets follow from features: use --no-check)", 0);
    spira::net_plan *plan = (spira::net_plan *)malloc(sizeof *plan);
    spira::net_limits limits = j->plan->limits;
    limits.type = spira::numeric_f32;
    limits.keep_all = false;
    spira::status s =
        spira::net_plan_host<W>(j->net->layers, j->net->count, &j->layout, &limits, plan);
    if (!spira::status_failed(s)) {
        void *memory = block_new(plan->workspace_bytes);
        s = check_against(j, p, d, plan, memory, r);
        free(memory);
    }
    free(plan);
    return s;
}

} // namespace side

#endif
