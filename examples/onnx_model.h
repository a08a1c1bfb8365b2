// examples/onnx_model.h: a network and its parameters from an .onnx file of libspconv's dialect, as
// the exporters of CenterPoint and BEVFusion write it: one node a layer, features as tensors,
// voxels unsaid.
//
//   onnx::model *m = new onnx::model;
//   SPIRA_TRY(onnx::model_read("centerpoint.onnx", m, &why));
//   ... net_plan for m->net.layers; onnx::model_params(m, plan, params) ...
//
// The file's axes are z, y, x or x, y, z; the network's are always x, y, z. Where the dense map's
// rows run along x (BEVFusion), the network's x is the file's y, and its y the file's x
// (network.exchange_xy). A residual sum and the activation behind it become part of the convolution
// in front of them. The first node that is not known ends the network: `cut` names it.
#ifndef SPIRA_EXAMPLES_ONNX_MODEL_H
#define SPIRA_EXAMPLES_ONNX_MODEL_H

#include "network.h"
#include "onnx_file.h"

#include <algorithm>
#include <map>

namespace onnx {

// What a file says of a layer beyond the table.
struct model_layer {
    std::vector<float> weight; // [size.x, size.y, size.z, cin, cout]
    std::vector<float> bias;   // [cout], or empty
    std::string rulebook;
    std::string node; // for messages
    // Of eight bits: the largest magnitudes, 0 or empty where the file has none.
    float input_range;
    std::vector<float> weight_ranges; // [cout]
    bool int8, int8_output;
};

struct model {
    networks::network net;
    std::vector<model_layer> layers; // as many as net.layers
    std::string cut;                 // the first node that is not known, and why; empty: none
    bool file_is_xyz;                // the file's axes are x, y, z; else z, y, x
};

// A file under conversion.
struct builder {
    reader *r;
    const graph *g;
    model *m;
    std::map<std::string, const tensor *> tensors; // initializers and constants
    std::map<std::string, int> layer_of;           // the layer that makes a tensor; net_input
    std::map<std::string, int> readers;            // how many nodes read a tensor
    int axis[3];                                   // the network's axis of each of the file's
};

static inline std::string node_text(const graph *g, const node &n) {
    return "node " + std::to_string(&n - g->nodes.data()) + " (" + n.op + " " + n.name + ")";
}

// ---- axes ---------------------------------------------------------------------------------------

// Follows the dense map through Transpose nodes: places[i] is the axis (0 batch, 1 channels, 2 to 4
// the file's) that stands at i in the end.
static inline bool axes_follow(const graph *g, const node &scatter, int places[5]) {
    std::string at = scatter.outputs.empty() ? "" : scatter.outputs[0];
    for (int i = 0; i < 5; ++i) {
        places[i] = i;
    }
    for (const node &n : g->nodes) {
        const attribute *dims = attribute_find(n, "dims");
        if (n.op != "Transpose" || n.inputs.empty() || n.inputs[0] != at || n.outputs.empty()) {
            continue;
        }
        int moved[5];
        if (!dims || dims->ints.size() != 5) {
            return false;
        }
        for (int i = 0; i < 5; ++i) {
            if (dims->ints[i] < 0 || dims->ints[i] > 4) {
                return false;
            }
            moved[i] = places[dims->ints[i]];
        }
        std::copy(moved, moved + 5, places);
        at = n.outputs[0];
    }
    return true;
}

// Finds the file's axes and whether x and y are exchanged.
static inline bool axes_find(builder *b) {
    const node *scatter = nullptr, *first = nullptr;
    for (const node &n : b->g->nodes) {
        scatter = n.op == "ScatterDense" && !scatter ? &n : scatter;
        first = n.op == "SparseConvolution" && !first ? &n : first;
    }
    if (!first) {
        return refuse(b->r, "has no node SparseConvolution");
    }
    const attribute *shape = attribute_find(*first, "input_spatial_shape");
    if (!shape || shape->ints.size() != 3) {
        return refuse(b->r, node_text(b->g, *first) + ": input_spatial_shape is not three numbers");
    }
    const std::string format = scatter ? attribute_text(*scatter, "format", "zyx")
                               : shape->ints[2] < shape->ints[0] ? "xyz"
                                                                 : "zyx";
    if (format != "xyz" && format != "zyx") {
        return refuse(b->r, node_text(b->g, *scatter) + ": format " + format + ", not xyz or zyx");
    }
    b->m->file_is_xyz = format == "xyz";
    const int z = b->m->file_is_xyz ? 2 : 0, y = 1, x = 2 - z; // the file's axes
    int places[5] = {0, 1, 2 + z, 2 + y, 2 + x};
    if (scatter && !axes_follow(b->g, *scatter, places)) {
        return refuse(b->r, node_text(b->g, *scatter) + ": a Transpose behind it is no order of "
                                                        "five axes");
    }
    const bool rows_y = places[2] == 2 + z && places[3] == 2 + y && places[4] == 2 + x;
    const bool rows_x = places[2] == 2 + z && places[3] == 2 + x && places[4] == 2 + y;
    if (places[0] != 0 || places[1] != 1 || (!rows_y && !rows_x)) {
        return refuse(b->r, node_text(b->g, *scatter) +
                                ": its map is not batch, channels, z, and y and x in the end");
    }
    b->m->net.exchange_xy = rows_x;
    b->axis[z] = 2;
    b->axis[y] = rows_x ? 0 : 1;
    b->axis[x] = rows_x ? 1 : 0;
    return true;
}

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

// ---- convolutions -------------------------------------------------------------------------------

// The weight [cout, k0, k1, k2, cin] of the file as [size.x, size.y, size.z, cin, cout].
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

static inline bool activation_take(builder *b, const node &n, spira::net_layer *l) {
    const std::string name = attribute_text(n, "activation", "ReLU");
    if (name != "ReLU" && name != "None") {
        return refuse(b->r,
                      node_text(b->g, n) + ": activation " + name + "; known are ReLU and None");
    }
    l->act = name == "ReLU" ? spira::activation_relu : spira::activation_none;
    return true;
}

// The earlier layer of a rulebook; -1: there is none.
static inline int rulebook_find(const builder *b, const std::string &rulebook) {
    for (int i = 0; i < b->m->net.count && !rulebook.empty(); ++i) {
        if (b->m->layers[(size_t)i].rulebook == rulebook) {
            return i;
        }
    }
    return -1;
}

// The set's rule, from subm and inverse.
static inline bool rule_take(builder *b, const node &n, const model_layer &more,
                             spira::net_layer *l) {
    const int shared = rulebook_find(b, more.rulebook);
    const spira::net_layer *other = shared < 0 ? nullptr : &b->m->net.layers[shared];
    const bool subm = attribute_int(n, "subm", 0) != 0,
               inverse = attribute_int(n, "inverse", 0) != 0;
    if (attribute_int(n, "transposed", 0) || attribute_int(n, "groups", 1) > 1) {
        return refuse(b->r, node_text(b->g, n) + ": transposed or in groups");
    }
    if (inverse) { // its stride and padding are those of the strided layer, not the node's
        if (!other) {
            return refuse(b->r, node_text(b->g, n) + ": no strided layer has its rulebook \"" +
                                    more.rulebook + "\"");
        }
        if (!spira::triple_equal(other->size, l->size)) {
            return refuse(b->r, node_text(b->g, n) + ": another kernel than the layer whose set it "
                                                     "goes back from");
        }
        l->stride = other->stride;
        l->padding = other->padding;
        l->dilation = other->dilation;
        l->transposed = true;
        l->rule = other->rule;
        return true;
    }
    if (subm) { // padding means nothing: the kernel is centred
        l->stride = spira::triple_make(1, 1, 1);
        l->padding = {};
    } else {
        l->rule = spira::net_rule_expand;
    }
    const bool same = !other || (spira::triple_equal(other->size, l->size) &&
                                 spira::triple_equal(other->dilation, l->dilation));
    return same || refuse(b->r, node_text(b->g, n) + ": rulebook \"" + more.rulebook +
                                    "\" is that of a layer with another kernel");
}

static inline bool ranges_take(builder *b, const node &n, model_layer *to) {
    to->input_range = attribute_float(n, "input_dynamic_range", 0);
    to->int8 = attribute_text(n, "precision", "") == "int8";
    to->int8_output = attribute_text(n, "output_precision", "") == "int8";
    const attribute *ranges = attribute_find(n, "weight_dynamic_ranges");
    if (ranges) {
        to->weight_ranges = ranges->floats;
    }
    const size_t cout = to->weight_ranges.size();
    return cout == 0 || (to->bias.size() == cout || to->weight.size() % cout == 0) ||
           refuse(b->r,
                  node_text(b->g, n) + ": " + std::to_string(cout) + " weight_dynamic_ranges");
}

// Adds a layer. Returns its number.
static inline int layer_add(builder *b, const spira::net_layer &l, const model_layer &more) {
    char name[32];
    snprintf(name, sizeof name, "layer%d", b->m->net.count);
    b->m->layers.push_back(more);
    return networks::network_add(&b->m->net, name, l);
}

static inline bool conv_take(builder *b, const node &n) {
    spira::net_layer l = spira::net_layer_conv("", spira::net_input, 0, 1, 1);
    model_layer more = {};
    const auto source = n.inputs.empty() ? b->layer_of.end() : b->layer_of.find(n.inputs[0]);
    const auto weight = n.inputs.size() < 2 ? b->tensors.end() : b->tensors.find(n.inputs[1]);
    if (source == b->layer_of.end() || weight == b->tensors.end() || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": features or a weight that nothing made");
    }
    more.node = node_text(b->g, n);
    more.rulebook = attribute_text(n, "rulebook", "");
    l.source = spira::net_from(source->second);
    if (!triple_find(b, n, "kernel_size", 1, &l.size) ||
        !triple_find(b, n, "stride", 1, &l.stride) ||
        !triple_find(b, n, "padding", 0, &l.padding) ||
        !triple_find(b, n, "dilation", 1, &l.dilation) || !rule_take(b, n, more, &l) ||
        !weight_take(b, n, *weight->second, &l, &more) || !activation_take(b, n, &l)) {
        return false;
    }
    if (n.inputs.size() > 2 && !n.inputs[2].empty()) {
        const auto bias = b->tensors.find(n.inputs[2]);
        if (bias == b->tensors.end() || (int)bias->second->floats.size() != l.channels) {
            return refuse(b->r, more.node + ": its bias is not [cout]");
        }
        more.bias = bias->second->floats;
        l.bias = true;
    }
    if (source->second == spira::net_input) {
        b->m->net.input_channels = (int)weight->second->dims[4];
    }
    if (!ranges_take(b, n, &more)) {
        return false;
    }
    b->layer_of[n.outputs[0]] = layer_add(b, l, more);
    return true;
}

