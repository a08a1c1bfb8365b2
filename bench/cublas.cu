// bench/cublas.cu: submanifold layers by gather, cuBLAS products and scatter. Needs -lcublas.
//
//     build/bench_cublas [--only CIN,COUT,K] [--dtype fp16|bf16|tf32|fp32] data/*.vox32
//
// Times ggs_run alone; lists and plan are ready. Each layer is timed with each grouping rule. The
// parameters of a rule (waste, small) are the fastest of a few, as in the papers. `flops` are 2 *
// pairs * cin * cout; `padding` is rows with padding over pairs; `launches` counts kernels and
// cuBLAS calls; `scratch` is in bytes. Before a layer is timed, 500 of its output rows are compared
// with sums in double, and all rows are searched for unwritten elements.
#include "bench.cuh"

#include "../spira/cublas.cuh"

struct blas_layer {
    int cin, cout, K;
    bool all_types; // fp32 and tf32 as well
};

static const blas_layer blas_layers[] = {
    {16, 16, 3, false},   {32, 32, 3, true},  {64, 64, 3, true},  {128, 128, 3, false},
    {256, 256, 3, false}, {16, 16, 5, false}, {32, 32, 5, false}, {64, 64, 5, false},
};

enum { blas_samples = 500, blas_bytes = 32 << 20, blas_tune_us = 20000 };

// Lists of a submanifold layer, and the map to check with.
struct blas_map {
    const char *input;
    int volume;
    int32_t voxels;
    const int32_t *map; // [voxels, volume], host
    int64_t pairs;
    spira::ggs_request request; // without shape and grouping
};

