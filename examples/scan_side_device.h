// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_side_device.h: runs a job on the GPU, times it, and checks every layer.
#ifndef SPIRA_EXAMPLES_SCAN_SIDE_DEVICE_H
#define SPIRA_EXAMPLES_SCAN_SIDE_DEVICE_H

#include "scan_side.h"

#include <algorithm>

namespace side {

enum { timing_runs = 20 };

#define SIDE_CUDA(call) SPIRA_TRY(spira::status_from_cuda((call), #call))

// The job in device memory.
template <typename W>
struct device_job {
    spira::device_info gpu;
    cudaStream_t stream;
    spira::net_side side;     // indexes the coarser sets while the first layers run
    cudaStream_t beside;      // computes the features of the voxels while the index is built
    char *base;               // all arrays that do not depend on the plan
    size_t base_bytes;        // of them
    spira::voxel_input input; // device pointers: the count, directly followed by the rows
    const float *values;      // [rows, channels], or columns of the rows: see job
    spira::device_status *trouble;
    spira::voxel_set<W> set; // its count directly follows `trouble`
    spira::voxel_rows rows;
    void *features; // [voxels, channels] of the plan's input_type
    char *scratch;  // of voxelize
    size_t scratch_bytes;
    void *memory, *loaded; // of the plan
    float *params;
};

static inline spira::status device_streams_new(cudaStream_t *stream, cudaStream_t *beside,
                                               spira::net_side *side) {
    SIDE_CUDA(cudaStreamCreate(stream));
    SIDE_CUDA(cudaStreamCreateWithFlags(beside, cudaStreamNonBlocking));
    SIDE_CUDA(cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking));
    SIDE_CUDA(cudaEventCreateWithFlags(&side->begun, cudaEventDisableTiming));
    SIDE_CUDA(cudaEventCreateWithFlags(&side->indexed, cudaEventDisableTiming));
    SIDE_CUDA(cudaEventCreateWithFlags(&side->features, cudaEventDisableTiming));
    return spira::status_success();
}

static inline void device_streams_free(cudaStream_t stream, cudaStream_t beside,
                                       const spira::net_side *side) {
    const cudaStream_t streams[3] = {stream, beside, side->stream};
    const cudaEvent_t events[3] = {side->begun, side->indexed, side->features};
    for (cudaStream_t one : streams) {
        if (one) {
            cudaStreamDestroy(one);
        }
    }
    for (cudaEvent_t one : events) {
        if (one) {
            cudaEventDestroy(one);
        }
    }
}

template <typename W>
static void device_free(device_job<W> *d) {
    cudaFree(d->base);
    cudaFree(d->memory);
    cudaFree(d->loaded);
    cudaFree(d->params);
    device_streams_free(d->stream, d->beside, &d->side);
}

template <typename T>
static spira::status upload(const T *to, const T *from, int64_t count, cudaStream_t stream) {
    SIDE_CUDA(cudaMemcpyAsync((void *)to, from, (size_t)count * sizeof(T), cudaMemcpyHostToDevice,
                              stream));
    return spira::status_success();
}