// ---- sums and activations -----------------------------------------------------------------------

// Whether a layer may take up a sum or an activation: a plain convolution that is read once.
static inline bool layer_is_open(const builder *b, int layer, const std::string &tensor) {
    const spira::net_layer *l = layer < 0 ? nullptr : &b->m->net.layers[layer];
    const auto readers = b->readers.find(tensor);
    return l && l->op == spira::net_conv && l->act == spira::activation_none &&
           !l->residual.plus_two && readers != b->readers.end() && readers->second == 1;
}

static inline bool add_take(builder *b, const node &n) {
    int layer[2] = {spira::net_none, spira::net_none};
    for (int i = 0; i < 2 && n.inputs.size() == 2; ++i) {
        const auto found = b->layer_of.find(n.inputs[(size_t)i]);
        layer[i] = found == b->layer_of.end() ? spira::net_none : found->second;
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
    b->layer_of[n.outputs[0]] = layer[later];
    return true;
}

static inline bool relu_take(builder *b, const node &n) {
    const auto found = n.inputs.empty() ? b->layer_of.end() : b->layer_of.find(n.inputs[0]);
    if (found == b->layer_of.end() || found->second < 0 || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": reads what nothing made");
    }
    spira::net_layer *l = &b->m->net.layers[found->second];
    const auto readers = b->readers.find(n.inputs[0]);
    const bool plain = l->act == spira::activation_none && readers->second == 1;
    if (!plain && l->act != spira::activation_relu) {
        return refuse(b->r, node_text(b->g, n) + ": what it reads is read elsewhere, too");
    }
    l->act = spira::activation_relu;
    b->layer_of[n.outputs[0]] = found->second;
    return true;
}

