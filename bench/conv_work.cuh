// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/conv_work.cuh: one submanifold layer with everything that a dataflow reads: the ordered
// layout (os), lists of pairs (ws, atomic), or both, divided by a threshold (hybrid, atomic).
//
// Before a layer is timed, 2000 of its output rows are compared with sums in double, and all are
// looked at for elements that were not written.
#ifndef SPIRA_BENCH_CONV_WORK_CUH
#define SPIRA_BENCH_CONV_WORK_CUH

#include "bench.cuh"

struct conv_layer {
    int cin, cout, K;
    bool all_types; // fp32 and tf32 as well
};

[[maybe_unused]] static const conv_layer conv_layers[] = {
    {16, 16, 3, false},   {32, 32, 3, true},  {64, 64, 3, true},  {128, 128, 3, true},
    {256, 256, 3, false}, {16, 16, 5, false}, {32, 32, 5, false}, {64, 64, 5, false},
};

enum { conv_samples = 2000 };

// A submanifold kernel map in the forms that are needed.
struct conv_case {
    const char *input;
    int K;
    int32_t voxels;
    const int32_t *count; // [1], device
    const int32_t *map;   // [voxels, volume], host
    int64_t pairs;
    spira::conv_map by_order;
    spira::map_lists lists; // device; where a dataflow reads them
};

struct conv_work {
    int dataflow;
    spira::conv_args args;
    spira::status (*run)(const spira::device_info *gpu, const spira::conv_args *args,
                         cudaStream_t stream); // of the ordered dataflow
    void (*check)(bench_session *s, const conv_work *w, const conv_case *m, const char *label);
    spira::conv_pairs_args pairs;   // the same over lists of pairs
    spira::conv_hybrid_args hybrid; // and by both
    void *scratch;                  // of these
    size_t scratch_bytes;
    const void *in;          // [voxels, cin], host, as stored
    const float *weight;     // [volume, cin, cout], host, as it enters the product
    const float *step;       // [cout], host; of int8 (conv_i8.cuh), like
    const int8_t *quantised; // [volume, cin, cout], host
};

// The map is built by the code under test and compared with the host's before it is used.
SPIRA_API conv_case conv_case_make(bench_session *s, const bench_scene<uint64_t> *scene, int K) {
    spira::kernel_shape kernel = spira::kernel_cube(K, 1);
    int volume = spira::kernel_volume(&kernel);
    conv_case m = {};
    m.K = K;
    m.input = scene->input;
    m.voxels = scene->fine.host.capacity;
    m.count = scene->fine.device.count;
    int32_t *map = bench_device<int32_t>(&s->pool, (int64_t)m.voxels * volume);
    BENCH_TRY(spira::map_build(&scene->layout, &kernel, scene->fine.device, scene->fine.device, map,
                               s->stream));
    m.map = bench_map_host(&s->pool, &scene->layout, &kernel, &scene->fine, &scene->fine, &m.pairs);
    bench_check_pairs(m.input, K, m.pairs);
    bench_check_same(&s->pool, m.map, (const int32_t *)map, (int64_t)m.voxels * volume, m.input,
                     "kernel map");
    spira::order_request request = {};
    request.kernel = kernel;
    request.map = map;
    bench_order_make(&s->pool, scene, &request, &m.by_order);
    bench_check_order(&s->pool, &kernel, m.map, m.voxels, request.layout, m.input);
    if (s->options.dataflows != 1 << bench_dataflow_os) {
        m.lists = bench_lists(&s->pool, scene, &kernel, m.pairs);
    }
    return m;
}

