// spira/copy.cuh: asynchronous copies from global to shared memory.
//
// Below sm_80 the copies are done at once, with the same results.
#ifndef SPIRA_COPY_CUH
#define SPIRA_COPY_CUH

#include "config.h"

#include <cuda_runtime.h>

namespace spira {

// The address of shared memory that the copies take: worked out once, it is one register.
SPIRA_DEVICE uint32_t copy_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}

// Where `go` is not 0, copies 16 bytes to shared memory: from global memory or, where `there` is
// negative, zeros, and then the source is not read. Both addresses are aligned to 16. The
// conditions are predicates and not branches: a warp stays whole.
SPIRA_DEVICE void copy_async_16(uint32_t shared, const void *global, int32_t there, uint32_t go) {
#if __CUDA_ARCH__ >= 800
    asm volatile("{\n"
                 ".reg .pred missing, go;\n"
                 "setp.lt.s32 missing, %2, 0;\n"
                 "setp.ne.u32 go, %3, 0;\n"
                 "@go cp.async.cg.shared.global [%0], [%1], 16, missing;\n"
                 "}" ::"r"(shared),
                 "l"(global), "r"(there), "r"(go)
                 : "memory");
#else
    if (go) {
        uint4 value = there >= 0 ? *(const uint4 *)global : make_uint4(0, 0, 0, 0);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(value.x),
                     "r"(value.y), "r"(value.z), "r"(value.w)
                     : "memory");
    }
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