// The dense map. The Transpose and Reshape nodes behind it were followed by axes_find.
static inline bool scatter_take(builder *b, const node &n) {
    const auto found = n.inputs.empty() ? b->layer_of.end() : b->layer_of.find(n.inputs[0]);
    if (found == b->layer_of.end() || found->second < 0) {
        return refuse(b->r, node_text(b->g, n) + ": reads what nothing made");
    }
    const std::string layout = attribute_text(n, "output_layout", "NCHW");
    if (layout != "NCHW") {
        return refuse(b->r, node_text(b->g, n) + ": output_layout " + layout + ", not NCHW");
    }
    layer_add(b, spira::net_layer_dense("", found->second), {});
    return true;
}

// ---- the whole ----------------------------------------------------------------------------------

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
        for (const std::string &input : n.inputs) {
            ++b->readers[input];
        }
    }
    for (const value &v : b->g->outputs) {
        ++b->readers[v.name];
    }
    return true;
}

// Takes the nodes up to the first that is not known.
static inline bool nodes_take(builder *b) {
    bool dense = false;
    for (const node &n : b->g->nodes) {
        const bool tail = n.op == "Transpose" || n.op == "Reshape";
        const bool known = n.op == "SparseConvolution" || n.op == "Add" || n.op == "QuantAdd" ||
                           n.op == "Relu" || n.op == "ScatterDense";
        if (n.op == "Constant" || n.op == "Identity" || (dense && tail)) {
            continue;
        }
        if (!known || dense) {
            b->m->cut =
                node_text(b->g, n) + (dense ? " stands behind the dense map" : " is not known");
            return b->m->net.count > 0 || refuse(b->r, b->m->cut);
        }
        if (b->m->net.count == spira::net_layers_max) {
            return refuse(b->r, "more than " + std::to_string(b->m->net.count) + " layers");
        }
        const bool taken = n.op == "SparseConvolution" ? conv_take(b, n)
                           : n.op == "Relu"            ? relu_take(b, n)
                           : n.op == "ScatterDense"    ? scatter_take(b, n)
                                                       : add_take(b, n);
        if (!taken) {
            return false;
        }
        dense = n.op == "ScatterDense";
    }
    return true;
}

