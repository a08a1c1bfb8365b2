// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/net_check.cuh: checks the results of a network before it is timed.
//
// The network runs once with all features kept. Its sets are compared with the host's. A sample of
// rows of each convolution is compared with sums in double over the inputs that the layer had on
// the device, by the bounds of examples/scan_check.h. The features of the input, joins and dense
// maps equal those of the host loops bit by bit. Every timed run must then give the same sets and,
// bit by bit, the same features of the last layer. Sampled rows of int8 layers equal those of the
// host loop bit by bit; that of a layer that makes int8 of fp16 is left to tests/gpu/net_i8.cu.
#ifndef SPIRA_BENCH_NET_CHECK_CUH
#define SPIRA_BENCH_NET_CHECK_CUH

#include "net_work.cuh"

// Sampled rows of a layer; fewer where the kernel has more than net_volume_large offsets.
enum { net_samples = 256, net_samples_large = 64, net_volume_large = 343 };

struct net_sample {
    int32_t outputs, pairs;
    const int32_t *output; // [outputs] rows of the layer
    const int32_t *source; // [pairs] rows of its source; without a map the same
    const int32_t *map;    // [outputs, volume] into source, or -1; null: the identity
};

template <typename W>
static net_sample net_sample_make(bench_pool *pool, const net_work<W> *w, int layer) {
    const spira::net_step *step = &w->plan->step[layer];
    // A fused layer is sampled in the rows of the layer that it is fused into.
    const int reader = step->fused_into == spira::net_none ? layer : step->fused_into;
    int volume = step->shape.volume, most = w->plan->step[reader].shape.volume > net_volume_large
                                                ? net_samples_large
                                                : net_samples;
    int32_t rows = *w->sets[step->set].count, outputs = rows < most ? rows : most;
    int32_t *output = bench_host<int32_t>(pool, (int64_t)outputs * (1 + 2 * volume));
    int32_t *map = output + outputs, *source = map + (int64_t)outputs * volume;
    for (int i = 0; i < outputs; ++i) {
        output[i] = bench_sample(rows, most, i);
    }
    net_sample sample = {};
    sample.outputs = sample.pairs = outputs;
    sample.output = sample.source = output;
    if (step->map == spira::net_none) {
        return sample;
    }
    const spira::net_map *m = &w->plan->map[step->map];
    spira::voxel_set<W> from = w->sets[m->source], to = w->sets[m->outputs];
    const auto walk = spira::search_walk_make<W>(&w->scene.layout, &m->kernel);
    sample.pairs = 0;
    sample.source = source;
    sample.map = map;
    for (int i = 0; i < outputs; ++i) {
        int32_t *taps = map + (int64_t)i * volume;
        spira::search_voxel(walk, from.words, *from.count, to.words[output[i]], taps);
        for (int k = 0; k < volume; ++k) {
            if (taps[k] >= 0) {
                source[sample.pairs] = taps[k];
                taps[k] = sample.pairs++;
            }
        }
    }
    return sample;
}

// to [rows, bytes]: the rows of `from` that `row` [rows] names. A thread a byte.
SPIRA_KERNEL void net_gather_kernel(const char *from, const int32_t *row, int64_t rows, int bytes,
                                    char *to) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * bytes) {
        to[i] = from[(int64_t)row[i / bytes] * bytes + i % bytes];
    }
}

// Rows of a layer, or of the network's input, as floats: the caller frees them. Null for no layer.
template <typename W>
static float *net_fetch(bench_session *s, const net_work<W> *w, int source, const int32_t *row,
                        int32_t rows) {
    if (source == spira::net_none) {
        return nullptr;
    }
    int keep = s->pool.blocks, channels = spira::net_source_channels(w->plan, source);
    const spira::numeric type = spira::net_type_of(w->plan, source);
    int bytes = channels * spira::numeric_size(type);
    int64_t values = (int64_t)rows * channels;
    char *gathered = bench_device<char>(&s->pool, (int64_t)rows * bytes);
    const char *from =
        (const char *)spira::net_features_of(w->plan, source, w->features, w->memory);
    net_gather_kernel<<<(unsigned)spira::ceil_div((int64_t)rows * bytes, 256), 256, 0, s->stream>>>(
        from, bench_upload(&s->pool, row, rows), rows, bytes, gathered);
    BENCH_CUDA(cudaGetLastError());
    const char *host = bench_download(&s->pool, gathered, (int64_t)rows * bytes);
    float *floats = (float *)malloc((size_t)values * sizeof(float));
    if (!floats) {
        bench_fail("out of host memory");
    }
    for (int64_t i = 0; i < values; ++i) {
        floats[i] = spira::numeric_load(type, host, i);
    }
    bench_pool_free(&s->pool, keep);
    return floats;
}

