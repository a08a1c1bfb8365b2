// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order.h: the ordered layout of a kernel map, and the host loop that builds it.
//
// An ordered layout is a kernel map with its outputs sorted: outputs with similar taps (offsets
// that have a source) stand together, in row groups of 64. Then a row group has few offsets, and
// few of its outputs lack one of them. A dense matrix product over a row group multiplies few
// missing rows, and its sums stay in registers. All convolutions read this layout.
//
//   row      [groups, 64]          the output at each position, -1 past the last output
//   mask     [groups, words]       bit k % 32 of word k / 32: some output of the group has offset k
//   source   [groups, volume, 64]  the source row of each position, -1: none
//   schedule [pairs]               the pairs of neighbouring row groups, heavy ones first
//
// `source` is written for the offsets in the mask only, `schedule` for the pairs that have outputs
// only. The map may have the columns of a threshold (map_forms.os): the offsets with an L1 norm
// below it, ascending. Then `volume` is the number of columns, and k is a column.
//
// The order. Each output has a key, which tells in which large parts of the kernel the output has
// taps (order/key.h). A full sort by key is not needed: row groups have nearly as few offsets if
//   1. a table divides the keys into up to 1024 classes (order/key.h),
//   2. outputs are sorted by class, those of a class by row,
//   3. each run of 1024 positions is then sorted by key, equal keys by row.
// Each step fits one thread block.
//
// The schedule balances the load of workers that take group pairs in its order: each gets about
// the same work. A pair weighs the share of the kernel's offsets that lie in the directions, and on
// the levels, of its taps (order_weights). Pairs are sorted by weight, heavy ones first, equal
// weights by number; scopes of 4096 pairs are sorted separately.
#ifndef SPIRA_ORDER_H
#define SPIRA_ORDER_H

#include "index/compact.h"
#include "offset.h"
#include "order/key.h"
#include "order/table.h"
#include "workspace.h"

#include <algorithm>

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

// A kernel map, and the layout to build from it.
struct order_request {
    kernel_shape kernel;
    int threshold;          // the map's columns: offsets with a norm below it; 0: all offsets
    const int32_t *map;     // [capacity, columns]
    const int32_t *compact; // or, instead, its compact form (index/compact.h), on the GPU only:
                            // [compact_numbers]
    const int32_t *count;   // [1] rows of the map
    int32_t capacity;       // of the map and of the layout
    order_layout layout;
    bool programmatic; // of the first of a batch: see order_build
};

// The same with a threshold in any case: above all norms if there is none.
SPIRA_BOTH order_request order_request_whole(const order_request *r) {
    order_request whole = *r;
    whole.threshold = r->threshold ? r->threshold : INT32_MAX;
    return whole;
}

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
    SPIRA_TRY(size_check(t->volume, volume, volume, "layout.volume"));
    SPIRA_REQUIRE(t->groups >= order_count(capacity), status_bad_size,
                  "layout.groups (fewer than the capacity has)", t->groups);
    return status_success();
}

SPIRA_API status order_sizes_check(const kernel_shape *kernel, int32_t capacity) {
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_TRY(capacity_check(capacity, "capacity"));
    return status_success();
}

// Checks a request. A compact map has all offsets.
SPIRA_API status order_request_check(const order_request *r) {
    SPIRA_TRY(order_sizes_check(&r->kernel, r->capacity));
    SPIRA_TRY(size_check(r->threshold, 0, INT64_MAX, "threshold"));
    const int volume = kernel_volume(&r->kernel);
    const int threshold = order_request_whole(r).threshold;
    const int columns = kernel_norm_count(&r->kernel, threshold, volume);
    SPIRA_TRY(order_layout_check(&r->layout, columns, r->capacity));
    SPIRA_TRY(pointer_check(r->count, sizeof *r->count, "count"));
    if (!r->compact) {
        return pointer_check(r->map, sizeof *r->map, "map");
    }
    SPIRA_REQUIRE(!r->map, status_unsupported, "map (beside its compact form)", 0);
    SPIRA_REQUIRE(compact_has(&r->kernel) && columns == volume, status_unsupported,
                  "compact (of such a map)", 0);
    return pointer_check(r->compact, compact_alignment, "compact");
}

// ---- the host loop ------------------------------------------------------------------------------
//
// In steps, which the kernels follow: keys, classes, runs, row groups, schedule.

struct order_host {
    order_request request; // of order_request_whole
    order_weights weights;
    int32_t count;
    uint32_t *keys;  // [capacity]; then the weights of the group pairs
    uint64_t *order; // [capacity] key << 32 | row
};

SPIRA_API order_host order_host_carve(workspace *w, int32_t capacity) {
    order_host h = {};
    h.keys = workspace_take<uint32_t>(w, capacity);
    h.order = workspace_take<uint64_t>(w, capacity);
    return h;
}

// Finds the keys of the rows.
SPIRA_API void order_keys_host(const order_host *h) {
    const order_request *r = &h->request;
    const order_numbers numbers = order_numbers_make();
    uint32_t bits[kernel_volume_max]; // of each column
    int columns = 0;
    for (int k = 0; k < kernel_volume(&r->kernel); ++k) {
        if (kernel_norm(&r->kernel, k) < r->threshold) {
            bits[columns++] = order_bits_at(h->weights, &r->kernel, numbers, k);
        }
    }
    for (int32_t i = 0; i < h->count; ++i) {
        uint32_t number = 0;
        for (int c = 0; c < columns; ++c) {
            number |= r->map[(int64_t)i * columns + c] >= 0 ? bits[c] : 0;
        }
        h->keys[i] = order_gray_rank(number);
    }
}

