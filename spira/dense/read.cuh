// spira/dense/read.cuh: the kernel of a dense map's gradient (dense_grad.cuh).
#ifndef SPIRA_DENSE_READ_CUH
#define SPIRA_DENSE_READ_CUH

#include "../base/launch.cuh"
#include "../dense.h"
#include "../numeric.cuh"

namespace spira {

enum { dense_grad_threads = 256 };

// I: element of the map; O: of the gradient.
template <typename W, typename I, typename O>
SPIRA_KERNEL void __launch_bounds__(dense_grad_threads)
    dense_grad_kernel(dense_args<W> a, word_layout words, O *features_grad) {
    const int64_t at = (int64_t)blockIdx.x * dense_grad_threads + threadIdx.x;
    const int64_t i = at / a.channels;
    pdl_wait();
    if (i >= voxel_set_count(a.set)) {
        return;
    }
    voxel cell;
    const bool there = !dense_locate(&words, &a.grid, a.stride, a.batch, a.set.words[i], &cell);
    float value = 0;
    if (there) {
        value = element_to_float((
            (const I *)
                a.out)[dense_at(a.order, a.grid.extent, a.channels, cell, (int)(at % a.channels))]);
    }
    features_grad[at] = element_from_float<O>(value);
}

} // namespace spira

#endif
