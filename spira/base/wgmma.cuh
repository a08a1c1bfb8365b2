// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/wgmma.cuh: Hopper's matrix instruction (wgmma), each PTX form wrapped once (sm_90a).
//
// wgmma_step<E, columns>: sum[64, columns] += a[64, depth] * b[depth, columns], by the four warps
// of a warpgroup, asynchronously. Both operands are in shared memory (base/wgmma.h), `b`
// transposed: 64 and `columns` rows of elements, of which a step reads 32 bytes: depth is 16, or 32
// of int8_t, whose sums are int32_t. With w the warp, g = lane / 4 and t = lane % 4, a lane holds,
// for each 8 columns j,
//   sum[4 j ..]  (16 w + g, 8 j + 2 t) (.., 8 j + 2 t + 1) (16 w + g + 8, 8 j + 2 t) (..)
#ifndef SPIRA_BASE_WGMMA_CUH
#define SPIRA_BASE_WGMMA_CUH

#include "../numeric.cuh"
#include "wgmma.h"

// Whether the target is sm_90a, which has the instruction.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SPIRA_WGMMA 1
#define SPIRA_ASM_90A(...) asm volatile(__VA_ARGS__)
#else
#define SPIRA_WGMMA 0
#define SPIRA_ASM_90A(...) ((void)0)
#endif

