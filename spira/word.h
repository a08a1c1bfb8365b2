// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/word.h: the coordinate word (Spira paper: packed-native processing).
//
// A voxel (batch, x, y, z) is packed into one unsigned word of 32 or 64 bits; the fields, most
// significant first, are batch, x, y, z. The order of the words is the lexicographic order of the
// voxels. Each field keeps a guard margin, so that no offset within the layout's reach carries or
// borrows into the next field: packed(q) + packed(delta) is packed(q + delta).
//
// W is uint32_t or uint64_t and must be as wide as the layout's `bits`; word_dispatch chooses it at
// run time. Coordinates of all strides are in units of the finest grid: at stride 4 they are
// multiples of 4.
//
// The word with all bits set, word_none(), is never a voxel nor a query. It means "no voxel" and
// sorts last.
#ifndef SPIRA_WORD_H
#define SPIRA_WORD_H

#include "base/integer.h"
#include "status.h"

namespace spira {

struct voxel {
    int batch, x, y, z;
};

// What a scene and its network require of a layout.
struct word_need {
    triple lo, hi; // inclusive bounds of the voxels
    int batches;   // batch indices are 0 .. batches - 1
    triple stride; // the largest stride of each axis
    triple reach;  // the largest |offset| of each axis, in voxels of the finest grid
};

// The fields of a word; z starts at bit 0. Made by word_fit.
struct word_layout {
    int bits;                      // 32 or 64
    triple width;                  // bits of the fields x, y, z
    int width_batch;               // bits of the field batch; 0 for one batch
    int shift_x, shift_y, shift_b; // where the fields start
    triple bias;                   // added before packing; a multiple of the largest stride
    triple lo, hi;                 // inclusive bounds of the voxels that keep the guard margin
    int batches;
};

template <typename W>
SPIRA_BOTH W word_none() {
    return (W) ~(W)0;
}

// The bits in use: [0, word_bits). A sort needs to look at no others.
SPIRA_BOTH int word_bits(const word_layout *layout) {
    return layout->shift_b + layout->width_batch;
}

// One axis of word_fit: bias and width for the bounds, with the guard margin on both sides. No
// voxel within the margin makes a field all ones, so that word_none() is no voxel.
SPIRA_API void word_fit_axis(int64_t lo, int64_t hi, int64_t stride, int64_t reach, int64_t *bias,
                             int *width) {
    int64_t margin = round_up(reach, stride);
    *bias = margin - floor_to(lo, stride);
    *width = bits_for((uint64_t)(hi + *bias + reach + 1));
}

// Fits a layout to a scene: of 32 bits if they suffice, else of 64.
//
// inputs   need: bounds, batches >= 1, strides >= 1, reaches >= 0
// outputs  layout; its `lo` and `hi` are the widest bounds that the fields hold with their margins
// errors   sizes that are not allowed; status_bits with the number of missing bits; the layout is
//          all zero then
SPIRA_API status word_fit(const word_need *need, word_layout *layout) {
    SPIRA_REQUIRE(need, status_null_pointer, "need", 0);
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    word_layout l = {};
    *layout = l;
    SPIRA_TRY(size_check(need->batches, 1, INT64_MAX, "batches"));
    l.batches = need->batches;
    l.width_batch = bits_for((uint64_t)need->batches - 1);
    int64_t bias[3];
    for (int a = 0; a < 3; ++a) {
        const int lo = triple_at(need->lo, a), hi = triple_at(need->hi, a);
        const int stride = triple_at(need->stride, a), reach = triple_at(need->reach, a);
        SPIRA_TRY(status_on_axis(size_check(stride, 1, INT64_MAX, "stride", status_stride), a));
        SPIRA_TRY(status_on_axis(size_check(reach, 0, INT64_MAX, "reach"), a));
        SPIRA_TRY(status_on_axis(size_check(hi, lo, INT32_MAX - reach, "hi"), a));
        int *const width = triple_at(&l.width, a);
        word_fit_axis(lo, hi, stride, reach, &bias[a], width);
        const int64_t top = ((int64_t)1 << *width) - 2 - reach - bias[a];
        *triple_at(&l.bias, a) = (int)bias[a];
        *triple_at(&l.lo, a) = (int)floor_to(lo, stride);
        *triple_at(&l.hi, a) = (int)min_of(top, INT32_MAX - reach);
    }
    l.shift_y = l.width.z;
    l.shift_x = l.shift_y + l.width.y;
    l.shift_b = l.shift_x + l.width.x;
    SPIRA_REQUIRE(word_bits(&l) <= 64, status_bits, "layout", word_bits(&l) - 64);
    for (int a = 0; a < 3; ++a) { // coordinates and biases are ints
        SPIRA_REQUIRE(triple_at(l.width, a) <= 31 && bias[a] <= INT32_MAX && bias[a] >= -INT32_MAX,
                      status_bad_size, "bounds (an axis needs more than 31 bits)",
                      triple_at(l.width, a));
    }
    l.bits = word_bits(&l) <= 32 ? 32 : 64;
    *layout = l;
    return status_success();
}

// The same fields in 64-bit words, for callers that use one word type throughout.
SPIRA_API word_layout word_widen(word_layout layout) {
    layout.bits = 64;
    return layout;
}

// Returns body(uint32_t()) or body(uint64_t()), whichever word the layout has. The body is a
// generic lambda that returns a status:
//
//     word_dispatch(&layout, [&](auto word) {
//         typedef decltype(word) W;
//         return voxelize<W>(&layout, ...);
//     });
template <typename F>
SPIRA_API status word_dispatch(const word_layout *layout, F body) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(layout->bits == 32 || layout->bits == 64, status_unsupported,
                  "layout (words have 32 or 64 bits)", layout->bits);
    return layout->bits == 32 ? body((uint32_t)0) : body((uint64_t)0);
}

