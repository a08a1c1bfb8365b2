// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/onnx.cpp: .onnx files, written byte by byte, become the tables of layers that they
// were written from. Writes to build/tmp.
#include "../support/onnx_writer.h"

#include "../../examples/networks.h"

using namespace spira;
using namespace onnx_writer;

// ---- networks as libspconv's exporters write them -----------------------------------------------

enum dialect { dialect_zyx, dialect_zyx_rows_x, dialect_xyz_rows_x };

struct written {
    bytes graph;
    std::vector<std::vector<float>> weights, biases; // of each layer, as the network has them
    std::vector<bytes> tensor_of;                    // that a layer makes
};

// The network's axis of each of the file's.
static const int axes_of[3][3] = {{2, 1, 0}, {2, 0, 1}, {1, 0, 2}};

// Writes a convolution. cin: its input channels; wide: how its padding looks where it means nothing
static void write_conv(const net_layer &l, int layer, int64_t cin, triple extent, dialect d,
                       uint32_t *state, written *to) {
    const bool subm = l.rule == net_rule_floor, packed = layer % 2 == 1;
    const int *axes = axes_of[d];
    const size_t volume = (size_t)(l.size.x * l.size.y * l.size.z);
    to->weights[(size_t)layer] = random_values(volume * (size_t)(cin * l.channels), state);
    to->biases[(size_t)layer] = random_values((size_t)l.channels, state);
    const std::vector<float> file =
        weight_in_file(to->weights[(size_t)layer], l.size, cin, l.channels, axes);
    const std::vector<int64_t> k = in_file(l.size, axes);
    const bytes name = "spconv" + std::to_string(layer);
    const int source = net_number(l.source);
    const bytes in = source == net_input ? "0" : to->tensor_of[(size_t)source];
    const bytes out = std::to_string(100 + 3 * layer);
    const bytes weight =
        tensor(name + ".weight", {l.channels, k[0], k[1], k[2], cin}, 10, halves(file));
    if (packed) { // as a node
        to->graph +=
            node("Constant", {}, name + ".weight", attribute("value", field_bytes(5, weight), 4));
    } else {
        to->graph += field_bytes(5, weight);
    }
    bytes bias;
    for (float b : to->biases[(size_t)layer]) {
        bias += packed ? field_float(4, b) : field_number(5, half_of(b));
    }
    to->graph += field_bytes(5, tensor(name + ".bias", {l.channels}, packed ? 1 : 10, bias));
    const bool relu = l.act == activation_relu && !l.residual.plus_two;
    const triple padding = subm && layer > 0 ? triple_make(1, 1, 1) : l.padding;
    bytes a = attribute_text("activation", relu ? "ReLU" : "None") +
              attribute_ints("dilation", in_file(l.dilation, axes), packed) +
              attribute_ints("input_spatial_shape", in_file(extent, axes), packed) +
              attribute_int("inverse", l.transposed) +
              attribute_ints("kernel_size", in_file(l.size, axes), packed) +
              attribute_ints("padding",
                             in_file(l.transposed ? triple_make(0, 0, 0) : padding, axes), packed) +
              attribute_text("rulebook", subm ? "subm" + std::to_string(extent.x) : "") +
              attribute_ints(
                  "stride", in_file(l.transposed ? triple_make(1, 1, 1) : l.stride, axes), packed) +
              attribute_int("subm", subm);
    to->graph += node("SparseConvolution", {in, name + ".weight", name + ".bias"}, out, a);
    to->tensor_of[(size_t)layer] = out;
    if (l.residual.plus_two) {
        const bytes sum = std::to_string(101 + 3 * layer), end = std::to_string(102 + 3 * layer);
        to->graph += node("Add", {out, to->tensor_of[(size_t)net_number(l.residual)]}, sum);
        to->graph += node("Relu", {sum}, end);
        to->tensor_of[(size_t)layer] = end;
    }
}

