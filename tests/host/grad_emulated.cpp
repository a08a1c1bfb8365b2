// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/grad_emulated.cpp: the kernels of the weight gradient (grad/), emulated on the host
// (emulate_mma.h) and compared with sums in double. The made-up device has few multiprocessors, so
// that lists are longer than parts.
#include "../support/emulate_mma.h"

#include "../support/devices.h"
#include "../support/grad_problems.h"

#include "../../spira/grad/launch.cuh"

using namespace problems;

namespace {

const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32};
const int edges[] = {1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 128, 130};

template <typename T>
T *array_put(const std::vector<T> &values) {
    T *to = guarded_new<T>((int64_t)values.size());
    std::copy(values.begin(), values.end(), to);
    return to;
}

// Features that the kernel before may still write: they read as NaN until that one ends.
struct written_late {
    char *at;
    std::vector<char> last;
};

std::vector<written_late> late;

const char *features_put(numeric type, const std::vector<float> &values, int channels, int off) {
    const std::vector<char> stored = features_move(type, values, channels, off);
    char *to = array_put(stored);
    late.push_back({to, stored});
    return to + off * numeric_size(type);
}

// How a problem is run.
struct how {
    int tile; // 0: chosen; -1: the exact kernel; -2: Hopper's, chosen
    int multiprocessors;
    bool programmatic;
};

grad_params params_put(const grad_problem *p, const grad_cut *c) {
    const conv_shape *s = &p->shape;
    conv_grad_weight_args a = {};
    a.shape = *s;
    a.in = features_put(s->type, p->in, s->cin, p->off.in);
    a.in2 = s->cin2 ? features_put(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    a.out_grad = features_put(s->type, p->out_grad, s->cout, p->off.out);
    if (p->sides != pairs_sides_centre || s->volume > 1) {
        a.pairs = {array_put(p->begin), array_put(p->input), array_put(p->output),
                   (int32_t)p->input.size()};
    }
    a.count = array_put(std::vector<int32_t>(1, p->outputs));
    const int off = p->off.in > 0; // the gradient is then not aligned either
    a.weight_grad = guarded_new<float>(grad_elements(s) + off) + off;
    a.bias_grad = p->room ? guarded_new<float>(s->cout) : nullptr;
    a.sides = p->sides;
    a.capacity = std::max(p->outputs + p->room, 1);
    workspace w = workspace_begin(nullptr);
    grad_params g = grad_params_of(&a, c, &w);
    g.slots = guarded_new<float>(grad_slots(c));
    g.bias_slots = guarded_new<float>(grad_bias_slots(s->cout));
    return g;
}

bool stopped; // of the last run of Hopper's kernel: the emulator has found an error

// Until the kernel before ends, what it writes reads as NaN.
void kernel_before_writes() {
    emulate::previous.begin = [] {
        for (written_late &w : late) {
            memset(w.at, 0xff, w.last.size());
        }
    };
    emulate::previous.end = [] {
        for (written_late &w : late) {
            std::copy(w.last.begin(), w.last.end(), w.at);
        }
    };
}

// Runs the kernels. Returns the gradient.
const float *problem_run(const grad_problem *p, const how &h) {
    const bool hopper = h.tile == -2;
    device_info d = device_made(hopper       ? 90
                                : h.tile < 0 ? 75
                                             : 86,
                                h.multiprocessors, (hopper ? 227 : 99) * 1024, hopper);
    d.programmatic = h.programmatic;
    grad_cut c = grad_cut_of(&p->shape, &d, std::max(h.tile, 0));
    if (p->room) { // with a bias gradient
        grad_cut_beside(&p->shape, &d, &c);
    }
    grad_params g = params_put(p, &c);
    emulate::unawaited = false;
    g.args.programmatic = h.programmatic;
    if (h.programmatic && !g.args.bias_grad) { // the bias's kernel is behind the one that waits
        kernel_before_writes();
    }
    auto run = [&](auto element) {
        typedef decltype(element) E;
        if (c.form == grad_form_exact) {
            return grad_exact_launch<E>(&d, g, nullptr);
        }
        if constexpr (sizeof(E) == 2) {
            if (c.form == grad_form_hopper) {
                stopped = status_failed(grad_hopper_run<E>(&d, g, nullptr));
                return status_success();
            }
        }
        return grad_tensor_run<E>(&d, g, nullptr);
    };
    const numeric type = p->shape.type;
    CHECK_OK(type == numeric_f16    ? run(__half())
             : type == numeric_bf16 ? run(__nv_bfloat16())
                                    : run(0.0f));
    emulate::previous = {};
    late.clear();
    CHECK(!emulate::unawaited || stopped);
    if (g.args.bias_grad && !stopped) {
        grad_bias_check(p->out_grad, p->outputs, p->shape.cout, g.args.bias_grad);
    }
    return g.args.weight_grad;
}

// Runs it twice with different interleavings: the same bits, within the bounds.
void problem_check(const grad_problem *p, const how &h) {
    emulate::seed = (uint64_t)p->shape.cin;
    stopped = false;
    const float *first = problem_run(p, h);
    CHECK(!stopped);
    reference_conv_good(grad_judge(p, first), p->name);
    emulate::seed += 77;
    const float *again = problem_run(p, h);
    CHECK(memcmp(first, again, (size_t)grad_elements(&p->shape) * sizeof(float)) == 0);
    guarded_finish();
}

pairs_sides sides_random(random_state *random, int volume) {
    return volume % 2 ? (pairs_sides)random_int(random, pairs_sides_one, pairs_sides_centre)
                      : pairs_sides_one;
}

} // namespace

