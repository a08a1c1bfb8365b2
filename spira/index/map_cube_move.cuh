// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/map_cube_move.cuh: pair lists of cubes of size 3 and 5: moves the pairs to their
// lists. map_cube.cuh has the steps before.
//
// A warp takes one plane of a stretch of outputs, a lane four outputs. It stages the pairs of a few
// offsets in shared memory, in order, and copies them to the lists in whole lines.
#ifndef SPIRA_INDEX_MAP_CUBE_MOVE_CUH
#define SPIRA_INDEX_MAP_CUBE_MOVE_CUH

#include "map_cube.cuh"

namespace spira {

// Moves the pairs of a lost plane of a stretch, which is searched once more. start: in lane l,
// where the pairs at the plane's offset l go.
template <typename W, int K>
SPIRA_DEVICE void map_cube_move_lost(const map_cube_task<W, K> &task, int stretch, int plane,
                                     int start) {
    const int groups = map_stretch / 32, lane = threadIdx.x & 31, first = stretch * map_stretch;
    const plane_task<W> &map = task.map;
    const search_sets<W> sets = map_sets(map.source, map.outputs);
    const int begin = task.scratch.found[(int64_t)stretch * K + plane].base[0];
    const uint32_t wanted = task.scratch.wanted[plane];
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        int to = __shfl_sync(~0u, start, c);
#pragma unroll 1
        for (int g = 0; g < groups && (wanted >> c & 1); ++g) {
            const int output = first + g * 32 + lane;
            int at = begin;
            bool has = output < sets.total;
            if (has) {
                const W query = search_anchor(map.walk, sets.outputs[output], plane, c / K) +
                                (W)(c % K) * (W)map.walk.step;
                at = search_lower_bound(sets.source, begin, sets.count, query);
                has = at < sets.count && sets.source[at] == query;
            }
            to = map_lists_append(task.lists, to, has, at, output);
        }
    }
}

static_assert(map_stretch == 4 * 32, "a lane has four outputs");
static_assert(map_stretch <= UINT8_MAX && map_move_offsets == 4, "ranks are the bytes of a word");

// A lane's four outputs of a stretch, in one plane.
template <int K>
struct map_cube_four {
    uint32_t bits[4];
    uint2 from[K]; // 16 bits for each output
    int base;      // without leaps
};

// Loads the lane's four outputs.
template <int K>
SPIRA_DEVICE map_cube_four<K> map_cube_fetch(const map_cube_record<K> *found) {
    const int lane = threadIdx.x & 31;
    map_cube_four<K> four;
    uint4 bits = map_read_4((const uint4 *)found->bits + lane);
    four.bits[0] = bits.x, four.bits[1] = bits.y, four.bits[2] = bits.z, four.bits[3] = bits.w;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        four.from[y] = map_read_2((const uint2 *)found->from[y] + lane);
    }
    four.base = (int)map_read(found->base + lane / 8);
    return four;
}

// Shared memory of a warp: pairs of a plane, map_move_offsets offsets at a time.
template <int K>
struct alignas(16) map_cube_stage {
    int2 pair[map_move_offsets][map_stretch]; // (input, output); outputs ascending
    int2 list[K * K];                         // (start in the list, count) of each offset
};

// Stages the pairs of the lane's output a at offsets c + j .. c + map_move_offsets - 1 of the
// plane.
//
// rank  byte j: pairs of the stretch at offset c + j before this output
// next  the output's next pair
// to    shared address of the stage
template <int K, int c, int a, int j = 0>
SPIRA_DEVICE void map_cube_stage_output(const map_cube_four<K> &four, uint32_t rank, int2 *next,
                                        uint32_t to) {
    if constexpr (j < map_move_offsets && c + j < K * K) {
        if constexpr ((c + j) % K == 0) {
            uint32_t two = a < 2 ? four.from[(c + j) / K].x : four.from[(c + j) / K].y;
            next->x = four.base + (int)(four.bits[a] >> map_leap_bit) * map_leap_words +
                      (int)(a % 2 ? two >> 16 : two & UINT16_MAX);
        }
        uint32_t at = __dp4a(rank, (uint32_t)sizeof(int2) << 8 * j, to); // adds 8 times byte j
        const int place = j * map_stretch * (int)sizeof(int2);
        map_cube_stage_pair<c + j, place>(four.bits[a], next, at);
        map_cube_stage_output<K, c, a, j + 1>(four, rank, next, to);
    }
}

// Stages the pairs of the lane at offsets c .. c + map_move_offsets - 1. next [4]: the next pair of
// each of its outputs.
template <int K, int c>
SPIRA_DEVICE void map_cube_spread(const map_cube_four<K> &four, int2 *next, uint32_t to) {
    uint32_t own[4], all = 0;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        own[a] = map_bits_to_bytes<K>(four.bits[a], c);
        all += own[a];
    }
    uint32_t rank = (uint32_t)warp_sum_up_to((int)all) - all; // byte by byte
    map_cube_stage_output<K, c, 0>(four, rank, next, to);
    map_cube_stage_output<K, c, 1>(four, rank += own[0], next + 1, to);
    map_cube_stage_output<K, c, 2>(four, rank += own[1], next + 2, to);
    map_cube_stage_output<K, c, 3>(four, rank += own[2], next + 3, to);
}

