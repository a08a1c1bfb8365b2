// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/order.cuh: builds ordered layouts (order.h) on the GPU, for up to 16 kernel maps at once.
//
// order_build launches three kernels, each over all maps:
//   order_clear_kernel       order/classes.cuh  clears counters
//   order_class_kernel       order/classes.cuh  sorts chunks of 1024 rows by the class of their key
//   order_group_kernel       order/groups.cuh   collects and sorts runs of 1024 positions; writes
//                                               rows, masks, sources and the schedule
// and one more for each kind of maps whose masks and sources it writes apart:
//   order_put_planes_kernel  order/planes.cuh   compact maps of size 5
//   order_put_large_kernel   order/large.cuh    compact maps of large kernels
//   order_put_kernel         order/wide.cuh     maps of more than 8 columns that are not compact
#ifndef SPIRA_ORDER_CUH
#define SPIRA_ORDER_CUH

#include "base/launch.cuh"
#include "device.h"
#include "order.h"
#include "order/classes.cuh"
#include "order/groups.cuh"
#include "order/large.cuh"
#include "order/planes.cuh"
#include "order/wide.cuh"

namespace spira {

// Returns the bytes of scratch for order_build. Of the requests only kernels and capacities are
// read.
SPIRA_API status order_workspace(const order_request *request, int maps, size_t *bytes) {
    int32_t rows, runs;
    SPIRA_TRY(order_count_rows(request, maps, &rows, &runs));
    return workspace_measure(bytes, [&](workspace *w) { order_carve(w, maps, rows, runs); });
}

// Builds the ordered layouts of up to 16 kernel maps.
//
// inputs   gpu: from device_info_query
//          request [maps], host memory: each with a map, or its compact form (map_forms.compact,
//          map.h), and its count in device memory; larger counts are clamped to the capacity.
//          request[0].programmatic: the launch before this one on the stream is of the kernel that
//          made the maps. That kernel was launched without `programmatic`, or releases its
//          dependents only after it has waited (pdl_wait). Then the first launch is programmatic
//          where the device can (base/launch.cuh), as the others are in any case
// outputs  the layout of each request: all row groups of its capacity; those past the count have
//          rows of -1 and no offsets. Layouts must not overlap each other, a map or the scratch
// Asynchronous, three to six launches; deterministic, the same bytes as order_build_host.
// cost     reads a map twice; of a compact map, first the `has` words, then the records. Writes 256
//          bytes for each offset of each row group. Writes and reads 16 bytes for each output
SPIRA_LAUNCHER status order_build(const device_info *gpu, const order_request *request, int maps,
                                  void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    int32_t rows, runs;
    SPIRA_TRY(order_count_rows(request, maps, &rows, &runs));
    for (int m = 0; m < maps; ++m) {
        SPIRA_TRY(order_request_check(request + m));
    }
    order_scratch s;
    SPIRA_TRY(workspace_open(scratch, scratch_bytes,
                             [&](workspace *w) { s = order_carve(w, maps, rows, runs); }));
    const order_batch batch = order_batch_make(request, maps);
    const int32_t *units = batch.units;
    auto launch = [=](auto kernel, int32_t blocks, int threads, size_t shared, bool programmatic,
                      const auto &...arguments) {
        return blocks ? kernel_launch(kernel,
                                      {(unsigned)blocks, (unsigned)threads, stream, "order_build",
                                       programmatic && gpu->programmatic, shared},
                                      arguments...)
                      : status_success();
    };
    const size_t taps = sizeof(int32_t) * order_put_threads * (size_t)order_pitch(batch.volume);
    SPIRA_TRY(launch(order_clear_kernel<0>, maps, order_threads, 0, request->programmatic, s));
    SPIRA_TRY(launch(order_class_kernel<0>, units[order_by_run], order_threads, 0, true, batch, s));
    SPIRA_TRY(
        launch(order_group_kernel<0>, units[order_by_ticket], order_threads, 0, true, batch, s));
    SPIRA_TRY(launch(order_put_planes_kernel<0>, units[order_by_pair], order_planes_threads, 0,
                     true, batch));
    SPIRA_TRY(launch(order_put_large_kernel<0>, units[order_by_large], order_large_threads, 0, true,
                     batch));
    return launch(order_put_kernel<0>, units[order_by_word], order_put_threads, taps, true, batch);
}

} // namespace spira

#endif
