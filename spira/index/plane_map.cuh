// spira/index/plane_map.cuh: the kernel that builds os, all of it or half, for cubes of size 3
// and 5.
//
// It does what map_kernel (map_search.cuh) does for these sizes, around the search of
// plane_search.cuh. Tasks and batches are shared with the compact form and the pair lists.
#ifndef SPIRA_INDEX_PLANE_MAP_CUH
#define SPIRA_INDEX_PLANE_MAP_CUH

#include "../base/launch.cuh"
#include "map_write.cuh"
#include "plane_search.cuh"

namespace spira {

// One map of a launch.
template <typename W>
struct map_plane_task {
    search_walk<W> walk;
    const W *source, *outputs;
    const int32_t *source_count, *output_count;
    int32_t source_capacity, output_capacity;
    int32_t block, tiles;   // its first thread block; thread blocks
    int32_t *to;            // os, half of os, or the compact map; pair lists: null
    device_status *trouble; // may be null, but for the compact form
};

template <int K, typename W>
SPIRA_API map_plane_task<W> map_plane_task_make(const word_layout *layout, const map_request<W> *r,
                                                int32_t block, int32_t *to) {
    map_plane_task<W> task;
    task.walk = search_walk_make<W>(layout, &r->kernel);
    task.source = r->source.words;
    task.outputs = r->outputs.words;
    task.source_count = r->source.count;
    task.output_count = r->outputs.count;
    task.source_capacity = r->source.capacity;
    task.output_capacity = r->outputs.capacity;
    task.block = block;
    task.tiles = (int32_t)ceil_div(r->outputs.capacity, plane_rows(K));
    task.to = to;
    task.trouble = r->forms.trouble;
    return task;
}

// The maps of a launch.
template <typename W>
struct map_plane_batch {
    int tasks;
    map_plane_task<W> task[map_batch_max];
};

// Reads the tile of outputs of thread block `block` of a task, for each warp alike. Returns false
// if there are none.
template <typename W, int K>
SPIRA_DEVICE bool map_plane_begin(const map_plane_task<W> &task, int block, search_sets<W> *sets,
                                  plane_outputs<W, K> *queries) {
    int first = block * plane_rows(K);
    plane_read<W, K>(task.outputs, task.output_capacity, first, queries);
    *sets = {task.source, task.outputs, count_clamp(*task.source_count, task.source_capacity),
             min(*task.output_count, task.output_capacity)};
    // Near INT32_MIN the difference wraps round; there are no rows then, and `false` says so.
    int rows = min((int)((uint32_t)sets->total - (uint32_t)first), plane_rows(K));
    plane_limit<W, K>(rows, queries); // before the branch, so that the loads are issued before it
    map_report(task, task.trouble, block);
    return first < sets->total;
}

// The tile of thread block `block` of a task of `tiles`: first those at both ends of the outputs,
// in turn, towards the middle. Far from the sensor voxels are sparse, so tiles there cover many
// planes and have the longest windows; a launch would wait for the last of them.
SPIRA_BOTH int map_plane_tile(int block, int tiles) {
    return block & 1 ? tiles - 1 - (block >> 1) : block >> 1;
}

// Returns the task of this thread block.
template <typename W>
SPIRA_DEVICE const map_plane_task<W> &map_plane_find_task(const map_plane_batch<W> &batch) {
    int t = 0;
    while (t + 1 < batch.tasks && (int)blockIdx.x >= batch.task[t + 1].block) {
        ++t;
    }
    return batch.task[t];
}

// Warps per multiprocessor that the kernel below has registers for, without spills. all: it writes
// os with all columns.
SPIRA_BOTH constexpr int map_plane_warps(int K, bool all, int word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return all ? 32 : 24; // a multiprocessor may have no more than 32 warps, or 16 thread blocks
#else
    return word > 4 ? (K <= 3 && !all ? 32 : 36) : K > 3 ? 40 : all ? 48 : 36;
#endif
}

// Writes os, all of it or half. A warp for each plane; the block stores the taps of a pass
// together.
template <typename W, int K, bool half>
SPIRA_KERNEL void __launch_bounds__(32 * plane_count(K, half),
                                    map_plane_warps(K, !half, sizeof(W)) / plane_count(K, half))
    map_plane_kernel(const __grid_constant__ map_plane_batch<W> batch) {
    extern __shared__ int4 map_shared[];
    pdl_launch_dependents();
    const map_plane_task<W> &task = map_plane_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    const int tile = map_plane_tile((int)blockIdx.x - task.block, task.tiles);
    if (!map_plane_begin<W, K>(task, tile, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int32_t *taps = (const int32_t *)map_shared; // [outputs of a pass, columns]
    const int plane = threadIdx.x / 32, columns = plane_columns(K, half);
    const bool cut = half && plane == K / 2; // ends at the centre
    uint32_t *windows = (uint32_t *)((char *)map_shared + plane_taps_bytes(K, half));
    uint32_t to = shared_address(taps + (int)(threadIdx.x & 31) * columns + plane * K * K);
    const plane_search<W, K> search =
        plane_begin<W, K>(task.walk, sets, queries, plane, windows + plane * plane_window_words(K));
#pragma unroll
    for (int g = 0; g < plane_rows(K) / 32; g += plane_ahead(K)) {
        const int left = queries.rows - g * 32;
        if (left <= 0) {
            break;
        }
        plane_found<K> found[plane_ahead(K)];
        const bool near = plane_near(search);
        if (near) {
            plane_find<W, K>(task.walk, queries, search.window, g, found);
        }
        if (g) {
            map_copy_wait();
            __syncthreads();
        }
        if (!near) {
            plane_put_far<W, K, columns>(task.walk, sets, search, g, cut ? K * K / 2 : K * K, to);
        } else if (cut) {
            plane_put<W, K, K * K / 2, columns>(search, found, g, to);
        } else {
            plane_put<W, K, K * K, columns>(search, found, g, to);
        }
        proxy_fence();
        __syncthreads();
        map_copy_rows<32 * plane_count(K, half)>(taps, min(left, plane_ahead(K) * 32) * columns,
                                                 task.to +
                                                     (int64_t)(queries.first + g * 32) * columns);
    }
    map_copy_wait();
    pdl_wait();
}

// Launches map_plane_kernel for up to map_batch_max requests.
template <typename W, int K, bool half>
SPIRA_API status map_plane_launch(const word_layout *layout, const map_request<W> *const *request,
                                  int requests, bool programmatic, cudaStream_t stream) {
    map_plane_batch<W> batch;
    int64_t blocks = 0;
    batch.tasks = requests;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request[i];
        batch.task[i] = map_plane_task_make<K>(layout, r, (int32_t)blocks, r->forms.os);
        blocks += batch.task[i].tiles;
    }
    return kernel_launch(map_plane_kernel<W, K, half>, (unsigned)blocks, 32 * plane_count(K, half),
                         (size_t)plane_block_bytes(K, half), programmatic, 1, stream, "map_build",
                         batch);
}

} // namespace spira

#endif
