// spira/cell.cuh: ordered layouts of layers between a set and its cells on the GPU, straight from
// the two sets.
//
// Three launches, each over all layouts; a block of threads has 1024 voxels. `find` searches the
// cells of the finer set's voxels. `count` knows by then which sources the outputs of strided
// layers have; inverse layers' keys are known, and counted, before. `put` adds up the counts of the
// blocks of threads before its own, and writes its outputs where they belong, and what else there
// is of its share of places.
#ifndef SPIRA_CELL_CUH
#define SPIRA_CELL_CUH

#include "base/async.cuh"
#include "base/launch.cuh"
#include "cell.h"

namespace spira {

enum {
    cell_requests_max = 16, // of one go
    cell_threads = 256,
    cell_items = cell_rows / cell_threads, // voxels of a thread, searched side by side
    cell_strips = cell_rows / 32,          // the voxels that a warp has at a time
    cell_pairs = cell_rows / (2 * order_rows),
};

static_assert((int)cell_threads == (int)cell_keys, "a thread for a key");

// What the blocks of a launch take: voxels of the finer set, or outputs of strided layers, or of
// all.
enum cell_unit { cell_by_find, cell_by_count, cell_by_put, cell_units };

template <typename W>
struct cell_task {
    cell_request<W> request;
    cell_scratch scratch;
    int32_t first[cell_units]; // block of threads
};

template <typename W>
struct cell_batch {
    cell_task<W> task[cell_requests_max];
    word_layout layout;
    int tasks;
    int32_t units[cell_units]; // of all
};

// The task of a block of threads; one that has none of them begins where the next does.
template <typename W>
SPIRA_DEVICE const cell_task<W> &cell_find_task(const cell_batch<W> &batch, cell_unit by) {
    int t = 0;
    for (int next = 1; next < batch.tasks; ++next) {
        t = (int)blockIdx.x >= batch.task[next].first[by] ? next : t;
    }
    return batch.task[t];
}

template <typename W>
SPIRA_DEVICE int32_t cell_count_of(const voxel_set<W> &set) {
    return min(*set.count, set.capacity);
}

// The number of a thread's voxel i in its block.
SPIRA_DEVICE int cell_item(int i) {
    return ((int)threadIdx.x / 32 * cell_items + i) * 32 + (int)threadIdx.x % 32;
}

// ---- searching ----------------------------------------------------------------------------------

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

// Counts a block's outputs by key; key: of a thread's outputs that are there. sum [cell_keys] is
// shared.
template <typename W>
SPIRA_DEVICE void cell_count_keys(const cell_task<W> &task, int32_t block, int32_t count,
                                  const int (&key)[cell_items], int32_t *sum) {
    const int many = cell_key_count(task.request.kernel.transposed);
    sum[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        if (row < count) {
            task.scratch.key[row] = (uint8_t)key[i];
            atomicAdd(sum + key[i], 1);
        }
    }
    __syncthreads();
    if ((int)threadIdx.x < many) {
        task.scratch.count[(int64_t)block * many + threadIdx.x] = (uint16_t)sum[threadIdx.x];
    }
}

// Tells the voxels' cells of them.
template <typename W>
SPIRA_DEVICE void cell_tell(const cell_scratch &s, int32_t first, int32_t count,
                            const int32_t (&cell)[cell_items], const int (&offset)[cell_items]) {
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = first + cell_item(i);
        if (row < count && cell[i] >= 0) {
            s.source[(int64_t)cell[i] * cell_offsets + offset[i]] = row;
            atomicOr(s.mask + cell[i], 1u << offset[i]);
        }
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cell_threads)
    cell_find_kernel(const __grid_constant__ cell_batch<W> batch) {
    __shared__ int32_t sum[cell_keys];
    pdl_launch_dependents();
    const cell_task<W> &task = cell_find_task(batch, cell_by_find);
    const cell_request<W> &r = task.request;
    const bool inverse = r.kernel.transposed;
    const voxel_set<W> &fine = inverse ? r.outputs : r.source;
    const voxel_set<W> &coarse = inverse ? r.source : r.outputs;
    const int32_t block = (int32_t)blockIdx.x - task.first[cell_by_find];
    const int32_t count = cell_count_of(fine);
    W word[cell_items];
    int32_t cell[cell_items];
    int offset[cell_items];
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        word[i] = 0;
        offset[i] = 0;
        if (row < count) {
            const cell_place<W> own = cell_find(&batch.layout, &r.kernel, fine.words[row]);
            word[i] = own.cell;
            offset[i] = own.offset;
        }
    }
    cell_search(coarse.words, cell_count_of(coarse), word, cell);
    if (inverse) {
#pragma unroll
        for (int i = 0; i < cell_items; ++i) {
            const int32_t row = block * cell_rows + cell_item(i);
            if (row < count) {
                task.scratch.source[row] = cell[i];
            }
        }
        cell_count_keys(task, block, count, offset, sum);
    } else {
        cell_tell<W>(task.scratch, block * cell_rows, count, cell, offset);
    }
    pdl_wait();
}

