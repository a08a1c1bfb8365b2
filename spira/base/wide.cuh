// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/wide.cuh: several elements of an array at once, in as few instructions as there can
// be.
#ifndef SPIRA_BASE_WIDE_CUH
#define SPIRA_BASE_WIDE_CUH

#include "../numeric.cuh"

namespace spira {

// The bytes of a value as another type of the same size. Unions do not promise that, and neither do
// pointers to another type: compilers may take their accesses for independent.
template <typename To, typename From>
SPIRA_DEVICE To bytes_as(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "bytes_as: one size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// Elements of a thread: 4 or 8 bytes, or a multiple of 16.
template <typename E, int count>
struct wide_elements {
    E at[count];
};

// Whether memory is aligned to `bytes` bytes.
SPIRA_API bool wide_aligned(const void *p, size_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

// Word i of the elements.
template <typename E, int count>
SPIRA_DEVICE uint32_t wide_word(const wide_elements<E, count> &from, int i) {
    if constexpr (sizeof(E) == 4) {
        return float_bits(from.at[i]);
    } else if constexpr (sizeof(E) == 1) {
        uint32_t word;
        memcpy(&word, &from.at[4 * i], 4);
        return word;
    } else {
        uint16_t low, high;
        memcpy(&low, &from.at[2 * i], 2);
        memcpy(&high, &from.at[2 * i + 1], 2);
        return low | (uint32_t)high << 16;
    }
}

// Reads elements from memory that is aligned to all of them, or to 16 bytes.
template <typename E, int count>
SPIRA_DEVICE void wide_read(const E *from, wide_elements<E, count> &to) {
    static_assert(sizeof to == 8 || sizeof to % 16 == 0, "wide: whole pieces of 16 bytes, or 8");
    uint32_t words[sizeof to / 4];
    if constexpr (sizeof to == 8) {
        const uint2 two = *(const uint2 *)from;
        words[0] = two.x;
        words[1] = two.y;
    }
#pragma unroll
    for (int i = 0; i < (int)sizeof to / 16; ++i) {
        const uint4 four = ((const uint4 *)from)[i];
        words[4 * i] = four.x;
        words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z;
        words[4 * i + 3] = four.w;
    }
    memcpy(&to, words, sizeof to);
}

// Writes elements to memory that is aligned to all of them, or to 16 bytes. (__stcg: the compiler
// would divide a plain store.)
template <typename E, int count>
SPIRA_DEVICE void wide_write(const wide_elements<E, count> &from, E *to) {
    if constexpr (sizeof from == 4) {
        __stcg((unsigned *)to, wide_word(from, 0));
    } else if constexpr (sizeof from == 8) {
        __stcg((uint2 *)to, make_uint2(wide_word(from, 0), wide_word(from, 1)));
    } else {
        static_assert(sizeof from % 16 == 0, "wide: whole pieces of 16 bytes");
#pragma unroll
        for (int i = 0; i < (int)sizeof from / 16; ++i) {
            __stcg((uint4 *)to + i,
                   make_uint4(wide_word(from, 4 * i), wide_word(from, 4 * i + 1),
                              wide_word(from, 4 * i + 2), wide_word(from, 4 * i + 3)));
        }
    }
}

// Reads up to 8 channels from channel `first` of a row on; zeros behind the last channel. wide: the
// row is aligned to 16 bytes, and has a multiple of 8 channels.
template <typename E>
SPIRA_DEVICE void wide_read_channels(const E *row, int channels, int first, bool wide,
                                     wide_elements<E, 8> &to) {
    if (wide) {
        wide_read(row + first, to);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        to.at[k] = first + k < channels ? row[first + k] : E();
    }
}

// Writes them. wide: as above.
template <typename E>
SPIRA_DEVICE void wide_write_channels(const wide_elements<E, 8> &from, E *row, int64_t channels,
                                      int64_t first, bool wide) {
    if (wide) {
        wide_write(from, row + first);
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (first + k < channels) {
            row[first + k] = from.at[k];
        }
    }
}

} // namespace spira

#endif
