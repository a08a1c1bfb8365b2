// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/enqueue.cu: a network in the shape of a TensorRT plugin, without TensorRT. The plugin
// tells its workspace beforehand, enqueue launches into the stream that it is given, and all memory
// belongs to the runtime. `main` plays the runtime and compares the outputs with those of net_run.
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a examples/enqueue.cu -o enqueue
// (for an H100 or H200; for other GPUs -arch with their own number, as in -arch=sm_80)
//
//   here                TensorRT (IPluginV3), whose methods only forward
//   plugin_create       IPluginCreatorV3One::createPlugin, clone, attachToContext
//   plugin_configure    IPluginV3OneBuild::configurePlugin, with `max` of the dynamic dimensions
//   plugin_workspace    IPluginV3OneBuild::getWorkspaceSize, with the same
//   plugin_shape        IPluginV3OneBuild::getOutputShapes: output_count is the size tensor of the
//                       others (declareSizeTensor), rows_most its upper bound. A network with a
//                       dense output has static shapes, and neither words nor a size tensor
//   plugin_accept       IPluginV3OneRuntime::onShapeChange
//   plugin_enqueue      IPluginV3OneRuntime::enqueue
//   plugin.record       IPluginV3OneRuntime::getFieldsToSerialize: one field of sizeof(record)
//   plugin_weights,     the packed weights are a constant input; pack them once, on the GPU model
//   plugin_pack         that runs them
#include "../spira.cuh"
#include "networks.h"
#include "scan_scene.h"

#include <algorithm>
#include <stdlib.h>

