// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/hybrids.cuh: convolution problems whose offsets are divided by a threshold: each
// half of the map, and the packed weights of both.
#ifndef SPIRA_TESTS_HYBRIDS_CUH
#define SPIRA_TESTS_HYBRIDS_CUH

#include "../../spira/conv_hybrid.cuh"
#include "problems.cuh"

namespace problems {

// The columns of the offsets with a norm below the threshold, as map_forms.os has them.
SPIRA_API problem problem_dense(const problem *p, const kernel_shape *kernel, int threshold) {
    const size_t volume = (size_t)p->shape.volume;
    problem dense = *p;
    dense.map.clear();
    for (size_t i = 0; i < p->map.size(); ++i) {
        if (kernel_norm(kernel, (int)(i % volume)) < threshold) {
            dense.map.push_back(p->map[i]);
        }
    }
    dense.shape = conv_hybrid_dense(&p->shape, kernel, threshold);
    return dense;
}

// The pair lists of the other offsets.
SPIRA_API map_lists sparse_upload(const problem *p, const kernel_shape *kernel, int threshold) {
    problem sparse = *p;
    for (size_t i = 0; i < sparse.map.size(); ++i) {
        bool dense = kernel_norm(kernel, (int)(i % (size_t)p->shape.volume)) < threshold;
        sparse.map[i] = dense ? -1 : sparse.map[i];
    }
    return pairs_upload(&sparse);
}

SPIRA_API const void *hybrid_weights_upload(const problem *p, const kernel_shape *kernel,
                                            int threshold) {
    conv_hybrid_args layer = {};
    layer.shape = p->shape;
    layer.kernel = *kernel;
    layer.threshold = threshold;
    size_t bytes = 0;
    CHECK_OK(conv_hybrid_weights_bytes(gpu(), &layer, &bytes));
    char *packed = device_new<char>((int64_t)bytes);
    const float *weight = device_upload(p->weight.data(), (int64_t)p->weight.size());
    const conv_weights weights = {weight, packed, bytes, nullptr};
    CHECK_OK(conv_hybrid_weights_pack(gpu(), &layer, &weights, stream_get()));
    return packed;
}

} // namespace problems

#endif
