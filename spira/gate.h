// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/gate.h: rows of features times an activation of other rows, as in SwiGLU and other gated
// linear units; an activation alone; the gradients of both.
//
//   out       = in * act(gate)                     (in null: act(gate))
//   in_grad   = out_grad * act(gate)
//   gate_grad = out_grad * in * act'(gate)         (in null: out_grad * act'(gate))
//
// Everything is fp32, and rounded once, to the format of the features. act' is activation_slope.
//
// The two halves of a layer with 2 * channels outputs need no copy: gate is its first output, say,
// in lies `channels` elements behind it, and both have the pitch 2 * channels. Gradients have the
// pitch of what they are gradients of, so both can go to one array of that shape.
#ifndef SPIRA_GATE_H
#define SPIRA_GATE_H

#include "conv.h"

namespace spira {

// What `gate` reads and writes. `out` may be `in` or `gate`, with the same pitch; otherwise nothing
// may overlap.
struct gate_args {
    const void *in;   // [count, channels] in `type`, aligned to its element; null: 1
    const void *gate; // [count, channels]
    int channels;     // >= 1
    int pitch_in, pitch_gate, pitch_out; // elements from one row to the next; 0: channels
    numeric type;                        // of all arrays
    activation act;                      // of gate; activation_none: a plain product
    float slope;                         // of activation_leaky
    const int32_t *count;                // [1]
    int32_t capacity;                    // of in, gate and out
    void *out;                           // [count, channels]
};

// What `gate_grad` reads and writes. A gradient may be any array that is read, with the same pitch;
// otherwise nothing may overlap.
struct gate_grad_args {
    gate_args gate;       // out: null
    const void *out_grad; // [count, channels], rows pitch_out apart
    void *in_grad;        // [count, channels], rows pitch_in apart; null: not wanted
    void *gate_grad;      // [count, channels], rows pitch_gate apart; null: not wanted
};

// The same with pitches that are set.
SPIRA_API gate_args gate_pitched(gate_args a) {
    for (int *pitch : {&a.pitch_in, &a.pitch_gate, &a.pitch_out}) {
        *pitch = *pitch ? *pitch : a.channels;
    }
    return a;
}

// The checks that gate and gate_grad share.
SPIRA_API status gate_rows_check(const gate_args &a) {
    SPIRA_REQUIRE(numeric_valid(a.type), status_unsupported, "type", a.type);
    SPIRA_REQUIRE(a.act >= activation_none && a.act < activation_count, status_unsupported, "act",
                  a.act);
    SPIRA_TRY(size_check(a.channels, 1, INT32_MAX, "channels"));
    SPIRA_TRY(size_check(a.capacity, 1, INT32_MAX, "capacity"));
    const gate_args set = gate_pitched(a);
    SPIRA_TRY(size_check(set.pitch_in, a.channels, INT32_MAX, "pitch_in"));
    SPIRA_TRY(size_check(set.pitch_gate, a.channels, INT32_MAX, "pitch_gate"));
    SPIRA_TRY(size_check(set.pitch_out, a.channels, INT32_MAX, "pitch_out"));
    const size_t element = (size_t)numeric_size(a.type);
    SPIRA_TRY(pointer_check(a.gate, element, "gate"));
    if (a.in) {
        SPIRA_TRY(pointer_check(a.in, element, "in"));
    }
    return pointer_check(a.count, alignof(int32_t), "count");
}

// Whether rows that are written lie on rows that are read, and both are apart by the same.
SPIRA_API status gate_overlap_check(const void *written, int pitch, const void *read, int other,
                                    const char *subject) {
    SPIRA_REQUIRE(!written || written != read || pitch == other, status_unsupported, subject, 0);
    return status_success();
}

// The checks of gate and gate_host.
SPIRA_API status gate_check(const gate_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(gate_rows_check(*args));
    const gate_args a = gate_pitched(*args);
    SPIRA_TRY(pointer_check(a.out, (size_t)numeric_size(a.type), "out"));
    const char *const subject = "out (overlaps an input of another pitch)";
    SPIRA_TRY(gate_overlap_check(a.out, a.pitch_out, a.in, a.pitch_in, subject));
    return gate_overlap_check(a.out, a.pitch_out, a.gate, a.pitch_gate, subject);
}

// The checks of gate_grad and gate_grad_host.
SPIRA_API status gate_grad_check(const gate_grad_args *args) {
    SPIRA_REQUIRE(args, status_null_pointer, "args", 0);
    SPIRA_TRY(gate_rows_check(args->gate));
    const gate_args a = gate_pitched(args->gate);
    const void *const in_grad = args->in_grad, *const gate_grad = args->gate_grad;
    SPIRA_REQUIRE(!a.out, status_unsupported, "gate.out (is of forward)", 0);
    SPIRA_REQUIRE(in_grad || gate_grad, status_null_pointer, "in_grad, gate_grad (both)", 0);
    SPIRA_REQUIRE(!in_grad || a.in, status_unsupported, "in_grad (without in)", 0);
    SPIRA_REQUIRE(in_grad != gate_grad, status_unsupported, "in_grad (overlaps gate_grad)", 0);
    const size_t element = (size_t)numeric_size(a.type);
    SPIRA_TRY(pointer_check(args->out_grad, element, "out_grad"));
    for (const void *grad : {in_grad, gate_grad}) {
        const int pitch = grad == in_grad ? a.pitch_in : a.pitch_gate;
        const char *const subject = "in_grad, gate_grad (overlap an input of another pitch)";
        if (grad) {
            SPIRA_TRY(pointer_check(grad, element, "in_grad, gate_grad"));
            SPIRA_TRY(gate_overlap_check(grad, pitch, a.in, a.pitch_in, subject));
            SPIRA_TRY(gate_overlap_check(grad, pitch, a.gate, a.pitch_gate, subject));
            SPIRA_TRY(gate_overlap_check(grad, pitch, args->out_grad, a.pitch_out, subject));
        }
    }
    return status_success();
}

// The factor that a number of `gate` is. NaN stays NaN.
SPIRA_BOTH float gate_factor(float gate, activation act, float slope) {
    const float factor = activation_apply(gate, act, slope); // without a branch
    return float_is_nan(gate) ? gate : factor;
}

// The slope of that factor; of a NaN it is NaN, except without an activation.
SPIRA_BOTH float gate_slope(float gate, activation act, float slope) {
    const float of = activation_slope(gate, act, slope); // without a branch
    return act != activation_none && float_is_nan(gate) ? gate : of;
}

// The host loop of `gate` (gate.cuh), on host memory.
SPIRA_API status gate_host(const gate_args *args) {
    SPIRA_TRY(gate_check(args));
    const gate_args a = gate_pitched(*args);
    for (int64_t i = 0; i < count_clamp(*a.count, a.capacity); ++i) {
        for (int c = 0; c < a.channels; ++c) {
            const float in = a.in ? numeric_load(a.type, a.in, i * a.pitch_in + c) : 1.0f;
            const float gate = numeric_load(a.type, a.gate, i * a.pitch_gate + c);
            numeric_store(a.type, a.out, i * a.pitch_out + c,
                          in * gate_factor(gate, a.act, a.slope));
        }
    }
    return status_success();
}

// The host loop of `gate_grad` (gate.cuh), on host memory.
SPIRA_API status gate_grad_host(const gate_grad_args *args) {
    SPIRA_TRY(gate_grad_check(args));
    const gate_args a = gate_pitched(args->gate);
    for (int64_t i = 0; i < count_clamp(*a.count, a.capacity); ++i) {
        for (int c = 0; c < a.channels; ++c) {
            const float in = a.in ? numeric_load(a.type, a.in, i * a.pitch_in + c) : 1.0f;
            const float gate = numeric_load(a.type, a.gate, i * a.pitch_gate + c);
            const float grad = numeric_load(a.type, args->out_grad, i * a.pitch_out + c);
            if (args->in_grad) {
                numeric_store(a.type, args->in_grad, i * a.pitch_in + c,
                              grad * gate_factor(gate, a.act, a.slope));
            }
            if (args->gate_grad) {
                numeric_store(a.type, args->gate_grad, i * a.pitch_gate + c,
                              grad * in * gate_slope(gate, a.act, a.slope));
            }
        }
    }
    return status_success();
}

} // namespace spira

#endif