namespace {

typedef uint64_t word; // always 64 bits: the tensor type must not depend on the scene

// The only number format that is compiled; a record of another type is refused.
const spira::numeric plugin_type = spira::numeric_f16;

// The tensors, in device memory. Counts are known there only: the host never waits for them.
enum { input_coords, input_values, input_count, input_weights, inputs };
// int32 [points, 3]; float [points, channels]; int32 [1]; bytes [plugin_weights]

enum { output_features, output_words, output_count, output_status, outputs };
// `type` [rows, channels], or [1, channels, height, width]; int64 [rows]: coordinate words; int32
// [1]: rows; device_status. A network with a dense output has neither words nor rows.

// The largest dimensions of any frame.
struct plugin_dims {
    int32_t points; // rows of the inputs
    int32_t voxels; // of any coordinate set
};

// What a plugin is made from, and everything that is serialised: plain data without pointers.
struct plugin_record {
    char net[32];
    networks::network_sizes sizes; // of the network; 0: the usual ones
    spira::numeric type;           // plugin_type
    spira::triple lo, hi; // bounds of the coordinates; a network with an extent has its own
    spira::triple extent; // of the coordinates; 0: that of the network
    plugin_dims dims;     // 0: not configured
};

// A record that is not configured.
plugin_record plugin_record_make(const char *net, spira::triple lo, spira::triple hi) {
    plugin_record r = {};
    snprintf(r.net, sizeof r.net, "%s", net);
    r.type = plugin_type;
    r.lo = lo;
    r.hi = hi;
    return r;
}

struct plugin {
    plugin_record record;
    spira::device_info gpu; // queried once, in plugin_create
    networks::network net;
    spira::word_layout layout;
    spira::net_plan plan; // points into `net`: do not copy a plugin, create another one
};

// Where everything is in the workspace.
struct plugin_arrays {
    spira::voxel_set<word> set;
    spira::voxel_rows rows;
    void *features, *scratch, *memory;
    size_t scratch_bytes;
};

spira::voxel_input plugin_input(plugin_dims dims, const void *coords, const void *count) {
    spira::voxel_input in = {};
    in.coords = (const int32_t *)coords;
    in.count = (const int32_t *)count;
    in.rows = dims.points;
    in.columns = 3;
    return in;
}

// Carves the workspace of a plan. Null: only counts the bytes.
spira::status plugin_carve(const spira::net_plan *plan, plugin_dims dims, void *workspace,
                           plugin_arrays *a, size_t *bytes) {
    const int32_t nothing[3] = {};
    spira::voxel_input in = plugin_input(dims, nothing, nothing);
    spira::workspace w = spira::workspace_begin(workspace);
    SPIRA_TRY(spira::voxelize_workspace<word>(&in, dims.voxels, &a->scratch_bytes));
    a->set.capacity = dims.voxels;
    a->set.words = spira::workspace_take<word>(&w, dims.voxels);
    a->set.count = spira::workspace_take<int32_t>(&w, 1);
    a->rows.voxel = spira::workspace_take<int32_t>(&w, dims.points);
    a->rows.order = spira::workspace_take<int32_t>(&w, dims.points);
    a->rows.begin = spira::workspace_take<int32_t>(&w, (int64_t)dims.voxels + 1);
    a->features = spira::workspace_take<float>(&w, (int64_t)dims.voxels * plan->limits.channels);
    a->scratch = spira::workspace_take<char>(&w, (int64_t)a->scratch_bytes);
    a->memory = spira::workspace_take<char>(&w, (int64_t)plan->workspace_bytes);
    *bytes = w.used;
    return spira::status_success();
}

spira::status plugin_plan(const plugin *p, plugin_dims dims, spira::net_plan *plan) {
    SPIRA_REQUIRE(dims.points >= 1, spira::status_bad_size, "dims.points", dims.points);
    spira::net_limits limits = {};
    limits.voxels = dims.voxels;
    limits.channels = p->net.input_channels;
    limits.type = p->record.type;
    limits.grid = p->net.grid;
    limits.batch = 1;
    return spira::net_plan_device<word>(&p->gpu, p->net.layers, p->net.count, &p->layout, &limits,
                                        plan);
}

// ---- the methods --------------------------------------------------------------------------------

// Plans for the largest dimensions of any frame.
spira::status plugin_configure(plugin *p, plugin_dims dims) {
    p->record.dims = {}; // not configured if planning fails
    SPIRA_TRY(plugin_plan(p, dims, &p->plan));
    p->record.dims = dims;
    return spira::status_success();
}

// Bytes of workspace for frames up to these dimensions. Does not depend on plugin_configure.
spira::status plugin_workspace(const plugin *p, plugin_dims dims, size_t *bytes) {
    spira::net_plan plan;
    plugin_arrays arrays;
    SPIRA_TRY(plugin_plan(p, dims, &plan));
    return plugin_carve(&plan, dims, nullptr, &arrays, bytes);
}

// Creates a plugin from a record. A serialised record that was configured is planned at once.
spira::status plugin_create(const plugin_record *record, plugin *p) {
    memset((void *)p, 0, sizeof *p);
    p->record = *record;
    p->record.net[sizeof p->record.net - 1] = 0;
    SPIRA_REQUIRE(networks::network_make(p->record.net, &p->record.sizes, &p->net),
                  spira::status_unsupported, "record.net (no such network)", 0);
    if (record->extent.x) {
        p->net.grid.extent = record->extent;
    }
    SPIRA_REQUIRE(p->record.type == plugin_type, spira::status_unsupported,
                  "record.type (not compiled: see plugin_type)", p->record.type);
    SPIRA_TRY(spira::device_info_query(&p->gpu));
    spira::word_need need = {};
    need.lo = record->lo;
    need.hi = record->hi;
    need.batches = 1;
    SPIRA_TRY(spira::net_need(p->net.layers, p->net.count, &p->net.grid, &need));
    SPIRA_TRY(spira::word_fit(&need, &p->layout));
    p->layout = spira::word_widen(p->layout);
    return record->dims.points ? plugin_configure(p, record->dims) : spira::status_success();
}

// Whether the output is a dense map.
bool plugin_is_dense(const plugin *p) {
    return p->net.layers[p->net.count - 1].op == spira::net_dense;
}

// The upper bound of the rows of the outputs, and the channels of the features. Dense: the exact
// number of cells.
spira::status plugin_shape(const plugin *p, int32_t *rows_most, int *channels) {
    SPIRA_REQUIRE(p->plan.layer_count, spira::status_bad_size, "plugin (not configured)", 0);
    spira::net_run_args<word> none = {};
    none.input.capacity = p->plan.limits.voxels; // of a last layer on the input's set
    const spira::net_result<word> last =
        spira::net_output(&p->plan, p->plan.layer_count - 1, &none);
    *rows_most = last.batch ? last.batch * last.height * last.width : last.set.capacity;
    *channels = last.channels;
    return spira::status_success();
}

// The dimensions of a frame must not exceed the planned ones. Nothing else depends on them.
spira::status plugin_accept(const plugin *p, int32_t points) {
    SPIRA_REQUIRE(points >= 0 && points <= p->record.dims.points, spira::status_capacity, "points",
                  points);
    return spira::status_success();
}

size_t plugin_weights(const plugin *p) {
    return p->plan.loaded_bytes;
}

// Packs the parameters [plan.params], fp32 in device memory, to weights [plugin_weights].
spira::status plugin_pack(const plugin *p, const float *params, void *weights,
                          cudaStream_t stream) {
    const spira::net_load_args load = {params, weights, plugin_weights(p), nullptr};
    return spira::net_load<plugin_type>(&p->gpu, &p->plan, &load, stream);
}

// Copies *rows rows: only the device knows how many. row: 16-bit elements of a row.
__global__ void plugin_copy(const uint16_t *from, const int32_t *rows, int64_t row, uint16_t *to) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < *rows * row) {
        to[i] = from[i];
    }
}

