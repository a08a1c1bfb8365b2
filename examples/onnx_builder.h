// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_builder.h: what the dialects of .onnx files have in common: the model that is made
// of a file, and how weights, sums and activations become part of its layers.
#ifndef SPIRA_EXAMPLES_ONNX_BUILDER_H
#define SPIRA_EXAMPLES_ONNX_BUILDER_H

#include "network.h"
#include "onnx_file.h"

#include <algorithm>
#include <map>

namespace onnx {

// What a file says of a layer beyond the table.
struct model_layer {
    std::vector<float> weight;       // [size.x, size.y, size.z, cin, cout]
    std::vector<float> bias;         // [cout], or empty
    std::vector<float> scale, shift; // [cout] of batch norm, or empty
    std::string rulebook;            // layers of one rulebook share a kernel map; "": its own
    std::string node;                // for messages
    // Of eight bits: the largest magnitudes, 0 or empty where the file has none.
    float input_range, sum_range;     // sum: of the inputs of the residual sum behind it
    std::vector<float> weight_ranges; // [cout]
    bool int8, int8_output;
};

struct model {
    networks::network net;
    std::vector<model_layer> layers; // as many as net.layers
    std::string cut;                 // the first node that is not known, and why; empty: none
};

// A file under conversion.
struct builder {
    reader *r;
    const graph *g;
    model *m;
    std::map<std::string, const tensor *> tensors; // initializers and constants
    std::map<std::string, std::string> alias;      // of what an alias makes: what it reads
    std::map<std::string, int> layer_of;           // the layer that makes a tensor; net_input
    std::map<std::string, int> readers;            // how many nodes read a tensor
    int axis[3];                                   // the network's axis of each of the file's
};

static inline std::string node_text(const graph *g, const node &n) {
    return "node " + std::to_string(&n - g->nodes.data()) + " (" + n.op + " " + n.name + ")";
}

// ---- tensors ------------------------------------------------------------------------------------

// Whether a node's output is its input under another name. A Cast to a float type is: layers run in
// the format of the plan.
static inline bool node_is_alias(const node &n) {
    const bool cast = n.op == "Cast" && type_is_float((int)attribute_int(n, "to", 0));
    return (cast || n.op == "Identity") && n.inputs.size() == 1 && n.outputs.size() == 1;
}

// The first name of a tensor.
static inline std::string resolve(const builder *b, const std::string &name) {
    const auto found = b->alias.find(name);
    return found == b->alias.end() ? name : found->second;
}

// The number of the layer that makes a tensor; net_input, net_none.
static inline int layer_find(const builder *b, const std::string &name) {
    const auto found = b->layer_of.find(resolve(b, name));
    return found == b->layer_of.end() ? (int)spira::net_none : found->second;
}

// The initializer or constant of a name; null: it is none.
static inline const tensor *tensor_named(const builder *b, const std::string &name) {
    const auto found = b->tensors.find(resolve(b, name));
    return found == b->tensors.end() ? nullptr : found->second;
}

// The same of an input of a node.
static inline const tensor *tensor_find(const builder *b, const node &n, size_t input) {
    return input < n.inputs.size() ? tensor_named(b, n.inputs[input]) : nullptr;
}

static inline int readers_of(const builder *b, const std::string &name) {
    const auto found = b->readers.find(resolve(b, name));
    return found == b->readers.end() ? 0 : found->second;
}

// Gathers tensors and counts readers.
static inline bool tensors_gather(builder *b) {
    for (const tensor &t : b->g->tensors) {
        const auto added = b->tensors.emplace(t.name, &t);
        const tensor &first = *added.first->second;
        if (!added.second && (first.dims != t.dims || first.floats != t.floats)) {
            return refuse(b->r, "two tensors have the name " + t.name +
                                    ": export quantised and plain layers apart, or rename them");
        }
    }
    for (const node &n : b->g->nodes) {
        const attribute *constant = n.op == "Constant" ? attribute_find(n, "value") : nullptr;
        if (constant && constant->has_tensor && !n.outputs.empty()) {
            b->tensors[n.outputs[0]] = &constant->t;
        }
        if (node_is_alias(n)) {
            b->alias[n.outputs[0]] = resolve(b, n.inputs[0]);
            continue;
        }
        for (size_t i = 0; i < n.inputs.size() && n.op != "Shape"; ++i) { // it reads no values
            ++b->readers[resolve(b, n.inputs[i])];
        }
    }
    for (const value &v : b->g->outputs) {
        ++b->readers[resolve(b, v.name)];
    }
    return true;
}

// ---- layers -------------------------------------------------------------------------------------

// Three numbers of a node, in the order of the network's axes.
static inline bool triple_find(builder *b, const node &n, const char *name, int otherwise,
                               spira::triple *t) {
    const attribute *a = attribute_find(n, name);
    int value[3] = {otherwise, otherwise, otherwise};
    if (a && a->ints.size() != 3) {
        return refuse(b->r, node_text(b->g, n) + ": " + name + " is not three numbers");
    }
    for (int f = 0; a && f < 3; ++f) {
        if (a->ints[f] < 0 || a->ints[f] > INT32_MAX / 2) {
            return refuse(b->r,
                          node_text(b->g, n) + ": " + name + " is " + std::to_string(a->ints[f]));
        }
        value[b->axis[f]] = (int)a->ints[f];
    }
    *t = spira::triple_make(value[0], value[1], value[2]);
    return true;
}

// The weight [cout, k0, k1, k2, cin] of the file as [size.x, size.y, size.z, cin, cout]. The first
// one that reads the input says how many channels that has.
static inline bool weight_take(builder *b, const node &n, const tensor &w, spira::net_layer *l,
                               model_layer *to) {
    const int size[3] = {l->size.x, l->size.y, l->size.z};
    bool good = w.dims.size() == 5 && !w.floats.empty();
    for (int f = 0; f < 3 && good; ++f) {
        good = w.dims[1 + f] == size[b->axis[f]];
    }
    if (!good) {
        return refuse(b->r, node_text(b->g, n) + ": its weight " + w.name +
                                " is not [cout, kernel_size, cin] of floats");
    }
    const int64_t cout = w.dims[0], cin = w.dims[4];
    const int source = spira::net_number(l->source);
    int *input = &b->m->net.input_channels;
    *input = source == spira::net_input && !*input ? (int)cin : *input;
    const int64_t have = source == spira::net_input ? *input : b->m->net.layers[source].channels;
    if (cin != have) {
        return refuse(b->r, node_text(b->g, n) + ": its weight is for " + std::to_string(cin) +
                                " channels, its features have " + std::to_string(have));
    }
    to->weight.resize(w.floats.size());
    int64_t k[3], from = 0;
    for (int64_t o = 0; o < cout; ++o) {
        for (k[0] = 0; k[0] < w.dims[1]; ++k[0]) {
            for (k[1] = 0; k[1] < w.dims[2]; ++k[1]) {
                for (k[2] = 0; k[2] < w.dims[3]; ++k[2]) {
                    int64_t at[3];
                    for (int f = 0; f < 3; ++f) {
                        at[b->axis[f]] = k[f];
                    }
                    const int64_t tap = (at[0] * size[1] + at[1]) * size[2] + at[2];
                    for (int64_t i = 0; i < cin; ++i) {
                        to->weight[(size_t)((tap * cin + i) * cout + o)] = w.floats[(size_t)from++];
                    }
                }
            }
        }
    }
    l->channels = (int)cout;
    return true;
}

// The bias [cout] of a convolution, its input `input`.
static inline bool bias_take(builder *b, const node &n, size_t input, spira::net_layer *l,
                             model_layer *to) {
    const tensor *bias = tensor_find(b, n, input);
    if (!bias || (int)bias->floats.size() != l->channels) {
        return refuse(b->r, node_text(b->g, n) + ": its bias is not [cout]");
    }
    to->bias = bias->floats;
    l->bias = true;
    return true;
}

// Adds a layer. Returns its number.
static inline int layer_add(builder *b, const spira::net_layer &l, const model_layer &more) {
    char name[32];
    snprintf(name, sizeof name, "layer%d", b->m->net.count);
    b->m->layers.push_back(more);
    return networks::network_add(&b->m->net, name, l);
}

// Whether a layer may take up a sum or an activation: a plain convolution that is read once.
static inline bool layer_is_open(const builder *b, int layer, const std::string &tensor) {
    const spira::net_layer *l = layer < 0 ? nullptr : &b->m->net.layers[layer];
    return l && l->op == spira::net_conv && l->act == spira::activation_none &&
           !l->residual.plus_two && readers_of(b, tensor) == 1;
}

static inline bool add_take(builder *b, const node &n) {
    int layer[2] = {spira::net_none, spira::net_none};
    for (int i = 0; i < 2 && n.inputs.size() == 2; ++i) {
        layer[i] = layer_find(b, n.inputs[(size_t)i]);
    }
    if (layer[0] == spira::net_none || layer[1] == spira::net_none || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": adds what nothing made");
    }
    const int later = layer[1] > layer[0]; // the other one is there when it runs
    if (!layer_is_open(b, layer[later], n.inputs[(size_t)later])) {
        return refuse(b->r, node_text(b->g, n) + ": the later of what it adds is no convolution "
                                                 "without activation that it alone reads");
    }
    b->m->net.layers[layer[later]].residual = spira::net_from(layer[!later]);
    b->m->layers[(size_t)layer[later]].sum_range =
        std::max(attribute_float(n, "input0_dynamic_range", 0),
                 attribute_float(n, "input1_dynamic_range", 0));
    b->layer_of[n.outputs[0]] = layer[later];
    return true;
}

static inline bool relu_take(builder *b, const node &n) {
    const int layer = n.inputs.empty() ? spira::net_none : layer_find(b, n.inputs[0]);
    if (layer < 0 || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": reads what nothing made");
    }
    spira::net_layer *l = &b->m->net.layers[layer];
    const bool plain = l->act == spira::activation_none && readers_of(b, n.inputs[0]) == 1;
    if (!plain && l->act != spira::activation_relu) {
        return refuse(b->r, node_text(b->g, n) + ": what it reads is read elsewhere, too");
    }
    l->act = spira::activation_relu;
    b->layer_of[n.outputs[0]] = layer;
    return true;
}

} // namespace onnx

#endif
