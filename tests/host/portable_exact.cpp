// tests/host/portable_exact.cpp: exact fp32 on the kernel of conv/portable.cuh, emulated on the
// host (emulate_portable.h): against sums in double, and bit by bit against fmaf in the stated
// order.
#include "../support/emulate_portable.h"

using namespace problems;

namespace {

const numeric type = numeric_f32;

} // namespace

TEST(portable_exact_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 6 : 15); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, type, seed % 3 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<portable>(&l, what, seed % 4 ? 1 : 2));
    }
}

// Every variant, with a shortcut and without: each output has the bits of fused multiply-adds in
// ascending order of offsets and input channels.
TEST(portable_exact_emulated_every_kernel) {
    const struct {
        conv_sizes size;
        int cin, cin2, cout;
    } cuts[] = {{{1, 1, 1, 1}, 4, 0, 16},   {{1, 1, 1, 1}, 16, 5, 33}, {{1, 2, 1, 1}, 64, 0, 64},
                {{2, 2, 1, 1}, 19, 3, 60},  {{1, 3, 1, 1}, 40, 7, 96}, {{1, 2, 1, 1}, 33, 0, 128},
                {{1, 3, 1, 1}, 20, 17, 130}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &cut : cuts) {
        for (bool shortcut : {false, true}) {
            random_state random = random_make((uint64_t)++seed);
            const conv_shape s = shape_make(4, cut.cin, cut.cin2, cut.cout, type);
            layer l = {};
            l.joined = joined_make(&random, s, shortcut ? 36 : 0, 0, 200, 300 * cut.size.tiles, 9);
            joined_fill(&random, &l.joined, 5, shortcut ? with_all : 0, shortcut ? with_all : 0,
                        shortcut ? activation_relu : activation_none);
            l.size = cut.size;
            REQUIRE(portable_sizes_fit(type, &device, &l.size));
            l.programmatic = true;
            l.seed = (uint64_t)seed;
            REQUIRE(layer_check<portable>(&l, "every kernel", 1));
            if (!shortcut) {
                const std::vector<char> out = layer_run_any<portable>(&l);
                const std::vector<float> expected = sums_in_order(&l.joined.main);
                CHECK(!memcmp(out.data(), expected.data(), expected.size() * sizeof(float)));
            }
        }
    }
    CHECK_EQUAL(launched.size(), (size_t)(4 + 1)); // variants; the kernel that packs weights
}

// Outputs around row groups, their pairs, and tiles of two pairs; kernels of one to many offsets,
// with more than a word of them.
TEST(portable_exact_emulated_every_count) {
    int turn = 0;
    for (int outputs : {0, 1, 64, 65, 128, 129, 192, 256, 257, 385}) {
        for (int volume : {1, 8, 40}) {
            random_state random = random_make((uint64_t)++turn);
            if (test_quick() && turn % 4) {
                continue;
            }
            const int cin = turn % 4 * 6 + 1, cout = turn % 2 ? 128 : 31 + turn % 3;
            layer l = {};
            l.joined =
                joined_make(&random, shape_make(volume, cin, 0, cout, type), 0, 0,
                            volume == 1 ? outputs : outputs / 2 + 1, outputs, turn % 3 * 70 + 1);
            joined_fill(&random, &l.joined, volume > 8 ? 1 : 4, with_all, 0, activation_none);
            const int slices = turn % 2 ? 2 : 1 + turn % 3;
            l.size = {slices % 2 ? 1 : 1 + turn / 2 % 2, slices, 1, 1};
            l.seed = (uint64_t)turn;
            REQUIRE(layer_check<portable>(&l, "counts", 1));
        }
    }
}