// The check that every operation on words makes of its layout.
template <typename W>
SPIRA_API status word_check(const word_layout *layout) {
    SPIRA_REQUIRE(layout, status_null_pointer, "layout", 0);
    SPIRA_REQUIRE(layout->bits == (int)(8 * sizeof(W)), status_unsupported,
                  "layout (the word type is not as wide as the layout)", layout->bits);
    SPIRA_REQUIRE(word_bits(layout) >= 1 && word_bits(layout) <= layout->bits, status_bad_size,
                  "layout (bits)", word_bits(layout));
    return status_success();
}

// Whether a voxel is within the layout. Packing an out-of-range voxel yields an invalid word.
SPIRA_BOTH bool word_contains(const word_layout *l, voxel v) {
    return v.batch >= 0 && v.batch < l->batches && v.x >= l->lo.x && v.x <= l->hi.x &&
           v.y >= l->lo.y && v.y <= l->hi.y && v.z >= l->lo.z && v.z <= l->hi.z;
}

// The word of a voxel; word_contains must hold.
template <typename W>
SPIRA_BOTH W word_pack(const word_layout *l, voxel v) {
    W batch = l->width_batch ? (W)v.batch << l->shift_b : 0; // a shift by all bits is undefined
    return batch | (W)(uint32_t)(v.x + l->bias.x) << l->shift_x |
           (W)(uint32_t)(v.y + l->bias.y) << l->shift_y | (W)(uint32_t)(v.z + l->bias.z);
}

// The voxel of a word.
template <typename W>
SPIRA_BOTH voxel word_unpack(const word_layout *l, W w) {
    voxel v;
    v.batch = l->width_batch ? (int)(w >> l->shift_b) : 0;
    v.x = (int)((w >> l->shift_x) & (((W)1 << l->width.x) - 1)) - l->bias.x;
    v.y = (int)((w >> l->shift_y) & (((W)1 << l->width.y) - 1)) - l->bias.y;
    v.z = (int)(w & (((W)1 << l->width.z) - 1)) - l->bias.z;
    return v;
}

// packed(delta): added to a word, it moves the voxel by delta. |delta| must be within the reach.
// Negative components wrap; the sum is exact nevertheless.
template <typename W>
SPIRA_BOTH W word_delta(const word_layout *l, triple delta) {
    return (W)((W)(int64_t)delta.x << l->shift_x) + (W)((W)(int64_t)delta.y << l->shift_y) +
           (W)(int64_t)delta.z;
}

// The mask that floors every axis to a multiple of its stride: word & mask. Strides must be powers
// of two.
template <typename W>
SPIRA_BOTH W word_stride_mask(const word_layout *l, triple stride) {
    // A stride wider than its field clears that field alone.
    W x = (W)(stride.x - 1) & (((W)1 << l->width.x) - 1);
    W y = (W)(stride.y - 1) & (((W)1 << l->width.y) - 1);
    W z = (W)(stride.z - 1) & (((W)1 << l->width.z) - 1);
    return (W) ~((x << l->shift_x) | (y << l->shift_y) | z);
}

// The same for any stride >= 1, by unpacking. Negative coordinates are floored, too.
template <typename W>
SPIRA_BOTH W word_floor(const word_layout *l, W w, triple stride) {
    voxel v = word_unpack<W>(l, w);
    v.x = (int)floor_to(v.x, stride.x);
    v.y = (int)floor_to(v.y, stride.y);
    v.z = (int)floor_to(v.z, stride.z);
    return word_pack<W>(l, v);
}

} // namespace spira

#endif
