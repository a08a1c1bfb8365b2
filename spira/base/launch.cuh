// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/launch.cuh: programmatic dependent launch: a kernel begins while the one before ends.
//
// On compute capability 9.0 and later, a kernel that is launched with `programmatic` may start as
// soon as every thread block of the kernel before it has called pdl_wait or
// pdl_launch_dependents, or has exited. Elsewhere, and without `programmatic`, it starts after the
// kernel before it has completed. CUDA graphs keep the dependency.
//
// A kernel that may be launched this way must call pdl_wait, or pdl_wait_alone, in every thread
// block before it touches memory that the kernel before it may touch, and must not release its
// dependents earlier than that. Its parameters that point to such memory must not be __restrict__:
// the compiler could move their loads in front of the wait.
//
// Independent kernels may all run at once: each but the last calls pdl_launch_dependents when it
// starts, and each calls pdl_wait when it ends. The kernel behind them must not be launched with
// `programmatic`, unless it waits before it reads or writes anything.
#ifndef SPIRA_BASE_LAUNCH_CUH
#define SPIRA_BASE_LAUNCH_CUH

#include "../status.cuh"

#include <type_traits>

#ifdef SPIRA_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace spira {

// Waits until the kernels before this one have completed and their writes are visible; then
// releases the dependents of this one.
SPIRA_DEVICE void pdl_wait() {
    SPIRA_ASM_90("griddepcontrol.wait;" ::: "memory");
    SPIRA_ASM_90("griddepcontrol.launch_dependents;" ::: "memory");
}

// The same without a release. For kernels that make what a dependent may read before it waits, as
// packed weights.
SPIRA_DEVICE void pdl_wait_alone() {
    SPIRA_ASM_90("griddepcontrol.wait;" ::: "memory");
}

// Releases dependents; they consume nothing from this kernel.
SPIRA_DEVICE void pdl_launch_dependents() {
    SPIRA_ASM_90("griddepcontrol.launch_dependents;" ::: "memory");
}

// Thread blocks for __launch_bounds__: `wanted`, or as many as a multiprocessor has threads for.
SPIRA_BOTH constexpr int launch_resident([[maybe_unused]] int threads, int wanted) {
#ifdef __CUDA_ARCH__
    constexpr int arch = __CUDA_ARCH__ / 10;
    constexpr int most = arch < 80 ? 1024 : arch == 80 || (arch >= 90 && arch < 110) ? 2048 : 1536;
    return wanted * threads <= most ? wanted : most / threads;
#else
    return wanted;
#endif
}

// Lets a kernel be launched with up to `bytes` of dynamic shared memory. The limit is one for all
// host threads: each call for a kernel on a GPU sets the same, or another thread's launch would be
// refused.
template <typename... P>
SPIRA_API status kernel_shared_allow(void (*kernel)(P...), int bytes, const char *subject) {
    return status_from_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), subject);
}

// How a kernel is launched.
struct launch_config {
    dim3 blocks, threads;
    cudaStream_t stream;
    const char *subject;       // of a failure's status
    bool programmatic = false; // the kernel calls pdl_wait, and device_info.programmatic is set
    size_t shared = 0;         // bytes of dynamic shared memory
    unsigned cluster = 0;      // thread blocks in a cluster; 0 and 1: none
    bool cooperative = false;  // thread blocks wait for one another: all fit at a time, or an error
};

// With SPIRA_NVTX, profilers see a range of this name around each launch. Arguments are converted
// as those of any function are: a pointer to another type is refused.
template <typename... P, typename... A,
          typename = std::enable_if_t<(std::is_convertible<const A &, P>::value && ...)>>
SPIRA_API status kernel_launch(void (*kernel)(P...), const launch_config &as,
                               const A &...arguments) {
    cudaLaunchAttribute attribute[3] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = as.blocks;
    config.blockDim = as.threads;
    config.dynamicSmemBytes = as.shared;
    config.stream = as.stream;
    config.attrs = attribute;
    if (as.programmatic) {
        cudaLaunchAttribute *a = &attribute[config.numAttrs++];
        a->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a->val.programmaticStreamSerializationAllowed = 1;
    }
    if (as.cluster > 1) {
        cudaLaunchAttribute *a = &attribute[config.numAttrs++];
        a->id = cudaLaunchAttributeClusterDimension;
        a->val.clusterDim.x = as.cluster;
        a->val.clusterDim.y = a->val.clusterDim.z = 1;
    }
    if (as.cooperative) {
        cudaLaunchAttribute *a = &attribute[config.numAttrs++];
        a->id = cudaLaunchAttributeCooperative;
        a->val.cooperative = 1;
    }
#ifdef SPIRA_NVTX
    nvtxRangePushA(as.subject);
#endif
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
#ifdef SPIRA_NVTX
    nvtxRangePop();
#endif
    return status_from_cuda(error, as.subject);
}

} // namespace spira

#endif