// Copies the staged pairs of offsets c .. c + map_move_offsets - 1 to their lists, 32 of each at a
// time, from number `from` on.
template <int K, int c, int from = 0>
SPIRA_DEVICE void map_cube_drain(const map_cube_stage<K> &stage, const map_lists &lists) {
    const int number = from + (int)(threadIdx.x & 31);
    int2 pair[map_move_offsets], list[map_move_offsets] = {};
    int most = 0;
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        pair[j] = stage.pair[j][number];
        list[j] = stage.list[c + j];
        most = max(most, list[j].y);
    }
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        map_cube_store(lists.input + (list[j].x + number), pair[j].x, number < list[j].y);
    }
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        map_cube_store(lists.output + (list[j].x + number), pair[j].y, number < list[j].y);
    }
    if constexpr (from + 32 < map_stretch) {
        if (most > from + 32) {
            map_cube_drain<K, c, from + 32>(stage, lists);
        }
    }
}

// Stages the pairs of a plane and copies them to their lists, from offset c on.
template <int K, int c = 0>
SPIRA_DEVICE void map_cube_move(const map_cube_four<K> &four, const map_cube_stage<K> &stage,
                                int2 *next, uint32_t to, const map_lists &lists) {
    map_cube_spread<K, c>(four, next, to);
    __syncwarp();
    map_cube_drain<K, c>(stage, lists);
    __syncwarp();
    if constexpr (c + map_move_offsets < K * K) {
        map_cube_move<K, c + map_move_offsets>(four, stage, next, to, lists);
    }
}

// Moves the pairs of one plane of a stretch to their lists.
//
// place  in lane l: where the pairs at the plane's offset l go, and how many there are
// stage  shared memory of this warp alone
template <typename W, int K>
SPIRA_DEVICE void map_cube_move_stretch(const map_cube_task<W, K> &task, int stretch, int plane,
                                        const map_cube_four<K> &four, int2 place,
                                        map_cube_stage<K> *stage) {
    const int first = stretch * map_stretch, lane = threadIdx.x & 31;
    if (__any_sync(~0u, four.bits[0] == map_cube_lost)) {
        map_cube_move_lost<W, K>(task, stretch, plane, place.x);
        return;
    }
    if (lane < K * K) {
        stage->list[lane] = place;
    }
    int2 next[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        next[a] = {0, first + lane * 4 + a};
    }
    map_cube_move<K>(four, *stage, next, shared_address(stage->pair), task.lists);
}

// Thread blocks per multiprocessor that the kernel below has registers for, without spills.
SPIRA_BOTH constexpr int map_cube_move_blocks(int K) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return K <= 3 ? 10 : 6; // a multiprocessor has 1024 threads
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    return K <= 3 ? 9 : 5;
#else
    return K <= 3 ? 12 : 7;
#endif
}

// Moves the pairs: one thread block for each stretch, one warp for each plane. All loads are in
// flight before the first pairs are staged: the records first, which take longest.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, map_cube_move_blocks(K))
    map_cube_move_kernel(const __grid_constant__ map_cube_task<W, K> task) {
    __shared__ map_cube_stage<K> stages[K];
    const map_cube_lists<K> &scratch = task.scratch;
    const int stretch = blockIdx.x, first = stretch * map_stretch;
    const int plane = threadIdx.x / 32, lane = threadIdx.x & 31, k = plane * K * K + lane;
    const int total = count_clamp(*task.map.outputs.count, task.map.outputs.capacity);
    const bool some = first < total && scratch.wanted[plane];
    map_cube_four<K> four = {};
    int before = 0, count = 0; // of the plane's offset `lane`
    if (!some && stretch) {
        return;
    }
    unsigned long long all = scratch.starts.begin[K * K * K];
    const int begin = lane < K * K ? (int)scratch.starts.begin[k] : 0;
    if (some && first + (lane * 4 & -plane_rows(K)) < total) { // its outputs have a tile
        four = map_cube_fetch<K>(scratch.found + ((int64_t)stretch * K + plane));
    }
    if (some && lane < K * K) {
        before = scratch.starts.before[(int64_t)k * scratch.starts.stretches + stretch];
        count = map_cube_stretch_count<K>(scratch, plane, lane, stretch, total);
    }
    asm volatile("" : "+l"(all)); // not before: its wait would hold the loads back
    if (map_starts_fit(scratch.starts, all, task.lists, task.map.trouble) && some) {
        map_cube_move_stretch<W, K>(task, stretch, plane, four, {begin + before, count},
                                    stages + plane);
    }
}

// Sets wanted [size.x]: the offsets of each plane that are in the lists, as bits.
SPIRA_API void map_cube_wanted(const kernel_shape *kernel, const map_forms *forms,
                               uint32_t *wanted) {
    int offsets = kernel->size.y * kernel->size.z;
    for (int plane = 0; plane < kernel->size.x; ++plane) {
        wanted[plane] = 0;
        for (int c = 0; c < offsets; ++c) {
            bool have = map_lists_have(kernel, forms->threshold, forms->half, plane * offsets + c);
            wanted[plane] |= have ? 1u << c : 0;
        }
    }
}

} // namespace spira

#endif