// One layer, and how it is to run.
struct blas_work {
    const blas_map *map;
    spira::ggs_request request;
    spira::ggs_args args;
    const void *in;      // [voxels, cin], host, as stored
    const float *weight; // [volume, cin, cout], host, as it enters the product
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

static cublasHandle_t blas_open(bench_session *s) {
    cublasHandle_t handle;
    BLAS_TRY(cublasCreate(&handle));
    BLAS_TRY(cublasSetStream(handle, s->stream));
    BLAS_TRY(cublasSetWorkspace(handle, bench_device<char>(&s->pool, blas_bytes), blas_bytes));
    return handle;
}

// ---- a layer ------------------------------------------------------------------------------------

// Uniform in [-1, 1), from (stream, index), so that threads can share the work.
static float blas_random(uint64_t stream, int64_t index) {
    uint64_t bits = scan::scene_mix(stream << 48 ^ (uint64_t)index);
    return (float)(int32_t)(bits >> 40) * (1.0f / 8388608) - 1;
}

static blas_map blas_map_make(bench_session *s, const bench_scene<uint64_t> *scene, int K) {
    spira::kernel_shape kernel = spira::kernel_cube(K, 1);
    blas_map m = {};
    m.input = scene->input;
    m.volume = spira::kernel_volume(&kernel);
    m.voxels = scene->fine.host.capacity;
    m.map = bench_map_host(&s->pool, &scene->layout, &kernel, &scene->fine, &scene->fine, &m.pairs);
    bench_check_pairs(m.input, K, m.pairs);
    int32_t pairs = (int32_t)m.pairs;
    spira::ggs_request *r = &m.request;
    r->pairs.begin = bench_device<int32_t>(&s->pool, m.volume + 1);
    r->pairs.input = bench_device<int32_t>(&s->pool, pairs);
    r->pairs.output = bench_device<int32_t>(&s->pool, pairs);
    r->pairs.capacity = pairs;
    r->inputs = r->outputs = m.voxels;
    r->count = scene->fine.device.count;
    size_t bytes = 0;
    BENCH_TRY(spira::map_lists_workspace(&kernel, m.voxels, &bytes));
    const spira::map_request<uint64_t> request = {kernel, scene->fine.device, scene->fine.device,
                                                  spira::map_forms_none(0, false, scene->trouble)};
    BENCH_TRY(spira::map_build_lists(&scene->layout, &request, &r->pairs,
                                     bench_device<char>(&s->pool, (int64_t)bytes), bytes,
                                     s->stream));
    bench_check_trouble(&s->pool, scene->trouble);
    return m;
}

// Features, weights and an output, but no plan.
static blas_work blas_work_make(bench_session *s, const blas_map *m, const blas_layer *layer,
                                spira::numeric type) {
    blas_work w = {};
    int element = spira::numeric_size(type);
    int64_t features = (int64_t)m->voxels * layer->cin;
    int64_t weights = (int64_t)m->volume * layer->cin * layer->cout;
    w.map = m;
    w.request = m->request;
    w.request.shape.volume = m->volume;
    w.request.shape.cin = layer->cin;
    w.request.shape.cout = layer->cout;
    w.request.shape.type = type;
    char *in = bench_host<char>(&s->pool, features * element);
#pragma omp parallel for
    for (int64_t i = 0; i < features; ++i) {
        spira::numeric_store(type, in, i, blas_random(1, i));
    }
    float *weight = bench_host<float>(&s->pool, weights);
    for (int64_t i = 0; i < weights; ++i) {
        weight[i] = spira::numeric_operand(type, blas_random(2, i));
    }
    size_t bytes = 0;
    BENCH_TRY(spira::ggs_weights_bytes(&w.request.shape, &bytes));
    const spira::conv_weights given = {bench_upload(&s->pool, weight, weights),
                                       bench_device<char>(&s->pool, (int64_t)bytes), bytes,
                                       nullptr};
    BENCH_TRY(spira::ggs_weights_pack(bench_gpu(), &w.request.shape, &given, s->stream));
    w.in = in;
    w.weight = weight;
    w.args.in = bench_upload(&s->pool, (const char *)in, features * element);
    w.args.weights = given.packed;
    w.args.out = bench_device<char>(&s->pool, (int64_t)m->voxels * layer->cout * element);
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
    size_t out = (size_t)w->map->voxels * (size_t)w->layer.shape.cout *
                 (size_t)spira::numeric_size(w->layer.shape.type);
    BENCH_CUDA(cudaMemsetAsync(w->args.out, 0xff, out, s->stream));
}

static spira::status blas_step(void *context, cudaStream_t stream) {
    const blas_work *w = (const blas_work *)context;
    return spira::ggs_run(bench_gpu(), &w->layer, &w->args, w->scratch, w->scratch_bytes, stream);
}

// ---- the check ----------------------------------------------------------------------------------

// How far the worst channel of a row is off, in units of its bound: twice the textbook's for sums
// in fp32, and one rounding to the storage type. NaN counts as infinite.
static double blas_check_row(const blas_work *w, const void *out, int64_t row) {
    const spira::conv_shape *s = &w->layer.shape;
    const int32_t *taps = w->map->map + row * s->volume;
    bool half = spira::numeric_size(s->type) == 2;
    double epsilon = half ? spira::numeric_epsilon(s->type) : 0, worst = 0;
    double smallest = s->type == spira::numeric_f16 ? ldexp(1, -24) : ldexp(1, -126);
    for (int c = 0; c < s->cout; ++c) {
        double sum = 0, magnitude = 0;
        int64_t terms = 4;
        for (int64_t k = 0; k < s->volume; ++k) {
            for (int64_t i = 0; taps[k] >= 0 && i < s->cin; ++i, ++terms) {
                float stored = spira::numeric_load(s->type, w->in, taps[k] * (int64_t)s->cin + i);
                double term = (double)spira::numeric_operand(s->type, stored) *
                              (double)w->weight[(k * s->cin + i) * s->cout + c];
                sum += term;
                magnitude += fabs(term);
            }
        }
        double error = 2.0 * (double)terms * ldexp(1, -24) * magnitude;
        double bound = error + epsilon * (fabs(sum) + error) + smallest;
        double got = (double)spira::numeric_load(s->type, out, row * s->cout + c);
        double ratio = fabs(got - sum) / bound;
        worst = isnan(ratio) ? INFINITY : fmax(worst, ratio);
    }
    return worst;
}

static void blas_check(bench_session *s, const blas_work *w, const char *label) {
    int64_t elements = (int64_t)w->map->voxels * w->layer.shape.cout, missing = 0;
    int keep = s->pool.blocks;
    const char *out = bench_download(&s->pool, (const char *)w->args.out,
                                     elements * spira::numeric_size(w->layer.shape.type));
#pragma omp parallel for reduction(+ : missing)
    for (int64_t i = 0; i < elements; ++i) {
        missing += !spira::float_is_finite(spira::numeric_load(w->layer.shape.type, out, i));
    }
    if (missing) {
        bench_fail("%s: %lld outputs are not written or not finite", label, (long long)missing);
    }
    double worst[blas_samples];
    int64_t voxels = w->map->voxels;
#pragma omp parallel for schedule(dynamic, 8)
    for (int i = 0; i < blas_samples; ++i) {
        int64_t row =
            i == 0 ? voxels - 1 : (int64_t)(scan::scene_mix((uint64_t)i) % (uint64_t)voxels);
        worst[i] = blas_check_row(w, out, row);
    }
    for (int i = 0; i < blas_samples; ++i) {
        if (!(worst[i] <= 1)) {
            bench_fail("%s: an output is off by %.3g times its bound", label, worst[i]);
        }
    }
    bench_pool_free(&s->pool, keep);
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
            tried.small = small;
            if (small == INT32_MAX || tried.rule == spira::ggs_rule_adaptive) {
                blas_try(s, w, tried, g, &us);
            }
        }
    }
}

