// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/cublas.cuh: convolution by gather, cuBLAS products and scatter. Opt-in: spira.cuh does not
// include it, and programs that do are linked with -lcublas.
//
//   map_build_lists (map.cuh)             for each kernel map: pair lists of all offsets
//   ggs_plan_workspace, ggs_plan          for each kernel map and shape; synchronises once
//   ggs_weights_bytes, ggs_weights_pack   once for each layer
//   ggs_run_workspace, ggs_run            for each layer
//
// The dataflow of the TorchSparse and Minuet papers, in three steps (gemm/):
//
//   gather    copies each input row to its places in a buffer, offset by offset: gathered [rows,
//             cin + cin2]
//   products  gathered * weight[k] of each offset, batched (gemm/layer.h): products [rows, cout]
//   scatter   adds up the products of each output in registers, offsets ascending, and applies the
//             epilogue: out [outputs, cout]
//
// Products stay fp32 until they are added up; each output is rounded once.
//
// cuBLAS takes the number of rows of a product as a host argument. ggs_plan therefore copies the
// sizes of the lists to the host and synchronises; it is the only function of spira that does. A
// plan holds for one kernel map and one shape, for any number of layers.
//
// The handle belongs to the caller. Its stream must be the stream of the run; ggs_run does not set
// it, because cublasSetStream resets the handle's workspace. So, once:
//
//   cublasCreate(&handle); cublasSetStream(handle, stream); cublasSetWorkspace(handle, memory, n);
//
// Without cublasSetWorkspace a captured graph contains allocations of cuBLAS. 32 MiB are enough on
// sm_90, 4 MiB on older GPUs. Run once before capturing: cuBLAS loads modules at first use, which a
// capture does not allow.
#ifndef SPIRA_CUBLAS_CUH
#define SPIRA_CUBLAS_CUH

#include "conv/pack.cuh"
#include "conv/run.cuh"
#include "gemm/plan.cuh"
#include "gemm/products.cuh"

namespace spira {

// ---- planning -----------------------------------------------------------------------------------

// Number of int32_t of host memory for ggs_plan.
SPIRA_API int64_t ggs_host_size(int volume) {
    static_assert(sizeof(ggs_group) == 3 * sizeof(int32_t), "ggs_plan_groups");
    return 7 * (int64_t)volume + 2;
}

// Bytes of workspace for ggs_plan, from the capacities of the map. No device pointer is read.
SPIRA_LAUNCHER status ggs_plan_workspace(const ggs_request *request, size_t *bytes) {
    SPIRA_TRY(ggs_request_check(request));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    workspace w = workspace_begin(nullptr);
    ggs_layer l;
    ggs_memory m;
    SPIRA_TRY(ggs_memory_take(&w, request, &l, &m));
    *bytes = w.used;
    return status_success();
}

// Plans the layers of one kernel map and one shape: groups the products and lists where rows are
// copied.
//
// inputs   request: see ggs_request. Pairs whose input or output is not there (negative, or from
//          inputs or *count on) are skipped
// outputs  layer: the plan. It points to host [ggs_host_size(volume)], in host memory, and to the
//          first layer.kept_bytes of the workspace: both must live as long as the plan
// errors   lists whose starts do not ascend, more than 2^30 rows with padding, a stream that is
//          captured
// SYNCHRONISES the stream once, to read the sizes of the lists; the rest of the plan is still being
// written in the stream when it returns. Deterministic. Lists that did not fit (device_status) are
// empty and make a layer without pairs.
// cost     two sorts of the pairs (CUB)
SPIRA_LAUNCHER status ggs_plan(const ggs_request *request, int32_t *host, void *scratch,
                               size_t scratch_bytes, ggs_layer *layer, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_TRY(ggs_plan_workspace(request, &needed));
    SPIRA_REQUIRE(host, status_null_pointer, "host", 0);
    SPIRA_REQUIRE(layer, status_null_pointer, "layer", 0);
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SPIRA_TRY(status_from_cuda(cudaStreamIsCapturing(stream, &capture), "stream"));
    SPIRA_REQUIRE(capture == cudaStreamCaptureStatusNone, status_unsupported,
                  "stream (is captured: ggs_plan synchronises it)", 0);
    workspace w = workspace_begin(scratch);
    ggs_layer l = {};
    ggs_memory m;
    SPIRA_TRY(ggs_memory_take(&w, request, &l, &m));
    const size_t volume = (size_t)request->shape.volume, bytes = sizeof(int32_t);
    SPIRA_TRY(status_from_cuda(cudaMemcpyAsync(host, request->pairs.begin, (volume + 1) * bytes,
                                               cudaMemcpyDeviceToHost, stream),
                               "pairs.begin"));
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(host + volume + 1, request->count, bytes, cudaMemcpyDeviceToHost, stream),
        "count"));
    SPIRA_TRY(status_from_cuda(cudaStreamSynchronize(stream), "ggs_plan"));
    SPIRA_TRY(ggs_plan_groups(request, host, &l));
    SPIRA_TRY(status_from_cuda(
        cudaMemcpyAsync(l.row_of, l.groups.row, 2 * volume * bytes, cudaMemcpyHostToDevice, stream),
        "ggs_plan"));
    SPIRA_TRY(ggs_plan_side<true>(request, &l, &m, stream));
    SPIRA_TRY(ggs_plan_side<false>(request, &l, &m, stream));
    *layer = l;
    return status_success();
}

