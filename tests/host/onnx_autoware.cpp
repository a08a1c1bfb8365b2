// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/onnx_autoware.cpp: .onnx files as AWML and autoware-ml export BEVFusion become the
// tables of layers that they were written from.
#include "../support/onnx_writer.h"

#include "../../examples/detectors.h"

#include <set>

using namespace spira;
using namespace onnx_writer;

// ---- nodes --------------------------------------------------------------------------------------

enum exporter { exporter_awml, exporter_autoware_ml };

// Both have the rows of the dense map, the network's y, first: x in AWML, y in autoware-ml.
static const int axes[3] = {1, 0, 2};

static const bytes domain = field_bytes(7, "autoware");

// A constant of integers; no dims: a scalar.
static bytes numbers(const bytes &name, const std::vector<int64_t> &values, bool scalar = false) {
    bytes content;
    for (int64_t v : values) {
        content += field_number(7, v);
    }
    const std::vector<int64_t> dims(scalar ? 0 : 1, (int64_t)values.size());
    return field_bytes(5, tensor(name, dims, 7, content));
}

// A tensor of floats: f32 as a Constant node or f16 as an initializer.
static bytes floats(const bytes &name, const std::vector<int64_t> &dims,
                    const std::vector<float> &values, bool half) {
    if (half) {
        return field_bytes(5, tensor(name, dims, 10, halves(values)));
    }
    const bytes raw((const char *)values.data(), values.size() * sizeof(float));
    const bytes t = tensor(name, dims, 1, field_bytes(9, raw));
    return node("Constant", {}, name, attribute("value", field_bytes(5, t), 4));
}

// A pair node of indices `in`; its outputs are NAME.0 to NAME.4.
static bytes pairs_node(const bytes &in, const bytes &name, const net_layer &l, triple extent,
                        const bytes &more = "", const char *op = "GetIndicePairsImplicitGemm") {
    const bool subm = l.rule == net_rule_floor;
    const triple padding = subm ? triple_make(1, 1, 1) : l.padding; // it means nothing
    return node_many(op, {in}, {name + ".0", name + ".1", name + ".2", name + ".3", name + ".4"},
                     more + attribute_int("algo", 1) + attribute_int("batch_size", 1) +
                         attribute_ints("dilation", in_file(l.dilation, axes), true) +
                         attribute_int("is_train", !subm) +
                         attribute_ints("ksize", in_file(l.size, axes), false) +
                         attribute_ints("out_padding", {0, 0, 0}, false) +
                         attribute_ints("padding", in_file(padding, axes), false) +
                         attribute_ints("spatial_shape", in_file(extent, axes), true) +
                         attribute_ints("stride", in_file(l.stride, axes), false) +
                         attribute_int("subm", subm) + attribute_int("transpose", 0) + domain);
}

static std::vector<bytes> product_inputs(const bytes &in, const bytes &weight, const bytes &pairs) {
    return {in, weight, pairs + ".1", pairs + ".2", pairs + ".3"};
}

// How the indices "set" are made of the graph's input "coors".
static bytes front(exporter e) {
    if (e == exporter_autoware_ml) {
        return numbers("columns", {0, 2, 3, 1}) +
               node("Gather", {"coors", "columns"}, "gathered", attribute_int("axis", 1)) +
               node("Cast", {"gathered"}, "set", attribute_int("to", 6));
    }
    return numbers("minus", {-1}) + numbers("end", {-INT64_MAX}) + numbers("one", {1}) +
           node("Slice", {"coors", "minus", "end", "one", "minus"}, "flipped") +
           node("Cast", {"flipped"}, "real", attribute_int("to", 1)) +
           node("ConstantOfShape", {"size"}, "zeros") +
           node("Concat", {"zeros", "real"}, "joined", attribute_int("axis", 1)) +
           node("Cast", {"joined"}, "set", attribute_int("to", 6));
}

// ---- the dense map ------------------------------------------------------------------------------

