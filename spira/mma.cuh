// spira/mma.cuh: the warp's matrix instructions, each PTX form wrapped once.
//
// mma_step<E>: sum[16, 8] += a[16, depth] * b[depth, 8], depth 16 for 16-bit elements and 8 for
// tf32. With g = lane / 4 and t = lane % 4, a lane holds
//   sum  (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//   a    rows g, g+8, g, g+8; the first two at depth positions "low", the others at "high"
//   b    column g; b0 at "low", b1 at "high"
// where low = {2t, 2t+1}, high = {2t+8, 2t+9} (16 bits), or low = t, high = t+4 (tf32).
#ifndef SPIRA_MMA_CUH
#define SPIRA_MMA_CUH

#include "numeric.cuh"

namespace spira {

template <typename E>
SPIRA_DEVICE void mma_step(float (&sum)[4], uint4 a, uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma_step<__half>(float (&sum)[4], uint4 a, uint32_t b0,
                                                 uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750 // the same product in two halves
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(b0));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.z), "r"(a.w), "r"(b1));
#endif
}

template <>
__device__ __forceinline__ void mma_step<__nv_bfloat16>(float (&sum)[4], uint4 a, uint32_t b0,
                                                        uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif // below sm_80 conv.cuh does not choose this path
}

template <> // float stands for tf32
__device__ __forceinline__ void mma_step<float>(float (&sum)[4], uint4 a, uint32_t b0,
                                                uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif
}

// Transposes an 8x8 matrix held by a warp: lane (g, t) gives elements (g, 2t), (g, 2t+1) and gets
// (2t, g), (2t+1, g), with g = lane / 4 and t = lane % 4.
SPIRA_DEVICE uint32_t mma_transpose_bits(uint32_t pair) {
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(pair));
    return pair;
}

template <typename E>
SPIRA_DEVICE void mma_transpose(E (&pair)[2]) {
    if (sizeof(E) == 2) {
        union {
            uint32_t bits;
            E element[2];
        } v;
        v.element[0] = pair[0];
        v.element[1] = pair[1];
        v.bits = mma_transpose_bits(v.bits);
        pair[0] = v.element[0];
        pair[1] = v.element[1];
    } else { // the low and the high halves of two words
        uint32_t x, y;
        memcpy(&x, &pair[0], 4);
        memcpy(&y, &pair[1], 4);
        uint32_t low = mma_transpose_bits(__byte_perm(x, y, 0x5410));
        uint32_t high = mma_transpose_bits(__byte_perm(x, y, 0x7632));
        x = __byte_perm(low, high, 0x5410);
        y = __byte_perm(low, high, 0x7632);
        memcpy(&pair[0], &x, 4);
        memcpy(&pair[1], &y, 4);
    }
}

} // namespace spira

#endif
