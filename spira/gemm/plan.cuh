// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/plan.cuh: plans a layer: reads the sizes of its pair lists, groups the products, and
// lists where rows are copied from and to.
#ifndef SPIRA_GEMM_PLAN_CUH
#define SPIRA_GEMM_PLAN_CUH

#include "../workspace.h"
#include "lists.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace spira {

enum { ggs_blocks = 1024 }; // thread blocks of the kernel that strides over the pairs

// Scratch of a plan.
struct ggs_memory {
    int32_t *place;         // [pairs] row of the buffers
    uint32_t *key, *sorted; // [pairs]
    char *cub;              // [cub_bytes]
    size_t cub_bytes;
};

// Sorts the places of the pairs by key into `list`; stable. Without memory, asks for its size.
SPIRA_LAUNCHER status ggs_sort(ggs_memory *m, int32_t *list, int32_t pairs, int bits,
                               cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortPairs(m->cub, m->cub_bytes, m->key, m->sorted,
                                                            m->place, list, pairs, 0, bits, stream),
                            "ggs_plan (sort)");
}

// The workspace of a plan: what the layer keeps, then scratch.
SPIRA_LAUNCHER status ggs_memory_take(workspace *w, const ggs_request *r, ggs_layer *l,
                                      ggs_memory *m) {
    const int32_t pairs = r->pairs.capacity, volume = r->shape.volume;
    l->row_of = workspace_take<int32_t>(w, 2 * (int64_t)volume);
    l->offset_of = l->row_of + volume; // not used where bytes are counted
    l->in = {workspace_take<int32_t>(w, r->inputs + 1), workspace_take<int32_t>(w, pairs)};
    l->out = {workspace_take<int32_t>(w, r->outputs + 1), workspace_take<int32_t>(w, pairs)};
    l->kept_bytes = w->used;
    *m = {};
    m->place = workspace_take<int32_t>(w, pairs);
    m->key = workspace_take<uint32_t>(w, pairs);
    m->sorted = workspace_take<uint32_t>(w, pairs);
    SPIRA_TRY(ggs_sort(m, m->place, pairs, 32, nullptr));
    m->cub = workspace_take<char>(w, (int64_t)m->cub_bytes);
    return status_success();
}

// The lists of one side.
template <bool in>
SPIRA_API status ggs_plan_side(const ggs_request *r, const ggs_layer *l, ggs_memory *m,
                               cudaStream_t stream) {
    const ggs_lists lists = in ? l->in : l->out;
    const int32_t rows = in ? l->inputs : l->outputs;
    if (l->pairs) {
        const unsigned blocks = (unsigned)min_of(ceil_div(l->pairs, ggs_threads), ggs_blocks);
        SPIRA_TRY(kernel_launch(ggs_key_kernel<in>, {blocks, ggs_threads, stream, "ggs_plan"},
                                r->pairs, *l, m->place, m->key));
        const int bits = (int)max_of(bits_for((uint64_t)rows), 1);
        SPIRA_TRY(ggs_sort(m, lists.place, l->pairs, bits, stream));
    }
    const unsigned blocks = (unsigned)ceil_div((int64_t)rows + 1, ggs_threads);
    return kernel_launch(ggs_begin_kernel<>, {blocks, ggs_threads, stream, "ggs_plan"}, m->sorted,
                         l->pairs, rows, lists.begin);
}

} // namespace spira

#endif
