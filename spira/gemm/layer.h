// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/layer.h: a layer that is planned for gather, products and scatter: the request, and
// the plan as data. First file of the machinery of ../cublas.cuh.
#ifndef SPIRA_GEMM_LAYER_H
#define SPIRA_GEMM_LAYER_H

#include "../conv.h"
#include "../map.h"

#include <algorithm>

namespace spira {

// ---- which products are done together -----------------------------------------------------------
// Each offset that has pairs is one product: its gathered input rows times its weight. Small
// products do not fill a GPU. A batch computes several products of the same number of rows, so that
// shorter ones are padded. A rule trades padding for fewer calls.
//
//   each      one call for each offset, no padding
//   adaptive  batches neighbours in the order of the offsets, mirrored ones side by side where they
//             have as many pairs (TorchSparse paper, adaptive grouping)
//   sorted    batches neighbours in the order of their sizes (Minuet paper, padding-efficient
//             grouping)
//
// A rule needs only the sizes and runs on the host.

enum ggs_rule : int { ggs_rule_each, ggs_rule_adaptive, ggs_rule_sorted };

SPIRA_API const char *ggs_rule_name(ggs_rule rule) {
    static const char *const names[] = {"each", "adaptive", "sorted"};
    return rule >= ggs_rule_each && rule <= ggs_rule_sorted ? names[rule] : "?";
}

struct ggs_grouping {
    ggs_rule rule;
    double waste;          // epsilon: the fraction of a batch's rows that may be padding, 0 .. 1
    int32_t batched_below; // S: only products with fewer rows are batched
};

// Products of one call: one, or a batch.
struct ggs_group {
    int32_t first, count; // members: order[first] .. order[first + count - 1], ascending offsets
    int32_t rows;         // of each member in the buffers, padding included
};

struct ggs_groups {
    int32_t *order;    // [volume] the offsets that have pairs, group by group
    int32_t *row;      // [volume] where the rows of each offset start in the buffers
    ggs_group *group;  // [volume]
    int32_t count;     // groups
    int32_t products;  // offsets in order
    int64_t real_rows; // pairs
    int64_t rows;      // the same with padding
};

SPIRA_API status ggs_grouping_check(const ggs_grouping *g) {
    SPIRA_REQUIRE(g, status_null_pointer, "grouping", 0);
    SPIRA_REQUIRE(g->rule >= ggs_rule_each && g->rule <= ggs_rule_sorted, status_unsupported,
                  "grouping.rule", g->rule);
    SPIRA_REQUIRE(g->waste >= 0 && g->waste <= 1, status_bad_size, "grouping.waste (0 to 1)", 0);
    SPIRA_TRY(size_check(g->batched_below, 0, INT64_MAX, "grouping.batched_below"));
    return status_success();
}

// Writes the offsets that have pairs in the order in which a rule visits them.
SPIRA_API void ggs_group_order(ggs_rule rule, const int32_t *sizes, int volume, ggs_groups *out) {
    bool mirrored = rule == ggs_rule_adaptive;
    for (int k = 0; k < volume; ++k) {
        mirrored = mirrored && sizes[k] == sizes[volume - 1 - k];
    }
    for (int i = 0; i < volume; ++i) {
        int k = !mirrored ? i : i % 2 ? volume - 1 - i / 2 : i / 2;
        if (sizes[k] > 0) {
            out->order[out->products++] = k;
            out->real_rows += sizes[k];
        }
    }
    if (rule == ggs_rule_sorted) {
        std::sort(out->order, out->order + out->products, [sizes](int32_t a, int32_t b) {
            return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
        });
    }
}

// Makes a group of order[first .. end).
SPIRA_API void ggs_group_add(ggs_groups *out, int32_t first, int32_t end, int32_t rows) {
    std::sort(out->order + first, out->order + end);
    out->group[out->count++] = {first, end - first, rows};
    for (int32_t i = first; i < end; ++i) {
        out->row[out->order[i]] = (int32_t)out->rows;
        out->rows += rows;
    }
}

// Groups the products of a layer.
//
// inputs   grouping: the rule; sizes [volume]: the pairs of each offset; an offset with 0 is skipped
// outputs  out: the caller sets order, row and group [volume]; the rest is written. Every offset
//          with pairs is in exactly one group; row is 0 for the others
// errors   null pointers, sizes, a waste beyond 0 .. 1, more than 2^30 rows with padding
// A waste of 0 batches equal sizes only, 1 any sizes; batched_below = 0: no batches.
// cost     O(volume log volume)
SPIRA_API status ggs_group_offsets(const ggs_grouping *grouping, const int32_t *sizes, int volume,
                                   ggs_groups *out) {
    SPIRA_TRY(ggs_grouping_check(grouping));
    SPIRA_REQUIRE(sizes, status_null_pointer, "sizes", 0);
    SPIRA_TRY(size_check(volume, 1, kernel_volume_max, "volume"));
    SPIRA_REQUIRE(out && out->order && out->row && out->group, status_null_pointer, "groups", 0);
    for (int k = 0; k < volume; ++k) {
        SPIRA_TRY(size_check(sizes[k], 0, INT64_MAX, "sizes"));
    }
    const int32_t below = grouping->rule == ggs_rule_each ? 0 : grouping->batched_below;
    out->count = out->products = 0;
    out->rows = out->real_rows = 0;
    std::fill(out->row, out->row + volume, 0);
    ggs_group_order(grouping->rule, sizes, volume, out);
    for (int32_t first = 0, end; first < out->products; first = end) {
        int64_t most = 0, sum = 0; // `sum` of `most * count` rows are used
        for (end = first; end < out->products; ++end) {
            const int64_t size = sizes[out->order[end]], larger = max_of(most, size);
            const int64_t all = larger * (end + 1 - first);
            if (end > first && (double)(all - sum - size) > grouping->waste * (double)all) {
                break;
            }
            most = larger;
            sum += size;
        }
        if (most < below) {
            ggs_group_add(out, first, end, (int32_t)most);
            continue;
        }
        for (int32_t i = first; i < end; ++i) {
            ggs_group_add(out, i, i + 1, sizes[out->order[i]]);
        }
    }
    SPIRA_REQUIRE(out->rows <= INT32_MAX / 2, status_bad_size, "sizes (rows with padding)",
                  out->rows);
    return status_success();
}

// ---- the layer ----------------------------------------------------------------------------------

enum {
    ggs_threads = 256, // of a thread block
    ggs_chunk = 16,    // bytes that a thread moves at once
};

// The kernel map and the shape of a plan. A host struct, read during the call only; its arrays are
// in device memory.
struct ggs_request {
    conv_shape shape;
    map_lists pairs;      // of map_build_lists, all offsets in the lists
    int32_t inputs;       // capacity of the source set
    const int32_t *count; // [1] outputs, at most the capacity
    int32_t outputs;      // capacity of the output set
    ggs_grouping grouping;
};

SPIRA_API status ggs_request_check(const ggs_request *r) {
    SPIRA_REQUIRE(r, status_null_pointer, "request", 0);
    SPIRA_TRY(conv_shape_check(&r->shape));
    SPIRA_TRY(map_lists_check(&r->pairs));
    SPIRA_TRY(pointer_check(r->count, sizeof(int32_t), "count"));
    SPIRA_TRY(capacity_check(r->inputs, "inputs"));
    SPIRA_TRY(capacity_check(r->outputs, "outputs"));
    return ggs_grouping_check(&r->grouping);
}

// For each row of a side the rows of the buffers that belong to it, offsets ascending.
struct ggs_lists {
    int32_t *begin; // [rows + 1]
    int32_t *place; // [pairs]
};

// A planned layer: plain data that points into the host memory and the workspace of ggs_plan.
struct ggs_layer {
    conv_shape shape;
    int32_t inputs;  // capacity of the source set
    int32_t outputs; // number of them
    int32_t pairs;
    ggs_groups groups;  // on the host
    int32_t *row_of;    // device: [volume] groups.row
    int32_t *offset_of; // device: [volume] groups.order
    ggs_lists in;       // device: where each input row is copied to
    ggs_lists out;      // device: the products of each output
    size_t kept_bytes;  // of the plan's workspace; the rest is free after ggs_plan
};

// Channels of a source in a gathered row: padded to whole chunks.
SPIRA_BOTH int ggs_channels(int channels, numeric type) {
    return (int)round_up(channels, ggs_chunk / numeric_size(type));
}

SPIRA_BOTH int ggs_shape_channels(const conv_shape *s) {
    return ggs_channels(s->cin, s->type) + ggs_channels(s->cin2, s->type);
}

// Groups the products: everything that follows from the sizes of the lists.
//
// host  begin [volume + 1] and the number of outputs; behind them, row [volume], order [volume],
//       sizes [volume] and group [volume] are written
SPIRA_API status ggs_plan_groups(const ggs_request *r, int32_t *host, ggs_layer *l) {
    const int volume = r->shape.volume;
    const int32_t *begin = host;
    int32_t *row = host + volume + 2, *order = row + volume, *sizes = order + volume;
    bool ascend = begin[0] == 0 && begin[volume] <= r->pairs.capacity;
    for (int k = 0; k < volume; ++k) {
        ascend = ascend && begin[k] <= begin[k + 1];
        sizes[k] = ascend ? begin[k + 1] - begin[k] : 0;
        order[k] = 0; // the whole table is copied
    }
    SPIRA_REQUIRE(ascend, status_bad_size, "pairs.begin (does not ascend)", begin[volume]);
    l->shape = r->shape;
    l->inputs = r->inputs;
    l->outputs = count_clamp(host[volume + 1], r->outputs);
    l->pairs = begin[volume];
    l->groups.row = row;
    l->groups.order = order;
    l->groups.group = (ggs_group *)(sizes + volume);
    return ggs_group_offsets(&r->grouping, sizes, volume, &l->groups);
}

} // namespace spira

#endif
