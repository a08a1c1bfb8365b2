// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/index/plane_asm.cuh: instructions of plane_*.cuh for which C++ has no words. The emulator
// of the tests (tests/support/emulate_plane.h) replaces this file.
#ifndef SPIRA_INDEX_PLANE_ASM_CUH
#define SPIRA_INDEX_PLANE_ASM_CUH

#include "../base/async.cuh"
#include "../search.cuh"

namespace spira {

// ---- search -------------------------------------------------------------------------------------

// Returns 1 << above, and 0 where above >= 32.
SPIRA_DEVICE uint32_t plane_bit(uint32_t above) {
    uint32_t bit;
    asm("shl.b32 %0, 1, %1;" : "=r"(bit) : "r"(above));
    return bit;
}

// Returns tap m: *position, which then advances, or -1.
template <int m>
SPIRA_DEVICE uint32_t plane_tap(uint32_t bits, int *position) {
    uint32_t tap = 0;
    asm("{ .reg .pred has; .reg .b32 bit;\n"
        "and.b32 bit, %2, %3;\n"
        "setp.ne.u32 has, bit, 0;\n"
        "selp.b32 %0, %1, -1, has;\n"
        "@has add.s32 %1, %1, 1; }"
        : "+r"(tap), "+r"(*position)
        : "r"(bits), "n"(1 << m));
    return tap;
}

// The inverse of shared_address.
SPIRA_DEVICE const void *shared_pointer(uint32_t address) {
    return __cvta_shared_to_generic(address);
}

// As search_step (search.cuh), of words of either width.
template <int step>
SPIRA_DEVICE void plane_far_step(uint32_t *at, uint32_t key) {
    search_step<step>(at, key);
}

template <int step>
SPIRA_DEVICE void plane_far_step(uint32_t *at, uint64_t key) {
    asm volatile("{ .reg .pred below; .reg .b64 word;\n"
                 "ld.shared.u64 word, [%0 + %2];\n"
                 "setp.lt.u64 below, word, %1;\n"
                 "@below add.u32 %0, %0, %3; }"
                 : "+r"(*at)
                 : "l"(key), "n"(step * 8 - 8), "n"(step * 8));
}

// ---- pair lists ---------------------------------------------------------------------------------

// Loads that the compiler keeps in program order: volatile, so that it does not delay them to save
// registers. All of them are in flight before the first result is used.
SPIRA_DEVICE uint32_t map_read(const void *from) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

SPIRA_DEVICE uint2 map_read_2(const void *from) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

SPIRA_DEVICE uint4 map_read_4(const void *from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

// As map_read, of one byte.
SPIRA_DEVICE uint32_t map_read_byte(const void *from) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];"
                 : "=r"(v)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
}

// If the bit is set: stores the pair *next at `to` + place, and advances its input.
template <int bit, int place>
SPIRA_DEVICE void map_cube_stage_pair(uint32_t bits, int2 *next, uint32_t to) {
    asm volatile("{ .reg .pred has; .reg .b32 one;\n"
                 "and.b32 one, %2, %4;\n"
                 "setp.ne.u32 has, one, 0;\n"
                 "@has st.shared.v2.s32 [%3 + %5], {%0, %1};\n"
                 "@has add.s32 %0, %0, 1; }"
                 : "+r"(next->x)
                 : "r"(next->y), "r"(bits), "r"(to), "n"(1 << bit), "n"(place)
                 : "memory");
}

// Stores where `there`: predicated, because a branch takes more instructions.
SPIRA_DEVICE void map_cube_store(int32_t *to, int v, bool there) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %2, 0;\n"
                 "@there st.global.s32 [%0], %1; }" ::"l"(to),
                 "r"(v), "r"((uint32_t)there)
                 : "memory");
}

} // namespace spira

#endif