// Writes the layers of a table whose sets follow each other, and the dense map behind them.
static written write_network(const networks::network *n, dialect d) {
    written to;
    uint32_t state = 7;
    to.weights.resize((size_t)n->count);
    to.biases.resize((size_t)n->count);
    to.tensor_of.resize((size_t)n->count);
    to.graph = field_bytes(2, "scn") + field_bytes(11, field_bytes(1, "0"));
    triple extent = n->grid.extent;
    for (int i = 0; i < n->count; ++i) {
        const net_layer &l = n->layers[i];
        const int source = net_number(l.source);
        const bytes in = source == net_input ? "0" : to.tensor_of[(size_t)source];
        if (l.op == net_conv) {
            write_conv(l, i, source == net_input ? n->input_channels : n->layers[source].channels,
                       extent, d, &state, &to);
            if (l.rule == net_rule_expand) { // another one, for the names of rulebooks
                extent.x = (extent.x + 2 * l.padding.x - l.size.x) / l.stride.x + 1;
            }
            continue;
        }
        to.graph += node("ScatterDense", {in}, "900",
                         attribute_text("format", d == dialect_xyz_rows_x ? "xyz" : "zyx"));
        if (d != dialect_zyx) {
            to.graph +=
                node("Transpose", {"900"}, "901",
                     d == dialect_xyz_rows_x ? attribute_ints("dims", {0, 1, 4, 2, 3}, false)
                                             : attribute_ints("dims", {0, 1, 2, 4, 3}, true));
        }
        to.graph += node("Reshape", {d == dialect_zyx ? "900" : "901"}, "902",
                         attribute_ints("dims", {1, -1, 180, 180}, false));
    }
    to.graph += field_bytes(12, field_bytes(1, "902"));
    return to;
}

// ---- what is read -------------------------------------------------------------------------------

static void reads_back(const networks::network *n, dialect d) {
    const written w = write_network(n, d);
    onnx::model *m = new onnx::model;
    if (!CHECK_EQUAL(onnx_read(model_of(w.graph), m), bytes())) {
        delete m;
        return;
    }
    CHECK(m->cut.empty() && m->net.count == n->count);
    CHECK_EQUAL(m->net.exchange_xy, d != dialect_zyx);
    CHECK_EQUAL(m->net.input_channels, n->input_channels);
    CHECK(triple_equal(m->net.grid.extent, n->grid.extent));
    for (int i = 0; i < n->count && i < m->net.count; ++i) {
        CHECK(same_layer(m->net.layers[i], n->layers[i]));
        CHECK(m->layers[(size_t)i].weight == w.weights[(size_t)i]);
        CHECK(m->layers[(size_t)i].bias == w.biases[(size_t)i]);
    }
    net_plan *plan = new net_plan;
    if (CHECK_OK(onnx_plan(m, plan))) {
        std::vector<float> params((size_t)plan->params);
        onnx::model_params(m, plan, params.data());
        const net_params at = net_params_of(plan, 1);
        CHECK(memcmp(params.data() + at.bias, w.biases[1].data(), w.biases[1].size() * 4) == 0);
    }
    delete plan;
    delete m;
}

TEST(onnx_reads_what_libspconv_s_exporters_write) {
    networks::network *n = new networks::network;
    networks::network_spmiddleresnetfhd(n);
    for (dialect d : {dialect_zyx, dialect_zyx_rows_x, dialect_xyz_rows_x}) {
        reads_back(n, d);
    }
    networks::network_voxelbackbone8x(n);
    reads_back(n, dialect_zyx);
    delete n;
}

// On a part of a real scan, too.
TEST(onnx_of_libspconv_makes_the_map_of_its_table) {
    NEED_SCANS("nuscenes_10sweeps.pcd.bin");
    const std::unique_ptr<networks::network> n(new networks::network);
    const std::unique_ptr<onnx::model> m(new onnx::model);
    const struct {
        const char *name;
        dialect d;
    } files[] = {{"SpMiddleResNetFHD", dialect_zyx},
                 {"VoxelBackBone8x", dialect_zyx},
                 {"BEVFusion", dialect_zyx_rows_x},
                 {"BEVFusion", dialect_xyz_rows_x}};
    for (const auto &f : files) {
        REQUIRE(networks::network_make(f.name, n.get()));
        const written w = write_network(n.get(), f.d);
        REQUIRE(onnx_make(w.graph, m.get()).empty());
        for (int i = 0; i + 1 < n->count; ++i) { // norms are folded in such files
            n->layers[i].norm = false;
            n->layers[i].bias = true;
        }
        scan_maps_compare(n.get(), m.get(), w.weights, w.biases);
    }
}

// ---- traps --------------------------------------------------------------------------------------

