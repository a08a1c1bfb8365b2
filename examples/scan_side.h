// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_side.h: what the examples on scans share: options, a job, and its run on the GPU
// (under nvcc) or on the host (otherwise). Both sides fill the same result.
//
// SIDE_FORMAT, defined before this file is included, is the one number format that is compiled for
// the GPU; numeric_i8: fp16, and int8 for layers that have ranges. Without it all four of floating
// point are, and --type chooses. The host computes in fp32, and in int8.
#ifndef SPIRA_EXAMPLES_SCAN_SIDE_H
#define SPIRA_EXAMPLES_SCAN_SIDE_H

#include "../spira.cuh"
#include "arguments.h"
#include "networks.h"
#include "scan_file.h"

#include <chrono>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

#ifndef __CUDACC__
#undef SIDE_FORMAT
#define SIDE_FORMAT spira::numeric_f32
#elif !defined SIDE_FORMAT
#define SIDE_FORMAT spira::numeric_any
#endif

namespace side {

constexpr spira::numeric format = SIDE_FORMAT;
constexpr spira::numeric float_format =
    format == spira::numeric_i8 ? spira::numeric_f16 : (spira::numeric)SIDE_FORMAT;
#ifdef __CUDACC__
constexpr bool has_int8 = format == spira::numeric_i8;
#else
constexpr bool has_int8 = true;
#endif

struct options {
    const char *scan;        // null: a street scene
    scan::scan_options file; // what the file does not say
    float voxel[3];          // edges in metres; 0: those of the network, or 0.05
    bool has_range;
    float range[6]; // of points, in metres: the least x, y, z, then the largest
    const char *net;
    bool net_given;                // by --net
    networks::network_sizes sizes; // of the network
    spira::numeric type;           // of floating-point features
    bool floats;                   // no layer is int8, whatever the weights say
    bool int8;                     // refuse weights without ranges
    const char *onnx; // file that has the network and its weights; null: `net` and `weights`
    const char *picture;
    const char *save_labels; // file to write the class of each voxel to, or null
    uint32_t seed;
    bool check;
    bool list;                // of --onnx: print its layers, and end
    bool layers;              // print a table of the layers
    const char *weights;      // file to read weights from; null: generated from the seed
    const char *save_weights; // file to write weights to, or null
    const char *records;      // file with tuning records for the plan of the GPU, or null
};

static inline options options_standard() {
    options o = {};
    o.net = "MinkUNet42";
    o.type = float_format == spira::numeric_any ? spira::numeric_f16 : float_format;
    o.picture = "scan.png";
    o.seed = 1;
    o.check = true;
    return o;
}

// Reads a number of channels; 0 for anything else.
static inline int channels_take(const char *value, char **end) {
    const long n = strtol(value, end, 10);
    return n >= 1 && n <= spira::conv_channels_max ? (int)n : 0;
}

// Reads what the columns of integers are.
static inline bool indices_take(const char *value, scan::scan_indices *indices) {
    const char *const names[] = {"xyz", "bxyz", "bzyx"};
    for (int i = 0; i < 3; ++i) {
        if (!strcmp(value, names[i])) {
            *indices = (scan::scan_indices)(scan::scan_indices_xyz + i);
            return true;
        }
    }
    return false;
}

// Reads numbers that commas separate. Returns how many; 0 for more than `most` or anything else.
static inline int numbers_take(const char *text, int most, float *numbers) {
    for (int count = 0; count < most; ++count) {
        char *end;
        numbers[count] = strtof(text, &end);
        if (end == text || !spira::float_is_finite(numbers[count])) {
            return 0;
        }
        if (!*end) {
            return count + 1;
        }
        if (*end != ',') {
            return 0;
        }
        text = end + 1;
    }
    return 0;
}

// Reads the edges of a voxel: one for all axes, or three.
static inline bool voxel_take(const char *text, float voxel[3]) {
    const int count = numbers_take(text, 3, voxel);
    if (count == 1) {
        voxel[1] = voxel[2] = voxel[0];
    }
    return (count == 1 || count == 3) && voxel[0] > 0 && voxel[1] > 0 && voxel[2] > 0;
}

// Takes the network that the options name. Returns 0 or the exit code.
static inline int network_take(const options *o, networks::network *net) {
    if (networks::network_make(o->net, &o->sizes, net)) {
        return 0;
    }
    if (net->count) {
        fprintf(stderr, "--classes is for SpUNet-v1m1 and SpUNet-small, not for %s\n", o->net);
    } else {
        fprintf(stderr, "--net %s: there is no such network.\nNAME: %s\n", o->net,
                networks::network_names);
    }
    return 2;
}

// Reads --type. int8: as the weights say, and they must have ranges. Returns false for anything
// else.
static inline bool type_take(const char *value, options *o) {
    int n = spira::numeric_f32;
    o->int8 = !strcmp(value, spira::numeric_name(spira::numeric_i8));
    o->floats = !o->int8;
    while (n <= spira::numeric_bf16 && strcmp(value, spira::numeric_name((spira::numeric)n))) {
        ++n;
    }
    o->type = o->int8 ? options_standard().type : (spira::numeric)n;
    return spira::numeric_valid(o->type);
}

// Whether the program computes in the type of the options.
static inline bool type_compiled(const options *o) {
    return o->int8 ? has_int8 : float_format == spira::numeric_any || o->type == float_format;
}

// Takes an option that all examples on scans share. Returns false, and prints why, if it is none of
// them, if its value is invalid, or if the type is not compiled.
static inline bool option_take(options *o, const char *name, const char *value) {
    char *end = (char *)"";
    const char *takes = "";
    bool good = true;
    if (!strcmp(name, "--voxel")) {
        takes = ", but one or three lengths above 0, in metres";
        good = voxel_take(value, o->voxel);
    } else if (!strcmp(name, "--range")) {
        takes = ", but six numbers in metres: the least x, y, z, then the largest";
        good = o->has_range = numbers_take(value, 6, o->range) == 6;
    } else if (!strcmp(name, "--columns")) {
        takes = ", but 3 to 4096";
        good = (o->file.columns = channels_take(value, &end)) >= 3;
    } else if (!strcmp(name, "--indices")) {
        takes = ", but xyz, bxyz or bzyx";
        good = indices_take(value, &o->file.indices);
    } else if (!strcmp(name, "--net")) {
        o->net = value;
        o->net_given = true;
    } else if (!strcmp(name, "--channels")) {
        takes = ", but 1 to 4096";
        good = (o->sizes.channels = channels_take(value, &end)) > 0;
    } else if (!strcmp(name, "--classes")) {
        takes = ", but 1 to 4096";
        good = (o->sizes.classes = channels_take(value, &end)) > 0;
    } else if (!strcmp(name, "--weights")) {
        o->weights = value;
    } else if (!strcmp(name, "--save-weights")) {
        o->save_weights = value;
    } else if (!strcmp(name, "--records")) {
        o->records = value;
    } else if (!strcmp(name, "--seed")) {
        const unsigned long long seed = strtoull(value, &end, 10);
        takes = ", but 0 to 4294967295";
        good = *value >= '0' && *value <= '9' && seed <= UINT32_MAX;
        o->seed = (uint32_t)seed;
    } else if (!strcmp(name, "--type")) {
        takes = ", but int8, fp16, bf16, tf32 or fp32";
        good = type_take(value, o);
    } else {
        fprintf(stderr, "%s is no option\n", name);
        return false;
    }
    good = good && *value && !*end;
    const bool compiled = !good || type_compiled(o);
    if (!good) {
        fprintf(stderr, "%s does not take %s%s\n", name, value, takes);
    } else if (!compiled) {
        const bool any = float_format == spira::numeric_any;
        fprintf(stderr, "%s %s: this program computes in %s%s alone\n", name, value,
                any ? "floating point" : spira::numeric_name(float_format),
                has_int8 ? " and int8" : "");
    }
    return good && compiled;
}

// Number of int8 layers.
static inline int int8_layers(const networks::network *net) {
    int count = 0;
    for (int i = 0; i < net->count; ++i) {
        count += spira::net_is_i8(&net->layers[i]);
    }
    return count;
}

// Makes a network the int8 one that its weights have been calibrated as, unless the options ask for
// floating point, or the program has no int8. of: the same network with formats and ranges. Returns
// 0 or the exit code.
static inline int int8_take(const options *o, const networks::network *of, networks::network *net) {
    const int quantised = int8_layers(of);
    if (o->int8 && !quantised) {
        fprintf(stderr,
                "--type int8: the weights have no ranges (examples/quantize.cu finds them)\n");
        return 2;
    }
    if (has_int8 && !o->floats) {
        std::copy(of->layers, of->layers + of->count, net->layers);
        net->input_range = of->input_range;
    }
    net->quantised = quantised;
    return 0;
}

// In which formats a network's layers compute, in words.
static inline const char *precision_text(const options *o, const networks::network *net, char *text,
                                         size_t size) {
    const char *own = spira::numeric_name(o->type);
    const int int8 = int8_layers(net);
    if (int8) {
        snprintf(text, size, "int8 (%d layers) and %s", int8, own);
    } else if (net->quantised) {
        snprintf(text, size, "%s (%d layers could be int8)", own, net->quantised);
    } else {
        snprintf(text, size, "%s", own);
    }
    return text;
}

// Whether a network gets the values of points as they are in the file: detectors are trained on
// those. With random weights the values are small, so that fp16 holds all features.
static inline bool values_are_raw(const options *o, const networks::network *net) {
    return networks::network_ranged(net) && (o->weights || o->onnx);
}

// Prints an error, with the name of the layer at fault. Returns the exit code.
static inline int fail(const char *doing, const networks::network *net, spira::status s) {
    char text[256];
    if (s.code == spira::status_layer) {
        fprintf(stderr, "%s: layer %s: %s\n", doing, net->layers[s.detail].name,
                spira::status_text(s, text, sizeof text));
        return 1;
    }
    bool system = s.code == spira::status_file_open && s.detail > 0; // the detail is an errno
    fprintf(stderr, "%s: %s%s%s\n", doing, spira::status_text(s, text, sizeof text),
            system ? ", " : "", system ? strerror((int)s.detail) : "");
    return 1;
}

// The same for a file: its path stands in front of what does not name it.
static inline int fail_path(const char *what, const char *path, const networks::network *net,
                            spira::status s) {
    char doing[320];
    const bool named = s.code == spira::status_file_open || s.code == spira::status_file_empty;
    snprintf(doing, sizeof doing, "reading the %s%s%.256s", what, named ? "" : " of ",
             named ? "" : path);
    return fail(doing, net, s);
}

// The same for a file that was not read: its reason says all.
static inline int fail_file(const scan::scan_reason *why, const networks::network *net,
                            spira::status s) {
    if (s.subject != why->text) {
        return fail("reading the scan", net, s);
    }
    fprintf(stderr, "%s\n", why->text);
    return 1;
}

struct job {
    const options *chosen;
    networks::network *net;
    spira::net_plan *plan;
    spira::word_layout layout;
    spira::voxel_input input;    // host memory; the side fills in the count
    const float *values;         // [rows, channels] inputs of the network for each row; null: the
                                 // columns of input.points from 3 on
    int32_t *labels;             // [rows] the class of each row, or null: not known
    const float *params;         // of the network, in the order that all its plans have
    spira::tune_record *records; // [record_count] for plans of the GPU, or null
    int record_count;
};

// The input channels of a job's network.
static inline int channels_of(const job *j) {
    return j->net->input_channels;
}

// The pitch of the values of a job's rows.
static inline int value_columns(const job *j) {
    return j->values ? channels_of(j) : j->input.columns;
}

// Limits of a plan of a network.
static inline spira::net_limits limits_of(const networks::network *net, int32_t voxels) {
    spira::net_limits limits = {};
    limits.voxels = voxels;
    limits.channels = net->input_channels;
    limits.type = spira::numeric_f32;
    limits.range = net->input_range;
    limits.grid = net->grid;
    limits.batch = net->batch;
    return limits;
}

static inline spira::net_limits job_limits(const job *j, int32_t voxels) {
    return limits_of(j->net, voxels);
}

static inline bool is_dense(const spira::net_plan *plan, int layer) {
    return layer >= 0 && plan->layers[layer].op == spira::net_dense;
}

// Elements of a layer's features, or of the input's, for a number of voxels of its set.
static inline int64_t feature_count(const spira::net_plan *plan, int layer, int32_t voxels) {
    if (layer < 0) {
        return (int64_t)voxels * plan->limits.channels;
    }
    const spira::net_step *step = &plan->step[layer];
    const spira::triple extent = plan->set[step->set].grid.extent;
    return step->channels *
           (is_dense(plan, layer) ? (int64_t)plan->limits.batch * extent.x * extent.y : voxels);
}

template <typename W>
struct result {
    const char *where;
    W *words;        // [voxels] of the last layer's set
    float *features; // of the last layer: [voxels, channels], or a dense map
    int32_t voxels[spira::net_sets_max];
    int64_t pairs[spira::net_maps_max];
    double layer_ms[spira::net_layers_max];
    double voxelize_ms, index_ms, features_ms, graph_ms;
    size_t workspace_bytes, feature_bytes, parameter_bytes;
    int checked; // layers that were compared with the host
    double worst;
    int worst_layer;
};

template <typename W>
static void result_free(result<W> *r) {
    free(r->words);
    free(r->features);
    r->words = nullptr;
    r->features = nullptr;
}

static inline double now_ms() {
    return (double)std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
               .count() *
           1e-6;
}

// Memory for a workspace: aligned, not initialised.
static inline void *block_new(size_t bytes) {
    size_t step = spira::workspace_alignment;
    return aligned_alloc(step, (bytes + step) / step * step);
}

// Progress on one line of the terminal, if there is one.
static inline void progress(const char *what, int at, int of) {
    if (!isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) {
        return;
    }
    fprintf(stderr, "\r%s %d/%d%s", what, at, of, at == of ? "\r\033[K" : "   ");
    fflush(stderr);
}

// The voxels of a job on the host, its plan's capacities, and its features.
template <typename W>
struct prepared {
    int32_t rows;
    spira::voxel_set<W> set;
    spira::voxel_rows bookkeeping;
    float *features; // [voxels, channels]
    void *memory, *scratch;
};

template <typename W>
static void prepared_free(prepared<W> *p) {
    free(p->memory);
    free(p->scratch);
    free(p->features);
}

template <typename W>
static prepared<W> prepared_new(job *j) {
    prepared<W> p = {};
    p.rows = j->input.rows;
    j->input.count = &p.rows;
    spira::workspace count = spira::workspace_begin(nullptr);
    for (int pass = 0; pass < 2; ++pass) { // first the bytes, then the pointers
        p.set.words = spira::workspace_take<W>(&count, p.rows);
        p.set.count = spira::workspace_take<int32_t>(&count, 1);
        p.set.capacity = p.rows;
        p.bookkeeping.voxel = spira::workspace_take<int32_t>(&count, p.rows);
        p.bookkeeping.order = spira::workspace_take<int32_t>(&count, p.rows);
        p.bookkeeping.begin = spira::workspace_take<int32_t>(&count, p.rows + 1);
        if (pass == 0) {
            p.memory = block_new(count.used);
            count = spira::workspace_begin(p.memory);
        }
    }
    size_t bytes = 0;
    (void)spira::voxelize_host_workspace<W>(&j->input, &bytes); // prepare_set returns what is wrong
    p.scratch = block_new(bytes);
    p.features = (float *)malloc((size_t)p.rows * channels_of(j) * sizeof(float));
    return p;
}

// Voxelises on the host. Invalid rows are dropped and recorded in `trouble`.
template <typename W>
static spira::status prepare_set(job *j, prepared<W> *p, spira::device_status *trouble) {
    size_t bytes;
    j->input.count = &p->rows;
    SPIRA_TRY(spira::voxelize_host_workspace<W>(&j->input, &bytes));
    const spira::voxelize_args<W> args = {&j->layout, &j->input, p->set, p->bookkeeping, trouble};
    return spira::voxelize_host(&args, p->scratch, bytes);
}

// Voxelises and computes the features. Fails if a row is invalid.
template <typename W>
static spira::status prepare(job *j, prepared<W> *p) {
    spira::device_status trouble = {};
    SPIRA_TRY(prepare_set(j, p, &trouble));
    SPIRA_TRY(spira::device_status_read(&trouble));
    spira::voxel_features_args<W> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = j->values ? j->values : j->input.points + 3;
    mean.columns = value_columns(j);
    mean.channels = channels_of(j);
    mean.rows = p->bookkeeping;
    mean.set = p->set;
    mean.type = spira::numeric_f32;
    mean.features = p->features;
    return spira::voxel_features_host(&mean);
}

// Builds the sets of a plan in memory that is mostly not touched, and reads their sizes.
template <typename W>
static spira::status measure_plan(const spira::net_plan *plan, const prepared<W> *p, void *memory,
                                  int32_t *voxels) {
    spira::device_status trouble = {};
    spira::net_run_args<W> run = {};
    run.input = p->set;
    run.trouble = &trouble;
    run.memory = memory;
    run.bytes = plan->workspace_bytes;
    SPIRA_TRY(spira::net_sets_host(plan, &run));
    for (int s = 1; s < plan->sets; ++s) {
        if (!plan->set[s].stage) {
            voxels[s] = *spira::net_voxels(plan, s, run.input, memory).count;
            voxels[s] = voxels[s] ? voxels[s] : 1;
        }
    }
    return spira::device_status_read(&trouble);
}

// Gives the layers the capacities of their sets. Sets that follow from features keep those that
// they were planned with: only a run counts them.
static inline void capacities_set(const spira::net_plan *plan, int32_t *voxels,
                                  networks::network *net) {
    for (int s = 1; s < plan->sets; ++s) {
        voxels[s] = plan->set[s].stage ? plan->set[s].capacity : voxels[s];
    }
    spira::net_capacities(plan, voxels, net->layers);
}

template <typename W>
static spira::status measure_within(const job *j, const prepared<W> *p,
                                    const spira::net_limits *limits, int32_t *voxels) {
    SPIRA_TRY(spira::net_plan_host<W>(j->net->layers, j->net->count, &j->layout, limits, j->plan));
    void *memory = block_new(j->plan->workspace_bytes);
    SPIRA_REQUIRE(memory, spira::status_workspace, "memory", j->plan->workspace_bytes);
    spira::status s = measure_plan(j->plan, p, memory, voxels);
    free(memory);
    return s;
}

// Counts the voxels that each set of the network has in this scan, and gives the layers these
// capacities. Sets of a few lone voxels grow beyond the standard capacities of a plan: then it
// measures once more, with room for all that they can touch.
//
// voxels [net_sets_max]
template <typename W>
static spira::status measure_sets(const job *j, const prepared<W> *p,
                                  const spira::net_limits *limits, int32_t *voxels) {
    enum { growth = 32 };
    std::fill(voxels, voxels + spira::net_sets_max, 0);
    SPIRA_TRY(spira::net_plan_sets(j->net->layers, j->net->count, limits, false, j->plan));
    capacities_set(j->plan, voxels, j->net);
    spira::status s = measure_within(j, p, limits, voxels);
    if (s.code == spira::status_capacity && limits->voxels <= INT32_MAX / growth) {
        std::fill(voxels, voxels + spira::net_sets_max, limits->voxels * growth);
        capacities_set(j->plan, voxels, j->net);
        s = measure_within(j, p, limits, voxels);
    }
    capacities_set(j->plan, voxels, j->net);
    return s;
}

// Features of the input as a plan reads them.
static inline std::vector<char> input_stored(const spira::net_plan *plan, const float *features,
                                             int64_t count) {
    const spira::numeric type = plan->input_type;
    const float inverse = type == spira::numeric_i8 ? 1 / plan->input_scale : 1.0f;
    std::vector<char> stored((size_t)(count * spira::numeric_size(type)) + 1);
    for (int64_t i = 0; i < count; ++i) {
        spira::numeric_store(type, stored.data(), i, features[i] * inverse);
    }
    return stored;
}

template <typename W>
static void keep_last(const job *j, result<W> *r, const W *words, const float *features) {
    const int last = j->plan->layer_count - 1;
    const size_t voxels = (size_t)r->voxels[j->plan->step[last].set];
    const size_t values = (size_t)feature_count(j->plan, last, (int32_t)voxels);
    r->words = (W *)malloc((voxels + 1) * sizeof(W));
    r->features = (float *)malloc((values + 1) * sizeof(float));
    memcpy(r->words, words, voxels * sizeof(W));
    memcpy(r->features, features, values * sizeof(float));
}

} // namespace side

#ifdef __CUDACC__
#include "scan_side_device.h"
#else
#include "scan_side_host.h"
#endif

#endif
