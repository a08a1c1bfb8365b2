// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/curve.h: the order of a voxel set along a space-filling curve, as attention over point
// clouds cuts its patches (PTv3 calls it serialisation).
//
// A voxel's cell is (voxel - origin) / stride on each axis, 0 .. 2^depth - 1. Its code is
//
//   batch << 3 depth | place along the curve
//
// curve_z        bit i of the cell's x, y, z is bit 3i + 2, 3i + 1, 3i of the place
// curve_hilbert  Hilbert's curve by Skilling's transform, axes in the order x, y, z; it depends on
//                `depth`. Neighbours on the curve are neighbours in space
// .. swapped     the same with x and y exchanged
//
// At twice the stride, a cell's place is that of its children >> 3 (curve_z at any depth; Hilbert's
// with depth - 1).
#ifndef SPIRA_CURVE_H
#define SPIRA_CURVE_H

#include "voxel_set.h"
#include "workspace.h"

namespace spira {

enum curve_kind : int {
    curve_z,
    curve_z_swapped,
    curve_hilbert,
    curve_hilbert_swapped,
    curve_count
};

enum { curve_depth_most = 16, curve_code_bits = 63 };

// What `curve_order` reads and writes. Nothing may overlap.
template <typename W>
struct curve_args {
    voxel_set<W> set;
    const word_layout *layout; // of the set; read during the call
    triple stride;             // of the set
    triple origin;             // of cell (0, 0, 0), in voxels of the finest grid
    int depth;                 // 1 .. 16 bits of an axis; curve_depth finds the least
    curve_kind kind;
    uint64_t *code;         // [capacity] of each voxel; null: not written
    int32_t *order;         // [capacity] rows by ascending code
    int32_t *rank;          // [capacity] where each row is in `order`; null: not written
    device_status *trouble; // in device memory; in host memory for curve_order_host
};

// The least depth for cells up to `most`.
SPIRA_BOTH int curve_depth(triple most) {
    return (int)max_of(bits_for((uint64_t)max_of(max_of(most.x, most.y), most.z)), 1);
}

// Bits of the codes of a layout.
SPIRA_BOTH int curve_bits(const word_layout *layout, int depth) {
    return 3 * depth + layout->width_batch;
}

// The place of a cell along a curve.
SPIRA_BOTH uint64_t curve_place(curve_kind kind, int depth, triple cell) {
    uint32_t axis[3] = {(uint32_t)cell.x, (uint32_t)cell.y, (uint32_t)cell.z};
    if (kind == curve_z_swapped || kind == curve_hilbert_swapped) {
        axis[0] = (uint32_t)cell.y;
        axis[1] = (uint32_t)cell.x;
    }
    const bool hilbert = kind >= curve_hilbert;
    for (int bit = depth - 1; hilbert && bit >= 0; --bit) {
        const uint32_t low = (1u << bit) - 1; // the bits that a step turns over or exchanges
        for (uint32_t &own : axis) {
            const uint32_t change = own >> bit & 1 ? low : (axis[0] ^ own) & low;
            own ^= own >> bit & 1 ? 0 : change;
            axis[0] ^= change;
        }
    }
    uint64_t place = 0;
    for (int bit = depth - 1; bit >= 0; --bit) {
        for (const uint32_t own : axis) {
            place = place << 1 | (own >> bit & 1);
        }
    }
    for (int step = 1; hilbert && step < 64; step *= 2) { // from Gray code
        place ^= place >> step;
    }
    return place;
}

// The code of a voxel; false if its cell is off the curve. Cells off the curve are clamped to it.
template <typename W>
SPIRA_BOTH bool curve_code(const curve_args<W> &a, const word_layout &layout, W word,
                           uint64_t *code) {
    const voxel v = word_unpack<W>(&layout, word);
    const int at[3] = {v.x, v.y, v.z};
    triple cell = {};
    bool on = true;
    for (int axis = 0; axis < 3; ++axis) {
        const int64_t c =
            floor_to((int64_t)at[axis] - triple_at(a.origin, axis), triple_at(a.stride, axis)) /
            triple_at(a.stride, axis);
        const int64_t last = ((int64_t)1 << a.depth) - 1;
        on = on && c >= 0 && c <= last;
        *triple_at(&cell, axis) = (int)max_of(min_of(c, last), 0);
    }
    *code = (uint64_t)v.batch << 3 * a.depth | curve_place(a.kind, a.depth, cell);
    return on;
}

// The checks of curve_order and curve_order_host.
template <typename W>
SPIRA_API status curve_check(const curve_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(voxel_set_check(&a->set));
    SPIRA_TRY(word_check<W>(a->layout));
    for (int axis = 0; axis < 3; ++axis) {
        SPIRA_TRY(status_on_axis(
            size_check(triple_at(a->stride, axis), 1, INT64_MAX, "stride", status_stride), axis));
    }
    SPIRA_TRY(size_check(a->depth, 1, curve_depth_most, "depth"));
    SPIRA_TRY(size_check(curve_bits(a->layout, a->depth), 1, curve_code_bits,
                         "depth (3 depth + bits of the batch)"));
    SPIRA_REQUIRE(a->kind >= curve_z && a->kind < curve_count, status_unsupported, "kind", a->kind);
    if (a->code) {
        SPIRA_TRY(pointer_check(a->code, alignof(uint64_t), "code"));
    }
    SPIRA_TRY(pointer_check(a->order, alignof(int32_t), "order"));
    if (a->rank) {
        SPIRA_TRY(pointer_check(a->rank, alignof(int32_t), "rank"));
    }
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// Bytes of scratch for curve_order_host. Reads set.capacity alone.
template <typename W>
SPIRA_API status curve_order_host_workspace(const curve_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(capacity_check(args->set.capacity, "set.capacity"));
    return workspace_measure_array<uint64_t>(args->set.capacity, bytes);
}

// The host loop of `curve_order` (curve.cuh), on host memory.
template <typename W>
SPIRA_API status curve_order_host(const curve_args<W> *args, void *scratch, size_t scratch_bytes) {
    SPIRA_TRY(curve_check(args));
    const curve_args<W> &a = *args;
    uint64_t *code;
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, a.set.capacity, &code));
    const int32_t rows = voxel_set_count(a.set);
    voxel_set_note(a.set, a.trouble);
    for (int32_t i = 0; i < rows; ++i) {
        if (!curve_code(a, *a.layout, a.set.words[i], &code[i])) {
            device_status_note(a.trouble, device_flag_range, (uint32_t)i);
        }
        a.order[i] = i;
        if (a.code) {
            a.code[i] = code[i];
        }
    }
    std::sort(a.order, a.order + rows, [code](int32_t i, int32_t j) {
        return code[i] != code[j] ? code[i] < code[j] : i < j;
    });
    for (int32_t i = 0; i < rows && a.rank; ++i) {
        a.rank[a.order[i]] = i;
    }
    return status_success();
}

} // namespace spira

#endif
