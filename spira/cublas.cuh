// spira/cublas.cuh: convolution by gather, cuBLAS products and scatter. Opt-in: spira.cuh leaves it
// out, and what includes it is linked with -lcublas.
//
// The dataflow of the TorchSparse and Minuet papers, on the filtered weight-stationary lists of
// map_build_pairs, in three steps:
//
//   gather    input rows to a buffer, offset by offset: gathered [rows, cin + cin2]
//   products  gathered * weight[k] of each offset, grouped (gemm/group.h): products [rows, cout]
//   scatter   the products of each output added up, and the epilogue: out [outputs, cout]
//
// Products stay fp32 until they are added up, and each output is rounded once. Gather and scatter
// go by rows (ggs_order_rows): each input row is read once and written to all its places, each
// output's products are added in registers, offsets ascending, and written once. The simple order
// (ggs_order_pairs) goes pair by pair, and adds up in memory, one launch for each offset. Both are
// deterministic.
//
// How many rows a product has is an argument of cuBLAS: ggs_plan copies the sizes of the lists to
// the host and waits for them. It is the one function of spira that does, and who calls it has
// chosen that. A plan holds for one kernel map and one shape, however many layers have them;
// ggs_run does not wait.
//
// Handles belong to the caller. Before ggs_run the handle's stream must be the stream of the run;
// ggs_run does not set it, because cublasSetStream takes the handle's workspace away. So, once:
//
//   cublasCreate(&handle); cublasSetStream(handle, stream); cublasSetWorkspace(handle, memory, n);
//
// Without cublasSetWorkspace a captured graph has cuBLAS's own allocations in it; 32 MiB are enough
// on sm_90, 4 MiB below. Run once before capturing: what cuBLAS loads late cannot be loaded then.
#ifndef SPIRA_CUBLAS_CUH
#define SPIRA_CUBLAS_CUH

#include "conv.h"
#include "gemm/group.h"
#include "map.h"
#include "numeric.cuh"
#include "status.cuh"
#include "workspace.h"

#include <cub/device/device_radix_sort.cuh>
#include <cublas_v2.h>

namespace spira {

enum {
    ggs_threads = 256,
    ggs_chunk = 16,       // bytes that a thread moves at once
    ggs_blocks = 1024,    // of the kernels that stride over the pairs
    ggs_lanes_max = 16,   // streams beside the run's own
    ggs_grouped_max = 64, // products of one call of cublasGemmGroupedBatchedEx
};

// ---- what is wanted -----------------------------------------------------------------------------

enum ggs_order : int { ggs_order_rows, ggs_order_pairs };

struct ggs_options {
    ggs_grouping grouping;
    ggs_order order;
    int gather_tile, scatter_tile; // chunks of 16 bytes of a row for each thread: 1, 2, 4 or 8
    bool direct; // an offset that pairs every row with itself is multiplied where it stands
};

// Batches of similar sizes with up to a tenth of padding, rows in order, a chunk a thread.
SPIRA_API ggs_options ggs_options_default() {
    ggs_options o = {{ggs_rule_sorted, 0.1, 1 << 16, false}, ggs_order_rows, 1, 1, true};
    return o;
}

// A kernel map as the plan reads it. Device memory, but for the struct.
struct ggs_map {
    map_pairs pairs;      // of map_build_pairs, all offsets in the lists
    int32_t inputs;       // capacity of the source set
    const int32_t *count; // [1] outputs, at most the capacity
    int32_t outputs;      // capacity of the output set
};

// What a plan keeps in device memory. By rows: list r of `in` has the places in the buffer that
// input r goes to, list o of `out` the products of output o, offsets ascending.
struct ggs_lists {
    int32_t *in_begin, *in_place;   // [inputs + 1], [pairs]
    int32_t *out_begin, *out_place; // [outputs + 1], [pairs]
    int32_t *source;                // by pairs: [pairs] input row, -1 if it is not gathered
    int32_t *place;                 // by pairs: [pairs] row of the buffers
    int32_t *target;                // by pairs: [pairs] output row
};

// Tables of offsets, on either side.
struct ggs_table {
    int32_t *row;       // [volume] where an offset's rows start in the buffers
    int32_t *pad_first; // [volume] where the padding of a product starts, for those that have some
    int32_t *pad_begin; // [volume + 1] how many rows of padding are before it
    int32_t *order;     // [volume] ggs_groups.order
};

// A planned layer: plain data. Points into the host memory and the workspace that ggs_plan got.
struct ggs_layer {
    conv_shape shape;
    ggs_options options;
    int32_t inputs;         // capacity of the source set
    int32_t outputs, pairs; // how many there are
    int32_t rows;           // of products, padding included
    int32_t gathered;       // of the gather buffer, padding included
    int32_t pads, padding;  // products that have padding, rows of it
    int32_t direct;         // the offset that is multiplied where it stands, or -1
    int32_t launches;       // kernels, memsets and calls of cuBLAS in a run
    ggs_groups groups;      // host
    const int32_t *sizes;   // [volume] host: pairs of each offset
    const int32_t *begin;   // [volume + 1] host
    ggs_table host, device;
    ggs_lists lists;
    size_t kept_bytes; // of the plan's workspace: what is behind them is free after ggs_plan
};

// ---- host memory and workspace of a plan --------------------------------------------------------

// How many int32_t of host memory ggs_plan asks for.
SPIRA_API int64_t ggs_host_size(int volume) {
    return 11 * (int64_t)volume + 3;
}

SPIRA_API int64_t ggs_table_size(int volume) {
    return 4 * (int64_t)volume + 1;
}

SPIRA_API ggs_table ggs_table_at(int32_t *base, int volume) {
    ggs_table t = {base, base + volume, base + 2 * volume, base + 3 * volume + 1};
    return t;
}

// The host memory, cut up.
struct ggs_host {
    int32_t *begin;   // [volume + 1] these three come from the device in one copy
    int32_t *differs; // [volume] not every row is paired with itself
    int32_t *outputs; // [1]
    int32_t *sizes;   // [volume]
    int32_t *table;   // [ggs_table_size]
    ggs_group *group; // [volume]
};

SPIRA_API int64_t ggs_report_size(int volume) {
    return 2 * (int64_t)volume + 2;
}

SPIRA_API ggs_host ggs_host_at(int32_t *base, int volume) {
    int32_t *sizes = base + ggs_report_size(volume), *table = sizes + volume;
    ggs_host h = {base,
                  base + volume + 1,
                  base + 2 * volume + 1,
                  sizes,
                  table,
                  (ggs_group *)(table + ggs_table_size(volume))};
    static_assert(sizeof(ggs_group) == 4 * sizeof(int32_t), "ggs_host_size counts on it");
    return h;
}

// The workspace of a plan: what is kept, then what is not.
struct ggs_memory {
    ggs_lists lists;
    int32_t *table; // [ggs_table_size]
    size_t kept;
    int32_t *report;        // [ggs_report_size] begin, differs, outputs
    int32_t *place;         // [pairs] row of the buffers
    uint32_t *key, *sorted; // [pairs]
    char *cub;              // [cub_bytes]
    size_t cub_bytes;
};

// list: the places of the pairs, sorted by key; pairs of one key stay in their order.
SPIRA_API status ggs_sort(ggs_memory *m, const uint32_t *key, int32_t *list, int32_t pairs,
                          int bits, cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortPairs(m->cub, m->cub_bytes, key, m->sorted,
                                                            m->place, list, pairs, 0, bits, stream),
                            "ggs_plan (sort)");
}

