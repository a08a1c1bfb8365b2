// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/join.h: one set of several: the union of up to four sets, the projection of a set along an
// axis, or both at once; and features of the result as sums.
//
// Union: the set of all voxels that any of the sets has. Coordinates are absolute, so a voxel of a
// set of stride 8 and one of a set of stride 16 are the same one if their coordinates are equal.
// The stride of a union is the finest of its sets on each axis. Layers read a union as one set, so
// the origins of the sets must agree modulo that stride. Sets do not carry their strides: `join`
// cannot check this, while a network's plan refuses sets that do not agree (net_need). A map built
// on a union that breaks it raises device_flag_lattice.
//
// Projection: an axis is dropped: all voxels get the same coordinate on it (join_args.at), and
// those that are equal then become one. On this axis the extent of the result is 1, its origin is
// `at`, and its stride, which no offset uses, stays that of the sets. (VoxelNeXt takes the union of
// three sets and drops z.)
//
// Both know which source rows each voxel of the result has. Sources are numbered across the sets:
// row r of set s has the number base + r, where base is the sum of the capacities of the sets in
// front of s. With one set, the number is the row. The rows of a voxel ascend, and so do sums over
// them: set by set, and row by row within a set.
#ifndef SPIRA_JOIN_H
#define SPIRA_JOIN_H

#include "numeric.h"
#include "voxel.h"

