// tests/host/portable.cpp: the kernel of conv/portable.cuh in fp16, bf16 and tf32, emulated on the
// host (emulate_portable.h) and compared with sums in double. portable_exact.cpp has exact fp32.
#include "../support/emulate_portable.h"
#include "../support/layer_weights.h"

using namespace problems;

namespace {

const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32};

} // namespace

TEST(portable_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 8 : 24); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, formats[seed % 3], seed % 4 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<portable>(&l, what, seed % 4 ? 1 : 2));
    }
}

// Every variant in every format, with a shortcut and without. Thread blocks have several tiles
// each.
TEST(portable_emulated_every_kernel) {
    const struct {
        conv_sizes size;
        int cin, cout;
    } cuts[] = {{{1, 2, 1, 1}, 64, 64},
                {{1, 2, 2, 1}, 64, 64},
                {{1, 3, 1, 1}, 40, 96},
                {{1, 4, 1, 1}, 33, 128},
                {{2, 4, 1, 1}, 64, 130}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &cut : cuts) {
        for (numeric type : formats) {
            for (bool shortcut : {false, true}) {
                if (!portable_sizes_fit(type, &device, &cut.size)) {
                    CHECK(type == numeric_tf32 && cut.size.slices == 4);
                    continue;
                }
                random_state random = random_make((uint64_t)++seed);
                const conv_shape s = shape_make(4, cut.cin, 0, cut.cout, type);
                layer l = {};
                l.joined =
                    joined_make(&random, s, shortcut ? 36 : 0, 0, 200, 300 * cut.size.tiles, 9);
                joined_fill(&random, &l.joined, 5, with_all, with_all, activation_relu);
                l.size = cut.size;
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<portable>(&l, "every kernel", 1));
            }
        }
    }
    // Of each format five variants, three in tf32, and the kernel that packs weights.
    CHECK_EQUAL(launched.size(), (size_t)(2 * (5 + 1) + 3 + 1));
}

// Many channels on either side, and a shortcut of many, cut as the rules choose.
TEST(portable_emulated_many_channels) {
    const struct {
        int cin, cin2, cout, shortcut;
    } cases[] = {{1040, 0, 33, 0},    {33, 0, 1040, 0}, {1040, 0, 1040, 0}, {2048, 0, 96, 0},
                 {4096, 4096, 64, 0}, {16, 0, 4096, 0}, {64, 0, 2048, 0},   {64, 0, 128, 4096}};
    int turn = 0;
    for (const auto &c : cases) {
        if (test_quick() && c.cin * c.cout > 100000) {
            continue;
        }
        random_state random = random_make((uint64_t)++turn);
        const conv_shape s = shape_make(2, c.cin, c.cin2, c.cout, formats[turn % 3]);
        layer l = {};
        l.joined = joined_make(&random, s, c.shortcut, 0, 9, 5, 200);
        joined_fill(&random, &l.joined, 70, with_all, with_all, activation_relu);
        l.size = portable_sizes_choose(&s, 205, &device);
        REQUIRE(layer_check<portable>(&l, "many channels", 1));
    }
}

// Outputs around row groups, their pairs, and tiles of two pairs; kernels of one to many offsets,
// with more than a word of them.
TEST(portable_emulated_every_count) {
    int turn = 0;
    for (int outputs : {0, 1, 64, 65, 128, 129, 192, 256, 257, 385}) {
        for (int volume : {1, 8, 40}) {
            random_state random = random_make((uint64_t)++turn);
            if (test_quick() && turn % 4) {
                continue;
            }
            const conv_shape s = shape_make(volume, 34, 0, turn % 2 ? 128 : 65, formats[turn % 3]);
            layer l = {};
            l.joined = joined_make(&random, s, 0, 0, volume == 1 ? outputs : outputs / 2 + 1,
                                   outputs, turn % 3 * 70 + 1);
            joined_fill(&random, &l.joined, volume > 8 ? 1 : 4, with_all, 0, activation_none);
            const bool large = turn % 2 && s.type != numeric_tf32;
            l.size = {large ? 1 + turn / 2 % 2 : 1, large ? 4 : 2 + turn % 3 / 2, 1, 1};
            l.seed = (uint64_t)turn;
            REQUIRE(layer_check<portable>(&l, "counts", 1));
        }
    }
}

