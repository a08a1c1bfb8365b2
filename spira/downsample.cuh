// spira/downsample.cuh: coarser coordinate sets on the GPU: floor, radix sort (CUB), unique.
#ifndef SPIRA_DOWNSAMPLE_CUH
#define SPIRA_DOWNSAMPLE_CUH

#include "downsample.h"
#include "unique.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace spira {

template <typename W>
struct downsample_scratch {
    W *words;  // [in.capacity] floored
    W *sorted; // [in.capacity]
    int32_t *heads;
    char *cub; // [cub_bytes]
    size_t cub_bytes;
};

template <typename W>
SPIRA_API status downsample_sort(downsample_scratch<W> *s, int32_t rows, int first_bit, int bits,
                                 cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortKeys(s->cub, s->cub_bytes, s->words,
                                                           s->sorted, rows, first_bit, bits,
                                                           stream),
                            "radix sort");
}

template <typename W>
SPIRA_API status downsample_carve(workspace *w, int32_t rows, int32_t capacity,
                                  downsample_scratch<W> *s) {
    s->words = workspace_take<W>(w, rows);
    s->sorted = workspace_take<W>(w, rows);
    s->heads = workspace_take<int32_t>(w, unique_blocks(rows, capacity));
    downsample_scratch<W> ask = *s;
    ask.cub = nullptr;
    ask.cub_bytes = 0;
    SPIRA_TRY(downsample_sort(&ask, rows, 0, 8 * (int)sizeof(W), nullptr));
    s->cub_bytes = ask.cub_bytes;
    s->cub = workspace_take<char>(w, (int64_t)s->cub_bytes);
    return status_success();
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(word_layout layout, voxel_set<W> in, triple stride, bool by_mask,
                            W *words) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
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
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out_capacity, &s));
    *bytes = w.used;
    return status_success();
}

// The set at `stride` of the set `in` (Spira paper: packed-native processing), straight from the
// finest one.
//
// inputs   layout: fitted to at least this stride; in: the finest set; stride: absolute, any >= 1;
//          powers of two are floored by a mask, others by unpacking
// outputs  out: the coarse set and its count; trouble: a capacity that was passed
// errors   null pointers, sizes, a stride beyond the layout's, a workspace that is too small
// Asynchronous, deterministic, equal to downsample_host. in and out must not overlap.
// cost     a radix sort of the bits that the stride leaves, and three small kernels
template <typename W>
SPIRA_API status downsample(const word_layout *layout, voxel_set<W> in, triple stride,
                            voxel_set<W> out, device_status *trouble, void *scratch,
                            size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(downsample_check(layout, &in, stride, &out));
    SPIRA_REQUIRE(trouble, status_null_pointer, "trouble", 0);
    size_t needed;
    SPIRA_TRY(downsample_workspace(in, out.capacity, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    downsample_scratch<W> s;
    SPIRA_TRY(downsample_carve<W>(&w, in.capacity, out.capacity, &s));
    bool by_mask = downsample_by_mask(stride);
    downsample_floor_kernel<W><<<(unsigned)ceil_div(in.capacity, 256), 256, 0, stream>>>(
        *layout, in, stride, by_mask, s.words);
    int first_bit = by_mask ? bits_for((uint64_t)stride.z) - 1 : 0; // the floored bits are zero
    SPIRA_TRY(downsample_sort(&s, in.capacity, first_bit, word_bits(layout), stream));
    voxel_rows none = {nullptr, nullptr, nullptr};
    return unique_launch(s.sorted, in.capacity, s.heads, out, none, false, trouble, stream);
}

} // namespace spira

#endif