TEST(grad_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 6 : 12); ++seed) {
        random_state random = random_make((uint64_t)seed);
        const int volume = random_int(&random, 0, 5) ? random_int(&random, 1, 9) : 40;
        conv_shape s = shape_random(&random, volume, formats[seed % 3], edges);
        s.cin2 = seed % 4 ? 0 : s.cin2;
        grad_problem p =
            grad_problem_make(&random, s, sides_random(&random, volume), random_int(&random, 0, 99),
                              random_int(&random, 0, 99), random_int(&random, 1, 60), seed % 2 * 9);
        for (int *off : {&p.off.in, &p.off.in2, &p.off.out}) {
            *off = random_int(&random, 0, 2) ? 0 : random_int(&random, 1, 9);
        }
        problem_check(&p, {0, random_int(&random, 1, 4), seed % 2 == 0});
    }
}

// Every tile in every format, with ragged channels and without; long lists in many parts.
TEST(grad_emulated_every_kernel) {
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    for (numeric type : formats) {
        for (int tile : {16, 32, 64, 128, 256}) {
            if (tile * numeric_size(type) > 512) {
                continue;
            }
            for (bool ragged : {false, true}) {
                if (test_quick() && ragged != (type == numeric_f16)) {
                    continue;
                }
                random_state random = random_make((uint64_t)(tile + type + ragged));
                const int cin = ragged ? tile - 3 : tile,
                          cout = ragged ? std::min(tile, 128) + 5 : std::min(tile, 128);
                const grad_problem p =
                    grad_problem_make(&random, shape_make(3, cin, 0, cout, type), pairs_sides_one,
                                      70, 80, tile < 64 ? 150 : 50);
                problem_check(&p, {tile, 2 + ragged, true});
            }
        }
    }
    CHECK_EQUAL(launched.size(), (size_t)(3 * 4 + 2 + 1 + 3)); // the second, and those of biases
}

