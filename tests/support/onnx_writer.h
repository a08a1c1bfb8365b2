// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/onnx_writer.h: .onnx files, written byte by byte, and what the tests of the readers
// have in common.
#ifndef SPIRA_TESTS_ONNX_WRITER_H
#define SPIRA_TESTS_ONNX_WRITER_H

#include "detector_scan.h"
#include "test.h"

#include "../../examples/onnx_model.h"
#include "../../spira/net.h"

#include <algorithm>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace onnx_writer {

typedef std::string bytes;

[[maybe_unused]] static bytes number(uint64_t value) {
    bytes text;
    for (; value >= 128; value >>= 7) {
        text += (char)((value & 127) | 128);
    }
    return text + (char)value;
}

[[maybe_unused]] static bytes field_number(int field, int64_t value) {
    return number((uint64_t)field << 3) + number((uint64_t)value);
}

[[maybe_unused]] static bytes field_bytes(int field, const bytes &data) {
    return number((uint64_t)field << 3 | 2) + number(data.size()) + data;
}

template <typename T>
[[maybe_unused]] static bytes stored(T value) {
    return bytes((const char *)&value, sizeof value);
}

[[maybe_unused]] static bytes field_float(int field, float value) {
    return number((uint64_t)field << 3 | 5) + stored(value);
}

[[maybe_unused]] static bytes attribute(const char *name, const bytes &content, int type) {
    return field_bytes(5, field_bytes(1, name) + content + field_number(20, type));
}

[[maybe_unused]] static bytes attribute_int(const char *name, int64_t value) {
    return attribute(name, field_number(3, value), 2);
}

[[maybe_unused]] static bytes attribute_text(const char *name, const bytes &value) {
    return attribute(name, field_bytes(4, value), 3);
}

// packed: the numbers stand in one field, as newer writers have them
[[maybe_unused]] static bytes attribute_ints(const char *name, const std::vector<int64_t> &values,
                                             bool packed) {
    bytes all, one;
    for (int64_t v : values) {
        all += field_number(8, v);
        one += number((uint64_t)v);
    }
    return attribute(name, packed ? field_bytes(8, one) : all, 7);
}

[[maybe_unused]] static bytes node_many(const char *op, const std::vector<bytes> &inputs,
                                        const std::vector<bytes> &outputs,
                                        const bytes &attributes) {
    bytes text;
    for (const bytes &i : inputs) {
        text += field_bytes(1, i);
    }
    for (const bytes &o : outputs) {
        text += field_bytes(2, o);
    }
    return field_bytes(1, text + field_bytes(4, op) + attributes);
}

[[maybe_unused]] static bytes node(const char *op, const std::vector<bytes> &inputs,
                                   const bytes &output, const bytes &attributes = "") {
    return node_many(op, inputs, {output}, attributes);
}

// The bits of a float that a half holds exactly.
[[maybe_unused]] static uint16_t half_of(float f) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        if ((float)scan::value_of_half((uint16_t)bits) == f) {
            return (uint16_t)bits;
        }
    }
    return 0x7e00;
}

[[maybe_unused]] static bytes tensor(const bytes &name, const std::vector<int64_t> &dims, int type,
                                     const bytes &content) {
    bytes text;
    for (int64_t d : dims) {
        text += field_number(1, d);
    }
    return text + field_number(2, type) + field_bytes(8, name) + content;
}

[[maybe_unused]] static bytes halves(const std::vector<float> &values) {
    static uint16_t table[129]; // multiples of 1/64 from -1 to 1
    bytes text;
    for (float v : values) {
        uint16_t &bits = table[(int)(v * 64) + 64];
        bits = bits ? bits : half_of(v);
        text += stored(bits);
    }
    return field_bytes(9, text);
}

[[maybe_unused]] static bytes model_of(const bytes &graph) {
    return field_number(1, 8) + field_bytes(2, "pytorch") + field_bytes(7, graph);
}

[[maybe_unused]] static std::vector<int64_t> in_file(spira::triple t, const int axes[3]) {
    const int value[3] = {t.x, t.y, t.z};
    return {value[axes[0]], value[axes[1]], value[axes[2]]};
}

[[maybe_unused]] static std::vector<float> random_values(size_t count, uint32_t *state) {
    std::vector<float> values(count);
    for (float &v : values) {
        *state = *state * 1664525u + 1013904223u;
        v = (float)((int)(*state >> 8) % 129 - 64) / 64.0f;
    }
    return values;
}

