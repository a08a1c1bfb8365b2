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

// words [in.capacity]: the floored words, then word_none().
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(word_layout layout, voxel_set<W> in, triple stride, bool by_mask,
                            W *words, device_status *trouble) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        device_status_raise_count(trouble, *in.count, in.capacity);
    }
    if (i < in.capacity) {
        words[i] =
            i < *in.count ? downsample_word(&layout, in.words[i], stride, by_mask) : word_none<W>();
    }
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

// Floors the set `in`, which is at stride `from`, to `stride` (Spira paper: packed-native
// processing).
//
// inputs   layout: fitted to at least this stride
//          stride: absolute, any >= 1. Powers of two are floored by a mask, others by unpacking
//          from: divides the stride; every coordinate of `in` must be a multiple of it. This holds
//          for a set that was downsampled to `from`, and always for {1, 1, 1}. Steps between powers
//          of two that at most double x and y need no sort (downsample_is_step): build each level
//          of a network from the one before
// outputs  out: the coarse set, then word_none(), and its count
//          trouble: records a count of `in` or a number of outputs above the capacity
// errors   null or misaligned pointers, sizes, a stride beyond the layout's, a `from` that does not
//          divide it, a workspace that is too small
// scratch  downsample_workspace bytes, aligned to 256
// Asynchronous, deterministic, equal to downsample_host. in and out must not overlap.
// cost     a step: two kernels, with up to three and six binary searches a voxel in shared memory,
//          or in the set where planes are too long for it. Any other: a radix sort of the bits that
//          the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample_from(const word_layout *layout, voxel_set<W> in, triple from,
                                 triple stride, voxel_set<W> out, device_status *trouble,
                                 void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(downsample_check(layout, &in, stride, &out));
    SPIRA_TRY(downsample_from_check(from, stride));
    SPIRA_TRY(pointer_check(trouble, alignof(device_status), "trouble"));
    size_t needed;
    SPIRA_TRY(downsample_workspace(in, out.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    downsample_scratch<W> s;
    downsample_carve<W>(&w, in.capacity, out.capacity, &s);
    if (downsample_is_step(from, stride)) {
        // A field without room for a second row or plane has one.
        bool x = stride.x > from.x && from.x < (int64_t)1 << layout->width.x;
        bool y = stride.y > from.y && from.y < (int64_t)1 << layout->width.y;
        auto step = x && y ? downsample_step<W, 2, 2>
                    : x    ? downsample_step<W, 2, 1>
                    : y    ? downsample_step<W, 1, 2>
                           : downsample_step<W, 1, 1>;
        return step(layout, in, from, stride, out, s, trouble, stream);
    }
    bool by_mask = downsample_by_mask(stride);
    int floored = (int)min_of(bits_for((uint64_t)stride.z) - 1, layout->width.z);
    int first_bit = by_mask ? floored : 0, bits = word_bits(layout); // the floored bits are zero
    SPIRA_TRY(kernel_launch_plain(downsample_floor_kernel<W>, (unsigned)ceil_div(in.capacity, 256),
                                  256, stream, "downsample", *layout, in, stride, by_mask,
                                  unique_input(&s.sort, first_bit, bits), trouble));
    return unique_sort_launch(&s.sort, first_bit, bits, out, trouble, stream);
}

// The same for a set of any stride: from = {1, 1, 1}.
template <typename W>
SPIRA_API status downsample(const word_layout *layout, voxel_set<W> in, triple stride,
                            voxel_set<W> out, device_status *trouble, void *scratch,
                            size_t scratch_bytes, cudaStream_t stream) {
    return downsample_from(layout, in, triple_make(1, 1, 1), stride, out, trouble, scratch,
                           scratch_bytes, stream);
}

} // namespace spira

#endif
