// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/probe.cuh: a kernel that tells which code the driver loads.
#ifndef SPIRA_BASE_PROBE_CUH
#define SPIRA_BASE_PROBE_CUH

#include "wgmma.cuh"

namespace spira {

// Never launched: its attributes tell what the driver loads for this GPU. Code for sm_90a has
// shared memory, other code has none.
SPIRA_PLAIN_KERNEL void device_probe_kernel(int *to) {
#if SPIRA_WGMMA
    __shared__ volatile int mark;
    mark = *to;
    *to = mark;
#else
    *to = 0;
#endif
}

} // namespace spira

#endif
