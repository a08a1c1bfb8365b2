// spira/order/slots.cuh: counts the row slots of a layout.
#ifndef SPIRA_ORDER_SLOTS_CUH
#define SPIRA_ORDER_SLOTS_CUH

#include "../base/async.cuh"
#include "../order.h"

namespace spira {

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

} // namespace spira

#endif
