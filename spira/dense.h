// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/dense.h: dense maps: the features of a voxel set as a tensor over a grid, with zeros where
// there is no voxel. Detection heads read a bird's-eye map of this kind.
//
// The grid says which voxels the tensor has: index i of an axis is at the coordinate
// origin + i * stride, for 0 <= i < extent. x is the width of the tensor, y its height, z its
// depth. A set that was made by `expand` lies on the grid of `expand_out`, with the stride of the
// set.
//
//   order                   shape                                      innermost
//   dense_channels_first    [batch, channels * depth, height, width]   x
//   dense_channels_last     [batch, height, width, channels * depth]   z
//
// In both orders, channel c at depth d is number c * depth + d, as OpenPCDet and mmdetection3d
// flatten it.
#ifndef SPIRA_DENSE_H
#define SPIRA_DENSE_H

#include "expand.h"
#include "numeric.h"

namespace spira {

enum dense_order : int {
    dense_channels_first,
    dense_channels_last,
};

// The depth of a grid in channels-last order, at most.
enum { dense_depth_max = 1024 };

// What `dense` reads and writes. All but `programmatic` is required.
template <typename W>
struct dense_args {
    const word_layout *layout; // on the host
    voxel_set<W> set;
    expand_grid grid;     // all extents >= 1
    triple stride;        // spacing of the grid, in voxels of the finest grid; >= 1
    int batch;            // of the tensor; >= 1
    int channels;         // >= 1
    numeric type;         // of the features
    const void *features; // [voxels, channels] aligned to their element
    numeric out_type;     // numeric_f16, numeric_bf16 or numeric_f32; of int8 features numeric_i8,
                          // too
    float scale;          // of int8 features where the map is none: element * scale; others: 0
    dense_order order;
    void *out;              // see above; aligned to its element; not `features`
    device_status *trouble; // in device memory; in host memory for dense_host
    // Programmatic dependent launch (spira/README). The kernel before may write the features, but
    // neither the set nor its count.
    bool programmatic;
};

// Elements of a map.
SPIRA_API status dense_elements(const expand_grid *grid, int batch, int channels, int64_t *count) {
    SPIRA_REQUIRE(grid, status_null_pointer, "grid", 0);
    SPIRA_TRY(size_check(batch, 1, INT64_MAX, "batch"));
    SPIRA_TRY(size_check(channels, 1, INT64_MAX, "channels"));
    int64_t all = (int64_t)batch * channels;
    for (int a = 0; a < 3; ++a) {
        const int extent = triple_at(grid->extent, a);
        SPIRA_TRY(status_on_axis(size_check(extent, 1, voxel_index_max, "grid.extent"), a));
        SPIRA_REQUIRE(all <= ((int64_t)1 << 60) / extent, status_bad_size,
                      "grid.extent (a map of 2^60 or more elements)", extent);
        all *= extent;
    }
    *count = all;
    return status_success();
}

// Bytes of a map, the same in both orders. out_type: fp16, bf16, fp32 or int8.
SPIRA_API status dense_bytes(const expand_grid *grid, int batch, int channels, numeric out_type,
                             size_t *bytes) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    SPIRA_REQUIRE((numeric_valid(out_type) && out_type != numeric_tf32) || out_type == numeric_i8,
                  status_unsupported, "out_type", out_type);
    int64_t count;
    SPIRA_TRY(dense_elements(grid, batch, channels, &count));
    *bytes = (size_t)count * (size_t)numeric_size(out_type);
    return status_success();
}

// The index of a channel of a grid cell, in elements. cell: batch index and indices on the grid.
SPIRA_BOTH int64_t dense_at(dense_order order, triple extent, int channels, voxel cell,
                            int channel) {
    const int64_t deep = (int64_t)channels * extent.z,
                  number = (int64_t)channel * extent.z + cell.z;
    return order == dense_channels_first
               ? ((cell.batch * deep + number) * extent.y + cell.y) * extent.x + cell.x
               : (((int64_t)cell.batch * extent.y + cell.y) * extent.x + cell.x) * deep + number;
}

// One axis of dense_locate.
SPIRA_BOTH uint32_t dense_locate_axis(int coordinate, int origin, int stride, int extent,
                                      int *index) {
    const int64_t away = (int64_t)coordinate - origin;
    *index = 0;
    if (away < -INT32_MAX || away > INT32_MAX) {
        return device_flag_range;
    }
    *index = (int)away / stride;
    if ((int)away != *index * stride) {
        return device_flag_lattice;
    }
    return *index < 0 || *index >= extent ? (uint32_t)device_flag_range : 0u;
}

// The cell of a word's voxel. Returns 0, or why there is none (device_flag bits):
// device_flag_lattice between the points of the grid; device_flag_range outside of the layout,
// beyond the grid's ends or beyond the batch.
template <typename W>
SPIRA_BOTH uint32_t dense_locate(const word_layout *layout, const expand_grid *grid, triple stride,
                                 int batch, W word, voxel *cell) {
    const voxel v = word_unpack(layout, word);
    cell->batch = v.batch;
    const bool inside = word_contains(layout, v) && v.batch < batch;
    uint32_t wrong = inside ? 0u : (uint32_t)device_flag_range;
    wrong |= dense_locate_axis(v.x, grid->origin.x, stride.x, grid->extent.x, &cell->x);
    wrong |= dense_locate_axis(v.y, grid->origin.y, stride.y, grid->extent.y, &cell->y);
    return wrong | dense_locate_axis(v.z, grid->origin.z, stride.z, grid->extent.z, &cell->z);
}

