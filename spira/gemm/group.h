// spira/gemm/group.h: which products of a gather-GEMM-scatter convolution are done together.
//
// Each offset that has pairs is one product: its gathered input rows times its weight. Small
// products do not fill a GPU. A batched call computes several products of the same number of rows,
// so that shorter ones are padded. A rule trades padding for fewer calls.
//
//   each      one call for each offset, no padding
//   adaptive  batches neighbours in the order of the offsets (TorchSparse paper, adaptive grouping)
//   sorted    batches neighbours in the order of their sizes (Minuet paper, padding-efficient
//             grouping)
//   grouped   one call for products of different sizes, no padding
//
// A rule needs only the sizes and runs on the host. For ../cublas.cuh, which alone includes it.
#ifndef SPIRA_GEMM_GROUP_H
#define SPIRA_GEMM_GROUP_H

#include "../base/integer.h"
#include "../offset.h"
#include "../status.h"

#include <algorithm>

namespace spira {

enum ggs_rule : int { ggs_rule_each, ggs_rule_adaptive, ggs_rule_sorted, ggs_rule_grouped };

SPIRA_API const char *ggs_rule_name(ggs_rule rule) {
    static const char *const names[] = {"each", "adaptive", "sorted", "grouped"};
    return rule >= ggs_rule_each && rule <= ggs_rule_grouped ? names[rule] : "?";
}

struct ggs_grouping {
    ggs_rule rule;
    double waste;  // epsilon: the fraction of a batch's rows that may be padding, 0 .. 1
    int32_t small; // S: only products with fewer rows are batched
    bool mirrored; // adaptive: orders offset k next to volume - 1 - k, which has as many pairs in a
                   // submanifold layer
};

enum ggs_kind : int32_t {
    ggs_kind_one,     // one product
    ggs_kind_batch,   // products padded to the same number of rows
    ggs_kind_grouped, // products of different numbers of rows
    ggs_kind_direct,  // one product whose rows are not gathered
};

// Products of one call.
struct ggs_group {
    int32_t first, count; // members: order[first] .. order[first + count - 1], ascending offsets
    int32_t rows;         // of each member in the buffers, padding included; grouped: 0, see sizes
    ggs_kind kind;
};

struct ggs_groups {
    int32_t *order;    // [volume] the offsets that have pairs, group by group
    ggs_group *group;  // [volume]
    int32_t count;     // groups
    int32_t products;  // offsets in order
    int64_t real_rows; // pairs
    int64_t rows;      // the same with padding
};

SPIRA_API status ggs_grouping_check(const ggs_grouping *g) {
    SPIRA_REQUIRE(g, status_null_pointer, "grouping", 0);
    SPIRA_REQUIRE(g->rule >= ggs_rule_each && g->rule <= ggs_rule_grouped, status_unsupported,
                  "grouping.rule", g->rule);
    SPIRA_REQUIRE(g->waste >= 0 && g->waste <= 1, status_bad_size, "grouping.waste", 0);
    SPIRA_REQUIRE(g->small >= 0, status_bad_size, "grouping.small", g->small);
    return status_success();
}

SPIRA_API status ggs_sizes_check(const ggs_grouping *g, const int32_t *sizes, int volume) {
    SPIRA_REQUIRE(sizes, status_null_pointer, "sizes", 0);
    SPIRA_REQUIRE(volume >= 1 && volume <= kernel_volume_max, status_bad_size, "volume", volume);
    bool mirrored = g->mirrored && g->rule == ggs_rule_adaptive;
    for (int k = 0; k < volume; ++k) {
        SPIRA_REQUIRE(sizes[k] >= 0, status_bad_size, "sizes", sizes[k]);
        SPIRA_REQUIRE(!mirrored || sizes[k] == sizes[volume - 1 - k], status_bad_size,
                      "sizes (of mirrored offsets)", sizes[k]);
    }
    return status_success();
}

// Writes the offsets that have pairs in the order in which a rule visits them. Returns their
// number.
SPIRA_API int32_t ggs_group_order(const ggs_grouping *g, const int32_t *sizes, int volume,
                                  int32_t *order) {
    bool mirrored = g->mirrored && g->rule == ggs_rule_adaptive;
    int32_t count = 0;
    for (int i = 0; i < volume; ++i) {
        int k = !mirrored ? i : i % 2 ? volume - 1 - i / 2 : i / 2;
        if (sizes[k] > 0) {
            order[count++] = k;
        }
    }
    if (g->rule == ggs_rule_sorted) {
        std::sort(order, order + count, [sizes](int32_t a, int32_t b) {
            return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
        });
    }
    return count;
}

SPIRA_API void ggs_group_add(ggs_groups *out, int32_t first, int32_t count, int32_t rows,
                             ggs_kind kind) {
    out->group[out->count++] = {first, count, rows, kind};
}

// Makes a batch of order[first .. end), or single products if they are not small or only one.
SPIRA_API void ggs_group_close(const ggs_grouping *g, const int32_t *sizes, int32_t first,
                               int32_t end, int32_t most, ggs_groups *out) {
    if (end - first > 1 && most < g->small) {
        std::sort(out->order + first, out->order + end); // equidistant weights, where possible
        ggs_group_add(out, first, end - first, most, ggs_kind_batch);
        out->rows += (int64_t)most * (end - first);
        return;
    }
    for (int32_t i = first; i < end; ++i) {
        int32_t rows = sizes[out->order[i]];
        ggs_group_add(out, i, 1, rows, ggs_kind_one);
        out->rows += rows;
    }
}

// Batches neighbours of the order while the waste allows: `sum` of `most * count` rows are used.
SPIRA_API void ggs_group_neighbours(const ggs_grouping *g, const int32_t *sizes, ggs_groups *out) {
    int32_t first = 0, most = 0;
    int64_t sum = 0;
    for (int32_t i = 0; i < out->products; ++i) {
        int32_t size = sizes[out->order[i]];
        int64_t all = max_of(most, size) * (i + 1 - first);
        if (i > first && (double)(all - sum - size) > g->waste * (double)all) {
            ggs_group_close(g, sizes, first, i, most, out);
            first = i;
            most = 0;
            sum = 0;
        }
        most = (int32_t)max_of(most, size);
        sum += size;
    }
    ggs_group_close(g, sizes, first, out->products, most, out);
}

// Groups the products of a layer.
//
// inputs   grouping: the rule; sizes [volume]: the pairs of each offset; an offset with 0 is skipped
// outputs  out: the caller sets order [volume] and group [volume]; the rest is written. Every offset
//          with pairs is in exactly one group
// errors   null pointers, sizes, a waste beyond 0 .. 1, mirrored offsets of different sizes, more
//          than 2^30 rows with padding
// A waste of 0 batches equal sizes only, 1 any sizes; small = 0: no batches.
// cost     O(volume log volume)
SPIRA_API status ggs_group_offsets(const ggs_grouping *grouping, const int32_t *sizes, int volume,
                                   ggs_groups *out) {
    SPIRA_TRY(ggs_grouping_check(grouping));
    SPIRA_TRY(ggs_sizes_check(grouping, sizes, volume));
    SPIRA_REQUIRE(out && out->order && out->group, status_null_pointer, "groups", 0);
    ggs_grouping g = *grouping;
    out->count = 0;
    out->rows = out->real_rows = 0;
    out->products = ggs_group_order(&g, sizes, volume, out->order);
    for (int32_t i = 0; i < out->products; ++i) {
        out->real_rows += sizes[out->order[i]];
    }
    if (g.rule == ggs_rule_grouped && out->products > 1) {
        ggs_group_add(out, 0, out->products, 0, ggs_kind_grouped);
        out->rows = out->real_rows;
    } else {
        bool alone = g.rule == ggs_rule_each || g.rule == ggs_rule_grouped;
        g.small = alone ? 0 : g.small;
        ggs_group_neighbours(&g, sizes, out);
    }
    SPIRA_REQUIRE(out->rows <= INT32_MAX / 2, status_bad_size, "sizes (rows with padding)",
                  out->rows);
    return status_success();
}

// Appends a product whose rows are those of the input: it is not gathered.
SPIRA_API void ggs_group_direct(ggs_groups *out, int k, int32_t rows) {
    out->order[out->products] = k;
    ggs_group_add(out, out->products++, 1, rows, ggs_kind_direct);
    out->rows += rows;
    out->real_rows += rows;
}

// Rows of a member of a group in the buffers, padding included.
SPIRA_BOTH int32_t ggs_group_rows(const ggs_group *g, int32_t size) {
    return g->kind == ggs_kind_grouped ? size : g->rows;
}

// row [volume]: where the rows of each offset start in the buffers; 0 for offsets without pairs.
SPIRA_API void ggs_group_place(const ggs_groups *g, const int32_t *sizes, int volume,
                               int32_t *row) {
    int32_t at = 0;
    std::fill(row, row + volume, 0);
    for (int32_t i = 0; i < g->count; ++i) {
        const ggs_group *group = g->group + i;
        for (int32_t m = group->first; m < group->first + group->count; ++m) {
            row[g->order[m]] = at;
            at += ggs_group_rows(group, sizes[g->order[m]]);
        }
    }
}

// Rows with padding over rows without; 1 if there are none.
SPIRA_API double ggs_padding_ratio(const ggs_groups *g) {
    return g->real_rows ? (double)g->rows / (double)g->real_rows : 1.0;
}

} // namespace spira

#endif
