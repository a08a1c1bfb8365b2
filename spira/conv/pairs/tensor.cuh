// spira/conv/pairs/tensor.cuh: the kernel on tensor cores.
//
// A warp computes a slice of the output channels (up to 32). The warps of a thread block have up to
// four neighbouring slices, and share the units of each.
#ifndef SPIRA_CONV_PAIRS_TENSOR_CUH
#define SPIRA_CONV_PAIRS_TENSOR_CUH

#include "deep.cuh"

namespace spira {

template <typename E, int channel_groups, bool deep, pairs_access access>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps)
    pairs_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    const int warp = threadIdx.x / 32, share = warp / p.slices;
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * channel_groups) + (int)threadIdx.x % 4 * 4;
    if (slice * (8 * channel_groups) >= p.conv.cout) {
        return;
    }
    const pairs_task task = {(uint32_t)pairs_rows(p), p.sums + channel, p.pitch - channel};
    const pairs_weights weights = pairs_weights_of<channel_groups>(p, slice);
    const pairs_cursor c = pairs_share(p, (int64_t)blockIdx.x * p.slice_warps + share,
                                       (int64_t)gridDim.x * p.slice_warps);
    if constexpr (deep) {
        pairs_walk_deep<E, channel_groups, access>(p, task, c, weights);
    } else {
        pairs_walk_near<E, channel_groups, access>(p, task, c, weights);
    }
#endif
}

} // namespace spira

#endif
