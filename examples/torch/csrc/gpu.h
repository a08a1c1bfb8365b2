// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/gpu.h: what the operators call on the GPU: spira's launchers behind plain
// functions, so that files with kernels include nothing of PyTorch, and the others no CUDA headers.
//
// All arrays are in device memory; streams are passed as pointers. Word arrays are uint32_t or
// uint64_t, as the layout says. Memory is the caller's: each function that needs scratch has a
// function that tells its bytes.
#ifndef SPIRA_TORCH_GPU_H
#define SPIRA_TORCH_GPU_H

#include "spira/choose.h"
#include "spira/conv_grad.h"
#include "spira/conv_group.h"
#include "spira/conv_map.h"
#include "spira/curve.h"
#include "spira/dense.h"
#include "spira/device.h"
#include "spira/expand.h"
#include "spira/interpolate.h"
#include "spira/join.h"
#include "spira/norm_groups.h"
#include "spira/pool.h"
#include "spira/rows.h"
#include "spira/subdivide.h"
#include "spira/voxel.h"

struct CUstream_st; // cudaStream_t points to one

namespace spira_torch {

// A voxel_set of either word.
struct set_ref {
    void *words;
    int32_t *count;
    int32_t capacity;
};

template <typename W>
inline spira::voxel_set<W> set_as(const set_ref &s) {
    return {(W *)s.words, s.count, s.capacity};
}

struct voxelize_job {
    const spira::word_layout *layout;
    const spira::voxel_input *in;
    set_ref set;
    spira::voxel_rows rows;
    spira::device_status *trouble;

    template <typename W>
    spira::voxelize_args<W> args() const {
        return {layout, in, set_as<W>(set), rows, trouble};
    }
};

struct expand_job {
    const spira::word_layout *layout;
    const spira::kernel_shape *kernel;
    const spira::expand_rule *rule;
    set_ref in, out;
    spira::device_status *trouble;

    template <typename W>
    spira::expand_args<W> args() const {
        return {layout, kernel, rule, set_as<W>(in), set_as<W>(out), trouble};
    }
};

// A kernel map to build.
struct map_job {
    const spira::word_layout *layout;
    spira::kernel_shape kernel;
    set_ref source, outputs;
};

// A convolution, or the convolution that an input gradient is (spira/conv_grad.h).
struct conv_job {
    spira::conv_shape shape;
    spira::kernel_shape kernel; // of the map
    bool identity;              // volume 1 onto the same set: there is no map
    void *map;                  // of map_layout_build
    size_t map_bytes;
    int32_t *count;   // of the outputs of the map
    int32_t capacity; // the same
    const void *in;
    const float *weight; // [volume, cin, cout] of the shape
    // Or of the layer whose input gradient this is: [volume, cout, cin] of the shape.
    bool weight_of_layer, weight_mirrored;
    const void *packed; // what conv_pack has made of the weights; null: each call packs them
    const float *bias;
    const float *norm;     // behind the bias: scale and shift, [2, cout]; or null
    const void *residual;  // [capacity, cout], or null
    spira::activation act; // behind all
    void *out;
    spira::device_status *trouble; // weights that the format cannot hold
};

// How weights_order orders a weight of spconv 2, [cout, z, y, x, cin].
enum weight_way {
    weight_forward,  // [volume, cin, cout]: of the layer
    weight_gradient, // [volume, cout, cin]: of its input gradient
    weight_mirrored, // the same, offsets mirrored: where the gradient reads the layer's own map
};

// A weight on the device.
struct weight_job {
    spira::triple size;
    int cin, cout;
    spira::numeric type; // of the weight: fp32, fp16 or bf16
    weight_way way;
};

// `prune`, or `subdivide` where there is a stride.
struct choose_job {
    const spira::word_layout *layout;
    set_ref in, out;
    spira::triple stride;
    spira::row_choice choice;
    int32_t *source;
    spira::device_status *trouble;

    bool divides() const {
        return stride.x != 0;
    }
    template <typename W>
    spira::prune_args<W> prune() const {
        return {set_as<W>(in), choice, 0, set_as<W>(out), source, trouble};
    }
    template <typename W>
    spira::subdivide_args<W> subdivide() const {
        return {layout, set_as<W>(in), stride, choice, set_as<W>(out), source, trouble};
    }
};

struct largest_job {
    const spira::word_layout *layout;
    set_ref set;
    const void *scores; // [capacity]
    spira::numeric type;
    int32_t most;
    uint8_t *mask;
    spira::device_status *trouble;