// Random weights: packed for the device, and as the host multiplies them.
SPIRA_API void conv_weights(bench_session *s, conv_work *w) {
    spira::conv_shape *shape = &w->args.shape;
    int64_t elements = (int64_t)shape->volume * shape->cin * shape->cout;
    float *weight = bench_host<float>(&s->pool, elements);
    for (int64_t i = 0; i < elements; ++i) {
        weight[i] = bench_random(2, i);
    }
    size_t bytes = 0, pairs_bytes = 0;
    const float *given = bench_upload(&s->pool, weight, elements);
    BENCH_TRY(spira::conv_weights_bytes(bench_gpu(), shape, &bytes));
    BENCH_TRY(spira::conv_pairs_weights_bytes(bench_gpu(), shape, &pairs_bytes));
    char *packed = bench_device<char>(&s->pool, (int64_t)bytes);
    char *pairs = bench_device<char>(&s->pool, (int64_t)pairs_bytes);
    const spira::conv_weights own = {given, packed, bytes, nullptr};
    const spira::conv_weights of_pairs = {given, pairs, pairs_bytes, nullptr};
    BENCH_TRY(spira::conv_weights_pack(bench_gpu(), shape, &own, s->stream));
    BENCH_TRY(spira::conv_pairs_weights_pack(bench_gpu(), shape, &of_pairs, s->stream));
    BENCH_CUDA(cudaStreamSynchronize(s->stream));
    for (int64_t i = 0; i < elements; ++i) {
        weight[i] = spira::numeric_operand(shape->type, weight[i]);
    }
    w->args.weights = packed;
    w->pairs.weights = pairs;
    w->weight = weight;
}

SPIRA_API void conv_check(bench_session *s, const conv_work *w, const conv_case *m,
                          const char *label);

SPIRA_API spira::status conv_any_run(const spira::device_info *gpu, const spira::conv_args *args,
                                     cudaStream_t stream) {
    return spira::conv(gpu, args, stream);
}

// Everything for one layer; the output is NaN all over.
SPIRA_API conv_work conv_work_make(bench_session *s, const conv_case *m, const conv_layer *layer,
                                   spira::numeric type) {
    conv_work w = {};
    int element = spira::numeric_size(type);
    const spira::kernel_shape kernel = spira::kernel_cube(m->K, 1);
    w.args.shape = spira::conv_shape_of(&kernel, layer->cin, layer->cout, type);
    w.in = bench_features(&s->pool, type, 1, (int64_t)m->voxels * layer->cin);
    w.args.in =
        bench_upload(&s->pool, (const char *)w.in, (int64_t)m->voxels * layer->cin * element);
    conv_weights(s, &w);
    w.run = conv_any_run;
    w.check = conv_check;
    w.args.map = &m->by_order;
    w.args.programmatic = true; // behind another layer, as in a network
    int64_t bytes = (int64_t)m->voxels * layer->cout * element;
    w.args.out = bench_device<char>(&s->pool, bytes);
    BENCH_CUDA(cudaMemsetAsync(w.args.out, 0xff, (size_t)bytes, s->stream));
    return w;
}

// The layer over lists of pairs.
SPIRA_API void conv_work_lists(bench_session *s, const conv_case *m, conv_work *w) {
    const spira::conv_args *a = &w->args;
    spira::conv_pairs_args pairs = {};
    pairs.shape = a->shape;
    pairs.in = a->in;
    pairs.weights = w->pairs.weights;
    pairs.pairs = m->lists;
    pairs.count = m->count;
    pairs.capacity = m->voxels;
    pairs.out = a->out;
    w->pairs = pairs;
    BENCH_TRY(spira::conv_pairs_workspace(&pairs, &w->scratch_bytes));
    w->scratch = bench_device<char>(&s->pool, (int64_t)w->scratch_bytes);
}

// ---- by a threshold -----------------------------------------------------------------------------

// The layer with the offsets of a norm below `threshold` output-stationary.
SPIRA_API void conv_work_hybrid(bench_session *s, const bench_scene<uint64_t> *scene,
                                const conv_case *m, int threshold, conv_work *w,
                                spira::conv_map *map) {
    spira::conv_hybrid_args a = {};
    a.shape = w->args.shape;
    a.kernel = spira::kernel_cube(m->K, 1);
    a.threshold = threshold;
    a.in = w->args.in;
    a.out = w->args.out;
    int64_t elements = (int64_t)a.shape.volume * a.shape.cin * a.shape.cout;
    const float *weight = bench_upload(&s->pool, w->weight, elements);
    bench_hybrid_make(&s->pool, scene, m->pairs, weight, &a, map);
    BENCH_TRY(spira::conv_hybrid_workspace(&a, &w->scratch_bytes));
    w->scratch = bench_device<char>(&s->pool, (int64_t)w->scratch_bytes);
    w->hybrid = a;
}

