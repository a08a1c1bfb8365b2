// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/i8_problems.h: int8 layers with everything that they can have, and their outputs by
// a loop that shares no code with conv_i8.h but the conversions of fp16 and bf16. No CUDA here.
#ifndef SPIRA_TESTS_I8_PROBLEMS_H
#define SPIRA_TESTS_I8_PROBLEMS_H

#include "test.h"

#include "../../spira/conv_i8.h"

#include <math.h>
#include <vector>

// Arrays of a source: of a layer, or of its shortcut.
struct i8_operands {
    int cin, cin2;
    float scale_in, scale_in2;
    std::vector<int8_t> in, in2;    // [rows, cin], [rows, cin2]
    std::vector<float> weight;      // [volume, cin + cin2, cout]
    std::vector<int8_t> quantised;  // the same, as integers
    std::vector<float> bias, shift; // [cout], or empty
};

struct i8_problem {
    spira::conv_shape shape;
    int32_t inputs, outputs;
    std::vector<int32_t> map;       // [outputs, volume]; empty: the identity
    i8_operands own, shortcut;      // shortcut.cin: 0 without one
    std::vector<float> step, scale; // [cout]; scale: or empty
    bool has_residual;
    spira::numeric residual_type, out_type;
    std::vector<char> residual; // [outputs, cout]
    float residual_scale, out_inverse;
    spira::activation act;
    float slope;
};

// What a problem has. Everything else is random.
struct i8_wish {
    spira::conv_shape shape;
    int shortcut = 0, shortcut2 = 0; // channels of its sources; 0: none
    bool residual = false;
    spira::numeric residual_type = spira::numeric_f32, out_type = spira::numeric_f32;
    spira::activation act = spira::activation_none;
    bool affine = false;  // bias, scale and shift
    bool extreme = false; // features and weights are -128, 127 and zero: sums are as large as they
                          // can be
};

inline float i8_between(random_state *r, float low, float high) {
    return low + (high - low) * 0.5f * (random_float(r) + 1);
}

inline std::vector<int8_t> i8_random(random_state *r, int64_t count, bool extreme) {
    std::vector<int8_t> v((size_t)count);
    for (int8_t &x : v) {
        x = (int8_t)(extreme ? random_int(r, 0, 3) ? -128 : 127 : random_int(r, -128, 127));
    }
    return v;
}

inline std::vector<float> i8_floats(random_state *r, int64_t count, float most) {
    std::vector<float> v((size_t)count);
    for (float &x : v) {
        x = i8_between(r, -most, most);
    }
    return v;
}

inline i8_operands i8_operands_random(random_state *r, const i8_wish *w, int volume, int cin,
                                      int cin2, int64_t rows) {
    const int64_t cout = w->shape.cout;
    i8_operands o = {};
    o.cin = cin;
    o.cin2 = cin2;
    o.scale_in = i8_between(r, 0.01f, 0.1f);
    o.scale_in2 = cin2 ? i8_between(r, 0.01f, 0.1f) : 0;
    o.in = i8_random(r, rows * cin, w->extreme);
    o.in2 = i8_random(r, rows * cin2, w->extreme);
    o.weight = i8_floats(r, (int64_t)volume * (cin + cin2) * cout, 1);
    for (int64_t i = 0; i < (int64_t)o.weight.size(); ++i) {
        const int64_t c = i % cout;
        float &x = o.weight[(size_t)i];
        x = c % 5 == 3 ? 0 : w->extreme ? -1.0f : x * (float)(c % 7 + 1); // a channel of zeros
    }
    if (w->affine) {
        o.bias = i8_floats(r, cout, 2);
        o.shift = i8_floats(r, cout, 2);
    }
    return o;
}

inline spira::conv_i8_weights i8_weights_of(const i8_problem *p, const i8_operands *o, int volume) {
    return {{volume, o->cin, o->cin2, p->shape.cout, spira::numeric_i8},
            o->weight.data(),
            o->scale_in,
            o->scale_in2};
}