// A convolution of 2 to 2 channels with a kernel of 3, named by its output.
static bytes conv_node(const bytes &in, const bytes &out, const bytes &attributes,
                       const bytes &weight = "w") {
    return node("SparseConvolution", {in, weight}, out,
                attribute_ints("input_spatial_shape", {5, 40, 40}, false) +
                    attribute_ints("kernel_size", {3, 3, 3}, false) + attributes);
}

static bytes weight_tensor(const bytes &name, float value = 0.5f) {
    return field_bytes(5,
                       tensor(name, {2, 3, 3, 3, 2}, 10, halves(std::vector<float>(108, value))));
}

static const bytes subm = attribute_int("subm", 1), plain = attribute_text("activation", "None");

static bytes graph_of(const bytes &nodes) {
    return field_bytes(11, field_bytes(1, "0")) + weight_tensor("w") + nodes;
}

TEST(onnx_takes_an_inverse_layer_s_stride_from_its_strided_layer) {
    onnx::model *m = new onnx::model;
    const bytes down = attribute_text("rulebook", "down") +
                       attribute_ints("stride", {2, 2, 2}, true) +
                       attribute_ints("padding", {0, 1, 1}, true);
    const bytes up = attribute_text("rulebook", "down") + attribute_int("inverse", 1) +
                     attribute_ints("stride", {1, 1, 1}, true) +
                     attribute_ints("padding", {0, 0, 0}, true);
    CHECK_EQUAL(onnx_make(graph_of(conv_node("0", "1", down) + conv_node("1", "2", up)), m),
                bytes());
    const net_layer &l = m->net.layers[1];
    CHECK(m->net.count == 2 && l.transposed && l.rule == net_rule_expand);
    CHECK(triple_equal(l.stride, triple_make(2, 2, 2)));
    CHECK(triple_equal(l.padding, triple_make(1, 1, 0)));
    net_plan *plan = new net_plan;
    CHECK_OK(onnx_plan(m, plan));
    CHECK(plan->step[1].set == 0); // back to the input
    delete plan;
    delete m;
}

TEST(onnx_takes_sums_and_activations_into_convolutions) {
    onnx::model *m = new onnx::model;
    const bytes block = conv_node("0", "1", subm) + conv_node("1", "2", subm + plain);
    CHECK_EQUAL(onnx_make(graph_of(block + node("QuantAdd", {"1", "2"}, "3") +
                                   node("Relu", {"3"}, "4") + conv_node("4", "5", subm)),
                          m),
                bytes());
    CHECK(m->net.count == 3 && net_number(m->net.layers[1].residual) == 0 &&
          m->net.layers[1].act == activation_relu && net_number(m->net.layers[2].source) == 1);
    CHECK_EQUAL(
        onnx_make(graph_of(conv_node("0", "1", subm + plain) + node("Relu", {"1"}, "2")), m),
        bytes());
    CHECK(m->net.count == 1 && m->net.layers[0].act == activation_relu);
    CHECK_EQUAL(
        onnx_make(graph_of(block + node("Softmax", {"2"}, "3") + conv_node("3", "4", subm)), m),
        bytes());
    CHECK(m->net.count == 2 && strstr(m->cut.c_str(), "node 2 (Softmax"));
    delete m;
}

static const bytes sum = attribute("input0_dynamic_range", field_float(2, 1.5f), 1) +
                         attribute("input1_dynamic_range", field_float(2, 1.5f), 1);

static bytes eight(float range, int ranges = 2) {
    bytes weights;
    for (int c = 0; c < ranges; ++c) {
        weights += field_float(7, c ? 0 : 1.5f);
    }
    return subm + attribute_text("precision", "int8") +
           attribute("input_dynamic_range", field_float(2, range), 1) +
           attribute("weight_dynamic_ranges", weights, 6);
}

TEST(onnx_keeps_ranges) {
    onnx::model *m = new onnx::model;
    const bytes ranges =
        attribute("weight_dynamic_ranges", field_float(7, 1) + field_float(7, 2), 6) +
        attribute("input_dynamic_range", field_float(2, 3.5f), 1) +
        attribute_text("precision", "int8") + attribute_text("output_precision", "fp16");
    CHECK_EQUAL(onnx_make(graph_of(conv_node("0", "1", subm + ranges)), m), bytes());
    const onnx::model_layer &l = m->layers[0];
    CHECK(l.input_range == 3.5f && l.int8 && !l.int8_output && l.weight_ranges[1] == 2);
    CHECK_EQUAL(onnx_make(graph_of(conv_node("0", "1", subm) + conv_node("1", "2", subm + plain) +
                                   node("QuantAdd", {"2", "1"}, "3", sum)),
                          m),
                bytes());
    CHECK(m->layers[0].sum_range == 0 && m->layers[1].sum_range == 1.5f);
    delete m;
}