SPIRA_API spira::status conv_step(void *context, cudaStream_t stream) {
    const conv_work *w = (const conv_work *)context;
    return w->dataflow == bench_dataflow_os ? w->run(bench_gpu(), &w->args, stream)
           : w->dataflow == bench_dataflow_hybrid
               ? spira::conv_hybrid(bench_gpu(), &w->hybrid, w->scratch, w->scratch_bytes, stream)
               : spira::conv_pairs_run(bench_gpu(), &w->pairs, w->scratch, w->scratch_bytes,
                                       stream);
}

// ---- the check ----------------------------------------------------------------------------------

// sum and magnitude [cout]: sum a w and sum |a| |w| of one output row. Returns the terms.
SPIRA_API int64_t conv_reference_row(const conv_work *w, const int32_t *taps, double *sum,
                                     double *magnitude) {
    const spira::conv_shape *s = &w->args.shape;
    int64_t terms = 0;
    for (int c = 0; c < s->cout; ++c) {
        sum[c] = magnitude[c] = 0;
    }
    for (int64_t k = 0; k < s->volume; ++k) {
        for (int64_t i = 0; taps[k] >= 0 && i < s->cin; ++i, ++terms) {
            float stored = spira::numeric_load(s->type, w->in, taps[k] * (int64_t)s->cin + i);
            const double a = (double)spira::numeric_operand(s->type, stored);
            const float *weight = w->weight + (k * s->cin + i) * s->cout;
            for (int c = 0; c < s->cout; ++c) {
                sum[c] += a * (double)weight[c];
                magnitude[c] += fabs(a * (double)weight[c]);
            }
        }
    }
    return terms;
}

// The largest error of a row over its bound; NaN counts as infinite. The bound: twice the
// textbook's for sums in fp32, because tensor cores cut off where fp32 units round, and one
// rounding to the storage type.
SPIRA_API double conv_check_row(const conv_work *w, const conv_case *m, const void *out, int row) {
    const spira::conv_shape *s = &w->args.shape;
    bool half = s->type == spira::numeric_f16 || s->type == spira::numeric_bf16;
    double epsilon = half ? spira::numeric_epsilon(s->type) : 0;
    double smallest = s->type == spira::numeric_f16 ? ldexp(1, -24) : ldexp(1, -126);
    double sum[spira::conv_channels_max], magnitude[spira::conv_channels_max], worst = 0;
    const int32_t *taps = m->map + (int64_t)row * s->volume;
    double scale = 2.0 * (double)(conv_reference_row(w, taps, sum, magnitude) + 4) * ldexp(1, -24);
    for (int c = 0; c < s->cout; ++c) {
        double got = (double)spira::numeric_load(s->type, out, (int64_t)row * s->cout + c);
        double error = scale * magnitude[c];
        double bound = error + epsilon * (fabs(sum[c]) + error) + smallest;
        double ratio = fabs(got - sum[c]) / bound;
        worst = fmax(worst, isnan(ratio) ? INFINITY : ratio);
    }
    return worst;
}

// Elements of the whole output that are not finite: nobody wrote them, or wrote what is no sum.
SPIRA_API int64_t conv_not_finite(spira::numeric type, const void *out, int64_t elements) {
    int64_t bad = 0;
#pragma omp parallel for reduction(+ : bad)
    for (int64_t i = 0; i < elements; ++i) {
        bad += !spira::float_is_finite(spira::numeric_load(type, out, i));
    }
    return bad;
}