SPIRA_API status ggs_memory_take(workspace *w, int volume, const ggs_map *map, ggs_order order,
                                 ggs_memory *m) {
    int64_t pairs = map->pairs.capacity;
    *m = {};
    m->table = workspace_take<int32_t>(w, ggs_table_size(volume));
    if (order == ggs_order_rows) {
        m->lists.in_begin = workspace_take<int32_t>(w, (int64_t)map->inputs + 1);
        m->lists.in_place = workspace_take<int32_t>(w, pairs);
        m->lists.out_begin = workspace_take<int32_t>(w, (int64_t)map->outputs + 1);
        m->lists.out_place = workspace_take<int32_t>(w, pairs);
        m->kept = w->used;
        m->place = workspace_take<int32_t>(w, pairs);
        m->key = workspace_take<uint32_t>(w, pairs);
        m->sorted = workspace_take<uint32_t>(w, pairs);
        SPIRA_TRY(ggs_sort(m, m->key, m->place, (int32_t)pairs, 32, nullptr)); // no cub: asks
        m->cub = workspace_take<char>(w, (int64_t)m->cub_bytes);
    } else {
        m->lists.source = workspace_take<int32_t>(w, pairs);
        m->lists.target = workspace_take<int32_t>(w, pairs);
        m->place = m->lists.place = workspace_take<int32_t>(w, pairs);
        m->kept = w->used;
    }
    m->report = workspace_take<int32_t>(w, ggs_report_size(volume));
    return status_success();
}

SPIRA_API status ggs_tile_check(int tile, const char *subject) {
    SPIRA_REQUIRE(tile == 1 || tile == 2 || tile == 4 || tile == 8, status_bad_size, subject, tile);
    return status_success();
}

SPIRA_API status ggs_options_check(const ggs_options *o, numeric type) {
    SPIRA_REQUIRE(o, status_null_pointer, "options", 0);
    SPIRA_TRY(ggs_grouping_check(&o->grouping));
    SPIRA_REQUIRE(o->order == ggs_order_rows || o->order == ggs_order_pairs, status_unsupported,
                  "options.order", o->order);
    SPIRA_TRY(ggs_tile_check(o->gather_tile, "options.gather_tile"));
    SPIRA_TRY(ggs_tile_check(o->scatter_tile, "options.scatter_tile"));
    // cuBLAS gives grouped products of halves as halves, and sums are fp32 here.
    SPIRA_REQUIRE(o->grouping.rule != ggs_rule_grouped || numeric_size(type) == 4,
                  status_unsupported, "grouping.rule (grouped products of halves)", type);
    return status_success();
}

SPIRA_API status ggs_map_check(const ggs_map *map) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    device_status none = {};
    SPIRA_TRY(map_pairs_check(&map->pairs, &none));
    SPIRA_REQUIRE(map->count, status_null_pointer, "map.count", 0);
    SPIRA_REQUIRE(map->inputs >= 1 && map->inputs <= INT32_MAX / 2, status_bad_size, "map.inputs",
                  map->inputs);
    SPIRA_REQUIRE(map->outputs >= 1 && map->outputs <= INT32_MAX / 2, status_bad_size,
                  "map.outputs", map->outputs);
    return status_success();
}

// Bytes of workspace for ggs_plan, by the capacities of the map. No pointer of the map is read.
SPIRA_API status ggs_plan_workspace(const conv_shape *shape, const ggs_map *map,
                                    const ggs_options *options, size_t *bytes) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_TRY(ggs_map_check(map));
    SPIRA_TRY(ggs_options_check(options, shape->type));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    ggs_memory m;
    SPIRA_TRY(ggs_memory_take(&w, shape->volume, map, options->order, &m));
    *bytes = w.used;
    return status_success();
}

// ---- the plan -----------------------------------------------------------------------------------

// Which of the intervals begin[i] <= at < begin[i + 1] has `at`, for 0 <= at < begin[intervals].
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

// report: begin, differs (0 before) and the number of outputs. An offset with as many pairs as
// outputs differs if one of them is not (i, i).
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_look_kernel(map_pairs pairs, int volume, const int32_t *count, int32_t outputs,
                    int32_t *report) {
    int64_t first = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * ggs_threads;
    int32_t rows = min(*count, outputs), total = min(pairs.begin[volume], pairs.capacity);
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

SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_place_kernel(map_pairs pairs, int volume, int32_t total, const int32_t *row, int direct,
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

// begin [rows + 1]: where the keys of each row start.
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
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

// Copies the sizes to the host, and waits.
SPIRA_API status ggs_plan_look(int volume, const ggs_map *map, const ggs_memory *m, ggs_host h,
                               cudaStream_t stream) {
    size_t bytes = (size_t)ggs_report_size(volume) * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(m->report, 0, bytes, stream), "ggs_plan"));
    unsigned blocks = (unsigned)min_of(
        ceil_div(max_of(map->pairs.capacity, volume + 1), ggs_threads), ggs_blocks);
    ggs_look_kernel<<<blocks, ggs_threads, 0, stream>>>(map->pairs, volume, map->count,
                                                        map->outputs, m->report);
    SPIRA_TRY(status_of_launch("ggs_plan"));
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(h.begin, m->report, bytes, cudaMemcpyDeviceToHost, stream), "ggs_plan"));
    SPIRA_TRY(status_from_cuda(cudaStreamSynchronize(stream), "ggs_plan"));
    bool good = h.begin[0] == 0 && h.begin[volume] <= map->pairs.capacity;
    for (int k = 0; k < volume; ++k) {
        good = good && h.begin[k] <= h.begin[k + 1];
    }
    SPIRA_REQUIRE(good, status_bad_size, "map.pairs.begin (is no list of places)", h.begin[volume]);
    SPIRA_REQUIRE(*h.outputs >= 0, status_bad_size, "map.count", *h.outputs);
    return status_success();
}

// The offset that need not be gathered, or -1. tf32 has to round what it multiplies.
SPIRA_API int32_t ggs_plan_direct(const ggs_layer *l, ggs_host h) {
    for (int k = 0; k < l->shape.volume; ++k) {
        bool identity = h.sizes[k] > 0 && h.sizes[k] == l->outputs && !h.differs[k];
        if (identity && l->options.direct && l->shape.type != numeric_tf32) {
            return k;
        }
    }
    return -1;
}

