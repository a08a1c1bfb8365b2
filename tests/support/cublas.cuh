// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/cublas.cuh: convolution problems for gather, cuBLAS products and scatter, and the
// handle that computes them.
#ifndef SPIRA_TESTS_CUBLAS_CUH
#define SPIRA_TESTS_CUBLAS_CUH

#include "../../spira/cublas.cuh"
#include "problems.cuh"

namespace problems {

// ---- the handle ---------------------------------------------------------------------------------

enum { blas_bytes = 32 << 20 };

// A handle on the stream of the tests, and its workspace. Lives until blas_free.
struct blas {
    cublasHandle_t handle;
    void *memory;
};

SPIRA_API bool check_cublas(cublasStatus_t s, int line) {
    char text[100];
    snprintf(text, sizeof text, "cuBLAS says %d", (int)s);
    return test_check(s == CUBLAS_STATUS_SUCCESS, __FILE__, line, text);
}

SPIRA_API void blas_bind(const blas *b, cudaStream_t stream) {
    check_cublas(cublasSetStream(b->handle, stream), __LINE__);
    check_cublas(cublasSetWorkspace(b->handle, b->memory, blas_bytes), __LINE__);
}

SPIRA_API blas blas_make() {
    blas b = {};
    CUDA_CHECK(cudaMalloc(&b.memory, blas_bytes));
    check_cublas(cublasCreate(&b.handle), __LINE__);
    blas_bind(&b, stream_get());
    return b;
}

SPIRA_API void blas_free(blas b) {
    CUDA_CHECK(cudaDeviceSynchronize());
    check_cublas(cublasDestroy(b.handle), __LINE__);
    CUDA_CHECK(cudaFree(b.memory));
}

// ---- problems -----------------------------------------------------------------------------------

struct ggs_problem : problem {
    ggs_grouping grouping;
};

SPIRA_API ggs_problem ggs_problem_make(random_state *random, conv_shape shape, int32_t inputs,
                                       int32_t outputs) {
    return {problem_make(random, shape, inputs, outputs), {ggs_rule_sorted, 0.1, INT32_MAX}};
}

SPIRA_API void ggs_problem_name(ggs_problem *p, const char *what) {
    const ggs_grouping *g = &p->grouping;
    char more[100];
    snprintf(more, sizeof more, ", %s %.2f %d", ggs_rule_name(g->rule), g->waste, g->batched_below);
    problem_name(p, what, more);
}

SPIRA_API ggs_grouping grouping_random(random_state *random) {
    const double wastes[] = {0, 0.05, 0.2, 0.5, 1};
    const int32_t smalls[] = {0, 20, INT32_MAX, INT32_MAX};
    return {(ggs_rule)random_int(random, ggs_rule_each, ggs_rule_sorted),
            wastes[random_int(random, 0, 4)], smalls[random_int(random, 0, 3)]};
}

// ---- the same in device memory ------------------------------------------------------------------

struct device_ggs {
    ggs_request request;
    ggs_args args;
    ggs_layer layer;
    int32_t *host;
    char *out, *memory, *scratch;
    size_t memory_bytes, scratch_bytes;
    int64_t out_bytes;
};

// Plans over memory of exactly the size that is asked for. What the plan does not keep is
// overwritten. request: shape and grouping are those of the problem.
SPIRA_API void device_ggs_make(const ggs_problem *p, const blas *b, ggs_request request,
                               device_ggs *d) {
    const auto bytes_of = [](const device_info *, const conv_shape *s, size_t *bytes) {
        return ggs_weights_bytes(s, bytes);
    };
    *d = {};
    d->request = request;
    d->request.shape = p->shape;
    d->request.grouping = p->grouping;
    d->args.weights = weights_upload(&p->shape, p->weight, bytes_of, ggs_weights_pack<>);
    d->args.handle = b->handle;
    device_problem_arrays(p, d);
    d->host = guarded_new<int32_t>(ggs_host_size(p->shape.volume));
    CHECK_OK(ggs_plan_workspace(&d->request, &d->memory_bytes));
    d->memory = device_new<char>((int64_t)d->memory_bytes);
    CHECK_OK(ggs_plan(&d->request, d->host, d->memory, d->memory_bytes, &d->layer, stream_get()));
    CUDA_CHECK(cudaDeviceSynchronize());
    CHECK(d->layer.kept_bytes <= d->memory_bytes);
    CUDA_CHECK(
        cudaMemset(d->memory + d->layer.kept_bytes, 0xff, d->memory_bytes - d->layer.kept_bytes));
    CHECK_OK(ggs_run_workspace(&d->layer, &d->scratch_bytes));
    d->scratch = device_new<char>((int64_t)d->scratch_bytes);
}

// Of the problem's map.
SPIRA_API void device_ggs_make(const ggs_problem *p, const blas *b, device_ggs *d) {
    ggs_request r = {};
    r.pairs = pairs_upload(p);
    r.inputs = std::max(p->inputs + p->room, 1);
    r.count = device_upload(&p->outputs, 1);
    r.outputs = problem_capacity(p);
    device_ggs_make(p, b, r, d);
}

SPIRA_API status device_ggs_start(const device_ggs *d, cudaStream_t stream = stream_get()) {
    return ggs_run(gpu(), &d->layer, &d->args, d->scratch, d->scratch_bytes, stream);
}

// ---- judging ------------------------------------------------------------------------------------

// The same bits twice. Frees all buffers of the test.
SPIRA_API std::vector<char> ggs_problem_run(const ggs_problem *p, const blas *b) {
    device_ggs d;
    device_ggs_make(p, b, &d);
    CHECK_EQUAL(d.layer.pairs, std::count_if(p->map.begin(), p->map.end(),
                                             [](int32_t source) { return source >= 0; }));
    std::vector<char> out = device_problem_run(p, &d, true, [&] { return device_ggs_start(&d); });
    guarded_finish();
    return out;
}

SPIRA_API bool ggs_problem_check(const ggs_problem *p, const blas *b, int line = __builtin_LINE()) {
    return problem_good(p, ggs_problem_run(p, b), __FILE__, line);
}

} // namespace problems

#endif
