// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/onnx_autoware_graph.h: the order of axes and the dense map of a file of Autoware's
// dialect, from the nodes around its network.
//
// Axes are in the order of training, which the pair nodes do not tell. It follows from how the
// indices are made, and the rows of the map from the nodes that make it dense:
//
//                indices (batch, then)   how                              dense map
//   AWML         x, y, z                 Slice with step -1, then Concat  ScatterND; rows along x
//   autoware-ml  y, x, z                 Gather of columns 0, 2, 3, 1     ScatterElements; along y
#ifndef SPIRA_EXAMPLES_ONNX_AUTOWARE_GRAPH_H
#define SPIRA_EXAMPLES_ONNX_AUTOWARE_GRAPH_H

#include "onnx_builder.h"

namespace onnx {

// A kernel map, and the first node that makes it.
struct autoware_pairs {
    const node *made_by;
    int from, to;          // sets
    spira::net_layer form; // its size, stride, dilation, padding and rule
};

// The nodes that make a dense map: ScatterND, Transpose, Reshape; or ScatterElements, Reshape
// (grid), Transpose, Reshape. Null: none.
struct autoware_tail {
    const node *scatter, *grid, *map;
    int z, row, column; // axes of the file
};

// A file of this dialect under conversion. Sets are numbered as they are made; the input's is 0.
struct autoware {
    builder *b;
    std::map<std::string, const node *> maker;         // the node that makes a tensor
    std::map<std::string, int> set_of;                 // the set whose indices a tensor has
    std::map<std::string, std::pair<int, int>> map_of; // the kernel map, and which output it is
    std::vector<autoware_pairs> maps;
    std::vector<spira::triple> extents; // of sets
    std::vector<int> layer_set;
    autoware_tail tail;
    bool axes_known; // from how the indices are made
    int steps;       // through the nodes of the tail; bounded
};

static inline bool node_makes_pairs(const node &n) {
    return n.op == "GetIndicePairsImplicitGemm" || n.op == "GetIndicePairs";
}

static inline bool node_multiplies(const node &n) {
    return n.op == "ImplicitGemm" || n.op == "IndiceConv";
}

static inline bool autoware_is(const graph &g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), node_makes_pairs);
}

// The node that makes a tensor; null: none.
static inline const node *maker_find(const autoware *a, const std::string &name) {
    const auto found = a->maker.find(resolve(a->b, name));
    return found == a->maker.end() ? nullptr : found->second;
}

// The set whose indices a tensor has; -1: none.
static inline int set_find(const autoware *a, const std::string &name) {
    const auto found = a->set_of.find(resolve(a->b, name));
    return found == a->set_of.end() ? -1 : found->second;
}

static inline int layer_set_of(const autoware *a, int layer) {
    return layer < 0 ? 0 : a->layer_set[(size_t)layer];
}

static inline std::string text_of(spira::triple t) {
    return std::to_string(t.x) + " x " + std::to_string(t.y) + " x " + std::to_string(t.z);
}

// Whether a constant has these numbers.
static inline bool ints_are(const tensor *t, const std::vector<int64_t> &numbers) {
    return t && t->ints == numbers;
}

// ---- axes ---------------------------------------------------------------------------------------

// Goes back from a tensor through Cast nodes to the node that computes it; null: none.
static inline const node *source_find(const autoware *a, const std::string &name) {
    const node *n = maker_find(a, name);
    for (int i = 0; n && n->op == "Cast" && !n->inputs.empty() && i < 8; ++i) {
        n = maker_find(a, n->inputs[0]);
    }
    return n;
}

// The file's axes of x, y and z, from how the indices are made. Returns false if that is not known.
static inline bool front_find(const autoware *a, const std::string &indices, int axis[3]) {
    const node *n = source_find(a, indices);
    if (n && n->op == "Gather" && attribute_int(*n, "axis", 0) == 1 &&
        ints_are(tensor_find(a->b, *n, 1), {0, 2, 3, 1})) {
        axis[0] = 1, axis[1] = 0, axis[2] = 2;
        return true;
    }
    if (!n || n->op != "Concat" || attribute_int(*n, "axis", 0) != 1 || n->inputs.size() != 2) {
        return false;
    }
    n = source_find(a, n->inputs[1]);
    const tensor *along = n ? tensor_find(a->b, *n, 3) : nullptr;
    axis[0] = 0, axis[1] = 1, axis[2] = 2;
    return n && n->op == "Slice" && (ints_are(along, {1}) || ints_are(along, {-1})) &&
           ints_are(tensor_find(a->b, *n, 4), {-1});
}

