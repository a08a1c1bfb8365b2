// tests/torch/fake_cudart.cpp: a CUDA runtime without a GPU, for host_time.py. Device memory is
// host memory, kernels do nothing, and calls are counted. With it the host's share of a training
// step can be timed on any machine, by PyTorch's own code for CUDA.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <sys/mman.h>
#include <vector>

#define FAKE extern "C" __attribute__((visibility("default")))

struct counter {
    const char *name;
    long calls;
};

static counter counters[64];
static int counters_used;

static counter *counter_new(const char *name) {
    counters[counters_used].name = name;
    return &counters[counters_used++];
}

#define COUNTED()                                                                                  \
    static counter *own = counter_new(__func__);                                                   \
    ++own->calls

// What copies to the host find, by their size, in turn.
static std::map<size_t, std::deque<std::vector<char>>> &readbacks() {
    static auto *all = new std::map<size_t, std::deque<std::vector<char>>>;
    return *all;
}

FAKE void fake_readback(const void *bytes, size_t size) {
    readbacks()[size].emplace_back((const char *)bytes, (const char *)bytes + size);
}

FAKE long fake_calls(const char *name) {
    long calls = 0;
    for (int i = 0; i < counters_used; ++i) {
        calls += strstr(counters[i].name, name) ? counters[i].calls : 0;
    }
    return calls;
}

static void read_back(void *to, const void *from, size_t size) {
    auto &queue = readbacks()[size];
    if (queue.empty()) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, queue.front().data(), size);
    queue.push_back(queue.front());
    queue.pop_front();
}

// ---- modules and launches -----------------------------------------------------------------------

FAKE void **__cudaRegisterFatBinary(void *) {
    static void *handle[1];
    return handle;
}

FAKE char __cudaInitModule(void **) {
    return 0;
}

FAKE cudaError_t __cudaGetKernel(void **kernel, const void *function) {
    *kernel = (void *)function;
    return cudaSuccess;
}

static thread_local struct {
    dim3 blocks, threads;
    size_t shared;
    void *stream;
} configuration;

FAKE unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared, void *stream) {
    configuration = {blocks, threads, shared, stream};
    return 0;
}

FAKE cudaError_t __cudaPopCallConfiguration(dim3 *blocks, dim3 *threads, size_t *shared,
                                            void *stream) {
    *blocks = configuration.blocks;
    *threads = configuration.threads;
    *shared = configuration.shared;
    *(void **)stream = configuration.stream;
    return cudaSuccess;
}

FAKE cudaError_t __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, void *) {
    COUNTED();
    return cudaSuccess;
}

FAKE cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
    COUNTED();
    return cudaSuccess;
}

FAKE cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **) {
    COUNTED();
    return cudaSuccess;
}

FAKE cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *to, const void *) {
    *to = {};
    to->ptxVersion = to->binaryVersion = 90;
    to->sharedSizeBytes = 4; // so code for sm_90a looks (spira/device.cuh)
    to->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

FAKE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *,
                                                                        int, size_t, unsigned) {
    *blocks = 2;
    return cudaSuccess;
}

// ---- device -------------------------------------------------------------------------------------

FAKE cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

FAKE cudaError_t cudaGetDevice(int *device) {
    COUNTED();
    *device = 0;
    return cudaSuccess;
}

FAKE cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int) {
    *value = what == cudaDevAttrComputeCapabilityMajor         ? 9
             : what == cudaDevAttrComputeCapabilityMinor       ? 0
             : what == cudaDevAttrMultiProcessorCount          ? 132
             : what == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 232448
                                                               : 1;
    return cudaSuccess;
}

FAKE cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    *p = {};
    strcpy(p->name, "none");
    p->totalGlobalMem = 80ull << 30;
    p->major = 9;
    p->multiProcessorCount = 132;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = 232448;
    p->sharedMemPerMultiprocessor = 233472;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    for (int axis = 0; axis < 3; ++axis) {
        p->maxThreadsDim[axis] = 1024;
        p->maxGridSize[axis] = axis ? 65535 : 2147483647;
    }
    return cudaSuccess;
}

FAKE cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

static int any_driver_call() {
    return 0;
}

FAKE cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **call, unsigned,
                                                  unsigned long long,
                                                  cudaDriverEntryPointQueryResult *result) {
    *call = (void *)any_driver_call;
    if (result) {
        *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

// ---- memory -------------------------------------------------------------------------------------

FAKE cudaError_t cudaMalloc(void **to, size_t size) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    *to = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return *to == MAP_FAILED ? cudaErrorMemoryAllocation : cudaSuccess;
}

FAKE cudaError_t cudaHostAlloc(void **to, size_t size, unsigned) {
    *to = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return cudaSuccess;
}

FAKE cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = *total = 80ull << 30;
    return cudaSuccess;
}

FAKE cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                                 cudaStream_t) {
    COUNTED();
    if (kind == cudaMemcpyDeviceToHost) {
        read_back(to, from, size);
    } else if (kind != cudaMemcpyDeviceToDevice) {
        memcpy(to, from, size);
    }
    return cudaSuccess;
}

FAKE cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *to, const void *) {
    *to = {};
    return cudaSuccess;
}

// ---- streams and events -------------------------------------------------------------------------

FAKE cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = *greatest = 0;
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

FAKE cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *status,
                                          unsigned long long *, cudaGraph_t *,
                                          const cudaGraphNode_t **, const cudaGraphEdgeData **,
                                          size_t *) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

FAKE cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = (cudaEvent_t)malloc(8);
    return cudaSuccess;
}

// ---- calls that have nothing to do --------------------------------------------------------------

// Under other names in this file: the header has declared them with arguments.
#define NOTHING(name)                                                                              \
    FAKE cudaError_t nothing_##name() __asm__(#name);                                              \
    FAKE cudaError_t nothing_##name() {                                                            \
        COUNTED();                                                                                 \
        return cudaSuccess;                                                                        \
    }

NOTHING(__cudaRegisterFatBinaryEnd)
NOTHING(__cudaUnregisterFatBinary)
NOTHING(__cudaRegisterFunction)
NOTHING(__cudaRegisterVar)
NOTHING(cudaSetDevice)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError)
NOTHING(cudaFree)
NOTHING(cudaFreeHost)
NOTHING(cudaMemset)
NOTHING(cudaMemsetAsync)
NOTHING(cudaDeviceSynchronize)
NOTHING(cudaStreamSynchronize)
NOTHING(cudaStreamQuery)
NOTHING(cudaStreamWaitEvent)
NOTHING(cudaEventRecord)
NOTHING(cudaEventRecordWithFlags)
NOTHING(cudaEventQuery)
NOTHING(cudaEventSynchronize)
NOTHING(cudaEventDestroy)
NOTHING(cudaThreadExchangeStreamCaptureMode)