TEST(portable_emulated_negative_counts) {
    layer_negative_counts<portable>(numeric_f16, {1, 2, 1, 1}, 64, 64);
    layer_negative_counts<portable>(numeric_tf32, {1, 2, 2, 1}, 64, 64);
    layer_negative_counts<portable>(numeric_f32, {1, 1, 1, 1}, 64, 64);
}

// Many short tiles, in rings of every depth, with one set of consumer warps and two.
TEST(portable_emulated_rings) {
    for (int depth = portable_stages_least; depth <= portable_stages_most; ++depth) {
        for (int split : {1, 2}) {
            random_state random = random_make((uint64_t)depth);
            const conv_shape s = shape_make(3, random_int(&random, 33, 70), 0, 64, numeric_f16);
            layer l = {};
            l.joined = joined_make(&random, s, 0, 0, 200, 900, 0);
            joined_fill(&random, &l.joined, 2, with_all, 0, activation_none);
            l.size = {1, 2, split, 1};
            l.seed = (uint64_t)depth;
            l.depth = depth;
            REQUIRE(layer_check<portable>(&l, "rings", test_quick() ? 1 : 2));
        }
    }
}

// Two sets of warps: tiles that end in either set's stage, or have none; a shortcut of one stage,
// of two, of three.
TEST(portable_emulated_two_sets) {
    int seed = 0;
    for (int cin : {20, 64, 70}) {
        for (int shortcut : {0, 20, 64, 70}) {
            for (int percent : {0, 1, 40}) {
                random_state random = random_make((uint64_t)++seed);
                const conv_shape s = shape_make(5, cin, 0, 100, formats[seed % 3]);
                layer l = {};
                l.joined = joined_make(&random, s, shortcut, 0, 200, 300, 90);
                joined_fill(&random, &l.joined, percent, with_all, with_all, activation_leaky);
                l.size = {1, 2, 2, 1};
                l.seed = (uint64_t)seed;
                l.depth = seed % 2 ? portable_stages_least + seed % 6 : 0;
                REQUIRE(layer_check<portable>(&l, "two sets", 1));
            }
        }
    }
}

// Rows of one to ten chunks, and a shortcut of others: teams take turns over entries of any length.
TEST(portable_emulated_teams) {
    const int channels[] = {20, 64, 70, 128, 150, 290};
    for (int depth : {3, 6, 7, 8}) {
        for (int cin : channels) {
            const int seed = depth * 1000 + cin;
            random_state random = random_make((uint64_t)seed);
            const conv_shape s = shape_make(5, cin, 0, 64, formats[seed % 2]);
            layer l = {};
            const int shortcut = channels[seed % 6];
            l.joined = joined_make(&random, s, seed % 3 ? shortcut : 0, 0, 200, 400, 3);
            joined_fill(&random, &l.joined, 20, with_all, 0, activation_none);
            l.size = {1, 2, 1 + seed % 2, 1};
            l.seed = (uint64_t)seed;
            l.depth = depth;
            REQUIRE(layer_check<portable>(&l, "teams", 1));
        }
    }
}

