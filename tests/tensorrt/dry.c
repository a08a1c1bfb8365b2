// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/tensorrt/dry.c: a CUDA runtime that does nothing, to be preloaded: the test of the plugin
// then passes every check of a frame without a GPU. It pretends to be an H100.
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING(name, parameters)                                                                  \
    cudaError_t name parameters {                                                                  \
        return cudaSuccess;                                                                        \
    }
#define MADE(name, parameters, made)                                                               \
    cudaError_t name parameters {                                                                  \
        *made = malloc(1);                                                                         \
        return cudaSuccess;                                                                        \
    }

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
    (void)device;
    *value = what == cudaDevAttrComputeCapabilityMajor   ? 9
             : what == cudaDevAttrComputeCapabilityMinor ? 0
             : what == cudaDevAttrMultiProcessorCount    ? 132
                                                         : 232448;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
    (void)f;
    memset(a, 0, sizeof *a);
    a->ptxVersion = a->binaryVersion = 90;
    a->sharedSizeBytes = 4; // code for sm_90a: spira/device.cuh
    a->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p) {
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *f) {
    *kernel = (cudaKernel_t)f;
    return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s) {
    (void)grid, (void)block, (void)shared, (void)s;
    return 0;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOTHING(cudaFuncSetAttribute, (const void *f, enum cudaFuncAttribute a, int value))
NOTHING(cudaGetLastError, (void))
NOTHING(cudaPeekAtLastError, (void))
NOTHING(cudaLaunchKernelExC, (const cudaLaunchConfig_t *c, const void *f, void **a))
NOTHING(__cudaLaunchKernel, (cudaKernel_t f, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s))
NOTHING(__cudaPopCallConfiguration, (dim3 * g, dim3 *b, size_t *n, void *s))
NOTHING(cudaMemcpyAsync,
        (void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s))
NOTHING(cudaMemsetAsync, (void *to, int value, size_t n, cudaStream_t s))
NOTHING(cudaStreamSynchronize, (cudaStream_t s))
NOTHING(cudaDeviceSynchronize, (void))
NOTHING(cudaStreamDestroy, (cudaStream_t s))
NOTHING(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode m))
NOTHING(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s))
NOTHING(cudaGraphDestroy, (cudaGraph_t g))
NOTHING(cudaGraphExecDestroy, (cudaGraphExec_t e))
MADE(cudaStreamCreate, (cudaStream_t * s), s)
MADE(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), g)
MADE(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), e)
