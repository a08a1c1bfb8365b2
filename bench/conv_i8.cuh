// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/conv_i8.cuh: the layer of conv_work.cuh in int8: features, steps and weights of one scale
// each, outputs of int8. Before it is timed, 2000 of its output rows are compared with the host
// loop, to the bit.
#ifndef SPIRA_BENCH_CONV_I8_CUH
#define SPIRA_BENCH_CONV_I8_CUH

#include "conv_work.cuh"

SPIRA_API spira::status conv_i8_run(const spira::device_info *gpu, const spira::conv_args *args,
                                    cudaStream_t stream) {
    return spira::conv<spira::numeric_i8>(gpu, args, stream);
}

// Random weights: packed for the device, and as integers for the host.
SPIRA_API void conv_i8_weights(bench_session *s, conv_work *w) {
    const spira::conv_shape *shape = &w->args.shape;
    const int64_t elements = (int64_t)shape->volume * shape->cin * shape->cout;
    float *weight = bench_host<float>(&s->pool, elements);
    for (int64_t i = 0; i < elements; ++i) {
        weight[i] = bench_random(2, i);
    }
    const spira::conv_i8_weights of_layer = {*shape, weight, 1.0f / 127, 0};
    float *step = bench_host<float>(&s->pool, shape->cout);
    int8_t *quantised = bench_host<int8_t>(&s->pool, elements);
    BENCH_TRY(spira::conv_i8_steps_host(&of_layer, nullptr, step));
    BENCH_TRY(spira::conv_i8_weights_host(&of_layer, step, quantised));
    size_t bytes = 0;
    BENCH_TRY(spira::conv_weights_bytes(bench_gpu(), shape, &bytes));
    spira::conv_weights own = {bench_upload(&s->pool, weight, elements),
                               bench_device<char>(&s->pool, (int64_t)bytes), bytes, nullptr};
    own.step = bench_upload(&s->pool, step, shape->cout);
    own.scale_in = of_layer.scale_in;
    BENCH_TRY(spira::conv_weights_pack<spira::numeric_i8>(bench_gpu(), shape, &own, s->stream));
    BENCH_CUDA(cudaStreamSynchronize(s->stream));
    w->args.weights = own.packed;
    w->args.quantisation.step = own.step;
    w->step = step;
    w->quantised = quantised;
}

// Compares sampled rows of the outputs with the host loop.
SPIRA_API void conv_i8_check(bench_session *s, const conv_work *w, const conv_case *m,
                             const char *label) {
    const spira::conv_shape *shape = &w->args.shape;
    const int samples = m->voxels < conv_samples ? m->voxels : conv_samples;
    const size_t row = (size_t)shape->cout, taps = (size_t)shape->volume;
    const char *out =
        bench_download(&s->pool, (const char *)w->args.out, (int64_t)m->voxels * shape->cout);
    int32_t *map = bench_host<int32_t>(&s->pool, samples * shape->volume);
    char *wanted = bench_host<char>(&s->pool, samples * shape->cout);
    for (int i = 0; i < samples; ++i) {
        const int64_t from = bench_sample(m->voxels, conv_samples, i);
        memcpy(map + (size_t)i * taps, m->map + from * shape->volume, taps * sizeof *map);
    }
    spira::conv_i8_host_args a = {};
    a.shape = *shape;
    a.in = (const int8_t *)w->in;
    a.weight = w->quantised;
    a.map = map;
    a.outputs = samples;
    a.quantisation = w->args.quantisation;
    a.quantisation.step = w->step;
    BENCH_TRY(spira::conv_i8_host(&a, wanted));
    for (int i = 0; i < samples; ++i) {
        const int64_t from = bench_sample(m->voxels, conv_samples, i);
        if (memcmp(wanted + (size_t)i * row, out + from * shape->cout, row)) {
            bench_fail("%s: output %lld is another one than the host's", label, (long long)from);
        }
    }
}

// Everything for one layer. An output's scale lets few of its elements saturate.
SPIRA_API conv_work conv_i8_work_make(bench_session *s, const conv_case *m,
                                      const conv_layer *layer) {
    conv_work w = {};
    const spira::kernel_shape kernel = spira::kernel_cube(m->K, 1);
    w.args.shape = spira::conv_shape_of(&kernel, layer->cin, layer->cout, spira::numeric_i8);
    const int64_t elements = (int64_t)m->voxels * layer->cin;
    int8_t *in = bench_host<int8_t>(&s->pool, elements);
#pragma omp parallel for
    for (int64_t i = 0; i < elements; ++i) {
        in[i] = spira::i8_from_float(bench_random(1, i) * 127);
    }
    w.in = in;
    w.args.in = bench_upload(&s->pool, in, elements);
    conv_i8_weights(s, &w);
    const double terms = (double)m->pairs / m->voxels * layer->cin;
    w.args.quantisation.out_inverse = (float)(127 / sqrt(terms)); // 3 deviations
    w.args.map = &m->by_order;
    w.args.programmatic = true; // behind another layer, as in a network
    w.args.out = bench_device<char>(&s->pool, (int64_t)m->voxels * layer->cout);
    w.run = conv_i8_run;
    w.check = conv_i8_check;
    return w;
}

#endif