static bytes tail_awml(const bytes &in, const bytes &set, triple extent, int channels,
                       bool exchanged) {
    const std::vector<int64_t> e = in_file(extent, axes);
    bytes text = node("Cast", {set}, "long", attribute_int("to", 7)) +
                 numbers("grid", {1, e[0], e[1], e[2], channels}) +
                 node("ConstantOfShape", {"grid"}, "empty") + node("Shape", {in}, "in.shape");
    std::vector<bytes> columns;
    for (int c = 0; c < 4; ++c) {
        const bytes n = std::to_string(c);
        text += numbers("tail.c" + n, {exchanged && c % 2 ? 4 - c : c}, true) +
                node("Gather", {"long", "tail.c" + n}, "tail.g" + n, attribute_int("axis", 1)) +
                node("Expand", {"tail.g" + n, "in.shape"}, "tail.x" + n) +
                node("Unsqueeze", {"tail.x" + n, "one"}, "tail.u" + n);
        columns.push_back("tail.u" + n);
    }
    return text + node("Concat", columns, "places", attribute_int("axis", -1)) +
           node("Reshape", {in, "in.shape"}, "rows") +
           node("ScatterND", {"empty", "places", "rows"}, "dense") +
           node("Transpose", {"dense"}, "t1", attribute_ints("perm", {0, 4, 1, 2, 3}, false)) +
           node("Shape", {"t1"}, "t1.shape") +
           node("Transpose", {"dense"}, "t2", attribute_ints("perm", {0, 4, 3, 1, 2}, false)) +
           node("Reshape", {"t2", "t1.shape"}, "map");
}

static bytes tail_autoware_ml(const bytes &in, const bytes &set, triple extent, int channels,
                              bool exchanged) {
    const std::vector<int64_t> e = in_file(extent, axes);
    bytes text =
        numbers("ones", {1, 1, 1, 1}) + numbers("cells", {e[0] * e[1] * e[2]}) +
        numbers("channels", {channels}) + numbers("grid", {-1, e[0], e[1], e[2], channels}) +
        node("Cast", {set}, "long", attribute_int("to", 7)) +
        node_many("Split", {"long", "ones"}, {"b", "y", "x", "z"}, attribute_int("axis", 1));
    bytes at = "b";
    const char *next[3] = {exchanged ? "x" : "y", exchanged ? "y" : "x", "z"};
    for (int c = 0; c < 3; ++c) {
        const bytes n = std::to_string(c);
        text += numbers("tail.f" + n, {e[(size_t)c]}, true) +
                node("Mul", {at, "tail.f" + n}, "tail.m" + n) +
                node("Add", {next[c], "tail.m" + n}, "tail.s" + n);
        at = "tail.s" + n;
    }
    return text + node("Expand", {at, "shape"}, "places") +
           node("Concat", {"cells", "channels"}, "table", attribute_int("axis", 0)) +
           node("ConstantOfShape", {"table"}, "empty") +
           node("ScatterElements", {"empty", "places", in}, "dense", attribute_int("axis", 0)) +
           node("Reshape", {"dense", "grid"}, "t1") +
           node("Transpose", {"t1"}, "t2", attribute_ints("perm", {0, 4, 3, 1, 2}, false)) +
           node("Reshape", {"t2", "last"}, "map");
}

// ---- whole networks -----------------------------------------------------------------------------

struct written_detector {
    bytes graph;
    std::vector<std::vector<float>> weights, biases;
    std::vector<std::vector<float>> norms[4]; // scale, bias, mean, variance
    std::vector<bytes> tensor_of, set_of;     // features and indices of a layer
    std::map<bytes, bytes> shared;            // pair node of a set
    triple extent;                            // of the last layer's set
    int pair_nodes;
};

static const float epsilon = 0.001f;