    template <typename W>
    spira::choose_largest_args<W> args() const {
        return {set_as<W>(set), layout, scores, type, 1, 0, most, mask, trouble};
    }
};

// The row of a word in a set, or -1.
template <typename W>
SPIRA_BOTH int32_t find_row(const spira::voxel_set<W> &in, W word) {
    const int32_t count = spira::voxel_set_count(in);
    const int32_t at = spira::search_lower_bound(in.words, 0, count, word);
    return at < count && in.words[at] == word ? at : -1;
}

// Words in another layout: (coordinate - origin) * scale.
struct repack_job {
    spira::word_layout from, to;
    spira::triple origin;
    int scale;
};

template <typename W, typename V>
SPIRA_BOTH V repack_word(const repack_job &job, W word) {
    const spira::voxel v = spira::word_unpack<W>(&job.from, word);
    return spira::word_pack<V>(&job.to, {v.batch, (v.x - job.origin.x) * job.scale,
                                         (v.y - job.origin.y) * job.scale,
                                         (v.z - job.origin.z) * job.scale});
}

// A union.
struct join_job {
    const spira::word_layout *layout;
    set_ref set[spira::join_sets_max], out;
    int sets;
    spira::join_rows rows;
    spira::device_status *trouble;

    template <typename W>
    spira::join_args<W> args() const {
        spira::join_args<W> a = {};
        a.layout = layout;
        for (int s = 0; s < sets; ++s) {
            a.set[s] = set_as<W>(set[s]);
        }
        a.sets = sets;
        a.out = set_as<W>(out);
        a.rows = rows;
        a.trouble = trouble;
        return a;
    }
};

struct curve_job {
    const spira::word_layout *layout;
    set_ref set;
    spira::triple stride, origin;
    int depth;
    spira::curve_kind kind;
    uint64_t *code;
    int32_t *order, *rank;
    spira::device_status *trouble;

    template <typename W>
    spira::curve_args<W> args() const {
        return {set_as<W>(set), layout, stride, origin, depth, kind, code, order, rank, trouble};
    }
};

// The voxels around points.
struct around_job {
    const spira::word_layout *layout;
    set_ref set;
    spira::triple stride;
    spira::interpolate_kind kind;
    bool centred;
    const float *points; // [rows, 3]
    const int32_t *batch, *count;
    int32_t rows;
    int32_t *index;
    float *weight;
    spira::device_status *trouble;

    template <typename W>
    spira::interpolate_args<W> args() const {
        return {layout, set_as<W>(set), stride,    kind,  centred, points, batch, count, rows,
                3,      {1, 1, 1},      {0, 0, 0}, index, weight,  trouble};
    }
};

// Global pooling, or its gradient where in_grad is given.
struct pool_global_job {
    spira::pool_kind kind;
    spira::numeric type;
    const spira::word_layout *layout;
    set_ref set;
    int channels;
    const void *in;
    void *out;
    const void *out_grad;
    void *in_grad;

    template <typename W>
    spira::pool_global_args<W> forward() const {
        return {kind, type, layout, set_as<W>(set), channels, in, out};
    }

    template <typename W>
    spira::pool_global_grad_args<W> gradient() const {
        return {kind, type, layout, set_as<W>(set), channels, in, out_grad, in_grad};
    }
};

// GroupNorm, or its gradients where rows.out is null.
struct norm_groups_job {
    const spira::word_layout *layout;
    set_ref set;
    int groups;
    spira::norm_grad_args rows;

