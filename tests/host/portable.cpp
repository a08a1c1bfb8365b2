// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/portable.cpp: the kernel of conv/portable.cuh in every format, emulated on the host
// (emulate_layers.h): against sums in double, and in exact fp32 bit by bit against fmaf in the
// stated order. The made-up device has few multiprocessors, so that each thread block computes
// several tiles.
#include "../support/emulate_layers.h"

using namespace problems;

namespace {

// Sizes of one pair of row groups, `columns` of 32 channels.
conv_sizes sizes_of(int columns, int split = 1) {
    return {1, columns, split, 1};
}

// The kernel: see emulate_layers.h.
struct portable {
    static constexpr conv_kernel kernel = conv_kernel_portable;
    enum { depth_least = portable_stages_least, depth_most = portable_stages_most, floats = true };
    static constexpr int edges[] = {1,  16, 17, 31, 32,  33,  34,  40,  48,  63,  64,  65,
                                    80, 95, 96, 97, 100, 127, 128, 129, 160, 192, 255, 256};
    static const device_info device;

    template <typename tag>
    static status run(tag own, const conv_params &t, const layer *l) {
        device_info d = device;
        const int columns = 32 * l->sizes.slices, rows = 128 * l->sizes.tiles;
        auto depth = [&] {
            const int resident = portable_resident_on(columns, rows, l->sizes.split, d.shared_max);
            return portable_stages(columns, rows, resident, d.shared_max);
        };
        if (l->depth) {
            d.shared_max = 227 * 1024; // more than any ring takes
        }
        while (l->depth && depth() > l->depth) {
            d.shared_max -= 1024;
        }
        if (l->seed % 2) {
            d.multiprocessors = 0; // one thread block for all tiles of a slice
        }
        return portable_run(own, &d, t, nullptr);
    }
};

const device_info portable::device = device_made(86, 2, 99 * 1024, false);

const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32};

} // namespace

TEST(portable_emulated_random_layers) {
    layers_random<portable>(test_quick() ? 12 : 40, true);
}

TEST(portable_emulated_every_count) {
    layers_every_count<portable>();
}

// Of fp16 and bf16 five variants, of tf32 three, of exact fp32 four; the kernels that pack weights.
TEST(portable_emulated_every_kernel) {
    layers_every_kernel<portable>({{{1, 1, 1, 1}, 4, 0, 33},
                                   {{1, 1, 1, 1}, 16, 5, 33},
                                   {{1, 2, 1, 1}, 64, 0, 64},
                                   {{1, 2, 1, 1}, 33, 0, 128},
                                   {{2, 2, 1, 1}, 19, 3, 60},
                                   {{1, 2, 2, 1}, 64, 0, 64},
                                   {{1, 3, 1, 1}, 40, 7, 96},
                                   {{1, 3, 1, 1}, 20, 17, 130},
                                   {{1, 4, 1, 1}, 33, 0, 128},
                                   {{2, 4, 1, 1}, 64, 0, 130}},
                                  true, 2 * (5 + 1) + (3 + 1) + (4 + 1));
}

TEST(portable_emulated_many_offsets) {
    layers_many_offsets<portable>({sizes_of(2), sizes_of(2, 2), {2, 4, 1, 1}}, numeric_f16, 20);
    layers_many_offsets<portable>({sizes_of(3)}, numeric_tf32, 0);
    layers_many_offsets<portable>({sizes_of(1), {2, 2, 1, 1}}, numeric_f32, 20);
}

TEST(portable_emulated_many_channels) {
    layers_many_channels<portable>(true);
}

TEST(portable_emulated_negative_counts) {
    layers_negative_counts<portable>(shape_make(5, 64, 0, 64, numeric_f16), sizes_of(2));
    layers_negative_counts<portable>(shape_make(5, 64, 0, 64, numeric_tf32), sizes_of(2, 2));
    layers_negative_counts<portable>(shape_make(5, 64, 0, 64, numeric_f32), sizes_of(1));
}

// Which variants give the same bits.
TEST(portable_emulated_same_bits) {
    for (numeric type : formats) {
        layers_same_bits<portable>(shape_make(5, 50, 20, 100, type), type == numeric_tf32  ? 3
                                                                     : type == numeric_f32 ? 4
                                                                                           : 5);
    }
}

TEST(portable_emulated_weights_beyond) {
    for (numeric type : formats) {
        layers_weights_beyond<portable>(type, 64, 64);
    }
}

TEST(portable_emulated_weights_of_gradients) {
    for (numeric type : {numeric_f16, numeric_tf32, numeric_f32}) {
        layers_weights_of_gradients<portable>(type);
    }
}