// The arguments of a run over a carved workspace.
spira::net_run_args<word> plugin_run(const plugin *p, const plugin_arrays *a, const void *weights,
                                     spira::device_status *trouble) {
    spira::net_run_args<word> run = {};
    run.input = a->set;
    run.features = a->features;
    run.loaded = weights;
    run.trouble = trouble;
    run.memory = a->memory;
    run.bytes = p->plan.workspace_bytes;
    return run;
}

// Copies the result of the network to the output tensors.
spira::status plugin_outputs(const plugin *p, const spira::net_run_args<word> *run,
                             void *const *out, cudaStream_t stream) {
    const spira::net_result<word> last = spira::net_output(&p->plan, p->plan.layer_count - 1, run);
    const spira::voxel_set<word> set = last.set;
    int64_t row = last.channels * spira::numeric_size(p->record.type) / 2;
    plugin_copy<<<(unsigned)spira::ceil_div(set.capacity * row, 256), 256, 0, stream>>>(
        (const uint16_t *)last.features, set.count, row, (uint16_t *)out[output_features]);
    SPIRA_TRY(spira::status_of_launch("copying the features"));
    cudaMemcpyAsync(out[output_words], set.words, (size_t)set.capacity * sizeof(word),
                    cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(out[output_count], set.count, sizeof(int32_t), cudaMemcpyDeviceToDevice,
                    stream);
    return spira::status_of_launch("copying the words and their count");
}

// From raw coordinates to the features of the last layer.
spira::status plugin_compute(const plugin *p, const plugin_arrays *a, const void *const *in,
                             const spira::net_run_args<word> *run, cudaStream_t stream) {
    spira::voxel_input input = plugin_input(p->record.dims, in[input_coords], in[input_count]);
    SPIRA_TRY(spira::device_status_clear(run->trouble, stream));
    const spira::voxelize_args<word> voxels = {&p->layout, &input, a->set, a->rows, run->trouble};
    SPIRA_TRY(spira::voxelize(&voxels, a->scratch, a->scratch_bytes, stream));
    spira::voxel_features_args<word> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = (const float *)in[input_values];
    mean.columns = mean.channels = p->plan.limits.channels;
    mean.rows = a->rows;
    mean.set = a->set;
    mean.type = p->record.type;
    mean.features = a->features;
    SPIRA_TRY(spira::voxel_features<plugin_type>(&mean, stream));
    return spira::net_run<word, plugin_type>(&p->gpu, &p->plan, run, stream);
}

spira::status plugin_launch(const plugin *p, const void *const *in, void *const *out,
                            void *workspace, cudaStream_t stream) {
    SPIRA_REQUIRE(p->record.dims.points, spira::status_bad_size, "plugin (not configured)", 0);
    SPIRA_REQUIRE(in && out && workspace, spira::status_null_pointer, "tensors", 0);
    const bool dense = plugin_is_dense(p);
    for (int i = 0; i < inputs; ++i) {
        SPIRA_REQUIRE(in[i], spira::status_null_pointer, "inputs", i);
    }
    for (int i = 0; i < outputs; ++i) {
        const bool absent = dense && (i == output_words || i == output_count);
        SPIRA_REQUIRE(out[i] || absent, spira::status_null_pointer, "outputs", i);
    }
    size_t bytes;
    plugin_arrays a;
    SPIRA_TRY(plugin_carve(&p->plan, p->record.dims, workspace, &a, &bytes));
    spira::net_run_args<word> run =
        plugin_run(p, &a, in[input_weights], (spira::device_status *)out[output_status]);
    run.out = dense ? out[output_features] : nullptr; // written in place
    SPIRA_TRY(plugin_compute(p, &a, in, &run, stream));
    return dense ? spira::status_success() : plugin_outputs(p, &run, out, stream);
}

// Launches a frame. Returns 0, or the code of the refused argument. Allocates nothing, waits for
// nothing and reads nothing back: the runtime may capture it. The status tensor reports what only
// the GPU can see: an exceeded capacity, a coordinate outside of the bounds. Rows of the features
// from the count on are not written.
int plugin_enqueue(const plugin *p, const void *const *in, void *const *out, void *workspace,
                   cudaStream_t stream) {
    return (int)plugin_launch(p, in, out, workspace, stream).code;
}

// ---- a runtime ----------------------------------------------------------------------------------

#define ENQUEUE_CUDA(call) SPIRA_TRY(spira::status_from_cuda((call), #call))

enum { arrays_most = 32 };

// Device memory, given back together.
struct pool {
    void *array[arrays_most];
    int count;
};

spira::status pool_take(pool *m, size_t bytes, const void *from, void **array) {
    ENQUEUE_CUDA(cudaMalloc(array, bytes));
    m->array[m->count++] = *array;
    if (from) {
        ENQUEUE_CUDA(cudaMemcpy(*array, from, bytes, cudaMemcpyHostToDevice));
    }
    return spira::status_success();
}

void pool_free(pool *m) {
    for (int i = 0; i < m->count; ++i) {
        cudaFree(m->array[i]);
    }
}

// A frame in host memory: voxels of a box, all different.
struct frame {
    int32_t count;
    int32_t *coords; // [count, 3]
    float *values;   // [count, 4]
};

spira::status frame_new(int32_t count, spira::triple extent, frame *f) {
    const int box[3] = {extent.x, extent.y, extent.z};
    f->count = count;
    f->coords = (int32_t *)malloc((size_t)count * 3 * sizeof(int32_t));
    f->values = (float *)malloc((size_t)count * 4 * sizeof(float));
    for (int64_t i = 0; i < (int64_t)count * 4; ++i) {
        f->values[i] = networks::network_random(2, (uint64_t)i);
    }
    return scan::scan_scene_random(1, count, box, f->coords);
}

// What the runtime has bound to a plugin.
struct bindings {
    void *in[inputs], *out[outputs], *workspace;
    float *params;
};

spira::status bindings_new(const plugin *p, const frame *f, pool *m, bindings *b) {
    int32_t rows;
    int channels;
    size_t bytes, weights = (size_t)p->plan.params * sizeof(float);
    const size_t points = (size_t)p->record.dims.points;
    SPIRA_TRY(plugin_shape(p, &rows, &channels));
    SPIRA_TRY(plugin_workspace(p, p->record.dims, &bytes));
    SPIRA_TRY(pool_take(m, bytes, nullptr, &b->workspace));
    SPIRA_TRY(pool_take(m, points * 3 * sizeof(int32_t), nullptr, &b->in[input_coords]));
    SPIRA_TRY(pool_take(m, points * 4 * sizeof(float), nullptr, &b->in[input_values]));
    SPIRA_TRY(pool_take(m, sizeof f->count, &f->count, &b->in[input_count]));
    SPIRA_TRY(pool_take(m, plugin_weights(p), nullptr, &b->in[input_weights]));
    ENQUEUE_CUDA(cudaMemcpy(b->in[input_coords], f->coords, (size_t)f->count * 3 * sizeof(int32_t),
                            cudaMemcpyHostToDevice));
    ENQUEUE_CUDA(cudaMemcpy(b->in[input_values], f->values, (size_t)f->count * 4 * sizeof(float),
                            cudaMemcpyHostToDevice));
    size_t row = (size_t)channels * (size_t)spira::numeric_size(p->record.type);
    SPIRA_TRY(pool_take(m, (size_t)rows * row, nullptr, &b->out[output_features]));
    if (!plugin_is_dense(p)) {
        SPIRA_TRY(pool_take(m, (size_t)rows * sizeof(word), nullptr, &b->out[output_words]));
        SPIRA_TRY(pool_take(m, sizeof(int32_t), nullptr, &b->out[output_count]));
    }
    SPIRA_TRY(pool_take(m, sizeof(spira::device_status), nullptr, &b->out[output_status]));
    float *params = (float *)malloc(weights);
    networks::network_weights(&p->plan, 3, params);
    spira::status s = pool_take(m, weights, params, (void **)&b->params);
    free(params);
    return s;
}

// Overwrites the outputs, so that the next comparison sees new ones.
spira::status bindings_forget(const plugin *p, const bindings *b, cudaStream_t stream) {
    int32_t rows;
    int channels;
    SPIRA_TRY(plugin_shape(p, &rows, &channels));
    size_t row = (size_t)channels * (size_t)spira::numeric_size(p->record.type);
    ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_features], 0xff, (size_t)rows * row, stream));
    if (!plugin_is_dense(p)) {
        ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_words], 0, (size_t)rows * sizeof(word), stream));
        ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_count], 0, sizeof(int32_t), stream));
    }
    return spira::status_success();
}

