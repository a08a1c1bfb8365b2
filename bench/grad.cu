// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/grad.cu: gradients of one submanifold layer, kernel maps and pair lists ready: those of the
// inputs, the weights and the bias, and the transform of the weights that the input gradient reads.
//
//     build/bench_grad [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32] data/*.vox32
//
// `flops` are 2 * pairs * cin * cout for inputs and weights. Before a gradient is timed, elements
// of it are compared with sums in double, and all are looked at for those that were not written.
// Compiled for fp16; for the other formats with -DBENCH_GRAD_FORMAT=spira::numeric_any.
#include "bench.cuh"

#ifndef BENCH_GRAD_FORMAT
#define BENCH_GRAD_FORMAT spira::numeric_f16
#endif

static const int grad_layers[][3] = {{16, 16, 3},   {32, 32, 3},  {64, 64, 3}, {128, 128, 3},
                                     {256, 256, 3}, {64, 128, 3}, {4, 16, 3}};

enum { grad_rows = 500, grad_elements = 16 }; // compared: of inputs; of the weights of an offset

struct grad_work {
    spira::conv_map map;
    spira::conv_grad_input_args input;
    spira::conv_grad_weight_args weight;
    const float *given; // [volume, cin, cout], device
    void *packed;
    size_t packed_bytes;
    float *bias;      // [cout]
    char *scratch[2]; // of the weight gradient, of the bias gradient
    size_t bytes[2];
    // On the host:
    const int32_t *taps;  // [voxels, volume]
    const char *in, *out; // features, gradients of the outputs
    const float *weights;
    int32_t voxels;
    int64_t pairs;
};

// The value of a feature as it enters a product.
static double grad_value(const grad_work *w, const char *features, int64_t at) {
    const spira::numeric type = w->weight.shape.type;
    return (double)spira::numeric_operand(type, spira::numeric_load(type, features, at));
}

// ---- steps --------------------------------------------------------------------------------------

static spira::status grad_transform_step(void *context, cudaStream_t stream) {
    const grad_work *w = (const grad_work *)context;
    const spira::conv_weights weights = {w->given, w->packed, w->packed_bytes, nullptr};
    return spira::conv_grad_weights_pack<BENCH_GRAD_FORMAT>(
        bench_gpu(), &w->input.shape, spira::grad_source_both, spira::grad_order_mirrored, &weights,
        stream);
}

static spira::status grad_input_step(void *context, cudaStream_t stream) {
    const grad_work *w = (const grad_work *)context;
    return spira::conv_grad_input<BENCH_GRAD_FORMAT>(bench_gpu(), &w->input, stream);
}

static spira::status grad_weight_step(void *context, cudaStream_t stream) {
    const grad_work *w = (const grad_work *)context;
    return spira::conv_grad_weight<BENCH_GRAD_FORMAT>(bench_gpu(), &w->weight, w->scratch[0],
                                                      w->bytes[0], stream);
}

static spira::status grad_both_step(void *context, cudaStream_t stream) {
    grad_work *w = (grad_work *)context;
    spira::conv_grad_weight_args a = w->weight;
    a.bias_grad = w->bias;
    return spira::conv_grad_weight<BENCH_GRAD_FORMAT>(bench_gpu(), &a, w->scratch[0], w->bytes[0],
                                                      stream);
}

static spira::status grad_bias_step(void *context, cudaStream_t stream) {
    const grad_work *w = (const grad_work *)context;
    const spira::conv_grad_weight_args *a = &w->weight;
    const spira::conv_grad_bias_args args = {a->shape.type, a->shape.cout, a->out_grad,
                                             a->count,      a->capacity,   w->bias};
    return spira::conv_grad_bias<BENCH_GRAD_FORMAT>(bench_gpu(), &args, w->scratch[1], w->bytes[1],
                                                    stream);
}

// ---- the layer ----------------------------------------------------------------------------------

static void grad_map(bench_session *s, const bench_scene<uint64_t> *scene,
                     const spira::kernel_shape *kernel, grad_work *w) {
    spira::conv_map_request<uint64_t> layer = {};
    spira::grad_order order;
    layer.layout = &scene->layout;
    layer.kernel = *kernel;
    layer.source = layer.outputs = scene->fine.device;
    layer.trouble = scene->trouble;
    const spira::conv_map_request<uint64_t> request = spira::conv_grad_request(&layer, &order);
    size_t bytes = 0;
    BENCH_TRY(spira::conv_map_bytes(bench_gpu(), &request, &bytes));
    BENCH_TRY(spira::conv_map_build(bench_gpu(), &request,
                                    bench_device<char>(&s->pool, (int64_t)bytes), bytes, &w->map,
                                    s->stream));
}