SPIRA_API void conv_check(bench_session *s, const conv_work *w, const conv_case *m,
                          const char *label) {
    const spira::conv_shape *shape = &w->args.shape;
    int64_t elements = (int64_t)m->voxels * shape->cout;
    const char *out = bench_download(&s->pool, (const char *)w->args.out,
                                     elements * spira::numeric_size(shape->type));
    int64_t bad = conv_not_finite(shape->type, out, elements);
    if (bad) {
        bench_fail("%s: %lld of %lld outputs are not written or not finite", label, (long long)bad,
                   (long long)elements);
    }
    double worst[conv_samples];
    int samples = m->voxels < conv_samples ? m->voxels : conv_samples;
#pragma omp parallel for schedule(dynamic, 16)
    for (int i = 0; i < samples; ++i) {
        worst[i] = conv_check_row(w, m, out, bench_sample(m->voxels, conv_samples, i));
    }
    for (int i = 0; i < samples; ++i) {
        if (!(worst[i] <= 1)) {
            bench_fail("%s: output %d is off by %.3g times its bound", label,
                       bench_sample(m->voxels, conv_samples, i), worst[i]);
        }
    }
}

// ---- runs ---------------------------------------------------------------------------------------

// Checks a layer, then times it in about most_us.
SPIRA_API bench_time conv_measure(bench_session *s, conv_work *w, const conv_case *m,
                                  const char *label, double most_us) {
    const spira::conv_shape *shape = &w->args.shape;
    int64_t bytes = (int64_t)m->voxels * shape->cout * spira::numeric_size(shape->type);
    int keep = s->pool.blocks;
    BENCH_CUDA(cudaMemsetAsync(w->args.out, 0xff, (size_t)bytes, s->stream));
    BENCH_TRY(conv_step(w, s->stream));
    w->check(s, w, m, label);
    bench_pool_free(&s->pool, keep);
    return bench_measure_within(s->stream, conv_step, w, most_us);
}

// The row of a layer, without layout and dataflow.
SPIRA_API bench_row conv_row(const bench_session *s, const bench_scene<uint64_t> *scene,
                             const conv_case *m, const conv_layer *layer, spira::numeric type) {
    bench_row row = bench_row_make(s->options.sweep_widths ? "widths" : "conv", scene);
    row.K = layer->K;
    row.cin = layer->cin;
    row.cout = layer->cout;
    row.dtype = spira::numeric_name(type);
    row.pairs = m->pairs;
    row.flops = 2 * m->pairs * layer->cin * layer->cout;
    return row;
}

typedef void (*conv_body)(bench_session *s, const bench_scene<uint64_t> *scene, const conv_case *m,
                          const conv_layer *layer);

enum { conv_widths_most = 40 };

// Layers of size 3, of 16 to 128 channels in steps of 4, and of wider ones. Returns how many.
SPIRA_API int conv_widths(conv_layer layers[conv_widths_most]) {
    int count = 0;
    for (int c = 16; c <= 128; c += 4) {
        layers[count++] = {c, c, 3, false};
    }
    for (const int c : {144, 192, 256, 512, 1024}) {
        layers[count++] = {c, c, 3, false};
    }
    return count;
}

// Runs all layers over an input, or those that are asked for.
SPIRA_API void conv_each_layer(bench_session *s, const bench_input *input, conv_body body) {
    bench_scene<uint64_t> scene = bench_scene_wide(&s->pool, input);
    int keep = s->pool.blocks;
    const int *only = s->options.only;
    conv_layer one = {only[0], only[1], only[2], true};
    conv_layer widths[conv_widths_most];
    const conv_layer *layers = only[0] ? &one : conv_layers;
    int count = only[0] ? 1 : (int)(sizeof conv_layers / sizeof *conv_layers);
    if (s->options.sweep_widths) {
        layers = widths;
        count = conv_widths(widths);
    }
    conv_case m = {};
    for (int i = 0; i < count; ++i) { // layers of one K stand together
        if (i == 0 || m.K != layers[i].K) {
            bench_pool_free(&s->pool, keep);
            m = conv_case_make(s, &scene, layers[i].K);
        }
        int layer = s->pool.blocks;
        body(s, &scene, &m, &layers[i]);
        bench_pool_free(&s->pool, layer);
    }
}

#endif
