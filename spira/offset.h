// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/offset.h: the offsets of a kernel, their order, rows, symmetry and norms.
//
// Order: offset k = (ix * size.y + iy) * size.z + iz, with ix, iy, iz ascending. This is the
// lexicographic order of (x, y, z), and so the order of the words. The offsets of one (ix, iy) form
// a row (a z-row of the Spira paper). Rows are numbered ix * size.y + iy.
//
// An odd axis is centred: -(size-1)/2 .. (size-1)/2. An even axis starts at the voxel: 0 .. size-1,
// as in spconv and MinkowskiEngine. (TorchSparse agrees for size 2; its size 4 is -1 .. 2.) Offsets
// are multiplied by dilation * stride. stride is the spacing of the finer of the two sets that the
// kernel connects.
#ifndef SPIRA_OFFSET_H
#define SPIRA_OFFSET_H

#include "base/integer.h"
#include "status.h"

namespace spira {

enum { kernel_size_max = 15, kernel_volume_max = 15 * 15 * 15 };

struct kernel_shape {
    triple size;     // 1 .. 15
    triple dilation; // >= 1
    triple stride;   // spacing of the finer set, >= 1
    // false: out[p] reads in[p + offset]. true: out[p] reads in[p - offset], the kernel map of a
    // transposed (inverse) convolution: the forward map with inputs and outputs exchanged.
    bool transposed;
};

// A cubic kernel on a set of the given stride, without dilation.
SPIRA_BOTH kernel_shape kernel_cube(int size, int stride) {
    kernel_shape s = {
        {size, size, size},
        {1, 1, 1},
        {stride, stride, stride},
        false,
    };
    return s;
}

SPIRA_BOTH int kernel_volume(const kernel_shape *s) {
    return s->size.x * s->size.y * s->size.z;
}

SPIRA_BOTH int kernel_rows(const kernel_shape *s) {
    return s->size.x * s->size.y;
}

SPIRA_BOTH int kernel_first(int size) {
    return size % 2 ? -(size / 2) : 0;
}

SPIRA_API status kernel_axis_check(int size, int dilation, int stride) {
    SPIRA_TRY(size_check(size, 1, kernel_size_max, "kernel.size", status_kernel_size));
    SPIRA_TRY(size_check(dilation, 1, 1 << 20, "kernel.dilation"));
    SPIRA_TRY(size_check(stride, 1, 1 << 20, "kernel.stride", status_stride));
    return size_check((int64_t)size * dilation * stride, 1, INT32_MAX - 1,
                      "kernel (size * dilation * stride)");
}

SPIRA_API status kernel_check(const kernel_shape *s) {
    SPIRA_REQUIRE(s, status_null_pointer, "kernel", 0);
    status good = status_success();
    for (int a = 0; a < 3 && !status_failed(good); ++a) {
        good = status_on_axis(kernel_axis_check(triple_at(s->size, a), triple_at(s->dilation, a),
                                                triple_at(s->stride, a)),
                              a);
    }
    return good;
}

// Offset k on the kernel's own lattice: before dilation and stride.
SPIRA_BOTH triple kernel_lattice(const kernel_shape *s, int k) {
    int row = k / s->size.z;
    return triple_make(row / s->size.y + kernel_first(s->size.x),
                       row % s->size.y + kernel_first(s->size.y),
                       k % s->size.z + kernel_first(s->size.z));
}

// The displacement from an output voxel to the source voxel of offset k, in voxels of the finest
// grid. It includes the sign of a transposed kernel.
SPIRA_BOTH triple kernel_displacement(const kernel_shape *s, int k) {
    triple d = triple_multiply(triple_multiply(kernel_lattice(s, k), s->dilation), s->stride);
    return s->transposed ? triple_make(-d.x, -d.y, -d.z) : d;
}

// The distance in z between neighbouring members of a row.
SPIRA_BOTH int kernel_step(const kernel_shape *s) {
    return s->dilation.z * s->stride.z;
}

SPIRA_BOTH int kernel_reach_axis(int size, int dilation, int stride) {
    return (size % 2 ? size / 2 : size - 1) * dilation * stride;
}

// The largest |displacement| on each axis: the `reach` of word_fit.
SPIRA_BOTH triple kernel_reach(const kernel_shape *s) {
    return triple_make(kernel_reach_axis(s->size.x, s->dilation.x, s->stride.x),
                       kernel_reach_axis(s->size.y, s->dilation.y, s->stride.y),
                       kernel_reach_axis(s->size.z, s->dilation.z, s->stride.z));
}

// |ix| + |iy| + |iz| on the kernel's lattice (Spira paper: dual dataflow).
SPIRA_BOTH int kernel_norm(const kernel_shape *s, int k) {
    triple d = kernel_lattice(s, k);
    return (d.x < 0 ? -d.x : d.x) + (d.y < 0 ? -d.y : d.y) + (d.z < 0 ? -d.z : d.z);
}

// The largest norm there is.
SPIRA_BOTH int kernel_norm_max(const kernel_shape *s) {
    return kernel_reach_axis(s->size.x, 1, 1) + kernel_reach_axis(s->size.y, 1, 1) +
           kernel_reach_axis(s->size.z, 1, 1);
}

// How many of the first `offsets` offsets have a norm below the threshold.
SPIRA_BOTH int kernel_norm_count(const kernel_shape *s, int threshold, int offsets) {
    int count = 0;
    for (int k = 0; k < offsets; ++k) {
        count += kernel_norm(s, k) < threshold;
    }
    return count;
}

SPIRA_BOTH bool kernel_is_odd(const kernel_shape *s) {
    return s->size.x % 2 && s->size.y % 2 && s->size.z % 2;
}

} // namespace spira

#endif
