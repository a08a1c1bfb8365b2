// spira/conv/pairs/sums.cuh: adds the products of a unit to the sums in global memory.
#ifndef SPIRA_CONV_PAIRS_SUMS_CUH
#define SPIRA_CONV_PAIRS_SUMS_CUH

#include "../epilogue.cuh"
#include "walk.cuh"

namespace spira {

// What a warp adds to. A lane has four neighbouring channels of each 16 (pairs_weights_of).
struct pairs_task {
    uint32_t rows; // outputs; pairs of others are skipped
    float *sums;   // row 0, the lane's first channel
    int channels;  // from the lane's first on
};

// Adds four floats in global memory, aligned to 16 bytes. Subnormal sums become zero.
SPIRA_DEVICE void pairs_sums_add(float *to, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
    atomicAdd(to + 2, v.z);
    atomicAdd(to + 3, v.w);
#endif
}

// Adds the accumulators of 16 pairs to the sums of their outputs.
template <int channel_groups>
SPIRA_DEVICE void pairs_sums_end(const pairs_params &p, const pairs_task &task,
                                 const pairs_group &group,
                                 const pairs_accumulators<channel_groups> &sum) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = group.row[h];
        if (row >= task.rows) {
            continue;
        }
#pragma unroll
        for (int q = 0; q < channel_groups / 2; ++q) {
            float4 v = make_float4(sum.at[2 * q][2 * h], sum.at[2 * q][2 * h + 1],
                                   sum.at[2 * q + 1][2 * h], sum.at[2 * q + 1][2 * h + 1]);
            if (q * 16 < task.channels) {
                pairs_sums_add(task.sums + (int64_t)row * p.pitch + q * 16, v);
            }
        }
    }
}

} // namespace spira

#endif
