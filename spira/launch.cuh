// spira/launch.cuh: launches of kernels that begin while the kernel before them still ends.
//
// On compute capability 9.0 and later a kernel of a stream may be put on the device as soon as all
// thread blocks of the one before have called chain_wait or ended (programmatic dependent launch);
// elsewhere, and if it is not to be early, it comes after it, as ever. In a CUDA graph the launches
// keep that. A kernel that is launched so calls chain_wait in every thread block, before it touches
// memory that the one before may touch.
#ifndef SPIRA_LAUNCH_CUH
#define SPIRA_LAUNCH_CUH

#include "status.cuh"

namespace spira {

// Waits until the kernels before have ended and their writes are seen; then lets the next one
// begin. So a kernel that has not waited yet knows that all before its predecessor have ended.
SPIRA_DEVICE void chain_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel, with `shared` bytes of dynamic shared memory; early: it calls chain_wait.
template <typename... P, typename... A>
SPIRA_API status chain_launch(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                              bool early, cudaStream_t stream, const char *subject,
                              const A &...arguments) {
    cudaFuncAttributes code = {};
    if (early) {
        SPIRA_TRY(status_from_cuda(cudaFuncGetAttributes(&code, kernel), subject));
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = code.ptxVersion >= 90; // code for older devices does not wait
    return status_from_cuda(cudaLaunchKernelEx(&config, kernel, P(arguments)...), subject);
}

} // namespace spira

#endif