static void blas_print(const bench_session *s, const bench_row *r, const blas_work *w) {
    const spira::ggs_grouping *g = &w->request.grouping;
    printf("{\"bench\": \"%s\"", r->bench);
    bench_print_text("input", r->input);
    bench_print_count("voxels", r->voxels);
    bench_print_count("K", r->K);
    bench_print_count("cin", r->cin);
    bench_print_count("cout", r->cout);
    bench_print_text("dtype", r->dtype);
    bench_print_text("layout", r->layout);
    bench_print_text("dataflow", r->dataflow);
    bench_print_text("rule", spira::ggs_rule_name(g->rule));
    if (g->rule != spira::ggs_rule_each) {
        printf(", \"waste\": %.3f, \"small\": %d", g->waste, g->small);
    }
    const spira::ggs_groups *groups = &w->layer.groups;
    printf(", \"padding\": %.4f", (double)groups->rows / (double)groups->real_rows);
    bench_print_count("launches", groups->count + 2);
    printf(", \"us\": %.3f", r->time.us);
    bench_print_count("runs", r->time.runs);
    bench_print_count("pairs", r->pairs);
    bench_print_count("scratch", (int64_t)w->scratch_bytes);
    bench_print_count("flops", r->flops);
    bench_print_targets(s, r);
    bench_print_text("gpu", s->gpu);
    printf("}\n");
    fflush(stdout);
}

// Checks, times and prints.
static void blas_run(bench_session *s, bench_row *row, blas_work *w, const char *label) {
    int keep = s->pool.blocks;
    blas_plan(s, w);
    BENCH_TRY(blas_step(w, s->stream));
    blas_check(s, w, label);
    row->time = bench_measure(s->stream, blas_step, w);
    blas_print(s, row, w);
    bench_pool_free(&s->pool, keep);
}

// All ways to run one layer.
static void blas_run_layer(bench_session *s, cublasHandle_t handle,
                           const bench_scene<uint64_t> *scene, const blas_map *m,
                           const blas_layer *layer, spira::numeric type) {
    int keep = s->pool.blocks;
    char label[200];
    snprintf(label, sizeof label, "%.120s: cublas %d,%d,%d %s", m->input, layer->cin, layer->cout,
             layer->K, spira::numeric_name(type));
    blas_work w = blas_work_make(s, m, layer, type);
    w.args.handle = handle;
    bench_row row = bench_row_make("conv", scene);
    row.K = layer->K;
    row.cin = layer->cin;
    row.cout = layer->cout;
    row.dtype = spira::numeric_name(type);
    row.layout = "ws";
    row.dataflow = "gather-gemm-scatter";
    row.pairs = m->pairs;
    row.flops = 2 * m->pairs * layer->cin * layer->cout;

    for (int rule = spira::ggs_rule_each; rule <= spira::ggs_rule_sorted; ++rule) {
        spira::ggs_grouping best = {(spira::ggs_rule)rule, 0, 0};
        if (rule != spira::ggs_rule_each) {
            blas_tune_rule(s, &w, &best);
        }
        w.request.grouping = best;
        blas_run(s, &row, &w, label);
    }
    bench_pool_free(&s->pool, keep);
}

// Every type that is asked for: by --dtype, or all that are usual for the layer.
static void blas_run_types(bench_session *s, cublasHandle_t handle,
                           const bench_scene<uint64_t> *scene, const blas_map *m,
                           const blas_layer *layer) {
    const spira::numeric types[] = {spira::numeric_f16, spira::numeric_bf16, spira::numeric_tf32,
                                    spira::numeric_f32};
    for (spira::numeric type : types) {
        bool usual = type == spira::numeric_f16 || layer->all_types;
        if (s->options.dtype >= 0 ? type == s->options.dtype : usual) {
            blas_run_layer(s, handle, scene, m, layer, type);
        }
    }
}

static void blas_run_input(bench_session *s, const bench_input *input) {
    bench_scene<uint64_t> scene = bench_scene_wide(&s->pool, input);
    cublasHandle_t handle = blas_open(s);
    int keep = s->pool.blocks;
    const int *only = s->options.only;
    blas_layer one = {only[0], only[1], only[2], true};
    const blas_layer *layers = only[0] ? &one : blas_layers;
    int count = only[0] ? 1 : (int)(sizeof blas_layers / sizeof *blas_layers);
    blas_map m = {};
    for (int i = 0; i < count; ++i) { // layers of one K stand together
        if (i == 0 || layers[i].K != layers[i - 1].K) {
            bench_pool_free(&s->pool, keep);
            m = blas_map_make(s, &scene, layers[i].K);
        }
        blas_run_types(s, handle, &scene, &m, &layers[i]);
    }
    BENCH_CUDA(cudaDeviceSynchronize());
    BLAS_TRY(cublasDestroy(handle));
}

int main(int argc, char **argv) {
    return bench_main(argc, argv, blas_run_input);
}
