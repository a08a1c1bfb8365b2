// tests/host/hopper.cpp: the kernels of conv/hopper.cuh, emulated on the host (emulate_hopper.h)
// and compared with sums in double. The made-up device has few multiprocessors, so that each thread
// block computes several tiles.
#include "../support/devices.h"
#include "../support/emulate_layers.h"
#include "../support/layer_weights.h"

#include "../../spira/conv/hopper.cuh"

using namespace problems;

namespace {

enum { multiprocessors = 3, shared_most = 232448 };

const device_info device = device_made(90, multiprocessors, shared_most, true);

// Stages that fit into `shared` bytes.
int layer_stages(const layer *l, int shared) {
    const int columns = 32 * l->size.slices, row = hopper_stage_row(&l->joined.main.shape);
    return hopper_stages(columns, row, &l->size, shared);
}

// The device that gives the layer's ring its depth.
device_info layer_device(const layer *l) {
    int shared = shared_most;
    while (l->depth && layer_stages(l, shared) > l->depth) {
        shared -= 1024;
    }
    return device_made(90, multiprocessors, shared, true);
}

// The kernel: see emulate_layers.h.
struct hopper {
    enum { depth_least = hopper_teams, depth_most = hopper_stages_most, floats = false };

    template <typename E>
    static const void *weights(const conv_shape *s, bool shortcut,
                               const std::vector<float> &weight) {
        const int part = shortcut ? hopper_part_whole : hopper_part_bytes(s);
        const int64_t total = hopper_weights(s, part);
        E *packed = guarded_new<E>(total * conv_lane_bytes / 2);
        weights_pack(hopper_pack_kernel<E>, {*s, part, weight.data(), 0, total, packed, nullptr});
        return packed;
    }

    static int shortcut_parts(const conv_shape *s) {
        return (int)ceil_div(hopper_row_bytes(s), hopper_part_whole);
    }

    static void params(const conv_shape *s, conv_params *t) {
        t->part = hopper_part_bytes(s);
        t->chunks = hopper_parts(s);
    }

    template <typename E>
    static status run(const conv_params &t, const layer *l) {
        const device_info d = layer_device(l);
        return hopper_run<E, true>(t, &d, nullptr);
    }
};

const int edges[] = {16, 17, 20, 24,  31,  32,  33,  40,  48,  63,  64,  65,  80,
                     95, 96, 97, 100, 127, 128, 129, 160, 192, 193, 255, 256, 257};

// A random layer that the kernel takes.
layer layer_random(random_state *random, bool shortcut) {
    layer l = {};
    conv_shape s = {};
    do {
        s = shape_random(random, random_int(random, 0, 9) ? random_int(random, 1, 12) : 40,
                         random_int(random, 0, 1) ? numeric_f16 : numeric_bf16, edges);
        s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
    } while (!hopper_takes(&s, &device) || (shortcut && !hopper_takes_shortcut(&s)));
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 420) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 300);
    const int cin = shortcut ? channels_random(random, edges) : 0;
    l.joined = joined_make(random, s, cin, shortcut && random_int(random, 0, 1) ? cin / 2 : 0,
                           inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 3, 15, 40, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_count - 1));
    static conv_sizes sizes[conv_sizes_most];
    l.size = sizes[random_int(random, 0, hopper_sizes_list(&s, &device, sizes) - 1)];
    layer_vary<hopper>(random, &l);
    return l;
}

} // namespace

TEST(hopper_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 6 : 60); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, seed % 3 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<hopper>(&l, what));
    }
}

TEST(hopper_emulated_negative_counts) {
    layer_negative_counts<hopper>(numeric_f16, {1, 2, 1, 1}, 64, 64);
    layer_negative_counts<hopper>(numeric_bf16, {1, 4, 2, 1}, 64, 128);
}

TEST(hopper_emulated_weights_beyond) {
    layer_weights_beyond<hopper>(numeric_f16, {1, 2, 1, 1}, 64, 64);
    layer_weights_beyond<hopper>(numeric_bf16, {1, 1, 1, 1}, 16, 32);
}

// Every variant, of both types, with a shortcut and without. Thread blocks have several tiles each.
TEST(hopper_emulated_every_kernel) {
    const struct {
        conv_sizes size;
        int cin, cout;
    } cuts[] = {
        {{1, 1, 1, 1}, 40, 32},   {{1, 2, 1, 1}, 64, 64},   {{2, 2, 1, 1}, 64, 64},
        {{1, 2, 2, 1}, 80, 64},   {{1, 3, 1, 1}, 96, 96},   {{1, 3, 1, 1}, 64, 96},
        {{1, 4, 1, 1}, 128, 128}, {{1, 4, 2, 1}, 128, 128}, {{1, 8, 1, 1}, 64, 256},
        {{1, 8, 2, 1}, 64, 256},
    };
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &cut : cuts) {
        for (numeric type : {numeric_f16, numeric_bf16}) {
            for (bool shortcut : {false, true}) {
                random_state random = random_make((uint64_t)++seed);
                const conv_shape s = shape_make(4, cut.cin, 0, cut.cout, type);
                layer l = {};
                l.joined =
                    joined_make(&random, s, shortcut ? 72 : 0, 0, 200, test_quick() ? 300 : 600, 9);
                joined_fill(&random, &l.joined, 60, shortcut ? with_scale : with_all, with_all,
                            activation_relu);
                l.size = cut.size;
                REQUIRE(hopper_sizes_fit(&s, &device, &l.size));
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<hopper>(&l, "every kernel", test_quick() ? 1 : 3));
            }
        }
    }
    // Of each type 10 variants, 8 with a shortcut (hopper_run_as), and the one that packs weights.
    CHECK_EQUAL(launched.size(), (size_t)(2 * (18 + 1)));
}

