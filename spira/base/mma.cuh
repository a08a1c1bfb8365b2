// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/base/mma.cuh: the warp's matrix instructions (mma.sync), each PTX form wrapped once.
//
// mma_step<E>: sum[16, 8] += a[16, depth] * b[depth, 8], depth 32 for int8, 16 for 16-bit elements
// and 8 for tf32. Sums of int8 are int32. With g = lane / 4 and t = lane % 4, a lane holds
//   sum  (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//   a    rows g, g+8, g, g+8; the first two at depth positions "low", the others at "high"
//   b    column g; b0 at "low", b1 at "high"
// where low = {2t, 2t+1}, high = {2t+8, 2t+9} (16 bits), or low = t, high = t+4 (tf32), or low =
// {4t
// .. 4t+3}, high = low + 16 (int8): always bytes 4t .. 4t+3 of 16.
//
// For sm_80 and later; launchers do not choose kernels that use it on older GPUs.
#ifndef SPIRA_BASE_MMA_CUH
#define SPIRA_BASE_MMA_CUH

#include "../numeric.cuh"

// Whether the instructions are compiled.
#if __CUDA_ARCH__ >= 800
#define SPIRA_MMA 1
#else
#define SPIRA_MMA 0
#endif

namespace spira {

template <typename E>
SPIRA_DEVICE void mma_step(typename numeric_sum<E>::type (&sum)[4], uint4 a, uint32_t b0,
                           uint32_t b1);

#if SPIRA_MMA
#define SPIRA_MMA_ASM(FORM, IN)                                                                    \
    asm("mma.sync.aligned." FORM " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"          \
        : IN(sum[0]), IN(sum[1]), IN(sum[2]), IN(sum[3])                                           \
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
#else
#define SPIRA_MMA_ASM(FORM, IN) ((void)0)
#endif

// IN: the register of a sum.
#define SPIRA_MMA_STEP(E, FORM, IN)                                                                \
    template <>                                                                                    \
    __device__ __forceinline__ void mma_step<E>(numeric_sum<E>::type(&sum)[4], uint4 a,            \
                                                uint32_t b0, uint32_t b1) {                        \
        SPIRA_MMA_ASM(FORM, IN);                                                                   \
    }

SPIRA_MMA_STEP(__half, "m16n8k16.row.col.f32.f16.f16.f32", "+f")
SPIRA_MMA_STEP(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32", "+f")
SPIRA_MMA_STEP(float, "m16n8k8.row.col.f32.tf32.tf32.f32", "+f") // float stands for tf32
SPIRA_MMA_STEP(int8_t, "m16n8k32.row.col.s32.s8.s8.s32", "+r")

#undef SPIRA_MMA_STEP
#undef SPIRA_MMA_ASM

// Several products with the same b.
template <typename E, int many>
SPIRA_DEVICE void mma_steps(typename numeric_sum<E>::type (&sum)[many][4], const uint4 (&a)[many],
                            uint32_t b0, uint32_t b1) {
#pragma unroll
    for (int i = 0; i < many; ++i) {
        mma_step<E>(sum[i], a[i], b0, b1);
    }
}

// Loads four matrices of 8 rows of 16 bytes from shared memory (ldmatrix). Lanes 8 i .. 8 i + 7
// give the addresses of the rows of matrix i; of each matrix a lane gets bytes 4 t .. 4 t + 3 of
// row g.
SPIRA_DEVICE uint4 matrix_load_4(uint32_t row) {
    uint4 v = make_uint4(0, 0, 0, 0);
    SPIRA_ASM_80("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row)
                 : "memory");
    return v;
}

// The same, each matrix transposed: of 8 rows of 16-bit elements, a lane gets elements g of rows 2
// t and 2 t + 1.
SPIRA_DEVICE uint4 matrix_load_4_transposed(uint32_t row) {
    uint4 v = make_uint4(0, 0, 0, 0);
    SPIRA_ASM_80("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row)
                 : "memory");
    return v;
}

} // namespace spira

#endif
