// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow/weights.cuh: the variants of the narrow kernel, and its packed weights.
#ifndef SPIRA_CONV_NARROW_WEIGHTS_CUH
#define SPIRA_CONV_NARROW_WEIGHTS_CUH

#include "../../base/launch.cuh"
#include "../weights.cuh"
#include "load.cuh"

namespace spira {

enum {
    narrow_channels_most = 32,
    narrow_warps = 4, // of a thread block
    narrow_threads = narrow_warps * 32,
    narrow_pair = 2 * order_rows, // places of an entry of the layout's schedule
    narrow_sector = 32,           // bytes of a cache sector
    narrow_scope = 32 * 32,       // offsets of a walk: a word of the mask for each lane

    narrow_groups = 4,    // groups of 8 places of a warp
    narrow_fold_most = 4, // offsets that share a step

    // Tuning parameters.
    // Steps whose rows, and as many whose sources, are in flight (2 .. 4), by channels: 16 to 16,
    // 16 to 32, others. Where offsets share a step, steps are few, and each needs more registers.
    narrow_ahead_16_16 = 3,
    narrow_ahead_16_32 = 3,
    narrow_ahead_others = 2,
    // Thread blocks of a multiprocessor: 16 to 16 channels, others, and rows that are not aligned
    // of more than 16 channels or of int8.
    narrow_resident_16_16 = 6,
    narrow_resident_others = 4,
    narrow_resident_unaligned = 3,
    // Bytes of weights that the first thread blocks bring into the cache.
    narrow_warm_bytes = 128 * 1024,
};

SPIRA_BOTH constexpr int narrow_ahead(int fold, int steps, int halves, bool wide) {
    return !wide || steps > 1 || fold != 1 ? narrow_ahead_others
           : halves > 1                    ? narrow_ahead_16_32
                                           : narrow_ahead_16_16;
}

// Thread blocks of a multiprocessor at a time: what registers allow. element: bytes of one.
SPIRA_BOTH constexpr int narrow_resident(int steps, int halves, bool wide, int element) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    const int narrow = narrow_resident_16_16 - 2; // this code needs more registers
#else
    const int narrow = narrow_resident_16_16;
#endif
    return !wide && steps * 2 > element  ? narrow_resident_unaligned
           : wide && steps * halves == 1 ? narrow
                                         : narrow_resident_others;
}

// Steps of 32 bytes of a row (16 input channels; of int8 32), and halves of 16 output channels.
// element: bytes of one.
SPIRA_BOTH int narrow_steps(int cin, int element) {
    return cin * element <= 32 ? 1 : 2;
}

SPIRA_BOTH int narrow_halves(int cout) {
    return cout <= 16 ? 1 : 2;
}

// Offsets that share a step.
SPIRA_BOTH constexpr int narrow_fold(int cin, int element) {
    return cin * element <= 8 ? 4 : cin * element <= 16 ? 2 : 1;
}

// The same of a variant: 0 is chosen at run time, for rows that are not aligned.
template <int fold>
SPIRA_DEVICE int narrow_fold_of(const conv_params &p) {
    return fold ? fold : p.fold;
}

// Whether the pipeline is filled in front of the loop. Otherwise the loop's first round fills it,
// with half of the code; where registers are short, that made the loop slower by up to 9 %.
SPIRA_BOTH constexpr bool narrow_fills_apart(int fold, int steps, int halves, bool wide) {
    return wide && (fold > 1 || steps * halves == 1);
}

// Lanes of a row: 4 / fold.
SPIRA_BOTH constexpr int narrow_parts(int fold) {
    return (int)narrow_fold_most >> fold / 2;
}

// ---- packed weights -----------------------------------------------------------------------------

// Packed weights [volume, steps, halves, 32 / fold lanes] of 16 bytes: the lane's operand of a
// step. Channels past the last are zero. Returns the number of lanes' operands.
SPIRA_API int64_t narrow_weights(const conv_shape *s) {
    const int element = numeric_size(s->type);
    return (int64_t)s->volume * narrow_steps(s->cin, element) * narrow_halves(s->cout) *
           (32 / narrow_fold(s->cin, element));
}

