// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm_groups.h: GroupNorm: normalisation over all voxels of a batch element and the channels
// of a group. With as many groups as channels it is instance norm.
//
//   n    = voxels of the batch element * channels / groups
//   mean = sum of x / n
//   var  = sum of (x - mean)^2 / n
//   out  = act((x - mean) / sqrt(var + epsilon) * gain + shift + residual), gain and shift of the
//          channel
//
// Everything is fp32, and rounded once, to the format of the features.
#ifndef SPIRA_NORM_GROUPS_H
#define SPIRA_NORM_GROUPS_H

#include "norm.h"
#include "pool.h"

namespace spira {

// What `norm_groups` reads and writes.
template <typename W>
struct norm_groups_args {
    const word_layout *layout; // of the set, of at most 65535 batch elements; on the host
    voxel_set<W> set;          // the voxels of the features
    int groups;                // divides rows.channels
    norm_args rows;            // all but kind, count and capacity: zero, they are of the set
};

// The gradients: see norm.h. Means are over the voxels of the batch element and the channels of the
// group.
template <typename W>
using norm_groups_grad_args = norm_gradients<norm_groups_args<W>>;

// The checks of norm_groups and norm_groups_host.
template <typename W>
SPIRA_API status norm_groups_check(const norm_groups_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(size_check(a->layout->batches, 1, 65535, "layout.batches"));
    SPIRA_TRY(voxel_set_check(&a->set));
    norm_args rows = a->rows;
    SPIRA_REQUIRE(rows.kind == norm_layer && !rows.count && !rows.capacity, status_unsupported,
                  "rows (kind, count and capacity are not theirs)", rows.kind);
    rows.count = a->set.count;
    rows.capacity = a->set.capacity;
    SPIRA_TRY(norm_check(&rows));
    SPIRA_REQUIRE(a->groups >= 1 && rows.channels % a->groups == 0, status_bad_size,
                  "groups (does not divide the channels)", a->groups);
    return status_success();
}

// The checks of norm_groups_grad and norm_groups_grad_host.
template <typename W>
SPIRA_API status norm_groups_grad_check(const norm_groups_grad_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    norm_groups_args<W> forward = a->norm;
    forward.rows.out = a->in_grad;
    SPIRA_TRY(norm_groups_check(&forward));
    return norm_gradients_check(*a, a->norm.rows);
}

// Calls body(numbers, each) for each batch element and group. each(take) calls
// take(its place, channel) for all numbers of it.
template <typename W, typename F>
SPIRA_API void norm_groups_each(const norm_groups_args<W> &a, F body) {
    const int channels = a.rows.channels, width = channels / a.groups;
    for (int item = 0; item < a.layout->batches * a.groups; ++item) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set, item / a.groups, &first, &last);
        const int begin = item % a.groups * width;
        body((double)(last - first) * width, [&](const auto &take) {
            for (int64_t at = (int64_t)first * width; at < (int64_t)last * width; ++at) {
                const int c = begin + (int)(at % width);
                take(at / width * channels + c, c);
            }
        });
    }
}

// The host loop of `norm_groups` (norm_groups.cuh), on host memory: sums in double.
template <typename W>
SPIRA_API status norm_groups_host(const norm_groups_args<W> *args) {
    SPIRA_TRY(norm_groups_check(args));
    const norm_groups_args<W> &a = *args;
    const norm_args &rows = a.rows;
    norm_groups_each(a, [&](double n, auto each) {
        const norm_statistics of = norm_statistics_host(rows, n, each);
        each([&](int64_t place, int c) {
            const float x = norm_centre(of, numeric_load(rows.type, rows.in, place));
            const float more = rows.residual ? numeric_load(rows.type, rows.residual, place) : 0.0f;
            const float y =
                fmaf(x, rows.gain ? rows.gain[c] : 1.0f, rows.shift ? rows.shift[c] : 0.0f) + more;
            numeric_store(rows.type, rows.out, place, norm_finish(rows, y));
        });
    });
    return status_success();
}

// The host loop of `norm_groups_grad`, likewise.
template <typename W>
SPIRA_API status norm_groups_grad_host(const norm_groups_grad_args<W> *args) {
    SPIRA_TRY(norm_groups_grad_check(args));
    const norm_args &rows = args->norm.rows;
    norm_vectors_host sums = {};
    norm_groups_each(
        args->norm, [&](double n, auto each) { norm_gradients_host(*args, rows, n, each, &sums); });
    norm_vectors_store(*args, rows.channels, sums);
    return status_success();
}

} // namespace spira

#endif
