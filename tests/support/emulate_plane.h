// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/emulate_plane.h: emulate.h for the kernels of index/plane_*.cuh:
// shared memory by address, the instructions of index/plane_asm.cuh, and a scan of few threads.
#ifndef SPIRA_TESTS_EMULATE_PLANE_H
#define SPIRA_TESTS_EMULATE_PLANE_H

#include "emulate.h"
#include "emulate_vectors.h"

#include <algorithm>

// This file replaces these.
#define SPIRA_INDEX_PLANE_ASM_CUH
#define SPIRA_INDEX_MAP_SCAN_CUH

// ---- vectors and functions of CUDA --------------------------------------------------------------

inline uint32_t min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

inline unsigned long long min(unsigned long long a, unsigned long long b) {
    return a < b ? a : b;
}

inline float __fdividef(float a, float b) {
    return a / b;
}

inline uint32_t __funnelshift_rc(uint32_t low, uint32_t high, uint32_t by) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> (by < 32 ? by : 32));
}

inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t sum) {
    for (int i = 0; i < 32; i += 8) {
        sum += (a >> i & 255) * (b >> i & 255);
    }
    return sum;
}

// The first two bytes of b, or the last.
inline uint32_t __dp2a_lo(uint32_t a, uint32_t b, uint32_t sum) {
    return sum + (a & 65535) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}

inline uint32_t __dp2a_hi(uint32_t a, uint32_t b, uint32_t sum) {
    return __dp2a_lo(a, b >> 16, sum);
}

// Of search.cuh, for kernels that are not emulated.
uint32_t __cvta_generic_to_shared(const void *shared);

// ---- shared memory by address -------------------------------------------------------------------

namespace spira {

// Dynamic shared memory, under the name that the kernels declare. Static shared memory lies near
// it.
alignas(128) inline thread_local int4 map_shared[4096];

namespace emulate_plane {

enum : uint32_t { base = 1u << 24 };

} // namespace emulate_plane

inline uint32_t shared_address(const void *shared) {
    return (uint32_t)((const char *)shared - (const char *)map_shared) + emulate_plane::base;
}

template <typename T>
T &shared_at(uint32_t address) {
    if (address % sizeof(T)) {
        emulate::fault("an address is not aligned");
    }
    return *(T *)((char *)map_shared + ((int64_t)address - emulate_plane::base));
}

inline const void *shared_pointer(uint32_t address) {
    return (const char *)map_shared + ((int64_t)address - emulate_plane::base);
}

inline void shared_store(uint32_t to, uint32_t v) {
    shared_at<uint32_t>(to) = v;
}

inline uint2 shared_load_2(uint32_t from) {
    return shared_at<uint2>(from);
}

inline void proxy_fence() {}
inline void bulk_store_wait() {}

// ---- index/plane_asm.cuh ------------------------------------------------------------------------

template <int index>
uint32_t plane_word(uint32_t at) {
    return shared_at<uint32_t>(at + (uint32_t)(index * 4));
}

template <int step>
void plane_step_word(uint32_t *at, uint32_t key) {
    *at += plane_word<step - 1>(*at) < key ? step * 4 : 0;
}

template <int step>
void plane_far_step(uint32_t *at, uint32_t key) {
    plane_step_word<step>(at, key);
}

template <int step>
void plane_far_step(uint32_t *at, uint64_t key) {
    *at += shared_at<uint64_t>(*at + (step - 1) * 8) < key ? step * 8 : 0;
}

inline uint32_t plane_bit(uint32_t above) {
    return above < 32 ? 1u << above : 0;
}

template <int m>
uint32_t plane_tap(uint32_t bits, int *position) {
    return bits >> m & 1 ? (uint32_t)(*position)++ : ~0u;
}

inline uint32_t map_read(const void *from) {
    return *(const uint32_t *)from;
}

inline uint2 map_read_2(const void *from) {
    return *(const uint2 *)from;
}

inline uint4 map_read_4(const void *from) {
    return *(const uint4 *)from;
}

inline uint32_t map_read_byte(const void *from) {
    return *(const uint8_t *)from;
}

template <int bit, int place>
void map_cube_stage_pair(uint32_t bits, int2 *next, uint32_t to) {
    if (bits >> bit & 1) {
        shared_at<int2>(to + place) = *next;
        next->x += 1;
    }
}

inline void map_cube_store(int32_t *to, int v, bool there) {
    if (there) {
        *to = v;
    }
}

// ---- index/map_scan.cuh -------------------------------------------------------------------------

enum { map_scan_threads = 32 };

// Each thread adds up all counts.
template <typename F>
int map_scan_tiles(F count, int tiles, int before, int32_t *sums, int *) {
    for (int tile = 0; tile < tiles; ++tile) {
        sums[tile] = before;
        before += count(tile);
    }
    return before;
}

} // namespace spira

// Those of search.cuh that are instructions, or call them, get other names there.
#define search_load search_load_instruction
#define search_step search_step_instruction
#define search_steps search_steps_instruction
#include "../../spira/search.cuh"
#undef search_load
#undef search_step
#undef search_steps

namespace spira {

template <int index>
uint32_t search_load(uint32_t at) {
    return plane_word<index>(at);
}

template <int step>
void search_step(uint32_t *at, uint32_t key) {
    plane_step_word<step>(at, key);
}

template <int step, int rows>
void search_steps(uint32_t (&at)[rows], const uint32_t (&key)[rows], int length) {
    for (int r = 0; r < rows && (step < search_length_min || step < length); ++r) {
        search_step<step>(&at[r], key[r]);
    }
    if constexpr (step > 1) {
        search_steps<step / 2, rows>(at, key, length);
    }
}

} // namespace spira

#endif
