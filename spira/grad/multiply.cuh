// spira/grad/multiply.cuh: a warp multiplies a stage: sum[c, n] += in[pair, c] * out_grad[pair, n].
//
// The instruction's 16 rows are input channels (a band), its 8 columns output channels (a
// fragment), and its depth is pairs. Rows of a stage are pairs, so both operands are read
// transposed: by ldmatrix.trans (16 bits), or word by word (tf32).
#ifndef SPIRA_GRAD_MULTIPLY_CUH
#define SPIRA_GRAD_MULTIPLY_CUH

#include "traits.cuh"

namespace spira {

// Where a warp stands in its thread block.
struct grad_warp {
    int down, across, split;
};

template <typename T>
SPIRA_DEVICE grad_warp grad_warp_of() {
    const int warp = __shfl_sync(~0u, (int)(threadIdx.x / 32), 0);
    return {warp % T::down, warp / T::down % T::across, warp / T::down / T::across};
}

template <typename T>
SPIRA_DEVICE void grad_clear(float (&sum)[T::fragments][T::bands][4]) {
#pragma unroll
    for (int i = 0; i < T::fragments * T::bands * 4; ++i) {
        sum[i / 4 / T::bands][i / 4 % T::bands][i % 4] = 0.0f;
    }
}

// A word of a stage's side, as tf32.
template <int pieces>
SPIRA_DEVICE uint32_t grad_word(uint32_t side, int pair, int channel) {
    const uint32_t at = grad_place<float, pieces>((uint32_t)pair, (uint32_t)channel / 4);
    return tf32_bits(__uint_as_float(shared_load(side + at + (uint32_t)channel % 4 * 4)));
}

// Loads the bands of a warp. pair: the first of the step; channel: the warp's first.
template <typename T>
SPIRA_DEVICE void grad_bands_load(uint32_t side, int pair, int channel, uint4 (&a)[T::bands]) {
    typedef typename T::element E;
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T::bands; ++i) {
        const int c = channel + i * 16;
        if constexpr (sizeof(E) == 2) {
            // Matrices: channels + 0 and + 8 of the first 8 pairs, then of the others.
            a[i] = matrix_load_4_transposed(
                side + grad_place<E, T::pieces>((uint32_t)(pair + lane / 16 * 8 + lane % 8),
                                                (uint32_t)(c / 8 + lane / 8 % 2)));
        } else {
            const int t = pair + lane % 4, g = c + lane / 4;
            a[i] = make_uint4(
                grad_word<T::pieces>(side, t, g), grad_word<T::pieces>(side, t, g + 8),
                grad_word<T::pieces>(side, t + 4, g), grad_word<T::pieces>(side, t + 4, g + 8));
        }
    }
}

// Loads two fragments: x, y of the first, z, w of the second.
template <typename T>
SPIRA_DEVICE uint4 grad_fragments_load(uint32_t side, int pair, int channel) {
    typedef typename T::element E;
    const int lane = (int)threadIdx.x % 32;
    if constexpr (sizeof(E) == 2) {
        // Matrices: the first and the last 8 pairs of channels + 0, then of + 8.
        return matrix_load_4_transposed(
            side + grad_place<E, T::pieces>((uint32_t)(pair + lane / 8 % 2 * 8 + lane % 8),
                                            (uint32_t)(channel / 8 + lane / 16)));
    } else {
        const int c = channel + lane / 4, t = pair + lane % 4;
        return make_uint4(grad_word<T::pieces>(side, t, c), grad_word<T::pieces>(side, t + 4, c),
                          grad_word<T::pieces>(side, t, c + 8),
                          grad_word<T::pieces>(side, t + 4, c + 8));
    }
}

// stage: its address.
template <typename T>
SPIRA_DEVICE void grad_multiply(uint32_t stage, const grad_warp &own,
                                float (&sum)[T::fragments][T::bands][4]) {
    typedef typename T::element E;
    const int first = own.split * (T::chunk / T::split);
    const int c = own.down * (T::bands * 16), n = own.across * (T::fragments * 8);
#pragma unroll
    for (int s = 0; s < T::steps; ++s) {
        uint4 a[T::bands];
        grad_bands_load<T>(stage, first + s * T::step, c, a);
#pragma unroll
        for (int j = 0; j < T::fragments; j += 2) {
            const uint4 b =
                grad_fragments_load<T>(stage + T::side_bytes, first + s * T::step, n + j * 8);
            mma_steps<E>(sum[j], a, b.x, b.y);
            mma_steps<E>(sum[j + 1], a, b.z, b.w);
        }
    }
}

} // namespace spira

#endif
