// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv_hybrid.cuh: convolution by two dataflows on the GPU (Spira paper: hybrid dataflow).
//
// A threshold t divides the offsets of a kernel. Offsets with an L1 norm below t are dense: near
// voxels are often present. The others are sparse. Dense offsets are added output-stationary, from
// a layout of their map alone (map_forms.os); sparse offsets weight-stationary, from pair lists
// (map_build_lists with the same t). With t = 0 all offsets are sparse, with t > kernel_norm_max
// all are dense. The host's twin is conv_host with the whole map: the same layer.
//
//   conv_hybrid_weights_bytes, conv_hybrid_weights_pack   once for each layer
//   map_build_lists (map.cuh)     for each frame: the pair lists of the sparse offsets and, in
//                                 map_forms.os, the map of the dense ones; both by the threshold
//   order_build                   the layout of the dense offsets
//   conv_hybrid_workspace, conv_hybrid   for each layer
//
// conv_pairs_run adds the sparse offsets first and leaves fp32 sums in scratch. `conv` accumulates
// the dense offsets onto them and applies the epilogue, so that each output is written once. The
// division costs one write and one read of the sums: 8 bytes for each output and channel. If all
// offsets are of one kind, one dataflow runs alone.
#ifndef SPIRA_CONV_HYBRID_CUH
#define SPIRA_CONV_HYBRID_CUH

#include "conv.cuh"
#include "conv_pairs.cuh"

namespace spira {

// One convolution, as in conv_args. Members of a kind of offsets that the kernel does not have at
// this threshold are not read.
struct conv_hybrid_args {
    conv_shape shape;    // volume: of the kernel, all offsets
    kernel_shape kernel; // of the map
    int threshold;       // offsets with an L1 norm below it are dense
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_hybrid_weights_pack: same shape, kernel, threshold, device_info
    const conv_map *map; // on the host: the layout of the dense offsets, by conv_map_of_order;
                         // conv_map_identity where none is dense, or only the centre of a
                         // submanifold layer. It also has the number of outputs and their capacity
    map_lists pairs;     // of the sparse offsets, of map_build_lists
    conv_epilogue epilogue;
    void *out;       // [map.capacity, cout]
    pairs_form form; // of the sparse offsets; pairs_form_ordered is deterministic
};

SPIRA_API status hybrid_shape_check(const conv_hybrid_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    const conv_shape *s = &a->shape;
    SPIRA_TRY(conv_shape_check(s));
    SPIRA_TRY(kernel_check(&a->kernel));
    SPIRA_REQUIRE(s->volume == kernel_volume(&a->kernel), status_bad_size, "shape.volume",
                  s->volume);
    return size_check(a->threshold, 0, INT64_MAX, "threshold");
}

// The convolution of the dense offsets alone. Its volume is 0 where there are none.
SPIRA_BOTH conv_shape conv_hybrid_dense(const conv_shape *s, const kernel_shape *kernel,
                                        int threshold) {
    conv_shape dense = *s;
    dense.volume = map_os_columns(kernel, threshold, false);
    return dense;
}

// ---- weights ------------------------------------------------------------------------------------

// Bytes of the packed weights of the dense offsets, for conv. Where some are sparse, those of all
// offsets stand behind them, for conv_pairs_run, which looks them up by number.
SPIRA_API size_t hybrid_dense_bytes(const device_info *gpu, const conv_hybrid_args *a) {
    const conv_shape dense = conv_hybrid_dense(&a->shape, &a->kernel, a->threshold);
    const size_t bytes = dense.volume ? conv_packed_bytes(&dense, conv_kernel_of(&dense, gpu)) : 0;
    return (size_t)round_up((int64_t)bytes, workspace_alignment);
}

// Bytes of packed weights. args: shape, kernel and threshold are read.
SPIRA_API status conv_hybrid_weights_bytes(const device_info *gpu, const conv_hybrid_args *args,
                                           size_t *bytes) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(hybrid_shape_check(args));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    const conv_shape *s = &args->shape;
    const bool sparse = conv_hybrid_dense(s, &args->kernel, args->threshold).volume < s->volume;
    const size_t all = sparse ? conv_packed_bytes(s, pairs_kernel_of(s, gpu)) : 0;
    *bytes = hybrid_dense_bytes(gpu, args) + (size_t)round_up((int64_t)all, workspace_alignment);
    return status_success();
}

// Packs the dense offsets side by side: one launch for each run of neighbours.
template <typename tag>
SPIRA_API status hybrid_pack_dense(tag format, const device_info *gpu, const conv_hybrid_args *a,
                                   const conv_weights *w, cudaStream_t stream) {
    const conv_shape dense = conv_hybrid_dense(&a->shape, &a->kernel, a->threshold);
    conv_pack_request run = conv_pack_request_of(gpu, &dense, conv_kernel_of(&dense, gpu), w);
    const int64_t pitch = (int64_t)(dense.cin + dense.cin2) * dense.cout;
    for (int k = 0, end; k < a->shape.volume; k = end + 1) {
        for (end = k; end < a->shape.volume && kernel_norm(&a->kernel, end) < a->threshold; ++end) {
        }
        run.shape.volume = end - k;
        run.first = k * pitch;
        run.weight = w->weight + run.first;
        if (run.shape.volume) {
            SPIRA_TRY(conv_pack_as(format, &run, stream));
            run.packed = (char *)run.packed + conv_packed_bytes(&run.shape, run.kernel);
        }
    }
    return status_success();
}