// Writes the pair node of a layer, unless it is shared. Returns its name.
static bytes write_pairs(const net_layer &l, int layer, exporter e, written_detector *to) {
    const int source = net_number(l.source);
    const bytes in = source == net_input ? "set" : to->set_of[(size_t)source];
    const bool subm = l.rule == net_rule_floor;
    bytes name = "p" + std::to_string(layer);
    if (subm && e == exporter_autoware_ml && to->shared.count(in)) {
        to->set_of[(size_t)layer] = in;
        return to->shared[in];
    }
    to->graph += pairs_node(in, name, l, to->extent);
    to->pair_nodes += 1;
    to->set_of[(size_t)layer] = name + ".0";
    if (subm) { // its output 0 is the same set
        to->shared[in] = to->shared[name + ".0"] = name;
    }
    const auto out = [](int extent, int size, int stride, int padding) {
        return (extent + 2 * padding - size) / stride + 1;
    };
    if (!subm) {
        to->extent.x = out(to->extent.x, l.size.x, l.stride.x, l.padding.x);
        to->extent.y = out(to->extent.y, l.size.y, l.stride.y, l.padding.y);
        to->extent.z = out(to->extent.z, l.size.z, l.stride.z, l.padding.z);
    }
    return name;
}

static void write_norm(int layer, int channels, bytes *at, uint32_t *state, written_detector *to) {
    const bytes name = "n" + std::to_string(layer);
    std::vector<bytes> inputs = {*at};
    for (int i = 0; i < 4; ++i) {
        std::vector<float> &v = to->norms[i][(size_t)layer];
        v = random_values((size_t)channels, state);
        for (float &f : v) {
            f = i == 3 ? f * f + 0.01f : f;
        }
        inputs.push_back(name + ".in" + std::to_string(i));
        to->graph += floats(inputs.back(), {channels}, v, false);
    }
    to->graph +=
        node("BatchNormalization", inputs, name,
             attribute("epsilon", field_float(2, epsilon), 1) + attribute_int("training_mode", 0));
    *at = name;
}

// Writes a convolution with what follows it: bias, batch norm, residual, ReLU.
static void write_conv(const net_layer &l, int layer, int64_t cin, exporter e, uint32_t *state,
                       written_detector *to) {
    const size_t volume = (size_t)(l.size.x * l.size.y * l.size.z), i = (size_t)layer;
    const bytes n = std::to_string(layer), pairs = write_pairs(l, layer, e, to);
    const std::vector<int64_t> k = in_file(l.size, axes);
    const int source = net_number(l.source);
    to->weights[i] = random_values(volume * (size_t)(cin * l.channels), state);
    to->graph += floats("w" + n, {l.channels, k[0], k[1], k[2], cin},
                        weight_in_file(to->weights[i], l.size, cin, l.channels, axes), layer % 2);
    bytes at = "c" + n;
    to->graph += node("ImplicitGemm",
                      product_inputs(source == net_input ? "means" : to->tensor_of[(size_t)source],
                                     "w" + n, pairs),
                      at, attribute_int("is_subm", l.rule == net_rule_floor) + domain);
    if (l.bias) {
        to->biases[i] = random_values((size_t)l.channels, state);
        to->graph += floats("b" + n, {l.channels}, to->biases[i], layer % 3 == 0) +
                     node("Add", {layer % 2 ? at : "b" + n, layer % 2 ? "b" + n : at}, "d" + n);
        at = "d" + n;
    }
    write_norm(layer, l.channels, &at, state, to);
    if (layer % 4 == 1) {
        to->graph += node("Identity", {at}, "i" + n);
        at = "i" + n;
    }
    if (l.residual.plus_two) {
        const bytes other = to->tensor_of[(size_t)net_number(l.residual)];
        to->graph += node("Add", {layer % 4 ? at : other, layer % 4 ? other : at}, "s" + n);
        at = "s" + n;
    }
    to->graph += node("Relu", {at}, "r" + n);
    to->tensor_of[i] = "r" + n;
}

