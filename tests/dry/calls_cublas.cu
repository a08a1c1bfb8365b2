// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/calls_cublas.cu: the functions of cublas.cuh, as in calls.cu, and a cuBLAS that does
// nothing.
#include "../../spira/cublas.cuh"

#include "cudart.h"
#include "launches.h"

#include <vector>

using namespace spira;

// ---- cuBLAS -------------------------------------------------------------------------------------

static cudaStream_t handle_stream; // of the only handle

static cublasStatus_t cublas_call() {
    return (cublasStatus_t)dry_library_call();
}

extern "C" {
cublasStatus_t cublasGetStream_v2(cublasHandle_t, cudaStream_t *stream) {
    *stream = handle_stream;
    return cublas_call();
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t *mode) {
    *mode = CUBLAS_POINTER_MODE_HOST;
    return cublas_call();
}

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                            const void *, const void *, cudaDataType, int, const void *,
                            cudaDataType, int, const void *, void *, cudaDataType, int,
                            cublasComputeType_t, cublasGemmAlgo_t) {
    return cublas_call();
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                   int, const void *, const void *const[], cudaDataType, int,
                                   const void *const[], cudaDataType, int, const void *,
                                   void *const[], cudaDataType, int, int, cublasComputeType_t,
                                   cublasGemmAlgo_t) {
    return cublas_call();
}
}

// ---- the cases ----------------------------------------------------------------------------------

namespace {

// Device memory, which is not touched: each array starts a gibibyte behind the last one.
struct arrays {
    uintptr_t next = (uintptr_t)1 << 46;
    template <typename T>
    operator T *() {
        return (T *)(next += (uintptr_t)1 << 30);
    }
};

struct problem {
    ggs_request request;
    std::vector<int32_t> host;
    ggs_layer layer;
};

// 27 lists of different lengths, some of which are multiplied as a batch. The copies of a dry
// runtime leave in host memory what is there.
status plan_make(const launch_on &on, problem *p) {
    arrays any;
    p->request = {};
    p->request.shape = {27, 64, 0, 64, on.type};
    p->request.pairs = {any, any, any, 20 * on.rows};
    p->request.inputs = p->request.outputs = on.rows;
    p->request.count = any;
    p->request.grouping = {ggs_rule_adaptive, 0.3, 1 << 20};
    p->host.assign((size_t)ggs_host_size(27), 0);
    for (int k = 0; k < 27; ++k) {
        p->host[(size_t)k + 1] = p->host[(size_t)k] + (k < 9 ? 10 : 10 + k * on.rows / 64);
    }
    p->host[28] = on.rows;
    size_t bytes = 0;
    SPIRA_TRY(ggs_plan_workspace(&p->request, &bytes));
    return ggs_plan(&p->request, p->host.data(), (char *)any, bytes, &p->layer, on.stream);
}

status run_ggs_plan(const launch_on &on) {
    problem p;
    return plan_make(on, &p);
}

status run_ggs_weights_pack(const launch_on &on) {
    arrays any;
    const conv_shape s = {27, 64, 0, 64, on.type};
    size_t bytes = 0;
    SPIRA_TRY(ggs_weights_bytes(&s, &bytes));
    const conv_weights w = {any, (char *)any, bytes, any};
    return ggs_weights_pack(on.gpu, &s, &w, on.stream);
}

status run_ggs_run(const launch_on &on) {
    problem p;
    SPIRA_TRY(plan_make(on, &p));
    arrays any;
    handle_stream = on.stream;
    ggs_args a = {};
    a.in = (char *)any;
    a.weights = (char *)any;
    a.out = (char *)any;
    a.handle = any;
    size_t bytes = 0;
    SPIRA_TRY(ggs_run_workspace(&p.layer, &bytes));
    return ggs_run(on.gpu, &p.layer, &a, (char *)any, bytes, on.stream);
}

} // namespace

const launch_case launch_cublas_cases[] = {
    {"ggs_plan", run_ggs_plan, launch_cub},
    {"ggs_weights_pack", run_ggs_weights_pack},
    {"ggs_run", run_ggs_run, launch_cub},
};
const int launch_cublas_cases_count =
    (int)(sizeof launch_cublas_cases / sizeof launch_cublas_cases[0]);
