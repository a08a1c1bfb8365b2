// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/net_work.cuh: a planned network on a scene, its memory, and the steps of a run.
#ifndef SPIRA_BENCH_NET_WORK_CUH
#define SPIRA_BENCH_NET_WORK_CUH

#include "../examples/scan_input.h"
#include "../examples/scan_side.h"
#include "bench.cuh"

#ifndef BENCH_NET_FORMAT
#define BENCH_NET_FORMAT spira::numeric_any // spira::numeric_f16: builds in less time
#endif

// The inputs of a network for each row of a scene: `channels` of [rows, columns], in device and in
// host memory.
struct net_values {
    const float *device, *host;
    int columns;
};

// Parts and further cases are replayed less often where all replays would take longer than this.
enum { net_part_us = 100000, net_quick_runs = 20 };

SPIRA_API int net_runs(const bench_session *s) {
    return s->options.quick ? (int)net_quick_runs : (int)bench_wall_runs;
}

// A network to run. Fill it by name.
struct net_job {
    const char *bench; // of the JSON lines of the whole network; null: it is not timed
    const char *name;
    int K;       // size of all kernels of SparseResNet21 but the last; 0: the network as it is
    int batches; // scans of the scene
    bool ways;   // also run it in the ways of net_ways.cuh
    int classes; // of a network that ends in classes; 0: as usual
};

SPIRA_API net_job net_job_make(const char *bench, const char *name, int K, int batches) {
    net_job job = {};
    job.bench = bench;
    job.name = name;
    job.K = K;
    job.batches = batches;
    return job;
}

template <typename W>
struct net_work {
    const net_job *job;
    bool i8; // int8 layers, but the first; the others are fp16
    networks::network *table;
    bench_scene<W> scene; // its set has exactly the capacity of its voxels
    spira::net_limits limits;
    spira::net_plan *plan;
    spira::voxel_set<W> sets[spira::net_sets_max]; // on the host
    net_values values;
    void *features; // [voxels, channels]
    float *params;  // [plan->params], on the host
    void *loaded;
    char *memory;         // of the plan
    spira::net_side side; // indexes the coarser sets while the first layers run
    cudaStream_t beside;  // computes the features of the voxels
    cudaEvent_t voxelised;
    char *expected; // of the last layer, on the host
    char label[200];
};

SPIRA_API networks::network *net_table(bench_pool *pool, const net_job *job) {
    networks::network *table = bench_host<networks::network>(pool, 1);
    if (job->K) {
        networks::network_sparseresnet(table, job->K, true);
    } else {
        const networks::network_sizes sizes = {0, job->classes};
        if (!networks::network_make(job->name, &sizes, table)) {
            bench_fail("no such network: %s", job->name);
        }
    }
    return table;
}

// Returns f(constant) of the format that the functions of a network are compiled for.
template <typename W, typename F>
static spira::status net_call(const net_work<W> *w, F f) {
    return w->i8 ? f(std::integral_constant<spira::numeric, spira::numeric_i8>())
                 : f(std::integral_constant<spira::numeric, BENCH_NET_FORMAT>());
}

// ---- the steps of a run -------------------------------------------------------------------------

// From raw coordinates to a set of voxels.
template <typename W>
static spira::status net_set_step(const net_work<W> *w, cudaStream_t stream) {
    SPIRA_TRY(spira::device_status_clear(w->scene.trouble, stream));
    return bench_voxelize(&w->scene, stream);
}

// The mean of the values of each voxel's rows. Both sides fill in their pointers.
template <typename W>
static spira::voxel_features_args<W> net_values_mean(const net_work<W> *w) {
    spira::voxel_features_args<W> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.columns = w->values.columns;
    mean.channels = w->limits.channels;
    mean.type = w->limits.type;
    return mean;
}

template <typename W>
static spira::status net_values_step(const net_work<W> *w, cudaStream_t stream) {
    spira::voxel_features_args<W> mean = net_values_mean(w);
    mean.values = w->values.device;
    mean.rows = w->scene.rows;
    mean.set = w->scene.set;
    mean.features = w->features;
    return spira::voxel_features(&mean, stream);
}

// From raw coordinates to voxels with features.
template <typename W>
static spira::status net_voxelize_step(void *context, cudaStream_t stream) {
    const net_work<W> *w = (const net_work<W> *)context;
    SPIRA_TRY(net_set_step(w, stream));
    return net_values_step(w, stream);
}

// The arguments of a run on one stream.
template <typename W>
static spira::net_run_args<W> net_args(const net_work<W> *w) {
    spira::net_run_args<W> run = {};
    run.input = w->scene.set;
    run.features = w->features;
    run.loaded = w->loaded;
    run.trouble = w->scene.trouble;
    run.memory = w->memory;
    run.bytes = w->plan->workspace_bytes;
    return run;
}

template <typename W>
static spira::status net_index_step(void *context, cudaStream_t stream) {
    const net_work<W> *w = (const net_work<W> *)context;
    const spira::net_run_args<W> run = net_args(w);
    return spira::net_index(bench_gpu(), w->plan, &run, stream);
}