// Heavy tiles of exact fp32 that two thread blocks halve: with a shortcut, over the identity, with
// the last pair's second row group empty, with fewer outputs than the capacity has room for.
TEST(portable_emulated_halved_tiles) {
    const struct {
        conv_sizes size;
        int cin, cout;
    } cuts[] = {{{1, 2, 1, 1}, 32, 64}, {{1, 1, 1, 1}, 20, 32}, {{1, 3, 1, 1}, 40, 70}};
    int seed = 0;
    for (const auto &cut : cuts) {
        for (int outputs : {390, 700, 999, 1000}) {
            for (int volume : {1, 5}) {
                const int room = seed % 3 * 200; // of the capacity
                random_state random = random_make((uint64_t)(seed += 2));
                const conv_shape s = shape_make(volume, cut.cin, 0, cut.cout, numeric_f32);
                layer l = {};
                l.joined = joined_make(&random, s, seed % 4 ? 24 : 0, 0,
                                       volume == 1 ? outputs : 300, outputs, room);
                joined_fill(&random, &l.joined, 12, with_all, with_all, activation_relu);
                l.size = cut.size;
                l.seed = (uint64_t)seed; // even: two multiprocessors
                REQUIRE(layer_check<portable>(&l, "halved tiles", 1));
            }
        }
    }
}

// Which tiles are halved.
TEST(portable_halved) {
    CHECK_EQUAL(portable_halved(717, 27), 45);
    CHECK_EQUAL(portable_halved(1, 27), 1);
    CHECK_EQUAL(portable_halved(0, 27), 0);
    CHECK_EQUAL(portable_halved(717, 125), 0);
}

// Which variants give the same bits.
TEST(portable_emulated_same_bits) {
    for (numeric type : formats) {
        check_same_bits((uint64_t)type, type, type == numeric_tf32 ? 3 : 5);
    }
}

