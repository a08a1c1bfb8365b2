// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/expand.h: the output set of a strided layer that has every voxel whose kernel touches an
// input. This is the rule of spconv 2 and, where size and stride differ, of TorchSparse 2.1 in its
// default mode. (`downsample` has the other rule: the floor of the inputs.)
//
// The rule, on each axis, in the indices of those engines: output o reads input i through tap t if
//
//     i = o * ratio - padding + t * dilation,     0 <= t < size
//
// and exists if it reads any input. At ratio 1 the set grows: a dilating, generative layer. If the
// input has an extent (0: no limit), the output has one, too, and no voxels beyond it:
//
//     extent of the outputs = floor((extent + 2 * padding - dilation * (size - 1) - 1) / ratio) + 1
//
// The voxels of a set lie on a grid: index i is at the coordinate origin + i * spacing. Kernel
// offsets count from one tap, the middle one of an odd size and the first one of an even size
// (offset.h). An output is stored at the coordinate of that tap of its kernel, so that padding
// moves the origin of the grid, not the kernel:
//
//     spacing of the outputs = ratio * kernel.stride
//     origin of the outputs  = origin of the inputs + (tap * dilation - padding) * kernel.stride
//
// Size 3 with padding 1, 5 with 2 and 2 with 0 keep the origin; size 3 with padding 0 moves it by
// one voxel of the inputs. Maps and submanifold layers use differences of coordinates only, and do
// not depend on it. `downsample` floors to multiples of a stride from origin 0: after a layer that
// moved the origin, use `expand`, with the grid that `expand_out` returns.
//
// A transposed kernel, at ratio 1, has all voxels that it reaches from an input: input + offset. Of
// an odd size these are the same; of an even one outputs are stored at their last tap, not at the
// first: offsets lead from 0 to size - 1, forward, so tap = size - 1 + kernel_first(size) above.
// With padding (size - 1) * dilation an extent takes none of them away; with p less, outputs out of
// the bounds of spconv's transposed layer of padding p are dropped. Of a layer of stride s over n
// cells, give the extent (n - 1) * s + 1. Outputs have (n - 1) * s + (size - 1) * dilation + 1 - 2p
// cells.
//
// Without an extent nothing is dropped: negative coordinates exist, as in MinkowskiEngine, and the
// layout must have room for them (device_flag_range otherwise). Nothing is clamped to the bounds.
//
// Outputs reach beyond their inputs by up to kernel_reach: fit the layout to `expand_need`.
#ifndef SPIRA_EXPAND_H
#define SPIRA_EXPAND_H

#include "offset.h"
#include "voxel.h"