// The keys of strided layers' outputs.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(cell_threads)
    cell_count_kernel(const __grid_constant__ cell_batch<W> batch) {
    __shared__ int32_t sum[cell_keys];
    pdl_launch_dependents();
    const cell_task<W> &task = cell_find_task(batch, cell_by_count);
    const int32_t block = (int32_t)blockIdx.x - task.first[cell_by_count];
    const int32_t count = cell_count_of(task.request.outputs);
    int key[cell_items];
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        key[i] = row < count ? (int)order_gray_rank(task.scratch.mask[row]) : 0;
    }
    cell_count_keys(task, block, count, key, sum);
    pdl_wait();
}

// ---- layouts ------------------------------------------------------------------------------------

// What a block of threads of cell_put_kernel shares.
struct cell_shared {
    cell_places places;
    int32_t all[cell_keys], before[cell_keys]; // outputs of all blocks, and of those before
    int32_t strip[cell_strips][cell_keys];     // of each strip; then the place of its first
    int32_t warp[cell_threads / 32];
    int32_t weight[cell_pairs], rank[cell_pairs]; // of the block's pairs
};

SPIRA_DEVICE void cell_clear(cell_shared &s) {
    s.all[threadIdx.x] = s.before[threadIdx.x] = 0;
    for (int strip = 0; strip < cell_strips; ++strip) {
        s.strip[strip][threadIdx.x] = 0;
    }
    if (threadIdx.x < cell_pairs) {
        s.rank[threadIdx.x] = 0;
    }
}

// Adds up the outputs of each key: a thread two keys of some blocks.
template <typename W>
SPIRA_DEVICE void cell_add(const cell_task<W> &task, int32_t block, int32_t count, cell_shared &s) {
    const int columns = cell_key_count(task.request.kernel.transposed) / 2;
    const int column = (int)threadIdx.x % columns, parts = cell_threads / columns;
    const uint32_t *counts = (const uint32_t *)task.scratch.count + column;
    int32_t all[2] = {0, 0}, before[2] = {0, 0};
#pragma unroll 8
    for (int32_t b = (int)threadIdx.x / columns; b < cell_blocks(count); b += parts) {
        const uint32_t two = counts[(int64_t)b * columns];
        const int32_t low = (int32_t)(two & 0xffff), high = (int32_t)(two >> 16);
        all[0] += low;
        all[1] += high;
        before[0] += b < block ? low : 0;
        before[1] += b < block ? high : 0;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        atomicAdd(s.all + 2 * column + i, all[i]);
        atomicAdd(s.before + 2 * column + i, before[i]);
    }
}

// From the outputs of each key to where they begin. With barriers inside.
SPIRA_DEVICE void cell_place_keys(cell_shared &s) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int32_t sum = warp_sum_up_to(s.all[threadIdx.x]);
    int32_t lower = 0;
    if (lane == 31) {
        s.warp[warp] = sum;
    }
    __syncthreads();
    for (int w = 0; w < warp; ++w) {
        lower += s.warp[w];
    }
    s.places.begin[threadIdx.x + 1] = lower + sum;
    if (threadIdx.x == 0) {
        s.places.begin[0] = 0;
    }
    __syncthreads();
}

// How many lower lanes have the same key; the first of those that have it tells the strip. key: a
// lane's own, or cell_keys: none.
SPIRA_DEVICE int cell_rank(int key, int32_t *strip) {
    const uint32_t lower = (1u << (threadIdx.x % 32)) - 1;
    const uint32_t peers = warp_peers<cell_offsets + 1>((uint32_t)key);
    if (key < cell_keys && !(peers & lower)) {
        strip[key] = __popc(peers);
    }
    return __popc(peers & lower);
}

// From the outputs of each strip to the places of their first ones: a thread for each key.
SPIRA_DEVICE void cell_place_strips(cell_shared &s) {
    int32_t place = s.places.begin[threadIdx.x] + s.before[threadIdx.x];
    for (int strip = 0; strip < cell_strips; ++strip) {
        const int32_t own = s.strip[strip][threadIdx.x];
        s.strip[strip][threadIdx.x] = place;
        place += own;
    }
}

