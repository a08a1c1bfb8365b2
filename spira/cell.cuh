// spira/cell.cuh: ordered layouts of inverse convolutions on the GPU, straight from the sets.
//
// Two launches, each over all layouts; a block of threads has 1024 outputs. `find` searches their
// cells, and counts the outputs of each offset. `put` adds up the counts of the blocks before its
// own, and writes its outputs where they belong, and what else there is of its share of places.
#ifndef SPIRA_CELL_CUH
#define SPIRA_CELL_CUH

#include "async.cuh"
#include "cell.h"
#include "launch.cuh"

namespace spira {

enum {
    cell_requests_max = 16, // of one go
    cell_threads = 256,
    cell_items = cell_rows / cell_threads, // outputs of a thread, searched side by side
    cell_strips = cell_rows / 32,          // the outputs that a warp has at a time
};

static_assert(cell_threads == 32 * cell_offsets, "a warp for an offset");
static_assert(cell_strips == 32, "a lane for a strip");

template <typename W>
struct cell_task {
    cell_request<W> request;
    cell_scratch scratch;
    int32_t first; // block of threads
};

template <typename W>
struct cell_batch {
    cell_task<W> task[cell_requests_max];
    word_layout layout;
    int tasks;
};

template <typename W>
SPIRA_DEVICE const cell_task<W> &cell_find_task(const cell_batch<W> &batch) {
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].first) {
        ++t;
    }
    return batch.task[t];
}

// The number of a thread's output i in its block.
SPIRA_DEVICE int cell_item(int i) {
    return ((int)threadIdx.x / 32 * cell_items + i) * 32 + (int)threadIdx.x % 32;
}

// The lanes whose offset is `wanted`; offset: a lane's own, or cell_offsets: none.
SPIRA_DEVICE uint32_t cell_peers(int offset, int wanted) {
    uint32_t peers = __ballot_sync(~0u, offset < cell_offsets);
#pragma unroll
    for (int bit = 1; bit < cell_offsets; bit *= 2) {
        const uint32_t set = __ballot_sync(~0u, offset & bit);
        peers &= wanted & bit ? set : ~set;
    }
    return peers;
}

// Where each of some words stands among `count` ascending ones, or -1.
template <typename W>
SPIRA_DEVICE void cell_search(const W *words, int32_t count, const W (&wanted)[cell_items],
                              int32_t (&at)[cell_items]) {
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        at[i] = 0; // words below the wanted one
    }
    for (int32_t step = count ? 1 << (31 - __clz(count)) : 0; step; step /= 2) {
#pragma unroll
        for (int i = 0; i < cell_items; ++i) {
            const int32_t next = at[i] + step;
            at[i] = next <= count && words[next - 1] < wanted[i] ? next : at[i];
        }
    }
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        at[i] = at[i] < count && words[at[i]] == wanted[i] ? at[i] : -1;
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cell_threads)
    cell_find_kernel(const __grid_constant__ cell_batch<W> batch) {
    __shared__ int32_t counts[cell_offsets];
    chain_next();
    const cell_task<W> &task = cell_find_task(batch);
    const cell_request<W> &r = task.request;
    const int32_t block = (int32_t)blockIdx.x - task.first, lane = threadIdx.x % 32;
    const int32_t count = min(*r.outputs.count, r.outputs.capacity);
    const int32_t sources = min(*r.source.count, r.source.capacity);
    W cell[cell_items];
    int32_t source[cell_items];
    int offset[cell_items];
    if (threadIdx.x < cell_offsets) {
        counts[threadIdx.x] = 0;
    }
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        cell[i] = 0;
        offset[i] = cell_offsets;
        if (row < count) {
            const cell_place<W> own = cell_find(&batch.layout, &r.kernel, r.outputs.words[row]);
            cell[i] = own.cell;
            offset[i] = own.offset;
        }
    }
    cell_search(r.source.words, sources, cell, source);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        const int own = __popc(cell_peers(offset[i], lane));
        if (lane < cell_offsets && own) {
            atomicAdd(counts + lane, own);
        }
        if (row < count) {
            task.scratch.source[row] = source[i];
            task.scratch.offset[row] = (uint8_t)offset[i];
        }
    }
    __syncthreads();
    if (threadIdx.x < cell_offsets) {
        task.scratch.count[threadIdx.x * cell_blocks(r.outputs.capacity) + block] =
            counts[threadIdx.x];
    }
    chain_wait();
}

