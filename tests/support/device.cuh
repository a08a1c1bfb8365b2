// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/device.cuh: the CUDA side of the test harness.
//
//     DEVICE_TEST(mask_matches_host) {
//         uint32_t *in = device_upload(host, n);       // guarded, freed when the test ends
//         uint32_t *out = device_new<uint32_t>(n);     // guarded, poisoned
//         CHECK_OK(mask_launch(in, out, n, stream));
//         uint32_t *got = device_fetch(out, n);        // waits; guarded host memory
//         CHECK(device_untouched(out, count, n));      // nothing was written past the count
//     }
//
// Without a GPU a DEVICE_TEST is skipped; with SPIRA_NEED_GPU=1 it fails instead, so that a GPU
// machine whose driver is down does not look healthy.
#ifndef SPIRA_TESTS_DEVICE_CUH
#define SPIRA_TESTS_DEVICE_CUH

#include "memory.h"

#include <cuda_runtime.h>
#include <map>
#include <vector>

// ---- the device and its errors ------------------------------------------------------------------

inline bool device_available() {
    static int count = -1;
    if (count < 0 && cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError(); // that there is none is no error of a test
        count = 0;
    }
    return count > 0;
}

inline bool test_check_cuda(cudaError_t error, const char *file, int line, const char *expression) {
    test_checked();
    if (error == cudaSuccess) {
        return true;
    }
    char text[512];
    snprintf(text, sizeof text, "%.200s: %s (%d)", expression, cudaGetErrorString(error),
             (int)error);
    test_fail(file, line, text);
    return false;
}

#define CUDA_CHECK(expression) test_check_cuda((expression), __FILE__, __LINE__, #expression)

// Waits for all streams; fails the test if a launch or a kernel failed. Clears what can be cleared.
inline bool expect_no_cuda_error(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    cudaError_t finished = cudaDeviceSynchronize();
    cudaError_t launched = cudaGetLastError();
    return test_check_cuda(finished != cudaSuccess ? finished : launched, file, line,
                           "no CUDA error");
}

// Bodies that end early return into the wrapper, so that errors are looked for in any case. That
// look is not a check of the test's own: a test that checks nothing still fails.
inline void device_test_run(void (*body)()) {
    if (!device_available()) {
        if (test_environment("SPIRA_NEED_GPU")) {
            test_fail("tests/support/device.cuh", __LINE__,
                      "SPIRA_NEED_GPU is set and there is no GPU");
        }
        SKIP("no GPU: compiled, not run");
    }
    body();
    int checked = test_state.checked;
    expect_no_cuda_error("tests/support/device.cuh", __LINE__);
    test_state.checked = checked;
}

