// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gate.cuh: gates and activations on the GPU, and their gradients. What they are, and the
// host loops: gate.h.
#ifndef SPIRA_GATE_CUH
#define SPIRA_GATE_CUH

#include "gate/kernel.cuh"

namespace spira {

// How arrays are cut, and the number of thread blocks. a: gate_pitched; more: other arrays, of the
// same pitches
template <typename... P>
SPIRA_API gate_cut gate_cut_of(const gate_args &a, int64_t *blocks, P... more) {
    const bool flat = (!a.in || a.pitch_in == a.channels) && a.pitch_gate == a.channels &&
                      a.pitch_out == a.channels;
    const bool rows = a.channels % gate_piece == 0 && (!a.in || a.pitch_in % gate_piece == 0) &&
                      a.pitch_gate % gate_piece == 0 && a.pitch_out % gate_piece == 0;
    const int64_t pieces = ceil_div(a.channels, gate_piece);
    *blocks = flat ? ceil_div((int64_t)a.capacity * a.channels, gate_piece * gate_threads)
                   : ceil_div(a.capacity * pieces, gate_threads);
    const bool aligned = (wide_aligned(a.in, 16) && ... && wide_aligned(more, 16));
    return {flat ? 0 : (int)pieces, (flat || rows) && aligned && wide_aligned(a.gate, 16)};
}

// Launches the kernel of `gate` without checks. acts: there may be an activation; programmatic: see
// base/launch.cuh
template <numeric format, bool acts>
SPIRA_API status gate_run(const gate_args &args, cudaStream_t stream, const char *subject,
                          bool programmatic) {
    const gate_args a = gate_pitched(args);
    int64_t blocks;
    const gate_cut cut = gate_cut_of(a, &blocks, a.out);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    return numeric_dispatch<format>(a.type, [&](auto tag) {
        return kernel_launch(gate_kernel<typename decltype(tag)::element, acts>,
                             {(unsigned)blocks, gate_threads, stream, subject, programmatic}, a,
                             cut);
    });
}

// Multiplies rows by an activation of other rows, or applies an activation alone.
//
// inputs   args: see gate_args. `format` is the only format that is compiled
// outputs  args.out [count, channels]. Rows from the count on, and what lies between rows, are not
//          written; a count above the capacity is clamped
// errors   a pitch below channels; `out` that is an input of another pitch
// Asynchronous, deterministic, equal to gate_host (a NaN may have other bits; silu and gelu differ
// by the rounding of exp and erf).
// cost     one launch, no scratch: each row is read and written once. Widest if all arrays are
//          aligned to 16 bytes and, where a pitch is not `channels`, all pitches and channels are
//          multiples of 8
template <numeric format = numeric_any>
SPIRA_API status gate(const gate_args *args, cudaStream_t stream) {
    SPIRA_TRY(gate_check(args));
    return args->act == activation_none ? gate_run<format, false>(*args, stream, "gate", false)
                                        : gate_run<format, true>(*args, stream, "gate", false);
}

// The gradients of `gate`.
//
// inputs   args: see gate_grad_args
// outputs  args.in_grad and gate_grad [count, channels], each if it is given; nothing else is
//          written, as of `gate`
// errors   as of `gate`; an output in args.gate; neither gradient; in_grad without `in`
// Asynchronous, deterministic, equal to gate_grad_host as far as `gate` is to gate_host. At 0 the
// slope of relu is 0 and that of leaky is `slope`.
// cost     one launch, no scratch: each row is read once and each gradient written once. Widest as
//          of `gate`
template <numeric format = numeric_any>
SPIRA_API status gate_grad(const gate_grad_args *args, cudaStream_t stream) {
    SPIRA_TRY(gate_grad_check(args));
    gate_grad_args g = *args;
    g.gate = gate_pitched(args->gate);
    int64_t blocks;
    const gate_cut cut = gate_cut_of(g.gate, &blocks, g.out_grad, g.in_grad, g.gate_grad);
    SPIRA_REQUIRE(blocks <= INT32_MAX, status_bad_size, "capacity * channels", blocks);
    g.gate.in = g.gate_grad ? g.gate.in : nullptr; // nothing else reads it
    return numeric_dispatch<format>(g.gate.type, [&](auto tag) {
        return kernel_launch(gate_grad_kernel<typename decltype(tag)::element>,
                             {(unsigned)blocks, gate_threads, stream, "gate_grad"}, g, cut);
    });
}

} // namespace spira

#endif
