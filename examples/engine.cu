// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/engine.cu: an engine that captures a network once, from raw rows to features, in a CUDA
// graph, and replays it on a folder of scans, round after round, or on each scan that standard
// input names. Prints percentiles of the latency of each scan and of all scans, and where the
// result is. A scan that cannot be read or exceeds a capacity is reported, and the engine goes on.
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a examples/engine.cu -o engine
// (for an H100 or H200; for other GPUs -arch with their own number, as in -arch=sm_80)
//
// Code for fp16 and int8 is compiled. With -DENGINE_ANY_TYPE all four floating-point formats are,
// without int8, and --type chooses: that takes several times as long to compile.
//
// Exit codes: 0 every frame was good; 1 the engine could not run; 2 the arguments; 3 it ran, and
// some frames could not be read or exceeded a capacity.
#if !defined(ENGINE_ANY_TYPE) && !defined(SIDE_FORMAT)
#define SIDE_FORMAT spira::numeric_i8
#endif
#include "engine_report.h"
#include "scan_onnx.h"
#include "scan_weights.h"

#include <iostream>

namespace engine {

enum {
    rows_begin = spira::workspace_alignment,   // bytes from the count of the rows to the rows
    voxels_begin = spira::workspace_alignment, // bytes from the status to the count of the voxels
    warm_rounds = 2,
};

struct choices {
    side::options common;
    int32_t voxels, points; // capacities; 0: those of the largest scan
    int rounds;
    bool channels_last, fp32;        // of a dense map
    bool stream;                     // scans are named by standard input, a line each
    std::vector<const char *> paths; // of scans and of folders
};

enum mark { mark_began, mark_copied, mark_ran, mark_ended, marks };

// One of two frames in flight: while the GPU works on one, the host prepares the other.
struct slot {
    char *staged; // pinned: the count, then the rows
    char *told;   // pinned: the status, then the count of voxels
    cudaEvent_t mark[marks];
};

template <typename W>
struct state {
    side::job job;
    side::device_job<W> d;
    cudaGraphExec_t graph;
    slot slots[2];
    size_t pinned_bytes;
};

// ---- what the scans ask for ---------------------------------------------------------------------

static void input_of(const side::job *job, const frame *f, spira::voxel_input *in) {
    const networks::network *net = job->net;
    memset((void *)in, 0, sizeof *in);
    in->points = f->rows.data();
    in->rows = f->count;
    in->columns = row_columns(net);
    networks::network_voxels(net, in);
    in->duplicates = spira::duplicates_merge;
    in->drop_not_finite = true;
}

// The bounds of all scans, along the axes of the network; without scans: its range.
static void bounds_find(const networks::network *net, const std::vector<frame> &frames, float lo[3],
                        float hi[3]) {
    bool first = true;
    for (int a = 0; a < 3; ++a) {
        const int axis = net->exchange_xy && a < 2 ? 1 - a : a;
        lo[a] = frames.empty() ? net->lo[axis] : 0;
        hi[a] = frames.empty() ? net->hi[axis] : 0;
    }
    for (const frame &f : frames) {
        scan::scan_cloud cloud = {};
        cloud.rows = f.count;
        cloud.columns = row_columns(net);
        cloud.points = (float *)f.rows.data();
        float low[3], high[3];
        if (f.count < 1 || spira::status_failed(scan::scan_bounds_points(&cloud, low, high))) {
            continue; // an axis without a finite value: all rows are dropped
        }
        for (int a = 0; a < 3; ++a) {
            lo[a] = first ? low[a] : std::min(lo[a], low[a]);
            hi[a] = first ? high[a] : std::max(hi[a], high[a]);
        }
        first = false;
    }
}

// A layout for the network and all scans together.
static spira::status layout_fit(const std::vector<frame> &frames, side::job *job) {
    float lo[3], hi[3];
    const frame none = frame_none(job->net);
    spira::word_need need = {};
    spira::voxel_input in;
    bounds_find(job->net, frames, lo, hi);
    input_of(job, frames.empty() ? &none : &frames[0], &in);
    SPIRA_TRY(spira::voxel_bounds(lo, hi, in.size, in.origin, &need));
    SPIRA_TRY(spira::net_need(job->net->layers, job->net->count, &job->net->grid, &need));
    need.batches = 1;
    return spira::word_fit(&need, &job->layout);
}

// Finds the capacities that the sets of the network need: the most voxels of any scan, set by set.
template <typename W>
static spira::status sets_measure(const std::vector<frame> &frames, side::job *job,
                                  int32_t most[spira::net_sets_max]) {
    for (const frame &f : frames) {
        if (f.count < 1) {
            continue;
        }
        input_of(job, &f, &job->input);
        side::prepared<W> p = side::prepared_new<W>(job);
        spira::net_limits limits = side::job_limits(job, 0);
        spira::device_status trouble = {};
        spira::status s = side::prepare_set(job, &p, &trouble);
        limits.voxels = p.set.capacity = *p.set.count;
        int32_t voxels[spira::net_sets_max] = {};
        if (!spira::status_failed(s) && limits.voxels > 0) {
            s = side::measure_sets(job, &p, &limits, voxels);
        }
        side::prepared_free(&p);
        SPIRA_TRY(s);
        most[0] = std::max(most[0], limits.voxels);
        for (int i = 1; i < spira::net_sets_max; ++i) {
            most[i] = std::max(most[i], voxels[i]);
        }
    }
    return spira::status_success();
}

// The capacities: the given ones, or those of the largest scan. Coarser sets grow with the finest.
template <typename W>
static spira::status limits_choose(const choices *c, const std::vector<frame> &frames,
                                   side::job *job, spira::net_limits *limits) {
    int32_t most[spira::net_sets_max] = {1}, points = 1;
    SPIRA_TRY(sets_measure<W>(frames, job, most));
    for (const frame &f : frames) {
        points = std::max(points, f.count);
    }
    *limits = side::job_limits(job, c->voxels ? c->voxels : most[0]);
    limits->type = c->common.type;
    double more = std::max(1.0, (double)limits->voxels / most[0]);
    for (int i = 1; i < spira::net_sets_max; ++i) { // sets that dilate may have more than the input
        most[i] = (int32_t)std::min((double)INT32_MAX, ceil(most[i] * more));
    }
    const frame none = frame_none(job->net);
    if (!frames.empty()) { // else the plan has no more to go by than the finest set
        spira::net_capacities(job->plan, most, job->net->layers);
    }
    input_of(job, frames.empty() ? &none : &frames[0], &job->input);
    job->input.count = &job->input.rows;
    job->input.rows = c->points ? c->points : points;
    return spira::status_success();
}

// ---- the engine ---------------------------------------------------------------------------------

template <typename W>
static void state_free(state<W> *e) {
    for (slot &s : e->slots) {
        cudaFreeHost(s.staged);
        cudaFreeHost(s.told);
        for (cudaEvent_t mark : s.mark) {
            if (mark) {
                cudaEventDestroy(mark);
            }
        }
    }
    if (e->graph) {
        cudaGraphExecDestroy(e->graph);
    }
    side::device_free(&e->d);
}

template <typename W>
static spira::status slots_new(state<W> *e) {
    size_t staged = rows_begin + (size_t)e->d.input.rows * row_columns(e->job.net) * sizeof(float);
    size_t told = voxels_begin + sizeof(int32_t);
    e->pinned_bytes = 2 * (staged + told);
    for (slot &s : e->slots) {
        SIDE_CUDA(cudaMallocHost((void **)&s.staged, staged));
        SIDE_CUDA(cudaMallocHost((void **)&s.told, told));
        for (cudaEvent_t &mark : s.mark) {
            SIDE_CUDA(cudaEventCreate(&mark));
        }
    }
    return spira::status_success();
}

// Everything that happens once: allocates, plans, loads the weights and captures. The job has its
// network, layout and input; `e` is zeroed before.
template <typename W>
static spira::status state_new(const spira::net_limits *limits, state<W> *e) {
    side::device_job<W> *d = &e->d;
    SPIRA_TRY(side::device_new(&e->job, limits->voxels, d));
    SPIRA_TRY(side::device_plan(&e->job, limits, d));
    SIDE_CUDA(cudaMemsetAsync((void *)d->input.count, 0, sizeof(int32_t), d->stream));
    SPIRA_TRY(side::device_pass(&e->job, d)); // an empty frame: loads the kernels
    SPIRA_TRY(side::device_settle(d));
    SIDE_CUDA(cudaFree(d->params));
    d->params = nullptr;
    SPIRA_TRY(slots_new(e));
    return side::device_capture(&e->job, d, &e->graph);
}

// Sends a frame on its way: one copy in, one graph, one copy out.
template <typename W>
static spira::status frame_submit(state<W> *e, slot *s, const frame *f) {
    cudaStream_t stream = e->d.stream;
    int32_t kept = std::min(f->count, e->d.input.rows); // the GPU reports a larger count
    size_t bytes = (size_t)kept * row_columns(e->job.net) * sizeof(float);
    memcpy(s->staged, &f->count, sizeof f->count);
    memcpy(s->staged + rows_begin, f->rows.data(), bytes);
    SIDE_CUDA(cudaEventRecord(s->mark[mark_began], stream));
    SIDE_CUDA(cudaMemcpyAsync((void *)e->d.input.count, s->staged, rows_begin + bytes,
                              cudaMemcpyHostToDevice, stream));
    SIDE_CUDA(cudaEventRecord(s->mark[mark_copied], stream));
    SIDE_CUDA(cudaGraphLaunch(e->graph, stream));
    SIDE_CUDA(cudaEventRecord(s->mark[mark_ran], stream));
    SIDE_CUDA(cudaMemcpyAsync(s->told, e->d.trouble, voxels_begin + sizeof(int32_t),
                              cudaMemcpyDeviceToHost, stream));
    SIDE_CUDA(cudaEventRecord(s->mark[mark_ended], stream));
    return spira::status_success();
}

// Waits for the frame of a slot. Its features (net_output of the last layer) are valid until the
// next frame; an engine would read them in the same stream.
static inline spira::status frame_collect(slot *s, outcome *o) {
    SIDE_CUDA(cudaEventSynchronize(s->mark[mark_ended]));
    memcpy((void *)&o->trouble, s->told, sizeof o->trouble);
    memcpy(&o->voxels, s->told + voxels_begin, sizeof o->voxels);
    SIDE_CUDA(cudaEventElapsedTime(&o->graph_ms, s->mark[mark_copied], s->mark[mark_ran]));
    SIDE_CUDA(cudaEventElapsedTime(&o->whole_ms, s->mark[mark_began], s->mark[mark_ended]));
    return spira::status_success();
}

// The steady state: all frames, one after the other, `rounds` times. outcomes [rounds * frames]
template <typename W>
static spira::status rounds_run(state<W> *e, const std::vector<frame> &frames, int rounds,
                                std::vector<outcome> *outcomes) {
    const size_t count = (size_t)rounds * frames.size();
    outcomes->resize(count);
    for (size_t i = 0; i < count + 2; ++i) {
        slot *s = &e->slots[i % 2];
        if (i >= 2) {
            SPIRA_TRY(frame_collect(s, &(*outcomes)[i - 2]));
        }
        if (i < count) {
            SPIRA_TRY(frame_submit(e, s, &frames[i % frames.size()]));
        }
    }
    return spira::status_success();
}

// Runs each scan that standard input names, while the GPU works on the one before it. *bad: frames
// that could not be read or were cut off.
template <typename W>
static spira::status stream_run(const choices *c, state<W> *e, std::vector<outcome> *outcomes,
                                int64_t *bad) {
    std::string path[2]; // of the frames in flight
    size_t sent = 0;
    outcome o;
    for (frame f = {}; std::getline(std::cin, f.path);) {
        if (f.path.empty() || !frame_take(e->job.net, &c->common, &f)) {
            *bad += !f.path.empty();
            continue;
        }
        slot *s = &e->slots[sent % 2];
        if (sent >= 2) {
            SPIRA_TRY(frame_collect(s, &o));
            outcomes->push_back(o);
            *bad += outcome_report(path[sent % 2], &o);
        }
        SPIRA_TRY(frame_submit(e, s, &f));
        path[sent++ % 2] = f.path;
    }
    for (size_t i = sent < 2 ? 0 : sent - 2; i < sent; ++i) {
        SPIRA_TRY(frame_collect(&e->slots[i % 2], &o));
        outcomes->push_back(o);
        *bad += outcome_report(path[i % 2], &o);
    }
    return spira::status_success();
}

// ---- what is printed ----------------------------------------------------------------------------

// What a detection head reads: a tensor, or the rows of a set, at an address that never changes.
template <typename W>
static void print_output(const state<W> *e) {
    const spira::net_run_args<W> run = side::device_args(&e->job, &e->d, nullptr);
    const int last = e->job.plan->layer_count - 1;
    const spira::net_result<W> r = spira::net_output(e->job.plan, last, &run);
    const char *type = spira::numeric_name(r.type);
    if (r.batch && e->job.net->layers[last].order == spira::dense_channels_last) {
        printf("output: %s [%d, %d, %d, %d] (NHWC) at %p\n", type, r.batch, r.height, r.width,
               r.channels, r.features);
    } else if (r.batch) {
        printf("output: %s [%d, %d, %d, %d] (NCHW) at %p\n", type, r.batch, r.channels, r.height,
               r.width, r.features);
    } else {
        printf("output: %s [voxels, %d] at %p, for at most %d voxels\n", type, r.channels,
               r.features, r.set.capacity);
    }
}

template <typename W>
static void print_memory(const state<W> *e) {
    const spira::net_plan *plan = e->job.plan;
    const double mib = 1.0 / (1 << 20);
    size_t base = e->d.base_bytes, index = plan->index_bytes;
    printf("memory %.1f MiB: input and voxels %.1f, sets and maps %.1f, features %.1f, parameters "
           "%.1f; pinned %.1f MiB\n",
           (double)(base + plan->workspace_bytes + plan->loaded_bytes) * mib, (double)base * mib,
           (double)index * mib, (double)plan->feature_bytes * mib, (double)plan->loaded_bytes * mib,
           (double)e->pinned_bytes * mib);
}

// ---- from arguments to the table ----------------------------------------------------------------

template <typename W>
static spira::status run_state(const choices *c, const std::vector<frame> &frames, state<W> *e,
                               int64_t *bad) {
    spira::net_limits limits;
    std::vector<outcome> outcomes;
    SPIRA_TRY(limits_choose<W>(c, frames, &e->job, &limits));
    SPIRA_TRY(state_new(&limits, e));
    char text[64], precision[80];
    printf("%s in %s, captured once for %d points and %d voxels of %s m, coordinate word %d bits\n",
           c->common.net, side::precision_text(&c->common, e->job.net, precision, sizeof precision),
           e->d.input.rows, limits.voxels, side::voxel_text(e->job.net, text, sizeof text),
           e->job.layout.bits);
    print_output(e);
    const double start = side::now_ms();
    double seconds;
    if (c->stream) {
        SPIRA_TRY(stream_run(c, e, &outcomes, bad));
        seconds = (side::now_ms() - start) * 1e-3;
        print_stream(outcomes);
    } else {
        SPIRA_TRY(rounds_run(e, frames, warm_rounds, &outcomes));
        const double warm = side::now_ms();
        SPIRA_TRY(rounds_run(e, frames, c->rounds, &outcomes));
        seconds = (side::now_ms() - warm) * 1e-3;
        *bad += print_scans(frames, outcomes);
    }
    printf("%zu frames in %.3f s: %.1f frames per second\n", outcomes.size(), seconds,
           (double)outcomes.size() / seconds);
    print_memory(e);
    return spira::status_success();
}

// bad: scans that could not be read.
template <typename W>
static int run(const choices *c, const std::vector<frame> &frames, const side::job *job,
               int64_t bad) {
    state<W> *e = (state<W> *)calloc(1, sizeof *e);
    e->job = *job;
    spira::status s = run_state(c, frames, e, &bad);
    state_free(e);
    free(e);
    if (spira::status_failed(s)) {
        return side::fail("running the engine", job->net, s);
    }
    if (bad) {
        printf("%lld frames could not be read or exceeded a capacity\n", (long long)bad);
    }
    return bad ? 3 : 0;
}

// The network and its parameters, in new memory: those of --onnx or of the tables. The network's
// dense map becomes as the options say. Returns 0 or the exit code.
static int network_choose(choices *c, onnx::model *model, networks::network *net,
                          spira::net_plan *plan, float **params) {
    int code;
    if (c->common.onnx) {
        code = side::onnx_network(&c->common, model, net);
        code = code ? code : side::onnx_params(&c->common, model, net, plan, params);
        c->common.net = c->common.onnx;
    } else {
        code = side::network_find(&c->common, net);
        code = code ? code : weights::params_new(&c->common, net, plan, params);
    }
    spira::net_layer *last = &net->layers[net->count ? net->count - 1 : 0];
    if (!code && last->op != spira::net_dense && (c->channels_last || c->fp32)) {
        fprintf(stderr, "--layout, --map: %s makes no dense map\n", c->common.net);
        return 2;
    }
    if (last->op == spira::net_dense) {
        last->order = c->channels_last ? spira::dense_channels_last : spira::dense_channels_first;
        last->format = c->fp32 ? spira::net_format_f32 : spira::net_format_same;
    }
    return code;
}

// The scans, unless standard input names them. Returns 0 or the exit code.
static int scans_read(const choices *c, const networks::network *net, std::vector<frame> *frames,
                      int64_t *bad) {
    std::vector<std::string> paths;
    for (const char *path : c->paths) {
        paths_add(path, &paths);
    }
    *frames = frames_take(net, &c->common, paths, bad);
    if (c->stream && !networks::network_ranged(net)) {
        fprintf(stderr, "-: %s takes points of any place: give the scans as arguments\n",
                c->common.net);
        return 2;
    }
    if (frames->empty() && !c->stream) {
        fprintf(stderr, paths.empty() ? "no scan in the folders\n" : "no scan could be read\n");
    }
    return frames->empty() && !c->stream;
}

// Runs the scans by the network.
static int run_scans(const choices *c, networks::network *net, spira::net_plan *plan,
                     const float *params) {
    std::vector<frame> frames;
    int64_t bad = 0;
    int code = scans_read(c, net, &frames, &bad);
    if (code) {
        return code;
    }
    side::job job = {};
    job.chosen = &c->common;
    job.net = net;
    job.plan = plan;
    job.params = params;
    spira::status s = layout_fit(frames, &job);
    code = spira::status_failed(s) ? side::fail("fitting the coordinate word", net, s)
                                   : weights::records_new(&c->common, &job);
    if (!code) {
        code = job.layout.bits == 32 ? run<uint32_t>(c, frames, &job, bad)
                                     : run<uint64_t>(c, frames, &job, bad);
    }
    free(job.records);
    return code;
}

static int usage(void) {
    printf("usage: engine [--net NAME] [--channels N] [--classes N] [--voxel X[,Y,Z]]\n"
           "              [--range X0,Y0,Z0,X1,Y1,Z1] [--columns N] [--indices xyz|bxyz|bzyx]\n"
           "              [--type int8|fp16|bf16|tf32|fp32] [--seed N] [--weights FILE]\n"
           "              [--save-weights FILE] [--records FILE] [--voxels N] [--points N]\n"
           "              [--onnx FILE] [--layout nchw|nhwc] [--map fp16|fp32]\n"
           "              [--rounds N] PATH... | -\n"
           "PATH: scans (.bin, .pcd, .ply, .npy ...: make run), or folders of them\n"
           "-:    standard input names a scan in each line; with --voxels and --points\n"
           "--onnx: a network of libspconv's or Autoware's dialect, with its weights, or a blob's\n"
           "--layout, --map: of the dense map that a detector makes\n"
           "NAME: %s\n"
           "--channels: values of a voxel; --classes: of SpUNet-v1m1 and SpUNet-small\n"
           "--voxel: edges in metres; three, and --range in metres, for detectors, from\n"
           "         VoxelBackBone8x to VoxelNeXt-Large (those of nuScenes)\n"
           "--voxels, --points: capacities; without them, those of the largest scan\n"
           "--type: without it, layers that the weights have ranges for are int8; bf16, tf32 and\n"
           "        fp32 need a build with -DENGINE_ANY_TYPE\n",
           networks::network_names);
    return 0;
}

// A count from 1 to `most`; false for anything else.
static bool count_take(const char *value, long most, int32_t *count) {
    char *end;
    long n = strtol(value, &end, 10);
    *count = (int32_t)n;
    return *value && !*end && n >= 1 && n <= most;
}

// An option that is no count.
static bool option_take(choices *c, const char *name, const char *value) {
    const bool layout = !strcmp(name, "--layout"), map = !strcmp(name, "--map");
    if (!strcmp(name, "--onnx")) {
        c->common.onnx = value;
        return true;
    }
    if (!layout && !map) {
        return side::option_take(&c->common, name, value);
    }
    bool *second = layout ? &c->channels_last : &c->fp32;
    *second = !strcmp(value, layout ? "nhwc" : "fp32");
    if (!*second && strcmp(value, layout ? "nchw" : "fp16")) {
        fprintf(stderr, "%s does not take %s\n", name, value);
        return false;
    }
    return true;
}

static bool parse_check(const choices *c) {
    const char *wrong = c->stream && !c->paths.empty() ? "-: without scans among the arguments"
                        : c->stream && !(c->voxels && c->points) ? "-: give --voxels and --points"
                        : !c->stream && c->paths.empty()         ? "no scan: give files or folders"
                                                                 : nullptr;
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
    }
    return !wrong;
}

