// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/subdivide.h: a finer voxel set from features: each voxel has up to eight children of half
// its stride, which 8 numbers or the 8 bits of a mask choose.
//
// Child number s = dx + 2 dy + 4 dz stands at the voxel's own coordinates plus half of the stride
// along each axis where its d is 1. The result ascends in (batch, x, y, z) as every set. `source`
// is 8 row + s for each child: the row of the features seen as [8 rows, channels / 8] (a
// channel-to-space step is then row_gather, rows.h).
#ifndef SPIRA_SUBDIVIDE_H
#define SPIRA_SUBDIVIDE_H

#include "downsample.h"
#include "prune.h"

namespace spira {

enum { subdivide_children = 8 };

// What `subdivide` reads and writes. in and out must not overlap.
template <typename W>
struct subdivide_args {
    const word_layout *layout; // on the host; holds the children
    voxel_set<W> in;           // capacity at most INT32_MAX / 8
    triple stride;             // of `in`; even on every axis
    row_choice choice;         // mask: bit s; scores: [rows, 8], so channels = 8; or all
    voxel_set<W> out;          // of stride / 2
    int32_t *source;           // [out.capacity] 8 row + s
    device_status *trouble;    // in device memory; in host memory for subdivide_host
};

// The checks of subdivide and subdivide_host.
template <typename W>
SPIRA_API status subdivide_check(const subdivide_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(voxel_set_check(&a->in));
    SPIRA_TRY(voxel_set_check(&a->out));
    SPIRA_REQUIRE(a->in.capacity <= INT32_MAX / subdivide_children, status_bad_size,
                  "in.capacity (numbers of children are ints)", a->in.capacity);
    SPIRA_REQUIRE(a->out.words != a->in.words && a->out.count != a->in.count, status_unsupported,
                  "out (overlaps in)", 0);
    for (int axis = 0; axis < 3; ++axis) {
        const int s = triple_at(a->stride, axis);
        SPIRA_REQUIRE(s >= 2 && s % 2 == 0 && s <= 1 << 20, status_stride,
                      "stride (not even: it cannot be halved)", s);
    }
    SPIRA_TRY(row_choice_check(&a->choice));
    SPIRA_REQUIRE(!a->choice.scores || a->choice.channels == subdivide_children, status_bad_size,
                  "choice.channels (a voxel has 8 children)", a->choice.channels);
    SPIRA_TRY(pointer_check(a->source, alignof(int32_t), "source"));
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

SPIRA_BOTH triple subdivide_half(triple stride) {
    return triple_make(stride.x / 2, stride.y / 2, stride.z / 2);
}

// What is added to a voxel's word for child s.
template <typename W>
SPIRA_BOTH W subdivide_delta(const word_layout *l, triple half, int s) {
    return word_delta<W>(l,
                         triple_make(s & 1 ? half.x : 0, s & 2 ? half.y : 0, s & 4 ? half.z : 0));
}

// The children that the layout holds, a bit each.
SPIRA_BOTH uint32_t subdivide_within(const word_layout *l, voxel v, triple half) {
    return (v.x + half.x <= l->hi.x ? 0xffu : 0x55u) & (v.y + half.y <= l->hi.y ? 0xffu : 0x33u) &
           (v.z + half.z <= l->hi.z ? 0xffu : 0x0fu);
}

// Bytes of scratch for subdivide_host.
template <typename W>
SPIRA_API status subdivide_host_workspace(const subdivide_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(size_check(args->in.capacity, 1, INT32_MAX / subdivide_children, "in.capacity"));
    return workspace_measure_array<int32_t>((int64_t)args->in.capacity * subdivide_children, bytes);
}

// The children of row i that exist, a bit each. Records what is wrong with the row.
template <typename W>
SPIRA_API uint32_t subdivide_host_children(const subdivide_args<W> *a, int32_t i) {
    const row_choice &c = a->choice;
    uint32_t wanted = c.scores ? 0 : c.mask ? c.mask[i] : 0xff;
    for (int s = 0; s < subdivide_children && c.scores; ++s) {
        const float score = numeric_load(c.type, c.scores, (int64_t)i * subdivide_children + s);
        if (float_is_nan(score)) {
            device_status_note(a->trouble, device_flag_not_finite, (uint32_t)i);
        }
        wanted |= (uint32_t)row_choice_takes(c, score) << s;
    }
    const voxel v = word_unpack<W>(a->layout, a->in.words[i]);
    bool off_plane;
    if (!downsample_on_lattice(a->layout, a->in.words[i], a->stride, &off_plane)) {
        device_status_note(a->trouble, device_flag_lattice, (uint32_t)i);
        return 0;
    }
    const uint32_t within = subdivide_within(a->layout, v, subdivide_half(a->stride));
    if (wanted & ~within) {
        device_status_note(a->trouble, device_flag_range, (uint32_t)i);
    }
    return wanted & within;
}

// The host loop of `subdivide` (subdivide.cuh), on host memory.
template <typename W>
SPIRA_API status subdivide_host(const subdivide_args<W> *args, void *scratch,
                                size_t scratch_bytes) {
    SPIRA_TRY(subdivide_check(args));
    int32_t *source; // of all children
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes,
                                   (int64_t)args->in.capacity * subdivide_children, &source));
    int32_t all = 0;
    const triple half = subdivide_half(args->stride);
    voxel_set_note(args->in, args->trouble);
    for (int32_t i = 0; i < voxel_set_count(args->in); ++i) {
        const uint32_t children = subdivide_host_children(args, i);
        for (int s = 0; s < subdivide_children; ++s) {
            source[all] = i * subdivide_children + s;
            all += children >> s & 1;
        }
    }
    const auto word_of = [&](int32_t from) {
        return (W)(args->in.words[from / subdivide_children] +
                   subdivide_delta<W>(args->layout, half, from % subdivide_children));
    };
    std::sort(source, source + all, [&](int32_t a, int32_t b) { return word_of(a) < word_of(b); });
    for (int32_t i = 0; i < all && i < args->out.capacity; ++i) {
        args->out.words[i] = word_of(source[i]);
        args->source[i] = source[i];
    }
    voxel_set_end(args->out, all, args->trouble);
    return status_success();
}

} // namespace spira

#endif