// programmatic: the launch before is another layer.
template <typename W>
static spira::status net_layer_step(const net_work<W> *w, int layer, bool programmatic,
                                    cudaStream_t stream) {
    const spira::net_run_args<W> run = net_args(w);
    const spira::net_launch<W> a = {w->plan, layer, &run, programmatic, stream};
    return net_call(w, [&](auto format) { return spira::net_layer_start<format.value>(&a); });
}

// All layers, after net_index_step.
template <typename W>
static spira::status net_features_step(void *context, cudaStream_t stream) {
    const net_work<W> *w = (const net_work<W> *)context;
    const spira::net_run_args<W> run = net_args(w);
    return net_call(w, [&](auto format) {
        return spira::net_layers_start<format.value>(w->plan, 0, w->plan->layer_count, &run,
                                                     stream);
    });
}

// From raw coordinates to the features of the last layer. The features of the voxels are computed
// while the index is built.
template <typename W>
static spira::status net_run_step(void *context, cudaStream_t stream) {
    const net_work<W> *w = (const net_work<W> *)context;
    SPIRA_TRY(net_set_step(w, stream));
    SPIRA_TRY(spira::net_wait(w->beside, w->voxelised, stream));
    SPIRA_TRY(net_values_step(w, w->beside));
    BENCH_CUDA(cudaEventRecord(w->side.features, w->beside));
    spira::net_run_args<W> run = net_args(w);
    run.side = &w->side;
    return net_call(w, [&](auto format) {
        return spira::net_run<W, format.value>(bench_gpu(), w->plan, &run, stream);
    });
}

SPIRA_API void net_side_open(spira::net_side *side) {
    BENCH_CUDA(cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking));
    BENCH_CUDA(cudaEventCreateWithFlags(&side->begun, cudaEventDisableTiming));
    BENCH_CUDA(cudaEventCreateWithFlags(&side->indexed, cudaEventDisableTiming));
    BENCH_CUDA(cudaEventCreateWithFlags(&side->features, cudaEventDisableTiming));
}

SPIRA_API void net_side_close(spira::net_side *side) {
    BENCH_CUDA(cudaStreamDestroy(side->stream));
    BENCH_CUDA(cudaEventDestroy(side->begun));
    BENCH_CUDA(cudaEventDestroy(side->indexed));
    BENCH_CUDA(cudaEventDestroy(side->features));
}

// ---- planning -----------------------------------------------------------------------------------

template <typename W>
static void net_plan_make(net_work<W> *w, bool keep_all) {
    w->limits.keep_all = keep_all;
    w->limits.overlap = true;
    BENCH_TRY(spira::net_plan_device<W>(bench_gpu(), w->table->layers, w->table->count,
                                        &w->scene.layout, &w->limits, w->plan));
}

// A set of a host plan, at its size.
template <typename W>
static spira::voxel_set<W> net_set_keep(bench_pool *pool, const net_work<W> *w, int set,
                                        char *memory) {
    const spira::voxel_set<W> from = spira::net_voxels(w->plan, set, w->scene.fine.host, memory);
    const spira::voxel_set<W> to = bench_set_host<W>(pool, *from.count);
    memcpy(to.words, from.words, (size_t)to.capacity * sizeof(W));
    *to.count = to.capacity;
    return to;
}

// Builds the sets on the host; the capacities of the plan are their sizes.
template <typename W>
static void net_sets_make(bench_pool *pool, net_work<W> *w) {
    spira::net_limits limits = w->limits;
    spira::device_status trouble = {};
    limits.voxels = w->limits.voxels = w->scene.set.capacity;
    limits.type = spira::numeric_f32;
    BENCH_TRY(spira::net_plan_sets(w->table->layers, w->table->count, &limits, false, w->plan));
    int32_t voxels[spira::net_sets_max] = {};
    for (int i = 1; i < w->plan->sets; ++i) { // isolated voxels that dilate need as much
        const bool grows = w->plan->set[i].by != spira::net_set_floor;
        voxels[i] = grows ? (int32_t)spira::min_of(8LL * limits.voxels, 1 << 28) : 0;
    }
    spira::net_capacities(w->plan, voxels, w->table->layers);
    BENCH_TRY(spira::net_plan_host<W>(w->table->layers, w->table->count, &w->scene.layout, &limits,
                                      w->plan));
    void *block = malloc(w->plan->workspace_bytes + spira::workspace_alignment); // mostly unused
    if (!block) {
        bench_fail("%s: out of host memory", w->label);
    }
    char *memory = (char *)block + -(uintptr_t)block % spira::workspace_alignment;
    spira::net_run_args<W> run = {};
    run.input = w->scene.fine.host;
    run.trouble = &trouble;
    run.memory = memory;
    run.bytes = w->plan->workspace_bytes;
    BENCH_TRY(spira::net_sets_host(w->plan, &run));
    BENCH_TRY(spira::device_status_read(&trouble));
    w->sets[0] = w->scene.fine.host;
    for (int i = 1; i < w->plan->sets; ++i) {
        w->sets[i] = net_set_keep(pool, w, i, memory);
        voxels[i] = (int32_t)spira::max_of(w->sets[i].capacity, 1);
    }
    spira::net_capacities(w->plan, voxels, w->table->layers);
    free(block);
}

