// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/expand_launch.cuh: the launches of expand.cuh: how an output set is made, its
// scratch, and the way by a sort (expand_box.h).
#ifndef SPIRA_INDEX_EXPAND_LAUNCH_CUH
#define SPIRA_INDEX_EXPAND_LAUNCH_CUH

#include "expand_cells.cuh"
#include "unique.cuh"

namespace spira {

// ---- by a sort ----------------------------------------------------------------------------------

// Writes the outputs that each input touches, a thread an input. words [axes.most,
// in.capacity].
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    expand_touch_kernel(word_layout layout, expand_axes axes, voxel_set<W> in, W *words,
                        device_status *trouble) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in.capacity) {
        return;
    }
    if (i == 0) {
        device_status_raise_count(trouble, *in.count, in.capacity);
    }
    if (i < *in.count) {
        expand_report(trouble, expand_voxel(&layout, &axes, in.words[i], words + i, in.capacity),
                      i);
        return;
    }
    for (int m = 0; m < axes.most; ++m) {
        words[(int64_t)m * in.capacity + i] = word_none<W>();
    }
}

template <typename W>
SPIRA_API size_t expand_sort_bytes(const expand_axes *axes, int32_t capacity,
                                   int32_t out_capacity) {
    workspace w = workspace_begin(nullptr);
    unique_scratch<W> s;
    unique_carve<W>(&w, capacity * axes->most, out_capacity, &s);
    return w.used;
}

// The lowest bit in which outputs can differ: their z is the same modulo its stride.
SPIRA_API int expand_first_bit(const word_layout *layout, const expand_axis *z) {
    const int stride = z->ratio * z->spacing;
    return (int)min_of(bits_for((uint64_t)(stride & -stride)) - 1, layout->width.z);
}

// By a sort of all outputs that the inputs touch.
template <typename W>
SPIRA_API status expand_sort_launch(const expand_args<W> *a, const expand_axes &axes, void *scratch,
                                    cudaStream_t stream) {
    workspace w = workspace_begin(scratch);
    unique_scratch<W> s;
    unique_carve<W>(&w, a->in.capacity * axes.most, a->out.capacity, &s);
    const int first_bit = expand_first_bit(a->layout, &axes.z), bits = word_bits(a->layout);
    SPIRA_TRY(kernel_launch(
        expand_touch_kernel<W>, {(unsigned)ceil_div(a->in.capacity, 256), 256, stream, "expand"},
        *a->layout, axes, a->in, unique_input(&s, first_bit, bits), a->trouble));
    return unique_sort_launch(&s, first_bit, bits, a->out, a->trouble, stream);
}

// ---- the choice ---------------------------------------------------------------------------------

// Plans one layer. A bitmap may take the bytes of a sort, and some more.
template <typename W>
SPIRA_API status expand_plan_layer(const expand_args<W> *a, expand_plan *plan) {
    int32_t rows;
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(size_check(a->out.capacity, 1, INT64_MAX, "out.capacity"));
    expand_level *l = plan->level;
    SPIRA_TRY(expand_axes_make(a->kernel, a->rule, &l->axes));
    SPIRA_TRY(expand_rows(&l->axes, a->in.capacity, &rows));
    SPIRA_TRY(word_check<W>(a->layout));
    const size_t sort = expand_sort_bytes<W>(&l->axes, a->in.capacity, a->out.capacity);
    const int64_t budget = (int64_t)sort + (int64_t)expand_spare * a->in.capacity;
    plan->levels = 1;
    l->box = expand_box_make(a->layout, &l->axes);
    const int64_t cells = expand_box_cells(&l->box);
    plan->by_cells = expand_by_cells(&l->axes, cells, budget);
    plan->sizes[0] = expand_sizes_make(cells, nullptr);
    plan->bytes = plan->by_cells ? expand_sizes_bytes(plan->sizes) : sort;
    return status_success();
}

// Plans the first of `count` layers, and those behind it that can be made at the same time. Reads
// the layouts, the kernels, the rules and the capacities alone.
template <typename W>
SPIRA_API status expand_plan_make(const expand_args<W> *a, int count, expand_plan *plan) {
    SPIRA_TRY(expand_plan_layer(a, plan));
    expand_plan next;
    do {
        if (plan->levels == count) {
            return status_success();
        }
        SPIRA_TRY(expand_plan_layer(a + plan->levels, &next));
    } while (expand_plan_join(&next, plan));
    return status_success();
}

// Of the layers that were planned. programmatic: all kernels of bitmaps but the first one begin
// while the one before ends.
template <typename W>
SPIRA_API status expand_launch(const expand_args<W> *a, const expand_plan &plan, void *scratch,
                               bool programmatic, cudaStream_t stream) {
    return plan.by_cells ? expand_cells_launch(a, plan, scratch, programmatic, stream)
                         : expand_sort_launch(a, plan.level[0].axes, scratch, stream);
}

} // namespace spira

#endif
