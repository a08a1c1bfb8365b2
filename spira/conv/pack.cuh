// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/pack.cuh: launches the kernels that pack weights.
#ifndef SPIRA_CONV_PACK_CUH
#define SPIRA_CONV_PACK_CUH

#include "choice.cuh"

namespace spira {

enum { conv_pack_threads = 256 };

// Weights to be packed for one kernel. A host struct.
struct conv_pack_request {
    const device_info *gpu;
    conv_shape shape;
    conv_kernel kernel;
    int rows; // of an offset's weights (conv_weight_index)
    const float *weight;
    int64_t first; // number of weight[0] among all that the caller has
    void *packed;
    device_status *trouble;
    conv_weights_tag tag = {};   // zero: none
    size_t bytes = 0;            // of packed, its end the tag
    const float *step = nullptr; // of int8 layers, as the scales: see conv_weights
    float scale_in = 0.0f, scale_in2 = 0.0f;
    const float *scale = nullptr;
    int pitch = 0; // weights from an input channel to the next, in their own order; 0: cout
};

// Launches a kernel that packs `total` pieces, a thread each. In training it runs in front of every
// convolution. chunk_bytes: of a row, of Hopper's kernel.
SPIRA_API status conv_pack_launch(const conv_pack_request *r, int64_t total, int chunk_bytes,
                                  void (*kernel)(conv_pack_params), cudaStream_t stream) {
    const int64_t grid = ceil_div(total, conv_pack_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "shape", grid);
    conv_pack_params p = {};
    p.shape = r->shape;
    p.chunk_bytes = chunk_bytes;
    p.rows = r->rows;
    p.pitch = r->pitch ? r->pitch : r->shape.cout;
    p.weight = r->weight;
    p.first = r->first;
    p.total = total;
    p.packed = r->packed;
    p.trouble = r->trouble;
    p.own = r->tag;
    p.step = r->step;
    p.scale_in = r->scale_in;
    p.scale_in2 = r->scale_in2;
    p.scale = r->scale;
    p.tag = r->bytes ? (conv_weights_tag *)((char *)r->packed + r->bytes) - 1 : nullptr;
    return kernel_launch(
        kernel,
        {(unsigned)grid, conv_pack_threads, stream, "conv_weights_pack", r->gpu->programmatic}, p);
}

// chunk_bytes: of a row (hopper_chunk_bytes, hopper_chunk_shortcut).
template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_API status conv_pack_hopper(const conv_pack_request *r, int chunk_bytes,
                                  cudaStream_t stream) {
    return conv_pack_launch(r, hopper_weights(&r->shape, chunk_bytes), chunk_bytes,
                            hopper_pack_kernel<E, order>, stream);
}

// Packs weights of one format for a kernel that some compiled architecture runs.
template <conv_weights_order order = conv_weights_own, typename tag>
SPIRA_API status conv_pack_as(tag, const conv_pack_request *r, cudaStream_t stream) {
    typedef typename tag::element E;
    const conv_kernel kernel = r->kernel;
    const int64_t total = conv_packed_count(&r->shape, kernel);
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (kernel == conv_kernel_hopper) {
            return conv_pack_hopper<E, order>(r, hopper_chunk_bytes(&r->shape), stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_narrow, tag::value)) {
        if (kernel == conv_kernel_narrow) {
            return conv_pack_launch(r, total, 0, narrow_pack_kernel<E, order>, stream);
        }
    }
    if constexpr (conv_tensor_compiled(tag::value)) {
        if (kernel == conv_kernel_portable) {
            return conv_pack_launch(r, total, 0, conv_mma_pack_kernel<E, order>, stream);
        }
    }
    if (conv_packed_floats(&r->shape, kernel)) {
        return conv_pack_launch(r, total, 0, conv_exact_pack_kernel<sizeof(E) == 1, order>, stream);
    }
    return conv_not_compiled();
}

// Packs a shortcut's weights for the kernel of its convolution, which has the shape `s`. r->shape:
// conv_shortcut_shape.
template <typename tag>
SPIRA_API status conv_pack_shortcut(tag own, const conv_shape *s, const conv_pack_request *r,
                                    cudaStream_t stream) {
    if constexpr (conv_compiled(conv_kernel_hopper, tag::value)) {
        if (r->kernel == conv_kernel_hopper) {
            const int chunk = hopper_chunk_shortcut(hopper_stage_row(s));
            return conv_pack_hopper<typename tag::element>(r, chunk, stream);
        }
    }
    if constexpr (conv_compiled(conv_kernel_portable, tag::value)) {
        if (r->kernel == conv_kernel_portable) {
            return conv_pack_as(own, r, stream);
        }
    }
    if constexpr (tag::value == numeric_i8) {
        if (r->kernel == conv_kernel_exact) {
            return conv_pack_as(own, r, stream);
        }
    }
    return conv_not_compiled();
}

// Checks weights of a shape. bytes: that their packed form needs.
SPIRA_API status conv_pack_check(const conv_shape *s, const conv_weights *w, size_t bytes) {
    SPIRA_REQUIRE(w, status_null_pointer, "weights", 0);
    SPIRA_TRY(pointer_check(w->weight, sizeof(float), "weight"));
    const bool i8 = s->type == numeric_i8;
    if (i8) {
        SPIRA_TRY(pointer_check(w->step, sizeof(float), "weights.step"));
    }
    SPIRA_REQUIRE(i8 || (!w->step && !w->scale), status_unsupported,
                  "weights.step, scale (of a layer that is not int8)", 0);
    if (w->scale) {
        SPIRA_TRY(pointer_check(w->scale, sizeof(float), "weights.scale"));
    }
    SPIRA_TRY(conv_scale_check(w->scale_in, i8, "weights.scale_in"));
    SPIRA_TRY(conv_scale_check(w->scale_in2, i8 && s->cin2, "weights.scale_in2"));
    SPIRA_TRY(workspace_check(w->packed, w->packed_bytes, bytes, "packed"));
    return w->trouble ? pointer_check(w->trouble, alignof(device_status), "trouble")
                      : status_success();
}

SPIRA_API conv_pack_request conv_pack_request_of(const device_info *gpu, const conv_shape *shape,
                                                 conv_kernel kernel, const conv_weights *w) {
    conv_pack_request r = {gpu,       *shape, kernel,    shape->cin + shape->cin2,
                           w->weight, 0,      w->packed, w->trouble};
    r.step = w->step;
    r.scale_in = w->scale_in;
    r.scale_in2 = w->scale_in2;
    r.scale = w->scale;
    return r;
}

// Packs weights for a kernel, without a tag.
template <numeric format>
SPIRA_API status conv_pack(const device_info *gpu, const conv_shape *shape, conv_kernel kernel,
                           const conv_weights *w, cudaStream_t stream) {
    SPIRA_TRY(conv_pack_check(shape, w, conv_packed_bytes(shape, kernel)));
    const conv_pack_request request = conv_pack_request_of(gpu, shape, kernel, w);
    return numeric_dispatch<format>(shape->type,
                                    [&](auto tag) { return conv_pack_as(tag, &request, stream); });
}

} // namespace spira

#endif