static bool parse(int argc, char **argv, choices *c) {
    const long most = INT32_MAX / 2;
    *c = {};
    c->common = side::options_standard();
    c->rounds = 100;
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        if (!strcmp(name, "-")) {
            c->stream = true;
            continue;
        }
        if (strncmp(name, "--", 2)) {
            c->paths.push_back(name);
            continue;
        }
        const char *value = side::option_value(argc, argv, &i);
        int32_t *count = !strcmp(name, "--voxels")   ? &c->voxels
                         : !strcmp(name, "--points") ? &c->points
                         : !strcmp(name, "--rounds") ? &c->rounds
                                                     : nullptr;
        const long limit = count == &c->rounds ? 1000000 : most;
        if (value && count && !count_take(value, limit, count)) {
            fprintf(stderr, "%s does not take %s: 1 to %ld\n", name, value, limit);
            return false;
        }
        if (!value || (!count && !option_take(c, name, value))) {
            return false;
        }
    }
    return parse_check(c);
}

} // namespace engine

int main(int argc, char **argv) {
    engine::choices c;
    if (side::help_asked(argc, argv)) {
        return engine::usage();
    }
    if (!engine::parse(argc, argv, &c)) {
        return side::arguments_refuse("engine");
    }
    networks::network *net = (networks::network *)calloc(1, sizeof *net);
    spira::net_plan *plan = (spira::net_plan *)calloc(1, sizeof *plan);
    onnx::model *model = new onnx::model; // the layers of --onnx live in it
    float *params = nullptr;
    int code = engine::network_choose(&c, model, net, plan, &params);
    code = code ? code : engine::run_scans(&c, net, plan, params);
    free(params);
    delete model;
    free(plan);
    free(net);
    return code;
}
