// spira/gemm/gather.cuh: the first step: copies input rows to the buffer of the products.
#ifndef SPIRA_GEMM_GATHER_CUH
#define SPIRA_GEMM_GATHER_CUH

#include "plan.cuh"
#include "rows.cuh"

namespace spira {

// Device arrays of the operands of batched products; written by the gather kernel.
struct ggs_pointers {
    const void **weight, **gathered; // [count] in the order of the groups
    void **product;                  // [count]
    int32_t count;                   // 0: not needed
};

struct ggs_gather {
    ggs_rows in;
    const int32_t *source; // input row of each list, or null: list i is of row i
    const int32_t *begin;  // first place of each list, or null: one place each
    const int32_t *place;
    ggs_table table;
    ggs_pointers pointers;
    const char *weights;
    char *gathered, *product;
    int64_t weight_bytes, pitch, product_pitch; // bytes of one offset's weights, of the rows
    int32_t lists, pads, padding;
    int chunks;  // of a row
    int columns; // threads of a row: thread i has chunks i, i + columns, ...
    int list_blocks, pad_blocks;
    bool tf32;
};

// Copies an input row to all places of its list.
template <int tile>
SPIRA_DEVICE void ggs_gather_list(const ggs_gather &p, int64_t list) {
    int64_t row = p.source ? p.source[list] : list;
    int64_t at = p.begin ? p.begin[list] : list, end = p.begin ? p.begin[list + 1] : list + 1;
    if (row < 0 || at >= end) {
        return;
    }
    for (int first = (int)threadIdx.x; first < p.columns; first += (int)blockDim.x) {
        uint4 v[tile];
#pragma unroll
        for (int j = 0; j < tile; ++j) {
            v[j] = ggs_load(p.in, row, (first + j * p.columns) * ggs_chunk); // zeros past the end
            v[j] = p.tf32 ? tf32_bits_4(v[j]) : v[j];
        }
        for (int64_t i = at; i < end; ++i) {
            char *to = p.gathered + p.place[i] * p.pitch;
#pragma unroll
            for (int j = 0; j < tile; ++j) {
                if (first + j * p.columns < p.chunks) {
                    *(uint4 *)(to + (first + j * p.columns) * ggs_chunk) = v[j];
                }
            }
        }
    }
}

// Clears row number `pad` of the padding.
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

// Thread blocks copy lists, clear padding, and one writes the pointers.
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

SPIRA_LAUNCHER status ggs_gather_launch(ggs_gather p, int tile, cudaStream_t stream) {
    p.columns = (int)ceil_div(p.chunks, tile);
    dim3 block = ggs_block_shape(p.columns);
    p.list_blocks = (int)ceil_div(p.lists, block.y);
    p.pad_blocks = (int)ceil_div(p.padding, block.y);
    unsigned blocks =
        (unsigned)p.list_blocks + (unsigned)p.pad_blocks + (p.pointers.count > 0 ? 1u : 0u);
    const auto kernel = tile == 1   ? ggs_gather_kernel<1>
                        : tile == 2 ? ggs_gather_kernel<2>
                        : tile == 4 ? ggs_gather_kernel<4>
                                    : ggs_gather_kernel<8>;
    return kernel_launch(kernel, {blocks, block, stream, "ggs_run (gather)"}, p);
}

} // namespace spira

#endif
