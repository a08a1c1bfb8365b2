// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_onnx.h: the network of an .onnx file in place of one of networks.h.
#ifndef SPIRA_EXAMPLES_SCAN_ONNX_H
#define SPIRA_EXAMPLES_SCAN_ONNX_H

#include "onnx_model.h"
#include "scan_range.h"
#include "scan_weights.h"

namespace side {

// Prints the table of a file's layers.
static inline void onnx_list(const onnx::model *m) {
    const spira::triple e = m->net.grid.extent;
    printf("%d channels in, extent %d x %d x %d\n", m->net.input_channels, e.x, e.y, e.z);
    for (int i = 0; i < m->net.count; ++i) {
        const spira::net_layer *l = &m->net.layers[i];
        const onnx::model_layer *more = &m->layers[(size_t)i];
        const char *kind = l->op == spira::net_dense           ? "dense map"
                           : l->transposed                     ? "inverse"
                           : l->rule == spira::net_rule_expand ? "strided"
                                                               : "submanifold";
        printf("%-8s of %3d  %-11s %4d channels, size %d %d %d, stride %d %d %d, padding %d %d %d",
               l->name, spira::net_number(l->source), kind, l->channels, l->size.x, l->size.y,
               l->size.z, l->stride.x, l->stride.y, l->stride.z, l->padding.x, l->padding.y,
               l->padding.z);
        char int8[48] = "";
        if (more->int8) {
            snprintf(int8, sizeof int8, ", int8, inputs up to %g", (double)more->input_range);
        }
        printf("%s%s%s\n", l->residual.plus_two ? ", residual" : "",
               l->act == spira::activation_relu ? ", ReLU" : "", int8);
    }
    if (!m->cut.empty()) {
        printf("the network ends here: %s\n", m->cut.c_str());
    }
}

// Reads the network of a file. Its range is nuScenes', or that of the options; the voxels must make
// the extent that the file has. With --list the layers are printed, and that is all. *net: points
// into the model. Ranges are those of --weights, if there are any, else the file's. Returns 0 or
// the exit code.
static inline int onnx_network(const options *o, onnx::model *m, networks::network *net) {
    scan::scan_reason why;
    if (o->net_given) {
        fprintf(stderr, "--net %s: %s has the network\n", o->net, o->onnx);
        return 2;
    }
    const spira::status s = onnx::model_read(o->onnx, m, &why);
    if (spira::status_failed(s)) {
        return fail_file(&why, net, s);
    }
    if (o->list) {
        onnx_list(m);
        return 0;
    }
    if (!m->cut.empty()) {
        printf("the network ends in front of %s\n", m->cut.c_str());
    }
    if (m->net.input_channels > 5) { // Autoware's files may make sines and cosines of them
        printf("the network reads %d values a voxel: what the scan does not have is 0\n",
               m->net.input_channels);
    }
    *net = m->net;
    int code;
    if (o->weights) {
        code = weights::ranges_take(o, net);
    } else {
        spira::net_limits limits = {};
        onnx::model_int8(m, &limits);
        m->net.input_range = limits.range;
        code = int8_take(o, &m->net, net);
    }
    return code ? code : range_choose_of_file(o, o->onnx, net);
}

// The parameters of the file, or of --weights, in new memory, which the caller frees; saved to a
// blob if the options say so. `plan` becomes a plan of the network. Returns 0 or the exit code.
static inline int onnx_params(const options *o, const onnx::model *m, const networks::network *net,
                              spira::net_plan *plan, float **params) {
    const spira::net_limits limits = limits_of(net, 1);
    const spira::status s = spira::net_plan_sets(net->layers, net->count, &limits, false, plan);
    if (spira::status_failed(s)) {
        return fail("planning the network", net, s);
    }
    *params = (float *)calloc((size_t)plan->params, sizeof(float));
    if (!*params) {
        fprintf(stderr, "no memory for the parameters\n");
        return 1;
    }
    if (o->weights) {
        return weights::params_fill(o, net, plan, *params);
    }
    onnx::model_params(m, plan, *params);
    printf("weights: %s, %d layers\n", o->onnx, net->count);
    return o->save_weights ? weights::params_save(o, net, plan, *params) : 0;
}

} // namespace side

#endif