namespace spira {

enum { join_sets_max = 4 };

// The axis that is dropped.
enum join_axis : int { join_axis_none, join_axis_x, join_axis_y, join_axis_z };

// Which source rows each voxel of the result has. Each array is aligned to 4 bytes.
struct join_rows {
    int32_t *begin; // [out.capacity + 1] where the rows of each voxel start in `order`
    int32_t *order; // [join_sources] numbers of source rows, voxel by voxel, ascending within one
};

// What `join` reads and writes.
template <typename W>
struct join_args {
    const word_layout *layout; // on the host
    voxel_set<W> set[join_sets_max];
    int sets; // 1 .. join_sets_max
    join_axis axis;
    int at;           // the coordinate that the dropped axis gets
    voxel_set<W> out; // the result
    join_rows rows;
    device_status *trouble; // in device memory; in host memory for join_host
};

// What `join_sum` reads and writes.
struct join_sum_args {
    const void *in[join_sets_max];   // of each set [voxels, channels], aligned to its element
    int32_t capacity[join_sets_max]; // of each set, as `join` had them
    int sets;
    int channels;               // >= 1
    numeric type;               // of `in` and `out`
    float scale[join_sets_max]; // int8: of each set, whose features are element * scale; else 0
    float out_inverse;          // int8: 1 / the scale of the result; else 0
    join_rows rows;             // of join
    const int32_t *count;       // [1] voxels of the result
    int32_t out_capacity;
    void *out; // [voxels, channels] aligned to its element; none of `in`
    // Programmatic dependent launch (spira/README). The kernel before may write `in`, but neither
    // the rows nor the count.
    bool programmatic;
};

// ---- what both sides use ------------------------------------------------------------------------

// What dropping an axis makes of a word: (word & keep) | put.
template <typename W>
struct join_word_of {
    W keep, put;
};

template <typename W>
SPIRA_BOTH W join_word(const join_word_of<W> &of, W word) {
    return (word & of.keep) | of.put;
}

template <typename W>
SPIRA_API join_word_of<W> join_word_make(const word_layout *l, join_axis axis, int at) {
    if (axis == join_axis_none) {
        return {word_none<W>(), 0};
    }
    const int a = axis - join_axis_x, shift = triple_at({l->shift_x, l->shift_y, 0}, a);
    const W field = (((W)1 << triple_at(l->width, a)) - 1) << shift; // at most 31 bits
    return {(W)~field, (W)(uint32_t)(at + triple_at(l->bias, a)) << shift};
}

// Source rows of all sets: the words that are ordered, and the size of join_rows.order.
SPIRA_API status join_total(const int32_t *capacity, int sets, int32_t *total) {
    int64_t all = 0;
    SPIRA_TRY(size_check(sets, 1, join_sets_max, "sets"));
    for (int s = 0; s < sets; ++s) {
        SPIRA_TRY(size_check(capacity[s], 1, INT64_MAX, "set.capacity"));
        all += capacity[s];
    }
    SPIRA_REQUIRE(all <= INT32_MAX / 2, status_bad_size, "set.capacity (the sum over all sets)",
                  all);
    *total = (int32_t)all;
    return status_success();
}

// The same of join_args. Reads `sets` and the capacities alone.
template <typename W>
SPIRA_API status join_sources(const join_args<W> *a, int32_t *total) {
    int32_t capacity[join_sets_max];
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    for (int s = 0; s < join_sets_max; ++s) {
        capacity[s] = a->set[s].capacity;
    }
    return join_total(capacity, a->sets, total);
}

SPIRA_API status join_rows_check(const join_rows *rows) {
    SPIRA_TRY(pointer_check(rows->begin, alignof(int32_t), "rows.begin"));
    return pointer_check(rows->order, alignof(int32_t), "rows.order");
}

// The checks of join and join_host.
template <typename W>
SPIRA_API status join_check(const join_args<W> *a) {
    int32_t total;
    SPIRA_TRY(join_sources(a, &total));
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_REQUIRE(a->axis >= join_axis_none && a->axis <= join_axis_z, status_unsupported, "axis",
                  a->axis);
    if (a->axis != join_axis_none) {
        const int axis = a->axis - join_axis_x;
        SPIRA_REQUIRE(a->at >= triple_at(a->layout->lo, axis) &&
                          a->at <= triple_at(a->layout->hi, axis),
                      status_bad_size, "at (outside of the word layout)", a->at);
    }
    SPIRA_TRY(voxel_set_check(&a->out));
    for (int s = 0; s < a->sets; ++s) {
        SPIRA_TRY(voxel_set_check(&a->set[s]));
        SPIRA_REQUIRE(a->out.words != a->set[s].words && a->out.count != a->set[s].count,
                      status_unsupported, "out (overlaps an input)", s);
    }
    SPIRA_TRY(join_rows_check(&a->rows));
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// The checks of what sums and their gradient have alike. A: join_sum_args, join_sum_grad_args.
// i8: whether they may be int8
template <typename A>
SPIRA_API status join_sum_sizes_check(const A *a, bool i8 = false) {
    int32_t total;
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(join_total(a->capacity, a->sets, &total));
    SPIRA_REQUIRE(numeric_valid(a->type) || (i8 && a->type == numeric_i8), status_unsupported,
                  "type", a->type);
    SPIRA_TRY(size_check(a->channels, 1, INT64_MAX, "channels"));
    SPIRA_TRY(size_check(a->out_capacity, 1, INT64_MAX, "out_capacity"));
    return status_success();
}

// The checks of join_sum and join_sum_host.
SPIRA_API status join_sum_check(const join_sum_args *a) {
    SPIRA_TRY(join_sum_sizes_check(a, true));
    const size_t element = (size_t)numeric_size(a->type);
    const bool i8 = a->type == numeric_i8;
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    SPIRA_REQUIRE(numeric_scale_good(a->out_inverse, i8), status_unsupported, "out_inverse", 0);
    for (int s = 0; s < a->sets; ++s) {
        SPIRA_REQUIRE(numeric_scale_good(a->scale[s], i8), status_unsupported, "scale", s);
        SPIRA_TRY(pointer_check(a->in[s], element, "in"));
        SPIRA_REQUIRE(a->out != a->in[s], status_unsupported, "out (overlaps an input)", s);
    }
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    return join_rows_check(&a->rows);
}

// The set that source row `number` is of; *row: its row there. bases [join_sets_max]: the number of
// the first row of each set, INT32_MAX behind the last set.
SPIRA_BOTH int join_set_of(const int32_t *bases, int32_t number, int32_t *row) {
    int set = 0;
    int32_t base = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int s = 1; s < join_sets_max; ++s) {
        const bool here = number >= bases[s];
        set = here ? s : set;
        base = here ? bases[s] : base;
    }
    *row = number - base;
    return set;
}

SPIRA_API void join_bases(const int32_t *capacity, int sets, int32_t *bases) {
    int32_t all = 0;
    for (int s = 0; s < join_sets_max; ++s) {
        bases[s] = s < sets ? all : INT32_MAX;
        all += s < sets ? capacity[s] : 0;
    }
}

// ---- the host loops -----------------------------------------------------------------------------

// Bytes of scratch for join_host. Reads `sets` and the capacities alone.
template <typename W>
SPIRA_API status join_host_workspace(const join_args<W> *args, size_t *bytes) {
    int32_t total;
    SPIRA_TRY(join_sources(args, &total));
    return workspace_measure_array<voxel_key<W>>(total, bytes);
}

// Writes the keys of all sets; returns their number.
template <typename W>
SPIRA_API int32_t join_host_keys(const join_args<W> *a, voxel_key<W> *keys) {
    const join_word_of<W> of = join_word_make<W>(a->layout, a->axis, a->at);
    int32_t base = 0, kept = 0;
    for (int s = 0; s < a->sets; ++s) {
        const int32_t count = voxel_set_count(a->set[s]);
        voxel_set_note(a->set[s], a->trouble);
        for (int32_t i = 0; i < count; ++i) {
            keys[kept++] = {join_word(of, a->set[s].words[i]), base + i};
        }
        base += a->set[s].capacity;
    }
    return kept;
}

// The host loop of `join` (join.cuh), on host memory.
template <typename W>
SPIRA_API status join_host(const join_args<W> *args, void *scratch, size_t scratch_bytes) {
    int32_t total;
    voxel_key<W> *keys; // words of the result, and their source rows
    SPIRA_TRY(join_check(args));
    SPIRA_TRY(join_sources(args, &total));
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, total, &keys));
    const int32_t kept = join_host_keys(args, keys);
    const voxel_rows rows = {nullptr, args->rows.order, args->rows.begin};
    voxel_keys_sort(keys, kept);
    voxel_keys_unique(keys, kept, args->out, rows, false, args->trouble);
    return status_success();
}

