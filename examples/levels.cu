// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/levels.cu: runs a network on given voxels and writes every layer: coordinates, features
// and the dense map, as .npy files. For comparing a converted network with the framework that it
// was trained in; tests/judge.py does that with spconv. Under nvcc it runs on the GPU, under a
// plain C++ compiler on the host.
//
//   levels --net SpMiddleResNetFHD --weights model.blob --in voxels.npy --out folder
//
// voxels.npy is [voxels, 4 + channels] float32: batch, x, y, z, features. The voxels are distinct
// and may be in any order. The folder exists and is empty; levels_file.h describes the files.
//
// --net rule:<12 numbers> is a strided layer by spconv's rule, "strided", and the way back,
// "inverse": size, stride, padding and dilation, each along x, y, z; 32 and 16 channels, no norms.
#include "levels_file.h"
#include "levels_run.h"
#include "scan_file.h"
#include "scan_range.h"
#include "scan_weights.h"

// Makes the two layers of a rule; *code: 0 or the exit code. Returns false if `name` is none.
static bool rule_make(const char *name, networks::network *net, int *code) {
    int n[12] = {}, used = 0, end = 0;
    if (strncmp(name, "rule:", 5)) {
        return false;
    }
    for (name += 4; used < 12 && sscanf(name + 1, "%d%n", &n[used], &end) == 1; ++used) {
        name += 1 + end; // at the comma
    }
    networks::network_begin(net, 16);
    networks::network_conv(net, "strided", spira::net_input, 32, 1, 1);
    networks::network_conv(net, "inverse", 0, 16, 1, 1);
    for (int i = 0; i < 2; ++i) {
        spira::net_layer *l = &net->layers[i];
        l->rule = spira::net_rule_expand;
        l->size = spira::triple_make(n[0], n[1], n[2]);
        l->stride = spira::triple_make(n[3], n[4], n[5]);
        l->padding = spira::triple_make(n[6], n[7], n[8]);
        l->dilation = spira::triple_make(n[9], n[10], n[11]);
        l->transposed = i == 1;
        l->norm = false;
        l->act = spira::activation_none;
    }
    if (used < 12 || *name) {
        fprintf(stderr, "--net rule: 12 numbers, with commas: size, stride, padding and dilation, "
                        "each x, y, z\n");
        *code = 2;
    }
    return true;
}

struct arguments {
    side::options common;
    const char *in, *out;
    spira::triple extent; // of the voxels; 0: that of the network
    int batch;
};

static int usage(void) {
    printf("usage: levels --net NAME|FILE.layers --in VOXELS.npy --out FOLDER\n"
           "              [--weights FILE.blob]\n"
           "              [--seed N] [--save-weights FILE.blob] [--extent X,Y,Z]\n"
           "              [--range X0,Y0,Z0,X1,Y1,Z1] [--voxel X[,Y,Z]]\n"
           "              [--batch N] [--classes N] [--type int8|fp16|bf16|tf32|fp32]\n"
           "--type: without it, layers that the blob has ranges for are int8, on the host\n");
    return 0;
}

static bool parse(int argc, char **argv, arguments *a) {
    *a = {};
    a->common = side::options_standard();
    a->batch = 1;
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i], *value = side::option_value(argc, argv, &i);
        if (!value) {
            return false;
        }
        if (!strcmp(name, "--in")) {
            a->in = value;
        } else if (!strcmp(name, "--out")) {
            a->out = value;
        } else if (!strcmp(name, "--batch")) {
            char *end;
            a->batch = (int)strtol(value, &end, 10);
            if (*end || a->batch < 1) {
                fprintf(stderr, "--batch does not take %s\n", value);
                return false;
            }
        } else if (!strcmp(name, "--extent")) {
            if (sscanf(value, "%d,%d,%d", &a->extent.x, &a->extent.y, &a->extent.z) != 3) {
                fprintf(stderr, "--extent does not take %s: X,Y,Z\n", value);
                return false;
            }
        } else if (!side::option_take(&a->common, name, value)) {
            return false;
        }
    }
    const char *missing = !a->in ? "--in" : !a->out ? "--out" : nullptr;
    if (missing) {
        fprintf(stderr, "%s is missing\n", missing);
    }
    return !missing;
}

// The voxels of the file, as the columns of the file that voxelisation takes.
struct voxels {
    int32_t rows, channels;
    int32_t *coords; // [rows, 3]
    int32_t *batch;  // [rows]
    float *features; // [rows, channels]
    spira::triple lo, hi;
};