// The extent of the input.
static inline bool extent_take(builder *b) {
    for (const node &n : b->g->nodes) {
        if (n.op == "SparseConvolution") {
            return triple_find(b, n, "input_spatial_shape", 0, &b->m->net.grid.extent);
        }
    }
    return true;
}

// Makes a network of a graph.
static inline spira::status model_make(const char *path, const graph &g, model *m,
                                       scan::scan_reason *why) {
    reader r = {path, why, spira::status_success()};
    builder b = {&r, &g, m, {}, {}, {}, {0, 1, 2}};
    networks::network_begin(&m->net, 0);
    m->layers.clear();
    m->cut.clear();
    m->net.batch = 1;
    if (g.inputs.empty()) {
        refuse(&r, "has no input");
        return r.result;
    }
    b.layer_of[g.inputs[0].name] = spira::net_input;
    (void)(tensors_gather(&b) && axes_find(&b) && extent_take(&b) && nodes_take(&b));
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

// Fills the parameters of a plan of m->net: params [plan->params].
static inline void model_params(const model *m, const spira::net_plan *plan, float *params) {
    for (int i = 0; i < m->net.count; ++i) {
        const model_layer &l = m->layers[(size_t)i];
        const spira::net_params at = spira::net_params_of(plan, i);
        if (!l.weight.empty()) {
            std::copy(l.weight.begin(), l.weight.end(), params + at.weight);
        }
        if (!l.bias.empty()) {
            std::copy(l.bias.begin(), l.bias.end(), params + at.bias);
        }
    }
}

} // namespace onnx

#endif