// Random parameters, for the host and for the device.
template <typename W>
static void net_params_make(bench_session *s, net_work<W> *w) {
    const spira::net_plan *plan = w->plan;
    w->params = bench_host<float>(&s->pool, plan->params);
    networks::network_weights(plan, 1, w->params);
    w->loaded = bench_device<char>(&s->pool, (int64_t)plan->loaded_bytes);
    int keep = s->pool.blocks;
    const float *given = bench_upload(&s->pool, w->params, plan->params);
    const spira::net_load_args load = {given, w->loaded, plan->loaded_bytes, nullptr};
    BENCH_TRY(net_call(w, [&](auto format) {
        return spira::net_load<format.value>(bench_gpu(), plan, &load, s->stream);
    }));
    bench_pool_free(&s->pool, keep);
}

// Whether the device has memory for a plan and its parameters, packed and unpacked. Prints a
// message if it has not.
template <typename W>
static bool net_fits(const net_work<W> *w) {
    double workspace = (double)w->plan->workspace_bytes;
    double params = (double)w->plan->loaded_bytes + 4.0 * (double)w->plan->params;
    bool fits = bench_memory(workspace + params);
    if (!fits) {
        fprintf(stderr,
                "%s: left out: more than this GPU has free: workspace %.0f bytes, parameters %.0f "
                "bytes\n",
                w->label, workspace, params);
    }
    return fits;
}

// Makes a network int8, with ranges that features of random weights are in.
SPIRA_API void net_table_i8(networks::network *n) {
    spira::net_formats_i8(n->layers, n->count);
    for (int i = 0; i < n->count; ++i) {
        const bool has = spira::net_members_of(&n->layers[i]) & spira::net_member_range;
        n->layers[i].range = has ? 4.0f : 0.0f;
    }
}

// Makes everything but the workspace, for a plan that keeps all features. Returns false where the
// memory does not suffice.
template <typename W>
static bool net_work_make(bench_session *s, const bench_scene<W> *scene, net_values values,
                          const net_job *job, net_work<W> *w) {
    w->job = job;
    w->table = net_table(&s->pool, job);
    w->scene = *scene;
    w->scene.set = scene->fine.device;
    w->values = values;
    w->limits.channels = w->table->input_channels;
    w->limits.grid = w->table->grid;
    w->limits.batch = w->table->batch;
    w->limits.shortcuts = spira::net_shortcuts_hidden;
    w->i8 = s->options.dtype == spira::numeric_i8;
    w->limits.type =
        s->options.dtype < 0 || w->i8 ? spira::numeric_f16 : (spira::numeric)s->options.dtype;
    if (w->i8) {
        net_table_i8(w->table);
    }
    snprintf(w->label, sizeof w->label, "%.100s: %s, K %d, batch %d, %d-bit words", scene->input,
             job->name, job->K, job->batches, (int)(8 * sizeof(W)));
    w->plan = bench_host<spira::net_plan>(&s->pool, 1);
    net_sets_make(&s->pool, w);
    net_plan_make(w, true);
    if (!net_fits(w)) {
        return false;
    }
    w->features = bench_device<char>(&s->pool, (int64_t)w->limits.voxels * w->limits.channels *
                                                   spira::numeric_size(w->limits.type));
    net_params_make(s, w);
    return true;
}

// ---- the results of a run -----------------------------------------------------------------------

template <typename W>
static spira::voxel_set<W> net_set(const net_work<W> *w, int set) {
    return spira::net_voxels(w->plan, set, w->scene.set, w->memory);
}

template <typename W>
static spira::net_result<W> net_last(const net_work<W> *w) {
    const spira::net_run_args<W> run = net_args(w);
    return spira::net_output(w->plan, w->plan->layer_count - 1, &run);
}

// Bytes of a layer's features, or of the input's: up to the count of its set, or the whole dense
// map.
template <typename W>
static int64_t net_bytes(const net_work<W> *w, int layer) {
    const spira::numeric type = layer < 0 ? w->limits.type : spira::net_type_of(w->plan, layer);
    const int32_t voxels = *w->sets[spira::net_source_set(w->plan, layer)].count;
    return side::feature_count(w->plan, layer, voxels) * spira::numeric_size(type);
}

// Those of the last layer.
template <typename W>
static int64_t net_last_bytes(const net_work<W> *w) {
    return net_bytes(w, w->plan->layer_count - 1);
}

template <typename W>
static bench_row net_row(const char *bench, const net_work<W> *w) {
    bench_row row = bench_row_make(bench, &w->scene);
    row.K = w->job->K;
    row.dtype = spira::numeric_name(w->i8 ? spira::numeric_i8 : w->limits.type);
    row.word = 8 * (int)sizeof(W);
    row.net = w->job->name;
    row.batch = w->job->batches;
    return row;
}

#endif
