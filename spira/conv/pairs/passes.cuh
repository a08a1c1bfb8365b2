// spira/conv/pairs/passes.cuh: the kernels before and after the walk.
#ifndef SPIRA_CONV_PAIRS_PASSES_CUH
#define SPIRA_CONV_PAIRS_PASSES_CUH

#include "../../base/block.cuh"
#include "walk.cuh"

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
            map_span list = pairs_span_of(&p.pairs, p.conv.volume, p.sides, rows, k);
            units = (list.count + p.unit - 1) / p.unit;
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

} // namespace spira

#endif
