// spira/index/compact.cuh: the kernel that builds the compact form (compact.h) of a kernel map.
#ifndef SPIRA_INDEX_COMPACT_CUH
#define SPIRA_INDEX_COMPACT_CUH

#include "../status.cuh"
#include "plane_map.cuh"

namespace spira {

// Makes the record of an output from what its search found.
template <int K>
SPIRA_DEVICE void map_compact_record(const plane_found<K> &found, int32_t (&record)[K + 1]) {
    record[K] = 0;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        record[y] = found.position[y];
        record[K] |= (int32_t)((found.bits[y] & ((1u << K) - 1)) << (y * K));
    }
}

// Writes a record. to: aligned to 16 bytes for K = 3, to 8 for K = 5.
template <int K>
SPIRA_DEVICE void map_compact_write(const int32_t (&record)[K + 1], int32_t *to) {
    static_assert(K == 3 || K == 5, "a record is one int4 or three int2");
    if constexpr (K == 3) {
        *(int4 *)to = {record[0], record[1], record[2], record[3]};
    } else {
#pragma unroll
        for (int i = 0; i < K + 1; i += 2) {
            *(int2 *)(to + i) = {record[i], record[i + 1]};
        }
    }
}

// Writes the record of an output whose rows may have gaps: of each row the members up to the first
// gap. Returns whether there is a gap.
template <typename W, int K>
SPIRA_DEVICE bool map_compact_walk(const map_plane_task<W> &task, const search_sets<W> &sets,
                                   int begin, int plane, W output, int32_t *record) {
    int next = -1;
    uint32_t has = 0;
    bool gaps = false;
    const auto put = [&](int c, int tap) {
        next = c % K ? next : -1;
        const bool takes = tap >= 0 && (next < 0 || tap == next);
        if (takes && next < 0) {
            record[c / K] = tap;
        }
        gaps = gaps || (tap >= 0 && !takes);
        has |= takes ? 1u << c : 0;
        next = takes ? tap + 1 : next;
    };
    plane_far_walk<W, K>(task.walk, sets, begin, output, plane, put);
    record[K] = (int32_t)has;
    return gaps;
}

// Searches the sampled window all[plane] and writes the records of the tile's `rows` outputs from
// `first` on. Called by all threads of a block.
template <typename W, int K>
SPIRA_DEVICE void map_compact_far(const map_plane_task<W> &task, const search_sets<W> &sets,
                                  const plane_window *all, int plane, int first, int rows) {
#pragma unroll 1
    for (int row = threadIdx.x; row < rows; row += 32 * K) {
        const plane_window window = all[plane];
        const W word = sets.outputs[first + row]; // read again: fewer registers
        int32_t *record = task.to + compact_at(K, task.output_capacity, plane, first) +
                          row * compact_record_words(K);
        uint32_t has = 0;
        const auto put = [&](int y, uint32_t bits, int position) {
            record[y] = position;
            has |= bits << (y * K);
        };
        if (plane_far_find<W, K, true>(task.walk, sets, window, word, plane, put)) {
            record[K] = (int32_t)has;
        } else if (map_compact_walk<W, K>(task, sets, window.begin, plane, word, record)) {
            device_status_raise(task.trouble, device_flag_lattice, (uint32_t)(first + row));
        }
    }
}

// Warps per multiprocessor that the kernel below has registers for, without spills.
SPIRA_BOTH constexpr int map_compact_warps(int K, int word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return 24;
#else
    return word > 4 ? (K <= 3 ? 32 : 36) : 40;
#endif
}

// Writes the compact form. A warp for each plane. The warps of a thread block divide the outputs in
// a sampled window, when they have done their own planes.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, map_compact_warps(K, sizeof(W)) / K)
    map_compact_kernel(const __grid_constant__ map_plane_batch<W> batch) {
    extern __shared__ int4 map_shared[]; // [plane_windows_bytes(K)]
    pdl_launch_dependents();
    const map_plane_task<W> &task = map_plane_find_task(batch);
    search_sets<W> sets;
    plane_outputs<W, K> queries;
    const int tile = map_plane_tile((int)blockIdx.x - task.block, task.tiles);
    if (!map_plane_begin<W, K>(task, tile, &sets, &queries)) {
        pdl_wait();
        return;
    }
    const int plane = threadIdx.x / 32, lane = threadIdx.x & 31;
    const plane_search<W, K> search = plane_begin<W, K>(
        task.walk, sets, queries, plane, (uint32_t *)map_shared + plane * plane_window_words(K));
    __shared__ plane_window all[K];
    if (lane == 0) {
        all[plane] = search.window;
    }
    int32_t *to = task.to + compact_at(K, task.output_capacity, plane, queries.first);
    const bool near = plane_near(search);
#pragma unroll
    for (int g = 0; near && g < plane_rows(K) / 32 && g * 32 < queries.rows; g += plane_ahead(K)) {
        plane_found<K> found[plane_ahead(K)];
        plane_find<W, K>(task.walk, queries, search.window, g, found);
#pragma unroll
        for (int a = 0; a < plane_ahead(K); ++a) {
            const int row = (g + a) * 32 + lane;
            int32_t record[K + 1];
            if (row < queries.rows) {
                map_compact_record<K>(found[a], record);
                map_compact_write<K>(record, to + row * compact_record_words(K));
            }
        }
    }
    if (__syncthreads_or(!near)) {
#pragma unroll 1
        for (int p = 0; p < K; ++p) {
            if (all[p].length.steps == 0) {
                map_compact_far<W, K>(task, sets, all, p, queries.first, queries.rows);
            }
        }
    }
    pdl_wait();
}

// Launches map_compact_kernel for up to map_batch_max requests.
template <typename W, int K>
SPIRA_API status map_compact_launch(const word_layout *layout, const map_request<W> *const *request,
                                    int requests, bool programmatic, cudaStream_t stream) {
    map_plane_batch<W> batch;
    int64_t blocks = 0;
    batch.tasks = requests;
    for (int i = 0; i < requests; ++i) {
        const map_request<W> *r = request[i];
        batch.task[i] = map_plane_task_make<K>(layout, r, (int32_t)blocks, r->forms.compact);
        blocks += batch.task[i].tiles;
    }
    return kernel_launch(map_compact_kernel<W, K>, (unsigned)blocks, 32 * K,
                         (size_t)plane_windows_bytes(K, K), programmatic, 1, stream, "map_build",
                         batch);
}

} // namespace spira

#endif
