// tests/host/onnx.cpp: .onnx files, written byte by byte, become the tables of layers that they
// were written from. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/detectors.h"
#include "../../examples/onnx_model.h"

#include <sys/stat.h>

using namespace spira;

// ---- a writer of the wire format ----------------------------------------------------------------

typedef std::string bytes;

static bytes number(uint64_t value) {
    bytes text;
    for (; value >= 128; value >>= 7) {
        text += (char)((value & 127) | 128);
    }
    return text + (char)value;
}

static bytes field_number(int field, int64_t value) {
    return number((uint64_t)field << 3) + number((uint64_t)value);
}

static bytes field_bytes(int field, const bytes &data) {
    return number((uint64_t)field << 3 | 2) + number(data.size()) + data;
}

template <typename T>
static bytes stored(T value) {
    return bytes((const char *)&value, sizeof value);
}

static bytes field_float(int field, float value) {
    return number((uint64_t)field << 3 | 5) + stored(value);
}

static bytes attribute(const char *name, const bytes &content, int type) {
    return field_bytes(5, field_bytes(1, name) + content + field_number(20, type));
}

static bytes attribute_int(const char *name, int64_t value) {
    return attribute(name, field_number(3, value), 2);
}

static bytes attribute_text(const char *name, const bytes &value) {
    return attribute(name, field_bytes(4, value), 3);
}

// packed: the numbers stand in one field, as newer writers have them
static bytes attribute_ints(const char *name, const std::vector<int64_t> &values, bool packed) {
    bytes all, one;
    for (int64_t v : values) {
        all += field_number(8, v);
        one += number((uint64_t)v);
    }
    return attribute(name, packed ? field_bytes(8, one) : all, 7);
}

static bytes node(const char *op, const std::vector<bytes> &inputs, const bytes &output,
                  const bytes &attributes = "") {
    bytes text;
    for (const bytes &i : inputs) {
        text += field_bytes(1, i);
    }
    return field_bytes(1, text + field_bytes(2, output) + field_bytes(4, op) + attributes);
}

// The bits of a float that a half holds exactly.
static uint16_t half_of(float f) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        if ((float)scan::value_of_half((uint16_t)bits) == f) {
            return (uint16_t)bits;
        }
    }
    return 0x7e00;
}

static bytes tensor(const bytes &name, const std::vector<int64_t> &dims, int type,
                    const bytes &content) {
    bytes text;
    for (int64_t d : dims) {
        text += field_number(1, d);
    }
    return text + field_number(2, type) + field_bytes(8, name) + content;
}

static bytes halves(const std::vector<float> &values) {
    static uint16_t table[129]; // multiples of 1/64 from -1 to 1
    bytes text;
    for (float v : values) {
        uint16_t &bits = table[(int)(v * 64) + 64];
        bits = bits ? bits : half_of(v);
        text += stored(bits);
    }
    return field_bytes(9, text);
}

static bytes model_of(const bytes &graph) {
    return field_number(1, 8) + field_bytes(2, "pytorch") + field_bytes(7, graph);
}

// ---- networks as libspconv's exporters write them -----------------------------------------------

enum dialect { dialect_zyx, dialect_zyx_rows_x, dialect_xyz_rows_x };

struct written {
    bytes graph;
    std::vector<std::vector<float>> weights, biases; // of each layer, as the network has them
    std::vector<bytes> tensor_of;                    // that a layer makes
};

// The network's axis of each of the file's.
static const int axes_of[3][3] = {{2, 1, 0}, {2, 0, 1}, {1, 0, 2}};

static std::vector<int64_t> in_file(triple t, dialect d) {
    const int value[3] = {t.x, t.y, t.z};
    return {value[axes_of[d][0]], value[axes_of[d][1]], value[axes_of[d][2]]};
}

static std::vector<float> random_values(size_t count, uint32_t *state) {
    std::vector<float> values(count);
    for (float &v : values) {
        *state = *state * 1664525u + 1013904223u;
        v = (float)((int)(*state >> 8) % 129 - 64) / 64.0f;
    }
    return values;
}

// A weight [x, y, z, cin, cout] as the file has it: [cout, k0, k1, k2, cin].
static std::vector<float> weight_in_file(const std::vector<float> &w, triple size, int64_t cin,
                                         int64_t cout, dialect d) {
    const std::vector<int64_t> k = in_file(size, d);
    std::vector<float> file(w.size());
    for (int x = 0; x < size.x; ++x) {
        for (int y = 0; y < size.y; ++y) {
            for (int z = 0; z < size.z; ++z) {
                const std::vector<int64_t> at = in_file(triple_make(x, y, z), d);
                const int64_t tap = (x * size.y + y) * size.z + z;
                for (int64_t i = 0; i < cin * cout; ++i) {
                    const int64_t c = i / cout, o = i % cout;
                    const int64_t to =
                        (((o * k[0] + at[0]) * k[1] + at[1]) * k[2] + at[2]) * cin + c;
                    file[(size_t)to] = w[(size_t)(tap * cin * cout + i)];
                }
            }
        }
    }
    return file;
}

