// spira/conv_hybrid.h: convolution by two dataflows (Spira paper: hybrid dataflow).
//
// The offsets of a kernel are divided by a threshold t: those with an L1 norm below it are dense,
// since near voxels are often there, the others sparse. Dense offsets are added output-stationary,
// from a layout of the map that has them alone (map_forms.os); sparse ones weight-stationary, from
// lists of pairs (map_build_pairs with the same t). t = 0: all offsets are sparse.
// t = kernel_norm_max + 1, or more: all are dense.
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

// The convolution of the dense offsets alone: what conv_form_of is asked for. The volume is 0 where
// there are none.
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
    const int64_t block = 64, blocks = ceil_div(outputs, block); // shares weights in cache
    SPIRA_PARALLEL_FOR
    for (int64_t b = 0; b < blocks; ++b) {
        int64_t column = 0;
        for (int k = 0; k < s->volume; ++k) {
            if (kernel_norm(kernel, k) >= threshold) {
                continue;
            }
            for (int64_t o = b * block; o < min_of(outputs, (b + 1) * block); ++o) {
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
// (conv_hybrid.cuh). `shape.type` is not looked at.
//
// inputs   in [inputs, cin], in2 [inputs, cin2] or null; weight [volume, cin + cin2, cout] of all
//          offsets; os [outputs, map_os_columns] of the dense offsets, pairs: of the others, as of
//          map_build_pairs_host with the same kernel and threshold; what has no offsets is not
//          looked at. The epilogue's residual is float [outputs, cout]
// outputs  out [outputs, cout]; may be no other array
// errors   null pointers, sizes, a volume that is not the kernel's, a threshold below 0
// The order of the additions is fixed: sparse offsets ascending, then dense ones, then channels.
SPIRA_API status conv_hybrid_host(const conv_shape *s, const kernel_shape *kernel, int threshold,
                                  const float *in, const float *in2, const float *weight,
                                  const int32_t *os, const map_pairs *pairs, int32_t outputs,
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