static void grad_scratch(bench_session *s, grad_work *w) {
    const spira::conv_shape *shape = &w->weight.shape;
    BENCH_TRY(spira::conv_grad_weight_workspace(bench_gpu(), shape, &w->bytes[0]));
    BENCH_TRY(spira::conv_grad_bias_workspace(shape->cout, &w->bytes[1]));
    BENCH_TRY(spira::conv_grad_weights_bytes(bench_gpu(), shape, spira::grad_source_both,
                                             &w->packed_bytes));
    for (int i = 0; i < 2; ++i) {
        w->scratch[i] = bench_device<char>(&s->pool, (int64_t)w->bytes[i]);
    }
    w->packed = bench_device<char>(&s->pool, (int64_t)w->packed_bytes);
}

static grad_work grad_work_make(bench_session *s, const bench_scene<uint64_t> *scene,
                                const int *layer, spira::numeric type) {
    grad_work w = {};
    bench_pool *pool = &s->pool;
    const spira::kernel_shape kernel = spira::kernel_cube(layer[2], 1);
    const spira::conv_shape shape = spira::conv_shape_of(&kernel, layer[0], layer[1], type);
    const int64_t element = spira::numeric_size(type);
    w.voxels = scene->fine.host.capacity;
    w.input.shape = w.weight.shape = shape;
    w.taps = bench_map_host(pool, &scene->layout, &kernel, &scene->fine, &scene->fine, &w.pairs);
    bench_check_pairs(scene->input, layer[2], w.pairs);
    grad_map(s, scene, &kernel, &w);
    const int64_t weights = (int64_t)shape.volume * shape.cin * shape.cout;
    const int64_t ins = (int64_t)w.voxels * shape.cin, outs = (int64_t)w.voxels * shape.cout;
    float *weight = bench_host<float>(pool, weights);
    for (int64_t i = 0; i < weights; ++i) {
        weight[i] = bench_random(2, i);
    }
    w.weights = weight;
    w.given = bench_upload(pool, weight, weights);
    w.in = bench_features(pool, type, 1, ins);
    w.out = bench_features(pool, type, 3, outs);
    w.weight.in = bench_upload(pool, w.in, ins * element);
    w.weight.out_grad = w.input.out_grad = bench_upload(pool, w.out, outs * element);
    w.weight.pairs = bench_lists(pool, scene, &kernel, w.pairs);
    w.weight.count = scene->fine.device.count;
    w.weight.capacity = w.voxels;
    w.weight.weight_grad = bench_device<float>(pool, weights);
    w.weight.programmatic = w.input.programmatic = true;
    grad_scratch(s, &w);
    w.input.weights = w.packed;
    w.input.in_grad = bench_device<char>(pool, ins * element);
    w.bias = bench_device<float>(pool, shape.cout);
    BENCH_CUDA(cudaMemsetAsync(w.weight.weight_grad, 0xff, (size_t)weights * 4, s->stream));
    BENCH_CUDA(cudaMemsetAsync(w.input.in_grad, 0xff, (size_t)(ins * element), s->stream));
    return w;
}

// ---- the checks ---------------------------------------------------------------------------------

// Twice the textbook's bound of a sum in fp32, and one rounding to the storage type.
static void grad_judge(const char *label, const char *what, int64_t at, double got, double sum,
                       double magnitude, int64_t terms, double epsilon, double smallest) {
    const double error = 2.0 * (double)(terms + 4) * ldexp(magnitude, -24);
    const double bound = error + epsilon * (fabs(sum) + error) + smallest;
    if (!(fabs(got - sum) <= bound)) {
        bench_fail("%s: %s: element %lld is %.9g instead of %.9g; bound %.3g", label, what,
                   (long long)at, got, sum, bound);
    }
}

static void grad_check_input(bench_session *s, const grad_work *w, const char *label) {
    const spira::conv_shape *p = &w->input.shape;
    const bool half = spira::numeric_size(p->type) == 2;
    const int64_t total = (int64_t)w->voxels * p->cin;
    const char *got = bench_download(&s->pool, (const char *)w->input.in_grad,
                                     total * spira::numeric_size(p->type));
    for (int64_t i = 0; i < total; ++i) {
        if (!spira::float_is_finite(spira::numeric_load(p->type, got, i))) {
            bench_fail("%s: input gradient: element %lld is not finite", label, (long long)i);
        }
    }
#pragma omp parallel for schedule(dynamic, 16)
    for (int r = 0; r < (w->voxels < grad_rows ? w->voxels : (int)grad_rows); ++r) {
        const int64_t i = bench_sample(w->voxels, grad_rows, r);
        for (int64_t c = 0; c < p->cin; ++c) {
            double sum = 0, magnitude = 0;
            int64_t terms = 0;
            for (int64_t k = 0; k < p->volume; ++k) {
                const int64_t o = w->taps[i * p->volume + k];
                const float *from = w->weights + ((p->volume - 1 - k) * p->cin + c) * p->cout;
                for (int64_t n = 0; n < p->cout && o >= 0; ++n, ++terms) {
                    const double v = grad_value(w, w->out, o * p->cout + n) *
                                     (double)spira::numeric_operand(p->type, from[n]);
                    sum += v;
                    magnitude += fabs(v);
                }
            }
            grad_judge(label, "input gradient", i * p->cin + c,
                       (double)spira::numeric_load(p->type, got, i * p->cin + c), sum, magnitude,
                       terms, half ? spira::numeric_epsilon(p->type) : 0,
                       p->type == spira::numeric_f16 ? ldexp(1, -24) : ldexp(1, -126));
        }
    }
}