// One file serves both: without model_int8 it is as it was. A layer's range is that at which the
// next one reads it; the larger of two.
TEST(onnx_makes_int8_layers_of_ranges) {
    const bytes graph = graph_of(
        conv_node("0", "1", subm) + conv_node("1", "2", eight(3)) + conv_node("1", "3", eight(4)) +
        conv_node("3", "4", eight(2) + plain) + node("Add", {"4", "2"}, "5", sum));
    const std::unique_ptr<onnx::model> m(new onnx::model);
    const std::unique_ptr<net_plan> plan(new net_plan);
    REQUIRE(onnx_make(graph, m.get()).empty());
    net_limits limits = {};
    onnx::model_int8(m.get(), &limits);
    const net_layer *l = m->net.layers;
    CHECK(l[0].format == net_format_same && l[1].format == net_format_i8 && limits.range == 0);
    CHECK(l[0].range == 4 && l[1].range == 1.5f && l[2].range == 2 && l[3].range == 0);
    REQUIRE_OK(onnx_plan(m.get(), plan.get()));
    CHECK(plan->step[0].type == numeric_i8 && plan->step[3].type == numeric_f32);
    std::vector<float> params((size_t)plan->params);
    onnx::model_params(m.get(), plan.get(), params.data());
    CHECK_OK(net_params_check(plan.get(), params.data()));
    const float *step = params.data() + net_params_of(plan.get(), 2).step;
    CHECK_EQUAL(step[0], 4.0f / 127 * 1.5f / 127);
    CHECK_EQUAL(step[1], 4.0f / 127 * 0.5f / 127); // of the weights: the file has none
    CHECK(net_params_of(plan.get(), 0).step < 0);
    CHECK_EQUAL(onnx_make(graph_of(conv_node("0", "1", eight(NAN))), m.get()), bytes());
    onnx::model_int8(m.get(), &limits);
    CHECK(limits.range != limits.range); // planning refuses it
}