// Writes a table that ends with a dense map. exchanged: the scatter's columns are not in order.
static written_detector write_network(const networks::network *n, exporter e, const bytes &before,
                                      bool exchanged) {
    written_detector to = {};
    uint32_t state = 7;
    for (auto *v : {&to.weights, &to.biases, to.norms, to.norms + 1, to.norms + 2, to.norms + 3}) {
        v->resize((size_t)n->count);
    }
    to.tensor_of.resize((size_t)n->count);
    to.set_of.resize((size_t)n->count);
    to.extent = n->grid.extent;
    to.graph = field_bytes(2, "main") + field_bytes(11, field_bytes(1, "voxels")) +
               field_bytes(11, field_bytes(1, "coors")) +
               node("ReduceSum", {"voxels", "one"}, "sums") +
               node("Div", {"sums", "counts"}, "means") + before;
    const int last = n->count - 1;
    for (int i = 0; i < last; ++i) {
        const int source = net_number(n->layers[i].source);
        write_conv(n->layers[i], i,
                   source == net_input ? n->input_channels : n->layers[source].channels, e, &state,
                   &to);
    }
    const int end = net_number(n->layers[last].source);
    const auto tail = e == exporter_awml ? tail_awml : tail_autoware_ml;
    to.graph += tail(to.tensor_of[(size_t)end], to.set_of[(size_t)end], to.extent,
                     n->layers[end].channels, exchanged) +
                node("Conv", {"map", "kernel"}, "head") + field_bytes(12, field_bytes(1, "head"));
    return to;
}

// Whether scale and shift are those of a batch norm, each rounded once.
static bool norm_agrees(const onnx::model_layer &l, const written_detector &w, size_t layer) {
    bool good = l.scale.size() == w.norms[0][layer].size() && l.shift.size() == l.scale.size();
    for (size_t c = 0; good && c < l.scale.size(); ++c) {
        const long double deviation =
            sqrtl((long double)w.norms[3][layer][c] + (long double)epsilon);
        const long double scale = w.norms[0][layer][c] / deviation;
        const long double shift = w.norms[1][layer][c] - w.norms[2][layer][c] * scale;
        good = fabsl(l.scale[c] - scale) <= fabsl(scale) * 0x1.001p-24L &&
               fabsl(l.shift[c] - shift) <= fabsl(shift) * 0x1.001p-24L + 1e-15L;
    }
    return good;
}

// The detectors' table, with x and y told apart.
static void table_make(networks::network *n, exporter e) {
    if (e == exporter_awml) {
        networks::network_bevfusion(n);
    } else {
        networks::network_spmiddleresnetfhd(n);
    }
    n->grid.extent.x = 1200;
    n->layers[5].padding = triple_make(2, 1, 1); // conv2.0
    n->layers[5].stride = triple_make(2, 1, 2);
}

static void layers_compare(const networks::network *n, const written_detector &w,
                           const onnx::model *m) {
    std::set<std::string> maps;
    CHECK_EQUAL(m->net.input_channels, n->input_channels);
    CHECK(triple_equal(m->net.grid.extent, n->grid.extent));
    for (int i = 0; i < n->count && i < m->net.count; ++i) {
        const net_layer &l = m->net.layers[i];
        const onnx::model_layer &more = m->layers[(size_t)i];
        CHECK(same_layer(l, n->layers[i]) && l.bias == n->layers[i].bias &&
              l.norm == n->layers[i].norm);
        CHECK(more.weight == w.weights[(size_t)i] && more.bias == w.biases[(size_t)i]);
        CHECK(l.op == net_dense || norm_agrees(more, w, (size_t)i));
        maps.insert(more.rulebook);
    }
    CHECK_EQUAL(maps.size(), (size_t)(n->count == m->net.count ? 9 : 8)); // and none of the map
}

