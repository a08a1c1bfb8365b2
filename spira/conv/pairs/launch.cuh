// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pairs/launch.cuh: from parameters to launches: the kernels before and after the walk,
// grids and template arguments.
#ifndef SPIRA_CONV_PAIRS_LAUNCH_CUH
#define SPIRA_CONV_PAIRS_LAUNCH_CUH

#include "../../base/block.cuh"
#include "../../base/launch.cuh"
#include "../choice.cuh"
#include "exact.cuh"
#include "tensor.cuh"

namespace spira {

// ---- before the walk: clears the sums, numbers the units ----------------------------------------

// Writes p.first. Lists whose begins fall are no lists: none has a unit then.
SPIRA_DEVICE void pairs_count_units(const pairs_params &p, int32_t rows) {
    __shared__ int shared[pairs_threads / 32];
    int32_t before = 0;
    bool falls = false;
    for (int k = threadIdx.x; k < p.conv.volume; k += pairs_threads) {
        falls = falls || p.pairs.begin[k + 1] < p.pairs.begin[k];
    }
    falls = __syncthreads_or(falls);
    for (int first = 0; first < p.conv.volume; first += pairs_threads) {
        int k = first + (int)threadIdx.x, units = 0, total;
        if (k < p.conv.volume && !falls) {
            const pairs_list list = pairs_list_of(&p.pairs, p.conv.volume, p.sides, rows, k);
            units = (list.span.count + p.unit - 1) / p.unit;
        }
        units = block_exclusive_sum<pairs_threads>(units, shared, &total);
        if (k < p.conv.volume) {
            p.first[k] = before + units;
        }
        before += total;
        __syncthreads(); // `shared` is used again
    }
    if (threadIdx.x == 0) {
        p.first[p.conv.volume] = before;
    }
}

SPIRA_PLAIN_KERNEL void __launch_bounds__(pairs_threads)
    pairs_prepare_kernel(const __grid_constant__ pairs_params p) {
    int32_t rows = pairs_rows(p);
    if (blockIdx.x == 0) {
        pairs_count_units(p, rows);
    }
    int64_t quads = p.from_sums ? 0 : (int64_t)rows * p.pitch / 4;
    int64_t step = (int64_t)gridDim.x * pairs_threads;
    for (int64_t i = (int64_t)blockIdx.x * pairs_threads + threadIdx.x; i < quads; i += step) {
        ((float4 *)p.sums)[i] = make_float4(0, 0, 0, 0);
    }
}

// ---- after the walk: the epilogue ---------------------------------------------------------------

// A thread finishes four channels of its rows: threadIdx.x chooses the channels, threadIdx.y and
// the thread block the rows.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(pairs_threads)
    pairs_finish_kernel(const __grid_constant__ pairs_params p) {
    const int64_t rows = pairs_rows(p), step = (int64_t)gridDim.x * blockDim.y;
    for (int channel = 4 * (int)threadIdx.x; channel < p.conv.cout;
         channel += 4 * (int)blockDim.x) {
        const conv_output output = conv_output_of(p.conv, channel);
#pragma unroll 2
        for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < rows;
             row += step) {
            float4 sum = conv_sums_fetch(p.sums + row * p.pitch + channel, p.conv.cout - channel);
            conv_output_store<E>(p.conv, output, (int)row, sum);
        }
    }
}

// ---- how the work is cut ------------------------------------------------------------------------

enum { pairs_exact_registers = 80 }; // with which exact_blocks fit

// Registers of a thread of pairs_kernel, rounded up to what the compiler has been seen to take. The
// number of thread blocks follows from it; a test compares it with the code.
SPIRA_API constexpr int pairs_registers(int element, int channel_groups, bool deep, bool wide) {
    return channel_groups == 4 && (deep || (element == 4 && wide)) ? 168 : 128;
}

// Thread blocks that are resident on the GPU at a time. Every multiprocessor has 65536 registers.
SPIRA_API unsigned pairs_resident(const device_info *gpu, int threads, int registers) {
    const int most = (gpu->capability < 80 ? 1024 : 1536) / threads; // by threads, on any GPU
    return (unsigned)(min_of(65536 / (threads * registers), most) * gpu->multiprocessors);
}

// ---- the launches -------------------------------------------------------------------------------

// Clears the sums and numbers the units.
SPIRA_LAUNCHER status pairs_prepare(const device_info *gpu, const pairs_params &p,
                                    cudaStream_t stream) {
    int64_t quads = p.from_sums ? 1 : (int64_t)p.conv.capacity * p.pitch / 4;
    int64_t blocks = min_of(ceil_div(quads, pairs_threads), 8 * gpu->multiprocessors);
    return kernel_launch(pairs_prepare_kernel<>,
                         {(unsigned)blocks, pairs_threads, stream, "conv_pairs_run (prepare)"}, p);
}

