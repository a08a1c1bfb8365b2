// spira/conv_hybrid.h: convolution by two dataflows (Spira paper: hybrid dataflow).
//
// A threshold t divides the offsets of a kernel. Offsets with an L1 norm below t are dense: near
// voxels are often present. The others are sparse. Dense offsets are added output-stationary, from
// a layout of their map alone (map_forms.os); sparse offsets weight-stationary, from pair lists
// (map_build_lists with the same t). With t = 0 all offsets are sparse, with t > kernel_norm_max
// all are dense.
#ifndef SPIRA_CONV_HYBRID_H
#define SPIRA_CONV_HYBRID_H

#include "conv_pairs.h"

namespace spira {

SPIRA_API status conv_hybrid_shape_check(const conv_shape *s, const kernel_shape *kernel,
                                         int threshold) {
    SPIRA_TRY(conv_shape_check(s));
    SPIRA_TRY(kernel_check(kernel));
    SPIRA_REQUIRE(s->volume == kernel_volume(kernel), status_bad_size, "shape.volume", s->volume);
    SPIRA_TRY(size_check(threshold, 0, INT64_MAX, "threshold"));
    return status_success();
}

// The convolution of the dense offsets alone. Its volume is 0 where there are none.
SPIRA_BOTH conv_shape conv_hybrid_dense(const conv_shape *s, const kernel_shape *kernel,
                                        int threshold) {
    conv_shape dense = *s;
    dense.volume = map_os_columns(kernel, threshold, false);
    return dense;
}

// A layer in fp32 on the host. Members of a kind of offsets that the kernel does not have at this
// threshold are not read. shape.type is not read.
struct conv_hybrid_host_args {
    conv_shape shape; // volume: of the kernel, all offsets
    kernel_shape kernel;
    int threshold;
    const float *in;     // [inputs, cin]
    const float *in2;    // [inputs, cin2], or null where cin2 is 0
    const float *weight; // [volume, cin + cin2, cout]
    const int32_t *os;   // [outputs, map_os_columns]: map of the dense offsets
    map_lists pairs;     // of the sparse offsets; both of map_build_lists_host
    int32_t outputs;
    conv_epilogue epilogue; // residual: float [outputs, cout]
    float *out;             // [outputs, cout]; must not be another of the arrays
};

// Adds the dense offsets to out.
SPIRA_API void conv_hybrid_host_dense(const conv_hybrid_host_args *a) {
    const conv_shape *s = &a->shape;
    const int64_t columns = conv_hybrid_dense(s, &a->kernel, a->threshold).volume;
    const int64_t pitch = (int64_t)(s->cin + s->cin2) * s->cout;
    SPIRA_PARALLEL_FOR
    for (int64_t o = 0; o < a->outputs; ++o) {
        const int32_t *source = a->os + o * columns;
        for (int k = 0; k < s->volume; ++k) {
            if (kernel_norm(&a->kernel, k) < a->threshold && *source++ >= 0) {
                conv_host_add(s, a->in, a->in2, a->weight + k * pitch, source[-1],
                              a->out + o * s->cout);
            }
        }
    }
}

// A convolution by both dataflows: the host loop of conv_hybrid (conv_hybrid.cuh).
//
// errors   null pointers, sizes, a volume that is not the kernel's, a threshold below 0
// The order of the additions is fixed: sparse offsets ascending, then dense ones, then channels.
SPIRA_API status conv_hybrid_host(const conv_hybrid_host_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    const conv_shape *s = &a->shape;
    SPIRA_TRY(conv_hybrid_shape_check(s, &a->kernel, a->threshold));
    SPIRA_TRY(conv_host_check(&a->epilogue, a->in, a->in2, a->out));
    const int dense = conv_hybrid_dense(s, &a->kernel, a->threshold).volume;
    SPIRA_REQUIRE(a->in, status_null_pointer, "in", 0);
    SPIRA_REQUIRE(a->in2 || !s->cin2, status_null_pointer, "in2", 0);
    SPIRA_REQUIRE(a->weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(a->os || !dense, status_null_pointer, "os", 0);
    SPIRA_TRY(size_check(a->outputs, 0, INT64_MAX, "outputs"));
    if (dense < s->volume) {
        SPIRA_TRY(map_lists_check(&a->pairs));
    }
    std::fill(a->out, a->out + (int64_t)a->outputs * s->cout, 0.0f);
    if (dense < s->volume) {
        const conv_pairs_host_args sparse = {*s,       a->in,           a->in2,    a->weight,
                                             a->pairs, pairs_sides_one, a->outputs};
        SPIRA_TRY(conv_pairs_host(&sparse, a->out));
    }
    if (dense) {
        conv_hybrid_host_dense(a);
    }
    conv_host_finish(s, &a->epilogue, a->outputs, a->out);
    return status_success();
}

} // namespace spira

#endif
