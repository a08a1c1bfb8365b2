// tests/support/sets.cuh: device memory for the layers of reference_forms.h, and voxel sets in it.
#ifndef SPIRA_TESTS_SETS_CUH
#define SPIRA_TESTS_SETS_CUH

#include "device.cuh"
#include "reference_forms.h"

// Into new memory.
inline void device_put(void *to, const void *from, size_t bytes) {
    device_fill(to, from, bytes, __FILE__, __LINE__);
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

inline const forms_memory forms_device = {device_new_bytes, device_put, device_get, device_settle};

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