TEST(portable_emulated_slices) {
    layers_slices<portable>(slices_tested);
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(portable_emulated_planted_errors_are_found) {
    for (numeric type : formats) {
        layers_planted_errors<portable>(type, sizes_of(2), 40);
        if (type != numeric_f32) {
            layers_planted_errors<portable>(type, sizes_of(2, 2), 40);
        }
    }
}

// Many short tiles, in rings of every depth, with one set of consumer warps and two.
TEST(portable_emulated_rings) {
    for (int depth = portable_stages_least; depth <= portable_stages_most; ++depth) {
        for (int split : {0, 1, 2}) { // 0: in exact fp32
            random_state random = random_make((uint64_t)depth);
            const conv_shape s = shape_make(3, random_int(&random, 33, 70), 0, 64,
                                            split ? numeric_f16 : numeric_f32);
            layer l = layer_of(&random, s, {200, 900, 0}, 2);
            l.sizes = split ? sizes_of(2, split) : sizes_of(1);
            l.seed = (uint64_t)depth;
            l.depth = depth;
            REQUIRE(layer_check<portable>(&l, "rings", test_quick() || depth % 2 ? 1 : 2));
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
                layer l = layer_of(&random, shape_make(5, cin, 0, 100, formats[seed % 3]),
                                   {200, 300, 90}, percent, shortcut);
                l.joined.main.act = activation_leaky;
                l.joined.main.slope = 0.1f;
                l.sizes = sizes_of(2, 2);
                l.seed = (uint64_t)seed;
                l.depth = seed % 2 ? portable_stages_least + seed % 6 : 0;
                REQUIRE(layer_check<portable>(&l, "two sets"));
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
            layer l = layer_of(&random, shape_make(5, cin, 0, 64, formats[seed % 2]), {200, 400, 3},
                               20, seed % 3 ? channels[seed % 6] : 0);
            l.sizes = sizes_of(2, 1 + seed % 2);
            l.seed = (uint64_t)seed;
            l.depth = depth;
            REQUIRE(layer_check<portable>(&l, "teams"));
        }
    }
}

// Heavy tiles of exact fp32 that two thread blocks halve: with a shortcut, over the identity, with
// the last pair's second row group empty, with fewer outputs than the capacity has room for.
TEST(portable_emulated_halved_tiles) {
    const layer_cut cuts[] = {
        {sizes_of(2), 32, 0, 64}, {sizes_of(1), 20, 0, 32}, {sizes_of(3), 40, 0, 70}};
    int seed = 0;
    for (const layer_cut &cut : cuts) {
        for (int outputs : {390, 700, 999, 1000}) {
            for (int volume : {1, 5}) {
                const int room = seed % 3 * 200; // of the capacity
                random_state random = random_make((uint64_t)(seed += 2));
                layer l =
                    layer_of(&random, shape_make(volume, cut.cin, 0, cut.cout, numeric_f32),
                             {volume == 1 ? outputs : 300, outputs, room}, 12, seed % 4 ? 24 : 0);
                l.sizes = cut.sizes;
                l.seed = (uint64_t)seed; // even: two multiprocessors
                REQUIRE(layer_check<portable>(&l, "halved tiles"));
            }
        }
    }
}

// Tests the test: weights that are rounded to tf32 are found.
TEST(portable_emulated_rounding_is_found) {
    random_state random = random_make(7);
    layer l = layer_of(&random, shape_make(3, 24, 0, 32, numeric_f32), {90, 100, 0}, 50, 0, 0);
    l.joined.main.act = activation_none;
    l.sizes = sizes_of(1);
    REQUIRE(layer_check<portable>(&l, "exact"));
    const problem exact = l.joined.main;
    for (float &w : l.joined.main.weight) {
        w = numeric_operand(numeric_tf32, w);
    }
    CHECK(!(problem_judge(&exact, layer_run<portable>(&l).data()).ratio <= 1));
}

namespace {

layer layer_of_ring(uint64_t seed, numeric type, int split) {
    random_state random = random_make(seed);
    layer l = layer_of(&random, shape_make(9, 64, 0, 64, type), {200, 300, 0}, 30);
    l.joined.main.act = activation_none;
    l.sizes = sizes_of(2, split);
    l.seed = seed;
    return l;
}

} // namespace

// Tests the test: a ring that does not wait for its copies is found.
TEST(portable_emulated_copies_are_waited_for) {
    for (numeric type : {numeric_f16, numeric_f32}) {
        const layer l = layer_of_ring(0, type, 1);
        emulate::copies_skipped = true;
        CHECK(layer_fails<portable>(&l));
        emulate::copies_skipped = false;
    }
}

// Tests the test: consumers that do not wait for a full stage are found, producers that do not wait
// for an empty one, and warps that arrive too seldom or too often.
TEST(portable_emulated_mbarriers_are_needed) {
    const int producers = 32 * portable_producers(64, 128);
    auto fails = [&](int seed) {
        layer l = layer_of_ring((uint64_t)seed, numeric_f16, 1 + seed % 2);
        l.depth = 3;
        return layer_fails<portable>(&l);
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
        int cout, columns, exact; // of many outputs
    } expected[] = {{1, 64, 32},    {16, 64, 32},   {32, 64, 32},   {33, 64, 64},
                    {64, 64, 64},   {65, 96, 96},   {96, 96, 96},   {97, 128, 64},
                    {128, 128, 64}, {160, 96, 96},  {192, 96, 96},  {256, 128, 64},
                    {320, 64, 64},  {384, 128, 96}, {512, 128, 64}, {1024, 128, 64}};
    for (int slices : {0, -1, 5, (1 << 27) + 1}) {
        const conv_sizes c = {1, slices, 1, 1};
        CHECK(!portable_sizes_fit(numeric_f16, &h200, &c));
    }
    for (const auto &e : expected) {
        CHECK_EQUAL(portable_columns_choose(e.cout), e.columns);
        for (numeric type : {numeric_f16, numeric_f32}) {
            const conv_shape s = shape_make(27, 64, 0, e.cout, type);
            if (type == numeric_f32) {
                CHECK_EQUAL(32 * portable_sizes_choose(&s, 100000, &h200).slices, e.exact);
                CHECK_EQUAL(32 * portable_sizes_choose(&s, 100, &h200).slices, 32);
            }
            for (const device_info *d : {&h200, &ada}) {
                for (int32_t capacity : {1, 1000, 100000, 3000000}) {
                    const conv_sizes c = portable_sizes_choose(&s, capacity, d);
                    CHECK(portable_sizes_fit(type, d, &c));
                    const int columns = 32 * c.slices, rows = 128 * c.tiles;
                    const int resident =
                        portable_resident_on(columns, rows, c.split, d->shared_max);
                    const int depth = portable_stages(columns, rows, resident, d->shared_max);
                    CHECK(depth >= portable_stages_least && depth <= portable_stages_most);
                    const int bytes = depth * portable_stage_bytes(columns, rows) +
                                      portable_fixed_bytes(columns, rows) + 1024;
                    CHECK(resident * bytes <= d->shared_max + 1024);
                }
            }
        }
    }
    const device_info hopper = device_made(90, 132, 227 * 1024, true);
    const device_info turing = device_made(75, 40, 64 * 1024, false);
    CHECK(portable_takes(&h200) && portable_takes(&hopper) && portable_takes(&ada) &&
          !portable_takes(&turing));
}

// ---- dealing ------------------------------------------------------------------------------------

// The tiles of a worker, by their place in the schedule.
static std::vector<int> dealt_places(int tiles, int workers, int own) {
    int32_t count = tiles * 2 * order_rows - 1;
    conv_params p = {};
    p.count = &count;
    p.capacity = count;
    gridDim.z = (unsigned)workers;
    blockIdx.z = (unsigned)own;
    const conv_work work = conv_work_of<64, 2>(p);
    std::vector<int> places;
    for (int tile = 0; tile < work.tiles; ++tile) {
        places.push_back(conv_tile_place(work, tile));
    }
    return places;
}

// Each tile is dealt once, the first round heaviest first. Where workers have two tiles or three,
// those with the heaviest first tile have two.
TEST(schedule_deals_each_tile_once) {
    for (int workers = 1; workers < 10; ++workers) {
        for (int tiles = 1; tiles < 50; ++tiles) {
            std::vector<int> times((size_t)tiles);
            for (int own = 0; own < workers; ++own) {
                const std::vector<int> places = dealt_places(tiles, workers, own);
                for (int place : places) {
                    REQUIRE(place >= 0 && place < tiles);
                    ++times[(size_t)place];
                }
                CHECK(places.empty() ? own >= tiles : places[0] == own);
            }
            CHECK(times == std::vector<int>((size_t)tiles, 1));
            if (tiles > 2 * workers && tiles < 3 * workers) {
                CHECK_EQUAL(dealt_places(tiles, workers, 0).size(), 2u);
                CHECK_EQUAL(dealt_places(tiles, workers, workers - 1).size(), 3u);
            }
        }
    }
}
