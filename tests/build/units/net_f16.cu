// tests/build/units/net_f16.cu: a whole fp16 network: planned, loaded and run.
#include "../../../spira.cuh"

spira::status unit(const spira::device_info *gpu, const spira::net_layer *layers, int count,
                   const spira::word_layout *layout, const spira::net_limits *limits,
                   const float *params, void *loaded, spira::voxel_set<uint32_t> input,
                   const void *features, spira::device_status *trouble, void *memory,
                   cudaStream_t stream);

spira::status unit(const spira::device_info *gpu, const spira::net_layer *layers, int count,
                   const spira::word_layout *layout, const spira::net_limits *limits,
                   const float *params, void *loaded, spira::voxel_set<uint32_t> input,
                   const void *features, spira::device_status *trouble, void *memory,
                   cudaStream_t stream) {
    spira::net_plan plan;
    SPIRA_TRY(spira::net_plan_device<uint32_t>(gpu, layers, count, layout, limits, &plan));
    SPIRA_TRY(
        spira::net_load<spira::numeric_f16>(gpu, &plan, params, loaded, plan.loaded_bytes, stream));
    return spira::net_run<uint32_t, spira::numeric_f16>(gpu, &plan, input, features, loaded,
                                                        trouble, memory, plan.workspace_bytes,
                                                        nullptr, stream);
}