TEST(onnx_reads_what_autoware_s_exporters_write) {
    networks::network *n = new networks::network;
    onnx::model *m = new onnx::model;
    net_plan *plan = new net_plan;
    for (exporter e : {exporter_awml, exporter_autoware_ml}) {
        table_make(n, e);
        const written_detector w = write_network(n, e, front(e), false);
        CHECK_EQUAL(w.pair_nodes, e == exporter_awml ? 21 : 8);
        const bytes told = onnx_make(w.graph, m);
        if (!CHECK_EQUAL(told, bytes())) {
            test_fail(__FILE__, __LINE__, told.c_str());
            continue;
        }
        CHECK_EQUAL(m->net.count, n->count);
        CHECK(strstr(m->cut.c_str(), "(Conv ) stands behind the dense map"));
        CHECK_EQUAL(m->net.exchange_xy, e == exporter_awml);
        layers_compare(n, w, m);
        if (CHECK_OK(onnx_plan(m, plan))) {
            std::vector<float> params((size_t)plan->params);
            onnx::model_params(m, plan, params.data());
            const net_params at = net_params_of(plan, 3);
            const onnx::model_layer &l = m->layers[3];
            CHECK(std::equal(l.scale.begin(), l.scale.end(), params.begin() + at.scale));
            CHECK(std::equal(l.shift.begin(), l.shift.end(), params.begin() + at.shift));
        }
    }
    delete plan;
    delete m;
    delete n;
}

// On a part of a real scan, too.
TEST(onnx_of_autoware_makes_the_map_of_its_table) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    const std::unique_ptr<networks::network> n(new networks::network);
    const std::unique_ptr<onnx::model> m(new onnx::model);
    for (exporter e : {exporter_awml, exporter_autoware_ml}) {
        table_make(n.get(), e);
        const written_detector w = write_network(n.get(), e, front(e), false);
        REQUIRE(onnx_make(w.graph, m.get()).empty());
        scan_maps_compare(n.get(), m.get(), w.weights, w.biases);
    }
}

TEST(onnx_ends_autoware_s_network_before_a_dense_map_of_another_order) {
    networks::network *n = new networks::network;
    onnx::model *m = new onnx::model;
    for (exporter e : {exporter_awml, exporter_autoware_ml}) {
        table_make(n, e);
        const written_detector w = write_network(n, e, front(e), true);
        CHECK_EQUAL(onnx_make(w.graph, m), bytes());
        CHECK_EQUAL(m->net.count, n->count - 1);
        CHECK(strstr(m->cut.c_str(), e == exporter_awml ? "(ScatterND" : "(ScatterElements"));
        layers_compare(n, w, m);
    }
    delete m;
    delete n;
}

TEST(onnx_takes_autoware_s_axes_from_the_dense_map_alone) {
    networks::network *n = new networks::network;
    onnx::model *m = new onnx::model;
    for (exporter e : {exporter_awml, exporter_autoware_ml}) {
        const bytes other = node("Cast", {"coors"}, "set", attribute_int("to", 6));
        table_make(n, e);
        CHECK_EQUAL(onnx_make(write_network(n, e, other, false).graph, m), bytes());
        CHECK(m->net.count == n->count && m->net.exchange_xy == (e == exporter_awml));
        CHECK(strstr(onnx_make(write_network(n, e, other, true).graph, m).c_str(),
                     "known from its dense map alone"));
    }
    delete m;
    delete n;
}

// ---- small graphs -------------------------------------------------------------------------------

static const triple room = {12, 10, 6};

static net_layer form(int size, bool strided) {
    net_layer l = net_layer_conv("", net_input, 2, size, strided ? 2 : 1);
    l.rule = strided ? net_rule_expand : net_rule_floor;
    l.padding = strided ? triple_make(1, 1, 1) : triple_make(0, 0, 0);
    return l;
}

static bytes product(const bytes &in, const bytes &pairs, const bytes &out,
                     const bytes &attributes = "", const std::vector<bytes> &more = {}) {
    std::vector<bytes> inputs = product_inputs(in, "w", pairs);
    inputs.insert(inputs.end(), more.begin(), more.end());
    return node("ImplicitGemm", inputs, out, attributes);
}

