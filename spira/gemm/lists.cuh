// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/lists.cuh: the kernels of a plan, which turn pair lists into lists of each input and
// each output row.
//
// A pair is in no list if its input or output is not there: negative, or not below the number of
// rows (which may have fallen since the lists were built). It keeps its place in the buffers, which
// nothing writes or reads.
#ifndef SPIRA_GEMM_LISTS_CUH
#define SPIRA_GEMM_LISTS_CUH

#include "../base/launch.cuh"
#include "layer.h"

namespace spira {

// Writes the place of each pair in the buffers, and its row of one side: the number of rows if it
// is in no list. A thread has every `step`-th pair.
template <bool in>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_key_kernel(map_lists pairs, const __grid_constant__ ggs_layer l, int32_t *place,
                   uint32_t *key) {
    const int64_t step = (int64_t)gridDim.x * ggs_threads;
    for (int64_t p = (int64_t)blockIdx.x * ggs_threads + threadIdx.x; p < l.pairs; p += step) {
        int k = 0, high = l.shape.volume; // begin[k] <= p < begin[high]
        while (high - k > 1) {
            const int middle = (k + high) / 2;
            (pairs.begin[middle] <= p ? k : high) = middle;
        }
        const uint32_t input = (uint32_t)pairs.input[p], output = (uint32_t)pairs.output[p];
        const bool there = input < (uint32_t)l.inputs && output < (uint32_t)l.outputs;
        place[p] = l.row_of[k] + ((int32_t)p - pairs.begin[k]);
        key[p] = in ? (there ? input : (uint32_t)l.inputs) : there ? output : (uint32_t)l.outputs;
    }
}

// begin [rows + 1]: the first of each row's keys.
SPIRA_PLAIN_KERNEL void __launch_bounds__(ggs_threads)
    ggs_begin_kernel(const uint32_t *sorted, int32_t total, int32_t rows, int32_t *begin) {
    const int64_t row = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    if (row > rows) {
        return;
    }
    begin[row] = first_not(0, total, [&](int i) { return sorted[i] < (uint32_t)row; });
}

} // namespace spira

#endif
