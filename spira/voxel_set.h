// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel_set.h: the types that all coordinate sets share.
//
// A voxel set is an ascending array of distinct coordinate words (word.h). voxel_rows maps features
// onto it: the voxel of each input row, and the rows of each voxel.
#ifndef SPIRA_VOXEL_SET_H
#define SPIRA_VOXEL_SET_H

#include "word.h"

#include <algorithm>

namespace spira {

// A set of voxels at some stride. In device memory on the GPU, in host memory in the host loops.
//
// Any ascending array of distinct words is a set, whoever wrote it. The words from `count` on are
// unspecified: no result depends on them, so that a caller's own array needs no padding. All of
// `capacity` words must be allocated, because kernels may read them before they know the count.
// Functions that write a set fill it up with word_none().
//
// words is aligned to its element, count to 4 bytes. A count above the capacity is clamped to the
// capacity; each function that takes a device status records it there (device_flag_capacity). A
// negative count is taken as 0.
template <typename W>
struct voxel_set {
    W *words;         // [capacity] ascending and distinct up to the count
    int32_t *count;   // [1] voxels
    int32_t capacity; // 1 .. INT32_MAX / 2
};

// Which input rows fell into which voxel. Each array is aligned to 4 bytes.
struct voxel_rows {
    int32_t *voxel; // [rows] the voxel of each row; -1 for a row that was dropped
    int32_t *order; // [rows] the kept rows, voxel by voxel, in their first order within one
    int32_t *begin; // [capacity + 1] where the rows of each voxel start in `order`
};

// The checks that every function makes of a set before its first launch.
template <typename W>
SPIRA_API status voxel_set_check(const voxel_set<W> *set) {
    SPIRA_REQUIRE(set, status_null_pointer, "set", 0);
    SPIRA_TRY(pointer_check(set->words, alignof(W), "set.words"));
    SPIRA_TRY(pointer_check(set->count, alignof(int32_t), "set.count"));
    SPIRA_TRY(capacity_check(set->capacity, "set.capacity"));
    return status_success();
}

// The number of voxels of a set: its count, clamped to [0, capacity].
template <typename W>
SPIRA_BOTH int32_t voxel_set_count(const voxel_set<W> &set) {
    return count_clamp(*set.count, set.capacity);
}

// Records a count above the capacity, in the host loops.
template <typename W>
SPIRA_API void voxel_set_note(const voxel_set<W> &set, device_status *trouble) {
    if (*set.count > set.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)*set.count);
    }
}

// Ends a set of `voxels` voxels, of which those that fit are written, in the host loops: fills it
// up and writes its count. A number of voxels above the capacity is recorded.
template <typename W>
SPIRA_API void voxel_set_end(const voxel_set<W> &set, int64_t voxels, device_status *trouble) {
    if (voxels > set.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)voxels);
        voxels = set.capacity;
    }
    std::fill(set.words + voxels, set.words + set.capacity, word_none<W>());
    *set.count = (int32_t)voxels;
}

// Makes a set of words in any order, in the host loops; word_none() is no voxel. A number of voxels
// above the capacity is recorded.
template <typename W>
SPIRA_API void voxel_set_sort(W *words, int64_t count, const voxel_set<W> &set,
                              device_status *trouble) {
    std::sort(words, words + count); // word_none() comes last
    int64_t voxels = std::unique(words, words + count) - words;
    voxels -= voxels > 0 && words[voxels - 1] == word_none<W>();
    std::copy(words, words + min_of(voxels, set.capacity), set.words);
    voxel_set_end(set, voxels, trouble);
}

SPIRA_API status voxel_rows_check(const voxel_rows *rows) {
    SPIRA_TRY(pointer_check(rows->voxel, alignof(int32_t), "rows.voxel"));
    SPIRA_TRY(pointer_check(rows->order, alignof(int32_t), "rows.order"));
    return pointer_check(rows->begin, alignof(int32_t), "rows.begin");
}

} // namespace spira

#endif