// A graph of 2 channels with weights of 3 ("w") and 5 ("v"), and vectors of 2 ("two") and 3.
static bytes graph_of(const bytes &nodes, exporter e = exporter_awml) {
    return field_bytes(11, field_bytes(1, "coors")) + front(e) +
           floats("w", {2, 3, 3, 3, 2}, std::vector<float>(108, 0.5f), true) +
           floats("v", {2, 5, 5, 5, 2}, std::vector<float>(500, 0.25f), true) +
           floats("two", {2}, {0.5f, 0.25f}, true) + floats("three", {3}, {1, 1, 1}, true) + nodes;
}

static const bytes first = pairs_node("set", "p", form(3, false), room),
                   down = pairs_node("set", "q", form(3, true), room);

TEST(onnx_takes_autoware_s_fused_and_native_nodes) {
    onnx::model *m = new onnx::model;
    const bytes native = pairs_node("set", "g", form(5, false), room, "", "GetIndicePairs") +
                         node("IndiceConv", product_inputs("f", "v", "g"), "1") +
                         node("Add", {"1", "two"}, "2");
    const bytes fused = pairs_node("g.0", "p", form(3, false), room) +
                        product("2", "p", "3", attribute_int("act_type", 1), {"two"}) +
                        node("LayerNormalization", {"3"}, "4") + product("4", "p", "5");
    CHECK_EQUAL(onnx_make(graph_of(native + fused), m), bytes());
    const std::vector<float> two = {0.5f, 0.25f};
    const net_layer *l = m->net.layers;
    CHECK(m->net.count == 2 && l[0].size.x == 5 && l[0].bias && l[0].act == activation_none);
    CHECK(m->layers[0].bias == two && m->layers[1].bias == two);
    CHECK(l[1].size.x == 3 && l[1].bias && l[1].act == activation_relu && !l[1].norm);
    CHECK(strstr(m->cut.c_str(), "(LayerNormalization ) is not known"));
    delete m;
}

TEST(onnx_takes_autoware_s_leaky_activation) {
    onnx::model *m = new onnx::model;
    const bytes leaky =
        attribute_int("act_type", 3) + attribute("act_alpha", field_float(2, 0.125f), 1);
    CHECK_EQUAL(onnx_make(graph_of(first + product("f", "p", "1", leaky)), m), bytes());
    CHECK(m->net.layers[0].act == activation_leaky && m->net.layers[0].slope == 0.125f);
    delete m;
}

static const bytes int8_attributes =
    attribute_int("precision", 1) + attribute("input_scale", field_float(2, 0.5f), 1);

TEST(onnx_keeps_autoware_s_ranges) {
    onnx::model *m = new onnx::model;
    CHECK_EQUAL(
        onnx_make(graph_of(first + product("f", "p", "1", int8_attributes, {"two", "two"})), m),
        bytes());
    const onnx::model_layer &l = m->layers[0];
    CHECK(l.int8 && l.input_range == 63.5f && l.weight_ranges[0] == 127);
    CHECK(l.weight_ranges[1] == 63.5f && l.bias[1] == 0.25f && m->net.layers[0].bias);
    delete m;
}