// Allocates the arrays that do not depend on the plan, for the rows of j->input.
template <typename W>
static spira::status device_new(const job *j, int32_t voxels, device_job<W> *d) {
    int64_t rows = j->input.rows, values = rows * j->input.columns;
    SPIRA_TRY(spira::device_info_query(&d->gpu));
    SPIRA_TRY(device_streams_new(&d->stream, &d->beside, &d->side));
    SPIRA_TRY(spira::voxelize_workspace<W>(&j->input, voxels, &d->scratch_bytes));
    float *points = nullptr, *inputs = nullptr;
    int32_t *coords = nullptr, *count = nullptr;
    spira::workspace w = spira::workspace_begin(nullptr);
    for (int pass = 0; pass < 2; ++pass) { // first the bytes, then the pointers
        count = spira::workspace_take<int32_t>(&w, 1);
        points = spira::workspace_take<float>(&w, j->input.points ? values : 0);
        coords = spira::workspace_take<int32_t>(&w, j->input.points ? 0 : values);
        inputs = spira::workspace_take<float>(&w, j->values ? channels_of(j) * rows : 0);
        d->trouble = spira::workspace_take<spira::device_status>(&w, 1);
        d->set.count = spira::workspace_take<int32_t>(&w, 1);
        d->set.words = spira::workspace_take<W>(&w, voxels);
        d->rows.voxel = spira::workspace_take<int32_t>(&w, rows);
        d->rows.order = spira::workspace_take<int32_t>(&w, rows);
        d->rows.begin = spira::workspace_take<int32_t>(&w, voxels + 1);
        d->features = spira::workspace_take<float>(&w, channels_of(j) * (int64_t)voxels);
        d->scratch = spira::workspace_take<char>(&w, (int64_t)d->scratch_bytes);
        if (pass == 0) {
            d->base_bytes = w.used;
            SIDE_CUDA(cudaMalloc(&d->base, w.used));
            w = spira::workspace_begin(d->base);
        }
    }
    d->set.capacity = voxels;
    d->input = j->input;
    d->input.points = j->input.points ? points : nullptr;
    d->input.coords = j->input.points ? nullptr : coords;
    d->input.count = count;
    d->values = j->values ? inputs : points + 3;
    return spira::status_success();
}

// Uploads the rows of a job, which has its values apart.
template <typename W>
static spira::status device_upload_rows(const job *j, device_job<W> *d) {
    int64_t rows = j->input.rows, values = rows * j->input.columns;
    if (j->input.points) {
        SPIRA_TRY(upload(d->input.points, j->input.points, values, d->stream));
    } else {
        SPIRA_TRY(upload(d->input.coords, j->input.coords, values, d->stream));
    }
    SPIRA_TRY(upload(d->values, j->values, channels_of(j) * rows, d->stream));
    return upload(d->input.count, &j->input.rows, 1, d->stream);
}

template <typename W>
static spira::status device_set(const job *j, device_job<W> *d) {
    SPIRA_TRY(spira::device_status_clear(d->trouble, d->stream));
    const spira::voxelize_args<W> args = {&j->layout, &d->input, d->set, d->rows, d->trouble};
    return spira::voxelize(&args, d->scratch, d->scratch_bytes, d->stream);
}

template <typename W>
static spira::status device_features(const job *j, device_job<W> *d, cudaStream_t stream) {
    spira::voxel_features_args<W> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = d->values;
    mean.columns = value_columns(j);
    mean.channels = channels_of(j);
    mean.rows = d->rows;
    mean.set = d->set;
    mean.type = j->plan->input_type;
    mean.features = d->features;
    if constexpr (has_int8) {
        if (mean.type == spira::numeric_i8) {
            mean.inverse = 1 / j->plan->input_scale;
            return spira::voxel_features<spira::numeric_i8>(&mean, stream);
        }
    }
    return spira::voxel_features<float_format>(&mean, stream);
}

// From raw rows to the features of the voxels.
template <typename W>
static spira::status device_voxelize(const job *j, device_job<W> *d) {
    SPIRA_TRY(device_set(j, d));
    return device_features(j, d, d->stream);
}

// The arguments of a run; side: or null.
template <typename W>
static spira::net_run_args<W> device_args(const job *j, const device_job<W> *d,
                                          const spira::net_side *side) {
    spira::net_run_args<W> run = {};
    run.input = d->set;
    run.features = d->features;
    run.loaded = d->loaded;
    run.trouble = d->trouble;
    run.memory = d->memory;
    run.bytes = j->plan->workspace_bytes;
    run.side = side;
    return run;
}

// From the features of the voxels to those of the last layer; side: or null.
template <typename W>
static spira::status device_net(const job *j, device_job<W> *d, const spira::net_side *side) {
    const spira::net_run_args<W> run = device_args(j, d, side);
    return spira::net_run<W, format>(&d->gpu, j->plan, &run, d->stream);
}

