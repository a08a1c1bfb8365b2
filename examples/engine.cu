// examples/engine.cu: an engine that captures a network once, from raw rows to features, in a CUDA
// graph, and replays it on a folder of scans, round after round. Prints percentiles of the latency
// of each scan and of all scans. A scan that exceeds a capacity is reported by the status word, and
// the engine goes on.
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a examples/engine.cu -o engine
// (for an H100 or H200; for other GPUs -arch with their own number, as in -arch=sm_80)
//
// Code for fp16 alone is compiled. With -DENGINE_ANY_TYPE all four number formats are, and --type
// chooses: that takes several times as long to compile.
//
// Exit codes: 0 every frame was good; 1 the engine could not run; 2 the arguments; 3 it ran, and
// some frames exceeded a capacity.
#if !defined(ENGINE_ANY_TYPE) && !defined(SIDE_FORMAT)
#define SIDE_FORMAT spira::numeric_f16
#endif
#include "networks.h"
#include "scan_input.h"
#include "scan_range.h"
#include "scan_side.h"
#include "scan_weights.h"

#include <algorithm>
#include <dirent.h>
#include <string>
#include <vector>

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
    std::vector<const char *> paths; // of scans and of folders
};

// A scan in host memory.
struct frame {
    std::string path;
    int32_t count;
    std::vector<float> rows; // [count, row_columns], and one row more
    int64_t outside;         // points beyond the range of the network, which are left out
};

// Columns of a row: x, y, z, and the values of the network.
static int row_columns(const networks::network *net) {
    return 3 + net->input_channels;
}

enum mark { mark_began, mark_copied, mark_ran, mark_ended, marks };

// One of two frames in flight: while the GPU works on one, the host prepares the other.
struct slot {
    char *staged; // pinned: the count, then the rows
    char *told;   // pinned: the status, then the count of voxels
    cudaEvent_t mark[marks];
};

// The outcome of a frame.
struct outcome {
    spira::device_status trouble;
    int32_t voxels;
    float graph_ms, whole_ms; // whole: with the copies of the rows in and of the status out
};

template <typename W>
struct state {
    side::job job;
    side::device_job<W> d;
    cudaGraphExec_t graph;
    slot slots[2];
    size_t pinned_bytes;
};

// ---- scans --------------------------------------------------------------------------------------

// Adds the scans of a folder, sorted by name. A path that is no folder is taken for a scan.
static void paths_add(const char *path, std::vector<std::string> *paths) {
    DIR *folder = opendir(path);
    if (!folder) {
        paths->push_back(path);
        return;
    }
    size_t first = paths->size();
    while (const dirent *entry = readdir(folder)) {
        if (scan::scan_is_known(entry->d_name) && !scan::scan_is_text(entry->d_name)) {
            paths->push_back(std::string(path) + "/" + entry->d_name);
        }
    }
    closedir(folder);
    std::sort(paths->begin() + (ptrdiff_t)first, paths->end());
}

// Reads a scan. A file without rows is a valid frame without points.
static spira::status frame_read(const networks::network *net, const side::options *o, frame *f,
                                scan::scan_reason *why) {
    const bool raw = side::values_are_raw(o, net);
    scan::scan_cloud cloud;
    spira::status s = scan::scan_read(f->path.c_str(), &o->file, &cloud, why);
    if (spira::status_failed(s) && s.code != spira::status_file_empty) {
        return s;
    }
    s = side::range_cut(net, &cloud, &f->outside);
    if (spira::status_failed(s)) {
        scan::scan_free(&cloud);
        return s;
    }
    f->count = (int32_t)cloud.rows;
    f->rows.resize((size_t)((cloud.rows + 1) * row_columns(net)));
    for (int64_t i = 0; i < cloud.rows; ++i) {
        float *row = f->rows.data() + i * row_columns(net);
        scan::scan_row_place(&cloud, i, net->voxel[0], row);
        scan::scan_row_inputs(&cloud, i, net->voxel[0], raw, net->input_channels, row + 3);
        if (net->exchange_xy) { // the values keep their order
            std::swap(row[0], row[1]);
        }
    }
    scan::scan_free(&cloud);
    return spira::status_success();
}

// ---- what the scans ask for ---------------------------------------------------------------------

static void input_of(const side::job *job, const frame *f, spira::voxel_input *in) {
    const networks::network *net = job->net;
    memset((void *)in, 0, sizeof *in);
    in->points = f->rows.data();
    in->rows = f->count;
    in->columns = row_columns(net);
    networks::network_voxels(net, in);
    in->duplicates = spira::duplicates_merge;
}

