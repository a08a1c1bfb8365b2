// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/record.h: what a node is made from, and what a plan file keeps of it: a record
// and the bytes of the model as they are. Weights are packed again wherever a plan is loaded.
//
// Plain C++, without CUDA and without TensorRT.
#ifndef SPIRA_EXAMPLES_TENSORRT_RECORD_H
#define SPIRA_EXAMPLES_TENSORRT_RECORD_H

#include "../../spira/net_blob.h"
#include "../networks.h"
#include "../onnx_model.h"

#include <memory>

namespace node {

// The attributes of a node. All zero but for the capacities is a node that reads points and writes
// a map [1, channels, height, width] in fp16.
struct options {
    char net[32];       // table of networks.h that a blob is for; empty: the model is an .onnx file
    float range[6];     // of the points in metres, least x, y, z, then the largest; 0: nuScenes'
    float voxel[3];     // edges in metres; 0: nuScenes'
    int32_t max_points; // rows of the inputs, at most
    int32_t max_voxels; // voxels of the finest set, at most
    int32_t voxels;     // 1: reads voxels and their features, 0: points
    int32_t set;        // 1: writes features and coordinates of a set, 0: a map
    int32_t xyz;        // order of coordinate tensors; 0: z, y, x
    int32_t channels_last, fp32; // of the map
    int32_t floats;              // 1: all layers are fp16, whatever ranges the model has
    int32_t device[3]; // where there is no GPU: compute capability (90), multiprocessors, bytes of
                       // shared memory of a thread block of the GPU that the plan is for
};

enum : uint32_t { record_magic = 0x41525053, record_version = 2 }; // "SPRA"

struct record {
    uint32_t magic, version, bytes; // bytes: sizeof(record)
    options o;
    spira::device_info gpu; // that the workspace was planned for
    uint64_t workspace;     // bytes
    uint64_t model_bytes, model_hash;
};

// A network and its parameters. It does not change once it is made, and nodes share it.
struct source {
    std::vector<char> model; // the file as it is
    networks::network net;
    std::vector<float> params; // [plan->params]
    spira::word_layout layout;
    spira::voxel_input grid;     // size, origin and extent of the rows, in the network's axes
    int channels, height, width; // of the map; height 0: of the set
    int32_t rows;                // of the set, at most
};

static inline uint64_t hash_of(const std::vector<char> &bytes) { // FNV-1a
    uint64_t h = 0xcbf29ce484222325ull;
    for (char c : bytes) {
        h = (h ^ (unsigned char)c) * 0x100000001b3ull;
    }
    return h;
}

static inline record record_make(const options *o, const std::vector<char> &model) {
    record r;
    memset((void *)&r, 0, sizeof r); // padding, too: equal nodes have equal bytes
    r.magic = record_magic;
    r.version = record_version;
    r.bytes = (uint32_t)sizeof r;
    r.o = *o;
    r.model_bytes = model.size();
    r.model_hash = hash_of(model);
    return r;
}

// Reads a record back from a plan file.
static inline spira::status record_read(const void *from, size_t bytes,
                                        const std::vector<char> &model, record *r,
                                        scan::scan_reason *why) {
    const char *what = "plan file";
    const spira::status_code bad = spira::status_file_format;
    SCAN_REQUIRE(from && bytes >= 12, why, bad, what, "no record of a node");
    memcpy((void *)r, from, bytes < sizeof *r ? bytes : sizeof *r);
    SCAN_REQUIRE(r->magic == record_magic, why, bad, what, "its record is not one of spira");
    SCAN_REQUIRE(r->version == record_version && r->bytes == sizeof *r && bytes == sizeof *r, why,
                 bad, what, "version %u, this plugin reads %u: build the engine again", r->version,
                 (unsigned)record_version);
    SCAN_REQUIRE(r->model_bytes == model.size() && r->model_hash == hash_of(model), why, bad, what,
                 "its model is damaged: %lld bytes", (long long)model.size());
    r->o.net[sizeof r->o.net - 1] = 0;
    return spira::status_success();
}

// ---- from a model's bytes to a network ----------------------------------------------------------

static inline spira::net_limits source_limits(const source *s, const options *o,
                                              spira::numeric type) {
    spira::net_limits limits = {};
    limits.voxels = o->max_voxels;
    limits.channels = s->net.input_channels;
    limits.range = s->net.input_range;
    limits.type = type;
    limits.grid = s->net.grid;
    limits.batch = 1;
    return limits;
}

static inline spira::status options_check(const options *o, scan::scan_reason *why) {
    const int32_t most = INT32_MAX / 2;
    const spira::status_code bad = spira::status_bad_size;
    SCAN_REQUIRE(o->max_points >= 1 && o->max_points <= most, why, bad, "max_points",
                 "%d, expected 1 to %d", o->max_points, most);
    SCAN_REQUIRE(o->max_voxels >= 1 && o->max_voxels <= most, why, bad, "max_voxels",
                 "%d, expected 1 to %d", o->max_voxels, most);
    SCAN_REQUIRE(!o->set || (!o->channels_last && !o->fp32), why, spira::status_unsupported,
                 "layout, type", "those of a map; a set is [rows, channels] in fp16");
    return spira::status_success();
}

// The range of the points, and with it the extent. file: the extent that the model has; 0: none.
static inline spira::status source_range(const options *o, spira::triple file, source *s,
                                         scan::scan_reason *why) {
    networks::network *net = &s->net;
    const bool given = o->range[0] < o->range[3] || o->voxel[0] > 0;
    net->batch = 1;
    if (o->voxels && !given) { // the model's extent, or that of its table
        SCAN_REQUIRE(net->grid.extent.x > 0, why, spira::status_grid, "range",
                     "%s has no extent: give range and voxel", o->net);
        s->grid.extent = net->grid.extent;
        return spira::status_success();
    }
    networks::network whole = {}; // nuScenes'
    networks::network_nuscenes(&whole);
    const float *lo = o->range[0] < o->range[3] ? o->range : whole.lo;
    const float *hi = o->range[0] < o->range[3] ? o->range + 3 : whole.hi;
    const float *voxel = o->voxel[0] > 0 ? o->voxel : whole.voxel;
    const spira::status made = spira::voxel_range(lo, hi, voxel, &s->grid);
    SCAN_REQUIRE(!spira::status_failed(made), why, made.code, "range, voxel", "%s", made.subject);
    if (net->exchange_xy) {
        std::swap(s->grid.size[0], s->grid.size[1]);
        std::swap(s->grid.origin[0], s->grid.origin[1]);
        std::swap(s->grid.extent.x, s->grid.extent.y);
    }
    if (net->grid.extent.x > 0) { // of detectors; other networks have no limits of their own
        SPIRA_TRY(networks::network_range(net, lo, hi, voxel));
    }
    const spira::triple e = net->grid.extent;
    SCAN_REQUIRE(!file.x || spira::triple_equal(file, e), why, spira::status_grid, "range, voxel",
                 "they make an extent of %d x %d x %d, the model is for %d x %d x %d", e.x, e.y,
                 e.z, file.x, file.y, file.z);
    return spira::status_success();
}

// The last layer: the map as it is asked for, or the set in front of it.
static inline spira::status source_end(const options *o, const char *cut, source *s,
                                       scan::scan_reason *why) {
    spira::net_layer *last = &s->net.layers[s->net.count - 1];
    const bool dense = last->op == spira::net_dense;
    SCAN_REQUIRE(dense || o->set, why, spira::status_unsupported, "output map",
                 "the network makes none%s%s", *cut ? "; it ends in front of " : "", cut);
    if (!dense) {
        return spira::status_success();
    }
    if (o->set) {
        --s->net.count;
        return spira::status_success();
    }
    last->order = o->channels_last ? spira::dense_channels_last : spira::dense_channels_first;
    last->format = o->fp32 ? spira::net_format_f32 : last->format;
    return spira::status_success();
}

// Sets of the network, and where its parameters are.
static inline spira::status source_plan(const options *o, source *s, spira::net_plan *plan,
                                        scan::scan_reason *why) {
    const spira::net_limits limits = source_limits(s, o, spira::numeric_f32);
    const spira::status made =
        spira::net_plan_sets(s->net.layers, s->net.count, &limits, false, plan);
    SCAN_REQUIRE(!spira::status_failed(made), why, made.code, "model", "%s (layer %lld)",
                 made.subject, (long long)made.detail);
    s->params.resize((size_t)plan->params);
    const int layer = plan->layer_count - 1;
    spira::net_run_args<uint64_t> none = {};
    none.input.capacity = o->max_voxels;
    const spira::net_result<uint64_t> last = spira::net_output(plan, layer, &none);
    s->channels = last.channels;
    s->height = last.height;
    s->width = last.width;
    s->rows = last.set.capacity;
    return spira::status_success();
}

static inline spira::status source_of_onnx(const options *o, source *s, spira::net_plan *plan,
                                           scan::scan_reason *why) {
    const unsigned char *at = (const unsigned char *)s->model.data();
    const std::unique_ptr<onnx::model> m(new onnx::model);
    onnx::graph g;
    SPIRA_TRY(onnx::graph_parse("model", {at, at + s->model.size()}, &g, why));
    SPIRA_TRY(onnx::model_make("model", g, m.get(), why));
    if (!o->floats) {
        spira::net_limits limits = {};
        onnx::model_int8(m.get(), &limits);
        m->net.input_range = limits.range;
    }
    memcpy((void *)&s->net, (const void *)&m->net, sizeof s->net);
    for (int i = 0; i < s->net.count; ++i) {
        s->net.layers[i].name = s->net.names[i];
    }
    SPIRA_TRY(source_range(o, m->net.grid.extent, s, why));
    SPIRA_TRY(source_end(o, m->cut.c_str(), s, why));
    SPIRA_TRY(source_plan(o, s, plan, why));
    m->net.count = s->net.count;
    onnx::model_params(m.get(), plan, s->params.data());
    return spira::status_success();
}

static inline spira::status source_of_blob(const options *o, source *s, spira::net_plan *plan,
                                           scan::scan_reason *why) {
    spira::blob blob = {};
    int unused;
    SCAN_REQUIRE(networks::network_make(o->net, &s->net), why, spira::status_unsupported, "net",
                 "there is no network %s", o->net);
    spira::net_limits limits = {};
    spira::status read = spira::blob_open(s->model.data(), s->model.size(), &blob);
    if (!spira::status_failed(read) && !o->floats) {
        read = spira::net_blob_ranges(&blob, s->net.layers, s->net.count, &limits);
    }
    s->net.input_range = limits.range;
    SPIRA_TRY(source_range(o, {}, s, why));
    SPIRA_TRY(source_end(o, "", s, why));
    SPIRA_TRY(source_plan(o, s, plan, why));
    read = spira::status_failed(read)
               ? read
               : spira::net_blob_read(plan, &blob, s->params.data(), &unused);
    SCAN_REQUIRE(!spira::status_failed(read), why, read.code, "model", "%s (%lld)", read.subject,
                 (long long)read.detail);
    return spira::status_success();
}

// The words: 32 bits where they suffice.
static inline spira::status source_layout(source *s, scan::scan_reason *why) {
    const spira::triple own = s->net.grid.extent, e = own.x > 0 ? own : s->grid.extent;
    spira::word_need need = {};
    need.hi = spira::triple_make(e.x - 1, e.y - 1, e.z - 1);
    need.batches = 1;
    spira::status fit = spira::net_need(s->net.layers, s->net.count, &s->net.grid, &need);
    fit = spira::status_failed(fit) ? fit : spira::word_fit(&need, &s->layout);
    SCAN_REQUIRE(!spira::status_failed(fit), why, fit.code, "range, voxel", "%s", fit.subject);
    return spira::status_success();
}

static inline int int8_layers(const source *s) {
    int count = 0;
    for (int i = 0; i < s->net.count; ++i) {
        count += spira::net_is_i8(&s->net.layers[i]);
    }
    return count;
}

// Makes the network of a model.
//
// inputs:  o      see options; s->model
// outputs: s      all members
//          why    on failure what is wrong, in words
static inline spira::status source_make(const options *o, source *s, scan::scan_reason *why) {
    const std::unique_ptr<spira::net_plan> plan(new spira::net_plan);
    SPIRA_TRY(options_check(o, why));
    SPIRA_TRY(*o->net ? source_of_blob(o, s, plan.get(), why)
                      : source_of_onnx(o, s, plan.get(), why));
    SPIRA_TRY(source_layout(s, why));
    const spira::status good = spira::net_params_check(plan.get(), s->params.data());
    SCAN_REQUIRE(!spira::status_failed(good), why, good.code, "model", "%s (layer %lld)",
                 good.subject, (long long)good.detail);
    return spira::status_success();
}

} // namespace node

#endif