// Many channels on either side, and a shortcut of many, cut as the rules choose.
TEST(hopper_emulated_many_channels) {
    const struct {
        int cin, cin2, cout, shortcut;
    } cases[] = {{1040, 0, 32, 0}, {32, 0, 1040, 0},    {1040, 0, 1040, 0},
                 {2048, 0, 96, 0}, {4096, 4096, 64, 0}, {16, 0, 4096, 0},
                 {64, 0, 2048, 0}, {80, 0, 4096, 0},    {64, 0, 128, 4096}};
    for (const auto &c : cases) {
        if (test_quick() && c.cin * c.cout > 100000) {
            continue;
        }
        random_state random = random_make((uint64_t)(c.cin + c.cout));
        const conv_shape s = shape_make(2, c.cin, c.cin2, c.cout, numeric_f16);
        layer l = {};
        l.joined = joined_make(&random, s, c.shortcut, 0, 9, 5, 200);
        joined_fill(&random, &l.joined, 70, with_all, with_all, activation_relu);
        REQUIRE(hopper_takes(&s, &device));
        l.size = hopper_sizes_choose(&s, 205, &device);
        l.programmatic = true;
        REQUIRE(layer_check<hopper>(&l, "many channels", 1));
    }
}

namespace {

// The variants with two sets of consumer warpgroups: two, two and one producer warp for a stage.
const struct {
    conv_sizes size;
    int cout;
} two_sets[] = {{{2, 2, 1, 1}, 64}, {{1, 3, 1, 1}, 96}, {{1, 4, 1, 1}, 128}};

// And with one: two producer warps for a stage, then one.
const struct {
    conv_sizes size;
    int cout;
} one_set[] = {{{1, 2, 1, 1}, 64}, {{1, 8, 2, 1}, 256}};

// Many short tiles for each thread block.
template <typename C>
layer layer_of_short_tiles(const C &cut, uint64_t seed, int volume, int percent, int depth) {
    random_state random = random_make(seed);
    const conv_shape s = shape_make(volume, random_int(&random, 33, 160), 0, cut.cout, numeric_f16);
    layer l = {};
    l.joined = joined_make(&random, s, 0, 0, 200, 2300, 0);
    joined_fill(&random, &l.joined, percent, with_all, 0, activation_none);
    l.size = cut.size;
    l.seed = seed;
    l.depth = std::min(layer_stages(&l, shared_most), depth);
    return l;
}

} // namespace

// Two sets that alternate between many short tiles, in rings of every depth: one set still reads a
// stage when the other has released those behind it.
TEST(hopper_emulated_sets_alternate) {
    int seed = 0;
    for (int depth = hopper_teams; depth <= hopper_stages_most; ++depth) {
        for (const auto &cut : two_sets) {
            if (!test_quick() || ++seed % 5 == 0) {
                layer l =
                    layer_of_short_tiles(cut, (uint64_t)(100 * depth + cut.cout), 2, 1, depth);
                REQUIRE(layer_check<hopper>(&l, "sets alternate"));
            }
        }
    }
}

// One set, in rings of every depth.
TEST(hopper_emulated_rings) {
    int seed = 0;
    for (int depth = hopper_teams; depth <= hopper_stages_most; ++depth) {
        for (const auto &cut : one_set) {
            if (!test_quick() || ++seed % 5 == 0) {
                layer l =
                    layer_of_short_tiles(cut, (uint64_t)(100 * depth + cut.cout), 2, 5, depth);
                REQUIRE(layer_check<hopper>(&l, "rings"));
            }
        }
    }
}

// Tests the test: with two sets, producers that do not wait for a stage's previous content
// (hopper_produce) overtake each other, except in a ring of four stages.
TEST(hopper_emulated_sets_need_both_waits) {
    int wrong[2] = {0, 0}; // of rings of 4 stages; of 5
    for (int seed = 0; seed < 24; ++seed) {
        const auto &cut = two_sets[0];
        layer l = layer_of_short_tiles(cut, (uint64_t)seed, 2, 1, 4 + seed % 2);
        std::vector<int> waits(1024);
        emulate::wait_skipped = [&] { // of a producer's waits, every other one is for `full`
            const int own = (int)threadIdx.x;
            return own >= hopper_consumers(64, 1, 2) && waits[(size_t)own]++ % 2 == 0;
        };
        bool good;
        const std::vector<char> out = layer_run<hopper, __half>(&l, &good);
        emulate::wait_skipped = nullptr;
        good = good && problem_judge(&l.joined.main, out.data()).ratio <= 1;
        wrong[seed % 2] += !good;
    }
    CHECK_EQUAL(wrong[0], 0);
    CHECK(wrong[1] > 0);
}

TEST(hopper_emulated_weights_of_layers) {
    for (int seed = 0; seed < 12; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const layer_weights l = layer_weights_random(&random, numeric_f16, seed);
        const int part = hopper_part_bytes(&l.shape);
        const int64_t total = hopper_weights(&l.shape, part);
        layer_weights_check(
            &l, total * conv_lane_bytes,
            [&](conv_weights_order order, const float *weight, char *to) {
                const auto kernel =
                    order == conv_weights_own ? hopper_pack_kernel<__half>
                    : order == conv_weights_of_layer
                        ? hopper_pack_kernel<__half, conv_weights_of_layer>
                        : hopper_pack_kernel<__half, conv_weights_of_layer_mirrored>;
                weights_pack(kernel, {l.shape, part, weight, 0, total, to, nullptr});
            });
    }
}
