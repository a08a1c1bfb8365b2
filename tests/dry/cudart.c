// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/cudart.c: a CUDA runtime that does nothing and pretends to be an H100, for tests of
// what the host does. Preloaded, the test of the TensorRT plugin passes every check of a frame
// without a GPU. Linked instead of the runtime (DRY_ALONE), it plants an error in any of its calls
// (cudart.h).
#pragma GCC diagnostic ignored "-Wunused-parameter"

#include "cudart.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

// ---- planted errors -----------------------------------------------------------------------------

static struct {
    long long calls, planted, behind;
    cudaError_t error, last;
} dry = {0, -1, 0, cudaSuccess, cudaSuccess};

void dry_plant(long long call, int error) {
    dry.calls = dry.behind = 0;
    dry.planted = call;
    dry.error = (cudaError_t)error;
}

long long dry_calls(void) {
    return dry.calls;
}

long long dry_calls_behind(void) {
    return dry.behind;
}

// What a call returns that may fail.
static cudaError_t dry_call(void) {
    const long long call = dry.calls++;
    if (call != dry.planted) {
        dry.behind += dry.planted >= 0 && call > dry.planted;
        return cudaSuccess;
    }
    return dry.last = dry.error;
}

int dry_library_call(void) {
    const cudaError_t error = dry_call();
    dry.last = cudaSuccess;
    return (int)error;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t last = dry.last;
    dry.last = cudaSuccess;
    return last;
}

cudaError_t cudaPeekAtLastError(void) {
    return dry.last;
}

// ---- kernels ------------------------------------------------------------------------------------

enum { dry_kernels_most = 8192 };

static struct {
    const void *host;
    const char *name;
    int launched;
} dry_kernel[dry_kernels_most];
static int dry_kernels;

int dry_kernels_count(void) {
    return dry_kernels;
}

const char *dry_kernel_name(int kernel) {
    return dry_kernel[kernel].name;
}

int dry_kernel_launched(int kernel) {
    return dry_kernel[kernel].launched;
}

static void dry_launched(const void *host) {
    for (int i = 0; i < dry_kernels; ++i) {
        dry_kernel[i].launched |= dry_kernel[i].host == host;
    }
}

#ifdef DRY_ALONE
void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    return &handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *function, const char *name,
                            int threads, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp) {
    if (dry_kernels == dry_kernels_most) {
        abort();
    }
    dry_kernel[dry_kernels].host = host;
    dry_kernel[dry_kernels++].name = name;
}

void __cudaRegisterFatBinaryEnd(void **handle) {}

void __cudaUnregisterFatBinary(void **handle) {}

char __cudaInitModule(void **handle) {
    return 0;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global) {}

const char *cudaGetErrorString(cudaError_t error) {
    return "an error of the dry runtime";
}
#endif

// ---- calls --------------------------------------------------------------------------------------

#define NOTHING(name, parameters)                                                                  \
    cudaError_t name parameters {                                                                  \
        return dry_call();                                                                         \
    }
#define MADE(name, parameters, made)                                                               \
    cudaError_t name parameters {                                                                  \
        *made = malloc(1);                                                                         \
        return dry_call();                                                                         \
    }

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
    *value = what == cudaDevAttrComputeCapabilityMajor   ? 9
             : what == cudaDevAttrComputeCapabilityMinor ? 0
             : what == cudaDevAttrMultiProcessorCount    ? 132
                                                         : 232448;
    return dry_call();
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
    memset(a, 0, sizeof *a);
    a->ptxVersion = a->binaryVersion = 90;
    a->sharedSizeBytes = 4; // code for sm_90a: spira/device.cuh
    a->maxThreadsPerBlock = 1024;
    return dry_call();
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return dry_call();
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return dry_call();
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

NOTHING(cudaFuncSetAttribute, (const void *f, enum cudaFuncAttribute a, int value))
NOTHING(cudaMemcpyAsync,
        (void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s))
NOTHING(cudaMemsetAsync, (void *to, int value, size_t n, cudaStream_t s))
NOTHING(cudaEventRecord, (cudaEvent_t e, cudaStream_t s))
NOTHING(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags))
NOTHING(cudaDeviceSynchronize, (void))
NOTHING(cudaSetDevice, (int device))
NOTHING(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode m))
NOTHING(cudaStreamSynchronize, (cudaStream_t s))
NOTHING(cudaStreamDestroy, (cudaStream_t s))
NOTHING(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s))
NOTHING(cudaGraphDestroy, (cudaGraph_t g))
NOTHING(cudaGraphExecDestroy, (cudaGraphExec_t e))
MADE(cudaStreamCreate, (cudaStream_t * s), s)
MADE(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *g), g)
MADE(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), e)

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *s) {
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) {
    dry_launched((const void *)f);
    return dry_call();
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **a) {
    dry_launched(f);
    return dry_call();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *f,
                                                                   int threads, size_t shared,
                                                                   unsigned flags) {
    *blocks = 2;
    return dry_call();
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *captured) {
    *captured = cudaStreamCaptureStatusNone;
    return dry_call();
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    return dry_call();
}