static spira::status voxels_read(const char *path, voxels *v, scan::scan_reason *why) {
    scan::scan_cloud cloud;
    scan::scan_options options = {};
    options.exact = true; // columns 1 to 3 are voxels
    SPIRA_TRY(scan::scan_read(path, &options, &cloud, why));
    SCAN_REQUIRE(cloud.points && cloud.columns > 4, why, spira::status_file_format, path,
                 "has %d columns; batch, x, y, z and values in float32 are needed", cloud.columns);
    SCAN_REQUIRE(!cloud.dropped && !cloud.zeroed, why, spira::status_not_finite, path,
                 "has %lld rows or values that are NaN or infinite",
                 (long long)(cloud.dropped + cloud.zeroed));
    v->rows = (int32_t)cloud.rows;
    v->channels = cloud.columns - 4;
    v->coords = (int32_t *)malloc((size_t)v->rows * 3 * sizeof(int32_t));
    v->batch = (int32_t *)malloc((size_t)v->rows * sizeof(int32_t));
    v->features = (float *)malloc((size_t)v->rows * (size_t)v->channels * sizeof(float));
    int lo[3] = {INT32_MAX, INT32_MAX, INT32_MAX}, hi[3] = {INT32_MIN, INT32_MIN, INT32_MIN};
    for (int64_t i = 0; i < v->rows; ++i) {
        const float *row = cloud.points + i * cloud.columns;
        for (int c = 0; c < 4; ++c) { // further integers are not exact in fp32
            if (!(fabsf(row[c]) <= 1 << 24) || row[c] != floorf(row[c])) {
                scan::scan_free(&cloud);
                return scan::scan_refuse(why, spira::status_file_format, path,
                                         "row %lld has a number that is no integer up to 2^24 "
                                         "where batch, x, y and z are",
                                         (long long)i);
            }
        }
        v->batch[i] = (int32_t)row[0];
        for (int a = 0; a < 3; ++a) {
            const int32_t at = v->coords[3 * i + a] = (int32_t)row[1 + a];
            lo[a] = lo[a] < at ? lo[a] : at;
            hi[a] = hi[a] > at ? hi[a] : at;
        }
        memcpy(v->features + i * v->channels, row + 4, (size_t)v->channels * sizeof(float));
    }
    v->lo = spira::triple_make(lo[0], lo[1], lo[2]);
    v->hi = spira::triple_make(hi[0], hi[1], hi[2]);
    scan::scan_free(&cloud);
    return spira::status_success();
}

static void voxels_free(voxels *v) {
    free(v->coords);
    free(v->batch);
    free(v->features);
}

// Packs and sorts the voxels, and their features with them. The arrays go to j->run.
template <typename W>
static spira::status input_make(const voxels *v, levels::levels_job<W> *j) {
    spira::voxel_input in = {};
    in.coords = v->coords;
    in.batch = v->batch;
    in.count = &v->rows;
    in.rows = v->rows;
    in.columns = 3;
    in.duplicates = spira::duplicates_report;
    const size_t rows = (size_t)v->rows;
    size_t bytes;
    SPIRA_TRY(spira::voxelize_host_workspace<W>(&in, &bytes));
    spira::voxel_set<W> set = {(W *)malloc(rows * sizeof(W)), (int32_t *)malloc(sizeof(int32_t)),
                               v->rows};
    int32_t *memory = (int32_t *)malloc((3 * rows + 1) * sizeof(int32_t));
    const spira::voxel_rows each = {memory, memory + rows, memory + 2 * rows};
    void *scratch = side::block_new(bytes), *features = malloc(rows * (size_t)v->channels * 4);
    j->run.input = set;
    j->run.features = features;
    spira::voxel_features_args<W> first = {}; // each voxel has one row
    first.kind = spira::voxel_feature_first;
    first.values = v->features;
    first.columns = first.channels = v->channels;
    first.rows = each;
    first.set = set;
    first.type = j->limits.type;
    first.features = features;
    spira::device_status trouble = {};
    const spira::voxelize_args<W> args = {j->layout, &in, set, each, &trouble};
    spira::status s = spira::voxelize_host(&args, scratch, bytes);
    s = spira::status_failed(s) ? s : spira::device_status_read(&trouble);
    s = spira::status_failed(s) ? s : spira::voxel_features_host(&first);
    free(scratch);
    free(memory);
    return s;
}