template <typename E, conv_weights_order order = conv_weights_own>
SPIRA_KERNEL void __launch_bounds__(256)
    narrow_pack_kernel(const __grid_constant__ conv_pack_params p) {
    const conv_shape &s = p.shape;
    enum { word = 4 / sizeof(E) }; // channels of a word
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    pdl_wait_alone();
    conv_pack_tag(p, i);
    if (i >= p.total) {
        return;
    }
    const int steps = narrow_steps(s.cin, sizeof(E)), halves = narrow_halves(s.cout);
    const int parts = narrow_parts(narrow_fold(s.cin, sizeof(E))),
              lanes = 8 * parts; // lanes of a row; of an offset
    const int lane = (int)(i % lanes), half = (int)(i / lanes % halves);
    const int step = (int)(i / lanes / halves % steps);
    const int64_t offset = i / lanes / halves / steps;
    conv_lane<E> to;
    const auto place = [=](int e) { // a word of each of 2 outputs, then the next words
        return conv_pack_place{((lane % parts * steps + step) * 2 + e / word / 2) * word + e % word,
                               (lane / parts * halves + half) * 2 + e / word % 2};
    };
    conv_pack_weights<order>(p, offset, false, place, to.element);
    ((uint4 *)p.packed)[i] = bytes_as<uint4>(to);
}

// Bytes of the weights of an offset, of a step and a half.
SPIRA_BOTH constexpr int narrow_weight_bytes(int fold) {
    return (int)conv_fragment_bytes >> fold / 2;
}

// Loads of a thread in narrow_warm, at most.
SPIRA_BOTH constexpr int narrow_warm_loads(int shares) {
    return (narrow_warm_bytes / (narrow_threads * narrow_sector) + shares - 1) / shares;
}

// Brings weights into the cache: the first thread blocks of each multiprocessor load a share each
// while they wait for their first indices. Otherwise all walks would stop at each new offset.
// scratch: the first of the thread's own narrow_warm_loads(shares) words of shared memory, which
// are 128 bytes apart.
template <int shares>
SPIRA_DEVICE void narrow_warm(const conv_params &p, int bytes, uint32_t scratch) {
    enum { step = shares * narrow_threads * narrow_sector };
    if ((int)blockIdx.x >= shares * p.multiprocessors) {
        return;
    }
    int share = 0; // blockIdx.x / p.multiprocessors, without a division
#pragma unroll
    for (int i = 1; i < shares; ++i) {
        share += (int)blockIdx.x >= i * p.multiprocessors;
    }
    bytes = min(bytes, (int)narrow_warm_bytes);
#pragma unroll 4
    for (int at = (share * narrow_threads + (int)threadIdx.x) * narrow_sector; at < bytes;
         at += step) {
        async_copy_cached<4>(scratch, (const char *)p.weights + at, true);
        scratch += 32 * 4;
    }
}

// The lane's operands of the first offset.
template <int fold>
SPIRA_DEVICE const char *narrow_weights_of(const conv_params &p) {
    const int lane = threadIdx.x % 32, parts = narrow_parts(narrow_fold_of<fold>(p));
    const char *own = (const char *)p.weights + (lane / 4 * parts + lane % parts) * conv_lane_bytes;
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(own)); // keeps it in a register
#endif
    return own;
}

// Loads the lane's operands of an offset. own: those of the first offset.
template <int fold, int steps, int halves>
SPIRA_DEVICE void narrow_weights_load(const conv_params &p, const char *own, int offset,
                                      uint4 (&to)[steps][halves]) {
    const int bytes = narrow_weight_bytes(narrow_fold_of<fold>(p));
    own += (int64_t)offset * (steps * halves * bytes);
#pragma unroll
    for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int h = 0; h < halves; ++h) {
            to[s][h] = narrow_load_kept(own + (s * halves + h) * bytes);
        }
    }
}

} // namespace spira

#endif