#define DEVICE_TEST(name)                                                                          \
    static void device_body_##name();                                                              \
    TEST(name) {                                                                                   \
        device_test_run(device_body_##name);                                                       \
    }                                                                                              \
    static void device_body_##name()

// ---- order between streams ----------------------------------------------------------------------

// Tests wait for the device as rarely as they can: where several processes share a GPU, each wait
// takes a time slice. New buffers are filled on the default stream without a wait. Blocking streams
// are ordered with it; non-blocking ones that tests launch to must be followers.
enum { device_followers_most = 4 };

struct device_order_state {
    cudaStream_t follower[device_followers_most];
    int followers;
    cudaEvent_t filled;
};

inline device_order_state *device_order() {
    static device_order_state order = {};
    return &order;
}

// A non-blocking stream, for the rest of the program, whose work comes behind the filling of all
// buffers that were made before it was launched.
inline cudaStream_t device_follower_make() {
    device_order_state *o = device_order();
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (CHECK(o->followers < device_followers_most)) {
        o->follower[o->followers++] = stream;
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    return stream;
}

// What was launched on the default stream comes before what followers launch from now on.
inline void device_filled(const char *file, int line) {
    device_order_state *o = device_order();
    if (test_environment("SPIRA_EXACT")) {
        test_check_cuda(cudaDeviceSynchronize(), file, line, "a new buffer");
        return;
    }
    if (!o->filled) {
        test_check_cuda(cudaEventCreateWithFlags(&o->filled, cudaEventDisableTiming), file, line,
                        "an event");
    }
    test_check_cuda(cudaEventRecord(o->filled, nullptr), file, line, "a new buffer");
    for (int i = 0; i < o->followers; ++i) {
        test_check_cuda(cudaStreamWaitEvent(o->follower[i], o->filled, 0), file, line,
                        "a new buffer");
    }
}

// ---- guarded buffers in device memory -----------------------------------------------------------

// Tests make thousands of small buffers. cudaMalloc and cudaFree take as long as a test's kernels,
// so freed memory is kept and used again, in classes of similar sizes. Under a sanitizer
// (SPIRA_EXACT) each buffer is an allocation of its own.
inline size_t device_memory_class(size_t size) {
    size_t step = 1024;
    while (step * 8 <= size) {
        step *= 2;
    }
    return (size + step - 1) / step * step;
}

struct device_memory_kept {
    std::multimap<size_t, char *> free; // by class
    size_t bytes;
};

inline device_memory_kept *device_memory_store() {
    static device_memory_kept store = {};
    return &store;
}

inline void device_memory_drop() {
    device_memory_kept *store = device_memory_store();
    for (const auto &block : store->free) {
        cudaFree(block.second);
    }
    *store = {};
}

// `size` bytes or more. Null if there is no memory.
inline char *device_memory_take(size_t size) {
    device_memory_kept *store = device_memory_store();
    size = device_memory_class(size);
    auto found = store->free.find(size);
    char *base = nullptr;
    if (found != store->free.end()) {
        base = found->second;
        store->bytes -= size;
        store->free.erase(found);
    } else if (cudaMalloc((void **)&base, size) != cudaSuccess) {
        cudaGetLastError();
        device_memory_drop();
        return cudaMalloc((void **)&base, size) == cudaSuccess ? base : nullptr;
    }
    return base;
}

inline void device_memory_give(char *base, size_t size) {
    device_memory_kept *store = device_memory_store();
    size = device_memory_class(size);
    if (store->bytes + size > (size_t)8 << 30) {
        cudaFree(base);
        return;
    }
    store->free.insert({size, base});
    store->bytes += size;
}

// Sentinels on the device: one small kernel each to write and to compare both ends of a buffer.
struct device_sentinels {
    char byte[guarded_guard];
};

inline device_sentinels device_sentinels_make() {
    device_sentinels s;
    guarded_sentinels(s.byte);
    return s;
}

[[maybe_unused]] static __global__ void device_sentinels_write(char *data, size_t size,
                                                               device_sentinels s) {
    data[(int)threadIdx.x - guarded_guard] = s.byte[threadIdx.x];
    data[size + threadIdx.x] = s.byte[threadIdx.x];
}

// A buffer to compare, and what was found: memory of the host that the device reads and writes.
struct device_sentinels_job {
    const char *data;
    size_t size;
    int broken[2]; // before, after
};

enum { device_sentinels_jobs = 1024 };

// A thread block for each buffer.
[[maybe_unused]] static __global__ void device_sentinels_compare(device_sentinels_job *jobs,
                                                                 device_sentinels s) {
    device_sentinels_job *job = jobs + blockIdx.x;
    if (job->data[(int)threadIdx.x - guarded_guard] != s.byte[threadIdx.x]) {
        job->broken[0] = 1;
    }
    if (job->data[job->size + threadIdx.x] != s.byte[threadIdx.x]) {
        job->broken[1] = 1;
    }
}

// Null under a sanitizer (SPIRA_EXACT): there are no sentinels.
inline device_sentinels_job *device_sentinels_room() {
    static device_sentinels_job *jobs = nullptr;
    if (test_environment("SPIRA_EXACT")) {
        return nullptr;
    }
    if (!jobs && cudaMallocHost((void **)&jobs, device_sentinels_jobs * sizeof *jobs)) {
        jobs = nullptr;
    }
    return jobs;
}

// Compares [0, count); false if that was not possible. The comparison comes after a device-wide
// wait: work in non-blocking streams is done by then.
inline bool device_sentinels_run(device_sentinels_job *jobs, int count) {
    if (count == 0) {
        return true;
    }
    if (cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    device_sentinels_compare<<<(unsigned)count, guarded_guard>>>(jobs, device_sentinels_make());
    return cudaDeviceSynchronize() == cudaSuccess;
}

inline guarded_state device_sentinels_state(const device_sentinels_job *job) {
    return job->broken[0] ? guarded_before : job->broken[1] ? guarded_after : guarded_intact;
}

inline guarded_state guarded_check_device(const guarded_buffer *b) {
    if (b->base == b->data) {
        return guarded_intact; // SPIRA_EXACT: there are no sentinels
    }
    device_sentinels_job *job = device_sentinels_room();
    if (!job) {
        return guarded_unknown;
    }
    *job = {b->data, b->size, {0, 0}};
    return device_sentinels_run(job, 1) ? device_sentinels_state(job) : guarded_unknown;
}

// All buffers of a list in device memory.
inline void guarded_judge_device(guarded_buffer *buffers) {
    guarded_buffer *judged[device_sentinels_jobs];
    device_sentinels_job *jobs = device_sentinels_room();
    for (guarded_buffer *b = buffers; b && jobs;) {
        int count = 0;
        for (; b && count < device_sentinels_jobs; b = b->next) {
            if (b->check == guarded_check_device && b->base != b->data) {
                judged[count] = b;
                jobs[count++] = {b->data, b->size, {0, 0}};
            }
        }
        const bool good = device_sentinels_run(jobs, count);
        for (int i = 0; i < count; ++i) {
            judged[i]->state = good ? device_sentinels_state(&jobs[i]) : guarded_unknown;
            judged[i]->judged = true;
        }
    }
}

inline void guarded_release_device(guarded_buffer *b) {
    if (b->base == b->data) {
        cudaFree(b->base);
    } else {
        device_memory_give(b->base, b->size + 2 * guarded_guard);
    }
}

// fill: a byte to fill it with, or -1.
inline void *device_new_filled(size_t size, int fill, const char *file, int line) {
    bool exact = test_environment("SPIRA_EXACT");
    char *base = nullptr;
    if (!exact) {
        base = device_memory_take(size + 2 * guarded_guard);
    } else if (cudaMalloc((void **)&base, size ? size : 1) != cudaSuccess) {
        base = nullptr;
    }
    if (!base) {
        fprintf(stderr, "%s:%d: %zu bytes on the device: %s\n", file, line, size,
                cudaGetErrorString(cudaGetLastError()));
        exit(1); // what would follow is noise
    }
    char *data = base + (exact ? 0 : guarded_guard);
    guarded_remember(
        {nullptr, base, data, size, guarded_check_device, guarded_release_device, file, line});
    test_state.judge = guarded_judge_device;
    if (size && fill >= 0) {
        test_check_cuda(cudaMemset(data, fill, size), file, line, "poison");
    }
    if (!exact) {
        device_sentinels_write<<<1, guarded_guard>>>(data, size, device_sentinels_make());
        test_check_cuda(cudaGetLastError(), file, line, "sentinels");
    }
    device_filled(file, line); // the poison must not land on what a stream writes next
    return data;
}

enum : size_t { device_stage_bytes = 8 << 20 };

// Memory of the host that copies pass through, so that they need no wait. [device_stage_bytes] Null
// under a sanitizer (SPIRA_EXACT), which sees such copies worse.
inline char *device_stage_make() {
    void *stage = nullptr;
    if (test_environment("SPIRA_EXACT")) {
        return nullptr;
    }
    return cudaMallocHost(&stage, device_stage_bytes) == cudaSuccess ? (char *)stage : nullptr;
}

// Copies to a buffer that nothing has used yet, and waits for nothing. Followers see the copy.
inline void device_fill(void *device, const void *host, size_t bytes, const char *file, int line) {
    static char *const stage = device_stage_make();
    static size_t used = 0;
    if (!stage || bytes > device_stage_bytes / 4) {
        test_check_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), file, line,
                        "an upload");
    } else if (bytes) {
        if (used + bytes > device_stage_bytes) {
            test_check_cuda(cudaStreamSynchronize(nullptr), file, line, "uploads");
            used = 0;
        }
        memcpy(stage + used, host, bytes);
        test_check_cuda(
            cudaMemcpyAsync(device, stage + used, bytes, cudaMemcpyHostToDevice, nullptr), file,
            line, "an upload");
        used += (bytes + 255) / 256 * 256;
    }
    device_filled(file, line);
}

inline void *device_new_bytes(size_t size, const char *file, int line) {
    const bool poisoned = !test_environment("SPIRA_UNPOISONED");
    return device_new_filled(size, poisoned ? guarded_poison : -1, file, line);
}

// Device memory of exactly `count` elements, aligned to 256 bytes and no more, poisoned; never
// null. Lives to the end of the test.
template <typename T>
T *device_new(int64_t count, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return (T *)device_new_bytes((size_t)count * sizeof(T), file, line);
}

// Poisoned in any case. For what the copy engine writes: initcheck does not see that, and takes the
// kernels that read it to read what nobody has written.
template <typename T>
T *device_new_poisoned(int64_t count, const char *file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    return (T *)device_new_filled((size_t)count * sizeof(T), guarded_poison, file, line);
}

// Into memory that exists; waits for the device before and after.
template <typename T>
bool device_copy_in(T *device, const T *host, int64_t count, const char *file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
    return test_check_cuda(cudaDeviceSynchronize(), file, line, "before an upload") &&
           test_check_cuda(
               cudaMemcpy(device, host, (size_t)count * sizeof(T), cudaMemcpyHostToDevice), file,
               line, "an upload") &&
           test_check_cuda(cudaDeviceSynchronize(), file, line, "after an upload");
}

template <typename T>
bool device_copy_out(T *host, const T *device, int64_t count, const char *file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
    return test_check_cuda(cudaDeviceSynchronize(), file, line, "before a download") &&
           test_check_cuda(
               cudaMemcpy(host, device, (size_t)count * sizeof(T), cudaMemcpyDeviceToHost), file,
               line, "a download");
}

// Copies to the host that have been launched.
struct device_gets {
    struct {
        void *to;
        const char *from; // in the stage
        size_t bytes;
    } copy[16];
    int copies;
    char *stage;
    size_t used;
};

inline device_gets *device_gets_state() {
    static device_gets g = {{}, 0, device_stage_make(), 0};
    return &g;
}

// After it the values are there.
inline void device_settle() {
    device_gets *g = device_gets_state();
    if (g->copies) {
        CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
    for (int i = 0; i < g->copies; ++i) {
        memcpy(g->copy[i].to, g->copy[i].from, g->copy[i].bytes);
    }
    g->copies = 0;
    g->used = 0;
}

// Waits for the device once for all copies up to device_settle.
inline void device_get(void *to, const void *from, size_t bytes) {
    device_gets *g = device_gets_state();
    if (g->copies == 16 || g->used + bytes > device_stage_bytes) {
        device_settle();
    }
    if (!g->stage || bytes > device_stage_bytes) {
        device_copy_out((char *)to, (const char *)from, (int64_t)bytes);
        return;
    }
    if (!g->copies) {
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    CUDA_CHECK(cudaMemcpyAsync(g->stage + g->used, from, bytes, cudaMemcpyDeviceToHost, nullptr));
    g->copy[g->copies++] = {to, g->stage + g->used, bytes};
    g->used += (bytes + 255) / 256 * 256;
}

// A new guarded device buffer with a copy of host [count].
template <typename T>
T *device_upload(const T *host, int64_t count, const char *file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
    const size_t bytes = (size_t)count * sizeof(T);
    T *device = (T *)device_new_filled(bytes, -1, file, line);
    device_fill(device, host, bytes, file, line);
    return device;
}

// A new guarded device buffer of zeros: a device_status, a count.
template <typename T>
T *device_zeros(int64_t count, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return (T *)device_new_filled((size_t)count * sizeof(T), 0, file, line);
}

// A new guarded host buffer with a copy of device [count]. Ask only for what the device wrote:
// initcheck reports the rest.
template <typename T>
T *device_fetch(const T *device, int64_t count, const char *file = __builtin_FILE(),
                int line = __builtin_LINE()) {
    T *host = guarded_new<T>(count, file, line);
    device_copy_out(host, device, count, file, line);
    return host;
}

// One value.
template <typename T>
T device_value(const T *device, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    T value = {};
    device_copy_out(&value, device, 1, file, line);
    return value;
}

[[maybe_unused]] static __global__ void device_poison_compare(const unsigned char *data,
                                                              size_t size, int *broken) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) {
        if (data[i] != guarded_poison) {
            *broken = 1;
        }
    }
}

// Nothing has been written to elements [from, count). Reads nothing where there is no poison.
template <typename T>
bool device_untouched(const T *device, int64_t from, int64_t count,
                      const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (from >= count || test_environment("SPIRA_UNPOISONED")) {
        return true;
    }
    if (test_environment("SPIRA_EXACT")) {
        return guarded_untouched(device_fetch(device + from, count - from, file, line), 0,
                                 count - from);
    }
    int *broken = (int *)device_sentinels_room();
    if (!test_check(broken, file, line, "memory of the host") ||
        !test_check_cuda(cudaDeviceSynchronize(), file, line, "before a comparison")) {
        return false;
    }
    *broken = 0;
    const size_t size = (size_t)(count - from) * sizeof(T);
    const unsigned blocks = (unsigned)(size / 4096 < 1024 ? size / 4096 + 1 : 1024);
    device_poison_compare<<<blocks, 256>>>((const unsigned char *)(device + from), size, broken);
    return test_check_cuda(cudaDeviceSynchronize(), file, line, "a comparison") && !*broken;
}

// Into new memory.
inline void device_put(void *to, const void *from, size_t bytes) {
    device_fill(to, from, bytes, __FILE__, __LINE__);
}

inline const test_memory memory_device = {
    device_new_bytes, device_put, device_get, device_settle,
    [](const char *p, int64_t from, int64_t end) { return device_untouched(p, from, end); }};

// ---- streams and graphs -------------------------------------------------------------------------

// Non-blocking: work that strays to the default stream is not ordered with it, and is missed.
inline cudaStream_t stream_get() {
    static cudaStream_t stream = nullptr;
    if (!stream) {
        stream = device_follower_make();
    }
    return stream;
}

// Keeps a stream busy until it is told to stop, or for `limit` cycles.
[[maybe_unused]] static __global__ void stream_occupy(const volatile int *stop, long long limit) {
    long long start = clock64();
    while (!*stop && clock64() - start < limit) {
    }
}

// A graph has `least` nodes or more: kernels, clears and, where there may be some, copies; no
// allocation, no call back to the host.
inline void graph_check(cudaGraph_t graph, size_t least, bool copies) {
    size_t count = 0;
    CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    std::vector<cudaGraphNode_t> nodes(count);
    CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
    CHECK(count >= least);
    for (cudaGraphNode_t node : nodes) {
        cudaGraphNodeType type;
        CUDA_CHECK(cudaGraphNodeGetType(node, &type));
        bool copy = type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeEmpty;
        CHECK(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset ||
              (copies && copy));
    }
}

// What `body(stream)` launches, as a graph. A blocking stream and the strictest mode: a launch on
// the default stream, an allocation or a wait makes an error of it. Null if it could not be
// captured. With `least` its nodes are looked at.
template <typename F>
cudaGraphExec_t stream_capture(F body, size_t least = 0, bool copies = true) {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    body(stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    if (CHECK(graph != nullptr)) {
        if (least) {
            graph_check(graph, least, copies);
        }
        CUDA_CHECK(cudaGraphInstantiateWithFlags(&replay, graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));
    return replay;
}

#endif