template <typename W>
static void job_free(levels::levels_job<W> *j) {
    free(j->run.input.words);
    free(j->run.input.count);
    free((void *)j->run.features);
    free((void *)j->params);
    free(j->run.memory);
}

// Everything behind the word layout. Returns the exit code.
template <typename W>
static int run_job(const arguments *a, const voxels *v, levels::levels_job<W> *j) {
    spira::status s = input_make(v, j);
    if (spira::status_failed(s)) {
        return side::fail("sorting the voxels", j->net, s);
    }
    s = levels::sets_measure(j);
    if (spira::status_failed(s)) {
        return side::fail("building the sets", j->net, s);
    }
    j->params = (float *)malloc((size_t)j->plan->params * sizeof(float));
    int code = weights::params_fill(&a->common, j->net, j->plan, (float *)j->params);
    if (code) {
        return code;
    }
    spira::device_status trouble = {};
    j->run.trouble = &trouble;
    s = levels::run(j);
    s = spira::status_failed(s) ? s : spira::device_status_read(&trouble);
    if (spira::status_failed(s)) {
        return side::fail("running the network", j->net, s);
    }
    s = levels::run_write(a->out, j->plan, &j->run);
    return spira::status_failed(s) ? side::fail("writing the levels", j->net, s) : 0;
}

template <typename W>
static int run(const arguments *a, networks::network *net, const voxels *v,
               const spira::net_limits *limits, const spira::word_layout *layout) {
    levels::levels_job<W> j = {};
    j.chosen = &a->common;
    j.net = net;
    j.layout = layout;
    j.limits = *limits;
    j.plan = (spira::net_plan *)calloc(1, sizeof *j.plan);
    const int code = run_job(a, v, &j);
    job_free(&j);
    free(j.plan);
    return code;
}

// The limits and the layout, from the voxels and the network.
static spira::status fit(const arguments *a, const networks::network *net, const voxels *v,
                         spira::net_limits *limits, spira::word_layout *layout) {
    *limits = {};
    limits->voxels = v->rows;
    limits->grid = net->grid;
    limits->grid.extent = a->extent.x ? a->extent : limits->grid.extent;
    limits->batch = a->batch;
    limits->channels = v->channels;
    limits->type = spira::numeric_f32;
#ifdef __CUDACC__
    limits->type = a->common.type;
#endif
    limits->keep_all = true;
    spira::word_need need = {};
    need.lo = v->lo;
    need.hi = v->hi;
    SPIRA_TRY(spira::net_need(net->layers, net->count, &limits->grid, &need));
    need.batches = a->batch;
    return spira::word_fit(&need, layout);
}

int main(int argc, char **argv) {
    arguments a;
    if (side::help_asked(argc, argv)) {
        return usage();
    }
    networks::network *net = (networks::network *)calloc(1, sizeof *net);
    if (!parse(argc, argv, &a)) {
        return side::arguments_refuse("levels");
    }
    int code = 0;
    if (!rule_make(a.common.net, net, &code)) {
        code = side::network_open(&a.common, net);
    }
    if (code) {
        return code;
    }
    for (int i = 0; i < net->count; ++i) { // files have fp32
        const bool dense = net->layers[i].op == spira::net_dense;
        net->layers[i].format = dense ? spira::net_format_f32 : spira::net_format_same;
    }
    const bool metres = a.common.has_range || a.common.voxel[0] > 0;
    if (metres && (a.extent.x || !networks::network_ranged(net))) {
        fprintf(stderr, "--range, --voxel: for a network with a range, and without --extent\n");
        return 2;
    }
    code = side::range_choose(&a.common, net);
    if (code) {
        return code;
    }
    voxels v = {};
    spira::net_limits limits;
    spira::word_layout layout;
    scan::scan_reason why;
    spira::status s = voxels_read(a.in, &v, &why);
    if (spira::status_failed(s)) {
        return side::fail_file(&why, net, s);
    }
    s = fit(&a, net, &v, &limits, &layout);
    if (spira::status_failed(s)) {
        return side::fail("fitting the coordinate word", net, s);
    }
    code = weights::ranges_take(&a.common, net);
    if (code) {
        return code;
    }
    limits.range = net->input_range;
    code = layout.bits == 32 ? run<uint32_t>(&a, net, &v, &limits, &layout)
                             : run<uint64_t>(&a, net, &v, &limits, &layout);
    voxels_free(&v);
    free(net);
    return code;
}
