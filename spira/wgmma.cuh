// spira/wgmma.cuh: Hopper's matrix instruction, each PTX form wrapped once (sm_90a).
//
// wgmma_step<E, columns>: sum[64, columns] += a[64, 16] * b[16, columns], by the four warps of a
// warpgroup, asynchronously. `a` is in registers: warp w has rows 16 w .. 16 w + 15, in the order
// of mma.cuh. `b` is in shared memory, `columns` rows of 64 elements of 16 bits, of which a step
// takes 16: the 16 bytes number c of row r stand at 128 r + 16 (c ^ r % 8) from a multiple of 1024.
// With g = lane / 4 and t = lane % 4, a lane has, for each 8 columns j,
//   sum[4 j ..]  (g, 8 j + 2 t) (g, 8 j + 2 t + 1) (g + 8, 8 j + 2 t) (g + 8, 8 j + 2 t + 1)
#ifndef SPIRA_WGMMA_CUH
#define SPIRA_WGMMA_CUH

#include "numeric.cuh"

// Where the compiler may use it: the target is sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SPIRA_WGMMA 1
#else
#define SPIRA_WGMMA 0
#endif

namespace spira {

enum {
    wgmma_rows = 64, // of `a`: output channels, here
    wgmma_columns_most = 128,
    wgmma_depth = 64,      // elements of a row of `b`
    wgmma_row_bytes = 128, // the same
    wgmma_steps = 4,       // of 16 elements
    wgmma_step_bytes = 32, // to the next
};

// Where the 16 bytes number c of row r of `b` stand.
SPIRA_DEVICE uint32_t wgmma_place(uint32_t r, uint32_t c) {
    return r * wgmma_row_bytes + ((c ^ (r & 7)) << 4);
}

// What the instruction is told of `b` (shared address): where it is; that 8 rows are 1024 bytes,
// and the swizzle.
SPIRA_DEVICE uint32_t wgmma_describe(uint32_t b) {
    return (b >> 4 & 0x3fff) | 1u << 16;
}

enum : uint32_t { wgmma_describe_high = 1024 >> 4 | 1u << 30 };

// Before the first step: registers and shared memory are as the steps are to see them.
SPIRA_DEVICE void wgmma_begin() {
#if SPIRA_WGMMA
    asm volatile("fence.proxy.async.shared::cta;\n"
                 "wgmma.fence.sync.aligned;" ::
                     : "memory");
#endif
}

// After the last: waits until all are done.
SPIRA_DEVICE void wgmma_finish() {
#if SPIRA_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;\n"
                 "wgmma.wait_group.sync.aligned 0;" ::
                     : "memory");
#endif
}

// add: to what `sum` has; otherwise it is set.
template <typename E, int columns, int floats>
struct wgmma_form;

template <typename E, int columns, int floats>
SPIRA_DEVICE void wgmma_step(float (&sum)[floats], uint4 a, uint32_t b, bool add) {
    wgmma_form<E, columns, floats>::step(sum, a, wgmma_describe(b), add);
}

#define SPIRA_WGMMA_8(i)                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SPIRA_WGMMA_LIST_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define SPIRA_WGMMA_LIST_64                                                                        \
    SPIRA_WGMMA_LIST_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define SPIRA_WGMMA_LIST_96                                                                        \
    SPIRA_WGMMA_LIST_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define SPIRA_WGMMA_LIST_128                                                                       \
    SPIRA_WGMMA_LIST_96 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

#if SPIRA_WGMMA
#define SPIRA_WGMMA_ASM(TYPE, N, A, B, ADD, HIGH, ...)                                             \
    asm volatile("{ .reg .pred add;\n.reg .b64 b;\n"                                               \
                 "mov.b64 b, {" B ", " HIGH "};\n"                                                 \
                 "setp.ne.u32 add, " ADD ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                   \
                 " {" SPIRA_WGMMA_LIST_##N "}, {" A "}, b, add, 1, 1, 0; }"                        \
                 : __VA_ARGS__                                                                     \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b), "r"((uint32_t)add),             \
                   "n"((uint32_t)wgmma_describe_high)                                              \
                 : "memory")
#else
#define SPIRA_WGMMA_ASM(...) ((void)d, (void)a, (void)b, (void)add)
#endif

#define SPIRA_WGMMA_FORM(E, TYPE, N, A, B, ADD, HIGH, ...)                                         \
    template <int floats>                                                                          \
    struct wgmma_form<E, N, floats> {                                                              \
        static_assert(floats >= N / 2, "a float for each two columns");                            \
        static __device__ __forceinline__ void step(float (&d)[floats], uint4 a, uint32_t b,       \
                                                    bool add) {                                    \
            SPIRA_WGMMA_ASM(TYPE, N, A, B, ADD, HIGH, __VA_ARGS__);                                \
        }                                                                                          \
    };

#define SPIRA_WGMMA_FORMS(E, TYPE)                                                                 \
    SPIRA_WGMMA_FORM(E, TYPE, 32, "%16,%17,%18,%19", "%20", "%21", "%22", SPIRA_WGMMA_8(0),        \
                     SPIRA_WGMMA_8(8))                                                             \
    SPIRA_WGMMA_FORM(E, TYPE, 64, "%32,%33,%34,%35", "%36", "%37", "%38", SPIRA_WGMMA_8(0),        \
                     SPIRA_WGMMA_8(8), SPIRA_WGMMA_8(16), SPIRA_WGMMA_8(24))                       \
    SPIRA_WGMMA_FORM(E, TYPE, 96, "%48,%49,%50,%51", "%52", "%53", "%54", SPIRA_WGMMA_8(0),        \
                     SPIRA_WGMMA_8(8), SPIRA_WGMMA_8(16), SPIRA_WGMMA_8(24), SPIRA_WGMMA_8(32),    \
                     SPIRA_WGMMA_8(40))                                                            \
    SPIRA_WGMMA_FORM(E, TYPE, 128, "%64,%65,%66,%67", "%68", "%69", "%70", SPIRA_WGMMA_8(0),       \
                     SPIRA_WGMMA_8(8), SPIRA_WGMMA_8(16), SPIRA_WGMMA_8(24), SPIRA_WGMMA_8(32),    \
                     SPIRA_WGMMA_8(40), SPIRA_WGMMA_8(48), SPIRA_WGMMA_8(56))

SPIRA_WGMMA_FORMS(__half, "f16")
SPIRA_WGMMA_FORMS(__nv_bfloat16, "bf16")

#undef SPIRA_WGMMA_FORMS
#undef SPIRA_WGMMA_FORM
#undef SPIRA_WGMMA_ASM
#undef SPIRA_WGMMA_8
#undef SPIRA_WGMMA_LIST_32
#undef SPIRA_WGMMA_LIST_64
#undef SPIRA_WGMMA_LIST_96
#undef SPIRA_WGMMA_LIST_128

} // namespace spira

#endif
