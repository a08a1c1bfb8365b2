// examples/enqueue.cu: a network in the shape of a TensorRT plugin, without TensorRT: the workspace
// is asked for beforehand, enqueue launches into the stream that it is given, and all memory is the
// runtime's. `main` plays the runtime and compares with net_run.
//   nvcc -std=c++17 -O3 -arch=native examples/enqueue.cu -o enqueue && ./enqueue
//
//   here                TensorRT (IPluginV3), whose methods only forward
//   plugin_create       IPluginCreatorV3One::createPlugin, clone, attachToContext
//   plugin_configure    IPluginV3OneBuild::configurePlugin, with `max` of the dynamic dimensions
//   plugin_workspace    IPluginV3OneBuild::getWorkspaceSize, with the same
//   plugin_shape        IPluginV3OneBuild::getOutputShapes: output_count is the size tensor of the
//                       others (declareSizeTensor), rows_most its upper bound
//   plugin_accept       IPluginV3OneRuntime::onShapeChange
//   plugin_enqueue      IPluginV3OneRuntime::enqueue
//   plugin.record       IPluginV3OneRuntime::getFieldsToSerialize: one field of sizeof(record)
//   bytes plugin_weights,     the packed weights are an input, a constant: pack them once, on the
//   GPU plugin_pack         model that they are for
#include "networks.h"
#include "scan_scene.h"

#include <stdlib.h>

namespace {

typedef uint64_t word; // always the wide one, so that a type of tensor follows from nothing else

// The tensors, in device memory. What the counts say is known there only: no host waits for it.
enum { input_coords, input_values, input_count, input_weights, inputs };
// int32 [points, 3]; float [points, channels]; int32 [1]; bytes [plugin_weights]

enum { output_features, output_words, output_count, output_status, outputs };
// `type` [rows, channels]; int64 [rows]: coordinate words; int32 [1]: rows; device_status

// The largest dimensions of any frame.
struct plugin_dims {
    int32_t points; // rows of the inputs
    int32_t voxels; // of any coordinate set
};

// What a plugin is made from, and all that is serialised: plain data without pointers.
struct plugin_record {
    char net[32];
    spira::numeric type;
    spira::triple lo, hi; // bounds of the coordinates
    plugin_dims dims;     // 0: not configured
};

struct plugin {
    plugin_record record;
    networks::network net;
    spira::word_layout layout;
    spira::net_plan plan; // points into `net`: a plugin is not copied, but created again
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

// Carves the workspace of a plan; over a null one it counts the bytes.
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
    return spira::net_plan_device<word>(p->net.layers, p->net.count, &p->layout, &limits, plan);
}

// ---- the methods --------------------------------------------------------------------------------

// Plans for the largest dimensions of any frame.
spira::status plugin_configure(plugin *p, plugin_dims dims) {
    p->record.dims = {}; // unless all goes well
    SPIRA_TRY(plugin_plan(p, dims, &p->plan));
    p->record.dims = dims;
    return spira::status_success();
}

// Bytes of workspace for frames of up to such dimensions, whatever the plugin is configured for.
spira::status plugin_workspace(const plugin *p, plugin_dims dims, size_t *bytes) {
    spira::net_plan plan;
    plugin_arrays arrays;
    SPIRA_TRY(plugin_plan(p, dims, &plan));
    return plugin_carve(&plan, dims, nullptr, &arrays, bytes);
}

// From a record: one that the caller fills, or one that was serialised, which is planned at once.
spira::status plugin_create(const plugin_record *record, plugin *p) {
    memset((void *)p, 0, sizeof *p);
    p->record = *record;
    p->record.net[sizeof p->record.net - 1] = 0;
    SPIRA_REQUIRE(networks::network_make(p->record.net, &p->net), spira::status_unsupported,
                  "record.net (no such network)", 0);
    spira::word_need need = {};
    SPIRA_TRY(spira::net_need(p->net.layers, p->net.count, &need));
    need.lo = record->lo;
    need.hi = record->hi;
    need.batches = 1;
    SPIRA_TRY(spira::word_fit(&need, &p->layout));
    p->layout = spira::word_widen(p->layout);
    return record->dims.points ? plugin_configure(p, record->dims) : spira::status_success();
}

// The upper bound of the rows of the outputs, and the channels of the features.
void plugin_shape(const plugin *p, int32_t *rows_most, int *channels) {
    const spira::net_step *last = &p->plan.step[p->plan.layer_count - 1];
    *rows_most = p->plan.set[last->set].capacity;
    *channels = last->channels;
}

// The dimensions of a frame must not pass those that were planned for; nothing else depends on
// them.
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
    return spira::net_load(&p->plan, params, weights, plugin_weights(p), stream);
}

