// spira/gemm/plan.cuh: plans a layer: reads the sizes of its pair lists, groups the products, and
// lists where rows are copied from and to.
#ifndef SPIRA_GEMM_PLAN_CUH
#define SPIRA_GEMM_PLAN_CUH

#include "../base/launch.cuh"
#include "layer.cuh"

namespace spira {

// Returns i with begin[i] <= at < begin[i + 1], for 0 <= at < begin[intervals].
SPIRA_DEVICE int ggs_interval(const int32_t *begin, int intervals, int32_t at) {
    int low = 0, high = intervals;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (begin[middle] <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Writes begin, differs (0 before) and the number of outputs to `report`. An offset with as many
// pairs as outputs differs if one of them is not (i, i).
SPIRA_PLAIN_KERNEL void __launch_bounds__(ggs_threads)
    ggs_sizes_kernel(map_lists pairs, int volume, const int32_t *count, int32_t outputs,
                     int32_t *report) {
    int64_t first = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * ggs_threads;
    int32_t rows = count_clamp(*count, outputs), total = min(pairs.begin[volume], pairs.capacity);
    for (int64_t k = first; k <= volume; k += step) {
        report[k] = pairs.begin[k];
    }
    if (first == 0) {
        report[2 * volume + 1] = rows;
    }
    for (int64_t p = first; p < total; p += step) {
        int k = ggs_interval(pairs.begin, volume, (int32_t)p);
        int32_t begin = pairs.begin[k], at = (int32_t)p - begin;
        if (pairs.begin[k + 1] - begin == rows && (pairs.input[p] != at || pairs.output[p] != at)) {
            report[volume + 1 + k] = 1;
        }
    }
}

struct ggs_places {
    int32_t *place;  // [pairs] row of the buffers
    uint32_t *key;   // [pairs] input row, `inputs` if it is not gathered; or null
    int32_t *source; // [pairs] the same with -1; or null
    int32_t *target; // [pairs] output row; or null
};

// Writes the place of each pair in the buffers, and what else `out` asks for.
SPIRA_PLAIN_KERNEL void __launch_bounds__(ggs_threads)
    ggs_place_kernel(map_lists pairs, int volume, int32_t total, const int32_t *row, int direct,
                     int32_t inputs, ggs_places out) {
    int64_t step = (int64_t)gridDim.x * ggs_threads;
    for (int64_t p = (int64_t)blockIdx.x * ggs_threads + threadIdx.x; p < total; p += step) {
        int k = ggs_interval(pairs.begin, volume, (int32_t)p);
        out.place[p] = row[k] + (int32_t)p - pairs.begin[k];
        if (out.key) {
            out.key[p] = (uint32_t)(k == direct ? inputs : pairs.input[p]);
        }
        if (out.source) {
            out.source[p] = k == direct ? -1 : pairs.input[p];
            out.target[p] = pairs.output[p];
        }
    }
}

// begin [rows + 1]: the first of each row's keys.
SPIRA_PLAIN_KERNEL void __launch_bounds__(ggs_threads)
    ggs_begin_kernel(const uint32_t *sorted, int32_t total, int32_t rows, int32_t *begin) {
    int64_t row = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    if (row > rows) {
        return;
    }
    int32_t low = 0, high = total;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (sorted[middle] < (uint32_t)row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    begin[row] = low;
}

// Copies the sizes to the host. Synchronises.
SPIRA_LAUNCHER status ggs_plan_sizes(int volume, const ggs_map *map, const ggs_memory *m,
                                     ggs_host h, cudaStream_t stream) {
    size_t bytes = (size_t)ggs_report_size(volume) * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(m->report, 0, bytes, stream), "ggs_plan"));
    unsigned blocks = (unsigned)min_of(
        ceil_div(max_of(map->pairs.capacity, volume + 1), ggs_threads), ggs_blocks);
    SPIRA_TRY(kernel_launch(ggs_sizes_kernel<>, {blocks, ggs_threads, stream, "ggs_plan"},
                            map->pairs, volume, map->count, map->outputs, m->report));
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(h.begin, m->report, bytes, cudaMemcpyDeviceToHost, stream), "ggs_plan"));
    SPIRA_TRY(status_from_cuda(cudaStreamSynchronize(stream), "ggs_plan"));
    bool good = h.begin[0] == 0 && h.begin[volume] <= map->pairs.capacity;
    for (int k = 0; k < volume; ++k) {
        good = good && h.begin[k] <= h.begin[k + 1];
    }
    SPIRA_REQUIRE(good, status_bad_size, "map.pairs.begin (does not ascend)", h.begin[volume]);
    SPIRA_REQUIRE(*h.outputs >= 0, status_bad_size, "map.count", *h.outputs);
    return status_success();
}

// The offset that need not be gathered, or -1. tf32 must round its operands, and so gather them.
SPIRA_API int32_t ggs_plan_direct(const ggs_layer *l, ggs_host h) {
    for (int k = 0; k < l->shape.volume; ++k) {
        bool identity = h.sizes[k] > 0 && h.sizes[k] == l->outputs && !h.differs[k];
        if (identity && l->options.direct && l->shape.type != numeric_tf32) {
            return k;
        }
    }
    return -1;
}