// From raw rows to the features of the last layer. The features of the voxels are computed while
// the index is built.
template <typename W>
static spira::status device_pass(const job *j, device_job<W> *d) {
    const spira::net_side *side = &d->side;
    SPIRA_TRY(device_set(j, d));
    SPIRA_TRY(spira::net_wait(d->beside, side->begun, d->stream));
    SPIRA_TRY(device_features(j, d, d->beside));
    SIDE_CUDA(cudaEventRecord(side->features, d->beside));
    return device_net(j, d, side);
}

// The same, captured once, to be replayed.
template <typename W>
static spira::status device_capture(const job *j, device_job<W> *d, cudaGraphExec_t *replay) {
    cudaGraph_t graph = nullptr;
    SIDE_CUDA(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeGlobal));
    spira::status s = device_pass(j, d);
    const cudaError_t ended = cudaStreamEndCapture(d->stream, &graph);
    if (!spira::status_failed(s)) { // else it says more than what that did to the capture
        s = spira::status_from_cuda(ended, "capture");
    }
    if (!spira::status_failed(s)) {
        s = spira::status_from_cuda(cudaGraphInstantiateWithFlags(replay, graph, 0), "graph");
    }
    if (graph) {
        cudaGraphDestroy(graph);
    }
    return s;
}

// Waits, and reads the device status.
template <typename W>
static spira::status device_settle(device_job<W> *d) {
    spira::device_status trouble;
    SIDE_CUDA(
        cudaMemcpyAsync(&trouble, d->trouble, sizeof trouble, cudaMemcpyDeviceToHost, d->stream));
    SIDE_CUDA(cudaStreamSynchronize(d->stream));
    return spira::device_status_read(&trouble);
}

// Plans with these limits and the job's records, and loads the weights.
template <typename W>
static spira::status device_plan(job *j, const spira::net_limits *limits, device_job<W> *d) {
    spira::net_limits tuned = *limits;
    tuned.records = j->records;
    tuned.record_count = j->record_count;
    tuned.overlap = true;
    SPIRA_TRY(spira::net_plan_device<W>(&d->gpu, j->net->layers, j->net->count, &j->layout, &tuned,
                                        j->plan));
    cudaFree(d->memory);
    cudaFree(d->loaded);
    cudaFree(d->params);
    d->memory = d->loaded = d->params = nullptr;
    SIDE_CUDA(cudaMalloc(&d->memory, j->plan->workspace_bytes));
    SIDE_CUDA(cudaMalloc(&d->loaded, j->plan->loaded_bytes));
    SIDE_CUDA(cudaMalloc(&d->params, (size_t)j->plan->params * sizeof(float)));
    SPIRA_TRY(upload(d->params, j->params, j->plan->params, d->stream));
    SPIRA_TRY(spira::net_params_check(j->plan, j->params));
    const spira::net_load_args load = {d->params, d->loaded, j->plan->loaded_bytes, nullptr};
    return spira::net_load<format>(&d->gpu, j->plan, &load, d->stream);
}

static inline double median(double *values, int count) {
    std::sort(values, values + count);
    return values[count / 2];
}

// The time between marks of one run; marks [count] events.
static inline spira::status marks_read(cudaEvent_t *marks, int count, int run, double *times) {
    SIDE_CUDA(cudaEventSynchronize(marks[count - 1]));
    for (int i = 0; i + 1 < count; ++i) {
        float ms;
        SIDE_CUDA(cudaEventElapsedTime(&ms, marks[i], marks[i + 1]));
        times[i * timing_runs + run] = ms;
    }
    return spira::status_success();
}

