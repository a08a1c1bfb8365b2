// spira/downsample.cuh: coarser coordinate sets on the GPU.
//
// The rule and the host loop are in downsample.h. From one level to the next no sort is needed
// (index/downsample_grid.cuh). Any other stride takes a floor, a radix sort and the removal of
// repeats.
#ifndef SPIRA_DOWNSAMPLE_CUH
#define SPIRA_DOWNSAMPLE_CUH

#include "downsample.h"
#include "index/downsample_rank.cuh"
#include "index/unique.cuh"

namespace spira {

// words [in.capacity]: the floored words, then word_none(), and for voxels that are left out.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(const __grid_constant__ downsample_args<W> a, word_layout layout,
                            triple from, bool by_mask, W *words) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        device_status_raise_count(a.trouble, *a.in.count, a.in.capacity);
    }
    if (i >= a.in.capacity) {
        return;
    }
    W word = word_none<W>();
    if (i < *a.in.count) {
        bool left_out;
        if (!downsample_on_lattice(&layout, a.in.words[i], from, &left_out)) {
            device_status_raise(a.trouble, device_flag_lattice, (uint32_t)i);
        }
        word = left_out ? word : downsample_word(&layout, a.in.words[i], a.stride, by_mask);
    }
    words[i] = word;
}

// Bytes of scratch for downsample.
template <typename W>
SPIRA_API status downsample_workspace(voxel_set<W> in, int32_t out_capacity, size_t *bytes) {
    SPIRA_REQUIRE(in.capacity >= 1, status_bad_size, "in.capacity", in.capacity);
    SPIRA_REQUIRE(out_capacity >= 1, status_bad_size, "out.capacity", out_capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    downsample_scratch<W> s;
    downsample_carve<W>(&w, in.capacity, out_capacity, &s);
    *bytes = w.used;
    return status_success();
}

// Floors the set `in` to `stride` (Spira paper: packed-native processing).
//
// inputs   args: see downsample_args. Powers of two are floored by a mask, other strides by
//          unpacking. Steps between powers of two that at most double x and y need no sort
//          (downsample_is_step): build each level of a network from the one before, and say its
//          stride in `from`
// outputs  args.out: the coarse set, then word_none(), and its count
//          args.trouble: device_flag_lattice with the first voxel that is off the lattice of
//          `from`: it is left out if x or y is no multiple, else floored as any other. A count of
//          `in` or a number of outputs above the capacity is recorded, too
// errors   null or misaligned pointers, sizes, a stride beyond the layout's, a `from` that does not
//          divide it, a workspace that is too small
// scratch  downsample_workspace bytes, aligned to 256
// Asynchronous, deterministic, equal to downsample_host.
// cost     a step: two kernels, with up to three and six binary searches a voxel in shared memory,
//          or in the set where planes are too long for it. Any other: a radix sort of the bits that
//          the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample(const downsample_args<W> *args, void *scratch, size_t scratch_bytes,
                            cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(downsample_check(args));
    SPIRA_TRY(downsample_workspace(args->in, args->out.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    downsample_scratch<W> s;
    downsample_carve<W>(&w, args->in.capacity, args->out.capacity, &s);
    const word_layout *layout = args->layout;
    const triple from = downsample_from_of(args), stride = args->stride;
    if (downsample_is_step(from, stride)) {
        // A field without room for a second row or plane has one.
        bool x = stride.x > from.x && from.x < (int64_t)1 << layout->width.x;
        bool y = stride.y > from.y && from.y < (int64_t)1 << layout->width.y;
        auto step = x && y ? downsample_step<W, 2, 2>
                    : x    ? downsample_step<W, 2, 1>
                    : y    ? downsample_step<W, 1, 2>
                           : downsample_step<W, 1, 1>;
        return step(args, s.marks, stream);
    }
    const bool by_mask = downsample_by_mask(stride);
    const int floored = (int)min_of(bits_for((uint64_t)stride.z) - 1, layout->width.z);
    const int first_bit = by_mask ? floored : 0, bits = word_bits(layout); // floored bits are zero
    SPIRA_TRY(kernel_launch(downsample_floor_kernel<W>,
                            {(unsigned)ceil_div(args->in.capacity, 256), 256, stream, "downsample"},
                            *args, *layout, from, by_mask, unique_input(&s.sort, first_bit, bits)));
    return unique_sort_launch(&s.sort, first_bit, bits, args->out, args->trouble, stream);
}

} // namespace spira

#endif
