// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow/walk.cuh: how a warp of the narrow kernel (conv/narrow.cuh) goes through the
// offsets of its outputs: the pipeline of sources, rows and products.
//
// With g = lane / 4 and t = lane % 4, a lane has
//   of the sources  column g of each group of 8 places: places groups g .. groups g + groups - 1
//   of a row        bytes 8 steps t .. 8 steps t + 8 steps - 1
//   of the sums     output channels 2 halves g .. 2 halves g + 2 halves - 1 of columns 2 t, 2 t + 1
// where steps counts 32 bytes of a row (16 input channels, 32 of int8), halves 16 output channels,
// groups 8 places.
//
// Few input channels leave most of a step empty. So with up to 16 or 8 bytes, 2 or 4 offsets share
// a step (fold; narrow_fold_of): lanes t with the same t * fold / 4 have the sources, rows and
// weights of one of them.
#ifndef SPIRA_CONV_NARROW_WALK_CUH
#define SPIRA_CONV_NARROW_WALK_CUH

#include "../../base/mma.cuh"
#include "../epilogue.cuh"
#include "weights.cuh"

namespace spira {

// ---- offsets of a row group ---------------------------------------------------------------------

// Where a warp is in a row group's mask.
struct narrow_walk {
    uint32_t held;   // the lane's word
    uint32_t words;  // a bit for each word that is still to come
    uint32_t word;   // of the current word, the offsets that are still to come
    int begin, base; // first offset of all words, and of the current one
};

// Walks from offset `begin` on. share: which of the warps that share the places this one is; it
// takes every p.sizes.split-th offset. The identity has no mask.
SPIRA_DEVICE narrow_walk narrow_walk_of(const conv_params &p, int64_t group, int begin, int share) {
    const int lane = threadIdx.x % 32, words = order_words(p.volume), own = begin / 32 + lane;
    narrow_walk w = {0, 0, 0, begin, begin};
    if (p.order.row && own < words) {
        uint32_t every = p.sizes.split == 1 ? ~0u : p.sizes.split == 2 ? 0x55555555u : 0x11111111u;
        w.held = __ldg(p.order.mask + group * words + own) & every << share;
    }
    w.words = __ballot_sync(~0u, w.held != 0);
    return w;
}

// Which of the offsets of a step is the lane's.
template <int fold>
SPIRA_DEVICE int narrow_own_offset(const conv_params &p) {
    return (int)(threadIdx.x % 4) * narrow_fold_of<fold>(p) / 4;
}

// Returns the lane's offset of the next step, the step's first one if the lane has none (`lacks` is
// then -1, else 0); -1 past the last step.
template <int fold>
SPIRA_DEVICE int narrow_walk_next(const conv_params &p, narrow_walk &w, int32_t &lacks) {
    lacks = 0;
    if (!w.word) {
        if (!w.words) {
            return -1;
        }
        const int next = __ffs((int)w.words) - 1;
        w.words &= w.words - 1;
        w.word = __shfl_sync(~0u, w.held, next);
        w.base = w.begin + next * 32;
    }
    uint32_t own = w.word, left = w.word;
#pragma unroll
    for (int i = 1; i < (fold ? fold : (int)narrow_fold_most); ++i) {
        left &= i < narrow_fold_of<fold>(p) ? left - 1 : ~0u;
        own = narrow_own_offset<fold>(p) >= i ? left : own;
    }
    if (fold != 1) {
        lacks = own ? 0 : -1;
        own = own ? own : w.word;
    }
    w.word = left & (left - 1);
    return w.base + __ffs((int)own) - 1;
}

// ---- sources and rows ---------------------------------------------------------------------------

// Where a lane loads from.
struct narrow_from {
    const int32_t *source; // of its places, in the first offset
    const char *row;       // its bytes of row 0
    uint32_t pitch;        // bytes to the next row
    int bytes;             // that a row has from the lane's first on; 0 or less: none
};

template <typename E, int fold, int steps>
SPIRA_DEVICE narrow_from narrow_from_of(const conv_params &p, int64_t group, int place) {
    const int lane = threadIdx.x % 32,
              at = lane % narrow_parts(narrow_fold_of<fold>(p)) * (8 * steps);
    narrow_from f;
    f.source = p.order.source + group * p.volume * order_rows + place + lane / 4 * narrow_groups;
    f.pitch = (uint32_t)p.pitch * (uint32_t)sizeof(E);
    f.bytes = p.cin * (int)sizeof(E) - at;
    f.row = (const char *)p.in + (f.bytes > 0 ? at : 0);
    // Keeps them in registers: the compiler would compute them again for each offset.
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(f.source), "+l"(f.row), "+r"(f.pitch), "+r"(f.bytes));
#endif
    return f;
}

// The sources of a step.
struct narrow_sources {
    int32_t at[narrow_groups]; // of the lane's places, negative: none
    int offset;                // the lane's; -1: there is no step, and `at` is unspecified
    int32_t lacks;             // -1: the lane has no offset, and `at` is unspecified; else 0
};

template <int fold>
SPIRA_DEVICE void narrow_sources_load(const conv_params &p, const narrow_from &f, narrow_walk &walk,
                                      narrow_sources &to) {
    to.offset = narrow_walk_next<fold>(p, walk, to.lacks);
    narrow_load_once(to.at, f.source + (int64_t)to.offset * order_rows, to.offset | to.lacks);
}

template <int fold>
SPIRA_DEVICE void narrow_sources_same(const conv_params &p, int first, int outputs,
                                      narrow_sources &to) {
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        int place = first + (int)(threadIdx.x % 32 / 4) * narrow_groups + j;
        to.at[j] = place < outputs ? place : -1;
    }
    to.offset = 0;
    to.lacks = narrow_own_offset<fold>(p) ? -1 : 0;
}

