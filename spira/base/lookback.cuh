// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/lookback.cuh: sums over the tiles in front of a tile, within one launch (a decoupled
// look-back: Merrill and Garland, 2016).
//
// Each tile publishes its own sum as soon as it has it, and the sum up to its end as soon as that
// is known. A tile waits for tiles in front of it only. So thread blocks must draw the numbers of
// their tiles (block_ticket): those in front have begun then, and never wait for this one.
//
// state: a word for each tile, zero before the launch. It holds one of two flags over a sum below
// 2^30. It carries all that is read of its tile, so that no fence is needed.
#ifndef SPIRA_BASE_LOOKBACK_CUH
#define SPIRA_BASE_LOOKBACK_CUH

#include "async.cuh"

namespace spira {

enum : uint32_t {
    lookback_tile = 1u << 30, // the sum of the tile
    lookback_all = 2u << 30,  // the sum of the tile and of all in front of it
    lookback_flags = 3u << 30,
};

SPIRA_DEVICE void lookback_publish(uint32_t *state, uint32_t flag, int sum) {
    *(volatile uint32_t *)state = flag | (uint32_t)sum;
}

// Returns the sum of all tiles in front of a tile, to one thread. tile > 0: tile 0 publishes
// lookback_all at once. state: of tile 0; apart: from one tile's word to the next one's
SPIRA_DEVICE int lookback_sum(const uint32_t *state, int tile, int apart) {
    const int ahead = 4; // loads in flight: where many tiles begin at once, the way back is long
    int before = 0;
    for (int last = tile - 1;; last -= ahead) {
        uint32_t word[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            word[j] = *(const volatile uint32_t *)(state + (int64_t)max(last - j, 0) * apart);
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            word[j] = word[j] ? word[j] : poll_nonzero(state + (int64_t)max(last - j, 0) * apart);
            before += (int)(word[j] & ~(uint32_t)lookback_flags);
            if ((word[j] & lookback_flags) == lookback_all) {
                return before;
            }
        }
    }
}

// The same by a whole warp, 32 tiles at a time. state [tiles]; any tile.
SPIRA_DEVICE int lookback_sum_warp(const uint32_t *state, int tile) {
    const int lane = (int)(threadIdx.x % 32);
    int before = 0;
    for (int last = tile - 1;; last -= 32) {
        uint32_t word = lookback_all; // in front of the first tile
        if (last >= lane) {
            word = poll_nonzero(state + (last - lane));
        }
        const uint32_t all = __ballot_sync(~0u, (word & lookback_flags) == lookback_all);
        const bool counts = all == 0 || lane < __ffs((int)all);
        before += warp_sum(counts ? (int)(word & ~(uint32_t)lookback_flags) : 0);
        if (all) {
            return before;
        }
    }
}

} // namespace spira

#endif
