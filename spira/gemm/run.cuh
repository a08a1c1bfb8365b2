// spira/gemm/run.cuh: the three steps of a planned layer, and the storage of its weights.
#ifndef SPIRA_GEMM_RUN_CUH
#define SPIRA_GEMM_RUN_CUH

#include "gather.cuh"
#include "products.cuh"
#include "scatter.cuh"

namespace spira {

SPIRA_API status ggs_args_check(const conv_shape *s, const ggs_args *a) {
    SPIRA_REQUIRE(a, status_null_pointer, "args", 0);
    SPIRA_TRY(epilogue_check(&a->epilogue));
    const size_t element = (size_t)numeric_size(s->type);
    SPIRA_TRY(pointer_check(a->in, element, "in"));
    if (s->cin2) {
        SPIRA_TRY(pointer_check(a->in2, element, "in2"));
    }
    SPIRA_TRY(pointer_check(a->weights, ggs_chunk, "weights"));
    SPIRA_TRY(pointer_check(a->out, element, "out"));
    if (a->epilogue.residual) {
        SPIRA_TRY(pointer_check(a->epilogue.residual, element, "epilogue.residual"));
    }
    for (const float *vector : {a->epilogue.bias, a->epilogue.scale, a->epilogue.shift}) {
        if (vector) {
            SPIRA_TRY(pointer_check(vector, sizeof(float), "epilogue (bias, scale, shift)"));
        }
    }
    SPIRA_REQUIRE(a->out != a->in && (!s->cin2 || a->out != a->in2), status_unsupported,
                  "out (overlaps an input)", 0);
    return status_success();
}

// ---- the steps ----------------------------------------------------------------------------------

SPIRA_LAUNCHER status ggs_run_gather(const ggs_job *j, cudaStream_t stream) {
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

// ggs_order_pairs: adds one offset after the other, ascending.
SPIRA_LAUNCHER status ggs_run_add(const ggs_job *j, cudaStream_t stream) {
    const ggs_layer *l = j->layer;
    const ggs_buffers *b = &j->buffers;
    size_t bytes = (size_t)(l->outputs * b->product_pitch) * sizeof(float);
    SPIRA_TRY(status_from_cuda(cudaMemsetAsync(b->sums, 0, bytes, stream), "ggs_run (scatter)"));
    dim3 block = ggs_block_shape((int)ceil_div(j->cout, 4));
    for (int k = 0; k < l->shape.volume; ++k) {
        if (l->sizes[k]) {
            SPIRA_TRY(kernel_launch(
                ggs_add_kernel<>,
                {(unsigned)ceil_div(l->sizes[k], block.y), block, stream, "ggs_run (scatter)"},
                b->product + l->host.row[k] * b->product_pitch, l->lists.target + l->begin[k],
                l->sizes[k], b->product_pitch, j->cout, b->sums));
        }
    }
    return status_success();
}

template <typename E>
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
    return ggs_scatter_launch<E>(p, l->options.scatter_tile, stream);
}

// ---- weights ------------------------------------------------------------------------------------

// Rounds weights to the format, in their order.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(ggs_threads)
    ggs_store_kernel(numeric type, const float *weight, int64_t total, E *stored) {
    int64_t i = (int64_t)blockIdx.x * ggs_threads + threadIdx.x;
    if (i < total) {
        stored[i] = element_from_float<E>(element_operand(type, weight[i]));
    }
}

} // namespace spira

#endif
