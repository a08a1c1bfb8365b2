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

#include <string.h>

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

SPIRA_API status kernel_check(const kernel_shape *s) {
    SPIRA_REQUIRE(s, status_null_pointer, "kernel", 0);
    const int size[3] = {s->size.x, s->size.y, s->size.z};
    const int dilation[3] = {s->dilation.x, s->dilation.y, s->dilation.z};
    const int stride[3] = {s->stride.x, s->stride.y, s->stride.z};
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(size[a] >= 1 && size[a] <= kernel_size_max, status_kernel_size, "kernel.size",
                      size[a]);
        SPIRA_REQUIRE(dilation[a] >= 1 && dilation[a] <= 1 << 20, status_bad_size,
                      "kernel.dilation", dilation[a]);
        SPIRA_REQUIRE(stride[a] >= 1 && stride[a] <= 1 << 20, status_stride, "kernel.stride",
                      stride[a]);
        SPIRA_REQUIRE((int64_t)size[a] * dilation[a] * stride[a] < INT32_MAX, status_bad_size,
                      "kernel (reach)", size[a]);
    }
    return status_success();
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

// The displacement of a row's anchor, its member of lowest z.
SPIRA_BOTH triple kernel_anchor(const kernel_shape *s, int row) {
    return kernel_displacement(s, row * s->size.z + (s->transposed ? s->size.z - 1 : 0));
}

// The offset that is j steps above the anchor of its row, j = 0 .. size.z - 1.
SPIRA_BOTH int kernel_row_member(const kernel_shape *s, int row, int j) {
    return row * s->size.z + (s->transposed ? s->size.z - 1 - j : j);
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

// The offset with the opposite displacement. Odd kernels only.
SPIRA_BOTH int kernel_mirror(const kernel_shape *s, int k) {
    return kernel_volume(s) - 1 - k;
}

// How other engines order the weights of one layer.
enum weight_order : int {
    // [size.x, size.y, size.z, cin, cout]: spira's own.
    weight_order_spira,
    // [cout, size.z, size.y, size.x, cin]: spconv 2, whose spatial axes are z, y, x.
    weight_order_spconv,
    // [volume, cin, cout], x fastest if the volume is odd, z fastest if it is even: TorchSparse.
    weight_order_torchsparse,
    // [volume, cin, cout], x fastest: MinkowskiEngine's hypercube.
    weight_order_minkowski,
};

// The index of weight (k, i, o) in an engine's array; k is in spira's order.
SPIRA_BOTH int64_t weight_index(weight_order order, triple size, int cin, int cout, int k, int i,
                                int o) {
    int ix = k / (size.y * size.z), iy = k / size.z % size.y, iz = k % size.z;
    int x_fastest = (iz * size.y + iy) * size.x + ix;
    bool odd = size.x * size.y * size.z % 2 != 0;
    switch (order) {
    case weight_order_spconv:
        return ((int64_t)o * (size.x * size.y * size.z) + x_fastest) * cin + i;
    case weight_order_torchsparse:
        return ((int64_t)(odd ? x_fastest : k) * cin + i) * cout + o;
    case weight_order_minkowski:
        return ((int64_t)x_fastest * cin + i) * cout + o;
    default:
        return ((int64_t)k * cin + i) * cout + o;
    }
}

// Copies a layer's weights from an engine's order into spira's.
//
// inputs   source [volume * cin * cout] elements of element_size bytes, in `order`
// outputs  target [volume, cin, cout]: offsets in spira's order; must not overlap source
SPIRA_API status weight_reorder(weight_order order, triple size, int cin, int cout,
                                size_t element_size, const void *source, void *target) {
    SPIRA_REQUIRE(source, status_null_pointer, "source", 0);
    SPIRA_REQUIRE(target, status_null_pointer, "target", 0);
    SPIRA_REQUIRE(order >= weight_order_spira && order <= weight_order_minkowski,
                  status_unsupported, "order", order);
    kernel_shape shape = {size, {1, 1, 1}, {1, 1, 1}, false};
    SPIRA_TRY(kernel_check(&shape));
    SPIRA_REQUIRE(cin >= 1, status_bad_size, "cin", cin);
    SPIRA_REQUIRE(cout >= 1, status_bad_size, "cout", cout);
    SPIRA_REQUIRE(element_size >= 1, status_bad_size, "element_size", element_size);
    for (int k = 0; k < kernel_volume(&shape); ++k) {
        for (int i = 0; i < cin; ++i) {
            for (int o = 0; o < cout; ++o) {
                int64_t to = ((int64_t)k * cin + i) * cout + o;
                int64_t from = weight_index(order, size, cin, cout, k, i, o);
                memcpy((char *)target + to * (int64_t)element_size,
                       (const char *)source + from * (int64_t)element_size, element_size);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