// The first node of an operation that reads a tensor, from `from` on.
static inline const node *reader_find(const builder *b, const char *op, const std::string &name,
                                      const node *from) {
    const node *end = b->g->nodes.data() + b->g->nodes.size();
    for (; from < end; ++from) {
        if (from->op == op && !from->inputs.empty() && !from->outputs.empty() &&
            resolve(b, from->inputs[0]) == name) {
            return from;
        }
    }
    return nullptr;
}

// Whether a Transpose makes channels the second of batch, three axes and channels. *to: z, rows and
// columns of the map.
static inline bool transpose_fits(const node &n, autoware_tail *to) {
    const attribute *perm = attribute_find(n, "perm");
    if (!perm || perm->ints.size() != 5 || perm->ints[0] != 0 || perm->ints[1] != 4) {
        return false;
    }
    int seen = 0;
    for (int i = 2; i < 5; ++i) {
        const int64_t p = perm->ints[(size_t)i];
        seen |= p >= 1 && p <= 3 ? 1 << p : 0;
    }
    to->z = (int)perm->ints[2] - 1;
    to->row = (int)perm->ints[3] - 1;
    to->column = (int)perm->ints[4] - 1;
    return seen == 14;
}

// Finds the nodes that make a dense map, by what stands behind the scatter. tail_check says whether
// the scatter is one of features to the places of their voxels.
static inline void tail_find(autoware *a) {
    for (const node &n : a->b->g->nodes) {
        const bool elements = n.op == "ScatterElements";
        if ((n.op != "ScatterND" && !elements) || n.outputs.empty() || n.inputs.size() < 3) {
            continue;
        }
        autoware_tail t = {&n, nullptr, nullptr, 0, 0, 0};
        t.grid = elements ? reader_find(a->b, "Reshape", n.outputs[0], &n) : &n;
        const node *turn = t.grid;
        while (turn && !t.map) { // one of AWML's two Transpose nodes feeds Shape nodes only
            turn = reader_find(a->b, "Transpose", t.grid->outputs[0], turn + 1);
            t.map = turn && transpose_fits(*turn, &t)
                        ? reader_find(a->b, "Reshape", turn->outputs[0], turn)
                        : nullptr;
        }
        if (t.map) {
            a->tail = t;
            return;
        }
    }
}

// Finds the axes, and the set and extent of the input, at the first pair node.
static inline bool autoware_axes_find(autoware *a) {
    builder *b = a->b;
    const node &first = *std::find_if(b->g->nodes.begin(), b->g->nodes.end(), node_makes_pairs);
    const attribute *shape = attribute_find(first, "spatial_shape");
    const std::string text = node_text(b->g, first);
    if (first.inputs.empty() || !shape || shape->ints.size() != 3) {
        return refuse(b->r, text + ": has no indices, or its spatial_shape is not three numbers");
    }
    tail_find(a);
    int axis[3]; // of the file: x, y, z
    const int z = a->tail.z, row = a->tail.row, column = a->tail.column;
    const std::vector<int64_t> &e = shape->ints;
    a->axes_known = front_find(a, first.inputs[0], axis);
    if (!a->axes_known && a->tail.map && e[(size_t)z] < e[(size_t)row] &&
        e[(size_t)z] < e[(size_t)column]) { // the map of each exporter has its own rows
        const bool rows_x = a->tail.scatter->op == "ScatterND";
        axis[0] = rows_x ? row : column;
        axis[1] = rows_x ? column : row;
        axis[2] = z;
    } else if (!a->axes_known) {
        return refuse(b->r, text +
                                ": the order of its axes is not known: expected indices by Slice "
                                "with step -1 and Concat, or by Gather of columns 0, 2, 3, 1, "
                                "or a dense map whose depth is the smallest extent");
    }
    if (z != axis[2]) { // no map of this network
        a->tail = {};
    }
    b->m->net.exchange_xy = a->tail.map && row == axis[0];
    b->axis[axis[0]] = b->m->net.exchange_xy ? 1 : 0;
    b->axis[axis[1]] = b->m->net.exchange_xy ? 0 : 1;
    b->axis[axis[2]] = 2;
    a->set_of[resolve(b, first.inputs[0])] = 0;
    a->extents.resize(1);
    if (!triple_find(b, first, "spatial_shape", 0, &a->extents[0])) {
        return false;
    }
    b->m->net.grid.extent = a->extents[0];
    return true;
}