// Times each stage and layer, launched one after the other: the median of some runs.
template <typename W>
static spira::status device_time_layers(const job *j, device_job<W> *d, cudaEvent_t *marks,
                                        double *times, result<W> *r) {
    const spira::net_plan *plan = j->plan;
    const spira::net_run_args<W> args = device_args<W>(j, d, nullptr);
    int count = plan->layer_count + 3; // voxelise, index, layers, and one mark more
    for (int run = 0; run < timing_runs; ++run) {
        SIDE_CUDA(cudaEventRecord(marks[0], d->stream));
        SPIRA_TRY(device_voxelize(j, d));
        SIDE_CUDA(cudaEventRecord(marks[1], d->stream));
        SPIRA_TRY(spira::net_index(&d->gpu, plan, &args, d->stream));
        SIDE_CUDA(cudaEventRecord(marks[2], d->stream));
        for (int i = 0; i < plan->layer_count; ++i) {
            SPIRA_TRY(spira::net_layer_run<W, format>(&d->gpu, plan, i, &args, d->stream));
            SIDE_CUDA(cudaEventRecord(marks[i + 3], d->stream));
        }
        SPIRA_TRY(marks_read(marks, count, run, times));
    }
    r->voxelize_ms = median(times, timing_runs);
    r->index_ms = median(times + timing_runs, timing_runs);
    for (int i = 0; i < plan->layer_count; ++i) {
        r->layer_ms[i] = median(times + (i + 2) * timing_runs, timing_runs);
        r->features_ms += r->layer_ms[i];
    }
    return device_settle(d);
}

// Times a replay of everything, captured in one graph.
template <typename W>
static spira::status device_time_graph(const job *j, device_job<W> *d, cudaEvent_t *marks,
                                       double *times, result<W> *r) {
    cudaGraphExec_t replay;
    SPIRA_TRY(device_capture(j, d, &replay));
    for (int run = -3; run < timing_runs; ++run) { // the first ones warm up
        SIDE_CUDA(cudaEventRecord(marks[0], d->stream));
        SIDE_CUDA(cudaGraphLaunch(replay, d->stream));
        SIDE_CUDA(cudaEventRecord(marks[1], d->stream));
        SPIRA_TRY(marks_read(marks, 2, run < 0 ? 0 : run, times));
    }
    r->graph_ms = median(times, timing_runs);
    SPIRA_TRY(device_settle(d));
    SIDE_CUDA(cudaGraphExecDestroy(replay));
    return spira::status_success();
}

template <typename W>
static spira::status device_time(const job *j, device_job<W> *d, result<W> *r) {
    int count = j->plan->layer_count + 3;
    cudaEvent_t *marks = (cudaEvent_t *)calloc((size_t)count, sizeof *marks);
    double *times = (double *)calloc((size_t)count * timing_runs, sizeof *times);
    spira::status s = spira::status_success();
    for (int i = 0; i < count && !spira::status_failed(s); ++i) {
        s = spira::status_from_cuda(cudaEventCreate(&marks[i]), "event");
    }
    if (!spira::status_failed(s)) {
        s = device_time_layers(j, d, marks, times, r);
    }
    if (!spira::status_failed(s)) {
        s = device_time_graph(j, d, marks, times, r);
    }
    for (int i = 0; i < count; ++i) {
        cudaEventDestroy(marks[i]);
    }
    free(times);
    free(marks);
    return s;
}

// Copies a layer's features (or the network's input) back, as floats; of int8 as they are stored.
// rows: voxels of its set
template <typename W>
static spira::status device_fetch(const job *j, const device_job<W> *d, int layer, int32_t rows,
                                  float *out) {
    const spira::net_plan *plan = j->plan;
    const spira::numeric type = spira::net_type_of(plan, layer);
    const size_t size = (size_t)spira::numeric_size(type);
    const size_t values = (size_t)feature_count(plan, layer, rows);
    void *copy = malloc(values * size + 1);
    spira::status s = spira::status_from_cuda(
        cudaMemcpy(copy, spira::net_features_of(plan, layer, d->features, d->memory), values * size,
                   cudaMemcpyDeviceToHost),
        "copying features");
    for (size_t i = 0; i < values; ++i) {
        out[i] = spira::numeric_load(type, copy, (int64_t)i);
    }
    free(copy);
    return s;
}

