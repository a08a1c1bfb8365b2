// spira/copy.cuh: asynchronous copies from global to shared memory.
//
// Below sm_80 the copies are done at once, with the same results.
#ifndef SPIRA_COPY_CUH
#define SPIRA_COPY_CUH

#include "config.h"

#include <cuda_runtime.h>

namespace spira {

// Copies 16 bytes to shared memory: the first `bytes` (0..16) from global memory, zeros after them.
// Both addresses are aligned to 16; with bytes == 0 the source is not read.
SPIRA_DEVICE void copy_async_16(void *shared, const void *global, int bytes) {
#if __CUDA_ARCH__ >= 800
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(bytes)
                 : "memory");
#else
    uint32_t word[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; ++i) {
        if (bytes >= 4 * i + 4) {
            word[i] = ((const uint32_t *)global)[i];
        } else if (bytes > 4 * i) {
            word[i] = ((const uint16_t *)global)[2 * i];
        }
    }
    *(uint4 *)shared = make_uint4(word[0], word[1], word[2], word[3]);
#endif
}

// Ends a group of copies of this thread.
SPIRA_DEVICE void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `pending` of this thread's newest groups are still under way.
template <int pending>
SPIRA_DEVICE void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

} // namespace spira

#endif
