// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/choose.cu: sets that follow from features or from other sets, on the
// GPU.
#include "../gpu.h"
#include "spira/choose.cuh"
#include "spira/curve.cuh"
#include "spira/join.cuh"
#include "spira/prune.cuh"
#include "spira/subdivide.cuh"

namespace spira_torch {
namespace gpu {

status choose_bytes(const choose_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        const spira::prune_args<W> p = job->prune<W>();
        const spira::subdivide_args<W> s = job->subdivide<W>();
        return job->divides() ? spira::subdivide_workspace(&s, bytes)
                              : spira::prune_workspace(&p, bytes);
    });
}

status choose(const choose_job *job, void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        typedef decltype(word) W;
        const spira::prune_args<W> p = job->prune<W>();
        const spira::subdivide_args<W> s = job->subdivide<W>();
        return job->divides() ? spira::subdivide<W>(&s, scratch, scratch_bytes, stream)
                              : spira::prune<W>(&p, scratch, scratch_bytes, stream);
    });
}

status largest_bytes(const largest_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::choose_largest_workspace(&a, bytes);
    });
}

status largest(const largest_job *job, void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::choose_largest<decltype(word)>(&a, scratch, scratch_bytes, stream);
    });
}

template <typename W>
static __global__ void __launch_bounds__(256)
    find_rows_kernel(spira::voxel_set<W> set, spira::voxel_set<W> in, int32_t *found) {
    const int32_t i = (int32_t)(blockIdx.x * 256 + threadIdx.x);
    if (i < spira::voxel_set_count(set)) {
        found[i] = find_row(in, set.words[i]);
    }
}

status find_rows(const spira::word_layout *layout, set_ref set, set_ref in, int32_t *found,
                 stream_ref stream) {
    return spira::word_dispatch(layout, [&](auto word) {
        typedef decltype(word) W;
        const unsigned blocks = (unsigned)spira::ceil_div(set.capacity, 256);
        return spira::kernel_launch(find_rows_kernel<W>, {blocks, 256, stream, "find_rows"},
                                    set_as<W>(set), set_as<W>(in), found);
    });
}

status join_bytes(const join_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::join_workspace(&a, bytes);
    });
}

status join(const join_job *job, void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::join(&a, scratch, scratch_bytes, stream);
    });
}

status curve_bytes(const curve_job *job, size_t *bytes) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::curve_order_workspace(&a, bytes);
    });
}

status curve(const curve_job *job, void *scratch, size_t scratch_bytes, stream_ref stream) {
    return spira::word_dispatch(job->layout, [&](auto word) {
        const auto a = job->args<decltype(word)>();
        return spira::curve_order(&a, scratch, scratch_bytes, stream);
    });
}

} // namespace gpu
} // namespace spira_torch
