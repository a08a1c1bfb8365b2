// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/net_f16.cu: a whole fp16 network: planned, loaded and run.
#include "../../../spira.cuh"

spira::status unit(const spira::device_info *gpu, const spira::net_layer *layers, int count,
                   const spira::word_layout *layout, const spira::net_limits *limits,
                   const float *params, void *loaded, const spira::net_run_args<uint32_t> *run,
                   cudaStream_t stream);

spira::status unit(const spira::device_info *gpu, const spira::net_layer *layers, int count,
                   const spira::word_layout *layout, const spira::net_limits *limits,
                   const float *params, void *loaded, const spira::net_run_args<uint32_t> *run,
                   cudaStream_t stream) {
    spira::net_plan plan;
    SPIRA_TRY(spira::net_plan_device<uint32_t>(gpu, layers, count, layout, limits, &plan));
    const spira::net_load_args load = {params, loaded, plan.loaded_bytes, nullptr};
    SPIRA_TRY(spira::net_load<spira::numeric_f16>(gpu, &plan, &load, stream));
    return spira::net_run<uint32_t, spira::numeric_f16>(gpu, &plan, run, stream);
}