// What a block of threads of cell_put_kernel shares.
struct cell_shared {
    int32_t all[cell_offsets], before[cell_offsets]; // outputs of all blocks, and of those before
    int32_t strip[cell_strips][cell_offsets];        // of each strip; then the place of its first
    cell_places places;
};

// Adds up an offset's outputs: a warp for each.
template <typename W>
SPIRA_DEVICE void cell_add(const cell_task<W> &task, int32_t block, int32_t count, cell_shared &s) {
    const int offset = threadIdx.x / 32;
    const int32_t *counts =
        task.scratch.count + offset * cell_blocks(task.request.outputs.capacity);
    int32_t all = 0, before = 0;
    for (int32_t b = threadIdx.x % 32; b < cell_blocks(count); b += 32) {
        all += counts[b];
        before += b < block ? counts[b] : 0;
    }
    all = warp_sum(all);
    before = warp_sum(before);
    if (threadIdx.x % 32 == 0) {
        s.all[offset] = all;
        s.before[offset] = before;
    }
}

// From the outputs of each strip to the places of their first ones: a warp for each offset.
SPIRA_DEVICE void cell_place_strips(cell_shared &s) {
    const int offset = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int32_t own = s.strip[lane][offset];
    int32_t sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int32_t lower = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? lower : 0;
    }
    s.strip[lane][offset] = s.places.begin[offset] + s.before[offset] + sum - own;
}

// A block's share of what does not depend on its outputs: the places behind the last output, masks
// and turns.
SPIRA_DEVICE void cell_put_rest(const order_layout &t, const cell_places &places, int32_t capacity,
                                int32_t count, int32_t block) {
    const int32_t blocks = order_count(capacity), thread = threadIdx.x;
    for (int i = 0; i < cell_items; ++i) {
        const int64_t place = (int64_t)block * cell_rows + cell_item(i);
        if (place >= count && place < (int64_t)blocks * order_rows) {
            cell_put(t, places, place, -1, 0, -1);
        }
    }
    const int32_t own = block * (cell_rows / order_rows) + thread;
    if (thread < cell_rows / order_rows && own < blocks) {
        t.mask[own] = cell_mask(places, own);
        t.turn[own / 2] = own / 2;
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cell_threads)
    cell_put_kernel(const __grid_constant__ cell_batch<W> batch) {
    __shared__ cell_shared shared;
    chain_next();
    const cell_task<W> &task = cell_find_task(batch);
    const cell_request<W> &r = task.request;
    const int32_t block = (int32_t)blockIdx.x - task.first, lane = threadIdx.x % 32;
    const int32_t count = min(*r.outputs.count, r.outputs.capacity);
    int32_t source[cell_items];
    int offset[cell_items], before[cell_items]; // of the strip's outputs with the same offset
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        source[i] = row < count ? task.scratch.source[row] : -1;
        offset[i] = row < count ? task.scratch.offset[row] : (int)cell_offsets;
    }
    cell_add(task, block, count, shared);
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int own = __popc(cell_peers(offset[i], lane));
        before[i] = __popc(cell_peers(offset[i], offset[i]) & ((1u << lane) - 1));
        if (lane < cell_offsets) {
            shared.strip[threadIdx.x / 32 * cell_items + i][lane] = own;
        }
    }
    __syncthreads();
    if (threadIdx.x <= cell_offsets) {
        int32_t begin = 0;
        for (int k = 0; k < (int)threadIdx.x; ++k) {
            begin += shared.all[k];
        }
        shared.places.begin[threadIdx.x] = begin;
    }
    __syncthreads();
    cell_place_strips(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        if (row < count) {
            const int32_t first = shared.strip[threadIdx.x / 32 * cell_items + i][offset[i]];
            cell_put(r.layout, shared.places, first + before[i], row, offset[i], source[i]);
        }
    }
    cell_put_rest(r.layout, shared.places, r.outputs.capacity, count, block);
    chain_wait();
}