// Kernels, memsets and calls in a run.
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

// Where the padding of batches is.
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
    for (int i = l->pads; i <= l->shape.volume; ++i) { // all of the table is copied
        t->pad_begin[i] = l->padding;
        if (i < l->shape.volume) {
            t->pad_first[i] = 0;
        }
    }
}

// All that follows from the sizes.
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
    std::fill(l->host.order, l->host.order + volume, 0); // all of the table is copied
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

// The list of each row, by key.
SPIRA_API status ggs_plan_list(ggs_memory *m, const ggs_layer *l, const uint32_t *key, int bits,
                               int32_t rows, int32_t *begin, int32_t *list, cudaStream_t stream) {
    if (l->pairs) {
        SPIRA_TRY(ggs_sort(m, key, list, l->pairs, bits, stream));
    }
    ggs_begin_kernel<<<(unsigned)ceil_div((int64_t)rows + 1, ggs_threads), ggs_threads, 0,
                       stream>>>(m->sorted, l->pairs, rows, begin);
    return status_of_launch("ggs_plan");
}

SPIRA_API status ggs_plan_lists(ggs_memory *m, const ggs_layer *l, const ggs_map *map,
                                cudaStream_t stream) {
    bool rows = l->options.order == ggs_order_rows;
    ggs_places out = {m->place, rows ? m->key : nullptr, m->lists.source, m->lists.target};
    if (l->pairs) {
        unsigned blocks = (unsigned)min_of(ceil_div(l->pairs, ggs_threads), ggs_blocks);
        ggs_place_kernel<<<blocks, ggs_threads, 0, stream>>>(
            map->pairs, l->shape.volume, l->pairs, l->device.row, l->direct, l->inputs, out);
        SPIRA_TRY(status_of_launch("ggs_plan"));
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
                  "stream (is captured: ggs_plan waits for it)", 0);
    return status_success();
}

// Plans the layers of one kernel map and one shape: groups the products and lists where rows go.
//
// inputs   shape: sizes and number format; map: the lists, in device memory, which the plan does
//          not need afterwards; options: rule, order and tiles
// outputs  layer: the plan. It points to host [ggs_host_size(volume)], in host memory, and to the
//          first layer.kept_bytes of the workspace: both must live as long as the plan
// errors   null pointers, sizes, a rule that the format has not (grouped, of halves), mirrored
//          offsets of different sizes, lists that are none, more than 2^30 rows with padding, a
//          workspace that is too small, a stream that is being captured
// WAITS for the stream once, to read the sizes of the lists. What it makes of them is still under
// way in the stream when it returns. Deterministic. Lists that did not fit (device_status) are
// empty, and make a layer without pairs.
// cost     by rows: two sorts of the pairs (CUB); by pairs: a pass over them
SPIRA_API status ggs_plan(const conv_shape *shape, const ggs_map *map, const ggs_options *options,
                          int32_t *host, void *scratch, size_t scratch_bytes, ggs_layer *layer,
                          cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(ggs_plan_workspace(shape, map, options, &needed));
    SPIRA_REQUIRE(host, status_null_pointer, "host", 0);
    SPIRA_REQUIRE(layer, status_null_pointer, "layer", 0);
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    SPIRA_TRY(ggs_stream_check(stream));
    workspace w = workspace_begin(scratch);
    ggs_memory m;
    SPIRA_TRY(ggs_memory_take(&w, shape->volume, map, options->order, &m));
    ggs_host h = ggs_host_at(host, shape->volume);
    ggs_layer l = {};
    l.shape = *shape;
    l.options = *options;
    l.inputs = map->inputs;
    l.device = ggs_table_at(m.table, shape->volume);
    l.lists = m.lists;
    l.kept_bytes = m.kept;
    SPIRA_TRY(ggs_plan_look(shape->volume, map, &m, h, stream));
    SPIRA_TRY(ggs_plan_groups(&l, h));
    size_t bytes = (size_t)ggs_table_size(shape->volume) * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(m.table, h.table, bytes, cudaMemcpyHostToDevice, stream), "ggs_plan"));
    SPIRA_TRY(ggs_plan_lists(&m, &l, map, stream));
    *layer = l;
    return status_success();
}

// ---- chunks of a row ----------------------------------------------------------------------------

// Rows of features, or two of them side by side.
struct ggs_rows {
    const char *first, *second; // [rows, bytes], [rows, bytes2]
    int32_t bytes, bytes2;      // of a row
    int width;                  // bytes that all addresses and lengths are multiples of: 2 .. 16
};

template <typename U>
union ggs_units {
    uint4 all;
    U unit[ggs_chunk / sizeof(U)];
};

// The chunk that starts at byte `at` of a row; zeros behind the row's end.
template <typename U>
SPIRA_DEVICE uint4 ggs_load_units(const ggs_rows &r, int64_t row, int at) {
    ggs_units<U> chunk;
#pragma unroll
    for (int u = 0; u < (int)(ggs_chunk / sizeof(U)); ++u) {
        int byte = at + u * (int)sizeof(U);
        U unit = {};
        if (byte < r.bytes) {
            unit = *(const U *)(r.first + row * r.bytes + byte);
        } else if (byte - r.bytes < r.bytes2) {
            unit = *(const U *)(r.second + row * r.bytes2 + byte - r.bytes);
        }
        chunk.unit[u] = unit;
    }
    return chunk.all;
}

SPIRA_DEVICE uint4 ggs_load(const ggs_rows &r, int64_t row, int at) {
    return r.width == 16  ? ggs_load_units<uint4>(r, row, at)
           : r.width == 8 ? ggs_load_units<uint2>(r, row, at)
           : r.width == 4 ? ggs_load_units<uint32_t>(r, row, at)
                          : ggs_load_units<uint16_t>(r, row, at);
}

// The first `bytes` of a chunk, a multiple of the width.
template <typename U>
SPIRA_DEVICE void ggs_store_units(char *to, int bytes, uint4 all) {
    ggs_units<U> chunk;
    chunk.all = all;
#pragma unroll
    for (int u = 0; u < (int)(ggs_chunk / sizeof(U)); ++u) {
        if ((u + 1) * (int)sizeof(U) <= bytes) {
            ((U *)to)[u] = chunk.unit[u];
        }
    }
}

SPIRA_DEVICE void ggs_store(char *to, int bytes, int width, uint4 all) {
    if (width == 16) {
        ggs_store_units<uint4>(to, bytes, all);
    } else if (width == 8) {
        ggs_store_units<uint2>(to, bytes, all);
    } else if (width == 4) {
        ggs_store_units<uint32_t>(to, bytes, all);
    } else {
        ggs_store_units<uint16_t>(to, bytes, all);
    }
}

