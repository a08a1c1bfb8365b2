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

// What `norm_groups` reads and writes. `out` may be `in` or the residual; otherwise nothing may
// overlap.
template <typename W>
struct norm_groups_args {
    const word_layout *layout; // of the set; on the host
    voxel_set<W> set;          // the voxels of the features
    const void *in;            // [voxels, channels] in `type`, aligned to its element
    int channels;              // 1 .. 4096
    int groups;                // divides channels
    numeric type;              // of in, residual and out
    float epsilon;             // > 0
    const float *gain;         // [channels]; null: 1
    const float *shift;        // [channels]; null: 0
    const void *residual;      // [voxels, channels]; null: 0
    activation act;            //
    float slope;               // of activation_leaky
    void *out;                 // [voxels, channels]
};

// What a channel is normalised by.
struct norm_groups_statistics {
    float mean, scale; // scale: 1 / sqrt(var + epsilon)
};

// The checks of norm_groups and norm_groups_host.
template <typename W>
SPIRA_API status norm_groups_check(const norm_groups_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(size_check(a->layout->batches, 1, 65535, "layout.batches"));
    SPIRA_TRY(voxel_set_check(&a->set));
    norm_args same = {};
    same.in = a->in;
    same.channels = a->channels;
    same.type = a->type;
    same.epsilon = a->epsilon;
    same.gain = a->gain;
    same.shift = a->shift;
    same.residual = a->residual;
    same.act = a->act;
    same.count = a->set.count;
    same.capacity = a->set.capacity;
    same.out = a->out;
    SPIRA_TRY(norm_check(&same));
    SPIRA_REQUIRE(a->groups >= 1 && a->channels % a->groups == 0, status_bad_size,
                  "groups (does not divide the channels)", a->groups);
    return status_success();
}

// 1 / sqrt(sum of squares / n + epsilon).
SPIRA_BOTH float norm_groups_scale(float squares, float n, float epsilon) {
    norm_args a = {};
    a.epsilon = epsilon;
    return norm_scale(a, 1.0f, float_divide(squares, n));
}

template <typename W>
SPIRA_BOTH float norm_groups_finish(const norm_groups_args<W> &a, norm_groups_statistics of,
                                    float x, int c, float residual) {
    norm_args act = {};
    act.act = a.act;
    act.slope = a.slope;
    return norm_finish(act, fmaf(float_subtract(x, of.mean) * of.scale, a.gain ? a.gain[c] : 1.0f,
                                 a.shift ? a.shift[c] : 0.0f) +
                                residual);
}

// The host loop of `norm_groups` (norm_groups.cuh), on host memory: sums in double.
template <typename W>
SPIRA_API status norm_groups_host(const norm_groups_args<W> *args) {
    SPIRA_TRY(norm_groups_check(args));
    const norm_groups_args<W> &a = *args;
    const int width = a.channels / a.groups;
    for (int item = 0; item < a.layout->batches * a.groups; ++item) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set, item / a.groups, &first, &last);
        const int begin = item % a.groups * width;
        const double n = (double)(last - first) * width;
        const auto each = [&](const auto &take) { // take(x, its place, channel)
            for (int64_t at = (int64_t)first * width; at < (int64_t)last * width; ++at) {
                const int c = begin + (int)(at % width);
                const int64_t place = at / width * a.channels + c;
                take(numeric_load(a.type, a.in, place), place, c);
            }
        };
        double sum = 0, squares = 0;
        each([&](float x, int64_t, int) { sum += x; });
        const float mean = (float)(sum / n);
        each([&](float x, int64_t, int) { squares += ((double)x - mean) * ((double)x - mean); });
        const norm_groups_statistics of = {mean,
                                           norm_groups_scale((float)squares, (float)n, a.epsilon)};
        each([&](float x, int64_t place, int c) {
            const float residual = a.residual ? numeric_load(a.type, a.residual, place) : 0.0f;
            numeric_store(a.type, a.out, place, norm_groups_finish(a, of, x, c, residual));
        });
    }
    return status_success();
}

} // namespace spira

#endif