// ---- launchers ----------------------------------------------------------------------------------

template <typename W>
SPIRA_API status cell_requests_check(const word_layout *layout, const cell_request<W> *request,
                                     int requests) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(requests >= 1 && requests <= cell_requests_max, status_bad_size, "requests",
                  requests);
    for (int i = 0; i < requests; ++i) {
        SPIRA_TRY(cell_check(layout, request + i));
    }
    return status_success();
}

// scratch: of each request, cell_scratch_bytes, aligned to 256.
template <typename W>
SPIRA_API cell_batch<W> cell_batch_make(const word_layout *layout, const cell_request<W> *request,
                                        int requests, void *const *scratch, unsigned *blocks) {
    cell_batch<W> batch = {};
    *blocks = 0;
    for (int i = 0; i < requests; ++i) {
        const int32_t capacity = request[i].outputs.capacity;
        workspace w = workspace_begin(scratch[i]);
        batch.task[i] = {request[i], cell_carve(&w, capacity), (int32_t)*blocks};
        *blocks += (unsigned)cell_blocks(capacity);
    }
    batch.layout = *layout;
    batch.tasks = requests;
    static_assert(sizeof batch <= 4096, "parameters of a kernel");
    return batch;
}

// The first half of cell_order, with arguments that have been looked at: where the cells are. What
// is launched behind it and needs nothing of it may be early (launch.cuh).
template <typename W>
SPIRA_API status cell_order_find(const word_layout *layout, const cell_request<W> *request,
                                 int requests, void *const *scratch, cudaStream_t stream) {
    unsigned blocks;
    const cell_batch<W> batch = cell_batch_make(layout, request, requests, scratch, &blocks);
    return chain_launch(cell_find_kernel<W>, blocks, cell_threads, 0, false, 1, stream,
                        "cell_order", batch);
}

// The second half, with the same arguments: the layouts. The same holds for what is behind it.
template <typename W>
SPIRA_API status cell_order_put(const word_layout *layout, const cell_request<W> *request,
                                int requests, void *const *scratch, cudaStream_t stream) {
    unsigned blocks;
    const cell_batch<W> batch = cell_batch_make(layout, request, requests, scratch, &blocks);
    return chain_launch(cell_put_kernel<W>, blocks, cell_threads, 0, false, 1, stream, "cell_order",
                        batch);
}

// Bytes of scratch for cell_order. Of the requests only capacities are read.
template <typename W>
SPIRA_API status cell_workspace(const cell_request<W> *request, int requests, size_t *bytes) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    *bytes = 0;
    for (int i = 0; i < requests; ++i) {
        *bytes += (size_t)cell_scratch_bytes(request[i].outputs.capacity);
    }
    return status_success();
}

// Builds the ordered layouts of up to 16 inverse convolutions.
//
// inputs   layout: fitted to the cells' strides; request [requests]; larger counts than the
//          capacities are taken for these
//          scratch: the bytes of cell_workspace, aligned to 256
// outputs  the layout of each request: all blocks of its capacity; those beyond the count have rows
//          of -1 and no offsets. They overlap neither each other nor the sets nor scratch
// errors   null pointers, sizes, a kernel of other cells (status_unsupported), a stride that the
//          word layout was not fitted to, an ordered layout that is too small, scratch; nothing is
//          launched then
// Asynchronous, deterministic, equal to cell_order_host.
// cost     a binary search of each output, 5 bytes of it written and read; 256 bytes for each
//          offset of each block. Two launches
template <typename W>
SPIRA_API status cell_order(const word_layout *layout, const cell_request<W> *request, int requests,
                            void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    size_t needed;
    void *each[cell_requests_max];
    SPIRA_TRY(cell_requests_check(layout, request, requests));
    SPIRA_TRY(cell_workspace(request, requests, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    workspace w = workspace_begin(scratch);
    for (int i = 0; i < requests; ++i) {
        each[i] = workspace_take<char>(&w, cell_scratch_bytes(request[i].outputs.capacity));
    }
    SPIRA_TRY(cell_order_find(layout, request, requests, each, stream));
    return cell_order_put(layout, request, requests, each, stream);
}

} // namespace spira

#endif
