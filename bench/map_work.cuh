// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// bench/map_work.cuh: a kernel map between two sets, in all its forms: memory, and a step for each.
#ifndef SPIRA_BENCH_MAP_WORK_CUH
#define SPIRA_BENCH_MAP_WORK_CUH

#include "bench.cuh"

template <typename W>
struct map_work {
    spira::word_layout layout;
    spira::kernel_shape kernel;
    bench_sets<W> source, outputs;
    int32_t *map;               // [outputs, volume]
    int32_t *compact;           // compact: [K, outputs, K + 1]
    spira::order_request order; // of `compact`
    spira::map_forms forms;     // what map_forms_step and map_lists_step write
    spira::map_lists pairs;
    spira::device_status *trouble;
    void *scratch; // of map_build_lists or order_build
    size_t scratch_bytes;
};

template <typename W>
static spira::status map_step(void *context, cudaStream_t stream) {
    const map_work<W> *w = (const map_work<W> *)context;
    return spira::map_build(&w->layout, &w->kernel, w->source.device, w->outputs.device, w->map,
                            stream);
}

template <typename W>
static spira::status map_forms_step(void *context, cudaStream_t stream) {
    const map_work<W> *w = (const map_work<W> *)context;
    return spira::map_build_forms(&w->layout, &w->kernel, w->source.device, w->outputs.device,
                                  &w->forms, stream);
}

template <typename W>
static spira::status map_compact_step(void *context, cudaStream_t stream) {
    map_work<W> *w = (map_work<W> *)context;
    w->forms = spira::map_forms_compact(w->compact, w->trouble);
    return map_forms_step<W>(context, stream);
}

// The search and, of its compact map, the ordered layout.
template <typename W>
static spira::status map_order_step(void *context, cudaStream_t stream) {
    const map_work<W> *w = (const map_work<W> *)context;
    SPIRA_TRY(map_compact_step<W>(context, stream));
    return spira::order_build(bench_gpu(), &w->order, 1, w->scratch, w->scratch_bytes, stream);
}

template <typename W>
static spira::status map_lists_step(void *context, cudaStream_t stream) {
    const map_work<W> *w = (const map_work<W> *)context;
    const spira::map_request<W> request = {w->kernel, w->source.device, w->outputs.device,
                                           w->forms};
    return spira::map_build_lists(&w->layout, &request, &w->pairs, w->scratch, w->scratch_bytes,
                                  stream);
}

// Memory for the compact map. Returns its bytes.
template <typename W>
SPIRA_API int64_t map_compact_make(bench_pool *pool, map_work<W> *w) {
    const int64_t total = spira::compact_total(w->kernel.size.x, *w->outputs.host.count);
    w->compact = bench_device<int32_t>(pool, total);
    return total * (int64_t)sizeof *w->compact;
}

// Memory for the ordered layout.
template <typename W>
SPIRA_API void map_order_make(bench_pool *pool, map_work<W> *w) {
    const int32_t count = *w->outputs.host.count;
    w->order = {};
    w->order.kernel = w->kernel;
    w->order.programmatic = true;
    w->order.compact = w->compact;
    w->order.count = w->outputs.device.count;
    w->order.capacity = count;
    w->order.layout = bench_order(pool, count, spira::kernel_volume(&w->kernel), true);
    w->scratch = bench_order_scratch(pool, &w->order, 1, &w->scratch_bytes);
}

// Memory for lists of so many pairs, and what else is written with them.
template <typename W>
SPIRA_API void map_lists_make(bench_pool *pool, map_work<W> *w, int64_t pairs,
                              const spira::map_forms *forms) {
    const int32_t room = (int32_t)pairs;
    w->forms = *forms;
    w->pairs = {bench_device<int32_t>(pool, spira::kernel_volume(&w->kernel) + 1),
                bench_device<int32_t>(pool, room), bench_device<int32_t>(pool, room), room};
    BENCH_TRY(
        spira::map_lists_workspace(&w->kernel, w->outputs.device.capacity, &w->scratch_bytes));
    w->scratch = bench_device<char>(pool, (int64_t)w->scratch_bytes);
}

#endif
