// spira/launch.cuh: launches of kernels that begin while the kernel before them still ends.
//
// On compute capability 9.0 and later a kernel of a stream may be put on the device as soon as all
// thread blocks of the one before have called chain_wait or ended (programmatic dependent launch);
// elsewhere, and if it is not to be early, it comes after it, as ever. In a CUDA graph the launches
// keep that. A kernel that is launched so calls chain_wait in every thread block, before it touches
// memory that the one before may touch, and lets the next one begin no earlier than that. Its
// parameters that point to such memory are not __restrict__: their loads might move in front of
// that.
//
// Kernels of a row that have nothing for each other may all run at once: each but the last calls
// chain_next as it begins, and each chain_wait as it ends. What is launched behind them is not
// early: it finds them all done.
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

// Lets the next kernel begin, which this one has nothing for.
SPIRA_DEVICE void chain_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel, with `shared` bytes of dynamic shared memory; early: it calls chain_wait;
// cluster: thread blocks of a cluster, 1: none.
template <typename... P, typename... A>
SPIRA_API status chain_launch(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                              bool early, unsigned cluster, cudaStream_t stream,
                              const char *subject, const A &...arguments) {
    cudaFuncAttributes code = {};
    if (early) {
        SPIRA_TRY(status_from_cuda(cudaFuncGetAttributes(&code, kernel), subject));
    }
    cudaLaunchAttribute attribute[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attribute;
    if (code.ptxVersion >= 90) { // code for older devices does not wait
        cudaLaunchAttribute *a = &attribute[config.numAttrs++];
        a->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        a->val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute *a = &attribute[config.numAttrs++];
        a->id = cudaLaunchAttributeClusterDimension;
        a->val.clusterDim.x = cluster;
        a->val.clusterDim.y = a->val.clusterDim.z = 1;
    }
    return status_from_cuda(cudaLaunchKernelEx(&config, kernel, P(arguments)...), subject);
}

} // namespace spira

#endif
