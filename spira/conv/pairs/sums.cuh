// spira/conv/pairs/sums.cuh: where the products of a unit are added: to shared memory (stripes) or
// to global memory (atomic form); from a stripe to its outputs.
#ifndef SPIRA_CONV_PAIRS_SUMS_CUH
#define SPIRA_CONV_PAIRS_SUMS_CUH

#include "../epilogue.cuh"
#include "walk.cuh"

namespace spira {

// What a warp adds to. A lane has four neighbouring channels of each 16 (pairs_weights_of).
struct pairs_task {
    uint32_t first_row, rows; // outputs [first_row, first_row + rows); pairs of others are skipped
    uint32_t shared;          // stripes: shared address of the slice's sums
    float *sums;              // atomic: row 0, the lane's first channel
    int channels;             // atomic: channels from the lane's first on
    int done;                 // stripes: lists that all warps of the thread block have finished
};

// All threads of a thread block that has outputs.
SPIRA_DEVICE void pairs_stripe_sync() {
    named_barrier_sync_divergent(1, (int)blockDim.x);
}

// Waits until all warps of the thread block have finished the lists before `list`. Within a list no
// output occurs twice, so that its warps do not conflict.
SPIRA_DEVICE void pairs_list_sync(pairs_task &task, int list) {
    for (; task.done < list; ++task.done) {
        pairs_stripe_sync();
    }
}

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

// Swizzle: moves the 32 bytes of a channel group, so that rows that differ modulo 4 have the same
// channels in different banks.
template <int channel_groups>
SPIRA_DEVICE uint32_t pairs_swizzle(uint32_t row) {
    return channel_groups == 2 ? (row & 2) << 4 : (row & 3) << 5;
}

// Shared address of the lane's first four channels of a row of the stripe; those of the next 16
// channels are at this address xor 64.
template <int channel_groups>
SPIRA_DEVICE uint32_t pairs_sums_place(const pairs_task &task, uint32_t row) {
    return task.shared + (row * (channel_groups * 32) +
                          (threadIdx.x % 4 * 16 ^ pairs_swizzle<channel_groups>(row)));
}

// Sets the accumulators of 16 pairs: to zero, or to the sums of the stripe. Pairs that do not exist
// read the row after the stripe's last; its values are unspecified, and the results are discarded.
template <int channel_groups, bool stripes>
SPIRA_DEVICE void pairs_sums_begin(const pairs_task &task, const pairs_group &group,
                                   pairs_accumulators<channel_groups> &sum) {
    __syncwarp(); // matrix instructions follow
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = min(group.row[h] - task.first_row, task.rows);
#pragma unroll
        for (int q = 0; q < channel_groups / 2; ++q) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (stripes) {
                v = shared_load_4(pairs_sums_place<channel_groups>(task, row) ^ (uint32_t)(q * 64));
            }
            sum.at[2 * q][2 * h] = __uint_as_float(v.x);
            sum.at[2 * q][2 * h + 1] = __uint_as_float(v.y);
            sum.at[2 * q + 1][2 * h] = __uint_as_float(v.z);
            sum.at[2 * q + 1][2 * h + 1] = __uint_as_float(v.w);
        }
    }
}

// Writes the accumulators back to the stripe, or adds them to the sums in global memory.
template <int channel_groups, bool stripes>
SPIRA_DEVICE void pairs_sums_end(const pairs_params &p, const pairs_task &task,
                                 const pairs_group &group,
                                 const pairs_accumulators<channel_groups> &sum) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        uint32_t row = group.row[h] - task.first_row;
        if (row >= task.rows) {
            continue;
        }
#pragma unroll
        for (int q = 0; q < channel_groups / 2; ++q) {
            float4 v = make_float4(sum.at[2 * q][2 * h], sum.at[2 * q][2 * h + 1],
                                   sum.at[2 * q + 1][2 * h], sum.at[2 * q + 1][2 * h + 1]);
            if (stripes) {
                shared_store_4(pairs_sums_place<channel_groups>(task, row) ^ (uint32_t)(q * 64),
                               make_uint4(__float_as_uint(v.x), __float_as_uint(v.y),
                                          __float_as_uint(v.z), __float_as_uint(v.w)));
            } else if (q * 16 < task.channels) {
                pairs_sums_add(task.sums + (int64_t)row * p.pitch + q * 16, v);
            }
        }
    }
}

// Finishes outputs [first_row, + there), channels [channel, + 8 channel_groups). A lane has the
// same four channels of every row.
//
// sums  accumulators of the stripe, whose rows these are from `from` on
template <typename E, int channel_groups>
SPIRA_DEVICE void pairs_finish_rows(const conv_params &p, int first_row, int there, int channel,
                                    int from, const char *sums) {
    enum { quads = channel_groups * 2, at_a_time = 32 / quads };
    int lane = threadIdx.x % 32, quad = lane % quads;
    channel += quad * 4;
    if (channel >= p.cout) {
        return;
    }
    conv_output output = conv_output_of(p, channel);
#pragma unroll 4
    for (int row = lane / quads; row < there; row += at_a_time) {
        const char *own =
            sums + (from + row) * (channel_groups * 32) +
            ((uint32_t)(quad * 16) ^ pairs_swizzle<channel_groups>((uint32_t)(from + row)));
        conv_output_store<E>(p, output, first_row + row, *(const float4 *)own);
    }
}

} // namespace spira

#endif