// Steps and integers of all weights, by conv_i8.h.
inline void i8_quantise(i8_problem *p) {
    const spira::conv_i8_weights own = i8_weights_of(p, &p->own, p->shape.volume),
                                 shortcut = i8_weights_of(p, &p->shortcut, 1);
    p->step.resize((size_t)p->shape.cout);
    CHECK_OK(
        spira::conv_i8_steps_host(&own, p->shortcut.cin ? &shortcut : nullptr, p->step.data()));
    p->own.quantised.resize(p->own.weight.size());
    CHECK_OK(spira::conv_i8_weights_host(&own, p->step.data(), p->own.quantised.data()));
    if (p->shortcut.cin) {
        p->shortcut.quantised.resize(p->shortcut.weight.size());
        CHECK_OK(
            spira::conv_i8_weights_host(&shortcut, p->step.data(), p->shortcut.quantised.data()));
    }
}

// map [outputs, volume], or empty for the identity.
inline i8_problem i8_problem_make(random_state *r, const i8_wish *w, int32_t inputs,
                                  int32_t outputs, const std::vector<int32_t> &map) {
    const int64_t cout = w->shape.cout;
    i8_problem p = {};
    p.shape = w->shape;
    p.inputs = inputs;
    p.outputs = outputs;
    p.map = map;
    p.own = i8_operands_random(r, w, w->shape.volume, w->shape.cin, w->shape.cin2, inputs);
    if (w->shortcut) {
        p.shortcut = i8_operands_random(r, w, 1, w->shortcut, w->shortcut2, outputs);
    }
    p.scale = w->affine ? i8_floats(r, cout, 2) : std::vector<float>();
    p.has_residual = w->residual;
    p.residual_type = w->residual_type;
    p.out_type = w->out_type;
    p.residual.resize((size_t)(w->residual ? outputs * cout : 0) *
                      (size_t)spira::numeric_size(w->residual_type));
    for (int64_t i = 0; i < (w->residual ? outputs * cout : 0); ++i) {
        spira::numeric_store(w->residual_type, p.residual.data(), i, i8_between(r, -130, 130));
    }
    const bool integer = w->residual && w->residual_type == spira::numeric_i8;
    p.residual_scale = integer ? i8_between(r, 0.01f, 0.2f) : 0;
    p.act = w->act;
    p.slope = 0.1f;
    i8_quantise(&p);
    float most = 0; // an output scale that lets the largest saturate
    for (float t : p.step) {
        most = fmaxf(most, t == 1 ? 0 : t); // 1: a channel of zeros
    }
    const double terms = (double)spira::conv_products(&p.shape);
    p.out_inverse = p.out_type == spira::numeric_i8
                        ? 1 / (most * (float)(w->extreme ? 300 * terms : 60 * sqrt(terms)))
                        : 0;
    return p;
}

// A random map: each output has each offset with the chance `part` / 8.
inline std::vector<int32_t> i8_map(random_state *r, int volume, int32_t inputs, int32_t outputs,
                                   int part) {
    std::vector<int32_t> map((size_t)outputs * (size_t)volume);
    for (int32_t &source : map) {
        source = random_int(r, 0, 7) < part ? random_int(r, 0, inputs - 1) : -1;
    }
    return map;
}

// A problem with a random map; without offsets around it the identity.
inline i8_problem i8_problem_random(random_state *r, const i8_wish *w, int32_t inputs,
                                    int32_t outputs, int part) {
    const int volume = w->shape.volume;
    const std::vector<int32_t> map =
        volume == 1 ? std::vector<int32_t>() : i8_map(r, volume, inputs, outputs, part);
    return i8_problem_make(r, w, inputs, volume == 1 ? inputs : outputs, map);
}

inline const float *i8_or_null(const std::vector<float> &v) {
    return v.empty() ? nullptr : v.data();
}

// In host memory.
inline spira::conv_epilogue i8_epilogue(const i8_problem *p) {
    return {i8_or_null(p->own.bias),
            i8_or_null(p->scale),
            i8_or_null(p->own.shift),
            p->has_residual ? p->residual.data() : nullptr,
            p->act,
            p->slope};
}