SPIRA_DEVICE uint4 ggs_tf32(uint4 v) {
    return make_uint4(tf32_bits(__uint_as_float(v.x)), tf32_bits(__uint_as_float(v.y)),
                      tf32_bits(__uint_as_float(v.z)), tf32_bits(__uint_as_float(v.w)));
}

// The largest of 16, 8, 4, 2 (and 1) that divides both.
SPIRA_API int ggs_width(const void *p, int64_t row_bytes, int most) {
    uint64_t bits = (uint64_t)(uintptr_t)p | (uint64_t)row_bytes | (uint64_t)most;
    return (int)(bits & (~bits + 1));
}

SPIRA_API ggs_rows ggs_rows_make(const void *first, int64_t bytes, const void *second,
                                 int64_t bytes2) {
    ggs_rows r = {(const char *)first, (const char *)second, (int32_t)bytes, (int32_t)bytes2, 0};
    r.width = ggs_width(first, bytes, ggs_chunk);
    r.width = bytes2 ? ggs_width(second, bytes2, r.width) : r.width;
    return r;
}

// Threads of a block: x shares the parts of a row, y has the rows.
SPIRA_API dim3 ggs_block(int parts) {
    unsigned x = (unsigned)min_of(parts, ggs_threads);
    return dim3(x, ggs_threads / x);
}

// ---- gather -------------------------------------------------------------------------------------

// Where cuBLAS finds the operands of the products that it batches: written by the gather kernel.
struct ggs_pointers {
    const void **weight, **gathered; // [count] in the order of the groups
    void **product;                  // [count]
    int32_t count;                   // 0: nobody asks
};

struct ggs_gather {
    ggs_rows in;
    const int32_t *source; // input of each list, or null: its number
    const int32_t *begin;  // where the places of each list start, or null: there is one
    const int32_t *place;
    ggs_table table;
    ggs_pointers pointers;
    const char *weights;
    char *gathered, *product;
    int64_t weight_bytes, pitch, product_pitch; // bytes of one offset's weights, of the rows
    int32_t lists, pads, padding;
    int chunks, parts; // of a row; a thread has chunks part, part + parts, ...
    int list_blocks, pad_blocks;
    bool tf32;
};

template <int tile>
SPIRA_DEVICE void ggs_gather_list(const ggs_gather &p, int64_t list) {
    int64_t row = p.source ? p.source[list] : list;
    int64_t at = p.begin ? p.begin[list] : list, end = p.begin ? p.begin[list + 1] : list + 1;
    if (row < 0 || at >= end) {
        return;
    }
    for (int part = (int)threadIdx.x; part < p.parts; part += (int)blockDim.x) {
        uint4 v[tile];
#pragma unroll
        for (int j = 0; j < tile; ++j) {
            v[j] = ggs_load(p.in, row, (part + j * p.parts) * ggs_chunk); // zeros if there is none
            v[j] = p.tf32 ? ggs_tf32(v[j]) : v[j];
        }
        for (int64_t i = at; i < end; ++i) {
            char *to = p.gathered + p.place[i] * p.pitch;
#pragma unroll
            for (int j = 0; j < tile; ++j) {
                if (part + j * p.parts < p.chunks) {
                    *(uint4 *)(to + (part + j * p.parts) * ggs_chunk) = v[j];
                }
            }
        }
    }
}

// Zeros a row of padding: `pad` of them are before it.
SPIRA_DEVICE void ggs_gather_pad(const ggs_gather &p, int32_t pad) {
    int at = ggs_interval(p.table.pad_begin, p.pads, pad);
    int64_t row = p.table.pad_first[at] + (pad - p.table.pad_begin[at]);
    for (int c = (int)threadIdx.x; c < p.chunks; c += (int)blockDim.x) {
        *(uint4 *)(p.gathered + row * p.pitch + c * ggs_chunk) = make_uint4(0, 0, 0, 0);
    }
}

SPIRA_DEVICE void ggs_gather_pointers(const ggs_gather &p) {
    for (int i = (int)(threadIdx.y * blockDim.x + threadIdx.x); i < p.pointers.count;
         i += (int)(blockDim.x * blockDim.y)) {
        int64_t k = p.table.order[i], row = p.table.row[k];
        p.pointers.weight[i] = p.weights + k * p.weight_bytes;
        p.pointers.gathered[i] = p.gathered + row * p.pitch;
        p.pointers.product[i] = p.product + row * p.product_pitch;
    }
}

template <int tile>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_gather_kernel(const __grid_constant__ ggs_gather p) {
    int block = (int)blockIdx.x;
    if (block < p.list_blocks) {
        int64_t list = (int64_t)block * blockDim.y + threadIdx.y;
        if (list < p.lists) {
            ggs_gather_list<tile>(p, list);
        }
    } else if (block < p.list_blocks + p.pad_blocks) {
        int64_t pad = (int64_t)(block - p.list_blocks) * blockDim.y + threadIdx.y;
        if (pad < p.padding) {
            ggs_gather_pad(p, (int32_t)pad);
        }
    } else {
        ggs_gather_pointers(p);
    }
}

SPIRA_API status ggs_gather_launch(ggs_gather p, int tile, cudaStream_t stream) {
    p.parts = (int)ceil_div(p.chunks, tile);
    dim3 block = ggs_block(p.parts);
    p.list_blocks = (int)ceil_div(p.lists, block.y);
    p.pad_blocks = (int)ceil_div(p.padding, block.y);
    unsigned blocks =
        (unsigned)p.list_blocks + (unsigned)p.pad_blocks + (p.pointers.count > 0 ? 1u : 0u);
    if (tile == 1) {
        ggs_gather_kernel<1><<<blocks, block, 0, stream>>>(p);
    } else if (tile == 2) {
        ggs_gather_kernel<2><<<blocks, block, 0, stream>>>(p);
    } else if (tile == 4) {
        ggs_gather_kernel<4><<<blocks, block, 0, stream>>>(p);
    } else {
        ggs_gather_kernel<8><<<blocks, block, 0, stream>>>(p);
    }
    return status_of_launch("ggs_run (gather)");
}

// ---- scatter ------------------------------------------------------------------------------------

struct ggs_scatter {
    const float *product;
    const int32_t *begin; // where the products of each output start, or null: there is one
    const int32_t *place; // rows of the products, or null: their numbers
    ggs_rows residual;    // first is null where there is none
    char *out;
    conv_epilogue epilogue;
    int64_t pitch; // floats of a product's row
    int32_t outputs;
    int cout, out_width;
    int parts; // of a row; a thread has chunks part, part + parts, ...
};

