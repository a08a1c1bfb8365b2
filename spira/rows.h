// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/rows.h: operations on rows of features that need no coordinates.
//
// row_gather: out row i is in row source[i], as `prune` and `subdivide` write their sources. With
// `repeat`, each channel is written that many times in a row (the skip of a channel-to-space step).
// row_gather_grad: its gradient, where no two rows have the same source.
// row_blend: out row i is a weighted sum of up to eight rows, as interpolate_find writes them.
// row_splat: the other way, from points to voxels: each row is the weighted sum of the rows that
// name it, which row_lists lists. Each of both is the other's gradient.
#ifndef SPIRA_ROWS_H
#define SPIRA_ROWS_H

#include "base/integer.h"
#include "numeric.h"
#include "status.h"

#include <math.h>

namespace spira {

// What `row_gather` reads and writes. in and out must not overlap.
struct row_gather_args {
    const void *in;        // [in_rows, channels] in `type`, aligned to its element
    int64_t in_rows;       // >= 1; subdivide: 8 rows a voxel
    int channels;          // >= 1, of `in`
    int repeat;            // 0 and 1: once
    numeric type;          // of both
    const int32_t *source; // [count]; zeros where it is no row of `in`
    const int32_t *count;  // [1]
    int32_t capacity;      // of source and out
    void *out;             // [count, channels * repeat]
};

// The same, backwards: what `row_gather_grad` reads and writes.
struct row_gather_grad_args {
    const void *out_grad;  // [count, channels * repeat] in `type`, aligned to its element
    int64_t in_rows;       // as row_gather had them, and so are the others:
    int channels;          //
    int repeat;            //
    numeric type;          // of both
    const int32_t *source; // [count] no two alike, as prune and subdivide write them
    const int32_t *count;  // [1]
    int32_t capacity;      // of source and out_grad
    void *in_grad;         // [in_rows, channels]
};

// A: row_gather_args or row_gather_grad_args
template <typename A>
SPIRA_BOTH int row_gather_repeat(const A *a) {
    return a->repeat ? a->repeat : 1;
}

// The checks that both make but for their features.
template <typename A>
SPIRA_API status row_gather_sizes_check(const A *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_TRY(size_check(a->in_rows, 1, INT64_MAX, "in_rows"));
    SPIRA_TRY(size_check(a->channels, 1, INT64_MAX, "channels"));
    SPIRA_REQUIRE(a->repeat >= 0 && (int64_t)a->channels * a->repeat <= INT32_MAX, status_bad_size,
                  "repeat", a->repeat);
    SPIRA_TRY(size_check(a->capacity, 1, INT64_MAX, "capacity"));
    SPIRA_TRY(pointer_check(a->source, alignof(int32_t), "source"));
    return pointer_check(a->count, alignof(int32_t), "count");
}

// The checks of row_gather and row_gather_host.
SPIRA_API status row_gather_check(const row_gather_args *a) {
    SPIRA_TRY(row_gather_sizes_check(a));
    SPIRA_TRY(pointer_check(a->in, (size_t)numeric_size(a->type), "in"));
    SPIRA_TRY(pointer_check(a->out, (size_t)numeric_size(a->type), "out"));
    SPIRA_REQUIRE(a->out != a->in, status_unsupported, "out (overlaps in)", 0);
    return status_success();
}

// The checks of row_gather_grad and row_gather_grad_host.
SPIRA_API status row_gather_grad_check(const row_gather_grad_args *a) {
    SPIRA_TRY(row_gather_sizes_check(a));
    SPIRA_TRY(pointer_check(a->out_grad, (size_t)numeric_size(a->type), "out_grad"));
    SPIRA_TRY(pointer_check(a->in_grad, (size_t)numeric_size(a->type), "in_grad"));
    SPIRA_REQUIRE(a->in_grad != a->out_grad, status_unsupported, "in_grad (overlaps out_grad)", 0);
    return status_success();
}

SPIRA_API size_t row_gather_grad_bytes(const row_gather_grad_args *a) {
    return (size_t)a->in_rows * (size_t)a->channels * (size_t)numeric_size(a->type);
}

// The host loop of `row_gather` (rows.cuh), on host memory.
SPIRA_API status row_gather_host(const row_gather_args *a) {
    SPIRA_TRY(row_gather_check(a));
    const int repeat = row_gather_repeat(a), size = numeric_size(a->type);
    for (int32_t i = 0; i < count_clamp(*a->count, a->capacity); ++i) {
        const int64_t from = a->source[i];
        char *out = (char *)a->out + (int64_t)i * a->channels * repeat * size;
        for (int64_t c = 0; c < (int64_t)a->channels * repeat; ++c) {
            const char *in = (const char *)a->in + (from * a->channels + c / repeat) * size;
            if (from >= 0 && from < a->in_rows) {
                memcpy(out + c * size, in, (size_t)size);
            } else {
                memset(out + c * size, 0, (size_t)size);
            }
        }
    }
    return status_success();
}

// The host loop of `row_gather_grad` (rows.cuh), on host memory.
SPIRA_API status row_gather_grad_host(const row_gather_grad_args *a) {
    SPIRA_TRY(row_gather_grad_check(a));
    const int repeat = row_gather_repeat(a);
    memset(a->in_grad, 0, row_gather_grad_bytes(a));
    for (int32_t i = 0; i < count_clamp(*a->count, a->capacity); ++i) {
        const int64_t to = a->source[i];
        for (int c = 0; c < a->channels && to >= 0 && to < a->in_rows; ++c) {
            const int64_t first = ((int64_t)i * a->channels + c) * repeat;
            float sum = numeric_load(a->type, a->out_grad, first);
            for (int n = 1; n < repeat; ++n) {
                sum += numeric_load(a->type, a->out_grad, first + n);
            }
            numeric_store(a->type, a->in_grad, to * a->channels + c, sum);
        }
    }
    return status_success();
}

// What `row_blend` reads and writes. in and out must not overlap.
struct row_blend_args {
    const void *in;       // [in_rows, channels] in `type`, aligned to its element
    int64_t in_rows;      // >= 1
    int channels;         // >= 1
    numeric type;         // of both
    int neighbours;       // 1 .. 8 rows for each row of `out`
    const int32_t *index; // [count, neighbours]; left out where it is no row of `in`
    const float *weight;  // [count, neighbours]
    const int32_t *count; // [1]
    int32_t capacity;     // of index, weight and out
    void *out;            // [count, channels]
};

// The checks of row_blend and row_blend_host.
SPIRA_API status row_blend_check(const row_blend_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    const row_gather_args same = {a->in,    a->in_rows, a->channels, 0,     a->type,
                                  a->index, a->count,   a->capacity, a->out};
    SPIRA_TRY(row_gather_check(&same));
    SPIRA_REQUIRE(a->neighbours >= 1 && a->neighbours <= 8, status_bad_size, "neighbours (1 to 8)",
                  a->neighbours);
    return pointer_check(a->weight, alignof(float), "weight");
}

// The host loop of `row_blend` (rows.cuh), on host memory: sums in fp32, in the order of the rows,
// each product added with one rounding.
SPIRA_API status row_blend_host(const row_blend_args *a) {
    SPIRA_TRY(row_blend_check(a));
    for (int32_t i = 0; i < count_clamp(*a->count, a->capacity); ++i) {
        for (int c = 0; c < a->channels; ++c) {
            float sum = 0;
            for (int64_t n = (int64_t)i * a->neighbours; n < ((int64_t)i + 1) * a->neighbours;
                 ++n) {
                const int64_t row = a->index[n];
                if (row >= 0 && row < a->in_rows) {
                    sum = fmaf(a->weight[n], numeric_load(a->type, a->in, row * a->channels + c),
                               sum);
                }
            }
            numeric_store(a->type, a->out, (int64_t)i * a->channels + c, sum);
        }
    }
    return status_success();
}

// What `row_lists` reads and writes: for each row the entries of an index that name it. Nothing may
// overlap.
struct row_lists_args {
    const int32_t *index; // [count, neighbours]; in no list where it is no row
    int neighbours;       // 1 .. 8
    const int32_t *count; // [1]
    int32_t capacity;     // of index
    int32_t rows;         // lists
    int32_t *begin;       // [rows + 1] where each list starts in `order`
    int32_t *order;       // [capacity * neighbours] entries, list by list, ascending within one
};

// The checks of row_lists and row_lists_host.
SPIRA_API status row_lists_check(const row_lists_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(pointer_check(a->index, alignof(int32_t), "index"));
    SPIRA_TRY(size_check(a->neighbours, 1, 8, "neighbours"));
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    SPIRA_TRY(size_check(a->capacity, 1, INT32_MAX / 2 / a->neighbours, "capacity"));
    SPIRA_TRY(size_check(a->rows, 1, INT32_MAX / 2, "rows"));
    SPIRA_TRY(pointer_check(a->begin, alignof(int32_t), "begin"));
    return pointer_check(a->order, alignof(int32_t), "order");
}

// The list of entry e, or `rows` where it is in none.
SPIRA_BOTH int32_t row_lists_key(const row_lists_args &a, int32_t e) {
    const bool there = e < (int64_t)count_clamp(*a.count, a.capacity) * a.neighbours;
    const int32_t row = there ? a.index[e] : -1;
    return row >= 0 && row < a.rows ? row : a.rows;
}

// The host loop of `row_lists` (rows.cuh), on host memory.
SPIRA_API status row_lists_host(const row_lists_args *args) {
    SPIRA_TRY(row_lists_check(args));
    const row_lists_args &a = *args;
    const int32_t entries = a.capacity * a.neighbours;
    memset(a.begin, 0, ((size_t)a.rows + 1) * sizeof(int32_t));
    for (int32_t e = 0; e < entries; ++e) {
        const int32_t key = row_lists_key(a, e);
        a.begin[key] += key < a.rows; // lengths, then where each ends
    }
    for (int32_t row = 0, sum = 0; row <= a.rows; ++row) {
        sum += a.begin[row];
        a.begin[row] = sum;
    }
    for (int32_t e = entries - 1; e >= 0; --e) { // from the end: `begin` becomes where each starts
        const int32_t key = row_lists_key(a, e);
        if (key < a.rows) {
            a.order[--a.begin[key]] = e;
        }
    }
    return status_success();
}

// What `row_splat` reads and writes. in and out must not overlap.
struct row_splat_args {
    const void *in;       // [capacity of the index, channels] in `type`, aligned to its element
    int channels;         // >= 1
    numeric type;         // of both
    int neighbours;       // of the index: row e / neighbours of `in` belongs to entry e
    const float *weight;  // [capacity, neighbours], by entry; null: 1
    const int32_t *begin; // [rows + 1] of row_lists, and so are the others:
    const int32_t *order; //
    int32_t rows;         // of `out`
    void *out;            // [rows, channels]
};

// The checks of row_splat and row_splat_host.
SPIRA_API status row_splat_check(const row_splat_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_TRY(pointer_check(a->in, (size_t)numeric_size(a->type), "in"));
    SPIRA_TRY(pointer_check(a->out, (size_t)numeric_size(a->type), "out"));
    SPIRA_REQUIRE(a->out != a->in, status_unsupported, "out (overlaps in)", 0);
    SPIRA_TRY(size_check(a->channels, 1, INT64_MAX, "channels"));
    SPIRA_TRY(size_check(a->neighbours, 1, 8, "neighbours"));
    SPIRA_TRY(size_check(a->rows, 1, INT32_MAX / 2, "rows"));
    if (a->weight) {
        SPIRA_TRY(pointer_check(a->weight, alignof(float), "weight"));
    }
    SPIRA_TRY(pointer_check(a->begin, alignof(int32_t), "begin"));
    return pointer_check(a->order, alignof(int32_t), "order");
}

// The host loop of `row_splat` (rows.cuh), on host memory: sums in fp32, in the order of the lists,
// each product added with one rounding.
SPIRA_API status row_splat_host(const row_splat_args *a) {
    SPIRA_TRY(row_splat_check(a));
    for (int64_t row = 0; row < a->rows; ++row) {
        for (int c = 0; c < a->channels; ++c) {
            float sum = 0;
            for (int32_t n = a->begin[row]; n < a->begin[row + 1]; ++n) {
                const int64_t from = a->order[n] / a->neighbours;
                sum = fmaf(a->weight ? a->weight[a->order[n]] : 1.0f,
                           numeric_load(a->type, a->in, from * a->channels + c), sum);
            }
            numeric_store(a->type, a->out, row * a->channels + c, sum);
        }
    }
    return status_success();
}

} // namespace spira

#endif