// Packs weights of all offsets for conv_hybrid: as conv_weights_pack, to conv_hybrid_weights_bytes.
// Of args, shape, kernel and threshold are read.
template <numeric format = numeric_any>
SPIRA_API status conv_hybrid_weights_pack(const device_info *gpu, const conv_hybrid_args *args,
                                          const conv_weights *weights, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_TRY(conv_hybrid_weights_bytes(gpu, args, &needed));
    SPIRA_TRY(conv_pack_check(&args->shape, weights, needed));
    const conv_shape *s = &args->shape;
    const size_t dense = hybrid_dense_bytes(gpu, args);
    conv_pack_request all = conv_pack_request_of(gpu, s, pairs_kernel_of(s, gpu), weights);
    all.packed = (char *)weights->packed + dense;
    return numeric_dispatch<format>(s->type, [&](auto tag) {
        if (dense) {
            SPIRA_TRY(hybrid_pack_dense(tag, gpu, args, weights, stream));
        }
        return needed > dense ? conv_pack_as(tag, &all, stream) : status_success();
    });
}

// ---- the two halves -----------------------------------------------------------------------------

struct hybrid_halves {
    conv_args dense;        // volume 0: there is none
    conv_pairs_args sparse; // volume 0: there is none
    void *scratch;          // of the sparse half
    size_t scratch_bytes;
};

// The arguments of both halves, without weights. Carves the scratch, or counts its bytes.
SPIRA_API status hybrid_halves_make(const conv_hybrid_args *a, workspace *w, hybrid_halves *h) {
    *h = {};
    conv_args *dense = &h->dense;
    dense->shape = conv_hybrid_dense(&a->shape, &a->kernel, a->threshold);
    dense->map = a->map;
    dense->in = a->in;
    dense->in2 = a->in2;
    dense->epilogue = a->epilogue;
    dense->out = a->out;
    if (dense->shape.volume == a->shape.volume) {
        return status_success();
    }
    conv_pairs_args *sparse = &h->sparse;
    sparse->shape = a->shape;
    sparse->in = a->in;
    sparse->in2 = a->in2;
    sparse->pairs = a->pairs;
    sparse->count = a->map->count;
    sparse->capacity = a->map->capacity;
    sparse->form = a->form;
    sparse->to_sums = dense->shape.volume > 0;
    if (sparse->to_sums) {
        sparse->sums =
            workspace_take<float>(w, (int64_t)sparse->capacity * conv_sums_pitch(a->shape.cout));
        dense->sums = sparse->sums;
    } else {
        sparse->epilogue = a->epilogue;
        sparse->out = a->out;
    }
    SPIRA_TRY(conv_pairs_workspace(sparse, &h->scratch_bytes));
    h->scratch = workspace_take<char>(w, (int64_t)h->scratch_bytes);
    return status_success();
}

// Bytes of scratch for conv_hybrid: fp32 sums [map.capacity, conv_sums_pitch(cout)] and a small
// table. None if all offsets are dense. No device pointer is read.
SPIRA_API status conv_hybrid_workspace(const conv_hybrid_args *args, size_t *bytes) {
    SPIRA_TRY(hybrid_shape_check(args));
    SPIRA_REQUIRE(args->map, status_null_pointer, "map", 0);
    SPIRA_TRY(capacity_check(args->map->capacity, "map.capacity"));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    hybrid_halves h;
    SPIRA_TRY(hybrid_halves_make(args, &w, &h));
    *bytes = w.used;
    return status_success();
}

// Sparse convolution with its epilogue by both dataflows: dense offsets output-stationary, sparse
// ones weight-stationary (Spira paper: hybrid dataflow).
//
// format     compiled for; numeric_any: all four, chosen by args->shape.type
//
// inputs   args: see conv_hybrid_args. The map has the columns of map_forms.os, and the lists are
//          those that map_build_lists makes with it; both with args->threshold
// outputs  args->out; rows from *count on are not written. The residual may be `out` itself, the
//          inputs may not
// errors   a volume that is not the kernel's, a threshold below 0, a map of another volume or form
// Asynchronous. Sums are fp32 and are rounded once. In order, or with all offsets dense,
// bit-identical from run to run; see `conv` for what else may change the bits. Otherwise the sparse
// offsets are added in no fixed order.
// cost     that of conv_pairs_run with to_sums, and of `conv`
template <numeric format = numeric_any>
SPIRA_API status conv_hybrid(const device_info *gpu, const conv_hybrid_args *args, void *scratch,
                             size_t scratch_bytes, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(conv_hybrid_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    hybrid_halves h;
    SPIRA_TRY(hybrid_halves_make(args, &w, &h));
    h.dense.weights = args->weights;
    const bool has_dense = h.dense.shape.volume > 0, has_sparse = h.sparse.shape.volume > 0;
    if (has_dense) {
        SPIRA_TRY(conv_check(gpu, &h.dense));
    }
    h.sparse.weights = (const char *)args->weights + hybrid_dense_bytes(gpu, args);
    if (has_sparse) { // checks before its first launch
        SPIRA_TRY(conv_pairs_run<format>(gpu, &h.sparse, h.scratch, h.scratch_bytes, stream));
    }
    return has_dense ? conv<format>(gpu, &h.dense, stream) : status_success();
}

} // namespace spira

#endif