// ---- weights ------------------------------------------------------------------------------------

// Bytes of packed weights.
SPIRA_API status ggs_weights_bytes(const conv_shape *shape, size_t *bytes) {
    SPIRA_TRY(conv_shape_check(shape));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = (size_t)shape->volume * (size_t)ggs_shape_channels(shape) * (size_t)shape->cout *
             (size_t)numeric_size(shape->type);
    return status_success();
}

// Packs weights for ggs_run: as conv_weights_pack, to ggs_weights_bytes in another order.
template <numeric format = numeric_any>
SPIRA_API status ggs_weights_pack(const device_info *gpu, const conv_shape *shape,
                                  const conv_weights *weights, cudaStream_t stream) {
    size_t bytes = 0;
    SPIRA_REQUIRE(gpu, status_null_pointer, "gpu", 0);
    SPIRA_TRY(ggs_weights_bytes(shape, &bytes));
    SPIRA_TRY(conv_pack_check(shape, weights, bytes));
    const int64_t total = (int64_t)bytes / numeric_size(shape->type);
    const conv_pack_request r = conv_pack_request_of(gpu, shape, conv_kernel_exact, weights);
    return numeric_dispatch<format>(shape->type, [&](auto tag) {
        return conv_pack_launch(&r, total, 0, ggs_pack_kernel<typename decltype(tag)::element>,
                                stream);
    });
}

// ---- running ------------------------------------------------------------------------------------

// The arrays of a layer, in device memory; features have the storage type of shape.type.
struct ggs_args {
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // of ggs_weights_pack, with the same shape
    conv_epilogue epilogue;
    void *out;             // [outputs, cout]
    cublasHandle_t handle; // its stream is that of the run; see the top of this file
};

// Bytes of scratch for ggs_run: the buffers of gathered rows and of products. Other layers may use
// the same memory before and after.
SPIRA_API status ggs_run_workspace(const ggs_layer *layer, size_t *bytes) {
    SPIRA_REQUIRE(layer, status_null_pointer, "layer", 0);
    SPIRA_TRY(conv_shape_check(&layer->shape));
    return workspace_measure(bytes, [&](workspace *w) { ggs_run_take(w, layer); });
}

// A convolution by gather, products and scatter, as planned.
//
// format     compiled for; numeric_any: all four, chosen by the layer
//
// inputs   layer: of ggs_plan, for any features and weights of its shape; args: see ggs_args
// outputs  args.out [outputs, cout]: rows from the number of outputs on are not written
// errors   an output that is an input, a handle of another stream or in device pointer mode;
//          status_unsupported or status_cuda with the status of cuBLAS as detail, where it refuses
//          a product or fails
// Asynchronous; does not allocate if the handle has a workspace. The residual may be `out` itself.
// Deterministic for one GPU, one version of cuBLAS and a handle with cublasSetAtomicsMode off (the
// default). tf32: features are rounded when they are gathered, weights by ggs_weights_pack.
// cost     reads each input row once, writes and reads (cin + cin2) elements and cout floats a pair
//          and row of padding, writes each output once; two kernels, and a call of cuBLAS a group
template <numeric format = numeric_any>
SPIRA_API status ggs_run(const device_info *gpu, const ggs_layer *layer, const ggs_args *args,
                         void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    size_t needed = 0;
    SPIRA_TRY(ggs_run_workspace(layer, &needed));
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    conv_map map = conv_map_identity(layer->out.begin, (int32_t)max_of(layer->outputs, 1));
    map.volume = layer->shape.volume;
    conv_args same = {}; // of `conv`, with a map that is not read
    same.shape = layer->shape;
    same.map = &map;
    same.in = args->in;
    same.in2 = args->in2;
    same.weights = args->weights;
    same.epilogue = args->epilogue;
    same.out = args->out;
    SPIRA_TRY(conv_check(gpu, &same));
    SPIRA_TRY(ggs_handle_check(args->handle, stream));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    if (layer->outputs == 0) {
        return status_success();
    }
    workspace w = workspace_begin(scratch);
    ggs_run_params p = ggs_run_take(&w, layer);
    p.conv = conv_params_of(gpu, &same, conv_kernel_exact);
    const ggs_job job = ggs_job_make(&p, args->handle);
    return numeric_dispatch<format>(layer->shape.type, [&](auto tag) {
        typedef typename decltype(tag)::element E;
        const dim3 gather = ggs_grid(layer->inputs, p.chunks);
        const dim3 scatter = ggs_grid(layer->outputs, p.pitch / 4);
        SPIRA_TRY(kernel_launch(ggs_gather_kernel<E>,
                                {gather, ggs_threads, stream, "ggs_run (gather)"}, p));
        SPIRA_TRY(ggs_products(&job));
        return kernel_launch(ggs_scatter_kernel<E>,
                             {scatter, ggs_threads, stream, "ggs_run (scatter)"}, p);
    });
}

} // namespace spira

#endif
