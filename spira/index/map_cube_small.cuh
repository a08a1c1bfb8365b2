// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_cube_small.cuh: pair lists of cubes of size 3 for small sets (up to 196,608
// outputs), without a scan.
//
// At this size the launches and the latency of dependent loads take the time, not the bytes. So
// there are two launches instead of the three of map_cube.cuh. Each thread block has a bundle of
// three stretches, with one warp for each stretch and plane:
//   search   records what each plane finds, counts the pairs of each stretch, and writes the sums
//            of the bundle: one number for each offset
//   move     each thread block adds up the sums of all bundles by itself, then moves the pairs of
//            its own bundle as map_cube_move.cuh does
//
// Every block of the move reads all sums, 54 bytes for each bundle, so this work grows with the
// square of the outputs. Beyond map_bundles_most bundles the scan is faster. Three stretches make
// nine warps, so that each warp adds up three of the 27 offsets.
#ifndef SPIRA_INDEX_MAP_CUBE_SMALL_CUH
#define SPIRA_INDEX_MAP_CUBE_SMALL_CUH

#include "map_cube_move.cuh"

namespace spira {

// Threads of a thread block: a warp for each stretch of the bundle and plane.
SPIRA_BOTH constexpr int map_cube_small_threads(int K) {
    return 32 * K * map_bundle_stretches;
}

// ---- sums of all bundles ------------------------------------------------------------------------

// Offsets whose sums a warp adds up: w, w + warps, ... for warp w.
SPIRA_BOTH constexpr int map_cube_small_offsets(int K) {
    return K * K / map_bundle_stretches;
}

// A lane's share of the pairs at each of its warp's offsets.
template <int offsets>
struct map_cube_small_total {
    uint32_t before[offsets]; // in the bundles before the thread block's own
    uint32_t all[offsets];    // in all bundles
};

// Loads map_bundle_sums sums of each offset. pitch: sums from one offset to the next.
template <int offsets>
SPIRA_DEVICE void map_cube_small_load_sums(const uint16_t *sums, int pitch,
                                           uint4 (&some)[offsets]) {
#pragma unroll
    for (int r = 0; r < offsets; ++r) {
        some[r] = map_read_4(sums + r * pitch);
    }
}

// Returns a word with a 1 in each of its first n bytes.
SPIRA_DEVICE uint32_t map_byte_ones(int n) {
    return __funnelshift_rc(0x01010101u, 0, (uint32_t)(32 - 8 * min(max(n, 0), 4)));
}

// Adds map_bundle_sums sums of each offset: the first `before` of them to total->before, the first
// `all` to total->all. Either may be negative or larger than map_bundle_sums.
template <int offsets>
SPIRA_DEVICE void map_cube_small_add(const uint4 (&some)[offsets], int before, int all,
                                     map_cube_small_total<offsets> *total) {
    const uint32_t first = map_byte_ones(before), last = map_byte_ones(before - 4);
    const uint32_t every = map_byte_ones(all);
#pragma unroll
    for (int r = 0; r < offsets; ++r) {
        const uint4 v = some[r];
        total->before[r] = __dp2a_hi(v.y, first, __dp2a_lo(v.x, first, total->before[r]));
        total->before[r] = __dp2a_hi(v.w, last, __dp2a_lo(v.z, last, total->before[r]));
        total->all[r] = __dp2a_hi(v.y, every, __dp2a_lo(v.x, every, total->all[r]));
        total->all[r] = __dp2a_hi(v.w, every, __dp2a_lo(v.z, every, total->all[r]));
    }
}

// ---- move ---------------------------------------------------------------------------------------

// Loads that are in flight together, before any of them is used.
template <int K>
struct map_cube_small_loads {
    uint4 sums[map_cube_small_offsets(K)]; // bundles 8 * lane .. 8 * lane + 7, the warp's offsets
    uint32_t count[map_bundle_stretches];  // lane l: pairs of each stretch at the plane's offset l
    map_cube_four<K> four;
};

// Address of the sums of the warp's first offset from bundle `at` on; of the last map_bundle_sums
// bundles, if `at` is behind the last.
template <int K>
SPIRA_DEVICE const uint16_t *map_cube_small_sums_at(const map_cube_lists<K> &lists, int at) {
    return lists.sums +
           ((int)threadIdx.x / 32 * lists.bundles + min(at, lists.bundles - map_bundle_sums));
}

// Issues the loads.
template <int K>
SPIRA_DEVICE map_cube_small_loads<K> map_cube_small_begin(const map_cube_lists<K> &lists,
                                                          int bundle) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, plane = warp % K;
    const int warps = K * map_bundle_stretches, first = bundle * map_bundle_stretches; // stretch
    static_assert(K * K % map_bundle_stretches == 0, "each warp has as many offsets");
    map_cube_small_loads<K> loads;
    map_cube_small_load_sums(map_cube_small_sums_at<K>(lists, lane * map_bundle_sums),
                             warps * lists.bundles, loads.sums);
    const uint8_t *count = map_cube_count<K>(lists, plane, min(lane, K * K - 1), first);
#pragma unroll
    for (int i = 0; i < map_bundle_stretches; ++i) {
        loads.count[i] = map_read_byte(count + i * (int)sizeof(uint32_t));
    }
    loads.four = map_cube_fetch<K>(lists.found + ((int64_t)(first + warp / K) * K + plane));
    return loads;
}

