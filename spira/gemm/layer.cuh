// spira/gemm/layer.cuh: a layer that is planned for gather, products and scatter: options, the plan
// as data, and its memory.
//
// First file of the machinery of ../cublas.cuh.
#ifndef SPIRA_GEMM_LAYER_CUH
#define SPIRA_GEMM_LAYER_CUH

#include "../conv.h"
#include "../map.h"
#include "../status.cuh"
#include "../workspace.h"
#include "group.h"

#include <cub/device/device_radix_sort.cuh>

namespace spira {

enum {
    ggs_threads = 256,    // of a thread block
    ggs_chunk = 16,       // bytes that a thread moves at once
    ggs_blocks = 1024,    // thread blocks of the kernels that stride over the pairs
    ggs_lanes_max = 16,   // streams beside the run's own
    ggs_grouped_max = 64, // products of one call of cublasGemmGroupedBatchedEx
};

// ---- options ------------------------------------------------------------------------------------

// Whether gather and scatter go row by row, or pair by pair.
enum ggs_order : int { ggs_order_rows, ggs_order_pairs };

struct ggs_options {
    ggs_grouping grouping;
    ggs_order order;
    int gather_tile, scatter_tile; // chunks of 16 bytes of a row for each thread: 1, 2, 4 or 8
    bool direct;                   // an offset that pairs every row with itself is not gathered
};

// Batches of similar sizes with up to a tenth of padding, row by row, one chunk for each thread.
SPIRA_API ggs_options ggs_options_default() {
    ggs_options o = {};
    o.grouping = {ggs_rule_sorted, 0.1, 1 << 16, false};
    o.order = ggs_order_rows;
    o.gather_tile = o.scatter_tile = 1;
    o.direct = true;
    return o;
}

// ---- a planned layer ----------------------------------------------------------------------------

// A kernel map as the plan reads it. A host struct; its arrays are in device memory.
struct ggs_map {
    map_lists pairs;      // of map_build_lists, all offsets in the lists
    int32_t inputs;       // capacity of the source set
    const int32_t *count; // [1] outputs, at most the capacity
    int32_t outputs;      // capacity of the output set
};

// What a plan keeps in device memory. By rows: list r of `in` holds the rows of the buffer that
// input r is copied to, list o of `out` the products of output o, offsets ascending.
struct ggs_lists {
    int32_t *in_begin, *in_place;   // [inputs + 1], [pairs]
    int32_t *out_begin, *out_place; // [outputs + 1], [pairs]
    int32_t *source;                // by pairs: [pairs] input row, -1 if it is not gathered
    int32_t *place;                 // by pairs: [pairs] row of the buffers
    int32_t *target;                // by pairs: [pairs] output row
};

// Tables of offsets, in host and in device memory.
struct ggs_table {
    int32_t *row;       // [volume] where an offset's rows start in the buffers
    int32_t *pad_first; // [volume] first row of padding of each padded product
    int32_t *pad_begin; // [volume + 1] rows of padding before it
    int32_t *order;     // [volume] ggs_groups.order
};

// A planned layer: plain data that points into the host memory and the workspace of ggs_plan.
struct ggs_layer {
    conv_shape shape;
    ggs_options options;
    int32_t inputs;         // capacity of the source set
    int32_t outputs, pairs; // numbers of
    int32_t rows;           // of products, padding included
    int32_t gathered;       // of the gather buffer, padding included
    int32_t pads, padding;  // padded products, rows of padding
    int32_t direct;         // the offset that is not gathered, or -1
    int32_t launches;       // kernels, memsets and calls of cuBLAS in a run
    ggs_groups groups;      // host
    const int32_t *sizes;   // [volume] host: pairs of each offset
    const int32_t *begin;   // [volume + 1] host
    ggs_table host, device;
    ggs_lists lists;
    size_t kept_bytes; // of the plan's workspace; the rest is free after ggs_plan
};

// ---- memory of a plan ---------------------------------------------------------------------------

// Number of int32_t of host memory for ggs_plan.
SPIRA_API int64_t ggs_host_size(int volume) {
    return 11 * (int64_t)volume + 3;
}

SPIRA_API int64_t ggs_table_size(int volume) {
    return 4 * (int64_t)volume + 1;
}

SPIRA_API ggs_table ggs_table_at(int32_t *base, int volume) {
    return {base, base + volume, base + 2 * volume, base + 3 * volume + 1};
}

// The host memory, carved.
struct ggs_host {
    int32_t *begin;   // [volume + 1] the first three arrays are copied from the device together
    int32_t *differs; // [volume] not 0: some row is not paired with itself
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
    ggs_host h = {};
    h.begin = base;
    h.differs = base + volume + 1;
    h.outputs = base + 2 * volume + 1;
    h.sizes = sizes;
    h.table = table;
    h.group = (ggs_group *)(table + ggs_table_size(volume));
    static_assert(sizeof(ggs_group) == 4 * sizeof(int32_t), "ggs_host_size counts on it");
    return h;
}

// The workspace of a plan: what it keeps, then scratch.
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

// Sorts the places of the pairs by key into `list`; stable. Without memory, asks for its size.
SPIRA_LAUNCHER status ggs_sort(ggs_memory *m, const uint32_t *key, int32_t *list, int32_t pairs,
                               int bits, cudaStream_t stream) {
    return status_from_cuda(cub::DeviceRadixSort::SortPairs(m->cub, m->cub_bytes, key, m->sorted,
                                                            m->place, list, pairs, 0, bits, stream),
                            "ggs_plan (sort)");
}

SPIRA_LAUNCHER status ggs_memory_take(workspace *w, int volume, const ggs_map *map, ggs_order order,
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
        SPIRA_TRY(ggs_sort(m, m->key, m->place, (int32_t)pairs, 32, nullptr));
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
    // cuBLAS returns grouped products of 16-bit elements as 16-bit elements; sums must be fp32.
    SPIRA_REQUIRE(o->grouping.rule != ggs_rule_grouped || numeric_size(type) == 4,
                  status_unsupported, "grouping.rule (grouped products of halves)", type);
    return status_success();
}

SPIRA_API status ggs_map_check(const ggs_map *map) {
    SPIRA_REQUIRE(map, status_null_pointer, "map", 0);
    SPIRA_TRY(map_lists_check(&map->pairs));
    SPIRA_TRY(pointer_check(map->count, sizeof(int32_t), "map.count"));
    SPIRA_REQUIRE(map->inputs >= 1 && map->inputs <= INT32_MAX / 2, status_bad_size, "map.inputs",
                  map->inputs);
    SPIRA_REQUIRE(map->outputs >= 1 && map->outputs <= INT32_MAX / 2, status_bad_size,
                  "map.outputs", map->outputs);
    return status_success();
}

} // namespace spira

#endif