// net_run by itself, in memory of its own: the reference for the outputs.
spira::status direct_run(const plugin *p, const bindings *b, pool *m, cudaStream_t stream,
                         spira::net_run_args<word> *run) {
    void *memory, *trouble;
    size_t bytes;
    plugin_arrays a;
    SPIRA_TRY(plugin_carve(&p->plan, p->record.dims, nullptr, &a, &bytes));
    SPIRA_TRY(pool_take(m, bytes, nullptr, &memory));
    SPIRA_TRY(pool_take(m, sizeof(spira::device_status), nullptr, &trouble));
    SPIRA_TRY(plugin_carve(&p->plan, p->record.dims, memory, &a, &bytes));
    *run = plugin_run(p, &a, b->in[input_weights], (spira::device_status *)trouble);
    return plugin_compute(p, &a, b->in, run, stream);
}

// Fails unless `bytes` bytes of both device arrays are equal.
spira::status compare(const char *what, const void *a, const void *b, size_t bytes) {
    char *host = (char *)malloc(2 * bytes + 1);
    cudaError_t error = cudaMemcpy(host, a, bytes, cudaMemcpyDeviceToHost);
    if (error == cudaSuccess) {
        error = cudaMemcpy(host + bytes, b, bytes, cudaMemcpyDeviceToHost);
    }
    bool same = memcmp(host, host + bytes, bytes) == 0;
    free(host);
    ENQUEUE_CUDA(error);
    SPIRA_REQUIRE(same, spira::status_bad_size, what, 0);
    return spira::status_success();
}

