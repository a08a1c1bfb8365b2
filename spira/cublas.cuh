// spira/cublas.cuh: convolution by gather, cuBLAS products and scatter. Opt-in: spira.cuh does not
// include it, and programs that do are linked with -lcublas.
//
//   map_build_lists (map.cuh)           for each kernel map: pair lists of all offsets
//   ggs_plan_workspace, ggs_plan        for each kernel map and shape; synchronises once
//   ggs_weights_store                   once for each layer
//   ggs_run_workspace, ggs_run          for each layer
//
// The dataflow of the TorchSparse and Minuet papers, in three steps (gemm/):
//
//   gather    copies input rows to a buffer, offset by offset: gathered [rows, cin + cin2]
//   products  gathered * weight[k] of each offset, grouped (gemm/group.h): products [rows, cout]
//   scatter   adds up the products of each output, and the epilogue: out [outputs, cout]
//
// Products stay fp32 until they are added up; each output is rounded once. With ggs_order_rows,
// each input row is read once and written to all its places, and each output's products are added
// in registers, offsets ascending. With ggs_order_pairs, gather goes pair by pair, and scatter adds
// up in memory with one launch for each offset. Both are deterministic.
//
// cuBLAS takes the number of rows of a product as a host argument. ggs_plan therefore copies the
// sizes of the lists to the host and synchronises; it is the only function of spira that does. A
// plan holds for one kernel map and one shape, for any number of layers. ggs_run does not
// synchronise.
//
// Handles belong to the caller. The handle's stream must be the stream of the run; ggs_run does not
// set it, because cublasSetStream resets the handle's workspace. So, once:
//
//   cublasCreate(&handle); cublasSetStream(handle, stream); cublasSetWorkspace(handle, memory, n);
//
// Without cublasSetWorkspace a captured graph contains allocations of cuBLAS. 32 MiB are enough on
// sm_90, 4 MiB on older GPUs. Run once before capturing: cuBLAS loads modules at first use, which a
// capture does not allow.
#ifndef SPIRA_CUBLAS_CUH
#define SPIRA_CUBLAS_CUH

#include "base/launch.cuh"
#include "gemm/plan.cuh"
#include "gemm/run.cuh"

namespace spira {

// ---- planning -----------------------------------------------------------------------------------

// Bytes of workspace for ggs_plan, from the capacities of the map. No device pointer is read.
SPIRA_LAUNCHER status ggs_plan_workspace(const conv_shape *shape, const ggs_map *map,
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

// Plans the layers of one kernel map and one shape: groups the products and lists where rows are
// copied.
//
// inputs   shape: sizes and number format; map: the pair lists, not needed after the call; options:
//          rule, order and tiles
// outputs  layer: the plan. It points to host [ggs_host_size(volume)], in host memory, and to the
//          first layer.kept_bytes of the workspace: both must live as long as the plan
// errors   null pointers, sizes, a rule that the format does not support (grouped products
//          of 16-bit elements), mirrored offsets of different sizes, lists whose starts do not
//          ascend, more than 2^30 rows with padding, a workspace that is too small, a stream
//          that is captured
// SYNCHRONISES the stream once, to read the sizes of the lists; the rest of the plan is still being
// written in the stream when it returns. Deterministic. Lists that did not fit (device_status) are
// empty and make a layer without pairs.
// cost     by rows: two sorts of the pairs (CUB); by pairs: a pass over them
SPIRA_LAUNCHER status ggs_plan(const conv_shape *shape, const ggs_map *map,
                               const ggs_options *options, int32_t *host, void *scratch,
                               size_t scratch_bytes, ggs_layer *layer, cudaStream_t stream) {
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
    SPIRA_TRY(ggs_plan_sizes(shape->volume, map, &m, h, stream));
    SPIRA_TRY(ggs_plan_groups(&l, h));
    size_t bytes = (size_t)ggs_table_size(shape->volume) * sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(m.table, h.table, bytes, cudaMemcpyHostToDevice, stream), "ggs_plan"));
    SPIRA_TRY(ggs_plan_lists(&m, &l, map, stream));
    *layer = l;
    return status_success();
}

// ---- weights ------------------------------------------------------------------------------------

// Stores weights as ggs_run reads them: rounded to the format, in the same order. Once, when a
// network is loaded. fp32 weights may be used as they are.
//
// inputs   weight [volume, cin + cin2, cout] fp32, offsets in spira's order (offset.h)
// outputs  stored [volume, cin + cin2, cout] of the format's storage type (tf32: float); may be
//          `weight` itself if the format is as wide
// Asynchronous, deterministic.
template <numeric format = numeric_any>
SPIRA_API status ggs_weights_store(const conv_shape *shape, const float *weight, void *stored,
                                   cudaStream_t stream) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_TRY(pointer_check(weight, sizeof(float), "weight"));
    SPIRA_TRY(pointer_check(stored, (size_t)numeric_size(shape->type), "stored"));
    int64_t total = (int64_t)shape->volume * (shape->cin + shape->cin2) * shape->cout;
    int64_t grid = ceil_div(total, ggs_threads);
    SPIRA_REQUIRE(grid <= INT32_MAX, status_bad_size, "shape", grid);
    return numeric_dispatch<format>(shape->type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        return kernel_launch(ggs_store_kernel<E>,
                             {(unsigned)grid, ggs_threads, stream, "ggs_weights_store"},
                             shape->type, weight, total, (E *)stored);
    });
}

// ---- running ------------------------------------------------------------------------------------

// Bytes of scratch for ggs_run: the buffers of gathered rows and of products. Other layers may use
// the same memory before and after.
SPIRA_API status ggs_run_workspace(const ggs_layer *layer, size_t *bytes) {
    SPIRA_REQUIRE(layer, status_null_pointer, "layer", 0);
    SPIRA_TRY(conv_shape_check(&layer->shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    ggs_buffers_take(&w, layer);
    *bytes = w.used;
    return status_success();
}

// A convolution by gather, products and scatter, as planned.
//
// format     compiled for; numeric_any: all four, chosen by the layer
//
// inputs   layer: of ggs_plan, for any features and weights of its shape; args: see ggs_args; pool:
//          handles and streams, see ggs_pool and the top of this file
// outputs  args.out [outputs, cout]: rows from the number of outputs on are not written
// errors   null pointers, alignment, an output that is an input, a handle of another stream or in
//          device pointer mode, a workspace that is too small; status_unsupported or status_cuda
//          with the status of cuBLAS as detail, where it refuses a product or fails
// Asynchronous; does not allocate if the handles have workspaces. The residual may be `out` itself.
// Deterministic for one GPU, one version of cuBLAS and handles with cublasSetAtomicsMode off (the
// default). Each lane has its own handle: the streams of one handle would share its workspace.
// tf32: features are rounded when they are gathered, weights by ggs_weights_store.
// cost     by rows: reads each input row once, writes and reads (cin + cin2) elements and cout
//          floats a pair and row of padding, writes each output once; layer.launches launches
template <numeric format = numeric_any>
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
    return numeric_dispatch<format>(layer->shape.type, [&](auto tag) {
        if (layer->gathered) {
            SPIRA_TRY(ggs_run_gather(&job, stream));
        }
        SPIRA_TRY(ggs_products(&job, pool, stream));
        return ggs_run_scatter<typename decltype(tag)::element>(&job, stream);
    });
}

} // namespace spira

#endif