inline spira::conv_quantisation i8_quantisation(const i8_problem *p) {
    const bool own = p->out_type == spira::numeric_i8 &&
                     (!p->has_residual || p->residual_type == spira::numeric_i8);
    return {p->step.data(),
            !own,
            !own && p->has_residual ? p->residual_type : spira::numeric_f32,
            !own ? p->out_type : spira::numeric_f32,
            p->residual_scale,
            p->out_inverse};
}

// Bytes of all outputs.
inline size_t i8_out_bytes(const i8_problem *p) {
    return (size_t)p->outputs * (size_t)p->shape.cout * (size_t)spira::numeric_size(p->out_type);
}

// The outputs by conv_i8_host.
inline std::vector<char> i8_host(const i8_problem *p) {
    spira::conv_i8_host_args a = {};
    a.shape = p->shape;
    a.in = p->own.in.data();
    a.in2 = p->own.cin2 ? p->own.in2.data() : nullptr;
    a.weight = p->own.quantised.data();
    a.map = p->map.empty() ? nullptr : p->map.data();
    a.outputs = p->outputs;
    a.epilogue = i8_epilogue(p);
    a.quantisation = i8_quantisation(p);
    spira::conv_shortcut s = {};
    s.cin = p->shortcut.cin;
    s.cin2 = p->shortcut.cin2;
    s.in = p->shortcut.in.data();
    s.in2 = s.cin2 ? p->shortcut.in2.data() : nullptr;
    s.weights = p->shortcut.quantised.data();
    s.bias = i8_or_null(p->shortcut.bias);
    s.shift = i8_or_null(p->shortcut.shift);
    a.shortcut = s.cin ? &s : nullptr;
    std::vector<char> out(i8_out_bytes(p));
    CHECK_OK(spira::conv_i8_host(&a, out.data()));
    return out;
}

// ---- the loop that judges -----------------------------------------------------------------------

// The integer of a weight, or of a value: rounded to nearest even and clamped.
inline int64_t i8_integer(float value, int64_t least) {
    const double floor_of = floor((double)value), rest = (double)value - floor_of;
    int64_t n = (int64_t)floor_of;
    n += rest > 0.5 || (rest == 0.5 && n % 2 != 0);
    return n < least ? least : n > 127 ? 127 : n;
}

// The integers of weights.
inline std::vector<int64_t> i8_integers(const i8_problem *p, const i8_operands *o) {
    const int64_t cout = p->shape.cout;
    std::vector<int64_t> q(o->weight.size());
    for (int64_t i = 0; i < (int64_t)q.size(); ++i) {
        const bool second = i / cout % (o->cin + o->cin2) >= o->cin;
        const float scaled = o->weight[(size_t)i] * (second ? o->scale_in2 : o->scale_in);
        q[(size_t)i] = i8_integer(scaled / p->step[(size_t)(i % cout)], -127);
    }
    return q;
}

// What row `source` adds to an output channel by the weights of offset k.
inline int64_t i8_products(const i8_problem *p, const i8_operands *o,
                           const std::vector<int64_t> &weight, int64_t k, int64_t source, int c) {
    int64_t sum = 0;
    const int all = o->cin + o->cin2;
    for (int i = 0; i < all; ++i) {
        const int64_t x = i >= o->cin ? o->in2[(size_t)(source * o->cin2 + i - o->cin)]
                                      : o->in[(size_t)(source * o->cin + i)];
        sum += x * weight[(size_t)((k * all + i) * p->shape.cout + c)];
    }
    return sum;
}

// An output before it is rounded, from its sum; of int8 in units of its scale.
inline float i8_value(const i8_problem *p, int64_t sum, int64_t row, int c) {
    auto at = [c](const std::vector<float> &v, float other) {
        return v.empty() ? other : v[(size_t)c];
    };
    const float scale = at(p->scale, 1), by = p->step[(size_t)c] * scale;
    float shift = fmaf(at(p->own.bias, 0), scale, at(p->own.shift, 0));
    shift = shift + (float)((double)at(p->shortcut.bias, 0) + (double)at(p->shortcut.shift, 0));
    float y = fmaf((float)sum, by, shift);
    if (p->has_residual) {
        const int64_t i = row * p->shape.cout + c;
        const float r = spira::numeric_load(p->residual_type, p->residual.data(), i);
        y = p->residual_type == spira::numeric_i8 ? fmaf(r, p->residual_scale, y) : r + y;
    }
    y = p->act == spira::activation_relu    ? fmaxf(y, 0)
        : p->act == spira::activation_leaky ? (y < 0 ? y * p->slope : y)
                                            : y;
    return p->out_type == spira::numeric_i8 ? y * p->out_inverse : y;
}

