// tests/host/exact.cpp: the kernel of conv/exact.cuh in every format, emulated on the host
// (emulate_exact.h): against sums in double, and bit by bit against fmaf in the stated order.
#include "../support/emulate_exact.h"
#include "../support/layer_weights.h"

#include "../../spira/conv/portable/launch.cuh"

using namespace problems;

namespace {

const numeric formats[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

// A random layer, cut in a random way.
layer layer_random(random_state *random, numeric type) {
    layer l = {};
    const int volume = random_int(random, 0, 9) ? random_int(random, 1, 9) : 40;
    conv_shape s = shape_random(random, volume, type, edges);
    s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 300) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 200);
    l.joined = joined_make(random, s, 0, 0, inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 1, 3, 15, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), 0,
                (activation)random_int(random, activation_none, activation_count - 1));
    l.size = {1, random_int(random, 1, 2), 1, 1};
    layer_vary<exact>(random, &l);
    return l;
}

layer layer_plain(random_state *random, const conv_shape &s, int32_t inputs, int32_t outputs,
                  int percent) {
    layer l = {};
    l.joined = joined_make(random, s, 0, 0, inputs, outputs, 9);
    joined_fill(random, &l.joined, percent, 0, 0, activation_none);
    l.size = exact_sizes_choose(&s);
    return l;
}

// The same layers by the portable kernel.
struct by_portable : exact {
    static void params(const conv_shape *s, conv_params *t) {
        t->chunks1 = conv_chunks(s->cin, s->type);
        t->chunks = conv_shape_chunks(s);
    }
    template <typename E>
    static status run(const conv_params &t, const layer *) {
        const device_info device = device_made(86, 2, 99 * 1024, false);
        return portable_run_exact(t, &device, nullptr);
    }
};

} // namespace

TEST(exact_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 8 : 32); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, formats[seed % 4]);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<exact>(&l, what, seed % 4 ? 1 : 2));
    }
}

TEST(exact_emulated_negative_counts) {
    layer_negative_counts<exact>(numeric_f32, {1, 2, 1, 1}, 20, 40);
}

// Every variant in every format: each output has the bits of fused multiply-adds in ascending order
// of offsets and input channels, rounded once.
TEST(exact_emulated_every_kernel) {
    const struct {
        int cin, cin2, cout;
    } cases[] = {{4, 0, 16}, {16, 5, 33}, {64, 0, 64}, {19, 3, 100}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (numeric type : formats) {
        for (const auto &c : cases) {
            for (int slices : {1, 2}) {
                random_state random = random_make((uint64_t)++seed);
                layer l = layer_plain(&random, shape_make(4, c.cin, c.cin2, c.cout, type), 200, 300,
                                      seed % 2 ? 5 : 60);
                l.size.slices = slices;
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<exact>(&l, "every kernel", 1));
                const std::vector<char> expected =
                    features_store(type, sums_in_order(&l.joined.main));
                CHECK(!memcmp(layer_run_any<exact>(&l).data(), expected.data(), expected.size()));
            }
        }
    }
    CHECK_EQUAL(launched.size(), (size_t)(3 * 2 + 1)); // element types; the kernel that packs
}

// Outputs around row groups and their pairs; kernels of one to many offsets, with more than a word
// of them and more than the other kernels take.
TEST(exact_emulated_every_count) {
    int turn = 0;
    for (int outputs : {0, 1, 63, 64, 65, 127, 128, 129, 192, 257, 385}) {
        for (int volume : {1, 8, 32, 33, 70, portable_volume_most + 1, (int)kernel_volume_max}) {
            random_state random = random_make((uint64_t)++turn);
            const bool many = volume > 100; // offsets: slow, and the same for any outputs
            if ((test_quick() && turn % 4) || (many && outputs != 65)) {
                continue;
            }
            const int cin = turn % 4 * 6 + 1, cout = turn % 2 ? 66 : 31 + turn % 3;
            layer l = layer_plain(&random, shape_make(volume, cin, 0, cout, formats[turn % 4]),
                                  volume == 1 ? outputs : outputs / 2 + 1, outputs, many ? 1 : 4);
            l.seed = (uint64_t)turn;
            REQUIRE(layer_check<exact>(&l, "counts", 1));
        }
    }
}

// Many channels on either side, of one source and of two.
TEST(exact_emulated_many_channels) {
    const struct {
        int cin, cin2, cout;
    } cases[] = {{1040, 0, 33}, {33, 0, 1040}, {4096, 4096, 3}, {1, 0, 4096}, {17, 1023, 65}};
    int turn = 0;
    for (const auto &c : cases) {
        random_state random = random_make((uint64_t)++turn);
        layer l =
            layer_plain(&random, shape_make(2, c.cin, c.cin2, c.cout, formats[turn % 4]), 9, 5, 70);
        REQUIRE(layer_check<exact>(&l, "many channels", 1));
    }
}

// Where a grid has room for fewer tiles than there are, a thread block has several.
TEST(exact_emulated_several_tiles) {
    for (numeric type : formats) {
        random_state random = random_make((uint64_t)type);
        layer l = layer_plain(&random, shape_make(3, 20, 0, 40, type), 300, 900, 8);
        layer_name(&l, "several tiles");
        const std::vector<char> out = layer_run_any<exact>(&l);
        exact_workers = 3;
        CHECK(layer_run_any<exact>(&l) == out);
        exact_workers = 65535;
    }
}