namespace spira {

// The grid that the voxels of a set lie on; its spacing is the stride of the set.
struct expand_grid {
    triple origin; // the coordinate of index 0, in voxels of the finest grid
    triple extent; // indices are 0 .. extent - 1; 0: no limit on this axis
};

// What defines a layer besides its kernel. The kernel's stride is the spacing of the input.
struct expand_rule {
    triple ratio;     // the layer's stride, relative to its input; >= 1
    triple padding;   // in voxels of the input, as in spconv; >= 0
    expand_grid grid; // of the input
};

// One axis of a layer, as both sides use it.
struct expand_axis {
    int size, dilation, spacing, ratio, padding;
    int origin, extent; // of the input's grid
    int out_origin, out_extent;
    int tap;    // an output has the coordinate of this tap
    int period; // at most every period-th tap of an input leads to an output
    int most;   // outputs that one input touches, at most
    uint32_t inverse_spacing, inverse_ratio; // see expand_divide
    int whole, part;                         // dilation / ratio and dilation % ratio
    int apart;    // outputs from one candidate to the next (a period of taps)
    int64_t move; // the same in voxels of the finest grid
};

struct expand_axes {
    expand_axis x, y, z;
    int most; // product over the axes
};

SPIRA_API status expand_axis_check(const expand_axis *a) {
    const int most = voxel_index_max; // keeps sums away from the ends of an int
    SPIRA_REQUIRE(a->ratio >= 1 && (int64_t)a->ratio * a->spacing <= 1 << 20, status_stride,
                  "rule.ratio", a->ratio);
    SPIRA_TRY(size_check(a->padding, 0, 1 << 20, "rule.padding"));
    SPIRA_TRY(size_check(a->origin, -most, most, "rule.grid.origin"));
    SPIRA_TRY(size_check(a->extent, 0, most, "rule.grid.extent"));
    return status_success();
}

// Computes the members of an axis from out_origin on, but for `tap`, which is given.
SPIRA_API status expand_axis_derive(expand_axis *a) {
    int64_t origin = a->origin + ((int64_t)a->tap * a->dilation - a->padding) * a->spacing;
    SPIRA_REQUIRE(origin >= -voxel_index_max && origin <= voxel_index_max, status_bad_size,
                  "rule.padding (moves the origin too far)", a->padding);
    a->out_origin = (int)origin;
    // How far the kernel can move within the padded extent.
    int64_t play = (int64_t)a->extent + 2 * a->padding - (int64_t)a->dilation * (a->size - 1) - 1;
    SPIRA_REQUIRE(a->extent == 0 || play >= 0, status_bad_size,
                  "rule.grid.extent (smaller than the kernel)", a->extent);
    a->out_extent = a->extent ? (int)(play / a->ratio + 1) : 0;
    a->period = 1;
    while (a->period < a->size && (int64_t)a->period * a->dilation % a->ratio != 0) {
        ++a->period;
    }
    a->most = (int)ceil_div(a->size, a->period);
    a->inverse_spacing = UINT32_MAX / (uint32_t)a->spacing;
    a->inverse_ratio = UINT32_MAX / (uint32_t)a->ratio;
    a->whole = a->dilation / a->ratio;
    a->part = a->dilation % a->ratio;
    a->apart = (int)((int64_t)a->period * a->dilation / a->ratio);
    a->move = (int64_t)a->period * a->dilation * a->spacing;
    return status_success();
}

// Checks a layer and computes its axes.
SPIRA_API status expand_axes_make(const kernel_shape *kernel, const expand_rule *rule,
                                  expand_axes *axes) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_REQUIRE(rule, status_null_pointer, "rule", 0);
    SPIRA_REQUIRE(!kernel->transposed || triple_equal(rule->ratio, triple_make(1, 1, 1)),
                  status_unsupported, "kernel.transposed (at a ratio above 1)", 0);
    const expand_grid *g = &rule->grid;
    expand_axis *const axis[3] = {&axes->x, &axes->y, &axes->z};
    for (int a = 0; a < 3; ++a) {
        *axis[a] = {};
        axis[a]->size = triple_at(kernel->size, a);
        axis[a]->dilation = triple_at(kernel->dilation, a);
        axis[a]->spacing = triple_at(kernel->stride, a);
        axis[a]->ratio = triple_at(rule->ratio, a);
        axis[a]->padding = triple_at(rule->padding, a);
        axis[a]->origin = triple_at(g->origin, a);
        axis[a]->extent = triple_at(g->extent, a);
        axis[a]->tap = (kernel->transposed ? axis[a]->size - 1 : 0) +
                       (kernel->transposed ? 1 : -1) * kernel_first(axis[a]->size);
        SPIRA_TRY(status_on_axis(expand_axis_check(axis[a]), a));
        SPIRA_TRY(status_on_axis(expand_axis_derive(axis[a]), a));
    }
    axes->most = axes->x.most * axes->y.most * axes->z.most;
    return status_success();
}

// The grid of a layer's outputs: expand_rule.grid of the next layer of this kind.
//
// errors   an extent that is smaller than the kernel even with padding
SPIRA_API status expand_out(const kernel_shape *kernel, const expand_rule *rule, expand_grid *out) {
    SPIRA_REQUIRE(out, status_null_pointer, "out", 0);
    expand_axes a;
    SPIRA_TRY(expand_axes_make(kernel, rule, &a));
    out->origin = triple_make(a.x.out_origin, a.y.out_origin, a.z.out_origin);
    out->extent = triple_make(a.x.out_extent, a.y.out_extent, a.z.out_extent);
    return status_success();
}

// Widens the bounds of one axis by the outputs that its voxels touch.
SPIRA_API status expand_need_axis(const expand_axis *a, int *lo, int *hi, int *reach) {
    int64_t step = (int64_t)a->dilation * a->spacing;
    int64_t low = *lo - (a->size - 1 - a->tap) * step, high = *hi + a->tap * step;
    if (a->out_extent) {
        low = max_of(low, a->out_origin);
        high = min_of(high, a->out_origin + (int64_t)(a->out_extent - 1) * a->ratio * a->spacing);
    }
    SPIRA_REQUIRE(low >= INT32_MIN && high <= INT32_MAX, status_bad_size, "need (bounds)", *hi);
    *lo = (int)min_of(*lo, low);
    *hi = (int)max_of(*hi, high);
    *reach = (int)max_of(*reach, kernel_reach_axis(a->size, a->dilation, a->spacing));
    return status_success();
}