// The lane's bytes of a row; zeros where there is no source.
template <typename E, int steps, bool wide>
struct narrow_bytes {
    uint32_t word[2 * steps];
};

// Of a row that is not aligned, as they were loaded: words made of them at once would wait.
template <typename E, int steps>
struct narrow_bytes<E, steps, false> {
    uint32_t element[8 / (int)sizeof(E) * steps];
};

template <typename E, int steps>
SPIRA_DEVICE uint32_t narrow_word(const narrow_bytes<E, steps, true> &row, int i) {
    return row.word[i];
}

template <typename E, int steps>
SPIRA_DEVICE uint32_t narrow_word(const narrow_bytes<E, steps, false> &row, int i) {
    if constexpr (sizeof(E) == 1) {
        const uint32_t *const e = row.element + 4 * i;
        return e[0] | e[1] << 8 | e[2] << 16 | e[3] << 24;
    } else {
        return row.element[2 * i] | row.element[2 * i + 1] << 16;
    }
}

// The rows of a step.
template <typename E, int steps, bool wide>
struct narrow_slot {
    narrow_bytes<E, steps, wide> row[narrow_groups];
    int offset;   // as in narrow_sources
    uint32_t any; // lanes that have a source
};

template <typename E, int steps>
SPIRA_DEVICE void narrow_row_load(const narrow_from &f, int32_t source,
                                  narrow_bytes<E, steps, true> &to) {
    narrow_load_row(to.word, narrow_row(f.row, source, f.pitch), source >= 0 && f.bytes > 0);
}

template <typename E, int steps>
SPIRA_DEVICE void narrow_row_load(const narrow_from &f, int32_t source,
                                  narrow_bytes<E, steps, false> &to) {
    enum { element = sizeof(E) };
    const char *from = narrow_row(f.row, source, f.pitch);
#pragma unroll
    for (int i = 0; i < 8 / element * steps; ++i) {
        narrow_load_element<E>(to.element[i], from + i * element,
                               source >= 0 && f.bytes > i * element);
    }
}

// Loads the rows of a step whose sources have been loaded, then the sources of a later step.
template <int fold, typename E, int steps, bool wide>
SPIRA_DEVICE void narrow_slot_load(const conv_params &p, const narrow_from &f, narrow_walk &walk,
                                   narrow_sources &source, narrow_slot<E, steps, wide> &to) {
    to.offset = source.offset;
    to.any = 0;
    if (source.offset < 0) {
        return;
    }
    int32_t all = -1; // negative if all sources are
#pragma unroll
    for (int j = 0; j < narrow_groups; ++j) {
        const int32_t row = fold != 1 ? source.at[j] | source.lacks : source.at[j];
        narrow_row_load(f, row, to.row[j]);
        all &= row;
    }
    to.any = __ballot_sync(~0u, all >= 0);
    narrow_sources_load<fold>(p, f, walk, source);
}

// ---- products -----------------------------------------------------------------------------------

// A lane's accumulators: [group of 8 places][16 output channels].
template <typename E, int halves>
struct narrow_sums {
    typename numeric_sum<E>::type at[narrow_groups][halves][4];
};

template <typename E, int steps, int halves, bool wide>
SPIRA_DEVICE void narrow_multiply(const narrow_slot<E, steps, wide> &slot,
                                  const uint4 (&weights)[steps][halves],
                                  narrow_sums<E, halves> &sum) {
#pragma unroll
    for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int h = 0; h < halves; ++h) {
#pragma unroll
            for (int j = 0; j < narrow_groups; ++j) {
                mma_step<E>(sum.at[j][h], weights[s][h], narrow_word(slot.row[j], 2 * s),
                            narrow_word(slot.row[j], 2 * s + 1));
            }
        }
    }
}

// Adds the products of narrow_scope offsets from `begin` on to the warp's places. first: its first
// place.
template <typename E, int fold, int steps, int halves, bool wide>
SPIRA_DEVICE void narrow_accumulate(const conv_params &p, int first, int outputs, int begin,
                                    int share, narrow_sums<E, halves> &sum) {
    enum { ahead = narrow_ahead(fold, steps, halves, wide) };
    const int64_t group = first / order_rows;
    const narrow_from from = narrow_from_of<E, fold, steps>(p, group, first % order_rows);
    const char *own = narrow_weights_of<fold>(p);
    narrow_walk walk = narrow_walk_of(p, group, begin, share);
    narrow_sources source[ahead];
    narrow_slot<E, steps, wide> slot[ahead];
    uint4 weights[steps][halves]; // of the next slot
    // ---- fill the pipeline
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        narrow_sources_load<fold>(p, from, walk, source[i]);
    }
    if (!p.order.row && share == 0) {
        narrow_sources_same<fold>(p, first, outputs, source[0]);
    }
    pdl_wait(); // before the first row
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
        if (narrow_fills_apart(fold, steps, halves, wide)) {
            narrow_slot_load<fold>(p, from, walk, source[i], slot[i]);
        } else {
            slot[i].offset = 0;
            slot[i].any = 0;
        }
    }
    if (slot[0].any) {
        narrow_weights_load<fold>(p, own, slot[0].offset, weights);
    }
    // ---- multiply a slot, load the weights of the next, load the slot anew
#pragma unroll 1
    while (slot[0].offset >= 0) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            narrow_slot<E, steps, wide> &next = slot[(i + 1) % ahead];
            if (slot[i].any) {
                narrow_multiply<E>(slot[i], weights, sum);
            }
            if (next.any) {
                narrow_weights_load<fold>(p, own, next.offset, weights);
            }
            narrow_slot_load<fold>(p, from, walk, source[i], slot[i]);
        }
    }
}

} // namespace spira

#endif
