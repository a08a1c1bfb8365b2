// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/sort_overflow.cuh: the last step of the sort (sort.cuh) where the samples tell too
// little of the words, so that a bucket has more keys than a thread block has room for.
//
// All thread blocks of the step sort all rows then, by the passes of radix.cuh, in one launch. The
// first phase moves the words to the order of their rows and counts digits; each pass is a phase.
// Thread blocks draw the tiles of all phases in order, and a phase waits for the tiles of the one
// before: these were drawn earlier, by thread blocks that run.
#ifndef SPIRA_INDEX_SORT_OVERFLOW_CUH
#define SPIRA_INDEX_SORT_OVERFLOW_CUH

#include "radix.cuh"
#include "sort_shape.h"

namespace spira {

// A digit for each thread. Most tiles of a phase begin at once, so that a tile of more keys costs
// less than the way back to more tiles.
typedef radix_cut<sort_bucket_threads, 7, 7> sort_overflow_cut;

// An even number of passes, so that the last one ends where the first one began.
SPIRA_BOTH radix_digits_of sort_overflow_digits(int bits) {
    return radix_digits_make(0, bits, sort_overflow_cut::digit_bits, 2);
}

template <typename W>
union sort_overflow_shared {
    radix_shared<sort_overflow_cut, W> pass;
    int32_t count[sort_digits_max];
};

// A pass. The keys are in the target before and after an even number of passes, else in the memory
// of `key`, which the first phase has read.
template <typename W>
SPIRA_DEVICE radix_pass<W> sort_overflow_pass(const sort_steps<W> &s, const sort_target<W> &to,
                                              int pass, int tiles) {
    const sort_overflow &o = s.overflow;
    const int32_t rows = s.shape.rows;
    W *const other = (W *)s.key;
    const radix_scratch<W> radix = {rows,    tiles,   other,  (int32_t *)(other + rows),
                                    o.drawn, o.count, o.state};
    return radix_pass_of<sort_overflow_cut>(radix, to.sorted, to.order,
                                            sort_overflow_digits(to.bits), pass);
}

// Sorts all rows. Called by all threads of all blocks. Not inlined: its code would stand in front
// of the code that all sorts run.
template <typename W>
[[maybe_unused]] static __device__ __noinline__ void
sort_overflow_rows(const sort_steps<W> &s, const sort_target<W> &to, void *memory) {
    typedef sort_overflow_cut cut;
    __shared__ int32_t drawn;
    __shared__ radix_pass<W> pass; // of the tile: registers
    const radix_digits_of digits = sort_overflow_digits(to.bits);
    const int tiles = (s.shape.rows + cut::tile - 1) / cut::tile;
    sort_overflow_shared<W> *shared = (sort_overflow_shared<W> *)memory;
    for (;;) {
        const int item = block_ticket(s.overflow.drawn, &drawn), phase = item / tiles;
        const int tile = item - phase * tiles;
        if (phase > digits.passes) {
            return;
        }
        if (phase == 0) {
            s.overflow.state[(int64_t)tile * cut::digits + threadIdx.x] = 0;
            const radix_counting counting = {digits, s.shape.rows, shared->count, s.overflow.count};
            radix_count_tiles<cut, W>(counting, tile, tiles, [&](int32_t i) {
                const sort_key<W> key = s.key[i];
                to.sorted[key.row] = key.word;
                return key.word;
            });
        } else {
            if (threadIdx.x == 0) { // waits until all tiles of the phase before are done
                pass = sort_overflow_pass(s, to, phase - 1, tiles);
                poll_nonzero(&s.overflow.ready[phase - 1]);
                __threadfence();
            }
            __syncthreads();
            radix_pass_tile<cut, true>(pass, &shared->pass, tile);
        }
        __syncthreads();
        if (threadIdx.x == 0) { // the writes of the tile are visible before it counts as done
            __threadfence();
            if (atomicAdd(&s.overflow.done[phase], 1) == tiles - 1) {
                __threadfence();
                *(volatile uint32_t *)&s.overflow.ready[phase] = 1;
            }
        }
    }
}

} // namespace spira

#endif
