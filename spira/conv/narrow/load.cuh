// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/conv/narrow/load.cuh: loads of the narrow kernel.
//
// The instructions are written out: each has its own way with the cache, and predicates in place of
// branches. Code for the host is plain.
#ifndef SPIRA_CONV_NARROW_LOAD_CUH
#define SPIRA_CONV_NARROW_LOAD_CUH

#include "../params.cuh"

namespace spira {

// Loads what all warps load again and again; the cache keeps it.
SPIRA_DEVICE uint4 narrow_load_kept(const char *from) {
#ifdef __CUDA_ARCH__
    uint4 v;
    asm volatile("ld.global.nc.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
#else
    return *(const uint4 *)from;
#endif
}

// Loads what is used once, if `there` is not negative; otherwise `to` is unspecified. Takes no
// place in the cache.
SPIRA_DEVICE void narrow_load_once(int32_t (&to)[4], const int32_t *from, int there) {
#ifdef __CUDA_ARCH__
    asm volatile("{ .reg .pred there;\n"
                 "setp.ge.s32 there, %5, 0;\n"
                 "@there ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4]; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from), "r"(there));
#else
    for (int i = 0; i < 4 && there >= 0; ++i) {
        to[i] = from[i];
    }
#endif
}

// Loads a lane's bytes of a row; zeros where `there` is false. Not through the read-only path (nc):
// the previous kernel may still write rows when this one begins (pdl_wait).
SPIRA_DEVICE void narrow_load_row(uint32_t (&to)[2], const char *from, bool there) {
#ifdef __CUDA_ARCH__
    asm volatile("{ .reg .pred there;\n"
                 ".reg .b64 both;\n"
                 "setp.ne.u32 there, %3, 0;\n"
                 "mov.b64 both, 0;\n"
                 "@there ld.global.b64 both, [%2];\n"
                 "mov.b64 {%0, %1}, both; }"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(from), "r"((uint32_t)there));
#else
    for (int i = 0; i < 2; ++i) {
        to[i] = there ? ((const uint32_t *)from)[i] : 0;
    }
#endif
}

SPIRA_DEVICE void narrow_load_row(uint32_t (&to)[1], const char *from, bool there) {
    to[0] = there ? *(const uint32_t *)from : 0;
}

SPIRA_DEVICE void narrow_load_row(uint32_t (&to)[4], const char *from, bool there) {
#ifdef __CUDA_ARCH__
    to[0] = to[1] = to[2] = to[3] = 0;
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                 : "l"(from), "r"((uint32_t)there));
#else
    for (int i = 0; i < 4; ++i) {
        to[i] = there ? ((const uint32_t *)from)[i] : 0;
    }
#endif
}

// Loads an element of a row that is not aligned.
template <typename E>
SPIRA_DEVICE void narrow_load_element(uint32_t &to, const char *from, bool there) {
    if constexpr (sizeof(E) == 1) {
        to = there ? *(const uint8_t *)from : 0;
        return;
    }
#ifdef __CUDA_ARCH__
    to = 0;
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %2, 0;\n"
                 "@there ld.global.u16 %0, [%1]; }"
                 : "+r"(to)
                 : "l"(from), "r"((uint32_t)there));
#else
    to = there ? *(const uint16_t *)from : 0;
#endif
}

SPIRA_DEVICE const char *narrow_row(const char *first, int32_t row, uint32_t pitch) {
    return first + conv_multiply_wide((uint32_t)row, pitch);
}

} // namespace spira

#endif
