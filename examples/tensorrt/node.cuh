// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/tensorrt/node.cuh: a whole sparse network as one node of a larger graph, for any
// runtime: from points or voxels to a dense map, or to the features and coordinates of a set.
//
//   source_make (record.h)  a model's bytes -> table, parameters, sizes of the outputs
//   node_plan               for a GPU model: the bytes of workspace
//   node_prepare            on the GPU that runs it: packs the parameters, once
//   node_launch             a frame, into a stream: allocates nothing, waits for nothing and reads
//                           nothing back, so that it may be captured in a graph
//
// A copy of a node shares model and packed parameters.
#ifndef SPIRA_EXAMPLES_TENSORRT_NODE_CUH
#define SPIRA_EXAMPLES_TENSORRT_NODE_CUH

#include "../../spira.cuh"
#include "record.h"

namespace node {

// The formats that are compiled: of all layers, or of those that are not int8.
constexpr spira::numeric node_format = spira::numeric_i8, node_type = spira::numeric_f16;

// Parameters in the memory of a GPU, packed for its model.
struct packed {
    void *weights;
    int device; // ordinal
    ~packed() {
        cudaFree(weights);
    }
};

struct node {
    record r = {};
    std::shared_ptr<const source> from;
    std::shared_ptr<const packed> loaded; // null: not prepared
    spira::net_plan plan = {};            // points into *from; layer_count 0: not planned
};

// The tensors of a frame, in device memory.
struct tensors {
    const float *rows; // [n, columns] points, x, y, z first; or features of voxels
    int32_t n, columns;
    const int32_t *coords; // [n, coord_columns] of voxels: 3, or 4 with the batch index (0) first
    int32_t coord_columns;
    const int32_t *count; // [1] rows that are valid, or null: all
    void *out;            // the map, or features [rows, channels]
    int32_t *out_coords;  // [rows, 4] of a set: batch index, then the node's order
    int32_t *out_count;   // [1] of a set
    spira::device_status *trouble;
};

// Where everything is in the workspace.
template <typename W>
struct arrays {
    spira::voxel_set<W> set;
    spira::voxel_rows rows;
    int32_t *count;
    void *xyz; // [points, 3] float or int32_t
    void *features, *scratch, *memory;
    size_t scratch_bytes;
};

// ---- planning -----------------------------------------------------------------------------------

static inline spira::voxel_input node_input(const node *n, const void *xyz, const int32_t *count) {
    spira::voxel_input in = n->from->grid;
    in.points = n->r.o.voxels ? nullptr : (const float *)xyz;
    in.coords = n->r.o.voxels ? (const int32_t *)xyz : nullptr;
    in.count = count;
    in.rows = n->r.o.max_points;
    in.columns = 3;
    in.duplicates = spira::duplicates_merge;
    in.drop_not_finite = !n->r.o.voxels;
    return in;
}

// Carves the workspace. Null: only counts the bytes.
template <typename W>
static spira::status node_carve(const node *n, void *workspace, arrays<W> *a, size_t *bytes) {
    const int32_t points = n->r.o.max_points, voxels = n->r.o.max_voxels, nothing[3] = {};
    const spira::voxel_input in = node_input(n, nothing, nothing);
    spira::workspace w = spira::workspace_begin(workspace);
    SPIRA_TRY(spira::voxelize_workspace<W>(&in, voxels, &a->scratch_bytes));
    a->set.capacity = voxels;
    a->set.words = spira::workspace_take<W>(&w, voxels);
    a->set.count = spira::workspace_take<int32_t>(&w, 1);
    a->count = spira::workspace_take<int32_t>(&w, 1);
    a->xyz = spira::workspace_take<int32_t>(&w, (int64_t)points * 3);
    a->rows.voxel = spira::workspace_take<int32_t>(&w, points);
    a->rows.order = spira::workspace_take<int32_t>(&w, points);
    a->rows.begin = spira::workspace_take<int32_t>(&w, (int64_t)voxels + 1);
    a->features = spira::workspace_take<float>(&w, (int64_t)voxels * n->plan.limits.channels);
    a->scratch = spira::workspace_take<char>(&w, (int64_t)a->scratch_bytes);
    a->memory = spira::workspace_take<char>(&w, (int64_t)n->plan.workspace_bytes);
    *bytes = w.used;
    return spira::status_success();
}

template <typename W>
static spira::status node_plan_as(const spira::device_info *gpu, node *n, size_t *bytes) {
    const source *s = n->from.get();
    const spira::net_limits limits = source_limits(s, &n->r.o, node_type);
    arrays<W> a;
    SPIRA_TRY(
        spira::net_plan_device<W>(gpu, s->net.layers, s->net.count, &s->layout, &limits, &n->plan));
    return node_carve(n, nullptr, &a, bytes);
}

// Plans for a GPU model. The first plan decides the bytes of workspace, which stay: a plan for
// another GPU that needs more of them is refused.
static inline spira::status node_plan(const spira::device_info *gpu, node *n) {
    size_t bytes;
    n->loaded.reset();
    SPIRA_TRY(n->from->layout.bits == 32 ? node_plan_as<uint32_t>(gpu, n, &bytes)
                                         : node_plan_as<uint64_t>(gpu, n, &bytes));
    SPIRA_REQUIRE(!n->r.workspace || bytes <= n->r.workspace, spira::status_capacity,
                  "workspace (planned for another GPU: build the engine on this one)", bytes);
    n->r.workspace = n->r.workspace ? n->r.workspace : bytes;
    n->r.gpu = *gpu;
    return spira::status_success();
}

static inline bool device_equal(const spira::device_info *a, const spira::device_info *b) {
    return a->capability == b->capability && a->multiprocessors == b->multiprocessors &&
           a->shared_max == b->shared_max && a->hopper == b->hopper &&
           a->programmatic == b->programmatic;
}

static inline spira::status node_pack(node *n, packed *p) {
    const std::vector<float> &params = n->from->params;
    const size_t bytes = params.size() * sizeof(float);
    float *staged = nullptr;
    SPIRA_TRY(spira::status_from_cuda(cudaMalloc(&p->weights, n->plan.loaded_bytes), "weights"));
    SPIRA_TRY(spira::status_from_cuda(cudaMalloc(&staged, bytes), "parameters"));
    cudaMemcpy(staged, params.data(), bytes, cudaMemcpyHostToDevice);
    const spira::net_load_args load = {staged, p->weights, n->plan.loaded_bytes, nullptr};
    spira::status s = spira::net_load<node_format>(&n->plan.gpu, &n->plan, &load, nullptr);
    const cudaError_t done = cudaStreamSynchronize(nullptr);
    cudaFree(staged);
    return spira::status_failed(s) ? s : spira::status_from_cuda(done, "packing");
}

// Makes a node ready for the current device: plans again if it is of another model, and packs the
// parameters. Costs one query where that is done already. Must not be captured.
static inline spira::status node_prepare(node *n) {
    int device;
    SPIRA_TRY(spira::status_from_cuda(cudaGetDevice(&device), "device"));
    if (n->loaded && n->loaded->device == device) {
        return spira::status_success();
    }
    spira::device_info gpu;
    SPIRA_TRY(spira::device_info_query(&gpu));
    if (!n->plan.layer_count || !device_equal(&gpu, &n->plan.gpu)) {
        SPIRA_TRY(node_plan(&gpu, n));
    }
    const std::shared_ptr<packed> p(new packed{nullptr, device});
    SPIRA_TRY(node_pack(n, p.get()));
    n->loaded = p;
    return spira::status_success();
}

// ---- a frame ------------------------------------------------------------------------------------

struct rows_args {
    const void *from;     // [n, columns]
    const int32_t *given; // [1] or null
    int32_t n, columns;
    int axis[3]; // the column of x, y, z of the network
    bool batch;  // column 0 is the batch index, which must be 0
    void *xyz;   // [n, 3]
    int32_t *count;
};

// Brings rows to the axes of the network, and counts them. A row of another batch is out of range.
template <typename T>
__global__ void rows_kernel(rows_args a) {
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int32_t n = a.given ? min(max(*a.given, 0), a.n) : a.n;
    if (i == 0) {
        *a.count = n;
    }
    if (i < n) {
        const T *row = (const T *)a.from + (int64_t)i * a.columns;
        T *to = (T *)a.xyz + (int64_t)i * 3;
        for (int k = 0; k < 3; ++k) {
            to[k] = a.batch && row[0] != 0 ? (T)-1 : row[a.axis[k]];
        }
    }
}

template <typename W>
static spira::status rows_launch(const node *n, const tensors *t, const arrays<W> *a,
                                 cudaStream_t stream) {
    const bool swap = n->from->net.exchange_xy, voxels = n->r.o.voxels;
    const int first = voxels && t->coord_columns == 4;
    const int z = voxels && !n->r.o.xyz ? 0 : 2; // columns of the points' axes
    const int x = first + 2 - z, y = first + 1;
    rows_args r = {
        t->rows,   t->count, t->n,    t->columns, {swap ? y : x, swap ? x : y, first + z},
        first > 0, a->xyz,   a->count};
    const unsigned blocks = (unsigned)spira::ceil_div(t->n + 1, 256);
    if (voxels) {
        r.from = t->coords;
        r.columns = t->coord_columns;
    }
    return spira::kernel_launch(voxels ? rows_kernel<int32_t> : rows_kernel<float>,
                                {blocks, 256, stream, "rows"}, r);
}

template <typename W>
struct coords_args {
    spira::word_layout layout;
    spira::net_result<W> of;
    int at[3]; // the column of x, y, z of the network
    int32_t *coords, *count;
};

// Writes the coordinates of a set, in voxels of its stride, and its count.
template <typename W>
__global__ void coords_kernel(coords_args<W> a) {
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i == 0) {
        *a.count = *a.of.set.count;
    }
    if (i < *a.of.set.count) {
        const spira::voxel v = spira::word_unpack<W>(&a.layout, a.of.set.words[i]);
        int32_t *row = a.coords + (int64_t)i * 4;
        row[0] = v.batch;
        row[a.at[0]] = (v.x - a.of.grid.origin.x) / a.of.stride.x;
        row[a.at[1]] = (v.y - a.of.grid.origin.y) / a.of.stride.y;
        row[a.at[2]] = (v.z - a.of.grid.origin.z) / a.of.stride.z;
    }
}

