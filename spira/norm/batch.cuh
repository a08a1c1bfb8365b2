// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm/batch.cuh: the kernels of norm_groups (norm_groups.cuh).
//
// The rows of a batch element are cut into parts, as for global pooling, but more of them: a thread
// block sums the channels of a part, then one adds up the parts and channels of a group. First that
// of x, then that of (x - mean)^2.
#ifndef SPIRA_NORM_BATCH_CUH
#define SPIRA_NORM_BATCH_CUH

#include "../norm_groups.h"
#include "../pool/kernel.cuh"
#include "row.cuh"

namespace spira {

// Parts of a batch element. Wide rows have fewer: their sums take the most memory.
SPIRA_BOTH int norm_parts(int channels) {
    return channels <= 512 ? 8 * pool_parts : pool_parts;
}

struct norm_groups_places {
    float *part;                // [batches, norm_parts, channels] sums
    norm_groups_statistics *of; // [batches, groups]
};

template <typename W>
struct norm_groups_task {
    norm_groups_args<W> args;
    word_layout layout;
    norm_groups_places places;
    bool squares; // what is summed: (x - mean)^2, or x
    bool wide;    // rows are read and written 16 bytes at a time
};

SPIRA_API void norm_groups_carve(workspace *w, int64_t batches, int channels, int groups,
                                 norm_groups_places *p) {
    p->part = workspace_take<float>(w, batches * norm_parts(channels) * channels);
    p->of = workspace_take<norm_groups_statistics>(w, batches * groups);
}

// Thread blocks: x parts, y batch elements.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    norm_part_kernel(const __grid_constant__ norm_groups_task<W> t) {
    const norm_groups_args<W> &a = t.args;
    int32_t first, last;
    pool_batch_range(&t.layout, a.set, (int)blockIdx.y, &first, &last);
    const int64_t length = ceil_div(last - first, gridDim.x);
    const int64_t begin = min_of(first + blockIdx.x * length, last);
    const int64_t count = min_of(begin + length, last) - begin;
    const int columns = pool_columns(a.channels), column = (int)threadIdx.x % columns;
    for (int at = 0; at < a.channels; at += columns) {
        const int c = (int)min_of(at + column, a.channels - 1);
        const int64_t group = (int64_t)blockIdx.y * a.groups + c / (a.channels / a.groups);
        const float mean = t.squares ? t.places.of[group].mean : 0.0f;
        const pool_result all = pool_reduce(pool_average, columns, count, [&](int64_t i) {
            const float x = element_to_float(((const E *)a.in)[(begin + i) * a.channels + c]);
            const float d = float_subtract(x, mean);
            return pool_result{t.squares ? d * d : x, -1};
        });
        if ((int)threadIdx.x < columns && at + column < a.channels) {
            t.places.part[((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * a.channels + c] =
                all.value;
        }
    }
}

// Thread blocks: x groups, y batch elements.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(pool_global_threads)
    norm_join_kernel(const __grid_constant__ norm_groups_task<W> t) {
    const norm_groups_args<W> &a = t.args;
    int32_t first, last;
    pool_batch_range(&t.layout, a.set, (int)blockIdx.y, &first, &last);
    const int width = a.channels / a.groups;
    const int64_t parts = norm_parts(a.channels);
    const float *part =
        t.places.part + (int64_t)blockIdx.y * parts * a.channels + (int64_t)blockIdx.x * width;
    const pool_result all = pool_reduce(pool_average, 1, parts * width, [&](int64_t i) {
        return pool_result{part[i / width * a.channels + i % width], -1};
    });
    if (threadIdx.x == 0 && last > first) {
        norm_groups_statistics *const of =
            t.places.of + (int64_t)blockIdx.y * a.groups + blockIdx.x;
        const float n = (float)((int64_t)(last - first) * width);
        if (t.squares) {
            of->scale = norm_groups_scale(all.value, n, a.epsilon);
        } else {
            of->mean = float_divide(all.value, n);
        }
    }
}

// A thread finishes 8 channels of a row.
template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(norm_threads)
    norm_apply_kernel(const __grid_constant__ norm_groups_task<W> t) {
    const norm_groups_args<W> &a = t.args;
    const int pieces = (int)ceil_div(a.channels, norm_group);
    const int64_t at = (int64_t)blockIdx.x * norm_threads + threadIdx.x, i = at / pieces;
    const int first = (int)(at % pieces) * norm_group;
    if (i >= voxel_set_count(a.set)) {
        return;
    }
    const int64_t batch = word_unpack<W>(&t.layout, a.set.words[i]).batch;
    if (batch >= t.layout.batches) { // of no batch element of the layout
        return;
    }
    const int width = a.channels / a.groups;
    wide_elements<E, norm_group> row, residual = {};
    wide_read_channels((const E *)a.in + i * a.channels, a.channels, first, t.wide, row);
    if (a.residual) {
        wide_read_channels((const E *)a.residual + i * a.channels, a.channels, first, t.wide,
                           residual);
    }
#pragma unroll
    for (int k = 0; k < norm_group; ++k) {
        const int c = (int)min_of(first + k, a.channels - 1);
        row.at[k] = element_from_float<E>(
            norm_groups_finish(a, t.places.of[batch * a.groups + c / width],
                               element_to_float(row.at[k]), c, element_to_float(residual.at[k])));
    }
    wide_write_channels(row, (E *)a.out + i * a.channels, a.channels, first, t.wide);
}

} // namespace spira

#endif
