// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/voxel/reduce.cuh: the kernel of voxel_features. A thread writes one channel of one voxel.
//
// A voxel of few rows is the work of that thread, too. The other voxels of a thread block are
// listed, and its warps share their chunks, whichever voxel they belong to: a scan of several
// sweeps has thousands of rows in a few voxels near the sensor. All sums are in the order of
// voxel_partials (voxel_features.h).
#ifndef SPIRA_VOXEL_REDUCE_CUH
#define SPIRA_VOXEL_REDUCE_CUH

#include "../base/launch.cuh"
#include "../numeric.cuh"
#include "../voxel_features.h"

namespace spira {

enum {
    voxel_threads = 512,
    voxel_warps = voxel_threads / 32,
    voxel_rows_few = voxel_partials,            // rows that one thread reads
    voxel_batch = 8,                            // rows of which its loads are in flight
    voxel_group = 4,                            // channels of a warp
    voxel_spread = 32 / voxel_group,            // rows that a warp reads at a time
    voxel_terms = voxel_chunk / voxel_partials, // of a partial sum
    voxel_round = 128,                          // chunks between two barriers
};

// How voxels and channels are divided among thread blocks: each has `voxels` voxels and one of
// `tiles` tiles of `width` channels.
struct voxel_features_cut {
    int channels, width, tiles, voxels;
    int64_t blocks;
};

SPIRA_API voxel_features_cut voxel_features_cut_make(int32_t capacity, int channels) {
    voxel_features_cut c;
    c.channels = channels;
    c.width = (int)min_of(channels, voxel_threads);
    c.tiles = (int)ceil_div(channels, c.width);
    c.voxels = voxel_threads / c.width;
    c.blocks = ceil_div(capacity, c.voxels) * c.tiles;
    return c;
}

// The rows of a voxel in row order, by one thread. count: at most voxel_rows_few.
template <voxel_feature kind>
SPIRA_DEVICE float voxel_reduce_few(const float *values, int columns, const int32_t *order,
                                    int32_t count) {
    float all = 0;
    count = kind == voxel_feature_first ? 1 : count;
    for (int32_t first = 0; first < count; first += voxel_batch) {
        int32_t row[voxel_batch];
        float value[voxel_batch];
#pragma unroll
        for (int j = 0; j < voxel_batch; ++j) {
            row[j] = first + j < count ? order[first + j] : 0;
        }
#pragma unroll
        for (int j = 0; j < voxel_batch; ++j) {
            value[j] = first + j < count ? values[(int64_t)row[j] * columns] : 0;
        }
#pragma unroll
        for (int j = 0; j < voxel_batch; ++j) {
            const float next = first + j ? voxel_feature_join(kind, all, value[j]) : value[j];
            all = first + j < count ? next : all;
        }
    }
    return voxel_feature_end(kind, all, count);
}

// ---- many rows ----------------------------------------------------------------------------------

// Voxels of a thread block with more than voxel_rows_few rows, in any order. Their chunks are
// numbered: entry e has chunks [chunk[e], chunk[e] + ceil(rows[e] / voxel_chunk)).
struct voxel_crowded {
    int32_t voxel[voxel_threads]; // by its place in the thread block
    int32_t begin[voxel_threads], rows[voxel_threads], chunk[voxel_threads];
    int32_t entries, chunks;
    float sum[voxel_round][voxel_group];                         // of the chunks of a round
    float partial[voxel_warps][voxel_group][voxel_partials + 1]; // padded against bank conflicts
};

// What all threads of a block reduce together: voxel_group columns of the values.
struct voxel_reduction {
    const float *values; // [rows, columns]
    int columns;
    const int32_t *order;
    int width; // channels of the group, at most voxel_group
};

// A chunk of rows, by a warp. Lanes 0 .. voxel_group - 1 return the result of a channel each.
// column: of channel lane % voxel_group; order, count: of the chunk; partial: shared memory of the
// warp.
template <voxel_feature kind>
SPIRA_DEVICE float voxel_reduce_chunk(const voxel_reduction &r, int column, const int32_t *order,
                                      int32_t count, float (*partial)[voxel_partials + 1]) {
    const int lane = (int)(threadIdx.x % 32), channel = lane % voxel_group;
    const bool reads = channel < r.width;
    const float *values = r.values + column;
    int32_t row[voxel_terms];
    const auto read_rows = [&](int j) {
#pragma unroll
        for (int i = 0; i < voxel_terms; ++i) {
            row[i] = j + i * voxel_partials < count ? order[j + i * voxel_partials] : 0;
        }
    };
    read_rows(lane / voxel_group);
#pragma unroll 1
    for (int j = lane / voxel_group; j < voxel_partials; j += voxel_spread) {
        float value[voxel_terms];
#pragma unroll
        for (int i = 0; i < voxel_terms; ++i) {
            const bool has = j + i * voxel_partials < count && reads;
            value[i] = has ? values[(int64_t)row[i] * r.columns] : 0;
        }
        read_rows(j + voxel_spread); // of the next partial sum, while these values are on their way
        float all = value[0];
#pragma unroll
        for (int i = 1; i < voxel_terms; ++i) {
            const float next = voxel_feature_join(kind, all, value[i]);
            all = j + i * voxel_partials < count ? next : all;
        }
        partial[channel][j] = all;
    }
    __syncwarp();
    float all = partial[channel][0];
#pragma unroll
    for (int j = 1; j < voxel_partials; ++j) {
        const float next = voxel_feature_join(kind, all, partial[channel][j]);
        all = j < count ? next : all;
    }
    __syncwarp();
    return all;
}

// The entry that a chunk belongs to. Called by whole warps.
SPIRA_DEVICE int voxel_find_entry(const voxel_crowded &s, int32_t chunk) {
    for (int first = 0;; first += 32) {
        const int e = first + (int)(threadIdx.x % 32);
        const bool own = e < s.entries && chunk >= s.chunk[e] &&
                         chunk - s.chunk[e] < (s.rows[e] + voxel_chunk - 1) / voxel_chunk;
        const uint32_t found = __ballot_sync(~0u, own);
        if (found) {
            return first + __ffs((int)found) - 1;
        }
    }
}

// Lists the voxels of threads with `lists`. Called by all threads of a block, with barriers inside.
SPIRA_DEVICE void voxel_list_crowded(voxel_crowded *s, bool lists, int voxel, int32_t begin,
                                     int32_t rows) {
    if (threadIdx.x == 0) {
        s->entries = s->chunks = 0;
    }
    __syncthreads();
    if (lists) {
        const int e = atomicAdd(&s->entries, 1);
        s->voxel[e] = voxel;
        s->begin[e] = begin;
        s->rows[e] = rows;
        s->chunk[e] = atomicAdd(&s->chunks, (rows + voxel_chunk - 1) / voxel_chunk);
    }
    __syncthreads();
}

// Reduces the rows of all entries. Thread e * r.width + c returns entry e and channel c. column: of
// channel lane % voxel_group. Called by all threads of a block, with barriers inside.
template <voxel_feature kind>
SPIRA_DEVICE float voxel_reduce_crowded(const voxel_reduction &r, int column, voxel_crowded *s) {
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    const int entry = (int)threadIdx.x / r.width, channel = (int)threadIdx.x % r.width;
    const bool owns = entry < s->entries;
    const int32_t own = owns ? s->chunk[entry] : 0, rows = owns ? s->rows[entry] : 0;
    const int32_t end = own + (rows + voxel_chunk - 1) / voxel_chunk;
    float all = 0;
    for (int32_t round = 0; round < s->chunks; round += voxel_round) {
        const int32_t last = min(s->chunks - round, (int32_t)voxel_round) + round;
        for (int32_t chunk = round + warp; chunk < last; chunk += voxel_warps) {
            const int e = voxel_find_entry(*s, chunk);
            const int32_t first = (chunk - s->chunk[e]) * voxel_chunk;
            const float sum = voxel_reduce_chunk<kind>(
                r, column, r.order + s->begin[e] + first,
                min(s->rows[e] - first, (int32_t)voxel_chunk), s->partial[warp]);
            if (lane < voxel_group) {
                s->sum[chunk - round][lane] = sum;
            }
        }
        __syncthreads();
#pragma unroll 4
        for (int32_t chunk = max(own, round); chunk < min(end, last); ++chunk) {
            const float next = s->sum[chunk - round][channel];
            all = chunk == own ? next : voxel_feature_join(kind, all, next);
        }
        __syncthreads();
    }
    return voxel_feature_end(kind, all, rows);
}

// ---- the kernel ---------------------------------------------------------------------------------

// A feature as it is stored.
template <typename E, typename W>
SPIRA_DEVICE E voxel_feature_element(const voxel_features_args<W> &a, float feature) {
    return element_from_float<E>(sizeof(E) == 1 ? feature * a.inverse : feature);
}

// Whether channels need the mean besides the feature itself.
template <voxel_feature kind, typename W>
SPIRA_DEVICE bool voxel_features_means(const voxel_features_args<W> &a) {
    return kind != voxel_feature_mean && a.append & voxel_append_mean;
}

// What a thread computes: a channel of a voxel.
struct voxel_place {
    int64_t first; // voxel of the thread block
    int own;       // by its number in the thread block
    int tile, channel;
    int32_t begin, rows;
    bool has; // there is such a channel
};

template <typename W>
SPIRA_DEVICE voxel_place voxel_place_make(const voxel_features_args<W> &a,
                                          const voxel_features_cut &cut) {
    voxel_place p;
    p.tile = (int)(blockIdx.x % (unsigned)cut.tiles) * cut.width;
    p.first = (int64_t)(blockIdx.x / (unsigned)cut.tiles) * cut.voxels;
    p.own = (int)(threadIdx.x / (unsigned)cut.width);
    p.channel = p.tile + (int)(threadIdx.x % (unsigned)cut.width);
    p.begin = p.rows = 0;
    const bool counts = p.own < cut.voxels && p.first + p.own < voxel_set_count(a.set);
    if (counts) { // behind the count, nothing has been written
        p.begin = a.rows.begin[p.first + p.own];
        p.rows = a.rows.begin[p.first + p.own + 1] - p.begin;
    }
    p.rows = voxel_feature_rows(a.max_points, p.rows);
    p.has = counts && p.channel < cut.channels;
    return p;
}

// Whether the rows of a voxel are shared by the thread block.
template <voxel_feature kind, typename W>
SPIRA_DEVICE bool voxel_place_crowded(const voxel_features_args<W> &a, const voxel_place &p) {
    return p.has && p.rows > voxel_rows_few &&
           (kind != voxel_feature_first || voxel_features_means<kind>(a));
}

// The crowded voxels of a thread block, some channels at a time. Not inlined: registers are for the
// others.
template <voxel_feature kind, typename W, typename E>
[[maybe_unused]] static __device__ __noinline__ void
voxel_features_crowded(const voxel_features_args<W> &a, const word_layout &layout,
                       const voxel_features_cut &cut) {
    __shared__ voxel_crowded s;
    const voxel_place p = voxel_place_make(a, cut);
    voxel_list_crowded(&s, voxel_place_crowded<kind>(a, p) && p.channel == p.tile, p.own, p.begin,
                       p.rows);
    const int width = min(cut.channels - p.tile, cut.width);
    voxel_reduction r = {a.values, a.columns, a.rows.order, 0};
#pragma unroll 1
    for (int group = 0; group < width; group += voxel_group) {
        const int from = p.tile + group, lane = (int)(threadIdx.x % voxel_group);
        r.width = min(width - group, (int)voxel_group);
        const int column = voxel_channel_make(a, from + min(lane, r.width - 1)).column;
        const float value = voxel_reduce_crowded<kind>(r, column, &s);
        float mean = value;
        if (voxel_features_means<kind>(a)) {
            mean = voxel_reduce_crowded<voxel_feature_mean>(r, column, &s);
        }
        const int entry = (int)threadIdx.x / r.width, own = from + (int)threadIdx.x % r.width;
        if (entry < s.entries) {
            const int64_t voxel = p.first + s.voxel[entry];
            ((E *)a.features)[voxel * cut.channels + own] = voxel_feature_element<E>(
                a, voxel_channel_end(a, layout, voxel, voxel_channel_make(a, own), value, mean));
        }
    }
}

template <voxel_feature kind, typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(voxel_threads, 2)
    voxel_features_kernel(const __grid_constant__ voxel_features_args<W> a,
                          const __grid_constant__ word_layout layout,
                          const __grid_constant__ voxel_features_cut cut) {
    const voxel_place p = voxel_place_make(a, cut);
    const bool crowded = voxel_place_crowded<kind>(a, p);
    if (p.has && !crowded) {
        const voxel_channel c = voxel_channel_make(a, p.channel);
        const float *values = a.values + c.column;
        const int32_t *order = a.rows.order + p.begin;
        const int64_t voxel = p.first + p.own;
        const float value = voxel_reduce_few<kind>(values, a.columns, order, p.rows);
        float mean = value;
        if (voxel_features_means<kind>(a) && c.minus == voxel_append_mean) {
            mean = voxel_reduce_few<voxel_feature_mean>(values, a.columns, order, p.rows);
        }
        ((E *)a.features)[voxel * cut.channels + p.channel] =
            voxel_feature_element<E>(a, voxel_channel_end(a, layout, voxel, c, value, mean));
    }
    if (__syncthreads_or(crowded)) {
        voxel_features_crowded<kind, W, E>(a, layout, cut);
    }
}

// ---- gradient -----------------------------------------------------------------------------------

enum { voxel_features_grad_threads = 256 };

template <typename E>
SPIRA_KERNEL void __launch_bounds__(voxel_features_grad_threads)
    voxel_features_grad_kernel(voxel_features_grad_args a) {
    const int64_t i = (int64_t)blockIdx.x * voxel_features_grad_threads + threadIdx.x;
    const int columns = voxel_features_grad_channels(a), c = (int)(i % columns);
    const int64_t v = i / columns;
    if (v < min_of(*a.count, a.capacity)) {
        const E *grad = (const E *)a.features_grad + v * a.features_channels;
        const voxel_features_grad_from from = voxel_features_grad_from_of(a, c);
        const float own = from.own < 0 ? 0.0f : element_to_float(grad[from.own]);
        const float centre = from.centre < 0 ? 0.0f : element_to_float(grad[from.centre]);
        const float mean = from.mean < 0 ? 0.0f : element_to_float(grad[from.mean]);
        voxel_features_grad_put(a, v, c, own + centre + mean, mean);
    }
}

} // namespace spira

#endif