// The rows that there are: only the device knows how many. row: pairs of bytes of each.
__global__ void plugin_copy(const uint16_t *from, const int32_t *rows, int64_t row, uint16_t *to) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < *rows * row) {
        to[i] = from[i];
    }
}

// The outputs, from where the network left them.
spira::status plugin_outputs(const plugin *p, const plugin_arrays *a, void *const *out,
                             cudaStream_t stream) {
    const spira::net_step *last = &p->plan.step[p->plan.layer_count - 1];
    spira::voxel_set<word> set = spira::net_voxels(&p->plan, last->set, a->set, a->memory);
    int64_t row = last->channels * spira::numeric_size(p->record.type) / 2;
    plugin_copy<<<(unsigned)spira::ceil_div(set.capacity * row, 256), 256, 0, stream>>>(
        (const uint16_t *)((char *)a->memory + last->features), set.count, row,
        (uint16_t *)out[output_features]);
    SPIRA_TRY(spira::status_of_launch("copying the features"));
    cudaMemcpyAsync(out[output_words], set.words, (size_t)set.capacity * sizeof(word),
                    cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(out[output_count], set.count, sizeof(int32_t), cudaMemcpyDeviceToDevice,
                    stream);
    return spira::status_of_launch("copying the words and their count");
}

spira::status plugin_launch(const plugin *p, const void *const *in, void *const *out,
                            void *workspace, cudaStream_t stream) {
    SPIRA_REQUIRE(p->record.dims.points, spira::status_bad_size, "plugin (not configured)", 0);
    SPIRA_REQUIRE(in && out && workspace, spira::status_null_pointer, "tensors", 0);
    for (int i = 0; i < inputs; ++i) {
        SPIRA_REQUIRE(in[i], spira::status_null_pointer, "inputs", i);
    }
    for (int i = 0; i < outputs; ++i) {
        SPIRA_REQUIRE(out[i], spira::status_null_pointer, "outputs", i);
    }
    size_t bytes;
    plugin_arrays a;
    const spira::net_plan *plan = &p->plan;
    const int channels = plan->limits.channels;
    spira::device_status *trouble = (spira::device_status *)out[output_status];
    spira::voxel_input input = plugin_input(p->record.dims, in[input_coords], in[input_count]);
    SPIRA_TRY(plugin_carve(plan, p->record.dims, workspace, &a, &bytes));
    SPIRA_TRY(spira::device_status_clear(trouble, stream));
    SPIRA_TRY(spira::voxelize(&p->layout, &input, a.set, a.rows, trouble, a.scratch,
                              a.scratch_bytes, stream));
    SPIRA_TRY(spira::voxel_features(spira::voxel_feature_mean, (const float *)in[input_values],
                                    channels, channels, a.rows, a.set.count, a.set.capacity,
                                    p->record.type, a.features, stream));
    SPIRA_TRY(spira::net_run(plan, a.set, a.features, in[input_weights], trouble, a.memory,
                             plan->workspace_bytes, nullptr, stream));
    return plugin_outputs(p, &a, out, stream);
}

// Launches a frame: 0, or the code of what was refused. Nothing is allocated, waited for or read
// back, so that the runtime may capture it. Trouble that only the GPU can see (a capacity passed, a
// coordinate outside of the bounds) is in the status tensor. From the count on, rows of the
// features are not written.
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
    plugin_shape(p, &rows, &channels);
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
    SPIRA_TRY(pool_take(m, (size_t)rows * sizeof(word), nullptr, &b->out[output_words]));
    SPIRA_TRY(pool_take(m, sizeof(int32_t), nullptr, &b->out[output_count]));
    SPIRA_TRY(pool_take(m, sizeof(spira::device_status), nullptr, &b->out[output_status]));
    float *params = (float *)malloc(weights);
    networks::network_weights(&p->plan, 3, params);
    spira::status s = pool_take(m, weights, params, (void **)&b->params);
    free(params);
    return s;
}

