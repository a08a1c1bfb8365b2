// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/downsample.h: the coordinate set of a larger stride (Spira paper: packed-native
// processing).
//
// The coarser set has the voxels of the finer one, with each coordinate floored to a multiple of
// the stride. Strides are absolute, in voxels of the finest grid. Floors nest: a level can be
// computed from any finer one whose stride divides its own, and at least cost from the one before.
#ifndef SPIRA_DOWNSAMPLE_H
#define SPIRA_DOWNSAMPLE_H

#include "voxel.h"

namespace spira {

SPIRA_BOTH bool downsample_by_mask(triple stride) {
    return is_power_of_two(stride.x) && is_power_of_two(stride.y) && is_power_of_two(stride.z);
}

// The coarse word of a fine one: a mask for powers of two, else unpack, floor, pack.
template <typename W>
SPIRA_BOTH W downsample_word(const word_layout *layout, W word, triple stride, bool by_mask) {
    return by_mask ? word & word_stride_mask<W>(layout, stride) : word_floor(layout, word, stride);
}

// What `downsample` reads and writes. in and out must not overlap.
template <typename W>
struct downsample_args {
    const word_layout *layout; // on the host; fitted to at least this stride
    voxel_set<W> in;
    triple from;   // the stride of `in`, which divides `stride`; all 0: {1, 1, 1}
    triple stride; // absolute, any >= 1
    voxel_set<W> out;
    device_status *trouble; // in device memory; in host memory for downsample_host
};

template <typename W>
SPIRA_API triple downsample_from_of(const downsample_args<W> *a) {
    return triple_equal(a->from, triple_make(0, 0, 0)) ? triple_make(1, 1, 1) : a->from;
}

SPIRA_API status downsample_from_check(triple from, triple stride) {
    for (int a = 0; a < 3; ++a) {
        const int f = triple_at(from, a), s = triple_at(stride, a);
        SPIRA_REQUIRE(f >= 1 && s >= 1 && s % f == 0, status_stride,
                      "from (does not divide the stride)", f);
    }
    return status_success();
}

// Whether a layout is fitted to a stride: a mask floors the biased coordinate, so the bias must be
// a multiple of the stride; and floored voxels must stay within the layout's bounds.
template <typename W>
SPIRA_API status downsample_layout_check(const word_layout *layout, triple stride) {
    SPIRA_TRY(word_check<W>(layout));
    for (int a = 0; a < 3; ++a) {
        const int s = triple_at(stride, a), lo = triple_at(layout->lo, a);
        SPIRA_TRY(status_on_axis(size_check(s, 1, 1 << 20, "stride", status_stride), a));
        const bool masks = triple_at(layout->bias, a) % s == 0 || !downsample_by_mask(stride);
        SPIRA_REQUIRE(masks && floor_to(lo, s) >= lo, status_stride,
                      "stride (larger than the layout was fitted to)", s);
    }
    return status_success();
}

// The checks of downsample and downsample_host.
template <typename W>
SPIRA_API status downsample_check(const downsample_args<W> *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(downsample_layout_check<W>(args->layout, args->stride));
    SPIRA_TRY(voxel_set_check(&args->in));
    SPIRA_TRY(voxel_set_check(&args->out));
    SPIRA_TRY(downsample_from_check(downsample_from_of(args), args->stride));
    return pointer_check(args->trouble, alignof(device_status), "trouble");
}

// Whether the coordinates of a word are multiples of a stride. *left_out: whether x or y is none.
template <typename W>
SPIRA_BOTH bool downsample_on_lattice(const word_layout *layout, W word, triple stride,
                                      bool *left_out) {
    const voxel v = word_unpack<W>(layout, word);
    *left_out = v.x % stride.x != 0 || v.y % stride.y != 0;
    return !*left_out && v.z % stride.z == 0;
}

// Whether the step from a set at `from` to one at `stride` needs no sort (downsample.cuh): both are
// powers of two, and x and y at most double.
SPIRA_BOTH bool downsample_is_step(triple from, triple stride) {
    return downsample_by_mask(from) && downsample_by_mask(stride) && stride.x <= 2 * from.x &&
           stride.y <= 2 * from.y && stride.x >= from.x && stride.y >= from.y && stride.z >= from.z;
}

// Bytes of scratch for downsample_host.
template <typename W>
SPIRA_API status downsample_host_workspace(voxel_set<W> in, size_t *bytes) {
    SPIRA_TRY(size_check(in.capacity, 1, INT64_MAX, "in.capacity"));
    return workspace_measure_array<W>(in.capacity, bytes);
}

// The host loop of `downsample` (downsample.cuh), on host memory.
template <typename W>
SPIRA_API status downsample_host(const downsample_args<W> *args, void *scratch,
                                 size_t scratch_bytes) {
    SPIRA_TRY(downsample_check(args));
    W *words;
    const voxel_set<W> &in = args->in;
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, in.capacity, &words));
    const triple from = downsample_from_of(args);
    const bool by_mask = downsample_by_mask(args->stride);
    int32_t kept = 0;
    voxel_set_note(in, args->trouble);
    for (int32_t i = 0; i < voxel_set_count(in); ++i) {
        bool left_out;
        if (!downsample_on_lattice(args->layout, in.words[i], from, &left_out)) {
            device_status_note(args->trouble, device_flag_lattice, (uint32_t)i);
        }
        if (!left_out) {
            words[kept++] = downsample_word(args->layout, in.words[i], args->stride, by_mask);
        }
    }
    voxel_set_sort(words, kept, args->out, args->trouble);
    return status_success();
}

} // namespace spira

#endif