// The sampled rows of a layer, with what they are computed from.
template <typename W>
static side::check_layer net_check_fetch(bench_session *s, const net_work<W> *w, int layer,
                                         const net_sample *sample) {
    side::check_layer c = {};
    c.layer = &w->plan->layers[layer];
    c.step = &w->plan->step[layer];
    c.at = spira::net_params_of(w->plan, layer);
    c.params = w->params;
    c.map = sample->map;
    c.outputs = sample->outputs;
    c.in = net_fetch(s, w, spira::net_number(c.layer->source), sample->source, sample->pairs);
    c.in2 = net_fetch(s, w, spira::net_number(c.layer->source2), sample->source, sample->pairs);
    if (c.step->shortcut == spira::net_none) {
        c.residual =
            net_fetch(s, w, spira::net_number(c.layer->residual), sample->output, sample->outputs);
    }
    if (c.step->fused_into == spira::net_none) {
        c.got = net_fetch(s, w, layer, sample->output, sample->outputs);
    }
    return c;
}

// The features of the input's voxels.
template <typename W>
static void net_check_values(bench_session *s, const net_work<W> *w) {
    int keep = s->pool.blocks;
    const bench_scene<W> *scene = &w->scene;
    const int32_t voxels = scene->fine.host.capacity;
    const int64_t bytes = net_bytes(w, spira::net_input);
    char *expected = bench_host<char>(&s->pool, bytes);
    spira::voxel_features_args<W> mean = net_values_mean(w);
    mean.values = w->values.host;
    mean.rows.begin = bench_download(&s->pool, scene->rows.begin, (int64_t)voxels + 1);
    mean.rows.order = bench_download(&s->pool, scene->rows.order, mean.rows.begin[voxels]);
    mean.set = scene->fine.host;
    mean.features = expected;
    BENCH_TRY(spira::voxel_features_host(&mean));
    bench_check_same(&s->pool, expected, (const char *)w->features, bytes, w->label,
                     "features of the voxels");
    bench_pool_free(&s->pool, keep);
}

// A layer's features, or the input's, in host memory.
template <typename W>
static const void *net_download(bench_session *s, const net_work<W> *w, int layer) {
    const void *from = spira::net_features_of(w->plan, layer, w->features, w->memory);
    return bench_download(&s->pool, (const char *)from, net_bytes(w, layer));
}

// Compares a layer's features with expected ones.
template <typename W>
static void net_check_same(bench_session *s, const net_work<W> *w, int layer,
                           const void *expected) {
    const void *got = spira::net_features_of(w->plan, layer, w->features, w->memory);
    bench_check_same(&s->pool, (const char *)expected, (const char *)got, net_bytes(w, layer),
                     w->label, w->plan->layers[layer].name);
}

// A join: its sums, from the source rows that the device has found.
template <typename W>
static void net_check_join(bench_session *s, const net_work<W> *w, int layer) {
    const spira::net_run_args<W> run = net_args(w);
    const spira::net_step *step = &w->plan->step[layer];
    const spira::net_reads reads = spira::net_reads_of(&w->plan->layers[layer]);
    const int32_t voxels = *w->sets[step->set].count;
    spira::join_sum_args args = spira::net_join_sum_args(w->plan, layer, &run);
    args.sets = 0;
    for (int source : reads.layer) {
        if (source != spira::net_none) {
            args.in[args.sets++] = net_download(s, w, source);
        }
    }
    args.rows.begin = bench_download(&s->pool, args.rows.begin, (int64_t)voxels + 1);
    args.rows.order = bench_download(&s->pool, args.rows.order, args.rows.begin[voxels]);
    args.count = w->sets[step->set].count;
    args.out = bench_host<char>(&s->pool, net_bytes(w, layer));
    BENCH_TRY(spira::join_sum_host(&args));
    net_check_same(s, w, layer, args.out);
}

// A dense map.
template <typename W>
static void net_check_dense(bench_session *s, const net_work<W> *w, int layer) {
    const spira::net_run_args<W> run = net_args(w);
    spira::device_status trouble = {};
    spira::dense_args<W> args = spira::net_dense_args(w->plan, layer, &run);
    args.set = w->sets[w->plan->step[layer].set];
    args.features = net_download(s, w, spira::net_number(w->plan->layers[layer].source));
    args.out = bench_host<char>(&s->pool, net_bytes(w, layer));
    args.trouble = &trouble;
    BENCH_TRY(spira::dense_host(&args));
    BENCH_TRY(spira::device_status_read(&trouble));
    net_check_same(s, w, layer, args.out);
}