// A layout for the network and all scans together.
static spira::status layout_fit(const std::vector<frame> &frames, side::job *job) {
    float lo[3] = {0, 0, 0}, hi[3] = {0, 0, 0};
    bool first = true;
    for (const frame &f : frames) {
        scan::scan_cloud cloud = {};
        cloud.rows = f.count;
        cloud.columns = row_columns(job->net);
        cloud.points = (float *)f.rows.data();
        float low[3], high[3];
        if (f.count < 1) {
            continue;
        }
        const spira::status s = scan::scan_bounds_points(&cloud, low, high);
        if (s.code == spira::status_not_finite) {
            continue; // reported when the scan runs
        }
        SPIRA_TRY(s);
        for (int a = 0; a < 3; ++a) {
            lo[a] = first ? low[a] : std::min(lo[a], low[a]);
            hi[a] = first ? high[a] : std::max(hi[a], high[a]);
        }
        first = false;
    }
    spira::word_need need = {};
    spira::voxel_input in;
    input_of(job, &frames[0], &in);
    SPIRA_TRY(spira::voxel_bounds(lo, hi, in.size, in.origin, &need));
    SPIRA_TRY(spira::net_need(job->net->layers, job->net->count, &job->net->grid, &need));
    need.batches = 1;
    return spira::word_fit(&need, &job->layout);
}

// Finds the capacities that the sets of the network need: the most voxels of any scan, set by set.
// Rows with NaN or infinity are reported when their scan runs.
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
    spira::net_capacities(job->plan, most, job->net->layers);
    input_of(job, &frames[0], &job->input);
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

// ---- what is printed ----------------------------------------------------------------------------

// The smallest value that at least `percent` of the values do not exceed. sorted: one or more.
static inline float percentile(const std::vector<float> &sorted, double percent) {
    size_t rank = (size_t)ceil(percent / 100 * (double)sorted.size());
    return sorted[rank ? rank - 1 : 0];
}

static void print_percentiles(std::vector<float> *values) {
    std::sort(values->begin(), values->end());
    for (double percent : {50.0, 90.0, 99.0, 100.0}) {
        printf(" %7.3f", percentile(*values, percent));
    }
}

// A line for every `step`th outcome from `first` on.
static void print_line(const char *name, const char *points, const char *voxels,
                       const std::vector<outcome> &outcomes, size_t first, size_t step) {
    std::vector<float> graph, whole;
    for (size_t i = first; i < outcomes.size(); i += step) {
        graph.push_back(outcomes[i].graph_ms);
        whole.push_back(outcomes[i].whole_ms);
    }
    printf("%-28.28s %8s %8s ", name, points, voxels);
    print_percentiles(&graph);
    printf(" ");
    print_percentiles(&whole);
    printf("\n");
}

// Prints a line for each scan, and its first error below. Returns the number of failed frames.
static int64_t print_scans(const std::vector<frame> &frames, const std::vector<outcome> &outcomes) {
    int64_t bad = 0;
    printf("%-28s %8s %8s  %-32s  %s\n%-46s ", "", "", "", "milliseconds, graph",
           "with the copies in and out", "scan                           points   voxels");
    for (int i = 0; i < 2; ++i) {
        printf(" %7s %7s %7s %7s ", "p50", "p90", "p99", "max");
    }
    printf("\n");
    for (size_t i = 0; i < frames.size(); ++i) {
        size_t slash = frames[i].path.find_last_of('/');
        std::string name = frames[i].path.substr(slash == std::string::npos ? 0 : slash + 1);
        print_line(name.c_str(), std::to_string(frames[i].count).c_str(),
                   std::to_string(outcomes[i].voxels).c_str(), outcomes, i, frames.size());
        if (frames[i].outside) {
            printf("    %lld points are out of range\n", (long long)frames[i].outside);
        }
        spira::status first = spira::status_success();
        for (size_t k = i; k < outcomes.size(); k += frames.size()) {
            spira::status s = spira::device_status_read(&outcomes[k].trouble);
            bad += spira::status_failed(s);
            first = spira::status_failed(first) ? first : s;
        }
        if (spira::status_failed(first)) {
            char text[256];
            printf("    %s\n", spira::status_text(first, text, sizeof text));
        }
    }
    print_line("all", "", "", outcomes, 0, 1);
    return bad;
}

