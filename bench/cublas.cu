// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/cublas.cu: submanifold layers by gather, cuBLAS products and scatter. Needs -lcublas.
//
//     build/bench_cublas [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32] data/*.vox32
//
// Times ggs_run alone; lists and plan are ready. Each layer is timed with each grouping rule. The
// parameters of a rule (waste, small) are the fastest of a few, as in the papers. `flops` are 2 *
// pairs * cin * cout; `padding` is rows with padding over pairs; `launches` counts kernels and
// cuBLAS calls; `scratch` is in bytes. fp16 without --dtype.
#include "conv_work.cuh"

#include "../spira/cublas.cuh"

enum { blas_bytes = 32 << 20, blas_tune_us = 20000 };

static cublasHandle_t blas_handle; // of the input at hand

// One layer, and how it is to run.
struct blas_work {
    conv_work work; // features, weights and output; checked as by bench_conv
    const conv_case *m;
    spira::ggs_request request;
    spira::ggs_args args;
    spira::ggs_layer layer;
    void *scratch;
    size_t scratch_bytes;
};

#define BLAS_TRY(expression) blas_check_status((expression), #expression, __LINE__)

static void blas_check_status(cublasStatus_t s, const char *expression, int line) {
    if (s != CUBLAS_STATUS_SUCCESS) {
        bench_fail("bench/cublas.cu:%d: %s: cuBLAS says %d", line, expression, (int)s);
    }
}

// ---- a layer ------------------------------------------------------------------------------------

// All but the plan.
static blas_work blas_work_make(bench_session *s, const conv_case *m, const conv_layer *layer,
                                spira::numeric type) {
    blas_work w = {conv_work_make(s, m, layer, type), m, {}, {}, {}, nullptr, 0};
    const spira::conv_shape *shape = &w.work.args.shape;
    const int64_t weights = (int64_t)shape->volume * shape->cin * shape->cout;
    w.request.shape = *shape;
    w.request.pairs = m->lists;
    w.request.inputs = w.request.outputs = m->voxels;
    w.request.count = m->count;
    size_t bytes = 0;
    BENCH_TRY(spira::ggs_weights_bytes(shape, &bytes));
    const spira::conv_weights given = {bench_upload(&s->pool, w.work.weight, weights),
                                       bench_device<char>(&s->pool, (int64_t)bytes), bytes,
                                       nullptr};
    BENCH_TRY(spira::ggs_weights_pack(bench_gpu(), shape, &given, s->stream));
    w.args.handle = blas_handle;
    w.args.in = w.work.args.in;
    w.args.weights = given.packed;
    w.args.out = w.work.args.out;
    return w;
}

// The output is NaN all over afterwards.
static void blas_plan(bench_session *s, blas_work *w) {
    int32_t *host = bench_host<int32_t>(&s->pool, spira::ggs_host_size(w->request.shape.volume));
    size_t bytes = 0;
    BENCH_TRY(spira::ggs_plan_workspace(&w->request, &bytes));
    BENCH_TRY(spira::ggs_plan(&w->request, host, bench_device<char>(&s->pool, (int64_t)bytes),
                              bytes, &w->layer, s->stream));
    BENCH_TRY(spira::ggs_run_workspace(&w->layer, &w->scratch_bytes));
    w->scratch = bench_device<char>(&s->pool, (int64_t)w->scratch_bytes);
    size_t out = (size_t)w->m->voxels * (size_t)w->layer.shape.cout *
                 (size_t)spira::numeric_size(w->layer.shape.type);
    BENCH_CUDA(cudaMemsetAsync(w->args.out, 0xff, out, s->stream));
}

static spira::status blas_step(void *context, cudaStream_t stream) {
    const blas_work *w = (const blas_work *)context;
    return spira::ggs_run(bench_gpu(), &w->layer, &w->args, w->scratch, w->scratch_bytes, stream);
}

// ---- times --------------------------------------------------------------------------------------

