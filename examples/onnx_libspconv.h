// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_libspconv.h: libspconv's dialect of .onnx files, as the exporters of CenterPoint
// and BEVFusion write it: one node a layer, features as tensors, voxels unsaid.
//
// The file's axes are z, y, x or x, y, z. Where the dense map's rows run along x (BEVFusion), the
// network's x is the file's y, and its y the file's x (network.exchange_xy).
#ifndef SPIRA_EXAMPLES_ONNX_LIBSPCONV_H
#define SPIRA_EXAMPLES_ONNX_LIBSPCONV_H

#include "onnx_builder.h"

namespace onnx {

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
    const int z = format == "xyz" ? 2 : 0, y = 1, x = 2 - z; // the file's axes
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

// ---- convolutions -------------------------------------------------------------------------------

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

static inline bool ranges_take(builder *b, const node &n, int channels, model_layer *to) {
    to->input_range = attribute_float(n, "input_dynamic_range", 0);
    to->int8 = attribute_text(n, "precision", "") == "int8";
    to->int8_output = attribute_text(n, "output_precision", "") == "int8";
    const attribute *ranges = attribute_find(n, "weight_dynamic_ranges");
    if (ranges) {
        to->weight_ranges = ranges->floats;
    }
    const size_t count = to->weight_ranges.size();
    return count == 0 || count == (size_t)channels ||
           refuse(b->r, node_text(b->g, n) + ": " + std::to_string(count) +
                            " weight_dynamic_ranges for " + std::to_string(channels) + " channels");
}

static inline bool conv_take(builder *b, const node &n) {
    spira::net_layer l = spira::net_layer_conv("", spira::net_input, 0, 1, 1);
    model_layer more = {};
    const int source = n.inputs.empty() ? spira::net_none : layer_find(b, n.inputs[0]);
    const tensor *weight = tensor_find(b, n, 1);
    if (source == spira::net_none || !weight || n.outputs.empty()) {
        return refuse(b->r, node_text(b->g, n) + ": features or a weight that nothing made");
    }
    more.node = node_text(b->g, n);
    more.rulebook = attribute_text(n, "rulebook", "");
    l.source = spira::net_from(source);
    if (!triple_find(b, n, "kernel_size", 1, &l.size) ||
        !triple_find(b, n, "stride", 1, &l.stride) ||
        !triple_find(b, n, "padding", 0, &l.padding) ||
        !triple_find(b, n, "dilation", 1, &l.dilation) || !rule_take(b, n, more, &l) ||
        !weight_take(b, n, *weight, &l, &more) || !activation_take(b, n, &l)) {
        return false;
    }
    if (n.inputs.size() > 2 && !n.inputs[2].empty() && !bias_take(b, n, 2, &l, &more)) {
        return false;
    }
    if (!ranges_take(b, n, l.channels, &more)) {
        return false;
    }
    b->layer_of[n.outputs[0]] = layer_add(b, l, more);
    return true;
}

// The dense map. The Transpose and Reshape nodes behind it were followed by axes_find.
static inline bool scatter_take(builder *b, const node &n) {
    const int layer = n.inputs.empty() ? spira::net_none : layer_find(b, n.inputs[0]);
    if (layer < 0) {
        return refuse(b->r, node_text(b->g, n) + ": reads what nothing made");
    }
    const std::string layout = attribute_text(n, "output_layout", "NCHW");
    if (layout != "NCHW") {
        return refuse(b->r, node_text(b->g, n) + ": output_layout " + layout + ", not NCHW");
    }
    layer_add(b, spira::net_layer_dense("", layer), {});
    return true;
}

// ---- the whole ----------------------------------------------------------------------------------

// Takes the nodes up to the first that is not known.
static inline bool nodes_take(builder *b) {
    bool dense = false;
    for (const node &n : b->g->nodes) {
        const bool tail = n.op == "Transpose" || n.op == "Reshape";
        const bool known = n.op == "SparseConvolution" || n.op == "Add" || n.op == "QuantAdd" ||
                           n.op == "Relu" || n.op == "ScatterDense";
        if (n.op == "Constant" || node_is_alias(n) || (dense && tail)) {
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

// Makes a network of a graph of this dialect, whose tensors are gathered.
static inline bool libspconv_take(builder *b) {
    b->layer_of[b->g->inputs[0].name] = spira::net_input;
    return axes_find(b) && extent_take(b) && nodes_take(b);
}

} // namespace onnx

#endif
