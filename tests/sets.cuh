// tests/sets.cuh: a stream, device memory for the layers of reference_forms.h, and voxel sets in
// it.
#ifndef SPIRA_TESTS_SETS_CUH
#define SPIRA_TESTS_SETS_CUH

#include "device.cuh"
#include "reference_forms.h"

// Non-blocking: work that strays to the default stream is not ordered with it, and is missed.
inline cudaStream_t stream_get() {
    static cudaStream_t stream = nullptr;
    if (!stream) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return stream;
}

inline void device_put(void *to, const void *from, size_t bytes) {
    device_copy_in((char *)to, (const char *)from, (int64_t)bytes);
}

inline void device_get(void *to, const void *from, size_t bytes) {
    device_copy_out((char *)to, (const char *)from, (int64_t)bytes);
}

inline const forms_memory forms_device = {device_new_bytes, device_put, device_get};

// What `body(stream)` launches, as a graph. A blocking stream and the strictest mode: a launch on
// the default stream, an allocation or a wait makes an error of it. Null if it could not be
// captured.
template <typename F>
cudaGraphExec_t stream_capture(F body) {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    body(stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    if (CHECK(graph != nullptr)) {
        CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));
    return replay;
}

// A set in device memory of exactly its capacity, `room` words more than it has.
template <typename W>
spira::voxel_set<W> set_upload(const std::vector<W> &words, int32_t room = 0) {
    return forms_set(words, room, &forms_device);
}

// Other words in memory that exists; there must be room for them.
template <typename W>
void set_refill(const spira::voxel_set<W> *set, const std::vector<W> &words) {
    std::vector<W> all(words);
    int32_t count = (int32_t)words.size();
    CHECK(count <= set->capacity);
    all.resize((size_t)set->capacity, spira::word_none<W>());
    device_copy_in(set->words, all.data(), set->capacity);
    device_copy_in(set->count, &count, 1);
}

#endif