namespace spira {

// Call before steps: makes registers and shared memory, also copies of other threads, visible to
// them.
SPIRA_DEVICE void wgmma_begin() {
    SPIRA_ASM_90A("fence.proxy.async.shared::cta;\n"
                  "wgmma.fence.sync.aligned;" ::
                      : "memory");
}

// The same where the copy engine alone has written the operands: a wait for its mbarrier has made
// them visible.
SPIRA_DEVICE void wgmma_begin_copied() {
    SPIRA_ASM_90A("wgmma.fence.sync.aligned;" ::: "memory");
}

// Call after steps: makes them a group.
SPIRA_DEVICE void wgmma_end() {
    SPIRA_ASM_90A("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `groups` groups are in flight.
template <int groups>
SPIRA_DEVICE void wgmma_wait() {
    SPIRA_ASM_90A("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}

// Sets the register budget of each thread of the warpgroup from here on, a multiple of 8: fewer, or
// more. More registers are waited for until other warpgroups have released enough.
template <int registers>
SPIRA_DEVICE void setmaxnreg_dec() {
    SPIRA_ASM_90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
SPIRA_DEVICE void setmaxnreg_inc() {
    SPIRA_ASM_90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// Call after wgmma_wait<0>: keeps the compiler from reading the accumulators earlier.
template <int floats>
SPIRA_DEVICE void wgmma_settle(float (&sum)[floats]) {
#pragma unroll
    for (float &f : sum) {
        asm volatile("" : "+f"(f)::"memory");
    }
}

template <int integers>
SPIRA_DEVICE void wgmma_settle(int32_t (&sum)[integers]) {
#pragma unroll
    for (int32_t &i : sum) {
        asm volatile("" : "+r"(i)::"memory");
    }
}

template <typename E>
using wgmma_sum = typename numeric_sum<E>::type;

template <typename E, int columns>
struct wgmma_sums;

// a, b: wgmma_address of the step's bytes of the first row; form: wgmma_form.
template <typename E, int columns>
SPIRA_DEVICE void wgmma_step(wgmma_sum<E> (&sum)[columns / 2], uint32_t a, uint32_t b,
                             uint32_t form) {
    wgmma_sums<E, columns>::step(sum, a, b, form);
}

// Both operands transposed: their rows are the depth, of which a step reads 16. a, b:
// wgmma_address_transposed of the first of these rows; form: wgmma_form(7).
template <typename E, int columns>
SPIRA_DEVICE void wgmma_step_transposed(float (&sum)[columns / 2], uint32_t a, uint32_t b,
                                        uint32_t form) {
    wgmma_sums<E, columns>::step_transposed(sum, a, b, form);
}

#define SPIRA_WGMMA_8(C, i)                                                                        \
    C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]),         \
        C(d[i + 7])
#define SPIRA_WGMMA_32(C, i)                                                                       \
    SPIRA_WGMMA_8(C, i), SPIRA_WGMMA_8(C, i + 8), SPIRA_WGMMA_8(C, i + 16), SPIRA_WGMMA_8(C, i + 24)
#define SPIRA_WGMMA_LIST_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define SPIRA_WGMMA_LIST_32 SPIRA_WGMMA_LIST_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define SPIRA_WGMMA_LIST_64                                                                        \
    SPIRA_WGMMA_LIST_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define SPIRA_WGMMA_LIST_96                                                                        \
    SPIRA_WGMMA_LIST_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define SPIRA_WGMMA_LIST_128                                                                       \
    SPIRA_WGMMA_LIST_96 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define SPIRA_WGMMA_LIST_256                                                                       \
    SPIRA_WGMMA_LIST_128 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"        \
                         ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"        \
                         ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109"      \
                         ",%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122"       \
                         ",%123,%124,%125,%126,%127"

// FORM: depth and types; SCALES: of both operands, and whether they are transposed; C: the
// constraint of a sum.
#if SPIRA_WGMMA
#define SPIRA_WGMMA_ASM(FORM, SCALES, N, A, B, UPPER, ...)                                         \
    asm volatile("{ .reg .pred add;\n.reg .b64 a, b;\n"                                            \
                 "mov.b64 a, {" A ", " UPPER "};\n"                                                \
                 "mov.b64 b, {" B ", " UPPER "};\n"                                                \
                 "setp.eq.u32 add, 0, 0;\n"                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" #N FORM " {" SPIRA_WGMMA_LIST_##N             \
                 "}, a, b, add" SCALES "; }"                                                       \
                 : __VA_ARGS__                                                                     \
                 : "r"(a), "r"(b), "r"(form)                                                       \
                 : "memory")
#else
#define SPIRA_WGMMA_ASM(...) ((void)d, (void)a, (void)b, (void)form)
#endif

#define SPIRA_WGMMA_STEP(NAME, E, FORM, SCALES, N, A, B, UPPER, ...)                               \
    static __device__ __forceinline__ void NAME(wgmma_sum<E>(&d)[N / 2], uint32_t a, uint32_t b,   \
                                                uint32_t form) {                                   \
        SPIRA_WGMMA_ASM(FORM, SCALES, N, A, B, UPPER, __VA_ARGS__);                                \
    }

#define SPIRA_WGMMA_SUMS(E, FORM, N, ...)                                                          \
    template <>                                                                                    \
    struct wgmma_sums<E, N> {                                                                      \
        SPIRA_WGMMA_STEP(step, E, FORM, ", 1, 1, 0, 0", N, __VA_ARGS__)                            \
        SPIRA_WGMMA_STEP(step_transposed, E, FORM, ", 1, 1, 1, 1", N, __VA_ARGS__)                 \
    };

#define SPIRA_WGMMA_SUMS_I8(E, FORM, N, ...)                                                       \
    template <>                                                                                    \
    struct wgmma_sums<E, N> {                                                                      \
        SPIRA_WGMMA_STEP(step, E, FORM, "", N, __VA_ARGS__)                                        \
    };

#define SPIRA_WGMMA_ALL(SUMS, E, FORM, C)                                                          \
    SUMS(E, FORM, 32, "%16", "%17", "%18", SPIRA_WGMMA_8(C, 0), SPIRA_WGMMA_8(C, 8))               \
    SUMS(E, FORM, 64, "%32", "%33", "%34", SPIRA_WGMMA_32(C, 0))                                   \
    SUMS(E, FORM, 96, "%48", "%49", "%50", SPIRA_WGMMA_32(C, 0), SPIRA_WGMMA_8(C, 32),             \
         SPIRA_WGMMA_8(C, 40))                                                                     \
    SUMS(E, FORM, 128, "%64", "%65", "%66", SPIRA_WGMMA_32(C, 0), SPIRA_WGMMA_32(C, 32))           \
    SUMS(E, FORM, 256, "%128", "%129", "%130", SPIRA_WGMMA_32(C, 0), SPIRA_WGMMA_32(C, 32),        \
         SPIRA_WGMMA_32(C, 64), SPIRA_WGMMA_32(C, 96))

SPIRA_WGMMA_ALL(SPIRA_WGMMA_SUMS, __half, "k16.f32.f16.f16", "+f")
SPIRA_WGMMA_ALL(SPIRA_WGMMA_SUMS, __nv_bfloat16, "k16.f32.bf16.bf16", "+f")
SPIRA_WGMMA_ALL(SPIRA_WGMMA_SUMS_I8, int8_t, "k32.s32.s8.s8", "+r")

#undef SPIRA_WGMMA_ALL
#undef SPIRA_WGMMA_SUMS_I8
#undef SPIRA_WGMMA_SUMS
#undef SPIRA_WGMMA_STEP
#undef SPIRA_WGMMA_ASM
#undef SPIRA_WGMMA_LIST_16
#undef SPIRA_WGMMA_LIST_32
#undef SPIRA_WGMMA_LIST_64
#undef SPIRA_WGMMA_LIST_96
#undef SPIRA_WGMMA_LIST_128
#undef SPIRA_WGMMA_LIST_256
#undef SPIRA_WGMMA_32
#undef SPIRA_WGMMA_8

} // namespace spira

#endif
