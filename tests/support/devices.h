// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/devices.h: GPUs that the machine may not have, as the choices of kernels see them.
#ifndef SPIRA_TESTS_DEVICES_H
#define SPIRA_TESTS_DEVICES_H

#include "../../spira/device.h"

// shared: bytes of shared memory that a thread block may ask for; hopper: with code for sm_90a.
[[maybe_unused]] static spira::device_info device_made(int capability, int multiprocessors,
                                                       int shared, bool hopper) {
    spira::device_info d = {};
    d.capability = capability;
    d.multiprocessors = multiprocessors;
    d.shared_max = shared;
    d.hopper = hopper;
    d.programmatic = capability >= 90;
    return d;
}

#endif