// Writes a convolution. cin: its input channels; wide: how its padding looks where it means nothing
static void write_conv(const net_layer &l, int layer, int64_t cin, triple extent, dialect d,
                       uint32_t *state, written *to) {
    const bool subm = l.rule == net_rule_floor, packed = layer % 2 == 1;
    const size_t volume = (size_t)(l.size.x * l.size.y * l.size.z);
    to->weights[(size_t)layer] = random_values(volume * (size_t)(cin * l.channels), state);
    to->biases[(size_t)layer] = random_values((size_t)l.channels, state);
    const std::vector<float> file =
        weight_in_file(to->weights[(size_t)layer], l.size, cin, l.channels, d);
    const std::vector<int64_t> k = in_file(l.size, d);
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
              attribute_ints("dilation", in_file(l.dilation, d), packed) +
              attribute_ints("input_spatial_shape", in_file(extent, d), packed) +
              attribute_int("inverse", l.transposed) +
              attribute_ints("kernel_size", in_file(l.size, d), packed) +
              attribute_ints("padding", in_file(l.transposed ? triple_make(0, 0, 0) : padding, d),
                             packed) +
              attribute_text("rulebook", subm ? "subm" + std::to_string(extent.x) : "") +
              attribute_ints("stride", in_file(l.transposed ? triple_make(1, 1, 1) : l.stride, d),
                             packed) +
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

static const char *temporary() {
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    return "build/tmp/model.onnx";
}

static void write_file(const bytes &content) {
    FILE *file = fopen(temporary(), "wb");
    REQUIRE(file && fwrite(content.data(), 1, content.size(), file) == content.size());
    fclose(file);
}

// ---- what is read -------------------------------------------------------------------------------

static bool same_layer(const net_layer &a, const net_layer &b) {
    return a.op == b.op && a.source.plus_two == b.source.plus_two &&
           a.residual.plus_two == b.residual.plus_two && a.channels == b.channels &&
           triple_equal(a.size, b.size) && triple_equal(a.stride, b.stride) &&
           triple_equal(a.dilation, b.dilation) && triple_equal(a.padding, b.padding) &&
           a.rule == b.rule && a.transposed == b.transposed && a.act == b.act;
}

static void reads_back(const networks::network *n, dialect d) {
    const written w = write_network(n, d);
    write_file(model_of(w.graph));
    onnx::model *m = new onnx::model;
    scan::scan_reason why;
    const status s = onnx::model_read("build/tmp/model.onnx", m, &why);
    if (status_failed(s)) {
        test_fail(__FILE__, __LINE__, why.text);
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
    net_limits limits = {};
    limits.voxels = 1000;
    limits.grid = m->net.grid;
    limits.batch = 1;
    limits.channels = m->net.input_channels;
    limits.type = numeric_f32;
    net_plan *plan = new net_plan;
    if (CHECK_OK(net_plan_sets(m->net.layers, m->net.count, &limits, false, plan))) {
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

// Reads a graph in memory. The text of the status; "" for success
static bytes make(const bytes &graph, onnx::model *m) {
    const bytes file = model_of(graph);
    const unsigned char *at = (const unsigned char *)file.data();
    onnx::graph g;
    scan::scan_reason why;
    status s = onnx::graph_parse("made up", {at, at + file.size()}, &g, &why);
    s = status_failed(s) ? s : onnx::model_make("made up", g, m, &why);
    return status_failed(s) ? why.text : "";
}

TEST(onnx_takes_an_inverse_layer_s_stride_from_its_strided_layer) {
    onnx::model *m = new onnx::model;
    const bytes down = attribute_text("rulebook", "down") +
                       attribute_ints("stride", {2, 2, 2}, true) +
                       attribute_ints("padding", {0, 1, 1}, true);
    const bytes up = attribute_text("rulebook", "down") + attribute_int("inverse", 1) +
                     attribute_ints("stride", {1, 1, 1}, true) +
                     attribute_ints("padding", {0, 0, 0}, true);
    CHECK_EQUAL(make(graph_of(conv_node("0", "1", down) + conv_node("1", "2", up)), m), bytes());
    const net_layer &l = m->net.layers[1];
    CHECK(m->net.count == 2 && l.transposed && l.rule == net_rule_expand);
    CHECK(triple_equal(l.stride, triple_make(2, 2, 2)));
    CHECK(triple_equal(l.padding, triple_make(1, 1, 0)));
    net_limits limits = {};
    limits.voxels = 100;
    limits.grid = m->net.grid;
    limits.batch = 1;
    limits.channels = 2;
    net_plan *plan = new net_plan;
    CHECK_OK(net_plan_sets(m->net.layers, m->net.count, &limits, false, plan));
    CHECK(plan->step[1].set == 0); // back to the input
    delete plan;
    delete m;
}

TEST(onnx_takes_sums_and_activations_into_convolutions) {
    onnx::model *m = new onnx::model;
    const bytes block = conv_node("0", "1", subm) + conv_node("1", "2", subm + plain);
    CHECK_EQUAL(make(graph_of(block + node("QuantAdd", {"1", "2"}, "3") + node("Relu", {"3"}, "4") +
                              conv_node("4", "5", subm)),
                     m),
                bytes());
    CHECK(m->net.count == 3 && net_number(m->net.layers[1].residual) == 0 &&
          m->net.layers[1].act == activation_relu && net_number(m->net.layers[2].source) == 1);
    CHECK_EQUAL(make(graph_of(conv_node("0", "1", subm + plain) + node("Relu", {"1"}, "2")), m),
                bytes());
    CHECK(m->net.count == 1 && m->net.layers[0].act == activation_relu);
    CHECK_EQUAL(make(graph_of(block + node("Softmax", {"2"}, "3") + conv_node("3", "4", subm)), m),
                bytes());
    CHECK(m->net.count == 2 && strstr(m->cut.c_str(), "node 2 (Softmax"));
    delete m;
}

TEST(onnx_keeps_ranges) {
    onnx::model *m = new onnx::model;
    const bytes ranges =
        attribute("weight_dynamic_ranges", field_float(7, 1) + field_float(7, 2), 6) +
        attribute("input_dynamic_range", field_float(2, 3.5f), 1) +
        attribute_text("precision", "int8") + attribute_text("output_precision", "fp16");
    CHECK_EQUAL(make(graph_of(conv_node("0", "1", subm + ranges)), m), bytes());
    const onnx::model_layer &l = m->layers[0];
    CHECK(l.input_range == 3.5f && l.int8 && !l.int8_output && l.weight_ranges[1] == 2);
    delete m;
}

TEST(onnx_refuses_with_the_node_and_what_was_expected) {
    const bytes conv = conv_node("0", "1", subm);
    const bytes outside = field_bytes(5, tensor("far", {1}, 1, field_number(14, 1)));
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
    };
    onnx::model *m = new onnx::model;
    for (const auto &c : cases) {
        const bytes told = make(c.graph, m);
        if (!CHECK(strstr(told.c_str(), c.part))) {
            fprintf(stderr, "    wanted \"%s\": %s\n", c.part, told.c_str());
        }
    }
    delete m;
}

// Damaged files are read or refused: run it under the address sanitizer.
TEST(onnx_survives_damaged_files) {
    const bytes down = attribute_text("rulebook", "d") + attribute_ints("stride", {2, 2, 2}, true);
    const bytes whole = model_of(
        graph_of(conv_node("0", "1", subm) + conv_node("1", "2", subm + plain) +
                 node("Add", {"1", "2"}, "3") + node("Relu", {"3"}, "4") +
                 conv_node("4", "5", down) + node("ScatterDense", {"5"}, "6") +
                 node("Transpose", {"6"}, "7", attribute_ints("dims", {0, 1, 2, 4, 3}, false))));
    onnx::model *m = new onnx::model;
    uint32_t random = 1;
    int read = 0;
    const int times = test_quick() ? 5000 : 100000;
    for (int i = 0; i < times; ++i) {
        bytes file = whole;
        for (int changes = i % 4; changes >= 0; --changes) {
            random = random * 1664525u + 1013904223u;
            file[(random >> 8) % file.size()] = (char)(random >> 3);
        }
        file.resize(i % 8 == 7 ? (size_t)i % file.size() : file.size());
        const unsigned char *at = (const unsigned char *)file.data();
        onnx::graph g;
        scan::scan_reason why;
        if (!status_failed(onnx::graph_parse("damaged", {at, at + file.size()}, &g, &why))) {
            read += !status_failed(onnx::model_make("damaged", g, m, &why));
        }
    }
    CHECK(read > 0 && read < times);
    delete m;
}
