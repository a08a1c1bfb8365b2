// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/device.cuh: queries the current GPU; says at compile time which GPUs the code is for.
#ifndef SPIRA_DEVICE_CUH
#define SPIRA_DEVICE_CUH

#include "base/probe.cuh"
#include "device.h"
#include "status.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && !SPIRA_WGMMA && !defined(SPIRA_PLAIN_SM90)
#pragma message "spira: code for sm_90 without 'a' has no Hopper kernels. For H100 and H200 pass " \
                "-gencode=arch=compute_90a,code=sm_90a: -arch=native compiles for plain sm_90 "    \
                "alone, -arch=sm_90a for both. SPIRA_PLAIN_SM90, defined, silences this."
#endif

namespace spira {

// The compute capabilities that this file is compiled for, so that launchers leave out kernels that
// none of them runs. Compilers that do not tell are taken to compile for all.
#ifndef __CUDA_ARCH_LIST__
#define SPIRA_ARCH_LIST 750, 800, 900, 1000
#else
#define SPIRA_ARCH_LIST __CUDA_ARCH_LIST__
#endif

// Whether there is code for a capability of least .. most: 90 for 9.0.
SPIRA_BOTH constexpr bool device_code_within(int least, int most) {
    for (int code : {SPIRA_ARCH_LIST}) {
        if (code / 10 >= least && code / 10 <= most) {
            return true;
        }
    }
    return false;
}

// Kernels of PTX for less than 8.0, translated for a newer GPU, have no tensor cores' instructions.
SPIRA_API int device_code_capability(int device, int code) {
    return code < 80 && device > code ? code : device;
}

// The driver's function of this name; null where it has none.
SPIRA_LAUNCHER void *device_driver_function(const char *name) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    return !status_failed(status_from_cuda(error, name)) && found == cudaDriverEntryPointSuccess
               ? function
               : nullptr;
}

// Fills `d` for the current device. Once, at start: it takes some microseconds, and loads the
// module of the calling file. It launches nothing and may be called while a stream is captured.
//
// errors   status_cuda: there is no device, or no code for it in the binary
SPIRA_LAUNCHER status device_info_query(device_info *d) {
    SPIRA_REQUIRE(d, status_null_pointer, "device_info", 0);
    int device, major, minor;
    SPIRA_TRY(status_from_cuda(cudaGetDevice(&device), "device"));
    const cudaDeviceAttr what[] = {
        cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
        cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlockOptin};
    int *const into[] = {&major, &minor, &d->multiprocessors, &d->shared_max};
    for (int i = 0; i < 4; ++i) {
        SPIRA_TRY(status_from_cuda(cudaDeviceGetAttribute(into[i], what[i], device), "device"));
    }
    cudaFuncAttributes code = {};
    SPIRA_TRY(status_from_cuda(cudaFuncGetAttributes(&code, device_probe_kernel<>),
                               "device (code for it)"));
    d->capability = device_code_capability(10 * major + minor, code.ptxVersion);
    d->hopper = d->capability == 90 && code.sharedSizeBytes > 0;
    d->programmatic = code.ptxVersion >= 90;
    d->tensor_map_encode =
        d->hopper ? (device_tensor_map *)device_driver_function("cuTensorMapEncodeTiled") : nullptr;
    return status_success();
}

} // namespace spira

#endif
