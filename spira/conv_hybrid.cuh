// spira/conv_hybrid.cuh: convolution by two dataflows on the GPU.
//
// The sparse offsets go first: conv_pairs_run leaves their fp32 sums in scratch. `conv` begins from
// these, adds the dense offsets where it keeps its sums, and applies the epilogue: each output is
// finished once, where it is written, and no kernel passes over the outputs for that alone. What
// the division costs is a write and a read of the sums, 8 bytes for each output and channel. Where
// all offsets are of one kind, the one dataflow runs alone and that is saved.
#ifndef SPIRA_CONV_HYBRID_CUH
#define SPIRA_CONV_HYBRID_CUH

#include "conv_hybrid.h"
#include "conv_pairs.cuh"

namespace spira {

// One convolution. Arrays are in device memory, features of shape.type's storage. What has no
// offsets at this threshold is not looked at.
struct conv_hybrid_args {
    conv_shape shape;    // of all offsets: its volume is that of the kernel
    kernel_shape kernel; // of the map
    int threshold;       // offsets with an L1 norm below it are dense
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of conv_hybrid_weights_pack; shape, kernel, threshold, device: the same
    // Host structs of a layout of the map's dense offsets, in the form that conv_hybrid_form_of
    // says: tile_build with map_os_columns, or order_build with the threshold. Both null: the
    // identity, where one offset is dense: a submanifold layer's centre
    const tile_layout *layout;
    const order_layout *order;
    map_pairs pairs;      // of the sparse offsets: of map_build_pairs
    const int32_t *count; // [1] outputs, at most `capacity`
    int32_t capacity;
    conv_epilogue epilogue;
    void *out;       // [capacity, cout]
    pairs_form form; // of the sparse half: pairs_form_atomic or, deterministic, pairs_form_stripes
};

// ---- weights ------------------------------------------------------------------------------------

// Where the packed weights of each half begin; null where it has no offsets, or while counting.
struct hybrid_weights {
    char *dense;  // of the dense offsets, for conv
    char *sparse; // for conv_pairs_run, which finds an offset's by its number: of all offsets
};

// The kernel of the dense half.
SPIRA_API conv_kernel hybrid_kernel(const conv_shape *shape, const kernel_shape *kernel,
                                    int threshold, const device_info *d) {
    const conv_shape dense = conv_hybrid_dense(shape, kernel, threshold);
    return conv_kernel_of(&dense, d);
}

SPIRA_API status hybrid_weights_carve(workspace *w, const conv_shape *shape,
                                      const kernel_shape *kernel, int threshold,
                                      hybrid_weights *at) {
    const conv_shape dense = conv_hybrid_dense(shape, kernel, threshold);
    size_t bytes = 0;
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    *at = {};
    if (dense.volume) {
        bytes = conv_packed_bytes(&dense, hybrid_kernel(shape, kernel, threshold, &d));
        at->dense = workspace_take<char>(w, (int64_t)bytes);
    }
    if (dense.volume < shape->volume) {
        SPIRA_TRY(conv_pairs_weights_bytes(shape, &bytes));
        at->sparse = workspace_take<char>(w, (int64_t)bytes);
    }
    return status_success();
}

// The form of the layout that the dense half reads on the current device: that of conv_form_of for
// conv_hybrid_dense.
SPIRA_API status conv_hybrid_form_of(const conv_shape *shape, const kernel_shape *kernel,
                                     int threshold, conv_form *form) {
    SPIRA_TRY(conv_hybrid_shape_check(shape, kernel, threshold));
    SPIRA_REQUIRE(form, status_null_pointer, "form", 0);
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    *form = conv_kernel_form(hybrid_kernel(shape, kernel, threshold, &d));
    return status_success();
}

// Bytes of packed weights on the current device.
SPIRA_API status conv_hybrid_weights_bytes(const conv_shape *shape, const kernel_shape *kernel,
                                           int threshold, size_t *bytes) {
    SPIRA_TRY(conv_hybrid_shape_check(shape, kernel, threshold));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    hybrid_weights at;
    SPIRA_TRY(hybrid_weights_carve(&w, shape, kernel, threshold, &at));
    *bytes = w.used;
    return status_success();
}

// The dense offsets side by side: a launch for each run of neighbours.
SPIRA_API status hybrid_pack_dense(const conv_shape *shape, const kernel_shape *kernel,
                                   int threshold, const float *weight, char *packed,
                                   cudaStream_t stream) {
    const conv_shape dense = conv_hybrid_dense(shape, kernel, threshold);
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    const conv_kernel made_for = hybrid_kernel(shape, kernel, threshold, &d);
    const int64_t pitch = (int64_t)(shape->cin + shape->cin2) * shape->cout;
    for (int k = 0, end; k < shape->volume; k = end) {
        for (end = k; end < shape->volume && kernel_norm(kernel, end) < threshold; ++end) {
        }
        if (end > k) {
            conv_shape run = dense;
            run.volume = end - k;
            SPIRA_TRY(conv_pack_run(&run, made_for, weight + k * pitch, packed, stream));
            packed += conv_packed_bytes(&run, made_for);
        } else {
            ++end;
        }
    }
    return status_success();
}

// Packs weights for conv_hybrid; once, when a network is loaded.
//
// inputs   weight [volume, cin + cin2, cout] fp32 of all offsets, in spira's order (offset.h)
// outputs  packed: conv_hybrid_weights_bytes, aligned to 256; rounded to the format
// errors   null pointers, sizes, a volume that is not the kernel's, a threshold below 0, memory
//          that is too small
// Asynchronous.
SPIRA_API status conv_hybrid_weights_pack(const conv_shape *shape, const kernel_shape *kernel,
                                          int threshold, const float *weight, void *packed,
                                          size_t packed_bytes, cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(conv_hybrid_weights_bytes(shape, kernel, threshold, &needed));
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_TRY(workspace_check(packed, packed_bytes, needed));
    workspace w = workspace_begin(packed);
    hybrid_weights at;
    SPIRA_TRY(hybrid_weights_carve(&w, shape, kernel, threshold, &at));
    if (at.dense) {
        SPIRA_TRY(hybrid_pack_dense(shape, kernel, threshold, weight, at.dense, stream));
    }
    return at.sparse
               ? conv_pairs_weights_pack(shape, weight, at.sparse,
                                         (size_t)((char *)packed + needed - at.sparse), stream)
               : status_success();
}

// ---- the two halves -----------------------------------------------------------------------------

struct hybrid_halves {
    conv_args dense;
    conv_pairs_args sparse;
    bool has_dense, has_sparse;
    void *scratch; // of the sparse half
    size_t scratch_bytes;
};

SPIRA_API conv_args hybrid_dense_args(const conv_hybrid_args *a) {
    conv_args dense = {};
    dense.shape = conv_hybrid_dense(&a->shape, &a->kernel, a->threshold);
    dense.in = a->in;
    dense.in2 = a->in2;
    dense.layout = a->layout;
    dense.order = a->order;
    dense.count = a->count;
    dense.capacity = a->capacity;
    dense.epilogue = a->epilogue;
    dense.out = a->out;
    return dense;
}

// alone: there are no dense offsets.
SPIRA_API conv_pairs_args hybrid_sparse_args(const conv_hybrid_args *a, bool alone) {
    conv_pairs_args sparse = {};
    sparse.shape = a->shape;
    sparse.in = a->in;
    sparse.in2 = a->in2;
    sparse.pairs = a->pairs;
    sparse.sides = pairs_sides_one;
    sparse.count = a->count;
    sparse.capacity = a->capacity;
    sparse.form = a->form;
    sparse.leave = !alone;
    if (alone) {
        sparse.epilogue = a->epilogue;
        sparse.out = a->out;
    }
    return sparse;
}

// Divides the work, and the scratch, or counts its bytes.
SPIRA_API status hybrid_halves_make(const conv_hybrid_args *a, workspace *w, hybrid_halves *h) {
    *h = {};
    h->dense = hybrid_dense_args(a);
    h->has_dense = h->dense.shape.volume > 0;
    h->has_sparse = h->dense.shape.volume < a->shape.volume;
    h->sparse = hybrid_sparse_args(a, !h->has_dense);
    workspace packed = workspace_begin((void *)a->weights);
    hybrid_weights weights;
    SPIRA_TRY(hybrid_weights_carve(&packed, &a->shape, &a->kernel, a->threshold, &weights));
    h->dense.weights = weights.dense;
    h->sparse.weights = weights.sparse;
    if (h->has_sparse) {
        if (h->has_dense) {
            h->sparse.sums =
                workspace_take<float>(w, (int64_t)a->capacity * conv_sums_pitch(a->shape.cout));
            h->dense.sums = h->sparse.sums;
        }
        SPIRA_TRY(conv_pairs_workspace(&h->sparse, &h->scratch_bytes));
        h->scratch = workspace_take<char>(w, (int64_t)h->scratch_bytes);
    }
    return status_success();
}

// Bytes of scratch for conv_hybrid: fp32 sums [capacity, cout], where both halves have offsets or
// the form is atomic. None where all offsets are dense. No pointer is read.
SPIRA_API status conv_hybrid_workspace(const conv_hybrid_args *args, size_t *bytes) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(conv_hybrid_shape_check(&args->shape, &args->kernel, args->threshold));
    SPIRA_REQUIRE(args->capacity >= 1 && args->capacity <= INT32_MAX / 2, status_bad_size,
                  "capacity", args->capacity);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    hybrid_halves h;
    SPIRA_TRY(hybrid_halves_make(args, &w, &h));
    *bytes = w.used;
    return status_success();
}

