// spira/gemm/products.cuh: the second step: one matrix product for each offset or group of offsets,
// by cuBLAS, on one stream or several.
#ifndef SPIRA_GEMM_PRODUCTS_CUH
#define SPIRA_GEMM_PRODUCTS_CUH

#include "layer.cuh"

#include <cublas_v2.h>

namespace spira {

// ---- streams ------------------------------------------------------------------------------------

// A stream for products, in addition to that of the run.
struct ggs_lane {
    cublasHandle_t handle; // its stream is `stream`; a handle of its own, with its own workspace
    cudaStream_t stream;
    cudaEvent_t done; // recorded by ggs_run
};

// The streams that compute the products. Without lanes, that of the run does all of them.
struct ggs_pool {
    cublasHandle_t handle; // its stream is that of the run
    const ggs_lane *lane;  // [lanes]
    int lanes;
    cudaEvent_t fork; // recorded by ggs_run; null without lanes
};

// detail: the status of cuBLAS.
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
                      "pool.lane (handle or stream of the run)", i);
    }
    return status_success();
}

// ---- scratch ------------------------------------------------------------------------------------

// The arrays of a layer, in device memory; features have the storage type of shape.type.
struct ggs_args {
    const void *in;      // [inputs, cin]
    const void *in2;     // [inputs, cin2], or null where cin2 is 0
    const void *weights; // [volume, cin + cin2, cout], as of ggs_weights_store; aligned to 16
    conv_epilogue epilogue;
    void *out; // [outputs, cout]
};

// Scratch of a run.
struct ggs_buffers {
    char *gathered; // [layer.gathered, pitch] bytes; rows are multiples of 16 bytes
    float *product; // [layer.rows, product_pitch]
    float *sums;    // [layer.outputs, product_pitch]; of ggs_order_pairs
    const void **pointers;
    int64_t pitch, product_pitch; // bytes, floats
};

// Whether the weights of a batch are equidistant in memory: no pointers are needed then.
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

// ---- calls of cuBLAS ----------------------------------------------------------------------------

// All products of a run. cuBLAS is column-major: product' = weight' * gathered'.
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

// Multiplies the inputs themselves, one source after the other.
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

// A batch with equidistant weights.
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

// A batch with weights anywhere: the pointers are in device memory.
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

// Products of different sizes: members first .. first + count - 1 of the order, each a group of
// one.
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

// Gives each call to the stream with the fewest rows so far; number 0 is that of the run.
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

// Forks the lanes from the stream of the run, and joins them again, also after a failed call: a
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

} // namespace spira

#endif
