// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_autoware.h: Autoware's dialect of .onnx files, as AWML and autoware-ml export
// BEVFusion for TensorRT. The whole detector is one graph, a convolution two nodes:
//
//   GetIndicePairsImplicitGemm   from the indices of a set: those of the output set, a kernel map
//   ImplicitGemm                 the product of features, weight and kernel map
//   GetIndicePairs, IndiceConv   the same for kernels of more than 32 taps
//
// The indices that a submanifold pair node returns are its input set, in the same order: pair nodes
// of one set with equal attributes become one kernel map (model_layer.rulebook), whether the file
// shares them (autoware-ml) or not (AWML). Batch norm becomes scale and shift of the layer, so that
// weights and biases keep their bits; scale and shift are computed in double and rounded once.
//
// What stands in front of the first convolution (means of voxels, sines and cosines, indices) is
// skipped: features enter at the first product node. The network ends with the dense map.
#ifndef SPIRA_EXAMPLES_ONNX_AUTOWARE_H
#define SPIRA_EXAMPLES_ONNX_AUTOWARE_H

#include "onnx_autoware_graph.h"

#include <math.h>

namespace onnx {

// ---- pair nodes ---------------------------------------------------------------------------------

// One axis of the extent of a strided layer's outputs. Returns false where nothing is left of it.
static inline bool extent_out(int extent, int size, int stride, int padding, int dilation,
                              int *out) {
    const int64_t last =
        (int64_t)extent + 2 * (int64_t)padding - (int64_t)dilation * (size - 1) - 1;
    const bool good = stride >= 1 && last >= 0 && last / stride < INT32_MAX / 2;
    *out = good ? (int)(last / stride) + 1 : 0;
    return good;
}

// The kernel of a pair node; *out: the extent of its output set.
static inline bool form_take(autoware *a, const node &n, autoware_pairs *p, spira::triple *out) {
    builder *b = a->b;
    const std::string text = node_text(b->g, n);
    const spira::triple in = a->extents[(size_t)p->from];
    const bool subm = attribute_int(n, "subm", 0) != 0;
    spira::net_layer *l = &p->form;
    spira::triple shape;
    if (!attribute_find(n, "ksize")) {
        return refuse(b->r, text + ": has no ksize");
    }
    if (!triple_find(b, n, "spatial_shape", 0, &shape) ||
        !triple_find(b, n, "ksize", 1, &l->size) || !triple_find(b, n, "stride", 1, &l->stride) ||
        !triple_find(b, n, "padding", 0, &l->padding) ||
        !triple_find(b, n, "dilation", 1, &l->dilation)) {
        return false;
    }
    if (!spira::triple_equal(shape, in)) {
        return refuse(b->r, text + ": spatial_shape is " + text_of(shape) +
                                " (x, y, z), its set has " + text_of(in));
    }
    *out = in;
    if (subm) { // padding means nothing: the kernel is centred
        l->padding = {};
        const bool odd = l->size.x % 2 && l->size.y % 2 && l->size.z % 2;
        const bool one = spira::triple_equal(l->stride, spira::triple_make(1, 1, 1));
        return (odd && one) ||
               refuse(b->r, text + ": submanifold with an even ksize or a stride other than 1");
    }
    l->rule = spira::net_rule_expand;
    const bool good =
        extent_out(in.x, l->size.x, l->stride.x, l->padding.x, l->dilation.x, &out->x) &&
        extent_out(in.y, l->size.y, l->stride.y, l->padding.y, l->dilation.y, &out->y) &&
        extent_out(in.z, l->size.z, l->stride.z, l->padding.z, l->dilation.z, &out->z);
    return good || refuse(b->r, text + ": its stride is 0, or its kernel larger than the extent");
}

static inline bool maps_equal(const autoware_pairs &p, const autoware_pairs &q) {
    return p.made_by->op == q.made_by->op && p.from == q.from && p.form.rule == q.form.rule &&
           spira::triple_equal(p.form.size, q.form.size) &&
           spira::triple_equal(p.form.stride, q.form.stride) &&
           spira::triple_equal(p.form.padding, q.form.padding) &&
           spira::triple_equal(p.form.dilation, q.form.dilation);
}

static inline bool pairs_take(autoware *a, const node &n) {
    builder *b = a->b;
    const std::string text = node_text(b->g, n);
    const int from = n.inputs.empty() ? -1 : set_find(a, n.inputs[0]);
    if (from < 0 || n.outputs.size() < 4) {
        return refuse(b->r, text + ": expected the indices of the first pair node or output 0 of a "
                                   "pair node, and four outputs or more");
    }
    if (attribute_int(n, "transpose", 0) || attribute_int(n, "batch_size", 1) != 1) {
        return refuse(b->r, text + ": transpose is not 0, or batch_size not 1");
    }
    spira::triple extent;
    autoware_pairs p = {&n, from, from, spira::net_layer_conv("", spira::net_input, 0, 1, 1)};
    if (!form_take(a, n, &p, &extent)) {
        return false;
    }
    size_t number = 0;
    while (number < a->maps.size() && !maps_equal(a->maps[number], p)) {
        ++number;
    }
    if (number == a->maps.size()) {
        if (p.form.rule == spira::net_rule_expand) {
            p.to = (int)a->extents.size();
            a->extents.push_back(extent);
        }
        a->maps.push_back(p);
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
        a->map_of[n.outputs[i]] = {(int)number, (int)i};
    }
    a->set_of[n.outputs[0]] = a->maps[number].to;
    return true;
}

// ---- product nodes ------------------------------------------------------------------------------

// The kernel map of a product node, whose inputs 2, 3 and 4 are outputs 1, 2 and 3 of its pair
// node. Returns its number; -1: refused.
static inline int map_find(autoware *a, const node &n) {
    builder *b = a->b;
    const char *expected = n.op == "ImplicitGemm" ? "GetIndicePairsImplicitGemm" : "GetIndicePairs";
    int number = -1;
    for (size_t i = 2; i < 5; ++i) {
        const auto found =
            i < n.inputs.size() ? a->map_of.find(resolve(b, n.inputs[i])) : a->map_of.end();
        const bool good = found != a->map_of.end() && found->second.second == (int)i - 1 &&
                          (number < 0 || number == found->second.first) &&
                          a->maps[(size_t)found->second.first].made_by->op == expected;
        if (!good) {
            refuse(b->r, node_text(b->g, n) + ": input " + std::to_string(i) + " is not output " +
                             std::to_string(i - 1) + " of its node " + expected);
            return -1;
        }
        number = found->second.first;
    }
    return number;
}

// Bias, activation and ranges of a product node.
static inline bool epilogue_take(autoware *a, const node &n, spira::net_layer *l, model_layer *to) {
    builder *b = a->b;
    const std::string text = node_text(b->g, n);
    const int64_t act = attribute_int(n, "act_type", 0), int8 = attribute_int(n, "precision", 0);
    const size_t count = n.inputs.size(), bias = int8 ? 6 : 5;
    if (act != 0 && act != 1 && act != 3) {
        return refuse(b->r, text + ": act_type " + std::to_string(act) +
                                "; known are 0 (none), 1 (ReLU) and 3 (leaky)");
    }
    l->act = act == 0   ? spira::activation_none
             : act == 1 ? spira::activation_relu
                        : spira::activation_leaky;
    l->slope = act == 3 ? attribute_float(n, "act_alpha", 0) : 0;
    if ((int8 != 0 && int8 != 1) || attribute_float(n, "output_scale", 1) != 1 ||
        attribute_int(n, "inverse", 0) || attribute_int(n, "groups", 1) > 1) {
        return refuse(b->r, text +
                                ": precision is not 0 or 1, output_scale not 1, or it is inverse "
                                "or in groups");
    }
    if (int8 ? count != 7 : count > (n.op == "IndiceConv" ? 5 : 6)) {
        return refuse(b->r, text + ": " + std::to_string(count) +
                                " inputs; expected 5, 6 with a "
                                "bias, 7 of precision 1");
    }
    if (count > bias && !n.inputs[bias].empty() && !bias_take(b, n, bias, l, to)) {
        return false;
    }
    if (!int8) {
        return true;
    }
    // spconv's: out = sum * channel_scale + bias_scaled, channel_scale = input_scale * weight's
    const float scale = attribute_float(n, "input_scale", 0);
    const tensor *channel = tensor_find(b, n, 5);
    if (!(scale > 0) || !isfinite(scale) || !channel ||
        (int)channel->floats.size() != l->channels) {
        return refuse(b->r, text + ": expected input_scale above 0 and channel_scale [cout]");
    }
    to->int8 = true;
    to->input_range = 127 * scale;
    for (float c : channel->floats) {
        to->weight_ranges.push_back(127 * (c / scale));
    }
    return true;
}

static inline bool product_take(autoware *a, const node &n) {
    builder *b = a->b;
    const std::string text = node_text(b->g, n);
    if (b->m->net.count == 0 && !n.inputs.empty()) { // features enter here
        b->layer_of[resolve(b, n.inputs[0])] = spira::net_input;
    }
    const int source = n.inputs.empty() ? spira::net_none : layer_find(b, n.inputs[0]);
    const tensor *weight = tensor_find(b, n, 1);
    if (source == spira::net_none || !weight || n.outputs.empty()) {
        return refuse(b->r, text + ": features or a weight that nothing made");
    }
    const int number = map_find(a, n);
    if (number < 0) {
        return false;
    }
    const autoware_pairs &p = a->maps[(size_t)number];
    const int subm = p.form.rule == spira::net_rule_floor;
    if (layer_set_of(a, source) != p.from) {
        return refuse(b->r, text + ": its features are not of the set that " +
                                node_text(b->g, *p.made_by) + " reads");
    }
    if ((attribute_int(n, "is_subm", subm) != 0) != (subm != 0)) {
        return refuse(b->r, text + ": is_subm is not the subm of " + node_text(b->g, *p.made_by));
    }
    spira::net_layer l = p.form;
    model_layer more = {};
    more.node = text;
    more.rulebook = "pairs" + std::to_string(number);
    l.source = spira::net_from(source);
    if (!weight_take(b, n, *weight, &l, &more) || !epilogue_take(a, n, &l, &more)) {
        return false;
    }
    b->layer_of[n.outputs[0]] = layer_add(b, l, more);
    a->layer_set.push_back(p.to);
    return true;
}

// ---- what follows a product ---------------------------------------------------------------------

// Batch norm: scale and shift of the convolution that it reads.
static inline bool norm_take(autoware *a, const node &n) {
    builder *b = a->b;
    const std::string text = node_text(b->g, n);
    const int layer = layer_find(b, n.inputs[0]);
    if (!layer_is_open(b, layer, n.inputs[0]) || b->m->net.layers[layer].norm ||
        n.outputs.empty() || attribute_int(n, "training_mode", 0)) {
        return refuse(b->r, text + ": expected a convolution in front of it that it alone reads, "
                                   "without activation, and training_mode 0");
    }
    spira::net_layer *l = &b->m->net.layers[layer];
    model_layer *to = &b->m->layers[(size_t)layer];
    const tensor *part[4]; // scale, bias, mean, variance
    for (size_t i = 0; i < 4; ++i) {
        part[i] = tensor_find(b, n, i + 1);
        if (!part[i] || (int)part[i]->floats.size() != l->channels) {
            return refuse(b->r, text + ": input " + std::to_string(i + 1) + " is not [" +
                                    std::to_string(l->channels) + "]");
        }
    }
    const double epsilon = attribute_float(n, "epsilon", 1e-5f);
    for (size_t c = 0; c < (size_t)l->channels; ++c) {
        const double variance = part[3]->floats[c] + epsilon;
        const double scale = part[0]->floats[c] / sqrt(variance);
        if (!(variance > 0)) {
            return refuse(b->r, text + ": the variance of channel " + std::to_string(c) +
                                    " is not above 0");
        }
        to->scale.push_back((float)scale);
        to->shift.push_back((float)(part[1]->floats[c] - part[2]->floats[c] * scale));
    }
    l->norm = true;
    b->layer_of[n.outputs[0]] = layer;
    return true;
}

// A constant [c] that is added: the bias of a convolution, or part of its shift.
static inline bool constant_take(autoware *a, const node &n, int layer, const tensor &t) {
    builder *b = a->b;
    spira::net_layer *l = &b->m->net.layers[layer];
    model_layer *to = &b->m->layers[(size_t)layer];
    if (t.floats.size() != (size_t)l->channels || t.dims.empty() || t.dims.back() != l->channels) {
        return refuse(b->r, node_text(b->g, n) + ": the constant that it adds is not [" +
                                std::to_string(l->channels) + "]");
    }
    std::vector<float> *sum = l->norm ? &to->shift : &to->bias;
    sum->resize(t.floats.size());
    for (size_t c = 0; c < t.floats.size(); ++c) {
        (*sum)[c] += t.floats[c];
    }
    l->bias = l->bias || !l->norm;
    b->layer_of[n.outputs[0]] = layer;
    return true;
}

static inline bool sum_take(autoware *a, const node &n) {
    builder *b = a->b;
    if (n.inputs.size() != 2 || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": expected two inputs and an output");
    }
    for (size_t i = 0; i < 2; ++i) {
        const tensor *constant = tensor_find(b, n, 1 - i);
        const int layer = layer_find(b, n.inputs[i]);
        if (constant && layer >= 0) {
            return layer_is_open(b, layer, n.inputs[i])
                       ? constant_take(a, n, layer, *constant)
                       : refuse(b->r, node_text(b->g, n) + ": expected a convolution without "
                                                           "activation that it alone reads");
        }
    }
    const int one = layer_find(b, n.inputs[0]), other = layer_find(b, n.inputs[1]);
    const bool made = one != spira::net_none && other != spira::net_none;
    if (made && layer_set_of(a, one) != layer_set_of(a, other)) {
        return refuse(b->r, node_text(b->g, n) + ": adds features of two sets");
    }
    return add_take(b, n); // refuses what nothing made
}

