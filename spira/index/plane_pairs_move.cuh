// spira/index/plane_pairs_move.cuh: pair lists of cubes of size 3 and 5: moves the pairs to their
// lists. plane_pairs.cuh has the steps before.
//
// A warp takes one plane of a stretch of outputs, a lane four outputs. It stages the pairs of a few
// offsets in shared memory, in order, and copies them to the lists in whole lines.
#ifndef SPIRA_INDEX_PLANE_PAIRS_MOVE_CUH
#define SPIRA_INDEX_PLANE_PAIRS_MOVE_CUH

#include "plane_pairs.cuh"

namespace spira {

// Gives lane l the start of the list of the plane's offset l. The first thread block also writes
// pairs.begin. Returns false if there are more pairs than pairs.capacity.
template <int K>
SPIRA_DEVICE bool map_plane_lists_begin(const map_plane_lists<K> &lists, int plane,
                                        const map_pairs &pairs, device_status *trouble,
                                        int *begin) {
    int lane = threadIdx.x & 31;
    unsigned long long all = lists.begin[K * K * K];
    bool fits = all <= (unsigned long long)pairs.capacity;
    *begin = lane < K * K ? (int)lists.begin[plane * K * K + lane] : 0;
    if (blockIdx.x == 0 && lane < K * K) {
        pairs.begin[plane * K * K + lane] = fits ? *begin : 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        pairs.begin[K * K * K] = fits ? (int)all : 0;
        if (!fits) {
            device_status_raise(trouble, device_flag_capacity,
                                (uint32_t)min(all, (unsigned long long)UINT32_MAX));
        }
    }
    return fits;
}

// Appends the pairs of 32 outputs at one offset to its list; returns the position behind them.
SPIRA_DEVICE int map_plane_append(const map_pairs &pairs, int at, bool has, int input, int output) {
    uint32_t all = __ballot_sync(~0u, has);
    if (has) {
        int mine = at + __popc(all & ((1u << (threadIdx.x & 31)) - 1));
        pairs.input[mine] = input;
        pairs.output[mine] = output;
    }
    return at + __popc(all);
}

// Moves the pairs of a lost plane, which is searched once more. base: in lane l, the start for the
// plane's offset l. begin: at most the first member's position.
template <typename W, int K>
SPIRA_DEVICE void map_plane_move_lost(const search_walk<W> &walk, const search_sets<W> &sets,
                                      uint32_t wanted, int first, int plane, int base, int begin,
                                      const map_pairs &pairs) {
    const int groups = map_stretch / 32, lane = threadIdx.x & 31;
#pragma unroll 1
    for (int c = 0; c < K * K; ++c) {
        int to = __shfl_sync(~0u, base, c);
#pragma unroll 1
        for (int g = 0; g < groups && (wanted >> c & 1); ++g) {
            const int output = first + g * 32 + lane;
            int at = begin;
            bool has = output < sets.total;
            if (has) {
                const W query = plane_far_key(walk, sets.outputs[output], plane, c / K) +
                                (W)(c % K) * (W)walk.step;
                at = search_lower_bound(sets.source, begin, sets.count, query);
                has = at < sets.count && sets.source[at] == query;
            }
            to = map_plane_append(pairs, to, has, at, output);
        }
    }
}

static_assert(map_stretch == 4 * 32, "a lane has four outputs");
static_assert(map_stretch <= UINT8_MAX && map_move_offsets == 4, "ranks are the bytes of a word");

// A lane's four outputs of a stretch, in one plane.
template <int K>
struct map_plane_four {
    uint32_t bits[4];
    uint2 from[K]; // 16 bits for each output
    int base[4];   // with leaps
};

// Loads the lane's four outputs.
template <int K>
SPIRA_DEVICE map_plane_four<K> map_plane_fetch(const map_plane_record<K> *found) {
    const int lane = threadIdx.x & 31;
    map_plane_four<K> four;
    uint4 bits = map_read_4((const uint4 *)found->bits + lane);
    four.bits[0] = bits.x, four.bits[1] = bits.y, four.bits[2] = bits.z, four.bits[3] = bits.w;
#pragma unroll
    for (int y = 0; y < K; ++y) {
        four.from[y] = map_read_2((const uint2 *)found->from[y] + lane);
    }
    const int base = (int)map_read(found->base + lane / 8);
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        four.base[a] = base + (int)(four.bits[a] >> map_leap_bit) * map_leap_words;
    }
    return four;
}