// ---- to dense -----------------------------------------------------------------------------------

// An index as a sum of columns of a set's indices, each with a factor, and a constant.
struct autoware_index {
    int64_t of[4], constant;
};

// Whether a node returns the values of its first input.
static inline bool node_keeps_values(const node &n) {
    return (n.op == "Cast" || n.op == "Unsqueeze" || n.op == "Squeeze" || n.op == "Expand" ||
            n.op == "Reshape") &&
           !n.inputs.empty();
}

// The column of a set's indices that a Gather or Split returns; -1: none.
static inline int column_find(const autoware *a, const node &n, const std::string &name, int set) {
    const int64_t axis = attribute_int(n, "axis", 0);
    const tensor *t = tensor_find(a->b, n, 1);
    if (n.inputs.empty() || set_find(a, n.inputs[0]) != set || (axis != 1 && axis != -1)) {
        return -1;
    }
    if (n.op == "Gather" && t && t->ints.size() == 1) {
        return t->ints[0] >= 0 && t->ints[0] < 4 ? (int)t->ints[0] : -1;
    }
    const auto found = std::find(n.outputs.begin(), n.outputs.end(), resolve(a->b, name));
    const bool split = n.op == "Split" && n.outputs.size() == 4 && found != n.outputs.end() &&
                       (n.inputs.size() == 1 || ints_are(t, {1, 1, 1, 1}));
    return split ? (int)(found - n.outputs.begin()) : -1;
}

// The sum or product of two indices.
static inline bool index_combine(const node &n, const autoware_index &p, const autoware_index &q,
                                 autoware_index *to) {
    const auto plain = [](const autoware_index &i) {
        return !i.of[0] && !i.of[1] && !i.of[2] && !i.of[3];
    };
    const auto small = [](int64_t v) { return v >= -INT32_MAX && v <= INT32_MAX; };
    const bool sum = n.op == "Add", second = plain(q);
    const autoware_index &linear = second ? p : q, &factor = second ? q : p;
    bool good = sum || plain(factor);
    for (int c = 0; c < 4; ++c) {
        to->of[c] = sum ? p.of[c] + q.of[c] : linear.of[c] * factor.constant;
        good = good && small(to->of[c]);
    }
    to->constant = sum ? p.constant + q.constant : linear.constant * factor.constant;
    return good && small(to->constant);
}

// Evaluates an index. Returns false if it is no sum of columns of `set`.
static inline bool index_find(autoware *a, const std::string &name, int set, autoware_index *to) {
    const tensor *t = tensor_named(a->b, name);
    const node *n = maker_find(a, name);
    *to = {};
    if (++a->steps > 500) {
        return false;
    }
    if (t) {
        to->constant = t->ints.size() == 1 ? t->ints[0] : INT64_MAX;
        return to->constant >= -INT32_MAX && to->constant <= INT32_MAX;
    }
    if (n && node_keeps_values(*n)) {
        return index_find(a, n->inputs[0], set, to);
    }
    if (n && (n->op == "Add" || n->op == "Mul") && n->inputs.size() == 2) {
        autoware_index p, q;
        return index_find(a, n->inputs[0], set, &p) && index_find(a, n->inputs[1], set, &q) &&
               index_combine(*n, p, q, to);
    }
    const int column = n ? column_find(a, *n, name, set) : -1;
    if (column >= 0) {
        to->of[column] = 1;
    }
    return column >= 0;
}

static inline bool index_is(autoware *a, const std::string &name, int set, const int64_t of[4]) {
    autoware_index i;
    return index_find(a, name, set, &i) && !i.constant && std::equal(of, of + 4, i.of);
}

// Appends the numbers of a shape; -1: not known.
static inline bool shape_find(autoware *a, const std::string &name, std::vector<int64_t> *to) {
    const tensor *t = tensor_named(a->b, name);
    const node *n = maker_find(a, name);
    if (++a->steps > 500 || to->size() > 8 || (t && t->ints.size() > 8)) {
        return false;
    }
    if (t) {
        to->insert(to->end(), t->ints.begin(), t->ints.end());
        return true;
    }
    if (n && node_keeps_values(*n)) {
        return shape_find(a, n->inputs[0], to);
    }
    for (size_t i = 0; n && n->op == "Concat" && i < n->inputs.size(); ++i) {
        if (!shape_find(a, n->inputs[i], to)) {
            return false;
        }
    }
    if (!n || n->op != "Concat") {
        to->push_back(-1);
    }
    return true;
}

