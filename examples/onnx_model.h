// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_model.h: a network and its parameters from an .onnx file, of libspconv's dialect
// (onnx_libspconv.h) or Autoware's (onnx_autoware.h).
//
//   onnx::model *m = new onnx::model;
//   SPIRA_TRY(onnx::model_read("centerpoint.onnx", m, &why));
//   ... net_plan for m->net.layers; onnx::model_params(m, plan, params) ...
//
// The network's axes are always x, y, z, in whatever order the file has them. Where the dense map's
// rows run along x, the network's x is the y of the points (network.exchange_xy). A residual sum
// and the activation behind it become part of the convolution in front of them. The first node that
// is not known ends the network: `cut` names it.
#ifndef SPIRA_EXAMPLES_ONNX_MODEL_H
#define SPIRA_EXAMPLES_ONNX_MODEL_H

#include "onnx_autoware.h"
#include "onnx_libspconv.h"

#include "../spira/net.h"

namespace onnx {

// Makes a network of a graph.
static inline spira::status model_make(const char *path, const graph &g, model *m,
                                       scan::scan_reason *why) {
    reader r = {path, why, spira::status_success()};
    builder b = {&r, &g, m, {}, {}, {}, {}, {0, 1, 2}};
    networks::network_begin(&m->net, 0);
    m->layers.clear();
    m->cut.clear();
    m->net.batch = 1;
    if (g.inputs.empty()) {
        refuse(&r, "has no input");
    } else if (tensors_gather(&b)) {
        (void)(autoware_is(g) ? autoware_take(&b) : libspconv_take(&b));
    }
    return r.result;
}

// Reads a file.
//
// outputs: m    the table of layers, its parameters, extent and ranges
//          why  on failure the node and what was expected; the status points to it
static inline spira::status model_read(const char *path, model *m, scan::scan_reason *why) {
    graph g;
    SPIRA_TRY(graph_load(path, &g, why));
    return model_make(path, g, m, why);
}

// The layers that the file marks as int8 compute in int8, but those that read what floating-point
// layers read, too. Without this call they do not: a file of calibrated layers serves both.
// Features that are read at two ranges have the larger one.
//
// outputs: m->net.layers  format, and the range of what they write
//          limits         range of the network's input
static inline void model_int8(model *m, spira::net_limits *limits) {
    const auto range_of = [=](spira::net_source s) {
        const int layer = spira::net_number(s);
        return layer < 0 ? &limits->range : &m->net.layers[layer].range;
    };
    for (int i = 0; i < m->net.count; ++i) {
        const float own = m->layers[(size_t)i].input_range;
        if (m->layers[(size_t)i].int8) {
            float *range = range_of(m->net.layers[i].source);
            m->net.layers[i].format = spira::net_format_i8;
            *range = own <= *range ? *range : own; // NaN stays: refused
        }
    }
    for (int i = 0; i < m->net.count; ++i) { // what sums alone read
        const spira::net_source residual = m->net.layers[i].residual;
        if (m->layers[(size_t)i].int8 && residual.plus_two && *range_of(residual) == 0) {
            *range_of(residual) = m->layers[(size_t)i].sum_range;
        }
    }
    spira::net_formats_settle(m->net.layers, m->net.count);
}

// The steps of an int8 layer: of the file's ranges, where they are above 0.
static inline void model_steps(const model_layer &l, const spira::net_plan *plan, int layer,
                               float *params) {
    const spira::net_params at = spira::net_params_of(plan, layer);
    const float scale = spira::net_i8_weights(plan, layer, params + at.weight).scale_in;
    for (size_t c = 0; c < l.weight_ranges.size(); ++c) {
        const float step = scale * l.weight_ranges[c] / 127;
        params[at.step + (int64_t)c] = step > 0 ? step : params[at.step + (int64_t)c];
    }
}

// Fills the parameters of a plan of m->net: params [plan->params].
static inline void model_params(const model *m, const spira::net_plan *plan, float *params) {
    for (int i = 0; i < m->net.count; ++i) {
        const model_layer &l = m->layers[(size_t)i];
        const spira::net_params at = spira::net_params_of(plan, i);
        const struct {
            const std::vector<float> &from;
            int64_t to;
        } parts[] = {
            {l.weight, at.weight}, {l.bias, at.bias}, {l.scale, at.scale}, {l.shift, at.shift}};
        for (const auto &part : parts) {
            if (!part.from.empty()) {
                std::copy(part.from.begin(), part.from.end(), params + part.to);
            }
        }
    }
    (void)spira::net_params_steps(plan, params); // what is wrong with them, net_params_check says
    for (int i = 0; i < m->net.count; ++i) {
        if (spira::net_params_of(plan, i).step >= 0) {
            model_steps(m->layers[(size_t)i], plan, i, params);
        }
    }
}

} // namespace onnx

#endif
