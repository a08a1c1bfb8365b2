// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/few.cuh: a part of a GPU as a stand-in for a small one, as vehicles have it: a green
// context of few multiprocessors. Device memory and L2 cache stay those of the whole GPU.
#ifndef SPIRA_BENCH_FEW_CUH
#define SPIRA_BENCH_FEW_CUH

#include "bench_base.cuh"

#include <cuda.h>

// A function of the driver, which benchmarks are not linked with.
template <typename F>
static F *few_find(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    BENCH_CUDA(
        cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) {
        bench_fail("--multiprocessors: the driver has no %s", name);
    }
    return (F *)found;
}

#define FEW(function, ...)                                                                         \
    do {                                                                                           \
        if (few_find<decltype(function)>(#function)(__VA_ARGS__) != CUDA_SUCCESS) {                \
            bench_fail("--multiprocessors: %s fails", #function);                                  \
        }                                                                                          \
    } while (0)

// Makes a green context the current one of this thread. Returns its multiprocessors: at least as
// many as are wanted, a multiple of what the GPU can divide them by.
static int few_use(int wanted) {
    CUdevResource all, few;
    CUdevResourceDesc described;
    CUgreenCtx green;
    CUcontext context;
    unsigned groups = 1;
    BENCH_CUDA(cudaFree(nullptr)); // the primary context is there
    FEW(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
    FEW(cuDevSmResourceSplitByCount, &few, &groups, &all, nullptr, 0, (unsigned)wanted);
    FEW(cuDevResourceGenerateDesc, &described, &few, 1);
    FEW(cuGreenCtxCreate, &green, described, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    FEW(cuCtxFromGreenCtx, &context, green);
    FEW(cuCtxSetCurrent, context);
    return (int)few.sm.smCount;
}

#endif
