// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/dry/launches.h: what tests ask of calls.cu and calls_cublas.cu.
#ifndef SPIRA_TESTS_DRY_LAUNCHES_H
#define SPIRA_TESTS_DRY_LAUNCHES_H

#include "../../spira/device.h"
#include "../../spira/numeric.h"
#include "../../spira/status.h"

#include <cuda_runtime_api.h>

// What a case runs with.
struct launch_on {
    const spira::device_info *gpu;
    spira::numeric type; // of features
    int32_t rows;        // capacity of sets
    cudaStream_t stream;
};

enum launch_way {
    launch_plain,
    launch_branches, // on two streams: the other one goes on after a failure
    launch_cub, // through CUB, which has errors of its own and returns those that others have left
};

struct launch_case {
    const char *name; // the function, then what is special about the case
    spira::status (*call)(const launch_on &on);
    launch_way way = launch_plain;
};

extern const launch_case launch_cases[];
extern const int launch_cases_count;
extern const launch_case launch_cublas_cases[]; // of calls_cublas.cu
extern const int launch_cublas_cases_count;

// Launches the convolution, over a map and over lists, and the weight gradient of a random layer.
void launch_layer_random(uint64_t seed, const spira::device_info *gpu); // layers.cu

extern spira::status (*const launch_device_info_query)(spira::device_info *d);

#endif