TEST(onnx_refuses_with_the_node_and_what_was_expected) {
    const bytes conv = conv_node("0", "1", subm);
    const bytes outside = field_bytes(5, tensor("far", {1}, 1, field_number(14, 1)));
    const bytes five =
        field_bytes(5, tensor("five", {2, 5, 3, 3, 2}, 10, halves(std::vector<float>(180, 0.5f))));
    const struct {
        bytes graph;
        const char *part;
    } cases[] = {
        {graph_of(""), "no node SparseConvolution"},
        {weight_tensor("w") + conv, "no input"},
        {graph_of(conv_node("7", "1", subm)), "nothing made"},
        {graph_of(conv_node("0", "1", subm, "v")), "nothing made"},
        {graph_of(weight_tensor("w", 1) + conv), "two tensors have the name w"},
        {graph_of(outside + conv), "another file"},
        {graph_of(field_bytes(5, tensor("t", {2}, 1, field_float(4, 1))) + conv), "1 values"},
        {graph_of(field_bytes(5, tensor("t", {-1}, 1, "")) + conv), "a size of -1"},
        {graph_of(field_bytes(5, tensor("t", {1}, 99, "")) + conv), "data type 99"},
        {graph_of(conv_node("0", "1", subm + attribute_text("activation", "LeakyReLU"))),
         "activation LeakyReLU"},
        {graph_of(conv_node("0", "1", attribute_int("transposed", 1))), "transposed"},
        {graph_of(conv_node("0", "1", attribute_int("groups", 2))), "groups"},
        {graph_of(conv_node("0", "1", attribute_ints("stride", {2, 2}, false))), "three numbers"},
        {graph_of(conv_node("0", "1", attribute_ints("stride", {2, -2, 2}, false))), "is -2"},
        {graph_of(conv_node("0", "1", attribute_int("inverse", 1))), "no strided layer"},
        {graph_of(conv + node("Add", {"1", "1"}, "2")), "the later of what it adds"},
        {graph_of(conv_node("0", "1", eight(1, 1))), "1 weight_dynamic_ranges for 2 channels"},
        // Cycles: a node reads what itself, or a later node, makes.
        {graph_of(conv_node("1", "1", subm)), "nothing made"},
        {graph_of(conv_node("2", "1", subm) + conv_node("1", "2", subm)), "nothing made"},
        {graph_of(conv + node("Add", {"1", "2"}, "2")), "nothing made"},
        // A rulebook of another kernel, and weights of another kind.
        {five + graph_of(conv_node("0", "1", subm + attribute_text("rulebook", "r")) +
                         node("SparseConvolution", {"1", "five"}, "2",
                              attribute_ints("kernel_size", {5, 3, 3}, false) + subm +
                                  attribute_text("rulebook", "r"))),
         "is that of a layer with another kernel"},
        {field_bytes(5, tensor("bytes", {2, 3, 3, 3, 2}, 3, field_bytes(9, bytes(108, 1)))) +
             graph_of(conv_node("0", "1", subm, "bytes")),
         "its weight bytes"},
        {graph_of(conv + node("ScatterDense", {"1"}, "2", attribute_text("format", "yxz"))),
         "format yxz"},
        {graph_of(conv + node("ScatterDense", {"1"}, "2") +
                  node("Transpose", {"2"}, "3", attribute_ints("dims", {0, 2, 1, 3, 4}, false))),
         "in the end"},
        {graph_of(conv +
                  node("ScatterDense", {"1"}, "2", attribute_text("output_layout", "NCHW32"))),
         "NCHW32"},
        {graph_of(
             field_bytes(5, tensor("v", {2, 3, 3, 1, 2}, 10, halves(std::vector<float>(36, 1)))) +
             conv_node("0", "1", subm, "v")),
         "its weight v"},
        {graph_of(
             field_bytes(5, tensor("v", {2, 3, 3, 3, 3}, 10, halves(std::vector<float>(162, 1)))) +
             conv + conv_node("1", "2", subm, "v")),
         "its weight is for 3 channels, its features have 2"},
    };
    onnx::model *m = new onnx::model;
    for (const auto &c : cases) {
        const bytes told = onnx_make(c.graph, m);
        if (!CHECK(strstr(told.c_str(), c.part))) {
            fprintf(stderr, "    wanted \"%s\": %s\n", c.part, told.c_str());
        }
    }
    delete m;
}

// Versions, producers and fields that are not known are not refused; weights may have any
// precision.
TEST(onnx_reads_whatever_version_a_file_has) {
    onnx::model *m = new onnx::model;
    const std::vector<double> doubles(108, 0.5);
    const bytes raw((const char *)doubles.data(), doubles.size() * sizeof(double));
    const bytes bf16 = [] {
        bytes text;
        for (int i = 0; i < 108; ++i) {
            text += stored((uint16_t)0x3f00); // 0.5
        }
        return text;
    }();
    for (const bytes &w : {tensor("v", {2, 3, 3, 3, 2}, 11, field_bytes(9, raw)),
                           tensor("v", {2, 3, 3, 3, 2}, 16, field_bytes(9, bf16))}) {
        const bytes graph = graph_of(field_bytes(5, w) + conv_node("0", "1", subm, "v"));
        const bytes file =
            field_number(1, 99) + field_bytes(2, "someone") + field_bytes(77, "new") +
            field_bytes(8, field_bytes(1, "") + field_number(2, 999)) + field_bytes(7, graph);
        CHECK_EQUAL(onnx_read(file, m), bytes());
        CHECK(m->net.count == 1 && m->layers[0].weight == std::vector<float>(108, 0.5f));
    }
    delete m;
}

TEST(onnx_survives_damaged_files) {
    const bytes down = attribute_text("rulebook", "d") + attribute_ints("stride", {2, 2, 2}, true);
    onnx_damage({model_of(
        graph_of(conv_node("0", "1", subm) + conv_node("1", "2", eight(3) + plain) +
                 node("Add", {"1", "2"}, "3") + node("Relu", {"3"}, "4") +
                 conv_node("4", "5", down) + node("ScatterDense", {"5"}, "6") +
                 node("Transpose", {"6"}, "7", attribute_ints("dims", {0, 1, 2, 4, 3}, false))))});
}
