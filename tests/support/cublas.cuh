// tests/support/cublas.cuh: convolution problems for gather, cuBLAS products and scatter, and the
// handles that compute them.
#ifndef SPIRA_TESTS_CUBLAS_CUH
#define SPIRA_TESTS_CUBLAS_CUH

#include "../../spira/cublas.cuh"
#include "problems.cuh"

namespace problems {

// ---- handles ------------------------------------------------------------------------------------

enum { lanes_most = 3, blas_bytes = 32 << 20 };

// A pool with `lanes` streams beside the run's. Lives until blas_free.
struct blas {
    ggs_pool pool;
    ggs_lane lane[lanes_most];
    void *memory[lanes_most + 1]; // workspaces
};

SPIRA_API bool check_cublas(cublasStatus_t s, int line) {
    char text[100];
    snprintf(text, sizeof text, "cuBLAS says %d", (int)s);
    return test_check(s == CUBLAS_STATUS_SUCCESS, __FILE__, line, text);
}

SPIRA_API void blas_bind(cublasHandle_t handle, cudaStream_t stream, void *memory) {
    check_cublas(cublasSetStream(handle, stream), __LINE__);
    check_cublas(cublasSetWorkspace(handle, memory, blas_bytes), __LINE__);
}

SPIRA_API blas *blas_make(int lanes) {
    blas *b = (blas *)calloc(1, sizeof *b);
    CUDA_CHECK(cudaMalloc(&b->memory[lanes], blas_bytes));
    check_cublas(cublasCreate(&b->pool.handle), __LINE__);
    blas_bind(b->pool.handle, stream_get(), b->memory[lanes]);
    for (int i = 0; i < lanes; ++i) {
        ggs_lane *l = b->lane + i;
        CUDA_CHECK(cudaMalloc(&b->memory[i], blas_bytes));
        CUDA_CHECK(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
        CUDA_CHECK(cudaEventCreateWithFlags(&l->done, cudaEventDisableTiming));
        check_cublas(cublasCreate(&l->handle), __LINE__);
        blas_bind(l->handle, l->stream, b->memory[i]);
    }
    if (lanes) {
        CUDA_CHECK(cudaEventCreateWithFlags(&b->pool.fork, cudaEventDisableTiming));
    }
    b->pool.lane = b->lane;
    b->pool.lanes = lanes;
    return b;
}

SPIRA_API void blas_free(blas *b) {
    CUDA_CHECK(cudaDeviceSynchronize());
    check_cublas(cublasDestroy(b->pool.handle), __LINE__);
    for (int i = 0; i < b->pool.lanes; ++i) {
        check_cublas(cublasDestroy(b->lane[i].handle), __LINE__);
        CUDA_CHECK(cudaStreamDestroy(b->lane[i].stream));
        CUDA_CHECK(cudaEventDestroy(b->lane[i].done));
    }
    if (b->pool.lanes) {
        CUDA_CHECK(cudaEventDestroy(b->pool.fork));
    }
    for (void *memory : b->memory) {
        CUDA_CHECK(cudaFree(memory));
    }
    free(b);
}

// ---- problems -----------------------------------------------------------------------------------

struct ggs_problem : problem {
    ggs_options options;
};

SPIRA_API ggs_problem ggs_problem_make(random_state *random, conv_shape shape, int32_t inputs,
                                       int32_t outputs) {
    return {problem_make(random, shape, inputs, outputs), ggs_options_default()};
}

// Offset k pairs every row with itself, as the centre of a submanifold layer.
SPIRA_API void problem_fill_centre(problem *p, int k) {
    for (int32_t o = 0; o < p->outputs; ++o) {
        p->map[(size_t)o * (size_t)p->shape.volume + (size_t)k] = o;
    }
}

SPIRA_API void ggs_problem_name(ggs_problem *p, const char *what) {
    const ggs_options *o = &p->options;
    char more[100];
    snprintf(more, sizeof more, ", %s %.2f %d%s, by %s, tiles %d %d%s",
             ggs_rule_name(o->grouping.rule), o->grouping.waste, o->grouping.small,
             o->grouping.mirrored ? " mirrored" : "", o->order == ggs_order_rows ? "rows" : "pairs",
             o->gather_tile, o->scatter_tile, o->direct ? ", direct" : "");
    problem_name(p, what, more);
}

SPIRA_API bool has_rule(ggs_rule rule, numeric type) {
    return rule != ggs_rule_grouped || numeric_size(type) == 4;
}

SPIRA_API ggs_options options_random(random_state *random, numeric type) {
    const double wastes[] = {0, 0.05, 0.2, 0.5, 1};
    const int32_t smalls[] = {0, 20, INT32_MAX, INT32_MAX};
    ggs_options o = ggs_options_default();
    do {
        o.grouping.rule = (ggs_rule)random_int(random, ggs_rule_each, ggs_rule_grouped);
    } while (!has_rule(o.grouping.rule, type));
    o.grouping.waste = wastes[random_int(random, 0, 4)];
    o.grouping.small = smalls[random_int(random, 0, 3)];
    o.order = random_int(random, 0, 2) ? ggs_order_rows : ggs_order_pairs;
    o.gather_tile = 1 << random_int(random, 0, 3);
    o.scatter_tile = 1 << random_int(random, 0, 3);
    o.direct = random_int(random, 0, 3) != 0;
    return o;
}

// ---- the same in device memory ------------------------------------------------------------------

struct device_ggs {
    ggs_map map;
    ggs_args args;
    ggs_layer layer;
    int32_t *host;
    char *out, *memory, *scratch;
    size_t memory_bytes, scratch_bytes;
    int64_t out_bytes;
};

SPIRA_API const void *weights_store(const conv_shape *shape, const std::vector<float> &weight) {
    char *stored = device_new<char>((int64_t)weight.size() * numeric_size(shape->type));
    CHECK_OK(ggs_weights_store(shape, device_upload(weight.data(), (int64_t)weight.size()), stored,
                               stream_get()));
    return stored;
}

// Plans over memory of exactly the size that is asked for. What the plan does not keep is
// overwritten.
SPIRA_API void device_ggs_plan(const ggs_problem *p, device_ggs *d) {
    d->host = guarded_new<int32_t>(ggs_host_size(p->shape.volume));
    d->memory_bytes = d->scratch_bytes = 0;
    CHECK_OK(ggs_plan_workspace(&p->shape, &d->map, &p->options, &d->memory_bytes));
    d->memory = device_new<char>((int64_t)d->memory_bytes);
    d->layer = {};
    CHECK_OK(ggs_plan(&p->shape, &d->map, &p->options, d->host, d->memory, d->memory_bytes,
                      &d->layer, stream_get()));
    CUDA_CHECK(cudaDeviceSynchronize());
    CHECK(d->layer.kept_bytes <= d->memory_bytes);
    CUDA_CHECK(
        cudaMemset(d->memory + d->layer.kept_bytes, 0xff, d->memory_bytes - d->layer.kept_bytes));
    CHECK_OK(ggs_run_workspace(&d->layer, &d->scratch_bytes));
    d->scratch = device_new<char>((int64_t)d->scratch_bytes);
}

SPIRA_API void device_ggs_make(const ggs_problem *p, ggs_map map, device_ggs *d) {
    d->map = map;
    d->args.weights = weights_store(&p->shape, p->weight);
    device_problem_arrays(p, d);
    device_ggs_plan(p, d);
}

// Of the problem's map.
SPIRA_API void device_ggs_make(const ggs_problem *p, device_ggs *d) {
    int32_t inputs = std::max(p->inputs + p->room, 1);
    ggs_map map = {pairs_upload(p), inputs, device_upload(&p->outputs, 1), problem_capacity(p)};
    device_ggs_make(p, map, d);
}

SPIRA_API status device_ggs_start(const device_ggs *d, const blas *b) {
    return ggs_run(&d->layer, &d->args, &b->pool, d->scratch, d->scratch_bytes, stream_get());
}

// ---- judging ------------------------------------------------------------------------------------

// What a plan says of itself, against the map.
SPIRA_API void layer_check(const problem *p, const ggs_layer *l) {
    std::vector<int32_t> sizes((size_t)p->shape.volume);
    int64_t pairs = 0;
    for (size_t i = 0; i < p->map.size(); ++i) {
        sizes[i % sizes.size()] += p->map[i] >= 0;
        pairs += p->map[i] >= 0;
    }
    CHECK_EQUAL(l->pairs, pairs);
    CHECK_EQUAL(l->outputs, p->outputs);
    CHECK_EQUAL(l->groups.real_rows, pairs);
    CHECK_EQUAL(l->groups.rows, l->rows);
    CHECK_EQUAL(l->padding, l->rows - l->pairs);
    CHECK_EQUAL(l->gathered + (l->direct < 0 ? 0 : l->outputs), l->rows);
    for (size_t k = 0; k < sizes.size(); ++k) {
        CHECK_EQUAL(l->sizes[k], sizes[k]);
    }
}

// The same bits twice. Frees all buffers of the test.
SPIRA_API std::vector<char> ggs_problem_run(const ggs_problem *p, const blas *b) {
    device_ggs d;
    device_ggs_make(p, &d);
    layer_check(p, &d.layer);
    std::vector<char> out =
        device_problem_run(p, &d, true, [&] { return device_ggs_start(&d, b); });
    guarded_finish();
    return out;
}

SPIRA_API bool ggs_problem_check(const ggs_problem *p, const blas *b, int line = __builtin_LINE()) {
    return problem_good(p, ggs_problem_run(p, b), __FILE__, line);
}

} // namespace problems

#endif