// A weight [x, y, z, cin, cout] as the file has it: [cout, k0, k1, k2, cin].
[[maybe_unused]] static std::vector<float> weight_in_file(const std::vector<float> &w,
                                                          spira::triple size, int64_t cin,
                                                          int64_t cout, const int axes[3]) {
    const std::vector<int64_t> k = in_file(size, axes);
    std::vector<float> file(w.size());
    for (int x = 0; x < size.x; ++x) {
        for (int y = 0; y < size.y; ++y) {
            for (int z = 0; z < size.z; ++z) {
                const std::vector<int64_t> at = in_file(spira::triple_make(x, y, z), axes);
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

static const char *const temporary = "build/tmp/model.onnx";

[[maybe_unused]] static void write_file(const bytes &content) {
    mkdir("build", 0777);
    mkdir("build/tmp", 0777);
    FILE *file = fopen(temporary, "wb");
    REQUIRE(file && fwrite(content.data(), 1, content.size(), file) == content.size());
    fclose(file);
}

[[maybe_unused]] static bool same_layer(const spira::net_layer &a, const spira::net_layer &b) {
    return a.op == b.op && a.source.plus_two == b.source.plus_two &&
           a.residual.plus_two == b.residual.plus_two && a.channels == b.channels &&
           spira::triple_equal(a.size, b.size) && spira::triple_equal(a.stride, b.stride) &&
           spira::triple_equal(a.dilation, b.dilation) &&
           spira::triple_equal(a.padding, b.padding) && a.rule == b.rule &&
           a.transposed == b.transposed && a.act == b.act;
}

// Reads a graph in memory. Returns the text of the status; "" for success.
[[maybe_unused]] static bytes onnx_make(const bytes &graph, onnx::model *m) {
    const bytes file = model_of(graph);
    const unsigned char *at = (const unsigned char *)file.data();
    onnx::graph g;
    scan::scan_reason why;
    spira::status s = onnx::graph_parse("made up", {at, at + file.size()}, &g, &why);
    s = spira::status_failed(s) ? s : onnx::model_make("made up", g, m, &why);
    return spira::status_failed(s) ? why.text : "";
}

// The same through a file, build/tmp/model.onnx.
[[maybe_unused]] static bytes onnx_read(const bytes &file, onnx::model *m) {
    write_file(file);
    scan::scan_reason why;
    return spira::status_failed(onnx::model_read(temporary, m, &why)) ? why.text : "";
}

[[maybe_unused]] static spira::status onnx_plan(const onnx::model *m, spira::net_plan *plan,
                                                float range = 0) {
    spira::net_limits limits = {};
    limits.range = range;
    limits.voxels = 1000;
    limits.grid = m->net.grid;
    limits.batch = 1;
    limits.channels = m->net.input_channels;
    limits.type = spira::numeric_f32;
    return spira::net_plan_sets(m->net.layers, m->net.count, &limits, false, plan);
}

// A convolution of libspconv's dialect in a grid of 64 x 64 x 9 (x, y, z), and its weight.
[[maybe_unused]] static bytes small_conv(const bytes &in, const bytes &out, int64_t cin,
                                         int64_t cout, bool down) {
    uint32_t state = (uint32_t)(cin * 100 + cout);
    const bytes name = "w" + out;
    const std::vector<float> weights = random_values((size_t)(27 * cin * cout), &state);
    const int64_t s = down ? 2 : 1;
    return field_bytes(5, tensor(name, {cout, 3, 3, 3, cin}, 10, halves(weights))) +
           node("SparseConvolution", {in, name}, out,
                attribute_ints("input_spatial_shape", {9, 64, 64}, false) +
                    attribute_ints("kernel_size", {3, 3, 3}, false) +
                    attribute_ints("stride", {s, s, s}, false) +
                    attribute_ints("padding", {1, 1, 1}, false) + attribute_int("subm", !down));
}

// A network of 5 values a voxel, with a map [160, 32, 32] in the end, or else with a node that is
// not known.
[[maybe_unused]] static bytes small_graph(bool dense) {
    return field_bytes(11, field_bytes(1, "0")) + small_conv("0", "1", 5, 16, false) +
           small_conv("1", "2", 16, 32, true) +
           (dense ? node("ScatterDense", {"2"}, "3") : node("Softmax", {"2"}, "3"));
}

// The voxels of the nuScenes scan in a square of 3 m beside the vehicle, ascending.
[[maybe_unused]] static std::vector<uint32_t> scan_part(const spira::word_layout *layout) {
    const std::vector<int32_t> rows = detector_scan_rows();
    std::vector<uint32_t> words;
    for (size_t i = 0; i + 2 < rows.size(); i += 3) {
        const spira::voxel v = {0, rows[i], rows[i + 1], rows[i + 2]};
        if (v.x >= 760 && v.x < 800 && v.y >= 760 && v.y < 800) {
            words.push_back(spira::word_pack<uint32_t>(layout, v));
        }
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
}

// The dense map that a network makes of that part on the host. fill(plan, params): its parameters
template <typename F>
[[maybe_unused]] static std::vector<float> scan_map(const networks::network *n, F fill) {
    const spira::triple e = n->grid.extent;
    spira::word_need need = {};
    spira::word_layout layout;
    need.hi = spira::triple_make(e.x - 1, e.y - 1, e.z - 1);
    need.batches = 1;
    CHECK_OK(spira::net_need(n->layers, n->count, &n->grid, &need));
    CHECK_OK(spira::word_fit(&need, &layout));
    std::vector<uint32_t> words = scan_part(&layout);
    int32_t count = (int32_t)words.size();
    const int32_t capacity = 8 * count; // sets dilate
    words.resize((size_t)capacity);
    uint32_t state = 3;
    const std::vector<float> in =
        random_values((size_t)capacity * (size_t)n->input_channels, &state);
    spira::net_limits limits = {};
    limits.voxels = capacity;
    limits.grid = n->grid;
    limits.batch = 1;
    limits.channels = n->input_channels;
    limits.type = spira::numeric_f32;
    const std::unique_ptr<spira::net_plan> plan(new spira::net_plan);
    std::vector<float> map, params;
    if (!CHECK_OK(
            spira::net_plan_host<uint32_t>(n->layers, n->count, &layout, &limits, plan.get()))) {
        return map;
    }
    params.resize((size_t)plan->params);
    fill(plan.get(), params.data());
    spira::device_status trouble = {};
    spira::net_run_args<uint32_t> run = {};
    run.input = {words.data(), &count, capacity};
    run.features = in.data();
    run.loaded = params.data();
    run.trouble = &trouble;
    run.bytes = plan->workspace_bytes;
    run.memory = aligned_alloc(spira::workspace_alignment, run.bytes); // mostly not touched
    CHECK_OK(spira::net_run_host(plan.get(), &run));
    CHECK_OK(spira::device_status_read(&trouble));
    const auto last = spira::net_output(plan.get(), n->count - 1, &run);
    const float *at = (const float *)last.features;
    map.assign(at, at + (int64_t)last.channels * last.height * last.width);
    free(run.memory);
    return map;
}

// A file's network and the table that it was written from make the same map of the scan, to the
// bit. weights, biases [layers]: those that were written; norms are the file's
[[maybe_unused]] static void scan_maps_compare(const networks::network *table, const onnx::model *m,
                                               const std::vector<std::vector<float>> &weights,
                                               const std::vector<std::vector<float>> &biases) {
    const std::vector<float> read = scan_map(
        &m->net, [&](const spira::net_plan *p, float *to) { onnx::model_params(m, p, to); });
    const std::vector<float> want = scan_map(table, [&](const spira::net_plan *p, float *to) {
        for (int i = 0; i < table->count; ++i) {
            const spira::net_params at = spira::net_params_of(p, i);
            const onnx::model_layer &l = m->layers[(size_t)i];
            const size_t layer = (size_t)i;
            std::copy(weights[layer].begin(), weights[layer].end(), to + at.weight);
            std::copy(biases[layer].begin(), biases[layer].end(), to + at.bias);
            std::copy(l.scale.begin(), l.scale.end(), to + at.scale);
            std::copy(l.shift.begin(), l.shift.end(), to + at.shift);
        }
    });
    size_t filled = 0;
    for (float f : want) {
        filled += f != 0 && isfinite(f);
    }
    CHECK(filled > 1000);
    CHECK(read.size() == want.size() &&
          memcmp(read.data(), want.data(), want.size() * sizeof(float)) == 0);
}

// Damages files in many ways: each is read or refused, and what is read fits its plan. Run it
// under the address sanitizer.
[[maybe_unused]] static void onnx_damage(const std::vector<bytes> &wholes) {
    onnx::model *m = new onnx::model;
    spira::net_plan *plan = new spira::net_plan;
    std::vector<float> params;
    uint32_t random = 1;
    int read = 0, planned = 0;
    const int times = test_quick() ? 5000 : 30000;
    for (int i = 0; i < times; ++i) {
        bytes file = wholes[(size_t)i / 8 % wholes.size()];
        for (int changes = i % 4; changes >= 0; --changes) {
            random = random * 1664525u + 1013904223u;
            file[(random >> 8) % file.size()] = (char)(random >> 3);
        }
        file.resize(i % 8 == 7 ? (size_t)i % file.size() : file.size());
        const unsigned char *at = (const unsigned char *)file.data();
        onnx::graph g;
        scan::scan_reason why;
        if (spira::status_failed(onnx::graph_parse("damaged", {at, at + file.size()}, &g, &why)) ||
            spira::status_failed(onnx::model_make("damaged", g, m, &why))) {
            continue;
        }
        ++read;
        spira::net_limits limits = {};
        if (i % 3 == 0) {
            onnx::model_int8(m, &limits);
        }
        if (!spira::status_failed(onnx_plan(m, plan, limits.range))) {
            ++planned;
            params.assign((size_t)plan->params, 0);
            params.shrink_to_fit(); // nothing may be written behind it
            onnx::model_params(m, plan, params.data());
        }
    }
    CHECK(planned > 0 && read < times);
    delete plan;
    delete m;
}

} // namespace onnx_writer

#endif
