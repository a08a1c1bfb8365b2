// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/problems.h: convolution problems (features, weights, a map and an epilogue in host
// memory), and the comparison of their outputs with sums in double, with a bound for each output
// (reference.h).
#ifndef SPIRA_TESTS_PROBLEMS_H
#define SPIRA_TESTS_PROBLEMS_H

#include "../../spira/map.h"
#include "../../spira/order.h"
#include "reference.h"

namespace problems {

using namespace spira;

inline const numeric numerics[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

// ---- problems -----------------------------------------------------------------------------------

// Elements between each pointer and an aligned address.
struct moves {
    int in, in2, out, residual, floats;
};

struct problem {
    char name[256];
    conv_shape shape;
    bool identity; // each row is its own source: no map
    int32_t inputs, outputs;
    int32_t room;                                    // capacity - outputs
    std::vector<float> in, in2, weight;              // in, in2: [inputs, ...]
    std::vector<float> bias, scale, shift, residual; // empty: null
    std::vector<int32_t> map;                        // [outputs, volume]
    activation act;
    float slope;
    moves off;
};

// capacity: of the outputs; at least `outputs`.
SPIRA_API problem problem_make(random_state *random, conv_shape shape, int32_t inputs,
                               int32_t outputs, int32_t capacity = 0) {
    problem p;
    p.name[0] = 0;
    p.shape = shape;
    p.identity = false;
    p.inputs = inputs;
    p.outputs = outputs;
    p.room = std::max(capacity - outputs, 0);
    p.in.resize((size_t)inputs * (size_t)shape.cin);
    p.in2.resize((size_t)inputs * (size_t)shape.cin2);
    p.weight.resize((size_t)shape.volume * (size_t)(shape.cin + shape.cin2) * (size_t)shape.cout);
    reference_random_values(random, shape.type, 1, (int64_t)p.in.size(), p.in.data());
    reference_random_values(random, shape.type, 1, (int64_t)p.in2.size(), p.in2.data());
    for (float &w : p.weight) { // packing rounds them
        w = random_float(random);
    }
    p.act = activation_none;
    p.slope = 0;
    p.off = {};
    return p;
}

SPIRA_API int32_t problem_capacity(const problem *p) {
    return std::max(p->outputs + p->room, 1);
}

// Random taps. chance: of each offset, in percent [volume].
SPIRA_API void problem_fill_taps(random_state *random, problem *p, const std::vector<int> &chance) {
    p->map.resize((size_t)p->outputs * (size_t)p->shape.volume);
    for (size_t i = 0; i < p->map.size(); ++i) {
        bool has = p->inputs > 0 && random_int(random, 0, 99) < chance[i % chance.size()];
        p->map[i] = has ? random_int(random, 0, p->inputs - 1) : -1;
    }
}

// All offsets with the same chance.
SPIRA_API void problem_fill_map(random_state *random, problem *p, int percent) {
    problem_fill_taps(random, p, std::vector<int>((size_t)p->shape.volume, percent));
}

// Each offset with a random chance of up to `percent`, so that the lists differ in length.
SPIRA_API void problem_fill_lists(random_state *random, problem *p, int percent) {
    std::vector<int> chance((size_t)p->shape.volume);
    for (int &c : chance) {
        c = random_int(random, 0, 3) ? random_int(random, percent / 4, percent) : 0;
        c = percent == 100 ? 100 : c;
    }
    problem_fill_taps(random, p, chance);
}

// The map of a layer between two sets, built by the host loop.
template <typename W>
void problem_map_sets(problem *p, const kernel_shape *kernel, const word_layout *layout,
                      std::vector<W> source, std::vector<W> outputs) {
    int32_t sources = (int32_t)source.size(), count = (int32_t)outputs.size();
    voxel_set<W> from = {source.data(), &sources, sources}, to = {outputs.data(), &count, count};
    p->map.resize(outputs.size() * (size_t)kernel_volume(kernel));
    CHECK_OK(map_build_host(layout, kernel, from, to, p->map.data()));
}

enum { with_bias = 1, with_scale = 2, with_shift = 4, with_residual = 8, with_all = 15 };

SPIRA_API void problem_fill_epilogue(random_state *random, problem *p, int what, activation act) {
    size_t cout = (size_t)p->shape.cout, total = cout * (size_t)p->outputs;
    p->bias.resize(what & with_bias ? cout : 0);
    p->scale.resize(what & with_scale ? cout : 0);
    p->shift.resize(what & with_shift ? cout : 0);
    p->residual.resize(what & with_residual ? total : 0);
    for (std::vector<float> *v : {&p->bias, &p->scale, &p->shift}) {
        for (float &f : *v) {
            f = 2 * random_float(random);
        }
    }
    reference_random_values(random, p->shape.type, 2, (int64_t)p->residual.size(),
                            p->residual.data());
    p->act = act;
    p->slope = act == activation_leaky ? 0.1f : 0.0f;
}

// A random epilogue.
SPIRA_API void problem_fill_any_epilogue(random_state *random, problem *p) {
    const int what = random_int(random, 0, with_all);
    problem_fill_epilogue(random, p, what,
                          (activation)random_int(random, activation_none, activation_count - 1));
}

struct epilogue_case {
    numeric type;
    int what;
    activation act;
};

// A given epilogue, some with unusual slopes.
SPIRA_API void problem_fill_case(random_state *random, problem *p, const epilogue_case &c) {
    problem_fill_epilogue(random, p, c.what, c.act);
    p->slope = c.what == 3 ? -0.5f : c.what == 5 ? 2.0f : p->slope;
}

// Runs all epilogues with all activations in all formats; some of them in a quick run.
template <typename F>
void for_each_epilogue(F run) {
    for (numeric type : numerics) {
        for (int what = 0; what <= with_all; ++what) {
            for (activation act : {activation_none, activation_relu, activation_leaky,
                                   activation_silu, activation_gelu, activation_gelu_tanh}) {
                if (!test_quick() || (what + act + type) % 5 == 0) {
                    run(epilogue_case{type, what, act},
                        random_make((uint64_t)(100 * what + 10 * act + type)));
                }
            }
        }
    }
}

// The problem of offsets begin .. end - 1 alone: the others have no sources.
SPIRA_API problem problem_offsets(const problem *p, int begin, int end) {
    problem some = *p;
    for (size_t i = 0; i < some.map.size(); ++i) {
        const int k = (int)(i % (size_t)p->shape.volume);
        some.map[i] = k >= begin && k < end ? some.map[i] : -1;
    }
    return some;
}

// Makes some pointers unaligned.
SPIRA_API void problem_move(random_state *random, problem *p) {
    for (int *off : {&p->off.in, &p->off.in2, &p->off.out, &p->off.residual, &p->off.floats}) {
        *off = random_int(random, 0, 1) * random_int(random, 1, 9);
    }
}

// Names the problem in messages. more: other choices of the test.
SPIRA_API void problem_name(problem *p, const char *what, const char *more = "") {
    snprintf(p->name, sizeof p->name,
             "%.60s: %s %d+%d->%d, volume %d%s, %d of %d outputs, %d inputs%.100s", what,
             numeric_name(p->shape.type), p->shape.cin, p->shape.cin2, p->shape.cout,
             p->shape.volume, p->identity ? " (identity)" : "", p->outputs, problem_capacity(p),
             p->inputs, more);
}

// A count of channels: one of `edges`, or any up to 130.
template <int count>
int channels_random(random_state *random, const int (&edges)[count]) {
    return random_int(random, 0, 2) ? edges[random_int(random, 0, count - 1)]
                                    : random_int(random, 1, 130);
}

// Random channels on both sides; a second source in every other shape.
template <int count>
conv_shape shape_random(random_state *random, int volume, numeric type, const int (&edges)[count]) {
    const int cin = channels_random(random, edges), cout = channels_random(random, edges);
    conv_shape s = shape_make(volume, cin, 0, cout, type);
    s.cin2 = random_int(random, 0, 1) ? channels_random(random, edges) : 0;
    return s;
}

// Values `off` numbers behind an aligned address.
SPIRA_API std::vector<float> floats_move(const std::vector<float> &values, int off) {
    std::vector<float> moved((size_t)off, NAN);
    moved.insert(moved.end(), values.begin(), values.end());
    return moved;
}

SPIRA_API std::vector<char> features_store(numeric type, const std::vector<float> &values) {
    std::vector<char> stored(values.size() * (size_t)numeric_size(type));
    reference_store(type, values.data(), (int64_t)values.size(), stored.data());
    return stored;
}

// Stored rows of features, with NaN before them and in three rows after them, so that a read of
// the padding shows.
SPIRA_API std::vector<char> features_move(numeric type, const std::vector<float> &values,
                                          int channels, int off) {
    std::vector<float> moved = floats_move(values, off);
    moved.insert(moved.end(), 3 * (size_t)channels, NAN);
    return features_store(type, moved);
}

// Rows that are slices of wider ones: of `channels`, from channel `at` on of `pitch`.
struct slices {
    int channels, pitch, at;
};

// The wider rows, `more` of them behind the last, and NaN around the slices.
SPIRA_API std::vector<char> slices_spread(numeric type, const std::vector<float> &values,
                                          const slices &by, int more) {
    const size_t rows = values.size() / (size_t)by.channels, pitch = (size_t)by.pitch;
    std::vector<float> wide((rows + (size_t)more) * pitch, NAN);
    for (size_t i = 0; i < values.size(); ++i) {
        wide[i / (size_t)by.channels * pitch + (size_t)by.at + i % (size_t)by.channels] = values[i];
    }
    return features_store(type, wide);
}

// The slices of the first `rows`. Fails the test where something around them is not NaN.
SPIRA_API std::vector<char> slices_gather(numeric type, const std::vector<char> &wide, int rows,
                                          const slices &by) {
    const size_t element = (size_t)numeric_size(type), pitch = (size_t)by.pitch;
    std::vector<char> all;
    bool around = true;
    for (size_t i = 0; i < wide.size() / element; ++i) {
        const int64_t row = (int64_t)(i / pitch), c = (int64_t)(i % pitch) - by.at;
        if (row < rows && c >= 0 && c < by.channels) {
            const char *const from = wide.data() + i * element;
            all.insert(all.end(), from, from + element);
        } else {
            around = around && float_is_nan(numeric_load(type, wide.data(), (int64_t)i));
        }
    }
    CHECK(around);
    return all;
}

// Slices with and without alignment, of inputs and of outputs.
inline const slices slices_tested[][2] = {
    {{64, 128, 64}, {64, 192, 64}}, {{64, 64, 0}, {128, 136, 8}}, {{128, 160, 32}, {96, 96, 0}},
    {{36, 100, 4}, {40, 44, 4}},    {{33, 70, 5}, {65, 67, 1}},   {{32, 48, 6}, {32, 50, 2}},
    {{40, 44, 0}, {256, 300, 16}}};

// Of at most 32 channels.
inline const slices slices_narrow[][2] = {{{32, 64, 32}, {32, 96, 32}}, {{16, 32, 16}, {16, 20, 4}},
                                          {{8, 24, 16}, {32, 32, 0}},   {{4, 12, 4}, {16, 18, 1}},
                                          {{3, 8, 4}, {7, 16, 8}},      {{27, 32, 0}, {31, 40, 4}}};

// The problem of such slices.
SPIRA_API problem slices_problem(const slices (&by)[2], numeric type) {
    random_state random = random_make((uint64_t)(by[0].channels + by[1].channels + type));
    problem p = problem_make(&random, shape_make(5, by[0].channels, 0, by[1].channels, type), 200,
                             300, 309);
    problem_fill_map(&random, &p, 40);
    problem_fill_epilogue(&random, &p, with_all, activation_relu);
    problem_name(&p, "slices");
    return p;
}

// An ordered layout in random order, since any order is correct. Sources that are not part of it
// point to rows of NaN.
struct problem_order {
    std::vector<int32_t> row, source, schedule;
    std::vector<uint32_t> mask;
    int32_t blocks;
};

SPIRA_API problem_order problem_order_make(const problem *p) {
    const int volume = p->shape.volume, words = order_words(volume);
    const int64_t blocks = order_count(problem_capacity(p));
    problem_order o = {};
    o.blocks = (int32_t)blocks;
    o.row.resize((size_t)(blocks * order_rows), -1);
    o.source.resize((size_t)(blocks * order_rows * volume), p->inputs);
    o.mask.resize((size_t)(blocks * words));
    random_state random = random_make((uint64_t)p->outputs + (uint64_t)volume);
    for (int32_t i = 0; i < p->outputs; ++i) { // shuffled as it grows
        int at = random_int(&random, 0, i);
        o.row[(size_t)i] = o.row[(size_t)at];
        o.row[(size_t)at] = i;
    }
    for (int64_t b = 0; b < blocks; ++b) {
        for (int k = 0; k < volume; ++k) {
            int32_t taps[order_rows];
            bool any = false;
            for (int r = 0; r < order_rows; ++r) {
                int32_t own = o.row[(size_t)(b * order_rows + r)];
                taps[r] = own < 0 ? -1 : p->map[(size_t)own * (size_t)volume + (size_t)k];
                any |= taps[r] >= 0;
            }
            if (any) {
                o.mask[(size_t)(b * words + k / 32)] |= 1u << k % 32;
                std::copy(taps, taps + order_rows,
                          o.source.begin() + (b * volume + k) * order_rows);
            }
        }
    }
    o.schedule.resize((size_t)order_pairs(o.blocks), -1);
    const int32_t pairs = order_pairs(order_count(p->outputs));
    for (int32_t i = 0; i < pairs; ++i) { // here, too, any order is correct
        o.schedule[(size_t)i] = pairs - 1 - i;
    }
    return o;
}

// The sums of a problem without its epilogue, as conv_args.sums has them: NaN where nothing is
// read.
SPIRA_API std::vector<float> problem_sums(const problem *p) {
    const conv_shape *s = &p->shape;
    std::vector<float> operands[] = {p->in, p->in2, p->weight};
    for (std::vector<float> &v : operands) {
        for (float &f : v) {
            f = numeric_operand(s->type, f);
        }
        v.push_back(0); // empty arrays have an address too
    }
    std::vector<int32_t> map = p->map;
    map.push_back(-1);
    std::vector<float> sum((size_t)p->outputs * (size_t)s->cout + 1);
    const conv_host_args args = {
        *s, operands[0].data(), operands[1].data(), operands[2].data(), map.data(), p->outputs};
    CHECK_OK(conv_sum_host(&args, sum.data()));
    const int pitch = conv_sums_pitch(s->cout);
    std::vector<float> rows((size_t)problem_capacity(p) * (size_t)pitch, NAN);
    for (int32_t o = 0; o < p->outputs; ++o) {
        std::copy_n(sum.begin() + (ptrdiff_t)o * s->cout, s->cout, rows.begin() + o * pitch);
    }
    return rows;
}

// ---- judging ------------------------------------------------------------------------------------

// A problem's epilogue, in host memory. residual: the stored one.
SPIRA_API conv_epilogue problem_epilogue(const problem *p, const std::vector<char> &residual) {
    auto data = [](const auto &v) { return v.empty() ? nullptr : v.data(); };
    conv_epilogue e = {};
    e.bias = data(p->bias);
    e.scale = data(p->scale);
    e.shift = data(p->shift);
    e.residual = data(residual);
    e.act = p->act;
    e.slope = p->slope;
    return e;
}

// Compares outputs with the reference. shortcut: null or the one that is added.
SPIRA_API reference_verdict problem_judge(const problem *p, const void *out,
                                          const reference_shortcut *shortcut = nullptr) {
    const std::vector<char> residual = features_store(p->shape.type, p->residual);
    const conv_epilogue e = problem_epilogue(p, residual);
    // One row more, so that empty arrays have an address.
    std::vector<float> in = p->in, in2 = p->in2;
    std::vector<int32_t> map = p->map;
    in.resize(in.size() + (size_t)p->shape.cin);
    in2.resize(in2.size() + (size_t)p->shape.cin2);
    map.push_back(-1);
    return reference_conv_check({p->shape, in.data(), in2.data(), p->weight.data(),
                                 p->identity ? nullptr : map.data(), p->outputs},
                                p->inputs + 1, &e, out, shortcut);
}

// Fails the test and prints the worst output, unless all are within their bounds.
SPIRA_API bool problem_good(const problem *p, const std::vector<char> &out,
                            const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return reference_conv_good(problem_judge(p, out.data()), p->name, file, line);
}

// Row `special` of the sources is NaN or infinite: outputs that have it are not finite, and the
// others are good. Without an epilogue.
SPIRA_API void problem_special_good(problem p, int32_t special, std::vector<char> out,
                                    const char *file = __builtin_FILE(),
                                    int line = __builtin_LINE()) {
    const int volume = p.shape.volume, cout = p.shape.cout, cin = p.shape.cin;
    const int64_t row_bytes = (int64_t)cout * numeric_size(p.shape.type);
    int touched = 0, wrong = 0;
    for (int64_t o = 0; o < p.outputs; ++o) {
        const auto taps = p.map.begin() + o * volume;
        if (std::find(taps, taps + volume, special) != taps + volume) {
            ++touched;
            for (int64_t c = 0; c < cout; ++c) {
                wrong += isfinite(numeric_load(p.shape.type, out.data(), o * cout + c));
            }
            std::fill(taps, taps + volume, -1); // what an output without sources has
            std::fill_n(out.begin() + o * row_bytes, row_bytes, (char)0);
        }
    }
    std::fill_n(p.in.begin() + (int64_t)special * cin, cin, 0.0f);
    test_check(touched > 0 && touched < p.outputs && wrong == 0, file, line, p.name);
    problem_good(&p, out, file, line);
}

// A small problem with few terms, so that bounds are tight: one weight, tap or channel counts.
SPIRA_API problem problem_tight(random_state *random, numeric type) {
    return problem_make(random, {4, 6, 0, 9, type}, 60, 80, 80);
}

// Tests the test: the outputs of run(&good) pass, and those of a problem with one error fail. P: a
// problem, or a struct that derives from it.
template <typename P, typename F>
void check_planted_errors(const P &good, F run) {
    auto ratio = [&](const P &made, const P &wanted) {
        std::vector<char> out = run(&made);
        return problem_judge(&wanted, out.data()).ratio;
    };
    size_t tap = 0; // the first with a source
    while (good.map[tap] < 0) {
        ++tap;
    }
    CHECK(ratio(good, good) <= 1);

    P bad = good; // one weight, the largest, off by 2%
    *std::max_element(bad.weight.begin(), bad.weight.end(),
                      [](float a, float b) { return fabsf(a) < fabsf(b); }) *= 1.02f;
    CHECK(ratio(bad, good) > 1);

    bad = good; // one tap dropped
    bad.map[tap] = -1;
    CHECK(ratio(bad, good) > 1);

    bad = good; // one tap from another row
    bad.map[tap] = good.map[tap] ? good.map[tap] - 1 : 1;
    CHECK(ratio(bad, good) > 1);

    bad = good; // the last value of a row that is a source
    bad.in[(size_t)(good.map[tap] + 1) * (size_t)good.shape.cin - 1] += 0.25f;
    CHECK(ratio(bad, good) > 1);

    bad = good; // the epilogue forgets its shift, and its ReLU
    random_state random = random_make(38);
    problem_fill_epilogue(&random, &bad, with_shift, activation_none);
    CHECK(ratio(good, bad) > 1);
    bad = good;
    bad.act = activation_relu;
    CHECK(ratio(good, bad) > 1);
}

// Volume, channels of both sources, channels out.
inline const int many_channels[][4] = {{1, 1024, 0, 1024}, {2, 512, 512, 256},  {2, 1000, 24, 1000},
                                       {3, 1023, 1, 5},    {2, 1, 0, 1024},     {2, 1024, 1024, 33},
                                       {3, 3, 1024, 1023}, {5, 777, 333, 555},  {1, 4096, 0, 4096},
                                       {2, 1040, 0, 1040}, {9, 4096, 4096, 33}, {9, 130, 0, 4096},
                                       {3, 16, 2048, 2048}};

// ---- with a shortcut ----------------------------------------------------------------------------

// A convolution and its shortcut, a 1x1x1 convolution with the same outputs.
struct joined_problem {
    problem main, own;
};

SPIRA_API joined_problem joined_make(random_state *random, conv_shape s, int cin, int cin2,
                                     int32_t inputs, int32_t outputs, int32_t room) {
    joined_problem p;
    p.main = problem_make(random, s, inputs, outputs, outputs + room);
    p.main.identity = s.volume == 1;
    p.own = problem_make(random, {1, cin, cin2, s.cout, s.type}, outputs, outputs, outputs + room);
    p.own.identity = true;
    return p;
}

// The shortcut has no residual.
SPIRA_API void joined_fill(random_state *random, joined_problem *p, int percent, int what, int own,
                           activation act) {
    problem_fill_map(random, &p->main, percent);
    problem_fill_epilogue(random, &p->main, what, act);
    problem_fill_epilogue(random, &p->own, own & ~with_residual, activation_none);
}

// A random shortcut, map, epilogue and alignment for a shape. shortcut: whether there is one.
template <int count>
joined_problem joined_random(random_state *random, const conv_shape &s, bool shortcut,
                             const int (&edges)[count]) {
    const int cin = shortcut ? channels_random(random, edges) : 0;
    const int cin2 = cin && random_int(random, 0, 1) ? channels_random(random, edges) : 0;
    const int32_t outputs = random_int(random, 0, 600);
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 300);
    const int32_t room = random_int(random, 0, 3) ? random_int(random, 1, 100) : 2100;
    joined_problem p = joined_make(random, s, cin, cin2, inputs, outputs, room);
    const int percents[] = {0, 3, 15, 40, 100};
    joined_fill(random, &p, percents[random_int(random, 0, 4)], random_int(random, 0, with_all),
                random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_count - 1));
    problem_move(random, &p.main);
    problem_move(random, &p.own);
    return p;
}

SPIRA_API void joined_name(joined_problem *p, const char *what) {
    char more[80];
    snprintf(more, sizeof more, ", shortcut of %d+%d", p->own.shape.cin, p->own.shape.cin2);
    problem_name(&p->main, what, more);
}

SPIRA_API reference_verdict joined_judge(const joined_problem *p, const void *out) {
    const problem *o = &p->own;
    const conv_epilogue own = problem_epilogue(o, {});
    const reference_shortcut shortcut = reference_shortcut_make(
        &o->shape, o->in.data(), o->in2.data(), o->weight.data(), o->outputs, &own);
    return problem_judge(&p->main, out, &shortcut);
}

} // namespace problems

#endif