// Returns the class of a key.
SPIRA_API int order_class_host(const order_host *h, uint32_t key) {
    const uint32_t *table = order_table(h->weights.keys);
    return h->weights.keys == order_by_few
               ? (int)key
               : (int)(std::upper_bound(table + 1, table + order_classes, key) - (table + 1));
}

// Sorts the rows by class and number; then each run by key and number.
SPIRA_API void order_sort_host(const order_host *h) {
    for (int32_t i = 0; i < h->count; ++i) {
        h->order[i] = (uint64_t)order_class_host(h, h->keys[i]) << 32 | (uint32_t)i;
    }
    std::sort(h->order, h->order + h->count);
    SPIRA_PARALLEL_FOR
    for (int32_t first = 0; first < h->count; first += order_run) {
        uint64_t *end = h->order + min_of(first + order_run, h->count);
        for (uint64_t *at = h->order + first; at < end; ++at) {
            const uint32_t row = (uint32_t)*at;
            *at = (uint64_t)h->keys[row] << 32 | row;
        }
        std::sort(h->order + first, end);
    }
}

// Writes one row group of the layout, but for the schedule.
SPIRA_API void order_put_host(const order_host *h, int64_t group) {
    const order_layout *t = &h->request.layout;
    int32_t *row = t->row + group * order_rows;
    uint32_t *mask = t->mask + group * order_words(t->volume);
    for (int p = 0; p < order_rows; ++p) {
        int64_t at = group * order_rows + p;
        row[p] = at < h->count ? (int32_t)(uint32_t)h->order[at] : -1;
    }
    std::fill(mask, mask + order_words(t->volume), 0u);
    for (int k = 0; k < t->volume; ++k) {
        int32_t taps[order_rows];
        bool any = false;
        for (int p = 0; p < order_rows; ++p) {
            taps[p] = row[p] < 0 ? -1 : h->request.map[(int64_t)row[p] * t->volume + k];
            any |= taps[p] >= 0;
        }
        if (any) {
            mask[k / order_word_bits] |= 1u << k % order_word_bits;
            std::copy(taps, taps + order_rows, t->source + order_begin(t, group, k));
        }
    }
}

// Returns the weight of a group pair.
SPIRA_API uint32_t order_weigh_host(const order_host *h, int32_t pair) {
    const int32_t first = pair * 2 * order_rows, end = first + 2 * order_rows;
    uint32_t number = 0, weight = 0;
    for (int32_t i = first; i < end && i < h->count; ++i) {
        number |= order_gray_number((uint32_t)(h->order[i] >> 32));
    }
    for (int d = 0; d < order_directions; ++d) {
        weight += (uint32_t)order_weight_of(h->weights.weight[d], order_bits_of(h->weights, d),
                                            order_level_bits_of(h->weights, d), number);
    }
    return weight;
}

// Writes the schedule. The keys are overwritten.
SPIRA_API void order_schedule_host(const order_host *h) {
    const order_request *r = &h->request;
    const int32_t pairs = order_pairs(order_count(h->count));
    uint32_t *weight = h->keys;
    for (int32_t pair = 0; pair < pairs; ++pair) {
        weight[pair] = order_weigh_host(h, pair);
        r->layout.schedule[pair] = pair;
    }
    for (int32_t first = 0; first < pairs; first += order_scope) {
        int32_t *begin = r->layout.schedule + first;
        std::sort(begin, begin + min_of(pairs - first, order_scope), [=](int32_t a, int32_t b) {
            return weight[a] != weight[b] ? weight[a] > weight[b] : a < b;
        });
    }
}

// Bytes of scratch for order_build_host.
SPIRA_API status order_host_workspace(int32_t capacity, size_t *bytes) {
    SPIRA_TRY(capacity_check(capacity, "capacity"));
    return workspace_measure(bytes, [&](workspace *w) { order_host_carve(w, capacity); });
}

// Builds the ordered layout of a kernel map on the host. `order_build` (order.cuh) gives the same
// bytes.
//
// inputs   request: with a map, in host memory; its compact form is not read
// outputs  request->layout: all row groups of the capacity; those past the count have rows of -1 and
//          no offsets
// Deterministic.
SPIRA_API status order_build_host(const order_request *request, void *scratch,
                                  size_t scratch_bytes) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(!request->compact, status_unsupported, "compact (on the host)", 0);
    SPIRA_TRY(order_request_check(request));
    order_host h;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { h = order_host_carve(w, request->capacity); }));
    h.request = order_request_whole(request);
    h.weights = order_weights_make(&request->kernel, h.request.threshold);
    h.count = count_clamp(*request->count, request->capacity);
    order_keys_host(&h);
    order_sort_host(&h);
    SPIRA_PARALLEL_FOR
    for (int32_t group = 0; group < order_count(request->capacity); ++group) {
        order_put_host(&h, group);
    }
    order_schedule_host(&h);
    return status_success();
}

} // namespace spira

#endif
