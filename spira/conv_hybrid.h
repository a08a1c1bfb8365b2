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
    SPIRA_REQUIRE(threshold >= 0, status_bad_size, "threshold", threshold);
    return status_success();
}

// The convolution of the dense offsets alone. Its volume is 0 where there are none.
SPIRA_BOTH conv_shape conv_hybrid_dense(const conv_shape *s, const kernel_shape *kernel,
                                        int threshold) {
    conv_shape dense = *s;
    dense.volume = map_os_columns(kernel, threshold, false);
    return dense;
}

// Adds the dense offsets to sum [outputs, cout]. os [outputs, map_os_columns].
SPIRA_API void conv_hybrid_host_dense(const conv_shape *s, const kernel_shape *kernel,
                                      int threshold, const float *in, const float *in2,
                                      const float *weight, const int32_t *os, int32_t outputs,
                                      float *sum) {
    const int64_t columns = map_os_columns(kernel, threshold, false);
    const int64_t pitch = (int64_t)(s->cin + s->cin2) * s->cout;
    const int64_t chunk = 64, chunks = ceil_div(outputs, chunk); // shares weights in cache
    SPIRA_PARALLEL_FOR
    for (int64_t c = 0; c < chunks; ++c) {
        int64_t column = 0;
        for (int k = 0; k < s->volume; ++k) {
            if (kernel_norm(kernel, k) >= threshold) {
                continue;
            }
            for (int64_t o = c * chunk; o < min_of(outputs, (c + 1) * chunk); ++o) {
                int64_t source = os[o * columns + column];
                if (source >= 0) {
                    conv_host_add(s, in, in2, weight + k * pitch, source, sum + o * s->cout);
                }
            }
            ++column;
        }
    }
}

// A convolution in fp32 on the host by both dataflows: the host loop of conv_hybrid
// (conv_hybrid.cuh). `shape.type` is not read.
//
// inputs   in [inputs, cin], in2 [inputs, cin2] or null; weight [volume, cin + cin2, cout] of all
//          offsets; os [outputs, map_os_columns]: map of the dense offsets; pairs: lists of the
//          sparse ones; both of map_build_lists_host with the same kernel and threshold, and not
//          read where there are no such offsets. The epilogue's residual is float [outputs, cout]
// outputs  out [outputs, cout]; must not be another of the arrays
// errors   null pointers, sizes, a volume that is not the kernel's, a threshold below 0
// The order of the additions is fixed: sparse offsets ascending, then dense ones, then channels.
SPIRA_API status conv_hybrid_host(const conv_shape *s, const kernel_shape *kernel, int threshold,
                                  const float *in, const float *in2, const float *weight,
                                  const int32_t *os, const map_lists *pairs, int32_t outputs,
                                  const conv_epilogue *e, float *out) {
    SPIRA_TRY(conv_hybrid_shape_check(s, kernel, threshold));
    SPIRA_TRY(conv_host_check(e, in, in2, out));
    const int dense = conv_hybrid_dense(s, kernel, threshold).volume;
    SPIRA_REQUIRE(in && (in2 || !s->cin2), status_null_pointer, "in", 0);
    SPIRA_REQUIRE(weight, status_null_pointer, "weight", 0);
    SPIRA_REQUIRE(os || !dense, status_null_pointer, "os", 0);
    SPIRA_REQUIRE(pairs || dense == s->volume, status_null_pointer, "pairs", 0);
    SPIRA_REQUIRE(outputs >= 0, status_bad_size, "outputs", outputs);
    std::fill(out, out + (int64_t)outputs * s->cout, 0.0f);
    if (dense < s->volume) {
        SPIRA_TRY(conv_pairs_host(s, in, in2, weight, pairs, pairs_sides_one, outputs, out));
    }
    if (dense) {
        conv_hybrid_host_dense(s, kernel, threshold, in, in2, weight, os, outputs, out);
    }
    conv_host_finish(s, e, outputs, out);
    return status_success();
}

} // namespace spira

#endif