// Adds the channels of one product.
template <int wide>
SPIRA_DEVICE void ggs_add(const float *from, int channels, float (&sum)[wide]) {
    if (channels >= wide) {
#pragma unroll
        for (int c = 0; c < wide; c += 4) {
            float4 f = *(const float4 *)(from + c);
            sum[c] += f.x;
            sum[c + 1] += f.y;
            sum[c + 2] += f.z;
            sum[c + 3] += f.w;
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < wide; ++c) {
        sum[c] += c < channels ? from[c] : 0.0f; // what is behind the last channel is not set
    }
}

// Rounds and writes a chunk of an output row.
template <typename E, int wide>
SPIRA_DEVICE void ggs_finish(const ggs_scatter &p, int64_t row, int channel,
                             const float (&sum)[wide]) {
    int channels = min(p.cout - channel, wide);
    ggs_units<E> extra, out;
    extra.all = out.all = make_uint4(0, 0, 0, 0);
    if (p.residual.first) {
        extra.all = ggs_load(p.residual, row, channel * (int)sizeof(E));
    }
#pragma unroll
    for (int c = 0; c < wide; ++c) {
        if (c < channels) {
            float residual = element_to_float(extra.unit[c]);
            out.unit[c] =
                element_from_float<E>(epilogue_apply(sum[c], &p.epilogue, channel + c, residual));
        }
    }
    ggs_store(p.out + (row * p.cout + channel) * (int64_t)sizeof(E), channels * (int)sizeof(E),
              p.out_width, out.all);
}

template <typename E, int tile>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_scatter_kernel(const __grid_constant__ ggs_scatter p) {
    constexpr int wide = ggs_chunk / (int)sizeof(E), ahead = tile == 1 ? 4 : tile == 2 ? 2 : 1;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= p.outputs) {
        return;
    }
    int64_t at = p.begin ? p.begin[row] : row, end = p.begin ? p.begin[row + 1] : row + 1;
    for (int part = (int)threadIdx.x; part < p.parts; part += (int)blockDim.x) {
        float sum[tile][wide] = {};
#pragma unroll ahead
        for (int64_t i = at; i < end; ++i) {
            const float *from = p.product + (p.place ? (int64_t)p.place[i] : i) * p.pitch;
#pragma unroll
            for (int j = 0; j < tile; ++j) {
                int channel = (part + j * p.parts) * wide;
                if (channel < p.cout) {
                    ggs_add(from + channel, p.cout - channel, sum[j]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < tile; ++j) {
            int channel = (part + j * p.parts) * wide;
            if (channel < p.cout) {
                ggs_finish<E>(p, row, channel, sum[j]);
            }
        }
    }
}

template <typename E>
SPIRA_API status ggs_scatter_launch(ggs_scatter p, int tile, cudaStream_t stream) {
    p.parts = (int)ceil_div(p.cout, (int64_t)tile * (ggs_chunk / (int)sizeof(E)));
    dim3 block = ggs_block(p.parts);
    unsigned blocks = (unsigned)ceil_div(p.outputs, block.y);
    if (tile == 1) {
        ggs_scatter_kernel<E, 1><<<blocks, block, 0, stream>>>(p);
    } else if (tile == 2) {
        ggs_scatter_kernel<E, 2><<<blocks, block, 0, stream>>>(p);
    } else if (tile == 4) {
        ggs_scatter_kernel<E, 4><<<blocks, block, 0, stream>>>(p);
    } else {
        ggs_scatter_kernel<E, 8><<<blocks, block, 0, stream>>>(p);
    }
    return status_of_launch("ggs_run (scatter)");
}

// The simple order: adds the products [rows] of one offset to sums [outputs]. No output comes
// twice.
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_add_kernel(const float *product, const int32_t *target, int32_t rows, int64_t pitch,
                   int cout, float *sums) {
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) {
        return;
    }
    for (int c = 4 * (int)threadIdx.x; c < cout; c += 4 * (int)blockDim.x) {
        float sum[4] = {0, 0, 0, 0}, *to = sums + target[row] * pitch + c;
        ggs_add(to, cout - c, sum);
        ggs_add(product + row * pitch + c, cout - c, sum);
        *(float4 *)to = make_float4(sum[0], sum[1], sum[2], sum[3]); // the pitch has room for it
    }
}

// ---- a run --------------------------------------------------------------------------------------

// The arrays of a layer, in device memory, features of shape.type's storage.
struct ggs_args {
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // [volume, cin + cin2, cout], as of ggs_weights_store; aligned to 16
    conv_epilogue epilogue;
    void *out; // [outputs, cout]
};

// A stream for products, beside the run's own.
struct ggs_lane {
    cublasHandle_t handle; // its stream is `stream`; a handle of its own, with its own workspace
    cudaStream_t stream;
    cudaEvent_t done; // recorded by ggs_run
};

// Who computes the products. lanes may be 0: the run's own stream does all of them.
struct ggs_pool {
    cublasHandle_t handle; // its stream is that of the run
    const ggs_lane *lane;  // [lanes]
    int lanes;
    cudaEvent_t fork; // recorded by ggs_run; null where there are no lanes
};

// Scratch of a run.
struct ggs_buffers {
    char *gathered; // [layer.gathered, pitch] bytes; rows are multiples of 16 bytes
    float *product; // [layer.rows, product_pitch]
    float *sums;    // [layer.outputs, product_pitch]: the simple order
    const void **pointers;
    int64_t pitch, product_pitch; // bytes, floats
};

// Whether the weights of a batch stand at one distance from each other; then no pointers are
// needed.
SPIRA_API bool ggs_group_even(const ggs_layer *l, const ggs_group *g) {
    const int32_t *order = l->host.order + g->first;
    for (int32_t i = 2; i < g->count; ++i) {
        if (order[i] - order[i - 1] != order[1] - order[0]) {
            return false;
        }
    }
    return true;
}

SPIRA_API bool ggs_needs_pointers(const ggs_layer *l) {
    for (int32_t i = 0; i < l->groups.count; ++i) {
        const ggs_group *g = l->groups.group + i;
        if (g->kind == ggs_kind_grouped || (g->kind == ggs_kind_batch && !ggs_group_even(l, g))) {
            return true;
        }
    }
    return false;
}

SPIRA_API ggs_buffers ggs_buffers_take(workspace *w, const ggs_layer *l) {
    ggs_buffers b = {};
    int element = numeric_size(l->shape.type);
    b.pitch = round_up((int64_t)(l->shape.cin + l->shape.cin2) * element, ggs_chunk);
    b.product_pitch = round_up(l->shape.cout, ggs_chunk / (int64_t)sizeof(float));
    b.gathered = workspace_take<char>(w, l->gathered * b.pitch);
    b.product = workspace_take<float>(w, l->rows * b.product_pitch);
    bool sums = l->options.order == ggs_order_pairs;
    b.sums = workspace_take<float>(w, sums ? l->outputs * b.product_pitch : 0);
    b.pointers = workspace_take<const void *>(
        w, ggs_needs_pointers(l) ? 3 * (int64_t)l->groups.products : 0);
    return b;
}

// Bytes of scratch for ggs_run: the buffers of gathered rows and of products. Runs of other layers
// may use the same memory, before and after.
SPIRA_API status ggs_run_workspace(const ggs_layer *layer, size_t *bytes) {
    SPIRA_REQUIRE(layer, status_null_pointer, "layer", 0);
    SPIRA_TRY(conv_shape_check(&layer->shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    ggs_buffers_take(&w, layer);
    *bytes = w.used;
    return status_success();
}

SPIRA_API status ggs_pointer_check(const void *p, int alignment, const char *name) {
    SPIRA_REQUIRE(p, status_null_pointer, name, 0);
    SPIRA_REQUIRE((uintptr_t)p % (unsigned)alignment == 0, status_alignment, name, alignment);
    return status_success();
}

SPIRA_API status ggs_args_check(const conv_shape *s, const ggs_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(epilogue_check(&a->epilogue));
    int element = numeric_size(s->type);
    SPIRA_TRY(ggs_pointer_check(a->in, element, "in"));
    if (s->cin2) {
        SPIRA_TRY(ggs_pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(ggs_pointer_check(a->weights, ggs_chunk, "weights"));
    SPIRA_TRY(ggs_pointer_check(a->out, element, "out"));
    if (a->epilogue.residual) {
        SPIRA_TRY(ggs_pointer_check(a->epilogue.residual, element, "epilogue.residual"));
    }
    const float *const vectors[] = {a->epilogue.bias, a->epilogue.scale, a->epilogue.shift};
    for (int i = 0; i < 3; ++i) {
        SPIRA_REQUIRE((uintptr_t)vectors[i] % sizeof(float) == 0, status_alignment,
                      "epilogue (bias, scale, shift)", sizeof(float));
    }
    SPIRA_REQUIRE(a->out != a->in && (!s->cin2 || a->out != a->in2), status_unsupported,
                  "out (overlaps an input)", 0);
    return status_success();
}

// cuBLAS has numbers of its own: the detail of what is unsupported, or of an error.
SPIRA_API status status_from_cublas(cublasStatus_t s, const char *subject) {
    bool unknown = s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_ARCH_MISMATCH;
    return s == CUBLAS_STATUS_SUCCESS
               ? status_success()
               : status_make(unknown ? status_unsupported : status_cuda, subject, (int64_t)s);
}

SPIRA_API status ggs_handle_check(cublasHandle_t handle, cudaStream_t stream, const char *subject,
                                  const char *stray) {
    SPIRA_REQUIRE(handle, status_null_pointer, subject, 0);
    cudaStream_t own = nullptr;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
    SPIRA_TRY(status_from_cublas(cublasGetStream(handle, &own), subject));
    SPIRA_TRY(status_from_cublas(cublasGetPointerMode(handle, &mode), subject));
    SPIRA_REQUIRE(own == stream, status_unsupported, stray, 0);
    SPIRA_REQUIRE(mode == CUBLAS_POINTER_MODE_HOST, status_unsupported,
                  "pool.handle (pointer mode: device)", 0);
    return status_success();
}

SPIRA_API status ggs_pool_check(const ggs_pool *pool, cudaStream_t stream) {
    SPIRA_REQUIRE(pool, status_null_pointer, "pool", 0);
    SPIRA_TRY(ggs_handle_check(pool->handle, stream, "pool.handle (cublasHandle_t)",
                               "pool.handle (its stream is another)"));
    SPIRA_REQUIRE(pool->lanes >= 0 && pool->lanes <= ggs_lanes_max, status_bad_size, "pool.lanes",
                  pool->lanes);
    SPIRA_REQUIRE(pool->lanes == 0 || (pool->lane && pool->fork), status_null_pointer,
                  "pool (lane, fork)", 0);
    for (int i = 0; i < pool->lanes; ++i) {
        const ggs_lane *lane = pool->lane + i;
        SPIRA_REQUIRE(lane->done, status_null_pointer, "pool.lane.done", i);
        SPIRA_TRY(ggs_handle_check(lane->handle, lane->stream, "pool.lane.handle (cublasHandle_t)",
                                   "pool.lane.handle (its stream is another)"));
        SPIRA_REQUIRE(lane->handle != pool->handle && lane->stream != stream, status_unsupported,
                      "pool.lane (is that of the run)", i);
    }
    return status_success();
}

// ---- products -----------------------------------------------------------------------------------

// All products of a run. As cuBLAS counts, column by column: product' = weight' * gathered'.
struct ggs_job {
    const ggs_layer *layer;
    const ggs_args *args;
    ggs_buffers buffers;
    cudaDataType_t type;
    cublasComputeType_t compute;
    int element;          // bytes
    int channels, cout;   // cin + cin2
    int pitch;            // elements of a gathered row
    int64_t weight_bytes; // of one offset
};

SPIRA_API ggs_job ggs_job_make(const ggs_layer *l, const ggs_args *args, ggs_buffers buffers) {
    numeric t = l->shape.type;
    ggs_job j = {};
    j.layer = l;
    j.args = args;
    j.buffers = buffers;
    j.type = t == numeric_f16 ? CUDA_R_16F : t == numeric_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    j.compute = t == numeric_f32    ? CUBLAS_COMPUTE_32F_PEDANTIC // whatever the handle's math mode
                : t == numeric_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                    : CUBLAS_COMPUTE_32F;
    j.element = numeric_size(t);
    j.channels = l->shape.cin + l->shape.cin2;
    j.cout = l->shape.cout;
    j.pitch = (int)(buffers.pitch / j.element);
    j.weight_bytes = (int64_t)j.channels * j.cout * j.element;
    return j;
}

// product [rows, cout] = beta * product + x [rows, channels] * weight [channels, cout].
SPIRA_API status ggs_multiply(const ggs_job *j, cublasHandle_t handle, int32_t rows, int channels,
                              const void *weight, const void *x, int pitch, float beta,
                              float *product) {
    const float one = 1.0f;
    return status_from_cublas(
        cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, j->cout, rows, channels, &one, weight,
                     j->type, j->cout, x, j->type, pitch, &beta, product, CUDA_R_32F,
                     (int)j->buffers.product_pitch, j->compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

// The rows are those of the inputs: the two sources one after the other.
SPIRA_API status ggs_call_direct(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    const conv_shape *s = &j->layer->shape;
    int k = j->layer->host.order[g->first];
    const char *weight = (const char *)j->args->weights + k * j->weight_bytes;
    float *product = j->buffers.product + j->layer->host.row[k] * j->buffers.product_pitch;
    SPIRA_TRY(ggs_multiply(j, handle, g->rows, s->cin, weight, j->args->in, s->cin, 0.0f, product));
    if (s->cin2) {
        weight += (int64_t)s->cin * j->cout * j->element;
        SPIRA_TRY(ggs_multiply(j, handle, g->rows, s->cin2, weight, j->args->in2, s->cin2, 1.0f,
                               product));
    }
    return status_success();
}

SPIRA_API status ggs_call_one(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    int k = j->layer->host.order[g->first];
    int64_t row = j->layer->host.row[k];
    return ggs_multiply(j, handle, g->rows, j->channels,
                        (const char *)j->args->weights + k * j->weight_bytes,
                        j->buffers.gathered + row * j->buffers.pitch, j->pitch, 0.0f,
                        j->buffers.product + row * j->buffers.product_pitch);
}

// Weights at one distance.
SPIRA_API status ggs_call_strided(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    const float one = 1.0f, zero = 0.0f;
    const int32_t *order = j->layer->host.order + g->first;
    int64_t row = j->layer->host.row[order[0]], elements = (int64_t)j->channels * j->cout;
    return status_from_cublas(cublasGemmStridedBatchedEx(
                                  handle, CUBLAS_OP_N, CUBLAS_OP_N, j->cout, g->rows, j->channels,
                                  &one, (const char *)j->args->weights + order[0] * j->weight_bytes,
                                  j->type, j->cout, (order[1] - order[0]) * elements,
                                  j->buffers.gathered + row * j->buffers.pitch, j->type, j->pitch,
                                  (int64_t)g->rows * j->pitch, &zero,
                                  j->buffers.product + row * j->buffers.product_pitch, CUDA_R_32F,
                                  (int)j->buffers.product_pitch, g->rows * j->buffers.product_pitch,
                                  g->count, j->compute, CUBLAS_GEMM_DEFAULT),
                              "cublasGemmStridedBatchedEx");
}

// Weights anywhere: the pointers are in device memory.
SPIRA_API status ggs_call_batched(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    const float one = 1.0f, zero = 0.0f;
    int32_t all = j->layer->groups.products;
    const void *const *weight = j->buffers.pointers + g->first, *const *gathered = weight + all;
    void *const *product = (void *const *)(gathered + all);
    return status_from_cublas(
        cublasGemmBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, j->cout, g->rows, j->channels, &one,
                            weight, j->type, j->cout, gathered, j->type, j->pitch, &zero, product,
                            CUDA_R_32F, (int)j->buffers.product_pitch, g->count, j->compute,
                            CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx");
}

// Products of their own sizes: members first .. first + count - 1 of the order, each a group of
// one to cuBLAS.
SPIRA_API status ggs_call_sizes(const ggs_job *j, cublasHandle_t handle, int32_t first,
                                int32_t count) {
    cublasOperation_t plain[ggs_grouped_max];
    int m[ggs_grouped_max], n[ggs_grouped_max], k[ggs_grouped_max], lda[ggs_grouped_max],
        ldb[ggs_grouped_max], ldc[ggs_grouped_max], each[ggs_grouped_max];
    float one[ggs_grouped_max], zero[ggs_grouped_max];
    for (int32_t i = 0; i < count; ++i) {
        plain[i] = CUBLAS_OP_N;
        m[i] = lda[i] = j->cout;
        n[i] = j->layer->sizes[j->layer->host.order[first + i]];
        k[i] = j->channels;
        ldb[i] = j->pitch;
        ldc[i] = (int)j->buffers.product_pitch;
        each[i] = 1;
        one[i] = 1.0f;
        zero[i] = 0.0f;
    }
    int32_t all = j->layer->groups.products;
    const void *const *weight = j->buffers.pointers + first, *const *gathered = weight + all;
    void *const *product = (void *const *)(gathered + all);
    return status_from_cublas(cublasGemmGroupedBatchedEx(handle, plain, plain, m, n, k, one, weight,
                                                         j->type, lda, gathered, j->type, ldb, zero,
                                                         product, CUDA_R_32F, ldc, count, each,
                                                         j->compute),
                              "cublasGemmGroupedBatchedEx");
}

SPIRA_API status ggs_call_grouped(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    for (int32_t done = 0; done < g->count; done += ggs_grouped_max) {
        int32_t count = (int32_t)min_of(g->count - done, ggs_grouped_max);
        SPIRA_TRY(ggs_call_sizes(j, handle, g->first + done, count));
    }
    return status_success();
}

SPIRA_API status ggs_call(const ggs_job *j, cublasHandle_t handle, const ggs_group *g) {
    return g->kind == ggs_kind_direct    ? ggs_call_direct(j, handle, g)
           : g->kind == ggs_kind_grouped ? ggs_call_grouped(j, handle, g)
           : g->kind == ggs_kind_one     ? ggs_call_one(j, handle, g)
           : ggs_group_even(j->layer, g) ? ggs_call_strided(j, handle, g)
                                         : ggs_call_batched(j, handle, g);
}

// Each call goes to the stream that has the fewest rows so far; lane -1 is the run's own.
SPIRA_API status ggs_call_all(const ggs_job *j, const ggs_pool *pool, int lanes) {
    int64_t load[ggs_lanes_max + 1] = {};
    for (int32_t i = 0; i < j->layer->groups.count; ++i) {
        const ggs_group *g = j->layer->groups.group + i;
        int lane = 0;
        for (int l = 1; l <= lanes; ++l) {
            lane = load[l] < load[lane] ? l : lane;
        }
        load[lane] +=
            g->kind == ggs_kind_grouped ? j->layer->gathered : (int64_t)g->rows * g->count;
        SPIRA_TRY(ggs_call(j, lane ? pool->lane[lane - 1].handle : pool->handle, g));
    }
    return status_success();
}

// The lanes wait for the run's stream, which waits for them afterwards, also if a call failed: a
// stream that is being captured must be joined.
SPIRA_API status ggs_products(const ggs_job *j, const ggs_pool *pool, cudaStream_t stream) {
    int lanes = j->layer->groups.count > 1 ? pool->lanes : 0;
    if (lanes) {
        SPIRA_TRY(status_from_cuda(cudaEventRecord(pool->fork, stream), "pool.fork"));
    }
    status result = status_success();
    for (int l = 0; l < lanes; ++l) {
        status s = status_from_cuda(cudaStreamWaitEvent(pool->lane[l].stream, pool->fork, 0),
                                    "pool.lane.stream");
        result = status_failed(result) ? result : s;
    }
    result = status_failed(result) ? result : ggs_call_all(j, pool, lanes);
    for (int l = 0; l < lanes; ++l) {
        const ggs_lane *lane = pool->lane + l;
        cudaError_t error = cudaEventRecord(lane->done, lane->stream);
        error = error == cudaSuccess ? cudaStreamWaitEvent(stream, lane->done, 0) : error;
        status s = status_from_cuda(error, "pool.lane.done");
        result = status_failed(result) ? result : s;
    }
    return result;
}

// ---- the three steps ----------------------------------------------------------------------------

SPIRA_API status ggs_run_gather(const ggs_job *j, cudaStream_t stream) {
    const ggs_layer *l = j->layer;
    bool rows = l->options.order == ggs_order_rows;
    int32_t products = l->groups.products;
    ggs_gather p = {};
    p.in = ggs_rows_make(j->args->in, (int64_t)l->shape.cin * j->element, j->args->in2,
                         (int64_t)l->shape.cin2 * j->element);
    p.source = rows ? nullptr : l->lists.source;
    p.begin = rows ? l->lists.in_begin : nullptr;
    p.place = rows ? l->lists.in_place : l->lists.place;
    p.table = l->device;
    if (ggs_needs_pointers(l)) {
        const void **at = j->buffers.pointers;
        p.pointers = {at, at + products, (void **)(at + 2 * (int64_t)products), products};
    }
    p.weights = (const char *)j->args->weights;
    p.gathered = j->buffers.gathered;
    p.product = (char *)j->buffers.product;
    p.weight_bytes = j->weight_bytes;
    p.pitch = j->buffers.pitch;
    p.product_pitch = j->buffers.product_pitch * (int64_t)sizeof(float);
    p.lists = rows ? l->inputs : l->pairs;
    p.pads = l->pads;
    p.padding = l->padding;
    p.chunks = (int)(j->buffers.pitch / ggs_chunk);
    p.tf32 = l->shape.type == numeric_tf32;
    return ggs_gather_launch(p, l->options.gather_tile, stream);
}

// The simple order: offset after offset, ascending.
SPIRA_API status ggs_run_add(const ggs_job *j, cudaStream_t stream) {
    const ggs_layer *l = j->layer;
    const ggs_buffers *b = &j->buffers;
    size_t bytes = (size_t)(l->outputs * b->product_pitch) * sizeof(float);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(b->sums, 0, bytes, stream), "ggs_run (scatter)"));
    dim3 block = ggs_block((int)ceil_div(j->cout, 4));
    for (int k = 0; k < l->shape.volume; ++k) {
        if (l->sizes[k]) {
            ggs_add_kernel<<<(unsigned)ceil_div(l->sizes[k], block.y), block, 0, stream>>>(
                b->product + l->host.row[k] * b->product_pitch, l->lists.target + l->begin[k],
                l->sizes[k], b->product_pitch, j->cout, b->sums);
        }
    }
    return status_of_launch("ggs_run (scatter)");
}

SPIRA_API status ggs_run_scatter(const ggs_job *j, cudaStream_t stream) {
    const ggs_layer *l = j->layer;
    bool rows = l->options.order == ggs_order_rows;
    if (!rows) {
        SPIRA_TRY(ggs_run_add(j, stream));
    }
    int64_t row_bytes = (int64_t)j->cout * j->element;
    ggs_scatter p = {};
    p.product = rows ? j->buffers.product : j->buffers.sums;
    p.begin = rows ? l->lists.out_begin : nullptr;
    p.place = rows ? l->lists.out_place : nullptr;
    p.residual = ggs_rows_make(j->args->epilogue.residual, row_bytes, nullptr, 0);
    p.out = (char *)j->args->out;
    p.epilogue = j->args->epilogue;
    p.pitch = j->buffers.product_pitch;
    p.outputs = l->outputs;
    p.cout = j->cout;
    p.out_width = ggs_width(j->args->out, row_bytes, ggs_chunk);
    int tile = l->options.scatter_tile;
    return element_dispatch(
        l->shape.type, [&](auto e) { return ggs_scatter_launch<decltype(e)>(p, tile, stream); });
}

// A convolution by gather, products and scatter, as it was planned.
//
// inputs   layer: of ggs_plan, also for other features and weights of the same shape; args: see
//          ggs_args; pool: handles and streams, see there and the top of this file
// outputs  args.out [outputs, cout]: rows from the number of outputs on are not written
// errors   null pointers, alignments, an output that is an input, a handle of another stream or in
//          device pointer mode, a workspace that is too small, status_unsupported with cuBLAS's
//          status where it does not do a product, and status_cuda with it where it failed
// Asynchronous; does not allocate if the handles have workspaces. The residual may be `out` itself.
// Deterministic for one GPU, one version of cuBLAS and handles with cublasSetAtomicsMode off, as it
// is unless set. Each lane has a handle of its own, because the streams of one would share its
// workspace. tf32: features are rounded when they are gathered, weights by ggs_weights_store.
// cost     by rows: reads each input row once, writes and reads (cin + cin2) elements and cout
//          floats a pair and row of padding, writes each output once; layer.launches launches
SPIRA_API status ggs_run(const ggs_layer *layer, const ggs_args *args, const ggs_pool *pool,
                         void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(ggs_run_workspace(layer, &needed));
    SPIRA_TRY(ggs_args_check(&layer->shape, args));
    SPIRA_TRY(ggs_pool_check(pool, stream));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    if (layer->outputs == 0) {
        return status_success();
    }
    workspace w = workspace_begin(scratch);
    ggs_job job = ggs_job_make(layer, args, ggs_buffers_take(&w, layer));
    if (layer->gathered) {
        SPIRA_TRY(ggs_run_gather(&job, stream));
    }
    SPIRA_TRY(ggs_products(&job, pool, stream));
    return ggs_run_scatter(&job, stream);
}

// ---- weights ------------------------------------------------------------------------------------

template <typename E>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_store_kernel(numeric type, const float *weight, int64_t total, E *stored) {
    int64_t i = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    if (i < total) {
        stored[i] = element_from_float<E>(element_operand(type, weight[i]));
    }
}

// Weights as ggs_run reads them: rounded to the format, in their order; once, when a network is
// loaded. fp32 may be used as it is.
//
// inputs   weight [volume, cin + cin2, cout] fp32, offsets in spira's order (offset.h)
// outputs  stored [volume, cin + cin2, cout] of the format's storage (tf32: floats); it may be
//          `weight` itself where that is as wide
// Asynchronous, deterministic.
SPIRA_API status ggs_weights_store(const conv_shape *shape, const float *weight, void *stored,
                                   cudaStream_t stream) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_TRY(ggs_pointer_check(weight, sizeof(float), "weight"));
    SPIRA_TRY(ggs_pointer_check(stored, numeric_size(shape->type), "stored"));
    int64_t total = (int64_t)shape->volume * (shape->cin + shape->cin2) * shape->cout;
    int64_t grid = ceil_div(total, ggs_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "shape", grid);
    element_dispatch(shape->type, [&](auto e) {
        ggs_store_kernel<<<(unsigned)grid, ggs_threads, 0, stream>>>(shape->type, weight, total,
                                                                     (decltype(e) *)stored);
    });
    return status_of_launch("ggs_weights_store");
}

} // namespace spira

#endif