TEST(portable_emulated_weights_beyond) {
    for (numeric type : formats) {
        layer_weights_beyond<portable>(type, {1, 2, 1, 1}, 64, 64);
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(portable_emulated_planted_errors_are_found) {
    for (numeric type : formats) {
        layer_planted_errors<portable>(type, {1, 2, 1, 1}, 40);
        layer_planted_errors<portable>(type, {1, 2, 2, 1}, 40);
    }
}

// Tests the test: a ring that does not wait for its copies is found.
TEST(portable_emulated_copies_are_waited_for) {
    check_copies_are_waited_for(numeric_f16);
}

// Tests the test: consumers that do not wait for a full stage are found, producers that do not wait
// for an empty one, and warps that arrive too seldom or too often.
TEST(portable_emulated_mbarriers_are_needed) {
    const int producers = 32 * portable_producers(64, 128);
    auto fails = [&](int seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = {};
        l.joined = joined_make(&random, shape_make(9, 64, 0, 64, numeric_f16), 0, 0, 200, 300, 0);
        joined_fill(&random, &l.joined, 30, with_all, 0, activation_none);
        l.size = {1, 2, 1 + seed % 2, 1};
        l.depth = 3;
        l.seed = (uint64_t)seed;
        bool good;
        const std::vector<char> out = layer_run<portable, __half>(&l, &good);
        return !good || !(problem_judge(&l.joined.main, out.data()).ratio <= 1);
    };
    for (bool consumers : {false, true}) {
        auto planted = [&] { return ((int)threadIdx.x >= producers) == consumers; };
        emulate::wait_skipped = planted;
        bool found = false;
        for (int seed = 0; seed < 8 && !found; ++seed) {
            found = fails(seed);
        }
        CHECK(found);
        emulate::wait_skipped = nullptr;
        for (int arrivals : {0, 2}) {
            found = false;
            for (int seed = 0; seed < 8 && !found; ++seed) {
                int left = 5; // the fifth arrival
                emulate::arrivals_planted = [&] { return planted() && --left == 0 ? arrivals : 1; };
                found = fails(seed);
                emulate::arrivals_planted = nullptr;
            }
            CHECK(found);
        }
    }
    CHECK(!fails(1) && !fails(2));
}

// Few tiles are thread blocks of their own; many are shared out to those that have room.
TEST(portable_workers) {
    CHECK_EQUAL(portable_workers(0, 264, 2), 0);
    CHECK_EQUAL(portable_workers(717, 264, 2), 717);
    CHECK_EQUAL(portable_workers(4 * 264, 264, 1), 4 * 264);
    CHECK_EQUAL(portable_workers(4 * 264 + 1, 264, 4), 264);
    CHECK_EQUAL(portable_workers(717, 132, 4), 132); // more chunks, more thread blocks
    CHECK_EQUAL(portable_workers(717, 132, 8), 717);
    CHECK_EQUAL(portable_workers(2000, 132, 100), 132);
    CHECK_EQUAL(portable_workers(9, 0, 2),
                0); // more slices than room: the launch has one worker each
}

// Two sets of warps have a thread block for each tile, of which a grid has 65535 at most.
TEST(portable_splits_where_a_grid_has_room) {
    const conv_sizes one = {1, 2, 1, 1}, both = {1, 2, 2, 1};
    CHECK(portable_splits(&both, 1) && portable_splits(&both, 65535 * 128));
    CHECK(!portable_splits(&both, 65535 * 128 + 1) && !portable_splits(&both, INT32_MAX / 2));
    CHECK(!portable_splits(&one, 1));
}

// How layers of the two scans are cut: columns and rows of a tile.
TEST(portable_choice) {
    const device_info h200 = device_made(90, 132, 227 * 1024, false);
    const device_info ada = device_made(89, 76, 99 * 1024, false);
    const struct {
        int32_t outputs;
        int volume, channels;
        numeric type;
        int columns, rows, split;  // 227 KB
        int columns_ada, rows_ada; // 99 KB
    } layers[] = {{91766, 27, 64, numeric_f16, 64, 128, 1, 64, 128},
                  {91766, 27, 128, numeric_f16, 128, 128, 1, 128, 256},
                  {91766, 27, 256, numeric_f16, 128, 128, 1, 128, 256},
                  {91766, 125, 64, numeric_f16, 64, 128, 1, 64, 128},
                  {91766, 27, 64, numeric_tf32, 64, 128, 1, 64, 128},
                  {91766, 27, 64, numeric_f32, 64, 128, 1, 64, 128},
                  {345087, 27, 64, numeric_f16, 64, 128, 1, 64, 128},
                  {345087, 27, 256, numeric_f16, 128, 256, 1, 128, 256},
                  {345087, 27, 64, numeric_f32, 64, 128, 1, 64, 128},
                  {91766, 27, 96, numeric_f16, 96, 128, 1, 96, 128},
                  {31757, 27, 128, numeric_f16, 64, 128, 1, 128, 256}, // few tiles
                  {14534, 27, 128, numeric_f16, 64, 128, 2, 64, 128},  // all begin at once
                  {31757, 125, 32, numeric_f16, 64, 128, 2, 64, 128},
                  {31757, 27, 32, numeric_f16, 64, 128, 1, 64, 128}, // short
                  {31757, 27, 64, numeric_tf32, 64, 128, 2, 64, 128},
                  {5906, 27, 256, numeric_f16, 64, 128, 2, 64, 128},
                  {5906, 27, 64, numeric_f32, 32, 128, 1, 32, 128}};
    for (const auto &l : layers) {
        const conv_shape s = shape_make(l.volume, l.channels, 0, l.channels, l.type);
        const conv_sizes c = portable_sizes_choose(&s, l.outputs, &h200);
        CHECK_EQUAL(32 * c.slices, l.columns);
        CHECK_EQUAL(128 * c.tiles, l.rows);
        CHECK_EQUAL(c.split, l.split);
        const conv_sizes a = portable_sizes_choose(&s, l.outputs, &ada);
        CHECK_EQUAL(32 * a.slices, l.columns_ada);
        CHECK_EQUAL(128 * a.tiles, l.rows_ada);
    }
}

// Which layers the kernel takes, and how they are cut on GPUs with much and with little shared
// memory.
TEST(portable_sizes) {
    const device_info h200 = device_made(90, 132, 227 * 1024, false);
    const device_info ada = device_made(89, 76, 99 * 1024, false);
    const struct {
        int cout, columns;
    } expected[] = {{16, 64},  {33, 64},   {64, 64},   {65, 96},   {96, 96},
                    {97, 128}, {128, 128}, {160, 96},  {192, 96},  {256, 128},
                    {320, 64}, {384, 128}, {512, 128}, {1024, 128}};
    for (int slices : {0, -1, 5, (1 << 27) + 1}) {
        const conv_sizes c = {1, slices, 1, 1};
        CHECK(!portable_sizes_fit(numeric_f16, &h200, &c));
    }
    for (const auto &e : expected) {
        CHECK_EQUAL(portable_columns_choose(e.cout), e.columns);
        for (const device_info *d : {&h200, &ada}) {
            for (int32_t capacity : {1, 1000, 100000, 3000000}) {
                const conv_shape s = shape_make(27, 64, 0, e.cout, numeric_f16);
                const conv_sizes c = portable_sizes_choose(&s, capacity, d);
                CHECK(portable_sizes_fit(s.type, d, &c));
                const int columns = 32 * c.slices, rows = 128 * c.tiles;
                const int resident = portable_resident_on(columns, rows, c.split, d->shared_max);
                const int depth = portable_stages(columns, rows, resident, d->shared_max);
                CHECK(depth >= portable_stages_least && depth <= portable_stages_most);
                const int bytes = depth * portable_stage_bytes(columns, rows) +
                                  portable_fixed_bytes(columns, rows) + 1024;
                CHECK(resident * bytes <= d->shared_max + 1024);
            }
        }
    }
    conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    CHECK(portable_takes(&s, &h200));
    s = shape_make(portable_volume_most + 1, 64, 0, 64, numeric_f16);
    CHECK(!portable_takes(&s, &h200));
    s.volume = portable_volume_most;
    const device_info hopper = device_made(90, 132, 227 * 1024, true);
    const device_info turing = device_made(75, 40, 64 * 1024, false);
    CHECK(portable_takes(&s, &ada) && portable_takes(&s, &hopper) && !portable_takes(&s, &turing));
}

// Packs as E; `kernels` of all orders have one type.
template <typename E, typename Kernel>
static void weights_of_layers(numeric type, int64_t (*elements)(const conv_shape *), int per_item,
                              const Kernel (&kernels)[3]) {
    for (int seed = 0; seed < 8; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const layer_weights l = layer_weights_random(&random, type, seed);
        const int64_t total = elements(&l.shape);
        layer_weights_check(
            &l, total * per_item * (int64_t)sizeof(E),
            [&](conv_weights_order order, const float *weight, char *to) {
                weights_pack(kernels[order], {l.shape, 0, weight, 0, total, to, nullptr});
            });
    }
}

TEST(portable_emulated_weights_of_layers) {
    const decltype(&conv_mma_pack_kernel<__half>) half[] = {
        conv_mma_pack_kernel<__half>, conv_mma_pack_kernel<__half, conv_weights_of_layer>,
        conv_mma_pack_kernel<__half, conv_weights_of_layer_mirrored>};
    weights_of_layers<__half>(numeric_f16, conv_mma_weights, conv_lane_bytes / 2, half);
    const decltype(&conv_mma_pack_kernel<float>) tf32[] = {
        conv_mma_pack_kernel<float>, conv_mma_pack_kernel<float, conv_weights_of_layer>,
        conv_mma_pack_kernel<float, conv_weights_of_layer_mirrored>};
    weights_of_layers<float>(numeric_tf32, conv_mma_weights, conv_lane_bytes / 4, tf32);
    const decltype(&conv_exact_pack_kernel<0>) exact[] = {
        conv_exact_pack_kernel<0>, conv_exact_pack_kernel<0, conv_weights_of_layer>,
        conv_exact_pack_kernel<0, conv_weights_of_layer_mirrored>};
    weights_of_layers<float>(numeric_f32, conv_exact_weights, 1, exact);
}