// Hopper's kernel: every tile, with ragged channels and without, rows that are not aligned, two
// sources; lists that many parts share, and many lists in a part.
TEST(grad_emulated_hopper) {
    const struct {
        int cin, cin2, cout, volume, most;
    } layers[] = {{64, 0, 128, 3, 90},  {128, 0, 128, 3, 110}, {128, 0, 256, 2, 60},
                  {256, 0, 128, 2, 60}, {72, 0, 40, 9, 12},    {104, 0, 136, 3, 70},
                  {88, 0, 72, 5, 40},   {40, 96, 72, 3, 40},   {8, 0, 104, 9, 9}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int turn = 0;
    for (const auto &l : layers) {
        const numeric type = turn < 4 ? numeric_f16 : numeric_bf16;
        random_state random = random_make((uint64_t)++turn);
        grad_problem p =
            grad_problem_make(&random, shape_make(l.volume, l.cin, l.cin2, l.cout, type),
                              sides_random(&random, l.volume), 70, 80,
                              test_quick() ? l.most / 2 : l.most, turn % 3 * 5);
        p.off.in = turn % 4 == 1 ? 8 : turn % 7 == 1 ? 3 : 0;
        problem_check(&p, {-2, 1 + turn % 5, turn % 2 == 0});
    }
    CHECK(launched.size() >= 4 + 1 + 1 + 1); // tiles of fp16 and bf16, the second, biases
}

// Tests the test: producers that do not wait until a stage has been read are found.
TEST(grad_emulated_hopper_stages_are_waited_for) {
    random_state random = random_make(8);
    const grad_problem p = grad_problem_make(&random, shape_make(3, 72, 0, 80, numeric_f16),
                                             pairs_sides_one, 90, 90, 200);
    const how h = {-2, 1, false};
    CHECK(grad_judge(&p, problem_run(&p, h)).ratio <= 1 && !stopped);
    emulate::wait_skipped = [] { return threadIdx.x >= 256; };
    const float *got = problem_run(&p, h);
    emulate::wait_skipped = nullptr;
    CHECK(stopped || !(grad_judge(&p, got).ratio <= 1));
}

TEST(grad_emulated_exact) {
    for (int seed = 0; seed < (test_quick() ? 4 : 12); ++seed) {
        random_state random = random_make((uint64_t)seed);
        const int volume = random_int(&random, 1, 9);
        conv_shape s = shape_random(&random, volume, numerics[seed % 4], edges);
        s.cin2 = seed % 3 ? 0 : s.cin2;
        const grad_problem p =
            grad_problem_make(&random, s, sides_random(&random, volume), 60, 70, 50, 5);
        problem_check(&p, {-1, random_int(&random, 1, 4), seed % 2 == 0});
    }
}

// Nothing to add up: no rows, empty lists. A 1x1x1 layer without lists.
TEST(grad_emulated_edges) {
    random_state random = random_make(3);
    for (int tile : {0, -1}) {
        for (int rows : {0, 1, 127, 128, 129, 1000}) {
            grad_problem p = grad_problem_make(&random, shape_make(1, 24, 0, 40, numeric_f16),
                                               pairs_sides_centre, rows, rows, 1);
            problem_check(&p, {tile, 2, true});
        }
        for (pairs_sides sides : {pairs_sides_one, pairs_sides_both, pairs_sides_centre}) {
            grad_problem p = grad_problem_make(&random, shape_make(27, 16, 0, 16, numeric_bf16),
                                               sides, 20, 20, 0);
            problem_check(&p, {tile, 2, false});
        }
    }
}

// The number of parts, each of them with its own walk over the lists; one pair or none in most
// lists.
TEST(grad_emulated_short_lists) {
    for (int parts : {1, 12}) {
        random_state random = random_make((uint64_t)parts);
        const grad_problem p = grad_problem_make(&random, shape_make(343, 9, 0, 7, numeric_f16),
                                                 pairs_sides_one, 50, 50, 2);
        problem_check(&p, {16, parts, true});
    }
}

// Tests the test: one wrong row, one dropped pair, one wrong value is found.
TEST(grad_emulated_planted_errors_are_found) {
    random_state random = random_make(5);
    const grad_problem good = grad_problem_make(&random, shape_make(3, 20, 0, 24, numeric_f16),
                                                pairs_sides_one, 40, 40, 20);
    const how h = {0, 2, false};
    CHECK(grad_judge(&good, problem_run(&good, h)).ratio <= 1);
    grad_problem bad = good;
    bad.input[3] = good.input[3] ? good.input[3] - 1 : 1;
    CHECK(grad_judge(&good, problem_run(&bad, h)).ratio > 1);
    bad = good;
    bad.output[bad.output.size() - 1] = -1;
    CHECK(grad_judge(&good, problem_run(&bad, h)).ratio > 1);
    bad = good;
    bad.out_grad[(size_t)good.output[0] * 24 + 23] += 0.25f;
    CHECK(grad_judge(&good, problem_run(&bad, h)).ratio > 1);
}

// Tests the test: a ring that does not wait for its copies is found.
TEST(grad_emulated_copies_are_waited_for) {
    random_state random = random_make(6);
    const grad_problem p = grad_problem_make(&random, shape_make(3, 64, 0, 64, numeric_f16),
                                             pairs_sides_one, 90, 90, 200);
    emulate::copies_skipped = true;
    const float *got = problem_run(&p, {0, 1, false});
    emulate::copies_skipped = false;
    CHECK(!(grad_judge(&p, got).ratio <= 1));
}

TEST(grad_emulated_bias) {
    for (int seed = 0; seed < 12; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const int channels = seed % 4 ? channels_random(&random, edges) : 300 + 50 * seed;
        const int rows = seed ? random_int(&random, 0, 900) : 0;
        std::vector<float> from((size_t)(rows * channels) + 1);
        reference_random_values(&random, numeric_f16, 1, (int64_t)from.size(), from.data());
        const device_info d = device_made(86, seed % 3 + 1, 99 * 1024, false);
        grad_params p = {};
        p.args.shape.cout = channels;
        p.args.out_grad = array_put(features_store(numeric_f16, from));
        p.args.count = array_put(std::vector<int32_t>(1, rows));
        p.args.bias_grad = guarded_new<float>(channels);
        p.args.capacity = std::max(rows, 1);
        p.bias_slots = guarded_new<float>(grad_bias_slots(channels));
        p.wide_out = channels % 8 == 0;
        CHECK_OK(grad_bias_launch<__half>(p, false, nullptr));
        CHECK_OK(grad_reduce_launch(&d, p, nullptr));
        grad_bias_check(from, rows, channels, p.args.bias_grad);
        guarded_finish();
    }
}

// How layers are cut: tiles that fit the channels, scratch that is bounded.
TEST(grad_cuts) {
    const device_info h200 = device_made(90, 132, 227 * 1024, true);
    const struct {
        int cin, cin2, cout, tile;
    } expected[] = {{16, 0, 16, 16},    {4, 0, 16, 16},    {32, 0, 32, 32},    {64, 0, 64, 64},
                    {128, 0, 128, 128}, {96, 0, 96, 128},  {256, 0, 256, 128}, {64, 0, 128, 64},
                    {40, 0, 40, 64},    {96, 96, 96, 128}, {256, 0, 128, 256}, {100, 0, 100, 128},
                    {100, 0, 256, 128}};
    for (const auto &e : expected) {
        const conv_shape s = shape_make(27, e.cin, e.cin2, e.cout, numeric_f16);
        const grad_cut c = grad_cut_of(&s, &h200);
        CHECK_EQUAL(c.rows, e.tile);
        CHECK(c.parts >= 1 && c.parts <= 3 * h200.multiprocessors);
        // A bias gradient runs beside it, on memory that is left for it, if registers are, too.
        grad_cut beside = c;
        grad_cut_beside(&s, &h200, &beside);
        if (c.form == grad_form_hopper) {
            const bool all = grad_hopper_registers_move(c.rows, c.columns);
            const int64_t bytes = grad_hopper_bytes(c.rows, c.columns, s.volume, beside.stages) +
                                  (int64_t)sizeof(grad_hopper_shared);
            const int64_t bias = grad_bias_threads * grad_bias_each * 4 + 1024;
            CHECK(all ? beside.stages == c.stages
                      : bytes + bias <= h200.shared_max && beside.stages >= grad_hopper_producers);
        }
    }
    for (int cin : edges) {
        for (int cout : {1, 64, 1000, 1024}) {
            for (numeric type : numerics) {
                const conv_shape s = shape_make(kernel_volume_max, cin, 0, cout, type);
                const grad_cut c = grad_cut_of(&s, &h200);
                CHECK(c.down * c.rows >= cin && c.across * c.columns >= cout);
                CHECK(c.form != grad_form_tensor ||
                      grad_bytes(c.rows, numeric_size(type), s.volume) <= h200.shared_max);
                CHECK(grad_slots(&c) <= 3 * 132 * 128 * 128 || c.parts == 1);
            }
        }
    }
}