// Widens what a network requires of the word layout by a layer. Call it once for each layer of this
// kind, in order.
//
// inputs   need: lo and hi: bounds of the layer's input; reach: of the layers so far
// outputs  need: lo and hi include the outputs; reach covers the kernel, for map_build
SPIRA_API status expand_need(const kernel_shape *kernel, const expand_rule *rule, word_need *need) {
    SPIRA_REQUIRE(need, status_null_pointer, "need", 0);
    expand_axes a;
    SPIRA_TRY(expand_axes_make(kernel, rule, &a));
    word_need wider = *need;
    SPIRA_TRY(expand_need_axis(&a.x, &wider.lo.x, &wider.hi.x, &wider.reach.x));
    SPIRA_TRY(expand_need_axis(&a.y, &wider.lo.y, &wider.hi.y, &wider.reach.y));
    SPIRA_TRY(expand_need_axis(&a.z, &wider.lo.z, &wider.hi.z, &wider.reach.z));
    *need = wider;
    return status_success();
}

// Divides by `by`. inverse: floor((2^32 - 1) / by). *rest: the remainder.
SPIRA_BOTH uint32_t expand_divide(uint32_t number, uint32_t by, uint32_t inverse, uint32_t *rest) {
    uint32_t quotient = (uint32_t)(((uint64_t)number * inverse) >> 32); // or one too few
    *rest = number - quotient * by;
    const bool more = *rest >= by;
    *rest -= more ? by : 0;
    return quotient + more;
}

// The same, rounded towards 0.
SPIRA_BOTH int expand_divide_signed(int number, int by, uint32_t inverse, int *rest) {
    uint32_t left;
    const int quotient =
        (int)expand_divide((uint32_t)(number < 0 ? -number : number), (uint32_t)by, inverse, &left);
    *rest = number < 0 ? -(int)left : (int)left;
    return number < 0 ? -quotient : quotient;
}

// ---- the outputs that one voxel touches ---------------------------------------------------------

// The outputs that a coordinate touches on one axis. Candidate m = 0, 1, ... is reached through tap
// number tap + m * period, if the kernel has so many taps.
struct expand_touch {
    int64_t coordinate; // of candidate 0
    int index;          // of candidate 0, on the output's grid
    int tap;            // of candidate 0; the kernel's size if there is none
};

// Returns 0, or what is wrong with the coordinate (device_flag bits): device_flag_lattice between
// the points of the input's grid, device_flag_range beyond its ends. It touches nothing then.
SPIRA_BOTH uint32_t expand_touch_find(const expand_axis *a, int coordinate, expand_touch *touch) {
    *touch = {0, 0, a->size};
    int64_t away = (int64_t)coordinate - a->origin;
    if (away < -voxel_index_max || away > voxel_index_max) {
        return device_flag_range;
    }
    int between, rest, tap = 0;
    const int in = expand_divide_signed((int)away, a->spacing, a->inverse_spacing, &between);
    if (between) {
        return device_flag_lattice;
    }
    if (a->extent && (in < 0 || in >= a->extent)) {
        return device_flag_range;
    }
    // Invariant: in + padding - tap * dilation = index * ratio + rest, with |rest| < ratio. Goes on
    // tap by tap until rest is 0.
    int index = expand_divide_signed(in + a->padding, a->ratio, a->inverse_ratio, &rest);
    while (rest != 0 && tap < a->period) {
        bool borrow = rest < a->part;
        rest += (borrow ? a->ratio : 0) - a->part;
        index -= a->whole + borrow;
        ++tap;
    }
    if (tap < a->period) {
        *touch = {coordinate + (int64_t)(a->tap - tap) * a->dilation * a->spacing, index, tap};
    }
    return 0;
}

enum expand_verdict { expand_absent, expand_present, expand_no_room };

// Candidate m of one axis and its coordinate. lo, hi: the layout's bounds.
SPIRA_BOTH expand_verdict expand_candidate(const expand_axis *a, const expand_touch *touch, int m,
                                           int lo, int hi, int *coordinate) {
    int index = touch->index - m * a->apart;
    if (touch->tap + m * a->period >= a->size ||
        (a->out_extent && (index < 0 || index >= a->out_extent))) {
        return expand_absent;
    }
    int64_t c = touch->coordinate - m * a->move;
    *coordinate = (int)c;
    return c >= lo && c <= hi ? expand_present : expand_no_room;
}

// The outputs that a voxel touches on each axis.
struct expand_touches {
    expand_touch x, y, z;
};

// Returns 0, or what is wrong with the voxel: see expand_touch_find; device_flag_range if it is of
// no batch. It touches nothing then.
SPIRA_BOTH uint32_t expand_touches_find(const word_layout *l, const expand_axes *axes, voxel v,
                                        expand_touches *touches) {
    uint32_t wrong = expand_touch_find(&axes->x, v.x, &touches->x);
    wrong |= expand_touch_find(&axes->y, v.y, &touches->y);
    wrong |= expand_touch_find(&axes->z, v.z, &touches->z);
    if (v.batch < 0 || v.batch >= l->batches) {
        touches->z.tap = axes->z.size;
        wrong |= device_flag_range;
    }
    return wrong;
}