// What a detection head reads: a tensor, or the rows of a set, at an address that never changes.
template <typename W>
static void print_output(const state<W> *e) {
    const spira::net_run_args<W> run = side::device_args(&e->job, &e->d, nullptr);
    const int last = e->job.plan->layer_count - 1;
    const spira::net_result<W> r = spira::net_output(e->job.plan, last, &run);
    const char *type = spira::numeric_name(r.type);
    if (r.batch) {
        printf("output: %s [%d, %d, %d, %d] at %p\n", type, r.batch, r.channels, r.height, r.width,
               r.features);
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
    char text[64];
    printf("%s in %s, captured once for %d points and %d voxels of %s m, coordinate word %d bits\n",
           c->common.net, spira::numeric_name(c->common.type), e->d.input.rows, limits.voxels,
           side::voxel_text(e->job.net, text, sizeof text), e->job.layout.bits);
    print_output(e);
    SPIRA_TRY(rounds_run(e, frames, warm_rounds, &outcomes));
    double start = side::now_ms();
    SPIRA_TRY(rounds_run(e, frames, c->rounds, &outcomes));
    double seconds = (side::now_ms() - start) * 1e-3;
    *bad = print_scans(frames, outcomes);
    printf("%zu frames in %.3f s: %.1f frames per second\n", outcomes.size(), seconds,
           (double)outcomes.size() / seconds);
    print_memory(e);
    return spira::status_success();
}

template <typename W>
static int run(const choices *c, const std::vector<frame> &frames, const side::job *job) {
    state<W> *e = (state<W> *)calloc(1, sizeof *e);
    int64_t bad = 0;
    e->job = *job;
    spira::status s = run_state(c, frames, e, &bad);
    state_free(e);
    free(e);
    if (spira::status_failed(s)) {
        return side::fail("running the engine", job->net, s);
    }
    if (bad) {
        printf("%lld frames exceeded a capacity\n", (long long)bad);
    }
    return bad ? 3 : 0;
}

// Runs the scans; `net` and `plan` are there to be filled.
static int run_scans(const choices *c, networks::network *net, spira::net_plan *plan) {
    int code = side::range_choose(&c->common, net);
    if (code) {
        return code;
    }
    std::vector<std::string> paths;
    for (const char *path : c->paths) {
        paths_add(path, &paths);
    }
    std::vector<frame> frames(paths.size());
    scan::scan_reason why;
    for (size_t i = 0; i < paths.size(); ++i) {
        frames[i].path = paths[i];
        spira::status s = frame_read(net, &c->common, &frames[i], &why);
        if (spira::status_failed(s)) {
            return side::fail_file(&why, net, s);
        }
    }
    if (frames.empty()) {
        fprintf(stderr, "no scan in the folders\n");
        return 1;
    }
    float *params = nullptr;
    code = weights::params_new(&c->common, net, plan, &params);
    if (code) {
        free(params);
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
        code =
            job.layout.bits == 32 ? run<uint32_t>(c, frames, &job) : run<uint64_t>(c, frames, &job);
    }
    free(job.records);
    free(params);
    return code;
}

static int usage(FILE *to) {
    fprintf(to,
            "usage: engine [--net NAME] [--channels N] [--classes N] [--voxel X[,Y,Z]]\n"
            "              [--range X0,Y0,Z0,X1,Y1,Z1] [--columns N] [--indices xyz|bxyz|bzyx]\n"
            "              [--type fp16|bf16|tf32|fp32] [--seed N] [--weights FILE]\n"
            "              [--save-weights FILE] [--records FILE] [--voxels N] [--points N]\n"
            "              [--rounds N] PATH...\n"
            "PATH: scans (.bin, .pcd.bin, .xyz32, .vox32, .npy), or folders of them\n"
            "NAME: MinkUNet42, SparseResNet21, SparseResNet-Large, VoxelBackBone8x,\n"
            "      SpMiddleResNetFHD, BEVFusion, VoxelNeXt, VoxelNeXt-Large, SpUNet-v1m1\n"
            "--channels: values of a voxel; --classes: of SpUNet-v1m1\n"
            "--voxel: edges in metres; three, and --range in metres, for detectors, from\n"
            "         VoxelBackBone8x to VoxelNeXt-Large (those of nuScenes)\n"
            "--voxels, --points: capacities; without them, those of the largest scan\n"
            "--type: other types than fp16 need a build with -DENGINE_ANY_TYPE\n");
    return to == stdout ? 0 : 2;
}

// A count from 1 to `most`; false for anything else.
static bool count_take(const char *value, long most, int32_t *count) {
    char *end;
    long n = strtol(value, &end, 10);
    *count = (int32_t)n;
    return *value && !*end && n >= 1 && n <= most;
}

static bool parse(int argc, char **argv, choices *c) {
    const long most = INT32_MAX / 2;
    c->common = side::options_standard();
    c->voxels = c->points = 0;
    c->rounds = 100;
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
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
        if (!value || (!count && !side::option_take(&c->common, name, value))) {
            return false;
        }
    }
    if (c->paths.empty()) {
        fprintf(stderr, "no scan: give files or folders\n");
    }
    return !c->paths.empty();
}

} // namespace engine

int main(int argc, char **argv) {
    engine::choices c;
    if (side::help_asked(argc, argv)) {
        return engine::usage(stdout);
    }
    if (!engine::parse(argc, argv, &c)) {
        return engine::usage(stderr);
    }
    networks::network *net = (networks::network *)calloc(1, sizeof *net);
    spira::net_plan *plan = (spira::net_plan *)calloc(1, sizeof *plan);
    const bool found = networks::network_make(c.common.net, &c.common.sizes, net);
    int code = 2;
    if (found) {
        code = engine::run_scans(&c, net, plan);
    } else {
        fprintf(stderr, "--net %s: no such network, or --classes for one without\n", c.common.net);
        engine::usage(stderr);
    }
    free(plan);
    free(net);
    return code;
}