template <typename W>
static spira::status device_counts(const job *j, const device_job<W> *d, result<W> *r) {
    const spira::net_plan *plan = j->plan;
    for (int s = 0; s < plan->sets; ++s) {
        SIDE_CUDA(cudaMemcpy(&r->voxels[s], spira::net_voxels(plan, s, d->set, d->memory).count,
                             sizeof(int32_t), cudaMemcpyDeviceToHost));
    }
    for (int m = 0; m < plan->maps; ++m) {
        int32_t pairs[spira::kernel_volume_max];
        SIDE_CUDA(cudaMemcpy(pairs, (char *)d->memory + plan->map[m].pairs,
                             (size_t)plan->map[m].volume * sizeof(int32_t),
                             cudaMemcpyDeviceToHost));
        for (int k = 0; k < plan->map[m].volume; ++k) {
            r->pairs[m] += pairs[k];
        }
    }
    return spira::status_success();
}

} // namespace side

#include "scan_check.h"

namespace side {

template <typename W>
static spira::status device_finish(job *j, const prepared<W> *p, device_job<W> *d, result<W> *r) {
    const int layer = j->plan->layer_count - 1;
    const spira::net_step *last = &j->plan->step[layer];
    int32_t rows = r->voxels[last->set];
    W *words = (W *)malloc((size_t)(rows + 1) * sizeof(W));
    float *features =
        (float *)malloc((size_t)(feature_count(j->plan, layer, rows) + 1) * sizeof(float));
    spira::status s = device_fetch(j, d, layer, rows, features);
    cudaMemcpy(words, spira::net_voxels(j->plan, last->set, d->set, d->memory).words,
               (size_t)rows * sizeof(W), cudaMemcpyDeviceToHost);
    if (!spira::status_failed(s)) {
        keep_last(j, r, words, features);
        s = j->chosen->check ? check_layers(j, p, d, r) : s;
    }
    free(words);
    free(features);
    return s;
}

template <typename W>
static spira::status device_run(job *j, prepared<W> *p, device_job<W> *d, result<W> *r) {
    progress("planning", 0, 1);
    SPIRA_TRY(prepare(j, p)); // the host's voxels: the plan is made for this scan
    SPIRA_REQUIRE(*p->set.count > 0, spira::status_bad_size, "scan (no voxel is left)", 0);
    p->set.capacity = *p->set.count;
    spira::net_limits limits = job_limits(j, p->set.capacity);
    int32_t voxels[spira::net_sets_max];
    SPIRA_TRY(measure_sets(j, p, &limits, voxels));
    limits.type = j->chosen->type;
    SPIRA_TRY(device_new(j, limits.voxels, d));
    SPIRA_TRY(device_upload_rows(j, d));
    SPIRA_TRY(device_plan(j, &limits, d));
    progress("planning", 1, 1);
    r->workspace_bytes = j->plan->workspace_bytes;
    r->feature_bytes = j->plan->feature_bytes;
    r->parameter_bytes = j->plan->loaded_bytes;
    SPIRA_TRY(device_pass(j, d)); // once without the clock
    SPIRA_TRY(device_settle(d));
    SPIRA_TRY(device_time(j, d, r));

    limits.count_pairs = true; // once more, with every layer kept and the pairs counted
    limits.keep_all = j->chosen->check;
    limits.shortcuts = spira::net_shortcuts_hidden; // checked as they are timed
    SPIRA_TRY(device_plan(j, &limits, d));
    SPIRA_TRY(device_net<W>(j, d, nullptr)); // the events were recorded in a capture
    SPIRA_TRY(device_settle(d));
    SPIRA_TRY(device_counts(j, d, r));
    return device_finish(j, p, d, r);
}

// Runs a job; r is zeroed before.
template <typename W>
static spira::status run(job *j, result<W> *r) {
    static char where[400];
    char text[80];
    cudaDeviceProp properties;
    SIDE_CUDA(cudaGetDeviceProperties(&properties, 0));
    snprintf(where, sizeof where, "on %s, %s", properties.name,
             precision_text(j->chosen, j->net, text, sizeof text));
    r->where = where;
    device_job<W> d = {};
    prepared<W> p = prepared_new<W>(j);
    spira::status s = device_run(j, &p, &d, r);
    prepared_free(&p);
    device_free(&d);
    return s;
}

} // namespace side

#endif
