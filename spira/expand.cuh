// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/expand.cuh: the output set of a strided layer of spconv or TorchSparse, on the GPU.
//
// The rule and the host loop are in expand.h. Outputs are marked in a bitmap, whose set bits are
// listed in order; where it would be too large, all outputs that the inputs touch are sorted
// (index/expand_box.h chooses).
#ifndef SPIRA_EXPAND_CUH
#define SPIRA_EXPAND_CUH

#include "device.h"
#include "expand.h"
#include "index/expand_launch.cuh"

namespace spira {

// Bytes of scratch for expand_chain.
template <typename W>
SPIRA_API status expand_chain_workspace(const expand_args<W> *args, int count, size_t *bytes) {
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    expand_plan plan;
    *bytes = 0;
    for (int done = 0; done < count; done += plan.levels) {
        SPIRA_TRY(expand_plan_make(args + done, count - done, &plan));
        *bytes = (size_t)max_of((int64_t)*bytes, (int64_t)plan.bytes);
    }
    return status_success();
}

// Bytes of scratch for expand. Reads the layout, the kernel, the rule and the capacities alone.
template <typename W>
SPIRA_API status expand_workspace(const expand_args<W> *args, size_t *bytes) {
    return expand_chain_workspace(args, 1, bytes);
}

// The sets of layers behind each other, each of them as by `expand`. Where their boxes have few
// cells (expand_follows), the bitmap of a level is made of the one before: two kernels a level
// behind the first.
//
// inputs   args [count]: see expand_args; args[i + 1].in is args[i].out, and all have one layout
//          and one trouble
// outputs  as those of expand
// errors   those of expand, before the first launch; another input
template <typename W>
SPIRA_API status expand_chain(const device_info *gpu, const expand_args<W> *args, int count,
                              void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(size_check(count, 1, INT32_MAX, "count"));
    expand_plan plan;
    size_t bytes;
    for (int i = 0; i < count; ++i) {
        SPIRA_TRY(expand_check(args + i, &plan.level[0].axes));
        const bool follows =
            i == 0 || (args[i].in.words == args[i - 1].out.words &&
                       args[i].in.count == args[i - 1].out.count &&
                       args[i].in.capacity == args[i - 1].out.capacity &&
                       args[i].layout == args->layout && args[i].trouble == args->trouble);
        SPIRA_REQUIRE(follows, status_unsupported, "args (not behind each other)", i);
    }
    SPIRA_TRY(expand_chain_workspace(args, count, &bytes));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, bytes));
    for (int done = 0; done < count; done += plan.levels) {
        SPIRA_TRY(expand_plan_make(args + done, count - done, &plan));
        SPIRA_TRY(expand_launch(args + done, plan, scratch, gpu->programmatic, stream));
    }
    return status_success();
}

// The set of all voxels whose kernel touches the set `in`, on the grid of expand_out: the output
// set of a strided layer of spconv or TorchSparse. The rule is in expand.h.
//
// inputs   args: see expand_args. With gpu->programmatic the kernels behind the first one begin while
//          the one before ends
// outputs  args.out: the set, then word_none(), and its count
//          args.trouble: with the first voxel of `in`, device_flag_lattice if it lies between the
//          points of the rule's grid; device_flag_range if it is beyond the grid's ends, of no
//          batch of the layout, or touches an output outside of the layout. Such voxels or outputs
//          are left out. device_flag_capacity: a count of `in` or of outputs above the capacity
// errors   a transposed kernel at a ratio above 1, a ratio, padding or extent that is not allowed,
//          2^30 or more outputs that inputs may touch
// Asynchronous, deterministic, equal to expand_host.
// cost     one input touches up to the product over the axes of ceil(size / period) outputs, where
//          period = ratio / gcd(ratio, dilation): 8 for size 3 and ratio 2. Their bits are set in a
//          bitmap of all cells that outputs can have, which is cleared before and read after: three
//          kernels. The largest boxes take a radix sort of all that inputs touch. An extent on all
//          axes makes the box small; without one it is as large as the layout
template <typename W>
SPIRA_API status expand(const device_info *gpu, const expand_args<W> *args, void *scratch,
                        size_t scratch_bytes, cudaStream_t stream) {
    return expand_chain(gpu, args, 1, scratch, scratch_bytes, stream);
}

} // namespace spira

#endif