TEST(onnx_refuses_autoware_s_nodes_by_name) {
    const bytes conv = first + product("f", "p", "1");
    const net_layer plain = form(3, false), even = form(2, false);
    net_layer still = form(3, true);
    still.stride.x = 0;
    const struct {
        bytes nodes;
        const char *part;
    } cases[] = {
        {first, "no node ImplicitGemm"},
        {pairs_node("other", "p", plain, room) + first, "order of its axes"},
        {first + pairs_node("other", "q", plain, room), "indices of the first pair node"},
        {pairs_node("set", "p", plain, room, attribute_int("transpose", 1)), "transpose is not 0"},
        {pairs_node("set", "p", plain, room, attribute_int("batch_size", 2)), "batch_size not 1"},
        {pairs_node("set", "p", even, room), "even ksize"},
        {pairs_node("set", "p", still, room), "stride is 0"},
        {pairs_node("set", "p", form(3, true), triple_make(12, 0, 6)), "kernel larger"},
        {first + pairs_node("p.0", "q", plain, triple_make(12, 10, 7)),
         "spatial_shape is 10 x 12 x 7"},
        {node("GetIndicePairs", {"set"}, "p.0"), "spatial_shape is not three numbers"},
        {conv + product("g", "p", "2"), "features or a weight that nothing made"},
        {first + node("ImplicitGemm", product_inputs("f", "u", "p"), "1"), "nothing made"},
        {first + node("ImplicitGemm", product_inputs("f", "v", "p"), "1"), "its weight v"},
        {first + node("ImplicitGemm", {"f", "w", "p.1", "p.3", "p.2"}, "1"), "input 3 is not"},
        {first + node("IndiceConv", product_inputs("f", "w", "p"), "1"), "its node GetIndicePairs"},
        {conv + down + product("1", "q", "2") + product("2", "p", "3"), "not of the set"},
        {first + product("f", "p", "1", attribute_int("is_subm", 0)), "is_subm is not"},
        {first + product("f", "p", "1", attribute_int("act_type", 2)), "act_type 2"},
        {first + product("f", "p", "1", attribute_int("precision", 2)), "precision is not"},
        {first + product("f", "p", "1", attribute_int("groups", 2)), "in groups"},
        {first + product("f", "p", "1", attribute_int("precision", 1), {"two"}), "6 inputs"},
        {first + product("f", "p", "1", "", {"two", "two"}), "7 inputs"},
        {first + product("f", "p", "1", attribute_int("precision", 1),
                         std::vector<bytes>{bytes("two"), bytes("two")}),
         "input_scale above 0"},
        {first + product("f", "p", "1", "", {"three"}), "its bias is not [cout]"},
        {conv + node("Add", {"1", "three"}, "2"), "it adds is not [2]"},
        {conv + node("Add", {"1", "elsewhere"}, "2"), "nothing made"},
        {conv + node("Relu", {"1"}, "2") + node("Add", {"2", "two"}, "3"), "without activation"},
        {conv + down + product("1", "q", "2") + node("Add", {"1", "2"}, "3"), "of two sets"},
        {conv + node("BatchNormalization", {"1", "two", "two", "two", "three"}, "2"),
         "input 4 is not [2]"},
        {conv + node("Relu", {"1"}, "2") +
             node("BatchNormalization", {"2", "two", "two", "two", "two"}, "3"),
         "expected a convolution in front"},
        {floats("none", {2}, {-1, 0}, true) + conv +
             node("BatchNormalization", {"1", "two", "two", "two", "none"}, "2"),
         "the variance of channel 0"},
    };
    onnx::model *m = new onnx::model;
    for (const auto &c : cases) {
        const bytes told = onnx_make(graph_of(c.nodes), m);
        if (!CHECK(strstr(told.c_str(), c.part))) {
            fprintf(stderr, "    wanted \"%s\": %s\n", c.part, told.c_str());
        }
    }
    delete m;
}

TEST(onnx_survives_damaged_files_of_autoware) {
    const bytes layers =
        first + product("f", "p", "1") +
        node("BatchNormalization", {"1", "two", "two", "two", "two"}, "2") +
        node("Relu", {"2"}, "3") + product("3", "p", "4", int8_attributes, {"two", "two"}) +
        node("Add", {"3", "4"}, "5") + node("Relu", {"5"}, "6") + down + product("6", "q", "7");
    const triple half = triple_make(6, 5, 3);
    onnx_damage({model_of(graph_of(layers + tail_awml("7", "q.0", half, 2, false))),
                 model_of(graph_of(layers + tail_autoware_ml("7", "q.0", half, 2, false),
                                   exporter_autoware_ml))});
}