// Both halves, before either is launched.
SPIRA_API status hybrid_halves_check(const hybrid_halves *h, conv_kernel kernel) {
    if (h->has_dense) {
        SPIRA_TRY(conv_check(&h->dense));
        SPIRA_TRY(conv_check_layout(&h->dense, kernel));
    }
    return h->has_sparse ? conv_pairs_check(&h->sparse) : status_success();
}

// Sparse convolution with its epilogue by both dataflows: dense offsets output-stationary, sparse
// ones weight-stationary (Spira paper: hybrid dataflow).
//
// inputs   args: see conv_hybrid_args; the layout is of the columns of map_forms.os, the lists are
//          those that map_build_pairs makes beside it, with the same threshold. Lists as
//          conv_pairs_run wants them
//          scratch: the bytes of conv_hybrid_workspace, aligned to 256
// outputs  args->out; rows from *count on are not written. The residual may be `out` itself, the
//          inputs may not
// errors   null pointers, sizes, alignment, a volume that is not the kernel's, a threshold below 0,
//          a layout of another volume or a smaller capacity, scratch; nothing is launched then
// Asynchronous. Sums are fp32 and are rounded once. With stripes, or with all offsets dense,
// bit-identical from run to run; what else the bits depend on, `conv` says. Atomic: the sparse
// offsets are added in no fixed order.
// cost     that of conv_pairs_run with `leave` and of `conv`: two launches with stripes, three with
//          atomics
SPIRA_API status conv_hybrid(const conv_hybrid_args *args, void *scratch, size_t scratch_bytes,
                             cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(conv_hybrid_workspace(args, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    hybrid_halves h;
    SPIRA_TRY(hybrid_halves_make(args, &w, &h));
    device_info d;
    SPIRA_TRY(device_info_query(&d));
    conv_kernel kernel = hybrid_kernel(&args->shape, &args->kernel, args->threshold, &d);
    SPIRA_TRY(hybrid_halves_check(&h, kernel));
    if (h.has_sparse) {
        SPIRA_TRY(conv_pairs_run(&h.sparse, h.scratch, h.scratch_bytes, stream));
    }
    return h.has_dense ? conv_run(&h.dense, kernel, &d, stream) : status_success();
}

} // namespace spira

#endif
