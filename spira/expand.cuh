// spira/expand.cuh: the output set of a strided layer of spconv or TorchSparse, on the GPU.
//
// The rule and the host loop are in expand.h. Outputs are marked in bitmaps, whose set bits are
// listed in order; where these would be too large, all outputs that the inputs touch are sorted
// (index/expand_box.h chooses).
#ifndef SPIRA_EXPAND_CUH
#define SPIRA_EXPAND_CUH

#include "device.h"
#include "expand.h"
#include "index/expand_cells.cuh"
#include "index/unique.cuh"

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
        if (!expand_voxel(&layout, &axes, in.words[i], words + i, in.capacity)) {
            device_status_raise(trouble, device_flag_range, (uint32_t)i);
        }
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
    int stride = z->ratio * z->spacing, bit = 0;
    while (bit < layout->width.z && !(stride >> bit & 1)) {
        ++bit;
    }
    return bit;
}

// By a sort of all outputs that the inputs touch.
template <typename W>
SPIRA_API status expand_sort_launch(const word_layout *layout, const expand_axes *axes,
                                    voxel_set<W> in, voxel_set<W> out, device_status *trouble,
                                    void *scratch, cudaStream_t stream) {
    workspace w = workspace_begin(scratch);
    unique_scratch<W> s;
    unique_carve<W>(&w, in.capacity * axes->most, out.capacity, &s);
    const int first_bit = expand_first_bit(layout, &axes->z), bits = word_bits(layout);
    SPIRA_TRY(kernel_launch_plain(expand_touch_kernel<W>, (unsigned)ceil_div(in.capacity, 256), 256,
                                  stream, "expand", *layout, *axes, in,
                                  unique_input(&s, first_bit, bits), trouble));
    return unique_sort_launch(&s, first_bit, bits, out, trouble, stream);
}

// ---- the interface ------------------------------------------------------------------------------

// Bytes of scratch for expand where the layout is not known yet: enough for any. It is what a sort
// of all outputs that inputs may touch takes, and some more for bitmaps.
template <typename W>
SPIRA_API status expand_workspace(const kernel_shape *kernel, const expand_rule *rule,
                                  voxel_set<W> in, int32_t out_capacity, size_t *bytes) {
    SPIRA_REQUIRE(out_capacity >= 1, status_bad_size, "out.capacity", out_capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    expand_axes axes;
    int32_t rows;
    SPIRA_TRY(expand_axes_make(kernel, rule, &axes));
    SPIRA_TRY(expand_rows(&axes, in.capacity, &rows));
    *bytes = expand_sort_bytes<W>(&axes, in.capacity, out_capacity) +
             (size_t)round_up((int64_t)expand_spare * in.capacity, workspace_alignment);
    return status_success();
}

// How expand makes a set, and the scratch that this takes.
struct expand_plan {
    expand_axes axes;
    expand_box box;
    expand_way way;
    expand_sizes sizes; // by cells or by masks
    size_t bytes;
};

template <typename W>
SPIRA_API status expand_plan_make(const word_layout *layout, const kernel_shape *kernel,
                                  const expand_rule *rule, voxel_set<W> in, int32_t out_capacity,
                                  expand_plan *plan) {
    size_t budget;
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(expand_workspace(kernel, rule, in, out_capacity, &budget));
    SPIRA_TRY(expand_axes_make(kernel, rule, &plan->axes));
    plan->box = expand_box_make(layout, &plan->axes);
    const int64_t cells = expand_box_cells(&plan->box);
    plan->way = expand_way_choose(&plan->axes, cells, in.capacity, (int64_t)budget);
    plan->sizes = expand_sizes_make(&plan->axes, cells, in.capacity, plan->way);
    plan->bytes = plan->way == expand_by_sort
                      ? expand_sort_bytes<W>(&plan->axes, in.capacity, out_capacity)
                      : expand_sizes_bytes(&plan->sizes);
    return status_success();
}

// Bytes of scratch for expand with this layout: at most those for any layout, and far fewer where
// no sort is needed.
template <typename W>
SPIRA_API status expand_workspace(const word_layout *layout, const kernel_shape *kernel,
                                  const expand_rule *rule, voxel_set<W> in, int32_t out_capacity,
                                  size_t *bytes) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    expand_plan plan;
    SPIRA_TRY(expand_plan_make(layout, kernel, rule, in, out_capacity, &plan));
    *bytes = plan.bytes;
    return status_success();
}

// The set of all voxels whose kernel touches the set `in`, on the grid of expand_out: the output
// set of a strided layer of spconv or TorchSparse. The rule is in expand.h.
//
// inputs   gpu: may be null, or left out; with gpu->programmatic the kernels behind the first one
//          begin while the one before ends
//          layout: has room for the outputs (expand_need); kernel: its stride is the spacing of
//          `in`; rule: ratio, padding and grid of the layer; in: on the rule's grid
// outputs  out: the set, then word_none(), and its count; map_build(kernel, in, out) is their map
//          trouble: device_flag_range with the first voxel of `in` that is off the grid, of no
//          batch of the layout, or touches an output outside the layout; such voxels or outputs are
//          left out. A count of `in` or a number of outputs above the capacity is recorded, too
// errors   null or misaligned pointers, sizes, a transposed kernel, a ratio, padding or extent that
//          is not allowed, 2^30 or more outputs that inputs may touch, a workspace that is too
//          small
// scratch  expand_workspace bytes, of either form, aligned to 256
// Asynchronous, deterministic, equal to expand_host. in and out must not overlap.
// cost     one input touches up to the product over the axes of ceil(size / period) outputs, where
//          period = ratio / gcd(ratio, dilation): 8 for size 3 and ratio 2. Their bits are set in a
//          bitmap of all cells that outputs can have, which is cleared before and read after: three
//          kernels. A box of more cells takes five kernels and a bitmap of a 32nd of the bits; the
//          largest ones a radix sort of all that inputs touch (index/expand_box.h). An extent on
//          all axes makes the box small; without one it is as large as the layout
template <typename W>
SPIRA_API status expand(const device_info *gpu, const word_layout *layout,
                        const kernel_shape *kernel, const expand_rule *rule, voxel_set<W> in,
                        voxel_set<W> out, device_status *trouble, void *scratch,
                        size_t scratch_bytes, cudaStream_t stream) {
    expand_plan plan;
    SPIRA_TRY(expand_check(layout, kernel, rule, &in, &out, trouble, &plan.axes));
    SPIRA_TRY(expand_plan_make(layout, kernel, rule, in, out.capacity, &plan));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, plan.bytes));
    if (plan.way == expand_by_sort) {
        return expand_sort_launch(layout, &plan.axes, in, out, trouble, scratch, stream);
    }
    expand_scratch s;
    workspace w = workspace_begin(scratch);
    expand_carve(&w, &plan.sizes, &s);
    expand_marking<W> marking;
    marking.layout = *layout;
    marking.axes = plan.axes;
    marking.box = plan.box;
    marking.in = in;
    marking.trouble = trouble;
    return expand_cells_launch(marking, plan.sizes, s, out, gpu && gpu->programmatic, stream);
}

template <typename W>
SPIRA_API status expand(const word_layout *layout, const kernel_shape *kernel,
                        const expand_rule *rule, voxel_set<W> in, voxel_set<W> out,
                        device_status *trouble, void *scratch, size_t scratch_bytes,
                        cudaStream_t stream) {
    return expand((const device_info *)nullptr, layout, kernel, rule, in, out, trouble, scratch,
                  scratch_bytes, stream);
}

} // namespace spira

#endif