// A layer that is no convolution.
template <typename W>
static void net_check_other(bench_session *s, const net_work<W> *w, int layer) {
    int keep = s->pool.blocks;
    const spira::net_op op = w->plan->layers[layer].op;
    if (op == spira::net_join) {
        net_check_join(s, w, layer);
    } else if (op == spira::net_dense) {
        net_check_dense(s, w, layer);
    } else {
        bench_fail("%s: %s: no check", w->label, w->plan->layers[layer].name);
    }
    bench_pool_free(&s->pool, keep);
}

// Floats as another format has them.
static void *net_stored(bench_pool *pool, const float *floats, int64_t count, spira::numeric type) {
    char *to = floats ? bench_host<char>(pool, count * spira::numeric_size(type)) : nullptr;
    for (int64_t i = 0; floats && i < count; ++i) {
        spira::numeric_store(type, to, i, floats[i]);
    }
    return to;
}

// The rows of both sources of an int8 layer or of its shortcut: to->in, to->in2.
template <typename T>
static void net_stored_i8(bench_pool *pool, const side::check_layer *c, int64_t rows, T *to) {
    const spira::conv_shape *shape = &c->step->shape;
    to->in = (const int8_t *)net_stored(pool, c->in, rows * shape->cin, spira::numeric_i8);
    to->in2 = (const int8_t *)net_stored(pool, c->in2, rows * shape->cin2, spira::numeric_i8);
}

// Sampled rows of an int8 layer are those of the host loop, to the bit. fused: its shortcut, of the
// same outputs, or null
template <typename W>
static void net_check_i8(bench_session *s, const net_work<W> *w, int layer,
                         const net_sample *sample, side::check_layer *c, side::check_layer *fused) {
    int keep = s->pool.blocks;
    const spira::conv_shape *shape = &c->step->shape;
    const float *vectors = w->params + c->at.vectors;
    const int64_t values = (int64_t)sample->outputs * shape->cout;
    spira::net_i8_operands operands;
    char *memory =
        bench_host<char>(&s->pool, spira::net_i8_carve(w->plan, layer, nullptr, &operands));
    (void)spira::net_i8_carve(w->plan, layer, memory, &operands);
    BENCH_TRY(spira::net_i8_operands_make(w->plan, layer, w->params, &operands));
    spira::conv_i8_host_args a = {};
    spira::conv_shortcut shortcut = {};
    net_stored_i8(&s->pool, c, sample->pairs, &a);
    if (fused) {
        const spira::conv_epilogue own =
            spira::net_epilogue(w->plan, c->step->shortcut, w->params + fused->at.vectors);
        shortcut.cin = fused->step->shape.cin;
        shortcut.cin2 = fused->step->shape.cin2;
        net_stored_i8(&s->pool, fused, sample->outputs, &shortcut);
        shortcut.weights = operands.shortcut;
        shortcut.bias = own.bias;
        shortcut.shift = own.shift;
        a.shortcut = &shortcut;
    }
    a.shape = *shape;
    a.weight = operands.weight;
    a.map = sample->map;
    a.outputs = sample->outputs;
    a.epilogue = spira::net_epilogue(w->plan, layer, vectors);
    a.quantisation = spira::net_quantisation(w->plan, layer, vectors);
    a.quantisation.step = operands.step;
    a.epilogue.residual = net_stored(&s->pool, c->residual, values,
                                     spira::conv_residual_type(shape, &a.quantisation));
    char *out = bench_host<char>(&s->pool, values * spira::numeric_size(c->step->type));
    BENCH_TRY(spira::conv_i8_host(&a, out));
    for (int64_t i = 0; i < values; ++i) {
        if (spira::numeric_load(c->step->type, out, i) != c->got[i]) {
            bench_fail("%s: %s: an int8 output differs from the host's", w->label, c->layer->name);
        }
    }
    side::check_free(c);
    if (fused) {
        side::check_free(fused);
    }
    bench_pool_free(&s->pool, keep);
}

