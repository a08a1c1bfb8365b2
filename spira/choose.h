// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/choose.h: masks for `prune` (prune.h): the largest voxels of each batch element, and the
// voxels that another set has, or lacks.
#ifndef SPIRA_CHOOSE_H
#define SPIRA_CHOOSE_H

#include "prune.h"
#include "search.h"

namespace spira {

// What `choose_largest` reads and writes. Nothing may overlap.
template <typename W>
struct choose_largest_args {
    voxel_set<W> set;
    const word_layout *layout; // of the set; read during the call
    const void *scores;        // [capacity, channels] in `type`, aligned to its element
    numeric type;              // of scores
    int channels, channel;     // the channel that counts, 0 .. channels - 1
    int32_t most;              // voxels of a batch element, >= 1
    uint8_t *mask;             // [capacity] 1: chosen; 0: not
    device_status *trouble;    // in device memory; in host memory for the host loop
};

// What `choose_members` reads and writes. The sets have one layout; `mask` may overlap neither.
template <typename W>
struct choose_members_args {
    voxel_set<W> set, other;
    bool absent;            // false: chosen are voxels that `other` has; true: that it lacks
    uint8_t *mask;          // [set.capacity] 1: chosen; 0: not
    device_status *trouble; // in device memory; in host memory for the host loop
};

// The sort key of a score: larger scores come first, NaN last. Zeros of either sign are equal.
SPIRA_BOTH uint32_t choose_key(float score) {
    const uint32_t u = float_bits(score), sign = 0x80000000u;
    if (float_is_nan(score)) {
        return UINT32_MAX;
    }
    return u & sign ? (u == sign ? sign - 1 : u) : ~u & (sign - 1);
}

// The checks of choose_largest and choose_largest_host.
template <typename W>
SPIRA_API status choose_largest_check(const choose_largest_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(voxel_set_check(&a->set));
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_TRY(pointer_check(a->scores, (size_t)numeric_size(a->type), "scores"));
    SPIRA_TRY(size_check(a->channels, 1, INT64_MAX, "channels"));
    SPIRA_TRY(size_check(a->channel, 0, (int64_t)a->channels - 1, "channel"));
    SPIRA_TRY(size_check(a->most, 1, INT64_MAX, "most"));
    SPIRA_REQUIRE(a->mask, status_null_pointer, "mask", 0);
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// The checks of choose_members and choose_members_host.
template <typename W>
SPIRA_API status choose_members_check(const choose_members_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(voxel_set_check(&a->set));
    SPIRA_TRY(voxel_set_check(&a->other));
    SPIRA_REQUIRE(a->mask, status_null_pointer, "mask", 0);
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// Bytes of scratch for choose_largest_host. Reads set.capacity alone.
template <typename W>
SPIRA_API status choose_largest_host_workspace(const choose_largest_args<W> *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(capacity_check(args->set.capacity, "set.capacity"));
    return workspace_measure_array<uint64_t>(args->set.capacity, bytes);
}

// The host loop of `choose_largest` (choose.cuh), on host memory.
template <typename W>
SPIRA_API status choose_largest_host(const choose_largest_args<W> *args, void *scratch,
                                     size_t scratch_bytes) {
    SPIRA_TRY(choose_largest_check(args));
    const choose_largest_args<W> &a = *args;
    uint64_t *row; // key, then row
    SPIRA_TRY(workspace_open_array(scratch, scratch_bytes, a.set.capacity, &row));
    const int32_t rows = voxel_set_count(a.set);
    voxel_set_note(a.set, a.trouble);
    for (int32_t begin = 0, end; begin < rows; begin = end) {
        const int batch = word_unpack<W>(a.layout, a.set.words[begin]).batch;
        for (end = begin; end < rows && word_unpack<W>(a.layout, a.set.words[end]).batch == batch;
             ++end) {
            const float score =
                numeric_load(a.type, a.scores, (int64_t)end * a.channels + a.channel);
            if (float_is_nan(score)) {
                device_status_note(a.trouble, device_flag_not_finite, (uint32_t)end);
            }
            row[end] = (uint64_t)choose_key(score) << 32 | (uint32_t)end;
        }
        std::sort(row + begin, row + end);
        for (int32_t i = begin; i < end; ++i) {
            a.mask[(uint32_t)row[i]] = i - begin < a.most && row[i] >> 32 != UINT32_MAX;
        }
    }
    return status_success();
}

// Whether row i of a set is chosen.
template <typename W>
SPIRA_BOTH bool choose_member(const choose_members_args<W> &a, int32_t i) {
    const int32_t count = voxel_set_count(a.other);
    const int32_t at = search_lower_bound(a.other.words, 0, count, a.set.words[i]);
    return (at < count && a.other.words[at] == a.set.words[i]) != a.absent;
}

// The host loop of `choose_members` (choose.cuh), on host memory.
template <typename W>
SPIRA_API status choose_members_host(const choose_members_args<W> *args) {
    SPIRA_TRY(choose_members_check(args));
    voxel_set_note(args->set, args->trouble);
    voxel_set_note(args->other, args->trouble);
    for (int32_t i = 0; i < voxel_set_count(args->set); ++i) {
        args->mask[i] = choose_member(*args, i);
    }
    return status_success();
}

} // namespace spira

#endif