// Both variants give the same bits.
TEST(exact_emulated_same_bits) {
    for (numeric type : formats) {
        random_state random = random_make((uint64_t)type);
        layer l = layer_plain(&random, shape_make(5, 50, 20, 100, type), 100, 300, 20);
        conv_sizes sizes[conv_sizes_most];
        CHECK_EQUAL(exact_sizes_list(sizes), 2);
        l.size = sizes[0];
        const std::vector<char> first = layer_run_any<exact>(&l);
        l.size = sizes[1];
        CHECK(layer_run_any<exact>(&l) == first);
    }
}

// In fp32 the portable kernel reads the same packed weights and gives the same bits, epilogue and
// all.
TEST(exact_emulated_bits_of_the_portable_kernel) {
    for (int seed = 0; seed < 6; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const conv_shape s = shape_make(9, 20 + seed, seed % 2 * 7, 40 + seed, numeric_f32);
        layer l = {};
        l.joined = joined_make(&random, s, 0, 0, 100, 300, 9);
        joined_fill(&random, &l.joined, 20, with_all, 0, activation_leaky);
        l.size = {1, 2, 1, 1};
        l.summed = seed % 3;
        CHECK(layer_run<exact, float>(&l) == layer_run<by_portable, float>(&l));
    }
}

// A source row of infinities is multiplied where the map has it, and nowhere else: not by the
// padding of its last chunk.
TEST(exact_emulated_infinity_stays_where_it_is) {
    for (numeric type : formats) {
        random_state random = random_make((uint64_t)type);
        layer l = layer_plain(&random, shape_make(3, 18, 5, 40, type), 100, 130, 30);
        problem *p = &l.joined.main;
        for (int i = 0; i < p->shape.cin; ++i) {
            p->in[(size_t)i] = INFINITY; // row 0
        }
        for (float &w : p->weight) {
            w = fabsf(w) + 0.125f;
        }
        p->map[0] = 0; // output 0, offset 0
        const std::vector<char> out = layer_run_any<exact>(&l);
        const std::vector<char> expected = features_store(type, sums_in_order(p));
        CHECK(!memcmp(out.data(), expected.data(), expected.size()));
    }
}

TEST(exact_emulated_weights_beyond) {
    for (numeric type : formats) {
        layer_weights_beyond<exact>(type, {1, 2, 1, 1}, 6, 40);
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(exact_emulated_planted_errors_are_found) {
    for (numeric type : formats) {
        layer_planted_errors<exact>(type, {1, 2, 1, 1}, 40);
    }
}

// Tests the test: exact fp32 with operands of tf32 is found, and tf32 without its rounding.
TEST(exact_emulated_rounding_is_found) {
    random_state random = random_make(7);
    layer l = layer_plain(&random, shape_make(3, 24, 0, 32, numeric_f32), 90, 100, 50);
    REQUIRE(layer_check<exact>(&l, "exact", 1));
    const problem p = l.joined.main;
    l.joined.main.shape.type = numeric_tf32;
    const std::vector<char> rounded = layer_run_any<exact>(&l);
    CHECK(!(problem_judge(&p, rounded.data()).ratio <= 1));
    const std::vector<float> expected = sums_in_order(&l.joined.main);
    CHECK(!memcmp(rounded.data(), expected.data(), expected.size() * sizeof(float)));
}

// Tests the test: a wait that is left out is found.
TEST(exact_emulated_barriers_are_needed) {
    random_state random = random_make(5);
    layer l = layer_plain(&random, shape_make(9, 64, 0, 64, numeric_f16), 200, 300, 30);
    bool found = false;
    for (int seed = 0; seed < 8 && !found; ++seed) {
        l.seed = (uint64_t)seed;
        emulate::barriers_skipped = true;
        bool good;
        const std::vector<char> out = layer_run<exact, __half>(&l, &good);
        emulate::barriers_skipped = false;
        found = !good || !(problem_judge(&l.joined.main, out.data()).ratio <= 1);
    }
    CHECK(found);
}

TEST(exact_emulated_weights_of_layers) {
    for (numeric type : formats) {
        for (int seed = 0; seed < 8; ++seed) {
            random_state random = random_make((uint64_t)seed);
            const layer_weights l = layer_weights_random(&random, type, seed);
            const int64_t total = conv_exact_weights(&l.shape);
            layer_weights_check(
                &l, total * (int64_t)sizeof(float),
                [&](conv_weights_order order, const float *weight, char *to) {
                    const decltype(&conv_exact_pack_kernel<0>) kernels[] = {
                        conv_exact_pack_kernel<0>, conv_exact_pack_kernel<0, conv_weights_of_layer>,
                        conv_exact_pack_kernel<0, conv_weights_of_layer_mirrored>};
                    weights_pack(kernels[order], {l.shape, 0, weight, 0, total, to, nullptr});
                });
        }
    }
}

// How layers are cut: slices of 32 or 64 output channels.
TEST(exact_sizes) {
    for (int cout : {1, 32, 33, 64, 65, 4096}) {
        const conv_shape s = shape_make(27, 8, 0, cout, numeric_f16);
        const conv_sizes c = exact_sizes_choose(&s);
        CHECK(exact_sizes_fit(&c));
        CHECK_EQUAL(c.slices, cout <= 32 ? 1 : 2);
    }
    for (const conv_sizes &c : {conv_sizes{2, 2, 1, 1}, conv_sizes{1, 3, 1, 1},
                                conv_sizes{1, 0, 1, 1}, conv_sizes{1, 2, 2, 1}}) {
        CHECK(!exact_sizes_fit(&c));
    }
}