// Puts an output, or none (-1), at its place.
template <typename W>
SPIRA_DEVICE void cell_put(const cell_task<W> &task, const cell_places &places, int64_t place,
                           int32_t row, int key) {
    const order_layout &t = task.request.layout;
    const bool inverse = task.request.kernel.transposed;
    const int64_t block = place / order_rows;
    const uint32_t own = row < 0 ? 0 : cell_key_mask(inverse, key);
    const int32_t *source =
        task.scratch.source + (int64_t)max(row, 0) * (inverse ? 1 : cell_offsets);
    int32_t *to = t.source + order_begin(&t, block, 0) + place % order_rows;
    t.row[place] = row;
    for (uint32_t mask = cell_block_mask(inverse, places, block), k = 0; mask >> k; ++k) {
        if (mask >> k & 1) {
            to[k * order_rows] = own >> k & 1 ? source[inverse ? 0 : k] : -1;
        }
    }
}

// The turns of a block's pairs: each is compared with all of its scope. By all threads, with
// barriers inside.
SPIRA_DEVICE void cell_turn(bool inverse, int32_t pair, int32_t pairs, const order_layout &t,
                            cell_shared &s) {
    const int32_t scope = pair / order_scope * order_scope;
    const int32_t end = min(scope + (int32_t)order_scope, pairs), thread = threadIdx.x;
    if (thread < cell_pairs) {
        s.weight[thread] = cell_pair_weight(inverse, s.places, pair + thread);
    }
    __syncthreads();
    int32_t before[cell_pairs] = {};
    for (int32_t other = scope + thread; other < end; other += cell_threads) {
        const int weight = cell_pair_weight(inverse, s.places, other);
#pragma unroll
        for (int i = 0; i < cell_pairs; ++i) {
            before[i] += weight > s.weight[i] || (weight == s.weight[i] && other < pair + i);
        }
    }
#pragma unroll
    for (int i = 0; i < cell_pairs; ++i) {
        atomicAdd(s.rank + i, before[i]);
    }
    __syncthreads();
    if (thread < cell_pairs && pair + thread < pairs) {
        t.schedule[scope + s.rank[thread]] = pair + thread;
    }
}

// A block's share of what does not depend on its outputs: the places behind the last output, and
// masks.
template <typename W>
SPIRA_DEVICE void cell_put_rest(const cell_task<W> &task, const cell_places &places, int32_t count,
                                int32_t block) {
    const int32_t blocks = order_count(task.request.outputs.capacity);
    for (int i = 0; i < cell_items; ++i) {
        const int64_t place = (int64_t)block * cell_rows + cell_item(i);
        if (place >= count && place < (int64_t)blocks * order_rows) {
            cell_put(task, places, place, -1, 0);
        }
    }
    const int32_t own = block * (cell_rows / order_rows) + (int32_t)threadIdx.x;
    if ((int)threadIdx.x < cell_rows / order_rows && own < blocks) {
        task.request.layout.mask[own] =
            cell_block_mask(task.request.kernel.transposed, places, own);
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(cell_threads)
    cell_put_kernel(const __grid_constant__ cell_batch<W> batch) {
    __shared__ cell_shared s;
    pdl_launch_dependents();
    const cell_task<W> &task = cell_find_task(batch, cell_by_put);
    const bool inverse = task.request.kernel.transposed;
    const int32_t block = (int32_t)blockIdx.x - task.first[cell_by_put];
    const int32_t count = cell_count_of(task.request.outputs);
    int key[cell_items], before[cell_items]; // of the strip's outputs with the same key
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        key[i] = row < count ? task.scratch.key[row] : (int)cell_keys;
    }
    cell_clear(s);
    __syncthreads();
    cell_add(task, block, count, s);
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        before[i] = cell_rank(key[i], s.strip[threadIdx.x / 32 * cell_items + i]);
    }
    __syncthreads();
    cell_place_keys(s);
    cell_place_strips(s);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < cell_items; ++i) {
        const int32_t row = block * cell_rows + cell_item(i);
        if (row < count) {
            const int32_t first = s.strip[threadIdx.x / 32 * cell_items + i][key[i]];
            cell_put(task, s.places, first + before[i], row, key[i]);
        }
    }
    cell_put_rest(task, s.places, count, block);
    if (block * cell_rows < count) {
        cell_turn(inverse, block * cell_pairs, order_pairs(order_count(count)), task.request.layout,
                  s);
    }
    pdl_wait();
}

// ---- launchers ----------------------------------------------------------------------------------

// Kernels and capacities, which are all that scratch depends on.
template <typename W>
SPIRA_API status cell_sizes_check(const cell_request<W> *request, int requests) {
    SPIRA_REQUIRE(request, status_null_pointer, "request", 0);
    SPIRA_REQUIRE(requests >= 1 && requests <= cell_requests_max, status_bad_size, "requests",
                  requests);
    for (int i = 0; i < requests; ++i) {
        SPIRA_TRY(order_sizes_check(&request[i].kernel, request[i].outputs.capacity));
    }
    return status_success();
}