// Keeps `tried` if it is the first or the fastest so far. A short measurement without a check.
static void blas_try(bench_session *s, blas_work *w, spira::ggs_grouping tried,
                     spira::ggs_grouping *best, double *best_us) {
    int keep = s->pool.blocks;
    w->request.grouping = tried;
    blas_plan(s, w);
    BENCH_TRY(blas_step(w, s->stream));
    double us = bench_measure_within(s->stream, blas_step, w, blas_tune_us).us;
    bench_pool_free(&s->pool, keep);
    if (*best_us <= 0 || us < *best_us) {
        *best = tried;
        *best_us = us;
    }
}

// The parameters of a rule: waste, and for the adaptive one `small`.
static void blas_tune_rule(bench_session *s, blas_work *w, spira::ggs_grouping *g) {
    const double wastes[] = {0, 0.1, 0.25, 0.5};
    const int32_t smalls[] = {1 << 13, INT32_MAX};
    double us = 0;
    spira::ggs_grouping tried = *g;
    for (double waste : wastes) {
        for (int32_t small : smalls) {
            tried.waste = waste;
            tried.batched_below = small;
            if (small == INT32_MAX || tried.rule == spira::ggs_rule_adaptive) {
                blas_try(s, w, tried, g, &us);
            }
        }
    }
}

static void blas_print(const bench_session *s, const bench_row *r, const blas_work *w) {
    const spira::ggs_grouping *g = &w->request.grouping;
    bench_print_begin(s, r);
    bench_print_text("rule", spira::ggs_rule_name(g->rule));
    if (g->rule != spira::ggs_rule_each) {
        printf(", \"waste\": %.3f, \"small\": %d", g->waste, g->batched_below);
    }
    const spira::ggs_groups *groups = &w->layer.groups;
    printf(", \"padding\": %.4f", (double)groups->rows / (double)groups->real_rows);
    bench_print_count("launches", groups->count + 2);
    bench_print_count("scratch", (int64_t)w->scratch_bytes);
    bench_print_end(s);
}

// Checks, times and prints.
static void blas_run(bench_session *s, bench_row *row, blas_work *w, const char *label) {
    int keep = s->pool.blocks;
    blas_plan(s, w);
    BENCH_TRY(blas_step(w, s->stream));
    conv_check(s, &w->work, w->m, label);
    row->time = bench_measure(s->stream, blas_step, w);
    blas_print(s, row, w);
    bench_pool_free(&s->pool, keep);
}

// All ways to run one layer.
static void blas_run_layer(bench_session *s, const bench_scene<uint64_t> *scene, const conv_case *m,
                           const conv_layer *layer) {
    const spira::numeric type =
        s->options.dtype >= 0 ? (spira::numeric)s->options.dtype : spira::numeric_f16;
    blas_work w = blas_work_make(s, m, layer, type);
    bench_row row = conv_row(s, scene, m, layer, type);
    char label[200];
    snprintf(label, sizeof label, "%.120s: cublas %d,%d,%d %s", m->input, layer->cin, layer->cout,
             layer->K, row.dtype);
    row.layout = "ws";
    row.dataflow = "gather-gemm-scatter";
    for (int rule = spira::ggs_rule_each; rule <= spira::ggs_rule_sorted; ++rule) {
        spira::ggs_grouping best = {(spira::ggs_rule)rule, 0, 0};
        if (rule != spira::ggs_rule_each) {
            blas_tune_rule(s, &w, &best);
        }
        w.request.grouping = best;
        blas_run(s, &row, &w, label);
    }
}

static void blas_run_input(bench_session *s, const bench_input *input) {
    s->options.dataflows = 1 << bench_dataflow_ws; // lists
    BLAS_TRY(cublasCreate(&blas_handle));
    BLAS_TRY(cublasSetStream(blas_handle, s->stream));
    BLAS_TRY(cublasSetWorkspace(blas_handle, bench_device<char>(&s->pool, blas_bytes), blas_bytes));
    conv_each_layer(s, input, blas_run_layer);
    BENCH_CUDA(cudaDeviceSynchronize());
    BLAS_TRY(cublasDestroy(blas_handle));
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, blas_run_input);
}
