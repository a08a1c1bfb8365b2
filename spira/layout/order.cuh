// spira/layout/order.cuh: builds ordered layouts (layout/order.h) on the GPU, for up to 16 kernel
// maps at once.
//
// order_build launches three kernels, each over all maps:
//   order_clear_kernel       order/classes.cuh  clears counters
//   order_class_kernel       order/classes.cuh  sorts chunks of 1024 rows by the class of their key
//   order_group_kernel       order/groups.cuh   collects and sorts runs of 1024 positions; writes
//                                               rows, masks, sources and the schedule
// and one more for each kind of maps whose masks and sources it writes apart:
//   order_put_planes_kernel  order/planes.cuh   compact maps of size 5
//   order_put_kernel         order/wide.cuh     maps of more than 8 columns that are not compact
#ifndef SPIRA_LAYOUT_ORDER_CUH
#define SPIRA_LAYOUT_ORDER_CUH

#include "../base/launch.cuh"
#include "../device.h"
#include "order.h"
#include "order/classes.cuh"
#include "order/groups.cuh"
#include "order/planes.cuh"
#include "order/wide.cuh"

namespace spira {

// Returns the bytes of scratch for order_build. Of the requests only kernels and capacities are
// read.
SPIRA_API status order_workspace(const order_request *request, int maps, size_t *bytes) {
    int32_t rows, runs;
    SPIRA_TRY(order_count_rows(request, maps, &rows, &runs));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    order_carve(&w, maps, rows, runs);
    *bytes = w.used;
    return status_success();
}

// Launches the kernels of maps whose masks and sources order_group_kernel does not write.
SPIRA_LAUNCHER status order_launch_apart(bool programmatic, const order_batch &batch,
                                         cudaStream_t stream) {
    const unsigned pairs = (unsigned)batch.units[order_by_pair];
    const unsigned words = (unsigned)batch.units[order_by_word];
    if (pairs) {
        SPIRA_TRY(kernel_launch(order_put_planes_kernel<0>, pairs, order_planes_threads, 0,
                                programmatic, 1, stream, "order_build", batch));
    }
    if (!words) {
        return status_success();
    }
    const size_t taps =
        (size_t)order_put_threads * (size_t)order_pitch(batch.volume) * sizeof(int32_t);
    return kernel_launch(order_put_kernel<0>, words, order_put_threads, taps, programmatic, 1,
                         stream, "order_build", batch);
}

// order_build, or order_build_dependent. first: the first launch is programmatic as well
SPIRA_LAUNCHER status order_launch(const device_info *gpu, bool first, const order_request *request,
                                   int maps, void *scratch, size_t scratch_bytes,
                                   cudaStream_t stream) {
    size_t needed;
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(order_workspace(request, maps, &needed));
    for (int m = 0; m < maps; ++m) {
        SPIRA_TRY(order_request_check(request + m));
    }
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    const order_batch batch = order_batch_make(request, maps);
    workspace w = workspace_begin(scratch);
    const order_scratch s = order_carve(&w, maps, batch.rows, batch.units[order_by_run]);
    const bool programmatic = gpu->programmatic;
    SPIRA_TRY(kernel_launch(order_clear_kernel<0>, (unsigned)maps, order_threads, 0,
                            first && programmatic, 1, stream, "order_build", s));
    const unsigned runs = (unsigned)batch.units[order_by_run];
    SPIRA_TRY(kernel_launch(order_class_kernel<0>, runs, order_threads, 0, programmatic, 1, stream,
                            "order_build", batch, s));
    SPIRA_TRY(kernel_launch(order_group_kernel<0>, (unsigned)batch.units[order_by_ticket],
                            order_threads, 0, programmatic, 1, stream, "order_build", batch, s));
    return order_launch_apart(programmatic, batch, stream);
}

// Builds the ordered layouts of up to 16 kernel maps.
//
// inputs   gpu: from device_info_query
//          request [maps], host memory: each with a map, or its compact form (map_forms.compact,
//          map.h), and its count in device memory; larger counts are clamped to the capacity
//          scratch: the bytes of order_workspace, aligned to 256
// outputs  the layout of each request: all row groups of its capacity; those past the count have
//          rows of -1 and no offsets. Layouts must not overlap each other, a map or the scratch
// errors   null or misaligned pointers, sizes, a layout or scratch that is too small; then nothing
//          is launched
// Asynchronous, three to five launches; deterministic, the same bytes as order_build_host. From the
// second on, launches are programmatic where the device can (base/launch.cuh).
// cost     reads a map twice; of a compact map, first the `has` words, then the records. Writes 256
//          bytes for each offset of each row group. Writes and reads 16 bytes for each output
SPIRA_LAUNCHER status order_build(const device_info *gpu, const order_request *request, int maps,
                                  void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    return order_launch(gpu, false, request, maps, scratch, scratch_bytes, stream);
}

// The same, where the launch before it on the stream is a kernel that made the maps. The first
// launch is programmatic as well. That kernel must have been launched without `programmatic`, or
// must release its dependents only after it has waited (pdl_wait).
SPIRA_LAUNCHER status order_build_dependent(const device_info *gpu, const order_request *request,
                                            int maps, void *scratch, size_t scratch_bytes,
                                            cudaStream_t stream) {
    return order_launch(gpu, true, request, maps, scratch, scratch_bytes, stream);
}

// ---- slots --------------------------------------------------------------------------------------

enum { order_slots_threads = 256, order_slots_blocks = 1024 };

SPIRA_PLAIN_KERNEL void __launch_bounds__(order_slots_threads)
    order_slots_kernel(const __grid_constant__ order_layout t, const int32_t *__restrict__ count,
                       int32_t capacity, unsigned long long *slots) {
    const int32_t groups = order_count(count_clamp(*count, capacity));
    const int64_t words = (int64_t)groups * order_words(t.volume);
    const int64_t step = (int64_t)gridDim.x * order_slots_threads;
    unsigned long long sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * order_slots_threads + threadIdx.x; i < words;
         i += step) {
        sum += (unsigned)__popc(t.mask[i]) * order_rows;
    }
    for (int lanes = 16; lanes; lanes /= 2) {
        sum += __shfl_xor_sync(~0u, sum, lanes);
    }
    if (threadIdx.x % 32 == 0 && sum) {
        atomicAdd(slots, sum);
    }
}

// Counts the row slots of a layout: order_rows for each offset of each row group. A convolution
// multiplies this many rows; those with a source are the pairs of the kernel map.
//
// inputs   t: host struct; its masks, of order_build with the same count
//          count [1], device memory; a larger count is clamped to the capacity
// outputs  slots [1], device memory, aligned to 8
// errors   null or misaligned pointers, sizes, a layout that is too small for the capacity
// Asynchronous, a memset and a launch; deterministic, the same number as order_slots_host.
// cost     reads the masks once
SPIRA_LAUNCHER status order_slots(const order_layout *t, const int32_t *count, int32_t capacity,
                                  int64_t *slots, cudaStream_t stream) {
    SPIRA_TRY(order_slots_check(t, capacity, slots));
    SPIRA_TRY(pointer_check(count, sizeof *count, "count"));
    const int64_t words = (int64_t)order_count(capacity) * order_words(t->volume);
    const int64_t blocks = min_of(ceil_div(words, order_slots_threads), order_slots_blocks);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(slots, 0, sizeof *slots, stream), "slots"));
    return kernel_launch(order_slots_kernel<0>, (unsigned)blocks, order_slots_threads, 0, false, 1,
                         stream, "order_slots", *t, count, capacity, (unsigned long long *)slots);
}

} // namespace spira

#endif