template <typename W>
SPIRA_API status cell_requests_check(const word_layout *layout, const cell_request<W> *request,
                                     int requests) {
    SPIRA_TRY(cell_sizes_check(request, requests));
    for (int i = 0; i < requests; ++i) {
        SPIRA_TRY(cell_check(layout, request + i));
    }
    return status_success();
}

template <typename W>
SPIRA_API size_t cell_carve_requests(workspace *w, const cell_request<W> *request, int requests,
                                     cell_scratch *scratch) {
    cell_size size[cell_requests_max];
    for (int i = 0; i < requests; ++i) {
        size[i] = {request[i].kernel.transposed, request[i].outputs.capacity};
    }
    return cell_carve(w, size, requests, scratch);
}

// Requests that have been looked at, and their scratch.
template <typename W>
SPIRA_API cell_batch<W> cell_batch_make(const word_layout *layout, const cell_request<W> *request,
                                        int requests, void *scratch) {
    cell_batch<W> batch = {};
    cell_scratch each[cell_requests_max];
    workspace w = workspace_begin(scratch);
    cell_carve_requests(&w, request, requests, each);
    for (int i = 0; i < requests; ++i) {
        const cell_request<W> &r = request[i];
        const bool inverse = r.kernel.transposed;
        const int32_t units[cell_units] = {
            cell_blocks(inverse ? r.outputs.capacity : r.source.capacity),
            inverse ? 0 : cell_blocks(r.outputs.capacity), cell_blocks(r.outputs.capacity)};
        batch.task[i] = {r, each[i], {}};
        for (int u = 0; u < cell_units; ++u) {
            batch.task[i].first[u] = batch.units[u];
            batch.units[u] += units[u];
        }
    }
    batch.layout = *layout;
    batch.tasks = requests;
    static_assert(sizeof batch <= 4096, "parameters of a kernel");
    return batch;
}

// What comes first in cell_order: zeros.
template <typename W>
SPIRA_API status cell_order_clear(const cell_request<W> *request, int requests, void *scratch,
                                  cudaStream_t stream) {
    cell_scratch each[cell_requests_max];
    workspace w = workspace_begin(scratch);
    const size_t bytes = cell_carve_requests(&w, request, requests, each);
    return bytes ? status_from_cuda(cudaMemsetAsync(scratch, 0, bytes, stream), "cell_order")
                 : status_success();
}

// A launch of cell_order; what is launched behind it and needs nothing of it may be early
// (base/launch.cuh).
template <typename W>
SPIRA_API status cell_order_launch(const cell_batch<W> &batch, cell_unit by, cudaStream_t stream) {
    void (*const kernel[cell_units])(const cell_batch<W>) = {
        cell_find_kernel<W>, cell_count_kernel<W>, cell_put_kernel<W>};
    return batch.units[by] ? kernel_launch(kernel[by], (unsigned)batch.units[by], cell_threads, 0,
                                           false, 1, stream, "cell_order", batch)
                           : status_success();
}

// Bytes of scratch for cell_order. Of the requests only kernels and capacities are read.
template <typename W>
SPIRA_API status cell_workspace(const cell_request<W> *request, int requests, size_t *bytes) {
    SPIRA_TRY(cell_sizes_check(request, requests));
    SPIRA_REQUIRE(bytes, status_null_pointer, "bytes", 0);
    cell_scratch each[cell_requests_max];
    workspace w = workspace_begin(nullptr);
    cell_carve_requests(&w, request, requests, each);
    *bytes = w.used;
    return status_success();
}

// Builds the ordered layouts of up to 16 layers between sets and their cells.
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
// cost     a binary search of each voxel of the finer set; 5 bytes of each output, of a strided
//          layer 37, written and read; 256 bytes for each offset of each block. Besides, for each
//          1024 outputs the counts of all are read from the cache, half a byte of each output, of
//          an inverse layer 1 / 64: with 10^6 outputs 0.5 GB, with 10^7 a hundred times as much.
//          Up to three launches and a memset
// early    What is launched behind it is not early (conv_args.programmatic) if it reads the
// layouts.
template <typename W>
SPIRA_API status cell_order(const word_layout *layout, const cell_request<W> *request, int requests,
                            void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    size_t needed;
    SPIRA_TRY(cell_requests_check(layout, request, requests));
    SPIRA_TRY(cell_workspace(request, requests, &needed));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, needed));
    const cell_batch<W> batch = cell_batch_make(layout, request, requests, scratch);
    SPIRA_TRY(cell_order_clear(request, requests, scratch, stream));
    SPIRA_TRY(cell_order_launch(batch, cell_by_find, stream));
    SPIRA_TRY(cell_order_launch(batch, cell_by_count, stream));
    return cell_order_launch(batch, cell_by_put, stream);
}

} // namespace spira

#endif