// Many short tiles, in rings of every depth.
TEST(portable_exact_emulated_rings) {
    for (int depth = portable_stages_least; depth <= portable_stages_most; ++depth) {
        random_state random = random_make((uint64_t)depth);
        layer l = {};
        l.joined = joined_make(&random, shape_make(3, random_int(&random, 17, 40), 0, 32, type), 0,
                               0, 200, 900, 0);
        joined_fill(&random, &l.joined, 2, with_all, 0, activation_none);
        l.size = {1, 1, 1, 1};
        l.seed = (uint64_t)depth;
        l.depth = depth;
        REQUIRE(layer_check<portable>(&l, "rings", test_quick() ? 1 : 2));
    }
}

// All variants give the same bits: the order of the additions does not depend on them.
TEST(portable_exact_emulated_same_bits) {
    check_same_bits(3, type, 4);
}

TEST(portable_exact_emulated_weights_beyond) {
    layer_weights_beyond<portable>(type, {1, 2, 1, 1}, 64, 64);
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(portable_exact_emulated_planted_errors_are_found) {
    layer_planted_errors<portable>(type, {1, 2, 1, 1}, 40);
}

// Tests the test: weights that are rounded to tf32 are found.
TEST(portable_exact_emulated_rounding_is_found) {
    random_state random = random_make(7);
    layer l = {};
    l.joined = joined_make(&random, shape_make(3, 24, 0, 32, type), 0, 0, 90, 100, 0);
    joined_fill(&random, &l.joined, 50, 0, 0, activation_none);
    l.size = {1, 1, 1, 1};
    REQUIRE(layer_check<portable>(&l, "exact", 1));
    const problem exact = l.joined.main;
    for (float &w : l.joined.main.weight) {
        w = numeric_operand(numeric_tf32, w);
    }
    const std::vector<char> out = layer_run_any<portable>(&l);
    CHECK(!(problem_judge(&exact, out.data()).ratio <= 1));
}

// Tests the test: a ring that does not wait for its copies is found.
TEST(portable_exact_emulated_copies_are_waited_for) {
    check_copies_are_waited_for(type);
}

// How layers are cut on GPUs with much and with little shared memory, and which GPUs take them.
TEST(portable_exact_sizes) {
    const device_info h200 = device_made(90, 132, 227 * 1024, true);
    const device_info ada = device_made(89, 76, 99 * 1024, false);
    const device_info turing = device_made(75, 40, 64 * 1024, false);
    const struct {
        int cout;
        int32_t capacity;
        int columns;
    } expected[] = {{1, 100000, 32},  {32, 100000, 32},  {33, 100000, 64},  {64, 100000, 64},
                    {65, 100000, 96}, {128, 100000, 64}, {160, 100000, 96}, {256, 100000, 64},
                    {256, 5000, 64},  {256, 1000, 32},   {1024, 100, 32},   {96, 1, 32}};
    for (const auto &e : expected) {
        const conv_shape s = shape_make(27, 64, 0, e.cout, type);
        CHECK_EQUAL(32 * portable_sizes_choose(&s, e.capacity, &h200).slices, e.columns);
        for (const device_info *d : {&h200, &ada}) {
            for (int32_t capacity : {1, 1000, 100000, 3000000}) {
                CHECK(portable_takes(&s, d));
                const conv_sizes c = portable_sizes_choose(&s, capacity, d);
                CHECK(portable_sizes_fit(type, d, &c));
                const int columns = 32 * c.slices, rows = 128 * c.tiles;
                const int resident = portable_resident_on(columns, rows, 1, d->shared_max);
                const int depth = portable_stages(columns, rows, resident, d->shared_max);
                CHECK(depth >= portable_stages_least && depth <= portable_stages_most);
                const int bytes = depth * portable_stage_bytes(columns, rows) +
                                  portable_fixed_bytes(columns, rows) + 1024;
                CHECK(resident * bytes <= d->shared_max + 1024);
            }
        }
    }
    conv_shape s = shape_make(27, 64, 0, 64, type);
    CHECK(!portable_takes(&s, &turing));
    s.volume = portable_volume_most + 1;
    CHECK(!portable_takes(&s, &h200));
}
