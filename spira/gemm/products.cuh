// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gemm/products.cuh: the products of a run: one for each offset or batch of offsets, by
// cuBLAS.
#ifndef SPIRA_GEMM_PRODUCTS_CUH
#define SPIRA_GEMM_PRODUCTS_CUH

#include "copy.cuh"

#include <cublas_v2.h>

namespace spira {

// detail: the status of cuBLAS.
SPIRA_API status status_from_cublas(cublasStatus_t s, const char *subject) {
    bool unknown = s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_ARCH_MISMATCH;
    return s == CUBLAS_STATUS_SUCCESS
               ? status_success()
               : status_make(unknown ? status_unsupported : status_cuda, subject, (int64_t)s);
}

SPIRA_API status ggs_handle_check(cublasHandle_t handle, cudaStream_t stream) {
    SPIRA_REQUIRE(handle, status_null_pointer, "handle (cublasHandle_t)", 0);
    cudaStream_t own = nullptr;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
    SPIRA_TRY(status_from_cublas(cublasGetStream(handle, &own), "handle"));
    SPIRA_TRY(status_from_cublas(cublasGetPointerMode(handle, &mode), "handle"));
    SPIRA_REQUIRE(own == stream, status_unsupported, "handle (its stream is another)", 0);
    SPIRA_REQUIRE(mode == CUBLAS_POINTER_MODE_HOST, status_unsupported,
                  "handle (pointer mode: device)", 0);
    return status_success();
}

// How cuBLAS multiplies. It is column-major: product' = weight' * gathered'.
struct ggs_job {
    const ggs_run_params *run;
    cublasHandle_t handle;
    cudaDataType_t type;
    cublasComputeType_t compute;
};

SPIRA_API ggs_job ggs_job_make(const ggs_run_params *run, cublasHandle_t handle) {
    switch (run->layer.shape.type) {
    case numeric_f16:
        return {run, handle, CUDA_R_16F, CUBLAS_COMPUTE_32F};
    case numeric_bf16:
        return {run, handle, CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case numeric_tf32:
        return {run, handle, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    default: // whatever the handle's math mode
        return {run, handle, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC};
    }
}

SPIRA_API status ggs_multiply_one(const ggs_job *j, const ggs_group *g) {
    const float one = 1.0f, zero = 0.0f;
    const ggs_run_params *r = j->run;
    const int channels = ggs_shape_channels(&r->layer.shape), cout = r->layer.shape.cout;
    const int32_t k = r->layer.groups.order[g->first];
    const int64_t row = r->layer.groups.row[k];
    return status_from_cublas(cublasGemmEx(j->handle, CUBLAS_OP_N, CUBLAS_OP_N, cout, g->rows,
                                           channels, &one,
                                           (const char *)r->conv.weights + k * r->weight_bytes,
                                           j->type, cout, r->gathered + row * r->chunks * ggs_chunk,
                                           j->type, channels, &zero, r->product + row * r->pitch,
                                           CUDA_R_32F, r->pitch, j->compute, CUBLAS_GEMM_DEFAULT),
                              "cublasGemmEx");
}

// The pointers are in device memory.
SPIRA_API status ggs_multiply_batch(const ggs_job *j, const ggs_group *g) {
    const float one = 1.0f, zero = 0.0f;
    const ggs_run_params *r = j->run;
    const int channels = ggs_shape_channels(&r->layer.shape), cout = r->layer.shape.cout;
    return status_from_cublas(
        cublasGemmBatchedEx(j->handle, CUBLAS_OP_N, CUBLAS_OP_N, cout, g->rows, channels, &one,
                            r->weight_at + g->first, j->type, cout, r->gathered_at + g->first,
                            j->type, channels, &zero, r->product_at + g->first, CUDA_R_32F,
                            r->pitch, g->count, j->compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmBatchedEx");
}

SPIRA_API status ggs_products(const ggs_job *j) {
    const ggs_groups *groups = &j->run->layer.groups;
    for (const ggs_group *g = groups->group; g < groups->group + groups->count; ++g) {
        SPIRA_TRY(g->count == 1 ? ggs_multiply_one(j, g) : ggs_multiply_batch(j, g));
    }
    return status_success();
}

} // namespace spira

#endif
