// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/prune.h: the subset of a voxel set whose voxels a mask or a channel of their features
// chooses.
//
// The chosen voxels keep their order, so the result is a set without a sort. `source` says which
// row of the features each of them has (rows.h gathers them).
#ifndef SPIRA_PRUNE_H
#define SPIRA_PRUNE_H

#include "numeric.h"
#include "voxel_set.h"
#include "workspace.h"

namespace spira {

// How rows are chosen: by a mask, or by numbers that exceed a threshold. One of the two is null;
// `subdivide` takes all children where both are.
//
// A number that is NaN chooses nothing, and is recorded (device_flag_not_finite, the row).
struct row_choice {
    const uint8_t *mask; // [rows]
    const void *scores;  // [rows, channels] in `type`, aligned to its element
    numeric type;        // of scores, and so are the others:
    int channels;        // >= 1
    float threshold;     // finite
    bool or_equal;       // scores that equal the threshold are chosen, too
};

// What `prune` reads and writes. in and out must not overlap.
template <typename W>
struct prune_args {
    voxel_set<W> in;
    row_choice choice; // mask: not 0; scores: those of `channel`
    int channel;       // 0 .. choice.channels - 1
    voxel_set<W> out;
    int32_t *source;        // [out.capacity] the row of `in` of each voxel, ascending
    device_status *trouble; // in device memory; in host memory for prune_host
};

// The checks that prune and subdivide make of a choice.
SPIRA_API status row_choice_check(const row_choice *c) {
    SPIRA_REQUIRE(c->scores || (c->type == numeric_f32 && c->channels == 0 && c->threshold == 0 &&
                                !c->or_equal),
                  status_unsupported, "choice (members of scores, but no scores)", c->channels);
    SPIRA_REQUIRE(!c->scores || !c->mask, status_unsupported, "choice (a mask beside scores)", 0);
    if (!c->scores) {
        return status_success();
    }
    SPIRA_REQUIRE(numeric_valid(c->type), status_unsupported, "choice.type", c->type);
    SPIRA_TRY(pointer_check(c->scores, (size_t)numeric_size(c->type), "choice.scores"));
    SPIRA_TRY(size_check(c->channels, 1, INT64_MAX, "choice.channels"));
    SPIRA_REQUIRE(float_is_finite(c->threshold), status_bad_size, "choice.threshold (not finite)",
                  0);
    return status_success();
}

// Whether a number is chosen; NaN is not.
SPIRA_BOTH bool row_choice_takes(const row_choice &c, float score) {
    return !float_is_nan(score) && (score > c.threshold || (c.or_equal && score == c.threshold));
}

// The checks of prune and prune_host.
template <typename W>
SPIRA_API status prune_check(const prune_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(voxel_set_check(&a->in));
    SPIRA_TRY(voxel_set_check(&a->out));
    SPIRA_REQUIRE(a->out.words != a->in.words && a->out.count != a->in.count, status_unsupported,
                  "out (overlaps in)", 0);
    SPIRA_TRY(row_choice_check(&a->choice));
    SPIRA_REQUIRE(a->choice.mask || a->choice.scores, status_null_pointer,
                  "choice (a mask or scores)", 0);
    const int channels = a->choice.mask ? 1 : a->choice.channels;
    SPIRA_REQUIRE(a->channel >= 0 && a->channel < channels, status_bad_size, "channel", a->channel);
    SPIRA_TRY(pointer_check(a->source, alignof(int32_t), "source"));
    return pointer_check(a->trouble, alignof(device_status), "trouble");
}

// The host loop of `prune` (prune.cuh), on host memory.
template <typename W>
SPIRA_API status prune_host(const prune_args<W> *args) {
    SPIRA_TRY(prune_check(args));
    const row_choice &c = args->choice;
    const voxel_set<W> &in = args->in, &out = args->out;
    int32_t kept = 0;
    voxel_set_note(in, args->trouble);
    for (int32_t i = 0; i < voxel_set_count(in); ++i) {
        const float score =
            c.mask ? 0 : numeric_load(c.type, c.scores, (int64_t)i * c.channels + args->channel);
        if (float_is_nan(score)) {
            device_status_note(args->trouble, device_flag_not_finite, (uint32_t)i);
        }
        if (c.mask ? c.mask[i] != 0 : row_choice_takes(c, score)) {
            if (kept < out.capacity) {
                out.words[kept] = in.words[i];
                args->source[kept] = i;
            }
            ++kept;
        }
    }
    voxel_set_end(out, kept, args->trouble);
    return status_success();
}

} // namespace spira

#endif