spira::status outputs_compare(const plugin *p, const bindings *b,
                              const spira::net_run_args<word> *run, cudaStream_t stream,
                              int32_t *rows) {
    const spira::net_result<word> last = spira::net_output(&p->plan, p->plan.layer_count - 1, run);
    const spira::voxel_set<word> set = last.set;
    spira::device_status trouble;
    ENQUEUE_CUDA(cudaStreamSynchronize(stream));
    ENQUEUE_CUDA(cudaMemcpy(rows, set.count, sizeof *rows, cudaMemcpyDeviceToHost));
    ENQUEUE_CUDA(
        cudaMemcpy(&trouble, b->out[output_status], sizeof trouble, cudaMemcpyDeviceToHost));
    SPIRA_TRY(spira::device_status_read(&trouble));
    size_t row = (size_t)last.channels * (size_t)spira::numeric_size(p->record.type);
    if (plugin_is_dense(p)) {
        *rows = last.height * last.width;
        return compare("map (differs)", b->out[output_features], last.features, *rows * row);
    }
    SPIRA_TRY(compare("count (differs)", b->out[output_count], set.count, sizeof(int32_t)));
    SPIRA_TRY(compare("words (differ)", b->out[output_words], set.words,
                      (size_t)set.capacity * sizeof(word)));
    return compare("features (differ)", b->out[output_features], last.features,
                   (size_t)*rows * row);
}

spira::status enqueue_good(const plugin *p, const bindings *b, cudaStream_t stream) {
    int code = plugin_enqueue(p, b->in, b->out, b->workspace, stream);
    SPIRA_REQUIRE(code == 0, spira::status_unsupported, "enqueue", code);
    return spira::status_success();
}

// The median time of a replay.
spira::status replay_timed(cudaGraphExec_t replay, cudaStream_t stream, float *ms) {
    enum { runs = 21 };
    float times[runs];
    cudaEvent_t mark[2];
    ENQUEUE_CUDA(cudaEventCreate(&mark[0]));
    ENQUEUE_CUDA(cudaEventCreate(&mark[1]));
    for (int i = 0; i < runs; ++i) {
        ENQUEUE_CUDA(cudaEventRecord(mark[0], stream));
        ENQUEUE_CUDA(cudaGraphLaunch(replay, stream));
        ENQUEUE_CUDA(cudaEventRecord(mark[1], stream));
        ENQUEUE_CUDA(cudaEventSynchronize(mark[1]));
        ENQUEUE_CUDA(cudaEventElapsedTime(&times[i], mark[0], mark[1]));
    }
    std::sort(times, times + runs);
    *ms = times[runs / 2];
    ENQUEUE_CUDA(cudaEventDestroy(mark[0]));
    ENQUEUE_CUDA(cudaEventDestroy(mark[1]));
    return spira::status_success();
}