// Forgets the outputs, so that what is compared next is new.
spira::status bindings_forget(const plugin *p, const bindings *b, cudaStream_t stream) {
    int32_t rows;
    int channels;
    plugin_shape(p, &rows, &channels);
    size_t row = (size_t)channels * (size_t)spira::numeric_size(p->record.type);
    ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_features], 0xff, (size_t)rows * row, stream));
    ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_words], 0, (size_t)rows * sizeof(word), stream));
    ENQUEUE_CUDA(cudaMemsetAsync(b->out[output_count], 0, sizeof(int32_t), stream));
    return spira::status_success();
}

// net_run by itself, in memory of its own: what the outputs have to be.
struct direct {
    plugin_arrays arrays;
    spira::device_status *trouble;
};

spira::status direct_run(const plugin *p, const bindings *b, pool *m, cudaStream_t stream,
                         direct *d) {
    void *memory, *trouble;
    size_t bytes;
    const spira::net_plan *plan = &p->plan;
    SPIRA_TRY(plugin_carve(plan, p->record.dims, nullptr, &d->arrays, &bytes));
    SPIRA_TRY(pool_take(m, bytes, nullptr, &memory));
    SPIRA_TRY(pool_take(m, sizeof *d->trouble, nullptr, &trouble));
    SPIRA_TRY(plugin_carve(plan, p->record.dims, memory, &d->arrays, &bytes));
    d->trouble = (spira::device_status *)trouble;
    const plugin_arrays *a = &d->arrays;
    spira::voxel_input in = plugin_input(p->record.dims, b->in[input_coords], b->in[input_count]);
    SPIRA_TRY(spira::device_status_clear(d->trouble, stream));
    SPIRA_TRY(spira::voxelize(&p->layout, &in, a->set, a->rows, d->trouble, a->scratch,
                              a->scratch_bytes, stream));
    SPIRA_TRY(spira::voxel_features(spira::voxel_feature_mean, (const float *)b->in[input_values],
                                    4, 4, a->rows, a->set.count, a->set.capacity, p->record.type,
                                    a->features, stream));
    return spira::net_run(plan, a->set, a->features, b->in[input_weights], d->trouble, a->memory,
                          plan->workspace_bytes, nullptr, stream);
}

// Both are the same, `bytes` of them.
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

spira::status outputs_compare(const plugin *p, const bindings *b, const direct *d,
                              cudaStream_t stream, int32_t *rows) {
    const spira::net_step *last = &p->plan.step[p->plan.layer_count - 1];
    spira::voxel_set<word> set =
        spira::net_voxels(&p->plan, last->set, d->arrays.set, d->arrays.memory);
    spira::device_status trouble;
    ENQUEUE_CUDA(cudaStreamSynchronize(stream));
    ENQUEUE_CUDA(cudaMemcpy(rows, set.count, sizeof *rows, cudaMemcpyDeviceToHost));
    ENQUEUE_CUDA(
        cudaMemcpy(&trouble, b->out[output_status], sizeof trouble, cudaMemcpyDeviceToHost));
    SPIRA_TRY(spira::device_status_read(&trouble));
    size_t row = (size_t)last->channels * (size_t)spira::numeric_size(p->record.type);
    SPIRA_TRY(compare("count (differs)", b->out[output_count], set.count, sizeof(int32_t)));
    SPIRA_TRY(compare("words (differ)", b->out[output_words], set.words,
                      (size_t)set.capacity * sizeof(word)));
    return compare("features (differ)", b->out[output_features],
                   (char *)d->arrays.memory + last->features, (size_t)*rows * row);
}