static void grad_check_weight(bench_session *s, const grad_work *w, const char *label) {
    const spira::conv_shape *p = &w->weight.shape;
    const int64_t size = (int64_t)p->cin * p->cout;
    const float *got =
        bench_download(&s->pool, (const float *)w->weight.weight_grad, p->volume * size);
    for (int64_t i = 0; i < p->volume * size; ++i) {
        if (!spira::float_is_finite(got[i])) {
            bench_fail("%s: weight gradient: element %lld is not finite", label, (long long)i);
        }
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t j = 0; j < (int64_t)p->volume * grad_elements; ++j) {
        const int64_t k = j / grad_elements,
                      e = bench_sample((int32_t)size, grad_elements, (int)(j % grad_elements));
        const int64_t c = e / p->cout, n = e % p->cout;
        double sum = 0, magnitude = 0;
        int64_t terms = 0;
        for (int64_t o = 0; o < w->voxels; ++o) {
            const int64_t i = w->taps[o * p->volume + k];
            if (i >= 0) {
                const double v =
                    grad_value(w, w->in, i * p->cin + c) * grad_value(w, w->out, o * p->cout + n);
                sum += v;
                magnitude += fabs(v);
                ++terms;
            }
        }
        grad_judge(label, "weight gradient", k * size + e, (double)got[k * size + e], sum,
                   magnitude, terms, 0, ldexp(1, -126));
    }
}

static void grad_check_bias(bench_session *s, const grad_work *w, const char *label) {
    const spira::conv_shape *p = &w->weight.shape;
    const float *got = bench_download(&s->pool, (const float *)w->bias, p->cout);
    for (int64_t n = 0; n < p->cout; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t o = 0; o < w->voxels; ++o) {
            const double v = (double)spira::numeric_load(p->type, w->out,
                                                         o * p->cout + n); // not rounded to tf32
            sum += v;
            magnitude += fabs(v);
        }
        grad_judge(label, "bias gradient", n, (double)got[n], sum, magnitude, w->voxels, 0,
                   ldexp(1, -126));
    }
}

// ---- runs ---------------------------------------------------------------------------------------

static void grad_time(bench_session *s, grad_work *w, const char *pass, bench_step step,
                      bench_row *row) {
    row->pass = pass;
    row->time = bench_measure(s->stream, step, w);
    bench_print(s, row);
}

static void grad_run(bench_session *s, const bench_scene<uint64_t> *scene, const int *layer,
                     spira::numeric type) {
    const int keep = s->pool.blocks;
    char label[200];
    snprintf(label, sizeof label, "%.120s: %d,%d,%d %s", scene->input, layer[0], layer[1], layer[2],
             spira::numeric_name(type));
    grad_work w = grad_work_make(s, scene, layer, type);
    w.input.map = &w.map;
    BENCH_TRY(grad_transform_step(&w, s->stream));
    BENCH_TRY(grad_input_step(&w, s->stream));
    BENCH_TRY(grad_weight_step(&w, s->stream));
    BENCH_TRY(grad_bias_step(&w, s->stream));
    grad_check_input(s, &w, label);
    grad_check_weight(s, &w, label);
    grad_check_bias(s, &w, label);
    BENCH_CUDA(cudaMemsetAsync(w.bias, 0xff, (size_t)layer[1] * sizeof(float), s->stream));
    BENCH_TRY(grad_both_step(&w, s->stream));
    grad_check_bias(s, &w, label);
    bench_row row = bench_row_make("grad", scene);
    row.cin = layer[0];
    row.cout = layer[1];
    row.K = layer[2];
    row.dtype = spira::numeric_name(type);
    row.pairs = w.pairs;
    grad_time(s, &w, "input gradient, weights", grad_transform_step, &row);
    grad_time(s, &w, "bias gradient", grad_bias_step, &row);
    row.flops = 2 * w.pairs * layer[0] * layer[1];
    grad_time(s, &w, "input gradient", grad_input_step, &row);
    row.bytes = w.pairs * (layer[0] + layer[1]) * spira::numeric_size(type); // gathered
    grad_time(s, &w, "weight gradient", grad_weight_step, &row);
    grad_time(s, &w, "weight and bias gradient", grad_both_step, &row);
    bench_pool_free(&s->pool, keep);
}

static void grad_run_input(bench_session *s, const bench_input *input) {
    const bench_scene<uint64_t> scene = bench_scene_wide(&s->pool, input);
    const spira::numeric type =
        s->options.dtype >= 0 ? (spira::numeric)s->options.dtype : spira::numeric_f16;
    if (s->options.only[0]) {
        grad_run(s, &scene, s->options.only, type);
        return;
    }
    for (const int(&layer)[3] : grad_layers) {
        grad_run(s, &scene, layer, type);
    }
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, grad_run_input);
}