SPIRA_API status dense_check_axis(int origin, int extent, int stride) {
    SPIRA_TRY(size_check(stride, 1, INT64_MAX, "stride", status_stride));
    SPIRA_TRY(size_check(origin, -voxel_index_max, voxel_index_max, "grid.origin"));
    SPIRA_REQUIRE(origin + (int64_t)(extent - 1) * stride <= INT32_MAX, status_bad_size,
                  "grid.extent (its last coordinate is no int)", extent);
    return status_success();
}

// The checks of dense and dense_host.
template <typename W>
SPIRA_API status dense_check(const dense_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(voxel_set_check(&a->set));
    const bool i8 = a->type == numeric_i8;
    SPIRA_REQUIRE(numeric_valid(a->type) || i8, status_unsupported, "type", a->type);
    SPIRA_REQUIRE(i8 || a->out_type != numeric_i8, status_unsupported,
                  "out_type (int8 of other features)", a->out_type);
    SPIRA_REQUIRE(numeric_scale_good(a->scale, i8 && a->out_type != numeric_i8), status_unsupported,
                  "scale", 0);
    SPIRA_REQUIRE(a->order == dense_channels_first || a->order == dense_channels_last,
                  status_unsupported, "order", a->order);
    size_t bytes = 0;
    SPIRA_TRY(dense_bytes(&a->grid, a->batch, a->channels, a->out_type, &bytes));
    const expand_grid *g = &a->grid;
    for (int i = 0; i < 3; ++i) {
        SPIRA_TRY(status_on_axis(dense_check_axis(triple_at(g->origin, i), triple_at(g->extent, i),
                                                  triple_at(a->stride, i)),
                                 i));
    }
    SPIRA_REQUIRE(a->order == dense_channels_first || g->extent.z <= dense_depth_max,
                  status_bad_size, "grid.extent.z (of a map with channels last)", g->extent.z);
    SPIRA_TRY(pointer_check(a->features, (size_t)numeric_size(a->type), "features"));
    SPIRA_TRY(pointer_check(a->out, (size_t)numeric_size(a->out_type), "out"));
    SPIRA_REQUIRE(a->out != a->features, status_unsupported, "out (overlaps an input)", 0);
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// Copies an element from one array to another. Between arrays of one format the bits stay.
SPIRA_API void dense_copy_host(numeric from, const void *source, int64_t i, numeric to,
                               void *target, int64_t j) {
    if (from == to && numeric_size(to) == 2) {
        ((uint16_t *)target)[j] = ((const uint16_t *)source)[i];
    } else {
        numeric_store(to, target, j, numeric_load(from, source, i));
    }
}

// The host loop of `dense` (dense.cuh), on host memory.
template <typename W>
SPIRA_API status dense_host(const dense_args<W> *args) {
    SPIRA_TRY(dense_check(args));
    size_t bytes = 0;
    SPIRA_TRY(dense_bytes(&args->grid, args->batch, args->channels, args->out_type, &bytes));
    memset(args->out, 0, bytes);
    voxel_set_note(args->set, args->trouble);
    const int32_t count = voxel_set_count(args->set);
    for (int32_t i = 0; i < count; ++i) {
        voxel cell;
        const uint32_t wrong = dense_locate(args->layout, &args->grid, args->stride, args->batch,
                                            args->set.words[i], &cell);
        for (device_flag flag : {device_flag_range, device_flag_lattice}) {
            if (wrong & (uint32_t)flag) {
                device_status_note(args->trouble, flag, (uint32_t)i);
            }
        }
        if (wrong) {
            continue;
        }
        for (int c = 0; c < args->channels; ++c) {
            const int64_t from = (int64_t)i * args->channels + c,
                          to = dense_at(args->order, args->grid.extent, args->channels, cell, c);
            if (args->scale > 0) {
                numeric_store(args->out_type, args->out, to,
                              args->scale * numeric_load(args->type, args->features, from));
            } else {
                dense_copy_host(args->type, args->features, from, args->out_type, args->out, to);
            }
        }
    }
    return status_success();
}

// ---- gradient -----------------------------------------------------------------------------------

// The checks of dense_grad and dense_grad_host. args.features is not read.
template <typename W>
SPIRA_API status dense_grad_check(const dense_args<W> *args, const void *features_grad) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(args->type), status_unsupported, "type", args->type);
    SPIRA_TRY(pointer_check(features_grad, (size_t)numeric_size(args->type), "features_grad"));
    SPIRA_REQUIRE(args->out != features_grad, status_unsupported, "out (overlaps features_grad)",
                  0);
    dense_args<W> layer = *args;
    layer.features = features_grad;
    return dense_check(&layer);
}

// The host loop of `dense_grad` (dense.cuh), on host memory.
template <typename W>
SPIRA_API status dense_grad_host(const dense_args<W> *args, void *features_grad) {
    SPIRA_TRY(dense_grad_check(args, features_grad));
    const int32_t count = voxel_set_count(args->set);
    for (int32_t i = 0; i < count; ++i) {
        voxel cell;
        const bool there = !dense_locate(args->layout, &args->grid, args->stride, args->batch,
                                         args->set.words[i], &cell);
        for (int c = 0; c < args->channels; ++c) {
            const int64_t to = (int64_t)i * args->channels + c;
            if (there) {
                dense_copy_host(args->out_type, args->out,
                                dense_at(args->order, args->grid.extent, args->channels, cell, c),
                                args->type, features_grad, to);
            } else {
                numeric_store(args->type, features_grad, to, 0);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