template <typename W>
static spira::status coords_launch(const node *n, const tensors *t,
                                   const spira::net_run_args<W> *run, cudaStream_t stream) {
    const bool swap = n->from->net.exchange_xy, xyz = n->r.o.xyz;
    const int x = xyz ? 1 : 3, y = 2, z = xyz ? 3 : 1;
    const coords_args<W> c = {n->from->layout,
                              spira::net_output(&n->plan, n->plan.layer_count - 1, run),
                              {swap ? y : x, swap ? x : y, z},
                              t->out_coords,
                              t->out_count};
    const unsigned blocks = (unsigned)spira::ceil_div(c.of.set.capacity, 256);
    return spira::kernel_launch(coords_kernel<W>, {blocks, 256, stream, "coordinates"}, c);
}

template <typename W>
static spira::status node_launch_as(const node *n, const tensors *t, void *workspace,
                                    cudaStream_t stream) {
    arrays<W> a;
    size_t bytes;
    SPIRA_TRY(node_carve(n, workspace, &a, &bytes));
    const spira::voxel_input input = node_input(n, a.xyz, a.count);
    SPIRA_TRY(spira::device_status_clear(t->trouble, stream));
    SPIRA_TRY(rows_launch(n, t, &a, stream));
    const spira::voxelize_args<W> voxels = {&n->from->layout, &input, a.set, a.rows, t->trouble};
    SPIRA_TRY(
        (spira::voxelize<W, spira::voxel_limits_any>(&voxels, a.scratch, a.scratch_bytes, stream)));
    spira::voxel_features_args<W> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = t->rows ? t->rows : (const float *)a.xyz; // null: a frame without rows
    mean.columns = t->columns;
    mean.channels = n->plan.limits.channels;
    mean.rows = a.rows;
    mean.set = a.set;
    mean.type = n->plan.input_type;
    mean.features = a.features;
    mean.inverse = mean.type == spira::numeric_i8 ? 1 / n->plan.input_scale : 0.0f;
    SPIRA_TRY(mean.type == spira::numeric_i8
                  ? spira::voxel_features<spira::numeric_i8>(&mean, stream)
                  : spira::voxel_features<node_type>(&mean, stream));
    spira::net_run_args<W> run = {};
    run.input = a.set;
    run.features = a.features;
    run.loaded = n->loaded->weights;
    run.trouble = t->trouble;
    run.memory = a.memory;
    run.bytes = n->plan.workspace_bytes;
    run.out = t->out;
    SPIRA_TRY(spira::net_run<W, node_format>(&n->plan.gpu, &n->plan, &run, stream));
    return n->r.o.set ? coords_launch(n, t, &run, stream) : spira::status_success();
}