// ---- the whole ----------------------------------------------------------------------------------

// The first layer whose features a node reads; net_none.
static inline int layer_read(const builder *b, const node &n) {
    for (const std::string &input : n.inputs) {
        const int layer = layer_find(b, input);
        if (layer >= 0) {
            return layer;
        }
    }
    return spira::net_none;
}

// Takes a node that reads features. *more: the network goes on behind it.
static inline bool reading_take(autoware *a, const node &n, bool *more) {
    builder *b = a->b;
    const autoware_tail &t = a->tail;
    if (t.map && n.op == "Reshape" && maker_find(a, t.scatter->inputs[2]) == &n) {
        return true;
    }
    if (n.op == "BatchNormalization") {
        return norm_take(a, n);
    }
    if (n.op == "Add" || n.op == "Relu") {
        return n.op == "Add" ? sum_take(a, n) : relu_take(b, n);
    }
    *more = false;
    b->m->cut = node_text(b->g, n) +
                (&n == t.scatter ? " makes no dense map of a known exporter" : " is not known");
    return true;
}

// Takes the nodes up to the dense map, or the first that reads features and is not known.
static inline bool autoware_nodes_take(autoware *a) {
    builder *b = a->b;
    bool good = true, more = true;
    for (const node &n : b->g->nodes) {
        const bool scatter = &n == a->tail.scatter;
        const int layer = scatter ? layer_find(b, rows_of(a)) : layer_read(b, n);
        const int set = n.op == "Cast" && !n.inputs.empty() ? set_find(a, n.inputs[0]) : -1;
        if ((node_multiplies(n) || scatter) && b->m->net.count == spira::net_layers_max) {
            return refuse(b->r, "more than " + std::to_string(b->m->net.count) + " layers");
        }
        if (node_makes_pairs(n)) {
            good = pairs_take(a, n);
        } else if (node_multiplies(n)) {
            good = product_take(a, n);
        } else if (set >= 0 && !n.outputs.empty()) {
            a->set_of[n.outputs[0]] = set;
        } else if (scatter && layer >= 0 && tail_check(a, layer)) {
            dense_take(a, layer);
            more = false;
        } else if (layer >= 0 && !node_is_alias(n) && n.op != "Shape") {
            good = reading_take(a, n, &more);
        }
        if (!good || !more) {
            return good;
        }
    }
    return b->m->net.count > 0 || refuse(b->r, "has no node ImplicitGemm or IndiceConv");
}

// Makes a network of a graph of this dialect, whose tensors are gathered.
static inline bool autoware_take(builder *b) {
    autoware a = {};
    a.b = b;
    for (const node &n : b->g->nodes) {
        for (const std::string &output : n.outputs) {
            a.maker[output] = &n;
        }
    }
    if (!autoware_axes_find(&a) || !autoware_nodes_take(&a)) {
        return false;
    }
    const bool dense = b->m->net.layers[b->m->net.count - 1].op == spira::net_dense;
    return a.axes_known || dense ||
           refuse(b->r, b->m->cut + ": the order of the file's axes is known from its dense map "
                                    "alone, and this is none of a known exporter");
}

} // namespace onnx

#endif