// Writes the outputs that an input voxel touches to words[0], words[apart], ..., axes->most in all,
// with word_none() for those that do not exist. Returns 0, or what is wrong: see
// expand_touches_find; device_flag_range if an output is outside of the layout.
template <typename W>
SPIRA_BOTH uint32_t expand_voxel(const word_layout *l, const expand_axes *axes, W word, W *words,
                                 int64_t apart) {
    voxel v = word_unpack<W>(l, word);
    expand_touches t;
    uint32_t wrong = expand_touches_find(l, axes, v, &t);
    for (int i = 0; i < axes->x.most; ++i) {
        expand_verdict at_x = expand_candidate(&axes->x, &t.x, i, l->lo.x, l->hi.x, &v.x);
        for (int j = 0; j < axes->y.most; ++j) {
            expand_verdict at_y = expand_candidate(&axes->y, &t.y, j, l->lo.y, l->hi.y, &v.y);
            for (int k = 0; k < axes->z.most; ++k, words += apart) {
                expand_verdict at_z = expand_candidate(&axes->z, &t.z, k, l->lo.z, l->hi.z, &v.z);
                bool exists = at_x && at_y && at_z;
                bool fits =
                    at_x != expand_no_room && at_y != expand_no_room && at_z != expand_no_room;
                *words = exists && fits ? word_pack<W>(l, v) : word_none<W>();
                wrong |= exists && !fits ? (uint32_t)device_flag_range : 0u;
            }
        }
    }
    return wrong;
}

// ---- the host loop ------------------------------------------------------------------------------

enum { expand_levels_most = 6 }; // layers behind each other whose sets are made at the same time

// What `expand` reads and writes. in and out must not overlap.
template <typename W>
struct expand_args {
    const word_layout *layout;  // on the host; has room for the outputs (expand_need)
    const kernel_shape *kernel; // its stride is the spacing of `in`; transposed: see above
    const expand_rule *rule;    // ratio, padding and grid of the layer
    voxel_set<W> in;            // on the rule's grid
    voxel_set<W> out;       // on the grid of expand_out; map_build(kernel, in, out) is their map
    device_status *trouble; // in device memory; in host memory for expand_host
};

// The checks of expand and expand_host. Computes the axes.
template <typename W>
SPIRA_API status expand_check(const expand_args<W> *args, expand_axes *axes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(args->layout));
    SPIRA_TRY(expand_axes_make(args->kernel, args->rule, axes));
    SPIRA_TRY(voxel_set_check(&args->in));
    SPIRA_TRY(voxel_set_check(&args->out));
    return pointer_check(args->trouble, alignof(device_status), "trouble");
}

// The number of words that are written and sorted: as many as `capacity` inputs can touch.
SPIRA_API status expand_rows(const expand_axes *axes, int32_t capacity, int32_t *rows) {
    SPIRA_TRY(size_check(capacity, 1, INT64_MAX, "in.capacity"));
    int64_t all = (int64_t)capacity * axes->most;
    SPIRA_REQUIRE(all < INT32_MAX / 2, status_bad_size,
                  "in.capacity (too many outputs that the kernel could touch)", all);
    *rows = (int32_t)all;
    return status_success();
}

// Bytes of scratch for expand_host. Reads the kernel, the rule and in.capacity alone.
template <typename W>
SPIRA_API status expand_host_workspace(const expand_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    expand_axes axes;
    int32_t rows;
    SPIRA_TRY(expand_axes_make(args->kernel, args->rule, &axes));
    SPIRA_TRY(expand_rows(&axes, args->in.capacity, &rows));
    return workspace_measure_array<W>(rows, bytes);
}

// The host loop of `expand` (expand.cuh), on host memory.
template <typename W>
SPIRA_API status expand_host(const expand_args<W> *args, void *scratch, size_t scratch_bytes) {
    expand_axes axes;
    int32_t rows;
    W *words;
    SPIRA_TRY(expand_check(args, &axes));
    const voxel_set<W> &in = args->in;
    SPIRA_TRY(expand_rows(&axes, in.capacity, &rows));
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, rows, &words));
    const int64_t count = voxel_set_count(in);
    voxel_set_note(in, args->trouble);
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t wrong =
            expand_voxel(args->layout, &axes, in.words[i], words + i * axes.most, 1);
        for (device_flag flag : {device_flag_range, device_flag_lattice}) {
            if (wrong & (uint32_t)flag) {
                device_status_note(args->trouble, flag, (uint32_t)i);
            }
        }
    }
    voxel_set_sort(words, count * axes.most, args->out, args->trouble);
    return status_success();
}

} // namespace spira

#endif
