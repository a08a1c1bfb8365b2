// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/compact.h: the compact form of the kernel map of a small cubic kernel: one position
// for each row of K offsets (z), and presence bits.
//
// The sources of a row stand side by side in the source set if all coordinates are multiples of the
// stride and no voxel occurs twice: then no other word lies between them. So the position of the
// first one and a bit for each offset are enough. The K rows of an x-plane of the kernel make a
// record of K + 1 numbers, [begin 0, .., begin K - 1, has]:
//   begin  position of the first source of the row; unspecified if the row has none
//   has    bit c: offset c of the plane (offset plane * K * K + c of the kernel) has a source
//
// Large kernels have a compact form of their own, in two parts: for each row of offsets a pair of
// numbers [begin, has], has with a bit for each offset of the row; and for each plane its fold:
// nine bits tell the directions in which the plane has a source (compact_fold), five more the
// levels (compact_levels).
#ifndef SPIRA_INDEX_COMPACT_H
#define SPIRA_INDEX_COMPACT_H

#include "../offset.h"

namespace spira {

enum {
    compact_size_most = 5, // above: the form of large kernels
    compact_volume_most = compact_size_most * compact_size_most * compact_size_most,
    compact_alignment = 16, // bytes
};

// Whether a kernel has the plane search (plane_search.cuh): cubes of 2, 3, 5 or 7, transposed only
// of 2, with a stride in z that is a power of two. Rows that are dilated in z may have other words
// between their members.
SPIRA_API bool plane_takes(const kernel_shape *kernel) {
    const triple size = kernel->size;
    const int K = size.x;
    return K == size.y && K == size.z && (K == 2 || K == 3 || K == 5 || K == 7) &&
           kernel->dilation.z == 1 && is_power_of_two(kernel->stride.z) &&
           (K == 2 || !kernel->transposed);
}

// Whether a kernel has this form: those with the plane search, of size 3 or 5.
SPIRA_API bool compact_takes(const kernel_shape *kernel) {
    return plane_takes(kernel) && (kernel->size.x == 3 || kernel->size.x == 5);
}

// Whether a kernel has the form of large kernels: odd sizes, more offsets than a cube of size 5.
SPIRA_API bool compact_large_takes(const kernel_shape *kernel) {
    const triple size = kernel->size;
    return size.x > 1 && size.y > 1 && size.z > 1 && size.x % 2 && size.y % 2 && size.z % 2 &&
           kernel_volume(kernel) > compact_volume_most && kernel->dilation.z == 1 &&
           is_power_of_two(kernel->stride.z) && !kernel->transposed;
}

// Whether a kernel has a compact form, of either kind.
SPIRA_API bool compact_has(const kernel_shape *kernel) {
    return compact_takes(kernel) || compact_large_takes(kernel);
}

// Numbers in a record.
SPIRA_BOTH constexpr int compact_record_words(int K) {
    return K + 1;
}

// Numbers in a compact map.
SPIRA_BOTH int64_t compact_total(int K, int32_t capacity) {
    return (int64_t)K * capacity * compact_record_words(K);
}

// Index of the record of a plane and an output, in a compact map [K, capacity, K + 1].
SPIRA_BOTH int64_t compact_at(int K, int32_t capacity, int plane, int32_t output) {
    return ((int64_t)plane * capacity + output) * compact_record_words(K);
}

// Index of the pair of the first row of a plane and an output, in the compact map of a large kernel
// [size.x, capacity, size.y, 2], and of the fold, behind all pairs [size.x, capacity].
SPIRA_BOTH int64_t compact_pair_at(triple size, int32_t capacity, int plane, int32_t output) {
    return ((int64_t)plane * capacity + output) * size.y * 2;
}

SPIRA_BOTH int64_t compact_fold_at(triple size, int32_t capacity, int plane, int32_t output) {
    return compact_pair_at(size, capacity, size.x, 0) + (int64_t)plane * capacity + output;
}

// Numbers in the compact map of a kernel.
SPIRA_API int64_t compact_numbers(const kernel_shape *kernel, int32_t capacity) {
    return kernel_volume(kernel) > compact_volume_most
               ? compact_fold_at(kernel->size, capacity, kernel->size.x, 0)
               : compact_total(kernel->size.x, capacity);
}

// The part of a fold that row y adds: bit 3 a + b for a source whose sign on y is a - 1, and b - 1
// on z.
SPIRA_BOTH uint32_t compact_fold(triple size, int y, uint32_t has) {
    const int half = size.z / 2, side = (y > size.y / 2) + (y >= size.y / 2);
    const uint32_t low = has & ((1u << half) - 1), own = has >> half & 1, high = has >> half >> 1;
    return ((low ? 1u : 0) | own << 1 | (high ? 4u : 0)) << 3 * side;
}

// The levels (order/key.h) of the offsets of a row: its middle, and on both sides those up to half
// of its reach and those beyond.
SPIRA_BOTH uint32_t compact_levels(int size, uint32_t has) {
    const int half = size / 2, close = (half + 1) / 2;
    const uint32_t end = (1u << (half - close)) - 1, inner = (1u << close) - 1;
    uint32_t levels = has >> half & 1 ? 4u : 0;
    levels |= (has & end ? 1u : 0) | (has >> (half - close) & inner ? 2u : 0);
    return levels | (has >> (half + 1) & inner ? 8u : 0) | (has >> (half + close + 1) ? 16u : 0);
}

// Returns the source of offset c of the record's plane, or -1.
SPIRA_BOTH int32_t compact_source(const int32_t *record, int K, int c) {
    const uint32_t has = (uint32_t)record[K];
    const uint32_t before = has >> (c / K * K) & ((1u << c % K) - 1);
    return has >> c & 1 ? record[c / K] + count_bits(before) : -1;
}

// Makes the pair of the taps [size] of a row: its first source, and a bit for each. Returns false
// if the sources do not stand side by side: then those behind the first gap are left out.
SPIRA_BOTH bool compact_pair_put(const int32_t *taps, int size, int32_t *pair) {
    int32_t begin = 0, found = 0;
    uint32_t has = 0;
    bool whole = true;
    for (int c = 0; c < size; ++c) {
        if (taps[c] >= 0 && (!found || taps[c] == begin + found)) {
            begin = found ? begin : taps[c];
            ++found;
            has |= 1u << c;
        } else if (taps[c] >= 0) {
            whole = false;
        }
    }
    pair[0] = begin;
    pair[1] = (int32_t)has;
    return whole;
}

// Makes the record of the taps [K * K] of one output and plane. Returns false as compact_pair_put.
SPIRA_BOTH bool compact_record_put(const int32_t *taps, int K, int32_t *record) {
    bool whole = true;
    uint32_t has = 0;
    for (int row = 0; row < K; ++row) {
        int32_t pair[2];
        whole = compact_pair_put(taps + row * K, K, pair) && whole;
        record[row] = pair[0];
        has |= (uint32_t)pair[1] << row * K;
    }
    record[K] = (int32_t)has;
    return whole;
}

// Makes the compact map of a large kernel for one output, of its taps [volume]. Returns false as
// compact_pair_put.
SPIRA_BOTH bool compact_large_put(const int32_t *taps, triple size, int32_t capacity,
                                  int32_t output, int32_t *map) {
    bool whole = true;
    for (int plane = 0; plane < size.x; ++plane) {
        int32_t *pair = map + compact_pair_at(size, capacity, plane, output);
        uint32_t fold = 0, all = 0;
        for (int y = 0; y < size.y; ++y, pair += 2, taps += size.z) {
            whole = compact_pair_put(taps, size.z, pair) && whole;
            fold |= compact_fold(size, y, (uint32_t)pair[1]);
            all |= (uint32_t)pair[1];
        }
        map[compact_fold_at(size, capacity, plane, output)] =
            (int32_t)(fold | compact_levels(size.z, all) << 9);
    }
    return whole;
}

} // namespace spira

#endif
