// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/join_merge.cuh: the words of several sets in one sorted array, for `join` (join.cuh).
//
// Without an axis, or with z, the least significant one, each set is sorted as it is and stays so:
// the place of a word in the result is its own row plus the words of the other sets in front of it,
// which are found by binary search. Dropping x or y changes the order: the words are written as
// they come, and sorted (radix.cuh).
#ifndef SPIRA_INDEX_JOIN_MERGE_CUH
#define SPIRA_INDEX_JOIN_MERGE_CUH

#include "../base/launch.cuh"
#include "../join.h"
#include "unique.cuh"

namespace spira {

enum { join_threads = 256 };

// What the kernels need of join_args.
template <typename W>
struct join_task {
    join_word_of<W> of;
    voxel_set<W> set[join_sets_max]; // capacity 0 behind the last set
    int32_t bases[join_sets_max];    // see join_bases
    int sets;
    int32_t total; // source rows
    device_status *trouble;
};

template <typename W>
SPIRA_API join_task<W> join_task_make(const join_args<W> *a, int32_t total) {
    join_task<W> t = {};
    int32_t capacity[join_sets_max] = {};
    t.of = join_word_make<W>(a->layout, a->axis, a->at);
    t.sets = a->sets;
    t.total = total;
    t.trouble = a->trouble;
    for (int s = 0; s < a->sets; ++s) {
        t.set[s] = a->set[s];
        capacity[s] = a->set[s].capacity;
    }
    join_bases(capacity, a->sets, t.bases);
    return t;
}

// The number of a set's first `count` words that are below a word of the result, or equal to it.
template <typename W>
SPIRA_DEVICE int32_t join_before(const join_word_of<W> &of, const W *words, int32_t count, W word,
                                 bool or_equal) {
    return first_not(0, count, [&](int i) {
        const W there = join_word(of, words[i]);
        return or_equal ? there <= word : there < word;
    });
}

// The source row of a thread.
template <typename W>
struct join_source {
    int set;
    int32_t row, count; // count: of its set
    W word;             // of the result; word_none() if the set has no such row
};

template <typename W>
SPIRA_DEVICE join_source<W> join_source_of(const join_task<W> &task, int32_t number) {
    join_source<W> s;
    s.set = join_set_of(task.bases, number, &s.row);
    s.count = voxel_set_count(task.set[s.set]);
    s.word = s.row < s.count ? join_word(task.of, task.set[s.set].words[s.row]) : word_none<W>();
    return s;
}

// Records counts above their capacities.
template <typename W>
SPIRA_DEVICE void join_report(const join_task<W> &task) {
    if (blockIdx.x == 0 && (int)threadIdx.x < task.sets) {
        const voxel_set<W> &set = task.set[threadIdx.x];
        device_status_raise_count(task.trouble, *set.count, set.capacity);
    }
}

// Writes each word where it belongs, ties by the number of the source row. Rows behind the counts
// are word_none() and go behind all others.
//
// outputs  sorted [total], order [total]: a permutation of the source rows
template <typename W>
SPIRA_KERNEL void __launch_bounds__(join_threads)
    join_merge_kernel(const __grid_constant__ join_task<W> task, W *sorted, int32_t *order) {
    const int64_t number = (int64_t)blockIdx.x * join_threads + threadIdx.x;
    join_report(task);
    if (number >= task.total) {
        return;
    }
    const join_source<W> own = join_source_of(task, (int32_t)number);
    const bool there = own.row < own.count;
    int32_t place = there ? own.row : own.row - own.count;
#pragma unroll
    for (int s = 0; s < join_sets_max; ++s) {
        if (s >= task.sets) {
            break;
        }
        const int32_t count = voxel_set_count(task.set[s]);
        if (!there) {
            place += count + (s < own.set ? task.set[s].capacity - count : 0);
        } else if (s != own.set) {
            place += join_before(task.of, task.set[s].words, count, own.word, s < own.set);
        }
    }
    sorted[place] = own.word;
    order[place] = (int32_t)number;
}

// Writes the words as they come: words [total].
template <typename W>
SPIRA_KERNEL void __launch_bounds__(join_threads)
    join_words_kernel(const __grid_constant__ join_task<W> task, W *words) {
    const int64_t number = (int64_t)blockIdx.x * join_threads + threadIdx.x;
    join_report(task);
    if (number < task.total) {
        words[number] = join_source_of(task, (int32_t)number).word;
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename W>
struct join_scratch {
    W *sorted;              // [total]
    int32_t *voxel;         // [total] the voxel of each source row
    int32_t *heads;         // see unique_launch
    radix_scratch<W> radix; // where x or y is dropped
};

SPIRA_API bool join_sorts(join_axis axis) {
    return axis == join_axis_x || axis == join_axis_y;
}

template <typename W>
SPIRA_API void join_carve(workspace *w, const join_args<W> *a, int32_t total, join_scratch<W> *s) {
    *s = {};
    s->sorted = workspace_take<W>(w, total);
    s->voxel = workspace_take<int32_t>(w, total);
    s->heads = workspace_take<int32_t>(w, unique_cut_make(total, a->out.capacity).blocks);
    if (join_sorts(a->axis)) {
        radix_carve(w, total, true, &s->radix);
    }
}

} // namespace spira

#endif
