// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gate/kernel.cuh: the kernels of gate.cuh: a thread for each 8 channels of a row. Arrays
// without gaps between their rows are cut into pieces of 8 elements, wherever rows end.
#ifndef SPIRA_GATE_KERNEL_CUH
#define SPIRA_GATE_KERNEL_CUH

#include "../base/launch.cuh"
#include "../base/wide.cuh"
#include "../gate.h"

#include <type_traits>

namespace spira {

enum { gate_threads = 256, gate_piece = 8 /* elements of a thread */ };

// How a launch is cut.
struct gate_cut {
    int pieces; // of a row; 0: there are no gaps between rows
    bool wide;  // all pieces are aligned to 16 bytes
};

// The piece of a thread: where it begins in arrays of each pitch, and how many elements it has.
struct gate_place {
    int64_t in, gate, out;
    int left; // 0: none
};

SPIRA_DEVICE gate_place gate_place_of(const gate_args &a, const gate_cut cut) {
    const int64_t n = (int64_t)blockIdx.x * gate_threads + threadIdx.x;
    const int64_t count = count_clamp(*a.count, a.capacity);
    if (cut.pieces == 0) {
        const int64_t at = n * gate_piece, left = count * a.channels - at;
        return {at, at, at, (int)max_of(min_of(left, gate_piece), 0)}; // `left` may not fit int
    }
    const int64_t row = n >> 32 ? n / cut.pieces : (int64_t)((uint32_t)n / (uint32_t)cut.pieces);
    const int first = (int)(n - row * cut.pieces) * gate_piece;
    return {row * a.pitch_in + first, row * a.pitch_gate + first, row * a.pitch_out + first,
            row < count ? min(a.channels - first, (int)gate_piece) : 0};
}

// Calls body(integral_constant) of the activation, which is the same for all threads.
template <int at = activation_count - 1, typename F>
SPIRA_DEVICE void gate_of_activation(activation act, F body) {
    if constexpr (at > activation_none) {
        if (act != at) {
            gate_of_activation<at - 1>(act, body);
            return;
        }
    }
    body(std::integral_constant<activation, (activation)at>());
}

template <typename E>
SPIRA_DEVICE void gate_read(const void *from, int64_t at, int left, bool wide,
                            wide_elements<E, gate_piece> &to) {
    wide_read_channels((const E *)from + at, left, 0, wide, to);
}

// Ones where there is no array.
template <typename E>
SPIRA_DEVICE void gate_read_in(const gate_args &a, const gate_place &at, bool wide,
                               wide_elements<E, gate_piece> &to) {
    if (a.in) {
        gate_read(a.in, at.in, at.left, wide, to);
        return;
    }
#pragma unroll
    for (E &x : to.at) {
        x = element_from_float<E>(1.0f);
    }
}

// acts: there may be an activation
template <typename E, bool acts>
SPIRA_KERNEL void __launch_bounds__(gate_threads)
    gate_kernel(const __grid_constant__ gate_args a, const gate_cut cut) {
    pdl_wait();
    const gate_place at = gate_place_of(a, cut);
    if (at.left == 0) {
        return;
    }
    const bool wide = cut.wide && at.left == gate_piece;
    wide_elements<E, gate_piece> in, gate;
    gate_read(a.gate, at.gate, at.left, wide, gate);
    gate_read_in(a, at, wide, in);
    gate_of_activation<acts ? activation_count - 1 : activation_none>(a.act, [&](auto act) {
#pragma unroll
        for (int k = 0; k < gate_piece; ++k) {
            const float factor = gate_factor(element_to_float(gate.at[k]), act.value, a.slope);
            in.at[k] = element_from_float<E>(element_to_float(in.at[k]) * factor);
        }
    });
    wide_write_channels(in, (E *)a.out + at.out, at.left, 0, wide);
}

template <typename E>
SPIRA_KERNEL void __launch_bounds__(gate_threads)
    gate_grad_kernel(const __grid_constant__ gate_grad_args g, const gate_cut cut) {
    const gate_args &a = g.gate;
    const gate_place at = gate_place_of(a, cut);
    if (at.left == 0) {
        return;
    }
    const bool wide = cut.wide && at.left == gate_piece;
    wide_elements<E, gate_piece> in, gate, grad;
    gate_read(a.gate, at.gate, at.left, wide, gate);
    gate_read(g.out_grad, at.out, at.left, wide, grad);
    gate_read_in(a, at, wide, in);
    gate_of_activation(a.act, [&](auto act) {
#pragma unroll
        for (int k = 0; k < gate_piece; ++k) { // both: they share most of their steps
            const float x = element_to_float(gate.at[k]), y = element_to_float(grad.at[k]);
            const float product = y * element_to_float(in.at[k]);
            in.at[k] = element_from_float<E>(y * gate_factor(x, act.value, a.slope));
            gate.at[k] = element_from_float<E>(product * gate_slope(x, act.value, a.slope));
        }
    });
    if (g.in_grad) {
        wide_write_channels(in, (E *)g.in_grad + at.in, at.left, 0, wide);
    }
    if (g.gate_grad) {
        wide_write_channels(gate, (E *)g.gate_grad + at.gate, at.left, 0, wide);
    }
}

} // namespace spira

#endif
