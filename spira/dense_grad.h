// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/dense_grad.h: the gradient of a dense map: each voxel gets that of its cell.
#ifndef SPIRA_DENSE_GRAD_H
#define SPIRA_DENSE_GRAD_H

#include "dense.h"

namespace spira {

// The checks of dense_grad and dense_grad_host. args.features is not read.
template <typename W>
SPIRA_API status dense_grad_check(const dense_args<W> *args, const void *features_grad) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_REQUIRE(numeric_valid(args->type), status_unsupported, "type", args->type);
    SPIRA_TRY(pointer_check(features_grad, (size_t)numeric_size(args->type), "features_grad"));
    SPIRA_REQUIRE(args->out != features_grad, status_unsupported, "out (overlaps features_grad)",
                  0);
    dense_args<W> layer = *args;
    layer.features = features_grad;
    return dense_check(&layer);
}

// The host loop of `dense_grad` (dense_grad.cuh), on host memory.
template <typename W>
SPIRA_API status dense_grad_host(const dense_args<W> *args, void *features_grad) {
    SPIRA_TRY(dense_grad_check(args, features_grad));
    const int32_t count = voxel_set_count(args->set);
    for (int32_t i = 0; i < count; ++i) {
        voxel cell;
        const bool there = !dense_locate(args->layout, &args->grid, args->stride, args->batch,
                                         args->set.words[i], &cell);
        for (int c = 0; c < args->channels; ++c) {
            const int64_t to = (int64_t)i * args->channels + c;
            if (there) {
                dense_copy_host(args->out_type, args->out,
                                dense_at(args->order, args->grid.extent, args->channels, cell, c),
                                args->type, features_grad, to);
            } else {
                numeric_store(args->type, features_grad, to, 0);
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