// All outputs [outputs, cout], of p->out_type. For activations without exp.
inline std::vector<char> i8_reference(const i8_problem *p) {
    std::vector<char> out(i8_out_bytes(p));
    const std::vector<int64_t> weight = i8_integers(p, &p->own),
                               shortcut = i8_integers(p, &p->shortcut);
    const int64_t volume = p->shape.volume;
    SPIRA_PARALLEL_FOR
    for (int64_t row = 0; row < p->outputs; ++row) {
        for (int c = 0; c < p->shape.cout; ++c) {
            int64_t sum = p->shortcut.cin ? i8_products(p, &p->shortcut, shortcut, 0, row, c) : 0;
            for (int64_t k = 0; k < volume; ++k) {
                const int64_t source = p->map.empty() ? row : p->map[(size_t)(row * volume + k)];
                sum += source < 0 ? 0 : i8_products(p, &p->own, weight, k, source, c);
            }
            const float y = i8_value(p, sum, row, c);
            const int64_t i = row * p->shape.cout + c;
            if (p->out_type == spira::numeric_i8) {
                out[(size_t)i] = (char)i8_integer(y, -128);
            } else {
                spira::numeric_store(p->out_type, out.data(), i, y);
            }
        }
    }
    return out;
}

// A line for messages.
inline const char *i8_name(const i8_problem *p) {
    static char text[200];
    snprintf(text, sizeof text, "%d x (%d + %d) -> %d, shortcut %d + %d, residual %s, out %s, %d",
             p->shape.volume, p->shape.cin, p->shape.cin2, p->shape.cout, p->shortcut.cin,
             p->shortcut.cin2, p->has_residual ? spira::numeric_name(p->residual_type) : "none",
             spira::numeric_name(p->out_type), (int)p->act);
    return text;
}

// Compares outputs to the bit. Returns how many differ, and says the first.
inline int64_t i8_compare(const i8_problem *p, const void *got, const std::vector<char> &want) {
    const size_t size = (size_t)spira::numeric_size(p->out_type);
    int64_t wrong = 0;
    for (size_t i = 0; i < want.size() / size; ++i) {
        if (memcmp((const char *)got + i * size, &want[i * size], size)) {
            if (!wrong++) {
                printf("    %s: output %zu, channel %zu: %g, not %g\n", i8_name(p),
                       i / (size_t)p->shape.cout, i % (size_t)p->shape.cout,
                       (double)spira::numeric_load(p->out_type, got, (int64_t)i),
                       (double)spira::numeric_load(p->out_type, want.data(), (int64_t)i));
            }
        }
    }
    return wrong;
}

// ---- problems -----------------------------------------------------------------------------------

// Wishes: shapes with odd channel counts, two sources and shortcuts, in turn with all formats of
// residual and output.
inline std::vector<i8_wish> i8_wishes(std::initializer_list<spira::conv_shape> shapes) {
    using namespace spira;
    const numeric formats[] = {numeric_i8, numeric_f16, numeric_bf16, numeric_f32};
    std::vector<i8_wish> all;
    int i = 0;
    for (const conv_shape &shape : shapes) {
        for (numeric out : formats) {
            i8_wish w = {shape,      0,    0, false, numeric_i8, out, (activation)(i % 3),
                         i % 4 != 1, false};
            w.residual = i % 5 != 0;
            w.residual_type = formats[i / 2 % 4];
            w.shortcut = i % 3 == 2 ? 24 + i % 5 * 9 : 0;
            w.shortcut2 = w.shortcut && i % 2 ? 16 : 0;
            w.extreme = i % 7 == 6;
            all.push_back(w);
            ++i;
        }
    }
    return all;
}

#endif