template <typename W>
static void net_check_layers(bench_session *s, const net_work<W> *w) {
    int keep = s->pool.blocks, layers = w->plan->layer_count;
    side::check_layer *c = bench_host<side::check_layer>(&s->pool, layers);
    net_sample *sample = bench_host<net_sample>(&s->pool, layers);
    spira::status *status = bench_host<spira::status>(&s->pool, layers);
    double *worst = bench_host<double>(&s->pool, layers); // in units of the bound
    int convolutions = 0;
    int *layer = bench_host<int>(&s->pool, layers); // of the convolutions
    memset((void *)c, 0, (size_t)layers * sizeof *c);
    for (int i = 0; i < layers; ++i) {
        if (spira::net_is_conv(&w->plan->layers[i])) {
            sample[i] = net_sample_make(&s->pool, w, i);
            c[i] = net_check_fetch(s, w, i, &sample[i]);
            const bool i8 = w->plan->step[i].shape.type == spira::numeric_i8;
            const int shortcut = w->plan->step[i].shortcut;
            if (i8 && c[i].got) { // else it is checked with the layer that it is fused into
                net_check_i8(s, w, i, &sample[i], &c[i],
                             shortcut == spira::net_none ? nullptr : &c[shortcut]);
            } else if (i8) {
                continue;
            } else if (w->plan->step[i].type != spira::numeric_i8) { // which has another bound
                layer[convolutions++] = i;
            }
        } else {
            net_check_other(s, w, i);
        }
    }
#pragma omp parallel for schedule(dynamic)
    for (int n = 0; n < convolutions; ++n) {
        const int i = layer[n];
        status[i] = side::check_compute(&c[i], sample[i].pairs, w->limits.type);
        side::check_free_operands(&c[i]);
    }
    for (int n = 0; n < convolutions; ++n) {
        const int i = layer[n];
        BENCH_TRY(status[i]);
        const int shortcut = w->plan->step[i].shortcut;
        c[i].shortcut = shortcut == spira::net_none ? nullptr : &c[shortcut];
        worst[i] = c[i].got ? side::check_worst(&c[i], w->limits.type) : 0;
    }
    for (int n = 0; n < convolutions; ++n) {
        const int i = layer[n];
        side::check_free(&c[i]);
        if (!(worst[i] <= 1)) {
            bench_fail("%s: %s: an output is off by %.3g times its bound", w->label,
                       w->plan->layers[i].name, worst[i]);
        }
    }
    bench_pool_free(&s->pool, keep);
}

template <typename W>
static void net_check_sets(bench_session *s, const net_work<W> *w) {
    for (int i = 0; i < w->plan->sets; ++i) {
        bench_check_set(&s->pool, w->sets[i], net_set(w, i), w->label, "coordinate sets");
    }
    bench_check_trouble(&s->pool, w->scene.trouble);
}

// Checks a run with all features kept, and saves those of the last layer.
template <typename W>
static void net_check(bench_session *s, net_work<W> *w) {
    size_t bytes = (size_t)net_last_bytes(w);
    w->expected = bench_host<char>(&s->pool, (int64_t)bytes);
    int keep = s->pool.blocks;
    w->memory = bench_device<char>(&s->pool, (int64_t)w->plan->workspace_bytes);
    BENCH_TRY(net_run_step<W>(w, s->stream));
    net_check_sets(s, w);
    net_check_values(s, w);
    net_check_layers(s, w);
    BENCH_CUDA(cudaMemcpyAsync(w->expected, net_last(w).features, bytes, cudaMemcpyDeviceToHost,
                               s->stream));
    bench_pool_free(&s->pool, keep); // waits
}

// Makes the plan that is timed, whose features share memory, and its workspace.
template <typename W>
static void net_place(bench_session *s, net_work<W> *w) {
    net_plan_make(w, false);
    w->memory = bench_device<char>(&s->pool, (int64_t)w->plan->workspace_bytes);
}

// Compares the features of the last layer with those of net_check.
template <typename W>
static void net_check_last(bench_session *s, const net_work<W> *w) {
    bench_check_same(&s->pool, w->expected, (const char *)net_last(w).features, net_last_bytes(w),
                     w->label, "features of the last layer");
}

// Runs a step, captured in a graph or not, and compares its sets, and its features if it computes
// them, with those of net_check. Sets and features are overwritten before, the features with NaN,
// so that nothing of an earlier run can pass.
template <typename W>
static void net_check_step(bench_session *s, const net_work<W> *w, bench_step step, void *context,
                           bool captured, bool features) {
    for (int i = 1; i < w->plan->sets; ++i) {
        spira::voxel_set<W> set = net_set(w, i);
        BENCH_CUDA(
            cudaMemsetAsync(set.words, bench_poison, (size_t)set.capacity * sizeof(W), s->stream));
        BENCH_CUDA(cudaMemsetAsync(set.count, bench_poison, sizeof *set.count, s->stream));
    }
    BENCH_CUDA(cudaMemsetAsync(net_last(w).features, 0xff, (size_t)net_last_bytes(w), s->stream));
    if (captured) {
        cudaGraphExec_t exec = bench_capture(s->stream, step, context, 1);
        BENCH_TRY(bench_graph_step(exec, s->stream));
        BENCH_CUDA(cudaStreamSynchronize(s->stream));
        BENCH_CUDA(cudaGraphExecDestroy(exec));
    } else {
        BENCH_TRY(step(context, s->stream));
    }
    net_check_sets(s, w);
    if (features) {
        net_check_last(s, w);
    }
}

#endif