    bool is_grad() const {
        return !rows.norm.out;
    }
    template <typename W>
    spira::norm_groups_args<W> forward() const {
        return {layout, set_as<W>(set), groups, rows.norm};
    }
    template <typename W>
    spira::norm_groups_grad_args<W> gradient() const {
        return {forward<W>(), rows.out_grad, rows.in_grad, rows.gain_grad, rows.shift_grad};
    }
};

// `dense`, or its gradient.
struct dense_job {
    const spira::word_layout *layout;
    set_ref set;
    spira::expand_grid grid;
    spira::triple stride;
    int batch, channels;
    spira::numeric type;
    const void *features;
    void *map; // [batch, channels * depth, height, width]
    spira::device_status *trouble;
    void *features_grad; // not null: the gradient of `map` goes here
};

typedef ::CUstream_st *stream_ref;

namespace gpu {

using spira::status;

// Of a device, which must be the current one; queried once for each.
status device(int number, const spira::device_info **info);

// ---- sets ----

status voxelize_bytes(const voxelize_job *job, size_t *bytes);
status voxelize(const voxelize_job *job, void *scratch, size_t scratch_bytes, stream_ref stream);
// Marks rows of `order` from the count on with -1; unsorted [1]: set to 1 unless voxel[i] == i.
status rows_finish(const int32_t *count, int32_t rows, int32_t *order, const int32_t *voxel,
                   int32_t *unsorted, stream_ref stream);
status expand_bytes(const expand_job *job, size_t *bytes);
status expand(const spira::device_info *info, const expand_job *job, void *scratch,
              size_t scratch_bytes, stream_ref stream);
status choose_bytes(const choose_job *job, size_t *bytes);
status choose(const choose_job *job, void *scratch, size_t scratch_bytes, stream_ref stream);
status largest_bytes(const largest_job *job, size_t *bytes);
status largest(const largest_job *job, void *scratch, size_t scratch_bytes, stream_ref stream);
// found [set.capacity]: the row in `in` of each voxel of `set` or -1; not written from the count
// on.
status find_rows(const spira::word_layout *layout, set_ref set, set_ref in, int32_t *found,
                 stream_ref stream);
status join_bytes(const join_job *job, size_t *bytes);
status join(const join_job *job, void *scratch, size_t scratch_bytes, stream_ref stream);
status curve_bytes(const curve_job *job, size_t *bytes);
status curve(const curve_job *job, void *scratch, size_t scratch_bytes, stream_ref stream);
// coords [capacity, 4]: batch, x, y, z of each voxel; unspecified from the count on.
status words_unpack(const spira::word_layout *layout, set_ref set, int32_t *coords,
                    stream_ref stream);
status words_repack(const repack_job *job, set_ref set, void *words, stream_ref stream);

// ---- maps ----

status map_table(const map_job *job, int32_t *map, stream_ref stream);
status map_layout_bytes(const spira::device_info *info, const map_job *job, size_t *bytes);
status map_layout_build(const spira::device_info *info, const map_job *job, void *memory,
                        size_t bytes, spira::device_status *trouble, stream_ref stream);
status map_pairs_bytes(const map_job *job, size_t *bytes);
status map_pairs(const map_job *job, bool half, spira::map_lists pairs,
                 spira::device_status *trouble, void *scratch, size_t scratch_bytes,
                 stream_ref stream);

// ---- features ----

status weights_order(const weight_job *job, const void *weight, float *to, stream_ref stream);
// The inverse of weight_forward, rounded to the type: of a weight gradient.
status weights_restore(const weight_job *job, const float *from, void *weight, stream_ref stream);
// conv, weight_grad and bias_grad have scratch: what their *_bytes functions tell.
status conv_bytes(const spira::device_info *info, const spira::conv_shape *shape, size_t *bytes);
status conv(const spira::device_info *info, const conv_job *job, void *scratch,
            size_t scratch_bytes, stream_ref stream);
// Packs job->weight into `packed`, conv_bytes large.
status conv_pack(const spira::device_info *info, const conv_job *job, void *packed, size_t bytes,
                 stream_ref stream);
status weight_grad_bytes(const spira::device_info *info, const spira::conv_shape *shape,
                         size_t *bytes);
status weight_grad(const spira::device_info *info, const spira::conv_grad_weight_args *args,
                   void *scratch, size_t scratch_bytes, stream_ref stream);
status bias_grad_bytes(int cout, size_t *bytes);
status bias_grad(const spira::device_info *info, const spira::conv_grad_bias_args *args,
                 void *scratch, size_t scratch_bytes, stream_ref stream);

// Depthwise and grouped convolution. group_grad has scratch.
status group(const spira::conv_group_args *args, stream_ref stream);
status group_grad_bytes(const spira::conv_group_shape *shape, int32_t capacity, size_t *bytes);
status group_grad(const spira::conv_group_grad_args *args, void *scratch, size_t scratch_bytes,
                  stream_ref stream);

status pool(const spira::pool_args *args, stream_ref stream);
status pool_grad(const spira::pool_grad_args *args, stream_ref stream);

status pool_global_bytes(const spira::word_layout *layout, int channels, size_t *bytes);
status pool_global(const pool_global_job *job, void *scratch, size_t scratch_bytes,
                   stream_ref stream);

status dense(const spira::device_info *info, const dense_job *job, stream_ref stream);

// LayerNorm and RMSNorm; GroupNorm. The gradients and norm_groups have scratch.
status norm_rows(const spira::norm_args *args, stream_ref stream);
status norm_rows_grad_bytes(const spira::norm_grad_args *args, size_t *bytes);
status norm_rows_grad(const spira::norm_grad_args *args, void *scratch, size_t scratch_bytes,
                      stream_ref stream);
status norm_groups_bytes(const norm_groups_job *job, size_t *bytes);
status norm_groups(const norm_groups_job *job, void *scratch, size_t scratch_bytes,
                   stream_ref stream);

status around(const around_job *job, stream_ref stream);
status lists_bytes(const spira::row_lists_args *args, size_t *bytes);
status lists(const spira::row_lists_args *args, void *scratch, size_t scratch_bytes,
             stream_ref stream);
status blend(const spira::row_blend_args *args, stream_ref stream);
status splat(const spira::row_splat_args *args, stream_ref stream);

// out [rows, bytes]: row index[i] of in, zeros where it is negative or beyond in_rows.
status rows_gather(const void *in, int64_t in_rows, const int32_t *index, int64_t rows,
                   int64_t bytes, void *out, stream_ref stream);
// Zeros in rows [count, capacity).
status rows_clear_tail(const spira::device_info *info, void *rows, const int32_t *count,
                       int64_t capacity, int64_t bytes, stream_ref stream);

} // namespace gpu

} // namespace spira_torch

#endif