// The columns that a node takes.
static inline spira::status node_accept(const node *n, int32_t rows, int32_t columns,
                                        int32_t coord_columns) {
    SPIRA_REQUIRE(rows >= 0 && rows <= n->r.o.max_points, spira::status_capacity, "max_points",
                  rows);
    const int32_t channels = n->from->net.input_channels, least = n->r.o.voxels ? channels : 3;
    SPIRA_REQUIRE(columns >= channels && columns >= least, spira::status_bad_size,
                  "columns (fewer than the network reads)", columns);
    SPIRA_REQUIRE(!n->r.o.voxels || coord_columns == 3 || coord_columns == 4,
                  spira::status_bad_size, "columns of the coordinates (3 or 4)", coord_columns);
    return spira::status_success();
}

// Launches a frame. The status word reports what only the GPU can see: a capacity that is passed,
// rows out of the range or without a return.
static inline spira::status node_launch(const node *n, const tensors *t, void *workspace,
                                        cudaStream_t stream) {
    SPIRA_REQUIRE(n->loaded, spira::status_bad_size, "node (not prepared)", 0);
    SPIRA_TRY(node_accept(n, t->n, t->columns, t->coord_columns));
    SPIRA_REQUIRE((t->rows || !t->n) && t->out && t->trouble && workspace,
                  spira::status_null_pointer, "tensors", 0);
    SPIRA_REQUIRE(!n->r.o.voxels || t->coords || !t->n, spira::status_null_pointer, "coords", 0);
    SPIRA_REQUIRE(!n->r.o.set || (t->out_coords && t->out_count), spira::status_null_pointer,
                  "coordinates of the set", 0);
    return n->from->layout.bits == 32 ? node_launch_as<uint32_t>(n, t, workspace, stream)
                                      : node_launch_as<uint64_t>(n, t, workspace, stream);
}

} // namespace node

#endif
