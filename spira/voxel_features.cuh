// spira/voxel_features.cuh: features of voxels on the GPU.
//
// A thread writes one channel of one voxel, and computes it, unless the voxel has many rows
// (voxel/reduce.cuh). Results are those of the host loops (voxel_features.h) bit by bit.
#ifndef SPIRA_VOXEL_FEATURES_CUH
#define SPIRA_VOXEL_FEATURES_CUH

#include "base/launch.cuh"
#include "numeric.cuh"
#include "voxel/reduce.cuh"

namespace spira {

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
            ((E *)a.features)[voxel * cut.channels + own] = element_from_float<E>(
                voxel_channel_end(a, layout, voxel, voxel_channel_make(a, own), value, mean));
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
            element_from_float<E>(voxel_channel_end(a, layout, voxel, c, value, mean));
    }
    if (__syncthreads_or(crowded)) {
        voxel_features_crowded<kind, W, E>(a, layout, cut);
    }
}

// The features of the voxels from the values of their rows.
//
// format   numeric_any: chosen by args->type at run time. A caller that names the format compiles
//          the code for that one alone, and must pass the same `type`
// inputs   args: see voxel_features_args; arrays in device memory, the layout in host memory. A
//          count above the capacity is clamped
// outputs  args->features; rows from the count on are not written
// errors   null or misaligned pointers, sizes, bits of `append`, a layout of another word, another
//          type than `format`
// Asynchronous, deterministic, bit-identical to voxel_features_host.
// cost     one launch. Voxels of up to 32 rows are read by a thread each, others by the warps of a
//          thread block: one voxel of all rows of a scan takes as long as one multiprocessor needs
//          to read them
template <numeric format = numeric_any, typename W>
SPIRA_API status voxel_features(const voxel_features_args<W> *args, cudaStream_t stream) {
    SPIRA_TRY(voxel_features_check(args));
    const int channels = voxel_features_channels(args);
    const voxel_features_cut cut = voxel_features_cut_make(args->set.capacity, channels);
    SPIRA_REQUIRE(cut.blocks <= INT32_MAX, status_bad_size, "set.capacity * channels", cut.blocks);
    const word_layout layout = args->layout ? *args->layout : word_layout{};
    return numeric_dispatch<format>(args->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        const auto kernel =
            args->kind == voxel_feature_mean    ? voxel_features_kernel<voxel_feature_mean, W, E>
            : args->kind == voxel_feature_first ? voxel_features_kernel<voxel_feature_first, W, E>
                                                : voxel_features_kernel<voxel_feature_max, W, E>;
        return kernel_launch(kernel,
                             {(unsigned)cut.blocks, voxel_threads, stream, "voxel_features"}, *args,
                             layout, cut);
    });
}

} // namespace spira

#endif
