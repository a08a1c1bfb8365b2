// spira/conv/pairs/tensor.cuh: the kernels on tensor cores, atomic form and stripes.
//
// A warp computes a slice of the output channels (up to 32). The warps of a thread block have up to
// four neighbouring slices, and share the units of each.
#ifndef SPIRA_CONV_PAIRS_TENSOR_CUH
#define SPIRA_CONV_PAIRS_TENSOR_CUH

#include "deep.cuh"
#include "stripes.cuh"

namespace spira {

template <typename E, int channel_groups, bool deep, pairs_access access, bool stripes>
SPIRA_DEVICE void pairs_walk(const pairs_params &p, pairs_task &task, const pairs_cursor &c,
                             int slice, int32_t rows) {
    const pairs_weights weights = pairs_weights_of<channel_groups>(p, slice);
    if constexpr (deep) {
        pairs_walk_deep<E, channel_groups, pairs_unit_groups(true, stripes), access, stripes>(
            p, task, c, weights, rows);
    } else {
        pairs_walk_near<E, channel_groups, pairs_near_chunks(stripes), access, stripes>(
            p, task, c, weights, rows);
    }
}

template <typename E, int channel_groups, bool deep, pairs_access access>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps)
    pairs_atomic_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    const int warp = threadIdx.x / 32, share = warp / p.slices;
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * channel_groups) + (int)threadIdx.x % 4 * 4;
    const int32_t rows = pairs_rows(p);
    if (slice * (8 * channel_groups) >= p.conv.cout) {
        return;
    }
    pairs_task task = {0, (uint32_t)rows, 0, p.sums + channel, p.pitch - channel, 0};
    pairs_cursor c = pairs_share(p, (int64_t)blockIdx.x * p.slice_warps + share,
                                 (int64_t)gridDim.x * p.slice_warps);
    pairs_walk<E, channel_groups, deep, access, false>(p, task, c, slice, rows);
#endif
}

template <typename E, int channel_groups, bool deep, pairs_access access>
SPIRA_KERNEL void __launch_bounds__(32 * pairs_warps, access == pairs_access_any ? 1 : 2)
    pairs_stripe_kernel(const __grid_constant__ pairs_params p) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) char pairs_memory[];
    __shared__ pairs_stripe stripe;
    const int warp = threadIdx.x / 32, share = warp / p.slices;
    const int slice = (int)blockIdx.y * p.slices + warp % p.slices;
    const int channel = slice * (8 * channel_groups);
    const int32_t rows = pairs_rows(p);
    const int64_t first_row = (int64_t)blockIdx.x * p.stripe;
    const int count = (int)min_of(rows - first_row, p.stripe);
    if (count <= 0) {
        return;
    }

    // Start from zero, or from sums in global memory. Each warp copies a share of the rows.
    char *sums = pairs_memory + warp % p.slices * pairs_slice_bytes(p.stripe, channel_groups);
    const int most = (p.stripe + p.slice_warps - 1) / p.slice_warps, from = share * most;
    const int own = min(count - from, most);
    pairs_stripe_copy<channel_groups, false>(p, first_row, own, from, channel, sums);

    // Add the products of all pairs.
    pairs_task task = {(uint32_t)first_row, (uint32_t)count, shared_address(sums), nullptr, 0, 0};
    pairs_stripe_walk(p, rows, share, channel < p.conv.cout, task, &stripe,
                      [&](pairs_task &t, const pairs_cursor &c) {
                          pairs_walk<E, channel_groups, deep, access, true>(p, t, c, slice, rows);
                      });

    // Write sums or outputs.
    if (p.to_sums) {
        pairs_stripe_copy<channel_groups, true>(p, first_row, own, from, channel, sums);
    } else {
        pairs_finish_rows<E, channel_groups>(p.conv, (int)first_row + from, own, channel, from,
                                             sums);
    }
#endif
}

} // namespace spira

#endif
