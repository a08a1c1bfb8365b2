// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/norm_groups.cuh: GroupNorm and instance norm on the GPU. What they are, and the host loop:
// norm_groups.h.
#ifndef SPIRA_NORM_GROUPS_CUH
#define SPIRA_NORM_GROUPS_CUH

#include "norm/batch.cuh"

namespace spira {

SPIRA_API status norm_groups_measure(int64_t batches, int channels, int32_t capacity, bool grad,
                                     size_t *bytes) {
    norm_groups_places p;
    return workspace_measure(
        bytes, [&](workspace *w) { norm_groups_carve(w, batches, channels, capacity, grad, &p); });
}

// Bytes of scratch for norm_groups.
template <typename W>
SPIRA_API status norm_groups_workspace(const norm_groups_args<W> *args, size_t *bytes) {
    SPIRA_TRY(norm_groups_check(args));
    return norm_groups_measure(args->layout->batches, args->rows.channels, args->set.capacity,
                               false, bytes);
}

// Bytes of scratch for norm_groups_grad.
template <typename W>
SPIRA_API status norm_groups_grad_workspace(const norm_groups_grad_args<W> *args, size_t *bytes) {
    SPIRA_TRY(norm_groups_grad_check(args));
    const norm_groups_args<W> &a = args->norm;
    return norm_groups_measure(a.layout->batches, a.rows.channels, a.set.capacity, true, bytes);
}

// The launches of norm_groups and norm_groups_grad. t->args and t->wide are there.
template <numeric format, bool grad, typename W>
SPIRA_API status norm_groups_launch(norm_groups_task<W> *t, void *scratch, size_t scratch_bytes,
                                    cudaStream_t stream) {
    const norm_groups_args<W> &a = t->args.norm;
    const int channels = a.rows.channels, batches = a.layout->batches;
    const char *const subject = grad ? "norm_groups_grad" : "norm_groups";
    t->layout = *a.layout;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes, [&](workspace *w) {
        norm_groups_carve(w, batches, channels, a.set.capacity, grad, &t->places);
    }));
    const int64_t blocks =
        ceil_div((int64_t)a.set.capacity * ceil_div(channels, norm_group), norm_threads);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "set.capacity * channels", blocks);
    const auto launch = [&](auto kernel, int64_t x, int y) {
        return kernel_launch(kernel,
                             {dim3((unsigned)x, (unsigned)y), norm_threads, stream, subject}, *t);
    };
    const int parts = norm_parts(channels, a.set.capacity);
    return numeric_dispatch<format>(a.rows.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        SPIRA_TRY(launch(norm_part_kernel<W, E, false>, parts, batches));
        SPIRA_TRY(launch(norm_join_kernel<W, false>, a.groups, batches));
        if constexpr (grad) {
            SPIRA_TRY(launch(norm_part_kernel<W, E, true>, parts, batches));
            SPIRA_TRY(launch(norm_join_kernel<W, true>, a.groups, batches));
            SPIRA_TRY(norm_vectors_launch(
                {t->places.part, batches * parts, channels, t->args.shift_grad, t->args.gain_grad},
                subject, stream));
        }
        return launch(norm_apply_kernel<W, E, grad>, blocks, 1);
    });
}

// Normalises over all voxels of a batch element and the channels of a group.
//
// inputs   args: see norm_groups_args. `format` is the only format that is compiled
// outputs  args.out [count, channels]. Rows from the count on are not written; a count above the
//          capacity is clamped
// errors   an epsilon that is not above 0; groups that do not divide the channels
// Asynchronous, deterministic: sums are fp32, in an order that depends on the numbers of voxels and
// channels and the capacity alone; norm_groups_host sums in double. A NaN or an infinity spreads
// over its batch element and group.
// cost     three launches; features are read twice, and written once. Widest if channels is a
//          multiple of 8 and the arrays are aligned to 16 bytes
template <typename W, numeric format = numeric_any>
SPIRA_API status norm_groups(const norm_groups_args<W> *args, void *scratch, size_t scratch_bytes,
                             cudaStream_t stream) {
    SPIRA_TRY(norm_groups_check(args));
    norm_groups_task<W> t = {};
    t.args.norm = *args;
    const norm_args &rows = args->rows;
    t.wide = rows.channels % norm_group == 0 && wide_aligned(rows.in, 16) &&
             wide_aligned(rows.residual, 16) && wide_aligned(rows.out, 16);
    return norm_groups_launch<format, false>(&t, scratch, scratch_bytes, stream);
}

// The gradients of norm_groups.
//
// inputs   args: see norm_gradients
// outputs  args.in_grad [count, channels], gain_grad and shift_grad [channels]
// errors   as of norm_groups; an activation, a residual or an output in args.norm
// Asynchronous, deterministic, with sums as above.
// cost     six launches; features are read three times, out_grad twice, in_grad is written once
template <typename W, numeric format = numeric_any>
SPIRA_API status norm_groups_grad(const norm_groups_grad_args<W> *args, void *scratch,
                                  size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_TRY(norm_groups_grad_check(args));
    norm_groups_task<W> t = {};
    t.args = *args;
    const norm_args &rows = args->norm.rows;
    t.wide = rows.channels % norm_group == 0 && wide_aligned(rows.in, 16) &&
             wide_aligned(args->out_grad, 16) && wide_aligned(args->in_grad, 16);
    return norm_groups_launch<format, true>(&t, scratch, scratch_bytes, stream);
}

} // namespace spira

#endif
