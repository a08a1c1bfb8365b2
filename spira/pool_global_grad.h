// spira/pool_global_grad.h: the gradient of global pooling: one row for each batch index.
//
// Of a maximum, the gradient of a batch index goes to the one voxel that `pool_global` takes: the
// first of the largest, or the last NaN. Of an average, each voxel gets its share.
#ifndef SPIRA_POOL_GLOBAL_GRAD_H
#define SPIRA_POOL_GLOBAL_GRAD_H

#include "pool_grad.h"

namespace spira {

// One gradient. Start from zero and fill it by name; all but `in` of an average is required. In
// host memory for pool_global_grad_host, where features are floats and `type` is not read.
template <typename W>
struct pool_global_grad_args {
    pool_kind kind;
    numeric type;
    const word_layout *layout; // on the host
    voxel_set<W> set;          // the voxels of the features
    int channels;
    const void *in;       // [voxels, channels] of the layer; of an average it may be null
    const void *out_grad; // [batches, channels]
    void *in_grad;        // [set.capacity, channels]
};

template <typename W>
SPIRA_API status pool_global_grad_check(const pool_global_grad_args<W> *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(a->kind == pool_max || a->kind == pool_average, status_unsupported, "kind",
                  a->kind);
    SPIRA_REQUIRE(numeric_valid(a->type), status_unsupported, "type", a->type);
    SPIRA_TRY(word_check<W>(a->layout));
    SPIRA_TRY(voxel_set_check(&a->set));
    SPIRA_REQUIRE(a->channels >= 1, status_bad_size, "channels", a->channels);
    const size_t element = (size_t)numeric_size(a->type);
    if (a->kind == pool_max) {
        SPIRA_TRY(pointer_check(a->in, element, "in"));
    }
    SPIRA_TRY(pointer_check(a->out_grad, element, "out_grad"));
    SPIRA_TRY(pointer_check(a->in_grad, element, "in_grad"));
    SPIRA_REQUIRE(a->in_grad != a->in && a->in_grad != a->out_grad, status_unsupported,
                  "in_grad (overlaps an input)", 0);
    return status_success();
}

// The gradient of global pooling: the host loop of `pool_global_grad` (pool_global_grad.cuh), on
// floats.
//
// inputs   args: see pool_global_grad_args; all arrays in host memory
// outputs  args->in_grad; rows from the count on are not written
template <typename W>
SPIRA_API status pool_global_grad_host(const pool_global_grad_args<W> *args) {
    pool_global_grad_args<W> a = *args;
    a.type = numeric_f32;
    SPIRA_TRY(pool_global_grad_check(&a));
    const float *in = (const float *)a.in, *out_grad = (const float *)a.out_grad;
    const int64_t channels = a.channels;
    for (int64_t b = 0; b < a.layout->batches; ++b) {
        int32_t first, last;
        pool_batch_range(a.layout, a.set.words, voxel_set_count(a.set), (int)b, &first, &last);
        for (int64_t c = 0; c < channels; ++c) {
            const float grad = out_grad[b * channels + c];
            int64_t winner = -1;
            for (int64_t v = first; v < last && a.kind == pool_max; ++v) {
                const float value = winner < 0 ? 0 : in[winner * channels + c];
                winner = pool_takes(winner < 0, in[v * channels + c], value) ? v : winner;
            }
            for (int64_t v = first; v < last; ++v) {
                const float share = grad / (float)(last - first);
                ((float *)a.in_grad)[v * channels + c] = a.kind == pool_average ? share
                                                         : v == winner          ? grad
                                                                                : 0;
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
