// spira/layout/order/layout.h: the arrays of an ordered layout, its sizes and its checks; the
// request from which it is built. layout/order.h explains the layout.
#ifndef SPIRA_LAYOUT_ORDER_LAYOUT_H
#define SPIRA_LAYOUT_ORDER_LAYOUT_H

#include "../../index/compact.h"
#include "../../offset.h"
#include "../../workspace.h"

namespace spira {

enum {
    order_rows = 64,      // outputs of a row group
    order_word_bits = 32, // offsets of a word of a row group's mask
    order_scope = 4096,   // group pairs that the schedule sorts together
};

struct order_layout {
    int32_t *row;      // [groups, order_rows]
    uint32_t *mask;    // [groups, order_words(volume)]
    int32_t *source;   // [groups, volume, order_rows]
    int32_t *schedule; // [order_pairs(groups)]
    int32_t groups;    // row groups: order_count(capacity)
    int32_t volume;    // columns of the map
};

// A kernel map in device memory, and the layout to build from it (order_build, layout/order.cuh).
struct order_request {
    kernel_shape kernel;
    int threshold;        // the map's columns: offsets with a norm below it; map_all (map.h): all
    const int32_t *map;   // [capacity, columns]; not read where `compact` is given
    const int32_t *count; // [1] rows of the map
    int32_t capacity;
    order_layout layout;
    const int32_t *compact; // null, or the map in its compact form (index/compact.h):
                            // [size.x, capacity, slab_record_words]
};

// Returns the row groups for a capacity of outputs.
SPIRA_BOTH int32_t order_count(int32_t capacity) {
    return (int32_t)ceil_div(capacity, order_rows);
}

// Returns the pairs of neighbouring row groups; the last pair may have one group only.
SPIRA_BOTH int32_t order_pairs(int32_t groups) {
    return (groups + 1) / 2;
}

// Returns the words of a row group's mask.
SPIRA_BOTH int order_words(int volume) {
    return (volume + order_word_bits - 1) / order_word_bits;
}

// Returns the index in `source` of the first source of column k of a row group.
SPIRA_BOTH int64_t order_begin(const order_layout *t, int64_t group, int k) {
    return (group * t->volume + k) * order_rows;
}

// Carves an ordered layout out of the caller's memory (or counts its bytes: workspace.h).
SPIRA_API order_layout order_layout_take(workspace *w, int32_t capacity, int32_t volume) {
    order_layout t;
    t.groups = order_count(capacity);
    t.volume = volume;
    t.row = workspace_take<int32_t>(w, (int64_t)t.groups * order_rows);
    t.mask = workspace_take<uint32_t>(w, (int64_t)t.groups * order_words(volume));
    t.source = workspace_take<int32_t>(w, order_begin(&t, t.groups, 0));
    t.schedule = workspace_take<int32_t>(w, order_pairs(t.groups));
    return t;
}

// ---- checks -------------------------------------------------------------------------------------

SPIRA_API status order_layout_check(const order_layout *t, int volume, int32_t capacity) {
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_TRY(pointer_check(t->row, sizeof *t->row, "layout"));
    SPIRA_TRY(pointer_check(t->mask, sizeof *t->mask, "layout"));
    SPIRA_TRY(pointer_check(t->source, sizeof *t->source, "layout"));
    SPIRA_TRY(pointer_check(t->schedule, sizeof *t->schedule, "layout"));
    SPIRA_REQUIRE(t->volume == volume, status_bad_size, "layout.volume", t->volume);
    SPIRA_REQUIRE(t->groups >= order_count(capacity), status_capacity, "layout.groups",
                  order_count(capacity));
    return status_success();
}

SPIRA_API status order_capacity_check(int32_t capacity) {
    SPIRA_REQUIRE(capacity >= 1 && capacity <= INT32_MAX / 2, status_bad_size, "capacity",
                  capacity);
    return status_success();
}

SPIRA_API status order_sizes_check(const kernel_shape *kernel, int32_t capacity) {
    SPIRA_TRY(kernel_check(kernel));
    return order_capacity_check(capacity);
}

// The checks that host and device share. The map has been checked.
SPIRA_API status order_check(const kernel_shape *kernel, int threshold, int32_t capacity,
                             const order_layout *t) {
    SPIRA_TRY(order_sizes_check(kernel, capacity));
    SPIRA_REQUIRE(threshold >= 1, status_bad_size, "threshold", threshold);
    return order_layout_check(t, kernel_norm_count(kernel, threshold, kernel_volume(kernel)),
                              capacity);
}

SPIRA_API status order_slots_check(const order_layout *t, int32_t capacity, const int64_t *slots) {
    SPIRA_REQUIRE(t, status_null_pointer, "layout", 0);
    SPIRA_TRY(order_capacity_check(capacity));
    SPIRA_TRY(order_layout_check(t, t->volume, capacity));
    SPIRA_REQUIRE(t->volume >= 1 && t->volume <= kernel_volume_max, status_bad_size,
                  "layout.volume", t->volume);
    return pointer_check(slots, sizeof *slots, "slots");
}

} // namespace spira

#endif