// Shared memory of a warp: pairs of a plane, map_move_offsets offsets at a time.
template <int K>
struct alignas(16) map_plane_stage {
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
SPIRA_DEVICE void map_plane_stage_output(const map_plane_four<K> &four, uint32_t rank, int2 *next,
                                         uint32_t to) {
    if constexpr (j < map_move_offsets && c + j < K * K) {
        if constexpr ((c + j) % K == 0) {
            uint32_t two = a < 2 ? four.from[(c + j) / K].x : four.from[(c + j) / K].y;
            next->x = four.base[a] + (int)(a % 2 ? two >> 16 : two & UINT16_MAX);
        }
        uint32_t at = __dp4a(rank, (uint32_t)sizeof(int2) << 8 * j, to); // adds 8 times byte j
        const int place = j * map_stretch * (int)sizeof(int2);
        map_plane_stage_pair<c + j, place>(four.bits[a], next, at);
        map_plane_stage_output<K, c, a, j + 1>(four, rank, next, to);
    }
}

// Stages the pairs of the lane at offsets c .. c + map_move_offsets - 1. next [4]: the next pair of
// each of its outputs.
template <int K, int c>
SPIRA_DEVICE void map_plane_spread(const map_plane_four<K> &four, int2 *next, uint32_t to) {
    uint32_t own[4], all = 0;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        own[a] = map_bits_to_bytes<K>(four.bits[a], c);
        all += own[a];
    }
    uint32_t rank = map_add_below<1>(all);
    rank = map_add_below<2>(rank);
    rank = map_add_below<4>(rank);
    rank = map_add_below<8>(rank);
    rank = map_add_below<16>(rank) - all;
    map_plane_stage_output<K, c, 0>(four, rank, next, to);
    map_plane_stage_output<K, c, 1>(four, rank += own[0], next + 1, to);
    map_plane_stage_output<K, c, 2>(four, rank += own[1], next + 2, to);
    map_plane_stage_output<K, c, 3>(four, rank += own[2], next + 3, to);
}

// Copies the staged pairs of offsets c .. c + map_move_offsets - 1 to their lists, 32 of each at a
// time, from number `from` on.
template <int K, int c, int from = 0>
SPIRA_DEVICE void map_plane_drain(const map_plane_stage<K> &stage, const map_pairs &pairs) {
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
        map_plane_store(pairs.input + (list[j].x + number), pair[j].x, number < list[j].y);
    }
#pragma unroll
    for (int j = 0; j < map_move_offsets && c + j < K * K; ++j) {
        map_plane_store(pairs.output + (list[j].x + number), pair[j].y, number < list[j].y);
    }
    if constexpr (from + 32 < map_stretch) {
        if (most > from + 32) {
            map_plane_drain<K, c, from + 32>(stage, pairs);
        }
    }
}

// Stages the pairs of a plane and copies them to their lists, from offset c on.
template <int K, int c = 0>
SPIRA_DEVICE void map_plane_move(const map_plane_four<K> &four, const map_plane_stage<K> &stage,
                                 int2 *next, uint32_t to, const map_pairs &pairs) {
    map_plane_spread<K, c>(four, next, to);
    __syncwarp();
    map_plane_drain<K, c>(stage, pairs);
    __syncwarp();
    if constexpr (c + map_move_offsets < K * K) {
        map_plane_move<K, c + map_move_offsets>(four, stage, next, to, pairs);
    }
}

// Moves the pairs of one plane of a stretch to their lists.
//
// begin, count  in lane l: where the pairs at the plane's offset l go, and how many there are
// stage         shared memory of this warp alone
template <typename W, int K>
SPIRA_DEVICE void map_plane_move_stretch(const map_plane_task<W> &task,
                                         const map_plane_lists<K> &lists, int stretch, int plane,
                                         const map_plane_four<K> &four, int begin, int count,
                                         const map_pairs &pairs, map_plane_stage<K> *stage) {
    const int first = stretch * map_stretch, lane = threadIdx.x & 31;
    if (__any_sync(~0u, four.bits[0] == map_plane_lost)) {
        search_sets<W> sets = {task.source, task.outputs,
                               count_clamp(*task.source_count, task.source_capacity),
                               count_clamp(*task.output_count, task.output_capacity)};
        int base = lists.found[(int64_t)stretch * K + plane].base[0];
        map_plane_move_lost<W, K>(task.walk, sets, lists.wanted[plane], first, plane, begin, base,
                                  pairs);
        return;
    }
    if (lane < K * K) {
        stage->list[lane] = {begin, count};
    }
    int2 next[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
        next[a] = {0, first + lane * 4 + a};
    }
    map_plane_move<K>(four, *stage, next, shared_address(stage->pair), pairs);
}

