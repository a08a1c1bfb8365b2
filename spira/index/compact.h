// spira/index/compact.h: the compact form of the kernel map of a small cubic kernel: a position for
// each row of K offsets (z) instead of one for each offset.
//
// The sources of a row stand side by side, if all coordinates are multiples of the stride and no
// voxel is there twice: no other word lies between them. So it is enough to know where the first of
// them stands, and which offsets have one. The rows of a slab (x-offset) make a record: [K + 1]
// begin 0 .. K - 1, has.
//
//   begin  where the sources of a row begin; of a row without sources, anything
//   has    bit c: there is a source for offset c of the slab, number slab * K * K + c of the kernel
#ifndef SPIRA_INDEX_COMPACT_H
#define SPIRA_INDEX_COMPACT_H

#include "../offset.h"

namespace spira {

enum { compact_size_most = 5, compact_alignment = 16 };

// Whether kernel maps of a kernel have this form: a cube of 3 or 5. Dilated rows have other words
// between their members.
SPIRA_API bool compact_takes(const kernel_shape *kernel) {
    triple size = kernel->size;
    return size.x == size.y && size.y == size.z && (size.x == 3 || size.x == 5) &&
           kernel->dilation.z == 1 && is_power_of_two(kernel->stride.z) && !kernel->transposed;
}

// Numbers of a record.
SPIRA_BOTH constexpr int compact_record_words(int K) {
    return K + 1;
}

// Numbers of a compact map.
SPIRA_BOTH int64_t compact_total(int K, int32_t capacity) {
    return (int64_t)K * capacity * compact_record_words(K);
}

// Where the record of an output and slab stands in a compact map [K, capacity, compact_record_words].
SPIRA_BOTH int64_t compact_at(int K, int32_t capacity, int slab, int32_t output) {
    return ((int64_t)slab * capacity + output) * compact_record_words(K);
}

// The source of offset c of a slab, or -1.
SPIRA_BOTH int32_t compact_source(const int32_t *record, int K, int c) {
    const uint32_t has = (uint32_t)record[K];
    const uint32_t before = has >> (c / K * K) & ((1u << c % K) - 1);
    return has >> c & 1 ? record[c / K] + count_bits(before) : -1;
}

// The record of an output's taps of a slab [K * K]; false if the sources of a row do not stand side
// by side: then it lacks those behind the first gap.
SPIRA_API bool compact_record_put(const int32_t *taps, int K, int32_t *record) {
    bool whole = true;
    uint32_t has = 0;
    for (int row = 0; row < K; ++row) {
        int32_t next = -1;
        record[row] = 0;
        for (int c = row * K; c < row * K + K; ++c) {
            if (taps[c] >= 0 && (next < 0 || taps[c] == next)) {
                record[row] = next < 0 ? taps[c] : record[row];
                next = taps[c] + 1;
                has |= 1u << c;
            } else if (taps[c] >= 0) {
                whole = false;
            }
        }
    }
    record[K] = (int32_t)has;
    return whole;
}

} // namespace spira

#endif