template <typename E>
SPIRA_API status pairs_finish(const device_info *gpu, const pairs_params &p, cudaStream_t stream) {
    unsigned x = (unsigned)min_of(ceil_div(p.conv.cout, 4), 64);
    dim3 block(x, pairs_threads / x);
    int64_t blocks = min_of(ceil_div(p.conv.capacity, block.y), 16 * gpu->multiprocessors);
    return kernel_launch(pairs_finish_kernel<E>,
                         {(unsigned)blocks, block, stream, "conv_pairs_run (epilogue)"}, p);
}

// How a walk is launched: with as many thread blocks as are resident.
struct pairs_walk {
    void (*kernel)(pairs_params);
    int threads, registers;
    int64_t slices; // of the grid's y
};

// Clears the sums, walks the lists, and applies the epilogue. In order, a launch walks one list,
// which has each output once at most: so the additions to a sum follow the order of the launches.
template <typename E>
SPIRA_API status pairs_launch(const device_info *gpu, pairs_params p, const pairs_walk &walk,
                              cudaStream_t stream) {
    SPIRA_TRY(pairs_prepare(gpu, p, stream));
    const int64_t x = pairs_resident(gpu, walk.threads, walk.registers) / walk.slices;
    const dim3 grid((unsigned)max_of(x, 1), (unsigned)walk.slices);
    const int lists = p.ordered ? 1 : p.conv.volume; // of a launch
    for (p.begin = 0; p.begin < p.conv.volume; p.begin += lists) {
        p.end = p.begin + lists;
        SPIRA_TRY(kernel_launch(walk.kernel,
                                {grid, (unsigned)walk.threads, stream, "conv_pairs_run"}, p));
    }
    return p.to_sums ? status_success() : pairs_finish<E>(gpu, p, stream);
}

// ---- the kernel of a layer ----------------------------------------------------------------------

template <typename E, int channel_groups, bool deep>
SPIRA_API auto pairs_kernel_for(bool wide) -> void (*)(pairs_params) {
    return wide ? pairs_kernel<E, channel_groups, deep, pairs_access_wide>
                : pairs_kernel<E, channel_groups, deep, pairs_access_any>;
}

// Up to four slices for a thread block, so that as many thread blocks as possible are full.
template <typename E>
SPIRA_API status pairs_run_tensor(const device_info *gpu, pairs_params p, cudaStream_t stream) {
    const bool wide = p.conv.cin2 == 0 && p.conv.wide_in, deep = p.conv.chunks > pairs_near_chunks;
    const int slices = conv_channel_slices(p.conv.cout);
    const int groups = conv_slice_channel_groups(p.conv.cout);
    p.slices = (int)ceil_div(slices, ceil_div(slices, 4));
    p.slice_warps = pairs_warps / p.slices;
    p.unit = pairs_group_rows * (deep ? pairs_deep_groups : 1);
    pairs_walk walk;
    walk.kernel = groups == 2 ? (deep ? pairs_kernel_for<E, 2, true>(wide)
                                      : pairs_kernel_for<E, 2, false>(wide))
                  : deep      ? pairs_kernel_for<E, 4, true>(wide)
                              : pairs_kernel_for<E, 4, false>(wide);
    walk.threads = 32 * p.slices * p.slice_warps;
    walk.registers = pairs_registers(sizeof(E), groups, deep, wide);
    walk.slices = ceil_div(slices, p.slices);
    return pairs_launch<E>(gpu, p, walk, stream);
}

template <typename E>
SPIRA_API status pairs_run_exact(const device_info *gpu, pairs_params p, cudaStream_t stream) {
    const int64_t slices = ceil_div(p.conv.cout, exact_channels);
    p.unit = exact_group;
    return pairs_launch<E>(
        gpu, p, {pairs_exact_kernel<E>, 32 * exact_warps, pairs_exact_registers, slices}, stream);
}

// ---- one format ---------------------------------------------------------------------------------

// The kernel whose packed weights the pairs are multiplied by: on tensor cores or in plain fp32.
SPIRA_API conv_kernel pairs_kernel_of(const conv_shape *s, const device_info *gpu) {
    return conv_uses_tensor(s->type, gpu->capability) ? conv_kernel_portable : conv_kernel_exact;
}

template <typename tag>
SPIRA_API status pairs_run(tag, const device_info *gpu, const pairs_params &p, conv_kernel kernel,
                           cudaStream_t stream) {
    typedef typename tag::element E;
    if constexpr (conv_tensor_compiled(tag::value)) {
        if (kernel == conv_kernel_portable) {
            return pairs_run_tensor<E>(gpu, p, stream);
        }
    }
    if constexpr (conv_plain_compiled(tag::value)) {
        if (kernel == conv_kernel_exact) {
            return pairs_run_exact<E>(gpu, p, stream);
        }
    }
    return conv_not_compiled();
}

} // namespace spira

#endif