// Whether a shape is the expected one. Batch and channels, first and last, may be unknown.
static inline bool shape_is(const std::vector<int64_t> &shape,
                            const std::vector<int64_t> &expected) {
    bool good = shape.size() == expected.size();
    for (size_t i = 0; good && i < shape.size(); ++i) {
        const bool end = i == 0 || i + 1 == shape.size();
        good = shape[i] == expected[i] || (end && shape[i] == -1);
    }
    return good;
}

// Whether a tensor is zeros of an expected shape.
static inline bool zeros_are(autoware *a, const std::string &name,
                             const std::vector<int64_t> &expected) {
    const tensor *t = tensor_named(a->b, name);
    const node *n = maker_find(a, name);
    const auto zero = [](float v) { return v == 0; };
    if (t) {
        return t->dims == expected && std::all_of(t->floats.begin(), t->floats.end(), zero);
    }
    const attribute *value = n ? attribute_find(*n, "value") : nullptr;
    std::vector<int64_t> shape;
    return n && n->op == "ConstantOfShape" && !n->inputs.empty() &&
           (!value || std::all_of(value->t.floats.begin(), value->t.floats.end(), zero)) &&
           shape_find(a, n->inputs[0], &shape) && shape_is(shape, expected);
}

// The tensor that the rows of the scatter are, in front of a Reshape.
static inline std::string rows_of(const autoware *a) {
    const std::string &rows = a->tail.scatter->inputs[2];
    const node *n = maker_find(a, rows);
    return n && n->op == "Reshape" && !n->inputs.empty() ? n->inputs[0] : rows;
}

// Whether the scatter writes the features of a layer to the places of their voxels, in a grid of
// their extent.
static inline bool tail_check(autoware *a, int layer) {
    const builder *b = a->b;
    const node &s = *a->tail.scatter;
    const int set = layer_set_of(a, layer);
    const spira::triple extent = a->extents[(size_t)set];
    const int of_network[3] = {extent.x, extent.y, extent.z};
    const int64_t e[3] = {of_network[b->axis[0]], of_network[b->axis[1]], of_network[b->axis[2]]};
    const int64_t channels = b->m->net.layers[layer].channels;
    const std::vector<int64_t> grid = {1, e[0], e[1], e[2], channels};
    const bool large = e[0] > 1 << 20 || e[1] > 1 << 20 || e[2] > 1 << 20; // their product
    if (large || attribute_text(s, "reduction", "none") != "none") {
        return false;
    }
    if (s.op == "ScatterND") {
        const node *columns = source_find(a, s.inputs[1]);
        bool good = columns && columns->op == "Concat" && columns->inputs.size() == 4;
        for (size_t c = 0; good && c < 4; ++c) {
            const int64_t unit[4] = {c == 0, c == 1, c == 2, c == 3};
            good = index_is(a, columns->inputs[c], set, unit);
        }
        return good && zeros_are(a, s.inputs[0], grid);
    }
    const int64_t factor[4] = {e[0] * e[1] * e[2], e[1] * e[2], e[2], 1};
    std::vector<int64_t> shape;
    return a->tail.grid->inputs.size() == 2 && attribute_int(s, "axis", 0) == 0 &&
           index_is(a, s.inputs[1], set, factor) &&
           zeros_are(a, s.inputs[0], {factor[0], channels}) &&
           shape_find(a, a->tail.grid->inputs[1], &shape) && shape_is(shape, grid);
}

// Ends the network with the dense map, and names the node behind it.
static inline void dense_take(autoware *a, int layer) {
    builder *b = a->b;
    layer_add(b, spira::net_layer_dense("", layer), {});
    a->layer_set.push_back(layer_set_of(a, layer));
    for (const node &n : b->g->nodes) {
        for (const std::string &input : n.inputs) {
            if (n.op != "Shape" && resolve(b, input) == a->tail.map->outputs[0]) {
                b->m->cut = node_text(b->g, n) + " stands behind the dense map";
                return;
            }
        }
    }
}

} // namespace onnx

#endif
