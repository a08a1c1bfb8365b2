// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/net/overlap.cuh: runs a plan on two streams: the coarse part of the index on the second
// one, the fine part and the first layers on the caller's.
#ifndef SPIRA_NET_OVERLAP_CUH
#define SPIRA_NET_OVERLAP_CUH

#include "index.cuh"
#include "layers.cuh"

namespace spira {

SPIRA_API status net_side_check(const net_plan *p, const net_side *side) {
    SPIRA_REQUIRE(p->limits.overlap, status_unsupported, "side (of a plan without limits.overlap)",
                  0);
    SPIRA_REQUIRE(side->begun, status_null_pointer, "side.begun", 0);
    SPIRA_REQUIRE(side->indexed, status_null_pointer, "side.indexed", 0);
    return status_success();
}

// Later work on stream `to` waits for the work that is on stream `from` now.
SPIRA_API status net_wait(cudaStream_t to, cudaEvent_t event, cudaStream_t from) {
    SPIRA_TRY(status_from_cuda(cudaEventRecord(event, from), "side (event)"));
    return status_from_cuda(cudaStreamWaitEvent(to, event, 0), "side (stream)");
}

// The fine part of the index and the first `layers` layers, which need no more.
template <typename W, numeric format>
SPIRA_API status net_run_fine(const net_plan *p, int layers, const net_run_args<W> *run,
                              cudaStream_t stream) {
    const status indexed = net_index_part(p, net_part_fine, run, stream);
    status ready = status_success();
    if (run->side->features) {
        ready =
            status_from_cuda(cudaStreamWaitEvent(stream, run->side->features, 0), "side.features");
    }
    SPIRA_TRY(indexed);
    SPIRA_TRY(ready);
    return net_layers_start<format>(p, 0, layers, run, stream);
}

// The whole index and the layers that need no more than its fine part, on two streams. *layers:
// their number. The streams are joined at the end, after a failure too, so that a capture can be
// ended.
template <typename W, numeric format>
SPIRA_API status net_run_overlapped(const net_plan *p, const net_run_args<W> *run, int *layers,
                                    cudaStream_t stream) {
    const net_side *side = run->side;
    *layers = net_fine_layers(p);
    SPIRA_TRY(net_wait(side->stream, side->begun, stream));
    const status coarse = net_index_part(p, net_part_coarse, run, side->stream);
    const status fine = net_run_fine<W, format>(p, *layers, run, stream);
    SPIRA_TRY(net_wait(stream, side->indexed, side->stream));
    SPIRA_TRY(coarse);
    return fine;
}

} // namespace spira

#endif