// Writes the pairs at each offset, (in the bundles before, in all), to sums [volume] in shared
// memory. The caller needs a barrier before it reads them.
template <int K>
SPIRA_DEVICE void map_cube_small_sum(const map_cube_lists<K> &lists, int bundle,
                                     map_cube_small_loads<K> *loads, uint2 *sums) {
    const int offsets = map_cube_small_offsets(K), warps = K * map_bundle_stretches;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    int at = lane * map_bundle_sums;
    map_cube_small_total<offsets> total = {};
    map_cube_small_add<offsets>(loads->sums, bundle - at, lists.bundles - at, &total);
    if (lists.bundles > 32 * map_bundle_sums) {
        static_assert(map_bundles_most <= 2 * 32 * map_bundle_sums, "a warp reads twice at most");
        at += 32 * map_bundle_sums;
        map_cube_small_load_sums<offsets>(map_cube_small_sums_at<K>(lists, at),
                                          warps * lists.bundles, loads->sums);
        map_cube_small_add<offsets>(loads->sums, bundle - at, lists.bundles - at, &total);
    }
#pragma unroll
    for (int r = 0; r < offsets; ++r) {
        uint2 sum = {(uint32_t)warp_sum((int)total.before[r]),
                     (uint32_t)warp_sum((int)total.all[r])};
        if (lane == 0) {
            sums[warp + r * warps] = sum;
        }
    }
}

// Gives lane l the position of the bundle's first pair in list l. The first thread block also
// writes lists.begin. sums: from map_cube_small_sum. Returns false if there are more pairs than
// lists.capacity.
template <int K>
SPIRA_DEVICE bool map_cube_small_begin_of(const uint2 *sums, int bundle, const map_lists &lists,
                                          device_status *trouble, int *begin) {
    static_assert(K * K * K < 32, "a lane for each start of a list, and for the end");
    const int lane = threadIdx.x & 31;
    uint2 sum = lane < K * K * K ? sums[lane] : uint2{0, 0};
    const uint32_t end = (uint32_t)warp_sum_up_to((int)sum.y);
    const uint32_t all = __shfl_sync(~0u, end, 31);
    const bool fits = all <= (uint32_t)lists.capacity;
    if (bundle == 0 && threadIdx.x <= K * K * K) {
        lists.begin[lane] = fits ? (int)(end - sum.y) : 0;
    }
    if (bundle == 0 && threadIdx.x == 0 && !fits) {
        device_status_raise(trouble, device_flag_capacity, all);
    }
    *begin = (int)(end - sum.y + sum.x);
    return fits;
}