// Thread blocks per multiprocessor that the kernel below has registers for, without spills.
SPIRA_BOTH constexpr int map_move_blocks_per_sm(int K) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return K <= 3 ? 10 : 6; // a multiprocessor has 1024 threads
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    return K <= 3 ? 9 : 5;
#else
    return K <= 3 ? 12 : 7;
#endif
}

// Moves the pairs: one thread block for each stretch, one warp for each plane. All loads are in
// flight before the first pairs are staged.
template <typename W, int K>
SPIRA_KERNEL void __launch_bounds__(32 * K, map_move_blocks_per_sm(K))
    map_plane_move_kernel(const __grid_constant__ map_plane_task<W> task,
                          const __grid_constant__ map_plane_lists<K> lists,
                          const __grid_constant__ map_pairs pairs, device_status *trouble) {
    __shared__ map_plane_stage<K> stages[K];
    const int stretch = blockIdx.x, first = stretch * map_stretch;
    const int plane = threadIdx.x / 32, lane = threadIdx.x & 31;
    const map_plane_record<K> *found = lists.found + ((int64_t)stretch * K + plane);
    const int total = count_clamp(*task.output_count, task.output_capacity);
    const bool some = first < total && lists.wanted[plane];
    map_plane_four<K> four = {};
    int begin, before = 0, count = 0;
    if (!some && stretch) {
        return;
    }
    if (some && first + (lane * 4 & -plane_rows(K)) < total) { // its outputs have a tile
        four = map_plane_fetch<K>(found);
    }
    if (some && lane < K * K) {
        before = lists.before[(int64_t)(plane * K * K + lane) * lists.stretches + stretch];
        count = map_plane_move_count<K>(lists, plane, lane, stretch, total);
    }
    if (!map_plane_lists_begin<K>(lists, plane, pairs, trouble, &begin) || !some) {
        return;
    }
    map_plane_move_stretch<W, K>(task, lists, stretch, plane, four, begin + before, count, pairs,
                                 stages + plane);
}

// ---- launch -------------------------------------------------------------------------------------

// Sets wanted [size.x]: the offsets of each plane that are in the lists, as bits.
SPIRA_API void map_plane_wanted(const kernel_shape *kernel, const map_forms *forms,
                                uint32_t *wanted) {
    int offsets = kernel->size.y * kernel->size.z;
    for (int plane = 0; plane < kernel->size.x; ++plane) {
        wanted[plane] = 0;
        for (int c = 0; c < offsets; ++c) {
            bool have = map_pairs_have(kernel, forms->threshold, forms->half, plane * offsets + c);
            wanted[plane] |= have ? 1u << c : 0;
        }
    }
}

// Builds the lists of a cube of size K.
template <typename W, int K>
SPIRA_API status map_plane_pairs_launch(const word_layout *layout, const map_request<W> *r,
                                        map_pairs pairs, device_status *trouble, void *scratch,
                                        cudaStream_t stream) {
    workspace w = workspace_begin(scratch);
    map_plane_lists<K> lists = map_plane_lists_take<K>(&w, r->outputs.capacity);
    map_plane_wanted(&r->kernel, &r->forms, lists.wanted);
    map_plane_task<W> task = map_plane_task_make<K>(layout, r, 0, nullptr);
    SPIRA_TRY(kernel_launch(map_plane_find_kernel<W, K>, (unsigned)lists.tiles, 32 * K,
                            (size_t)plane_windows_bytes(K, K), false, 1, stream, "map_build_pairs",
                            task, lists));
    SPIRA_TRY(kernel_launch(map_plane_scan_kernel<K>, K * K * K, map_scan_threads, 0, false, 1,
                            stream, "map_build_pairs", lists, r->outputs.count,
                            r->outputs.capacity));
    return kernel_launch(map_plane_move_kernel<W, K>, (unsigned)lists.stretches, 32 * K, 0, false,
                         1, stream, "map_build_pairs", task, lists, pairs, trouble);
}

} // namespace spira

#endif