// Kernels, memsets and cuBLAS calls of a run.
SPIRA_API int32_t ggs_plan_launches(const ggs_layer *l) {
    if (l->outputs == 0) {
        return 0;
    }
    int32_t launches = (l->gathered > 0) + 1, lists = 0;
    for (int32_t i = 0; i < l->groups.count; ++i) {
        const ggs_group *g = l->groups.group + i;
        launches += g->kind == ggs_kind_direct    ? 1 + (l->shape.cin2 > 0)
                    : g->kind == ggs_kind_grouped ? (int32_t)ceil_div(g->count, ggs_grouped_max)
                                                  : 1;
    }
    for (int k = 0; k < l->shape.volume; ++k) {
        lists += l->sizes[k] > 0;
    }
    return launches + (l->options.order == ggs_order_pairs ? 1 + lists : 0);
}

// Lists the padding of batches.
SPIRA_API void ggs_plan_padding(ggs_layer *l) {
    const ggs_table *t = &l->host;
    l->pads = l->padding = 0;
    for (int32_t i = 0; i < l->groups.count; ++i) {
        const ggs_group *g = l->groups.group + i;
        for (int32_t m = g->first; m < g->first + g->count && g->kind == ggs_kind_batch; ++m) {
            int32_t size = l->sizes[t->order[m]];
            if (size < g->rows) {
                t->pad_first[l->pads] = t->row[t->order[m]] + size;
                t->pad_begin[l->pads++] = l->padding;
                l->padding += g->rows - size;
            }
        }
    }
    for (int i = l->pads; i <= l->shape.volume; ++i) { // the whole table is copied
        t->pad_begin[i] = l->padding;
        if (i < l->shape.volume) {
            t->pad_first[i] = 0;
        }
    }
}

// Everything that follows from the sizes.
SPIRA_API status ggs_plan_groups(ggs_layer *l, ggs_host h) {
    int volume = l->shape.volume;
    l->outputs = *h.outputs;
    l->pairs = h.begin[volume];
    l->begin = h.begin;
    l->sizes = h.sizes;
    l->host = ggs_table_at(h.table, volume);
    for (int k = 0; k < volume; ++k) {
        h.sizes[k] = h.begin[k + 1] - h.begin[k];
    }
    l->direct = ggs_plan_direct(l, h);
    int32_t direct = l->direct < 0 ? 0 : h.sizes[l->direct];
    if (direct) {
        h.sizes[l->direct] = 0;
    }
    l->groups.order = l->host.order;
    l->groups.group = h.group;
    std::fill(l->host.order, l->host.order + volume, 0); // the whole table is copied
    SPIRA_TRY(ggs_group_offsets(&l->options.grouping, h.sizes, volume, &l->groups));
    l->gathered = (int32_t)l->groups.rows;
    if (direct) {
        h.sizes[l->direct] = direct;
        ggs_group_direct(&l->groups, l->direct, direct);
    }
    l->rows = (int32_t)l->groups.rows;
    ggs_group_place(&l->groups, h.sizes, volume, l->host.row);
    ggs_plan_padding(l);
    l->launches = ggs_plan_launches(l);
    return status_success();
}

// Makes the list of each row, by key.
SPIRA_LAUNCHER status ggs_plan_list(ggs_memory *m, const ggs_layer *l, const uint32_t *key,
                                    int bits, int32_t rows, int32_t *begin, int32_t *list,
                                    cudaStream_t stream) {
    if (l->pairs) {
        SPIRA_TRY(ggs_sort(m, key, list, l->pairs, bits, stream));
    }
    return kernel_launch(
        ggs_begin_kernel<>,
        {(unsigned)ceil_div((int64_t)rows + 1, ggs_threads), ggs_threads, stream, "ggs_plan"},
        m->sorted, l->pairs, rows, begin);
}

SPIRA_LAUNCHER status ggs_plan_lists(ggs_memory *m, const ggs_layer *l, const ggs_map *map,
                                     cudaStream_t stream) {
    bool rows = l->options.order == ggs_order_rows;
    ggs_places out = {m->place, rows ? m->key : nullptr, m->lists.source, m->lists.target};
    if (l->pairs) {
        unsigned blocks = (unsigned)min_of(ceil_div(l->pairs, ggs_threads), ggs_blocks);
        SPIRA_TRY(kernel_launch(ggs_place_kernel<>, {blocks, ggs_threads, stream, "ggs_plan"},
                                map->pairs, l->shape.volume, l->pairs, l->device.row, l->direct,
                                l->inputs, out));
    }
    if (!rows) {
        return status_success();
    }
    int in_bits = bits_for((uint64_t)l->inputs), out_bits = bits_for((uint64_t)l->outputs);
    SPIRA_TRY(ggs_plan_list(m, l, m->key, in_bits, l->inputs, m->lists.in_begin, m->lists.in_place,
                            stream));
    return ggs_plan_list(m, l, (const uint32_t *)map->pairs.output, (int)max_of(out_bits, 1),
                         l->outputs, m->lists.out_begin, m->lists.out_place, stream);
}

SPIRA_API status ggs_stream_check(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SPIRA_TRY(status_from_cuda(cudaStreamIsCapturing(stream, &capture), "stream"));
    SPIRA_REQUIRE(capture == cudaStreamCaptureStatusNone, status_unsupported,
                  "stream (is captured: ggs_plan synchronises it)", 0);
    return status_success();
}

} // namespace spira

#endif