spira::status enqueue_good(const plugin *p, const bindings *b, cudaStream_t stream) {
    int code = plugin_enqueue(p, b->in, b->out, b->workspace, stream);
    SPIRA_REQUIRE(code == 0, spira::status_unsupported, "enqueue", code);
    return spira::status_success();
}

// Captured in a graph, as a runtime may do.
spira::status enqueue_captured(const plugin *p, const bindings *b, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    ENQUEUE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    spira::status s = enqueue_good(p, b, stream);
    ENQUEUE_CUDA(cudaStreamEndCapture(stream, &graph));
    SPIRA_TRY(s);
    ENQUEUE_CUDA(cudaGraphInstantiate(&replay, graph, 0));
    ENQUEUE_CUDA(cudaGraphLaunch(replay, stream));
    ENQUEUE_CUDA(cudaStreamSynchronize(stream));
    ENQUEUE_CUDA(cudaGraphExecDestroy(replay));
    ENQUEUE_CUDA(cudaGraphDestroy(graph));
    return spira::status_success();
}

// One life of a plugin: made, asked, configured, bound, enqueued; serialised, and made again from
// what was serialised.
spira::status runtime(plugin *first, plugin *second, const frame *f, pool *m, cudaStream_t stream) {
    plugin_record record = {"SparseResNet21", spira::numeric_f16, {0, 0, 0}, {255, 255, 31}, {}};
    const plugin_dims dims = {30000, 25000};
    bindings b;
    direct d;
    int32_t rows;
    size_t bytes;
    SPIRA_TRY(plugin_create(&record, first));
    SPIRA_TRY(plugin_workspace(first, dims, &bytes));
    SPIRA_TRY(plugin_configure(first, dims));
    SPIRA_TRY(bindings_new(first, f, m, &b));
    SPIRA_TRY(plugin_pack(first, b.params, b.in[input_weights], stream));
    SPIRA_TRY(plugin_accept(first, f->count));
    SPIRA_TRY(direct_run(first, &b, m, stream, &d));
    SPIRA_TRY(bindings_forget(first, &b, stream));
    SPIRA_TRY(enqueue_good(first, &b, stream));
    SPIRA_TRY(outputs_compare(first, &b, &d, stream, &rows));

    char serialised[sizeof record];
    memcpy(serialised, &first->record, sizeof record);
    memcpy((void *)&record, serialised, sizeof record);
    SPIRA_TRY(plugin_create(&record, second));
    SPIRA_TRY(bindings_forget(second, &b, stream));
    SPIRA_TRY(enqueue_captured(second, &b, stream));
    SPIRA_TRY(outputs_compare(second, &b, &d, stream, &rows));
    printf("enqueue: %d voxels in, %d rows out, workspace %.1f MiB, weights %.1f MiB: the same as "
           "net_run, in a stream and in a graph\n",
           f->count, rows, (double)bytes / (1 << 20), (double)plugin_weights(first) / (1 << 20));
    return spira::status_success();
}

} // namespace

int main() {
    plugin *plugins = (plugin *)calloc(2, sizeof *plugins);
    pool m = {};
    frame f = {};
    cudaStream_t stream = nullptr;
    spira::status s = frame_new(20000, spira::triple_make(256, 256, 32), &f);
    if (!spira::status_failed(s)) {
        s = spira::status_from_cuda(cudaStreamCreate(&stream), "stream");
    }
    if (!spira::status_failed(s)) {
        s = runtime(&plugins[0], &plugins[1], &f, &m, stream);
        cudaStreamDestroy(stream);
    }
    pool_free(&m);
    free(f.values);
    free(f.coords);
    free(plugins);
    char text[256];
    if (spira::status_failed(s)) {
        fprintf(stderr, "enqueue: %s\n", spira::status_text(s, text, sizeof text));
    }
    return spira::status_failed(s);
}