// A sum and one more term. scale: 0, or of the term's int8
SPIRA_BOTH float join_sum_add(bool first, float sum, float x, float scale) {
    return scale > 0 ? fmaf(x, scale, first ? 0.0f : sum) : first ? x : sum + x;
}

// The host loop of `join_sum` (join.cuh), on host memory.
SPIRA_API status join_sum_host(const join_sum_args *args) {
    SPIRA_TRY(join_sum_check(args));
    int32_t bases[join_sets_max];
    join_bases(args->capacity, args->sets, bases);
    const int64_t count = count_clamp(*args->count, args->out_capacity);
    for (int64_t v = 0; v < count; ++v) {
        const int32_t begin = args->rows.begin[v], end = args->rows.begin[v + 1];
        for (int c = 0; c < args->channels; ++c) {
            float sum = 0;
            for (int32_t i = begin; i < end; ++i) {
                int32_t row;
                const int set = join_set_of(bases, args->rows.order[i], &row);
                const float x =
                    numeric_load(args->type, args->in[set], (int64_t)row * args->channels + c);
                sum = join_sum_add(i == begin, sum, x, args->scale[set]);
            }
            numeric_store(args->type, args->out, v * args->channels + c,
                          args->out_inverse > 0 ? sum * args->out_inverse : sum);
        }
    }
    return status_success();
}

// ---- gradient -----------------------------------------------------------------------------------

// What `join_sum_grad` reads and writes.
struct join_sum_grad_args {
    const void *out_grad;            // [voxels, channels]
    int32_t capacity[join_sets_max]; // of each set, as `join` had them
    int sets;
    int channels;         // >= 1
    numeric type;         // of out_grad and in_grad
    join_rows rows;       // of join
    const int32_t *count; // [1] voxels of the result
    int32_t out_capacity;
    void *in_grad[join_sets_max]; // of each set [capacity, channels], or null: not wanted
};

// The checks of join_sum_grad and join_sum_grad_host.
SPIRA_API status join_sum_grad_check(const join_sum_grad_args *a) {
    bool wanted = false;
    SPIRA_TRY(join_sum_sizes_check(a));
    const size_t element = (size_t)numeric_size(a->type);
    SPIRA_TRY(pointer_check(a->out_grad, element, "out_grad"));
    for (int s = 0; s < a->sets; ++s) {
        if (a->in_grad[s]) {
            SPIRA_TRY(pointer_check(a->in_grad[s], element, "in_grad"));
            SPIRA_REQUIRE(a->in_grad[s] != a->out_grad, status_unsupported,
                          "in_grad (overlaps out_grad)", s);
            wanted = true;
        }
    }
    SPIRA_REQUIRE(wanted, status_null_pointer, "in_grad", 0);
    SPIRA_TRY(pointer_check(a->count, alignof(int32_t), "count"));
    return join_rows_check(&a->rows);
}

SPIRA_API size_t join_sum_grad_bytes(const join_sum_grad_args *a, int set) {
    return (size_t)a->capacity[set] * (size_t)a->channels * (size_t)numeric_size(a->type);
}

// The host loop of `join_sum_grad` (join.cuh), on host memory.
SPIRA_API status join_sum_grad_host(const join_sum_grad_args *args) {
    SPIRA_TRY(join_sum_grad_check(args));
    int32_t bases[join_sets_max];
    join_bases(args->capacity, args->sets, bases);
    for (int s = 0; s < args->sets; ++s) {
        if (args->in_grad[s]) {
            memset(args->in_grad[s], 0, join_sum_grad_bytes(args, s));
        }
    }
    const size_t bytes = (size_t)args->channels * (size_t)numeric_size(args->type);
    const int64_t count = count_clamp(*args->count, args->out_capacity);
    for (int64_t v = 0; v < count; ++v) {
        for (int32_t i = args->rows.begin[v]; i < args->rows.begin[v + 1]; ++i) {
            int32_t row;
            const int set = join_set_of(bases, args->rows.order[i], &row);
            if (args->in_grad[set]) {
                memcpy((char *)args->in_grad[set] + (size_t)row * bytes,
                       (const char *)args->out_grad + (size_t)v * bytes, bytes);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
