// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/prune_write.cuh: the kernels of prune.cuh: marks the chosen rows, sums the marks of
// each tile, writes the chosen voxels.
#ifndef SPIRA_INDEX_PRUNE_WRITE_CUH
#define SPIRA_INDEX_PRUNE_WRITE_CUH

#include "../base/launch.cuh"
#include "../numeric.cuh"
#include "../prune.h"
#include "map_scan.cuh"

namespace spira {

// ---- sums over tiles of rows, for subdivide_place.cuh, too --------------------------------------

enum { choice_tile = 256 }; // rows of a tile, and threads of its thread block

SPIRA_BOTH int32_t choice_tiles(int32_t capacity) {
    return (int32_t)ceil_div(capacity, (int)choice_tile);
}

// Thread blocks for all rows of both sets.
SPIRA_API unsigned choice_blocks(int32_t in, int32_t out) {
    return (unsigned)choice_tiles((int32_t)max_of(in, out));
}

// Replaces the sums of tiles by those of the tiles in front; behind them comes the sum of all.
//
// sums [gridDim.x, tiles + 1]: a thread block for each kind of sum
SPIRA_PLAIN_KERNEL void __launch_bounds__(map_scan_threads)
    choice_scan_kernel(int32_t *sums, int32_t tiles) {
    __shared__ int shared[map_scan_threads / 32];
    int32_t *const mine = sums + (int64_t)blockIdx.x * (tiles + 1);
    const int all = map_scan_tiles([&](int t) { return mine[t]; }, tiles, 0, mine, shared);
    if (threadIdx.x == 0) {
        mine[tiles] = all;
    }
}

// Pads a set behind `all` voxels; one thread writes its count.
template <typename W>
SPIRA_DEVICE void choice_end(const voxel_set<W> &out, int32_t all, device_status *trouble) {
    const int64_t i = (int64_t)blockIdx.x * choice_tile + threadIdx.x;
    if (i >= all && i < out.capacity) {
        out.words[i] = word_none<W>();
    }
    if (i == 0) {
        *out.count = (int32_t)min_of(all, out.capacity);
        device_status_raise_count(trouble, all, out.capacity);
    }
}

// Returns body(E()) for the element type of a choice: uint8_t for a mask or all.
template <numeric format, typename F>
SPIRA_API status choice_dispatch(const row_choice &c, F body) {
    if (!c.scores) {
        return body((uint8_t)0);
    }
    return numeric_dispatch<format>(
        c.type, [&](auto tag) { return body(typename decltype(tag)::element()); });
}

// ---- prune --------------------------------------------------------------------------------------

struct prune_scratch {
    uint32_t *bits; // [tiles, choice_tile / 32] a bit for each row
    int32_t *sums;  // [tiles + 1]
};

SPIRA_API void prune_carve(workspace *w, int32_t capacity, prune_scratch *s) {
    const int64_t tiles = choice_tiles(capacity);
    s->bits = workspace_take<uint32_t>(w, tiles * (choice_tile / 32));
    s->sums = workspace_take<int32_t>(w, tiles + 1);
}

template <typename W>
struct prune_task {
    prune_args<W> args;
    prune_scratch s;
};

// Whether row i is chosen. E: of the scores, or uint8_t for a mask.
template <typename E, typename W>
SPIRA_DEVICE bool prune_keeps(const prune_args<W> &a, int64_t i) {
    if constexpr (sizeof(E) == 1) {
        return a.choice.mask[i] != 0;
    } else {
        const E *scores = (const E *)a.choice.scores;
        const float score = element_to_float(scores[i * a.choice.channels + a.channel]);
        if (float_is_nan(score)) {
            device_status_raise(a.trouble, device_flag_not_finite, (uint32_t)i);
        }
        return row_choice_takes(a.choice, score);
    }
}

template <typename W, typename E>
SPIRA_KERNEL void __launch_bounds__(choice_tile)
    prune_mark_kernel(const __grid_constant__ prune_task<W> task) {
    __shared__ int shared[choice_tile / 32];
    const int64_t i = (int64_t)blockIdx.x * choice_tile + threadIdx.x;
    const bool keep = i < voxel_set_count(task.args.in) && prune_keeps<E>(task.args, i);
    const uint32_t bits = __ballot_sync(~0u, keep);
    if (threadIdx.x % 32 == 0) {
        task.s.bits[i / 32] = bits;
    }
    const int sum = block_sum<choice_tile>(keep, shared);
    if (threadIdx.x == 0) {
        task.s.sums[blockIdx.x] = sum;
    }
    if (i == 0) {
        device_status_raise_count(task.args.trouble, *task.args.in.count, task.args.in.capacity);
    }
}

template <typename W>
SPIRA_KERNEL void __launch_bounds__(choice_tile)
    prune_write_kernel(const __grid_constant__ prune_task<W> task) {
    const prune_args<W> &a = task.args;
    const int tile = (int)blockIdx.x, tiles = choice_tiles(a.in.capacity);
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    choice_end(a.out, task.s.sums[tiles], a.trouble);
    if (tile >= tiles) {
        return;
    }
    const uint32_t *bits = task.s.bits + tile * (choice_tile / 32);
    const uint32_t mine = bits[warp];
    const int front = warp_sum(lane < warp ? __popc(bits[lane]) : 0);
    const int rank = task.s.sums[tile] + front + __popc(mine & ((1u << lane) - 1));
    if ((mine >> lane & 1) && rank < a.out.capacity) {
        const int32_t row = tile * choice_tile + (int)threadIdx.x;
        a.out.words[rank] = a.in.words[row];
        a.source[rank] = row;
    }
}

} // namespace spira

#endif