// Moves the pairs: one thread block for each bundle, one warp for each stretch and plane.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(map_cube_small_threads(K),
                                    map_cube_small_blocks(sizeof(uint32_t)))
    map_cube_small_move_kernel(const __grid_constant__ map_cube_task<W, K> task) {
    __shared__ map_cube_stage<K> stages[K * map_bundle_stretches];
    __shared__ uint2 sums[K * K * K];
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, plane = warp % K;
    const int bundle = blockIdx.x, stretch = bundle * map_bundle_stretches + warp / K;
    map_cube_small_loads<K> loads = map_cube_small_begin<K>(task.scratch, bundle);
    map_cube_small_sum<K>(task.scratch, bundle, &loads, sums);
    uint32_t before = 0, count = 0; // pairs of the bundle's stretches before, and of this one
#pragma unroll
    for (int i = 0; i < map_bundle_stretches; ++i) {
        before += i < warp / K ? loads.count[i] : 0;
        count = i == warp / K && lane < K * K ? loads.count[i] : count;
    }
    __syncthreads();
    int begin;
    bool fits = map_cube_small_begin_of<K>(sums, bundle, task.lists, task.map.trouble, &begin);
    begin = __shfl_sync(~0u, begin, plane * K * K + lane) + (int)before;
    if (fits && __any_sync(~0u, count)) {
        map_cube_move_stretch<W, K>(task, stretch, plane, loads.four, {begin, (int)count},
                                    stages + warp);
    }
}

// ---- launch -------------------------------------------------------------------------------------

// Builds the lists of a cube of size K. scratch: of map_cube_lists_take.
template <typename W, int K>
SPIRA_API status map_cube_launch(const word_layout *layout, const map_request<W> *r,
                                 const map_lists *lists, void *scratch, cudaStream_t stream) {
    const char *subject = "map_build_lists";
    const int bundle = K == 3 ? map_bundle_stretches : 1; // other sizes have no bundles
    workspace w = workspace_begin(scratch);
    map_cube_task<W, K> task;
    task.map = plane_task_make<K>(layout, r, 0, nullptr);
    task.scratch = map_cube_lists_take<K>(&w, r->outputs.capacity);
    task.lists = *lists;
    map_cube_wanted(&r->kernel, &r->forms, task.scratch.wanted);
    const map_starts &starts = task.scratch.starts;
    if constexpr (bundle > 1) {
        if (task.scratch.bundles) {
            SPIRA_TRY(
                kernel_launch(map_cube_find_kernel<W, K, bundle>,
                              {(unsigned)task.scratch.bundles, map_cube_small_threads(K), stream,
                               subject, false, (size_t)plane_windows_bytes(K * bundle, K)},
                              task));
            return kernel_launch(map_cube_small_move_kernel<W, K>,
                                 {(unsigned)ceil_div(r->outputs.capacity, bundle * map_stretch),
                                  map_cube_small_threads(K), stream, subject},
                                 task);
        }
    }
    SPIRA_TRY(kernel_launch(map_cube_find_kernel<W, K, 1>,
                            {(unsigned)task.scratch.tiles, 32 * K, stream, subject, false,
                             (size_t)plane_windows_bytes(K, K)},
                            task));
    SPIRA_TRY(kernel_launch(map_starts_kernel<map_cube_lists<K>>,
                            {(unsigned)starts.volume, map_scan_threads, stream, subject},
                            task.scratch, starts, r->outputs.count, r->outputs.capacity,
                            bits_for(map_stretch - 1)));
    return kernel_launch(map_cube_move_kernel<W, K>,
                         {(unsigned)starts.stretches, 32 * K, stream, subject}, task);
}

} // namespace spira

#endif
