// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/status.cuh: the device's side of errors, and the checks around launches.
#ifndef SPIRA_STATUS_CUH
#define SPIRA_STATUS_CUH

#include "status.h"

#include <cuda_runtime.h>

namespace spira {

// Records trouble with a row (or, for device_flag_capacity, the count that was needed).
SPIRA_DEVICE void device_status_raise(device_status *s, device_flag flag, uint32_t row) {
    atomicMax(device_status_field(s, flag), device_status_value(flag, row));
    atomicOr(&s->flags, (uint32_t)flag);
}

// Records a count above its capacity. Called by one thread.
SPIRA_DEVICE void device_status_raise_count(device_status *s, int32_t count, int32_t capacity) {
    if (count > capacity) {
        device_status_raise(s, device_flag_capacity, (uint32_t)count);
    }
}

// Adds to a counter of the device status.
SPIRA_DEVICE void device_status_count(uint32_t *counter, uint32_t more) {
    atomicAdd(counter, more);
}

// An error that is returned is fetched, too: the next call would return it once more.
SPIRA_API status status_from_cuda(cudaError_t error, const char *subject) {
    if (error == cudaSuccess) {
        return status_success();
    }
    (void)cudaGetLastError();
    return status_make(status_cuda, subject, (int64_t)error);
}

// Clears a status word in device memory, before a frame.
SPIRA_API status device_status_clear(device_status *trouble, cudaStream_t stream) {
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    return status_from_cuda(cudaMemsetAsync(trouble, 0, sizeof *trouble, stream), "trouble");
}

} // namespace spira

#endif