// Captured in a graph and timed, as a runtime may do.
spira::status enqueue_captured(const plugin *p, const bindings *b, cudaStream_t stream, float *ms) {
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    ENQUEUE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    spira::status s = enqueue_good(p, b, stream);
    ENQUEUE_CUDA(cudaStreamEndCapture(stream, &graph));
    SPIRA_TRY(s);
    ENQUEUE_CUDA(cudaGraphInstantiateWithFlags(&replay, graph, 0));
    SPIRA_TRY(replay_timed(replay, stream, ms));
    ENQUEUE_CUDA(cudaGraphExecDestroy(replay));
    ENQUEUE_CUDA(cudaGraphDestroy(graph));
    return spira::status_success();
}

// One life of a plugin: created, asked for its workspace, configured, bound and enqueued; then
// serialised and created again from the bytes.
spira::status runtime(const char *net, plugin_dims dims, plugin *first, plugin *second,
                      const frame *f, pool *m, cudaStream_t stream) {
    plugin_record record = plugin_record_make(net, {0, 0, 0}, {255, 255, 31});
    bindings b = {};
    float ms;
    spira::net_run_args<word> direct;
    int32_t rows;
    size_t bytes;
    SPIRA_TRY(plugin_create(&record, first));
    SPIRA_TRY(plugin_workspace(first, dims, &bytes));
    SPIRA_TRY(plugin_configure(first, dims));
    SPIRA_TRY(bindings_new(first, f, m, &b));
    SPIRA_TRY(plugin_pack(first, b.params, b.in[input_weights], stream));
    SPIRA_TRY(plugin_accept(first, f->count));
    SPIRA_TRY(direct_run(first, &b, m, stream, &direct));
    SPIRA_TRY(bindings_forget(first, &b, stream));
    SPIRA_TRY(enqueue_good(first, &b, stream));
    SPIRA_TRY(outputs_compare(first, &b, &direct, stream, &rows));

    char serialised[sizeof record];
    memcpy(serialised, &first->record, sizeof record);
    memcpy((void *)&record, serialised, sizeof record);
    SPIRA_TRY(plugin_create(&record, second));
    SPIRA_TRY(bindings_forget(second, &b, stream));
    SPIRA_TRY(enqueue_captured(second, &b, stream, &ms));
    SPIRA_TRY(outputs_compare(second, &b, &direct, stream, &rows));
    printf("enqueue: %s: %d voxels in, %d %s out, workspace %.1f MiB, weights %.1f MiB, %.3f ms: "
           "the same as net_run, in a stream and in a graph\n",
           net, f->count, rows, plugin_is_dense(first) ? "cells" : "rows",
           (double)bytes / (1 << 20), (double)plugin_weights(first) / (1 << 20), (double)ms);
    return spira::status_success();
}

// Runs both networks on a random frame. points: the number of its points; dims: what the engines
// are built for. Dilating sets may have twice as many voxels.
spira::status runtime_all(int32_t points, plugin_dims dims) {
    plugin *plugins = (plugin *)calloc(2, sizeof *plugins);
    pool m = {};
    frame f = {};
    cudaStream_t stream = nullptr;
    spira::status s = frame_new(points, spira::triple_make(256, 256, 32), &f);
    if (!spira::status_failed(s)) {
        s = spira::status_from_cuda(cudaStreamCreate(&stream), "stream");
    }
    for (const char *net : {"SparseResNet21", "VoxelBackBone8x"}) {
        if (!spira::status_failed(s)) {
            s = runtime(net, dims, &plugins[0], &plugins[1], &f, &m, stream);
        }
        pool_free(&m);
        m.count = 0;
    }
    if (stream) {
        cudaStreamDestroy(stream);
    }
    free(f.values);
    free(f.coords);
    free(plugins);
    return s;
}

} // namespace

int main() {
    const spira::status s = runtime_all(20000, {30000, 35000});
    char text[256];
    if (spira::status_failed(s)) {
        fprintf(stderr, "enqueue: %s\n", spira::status_text(s, text, sizeof text));
    }
    return spira::status_failed(s);
}
