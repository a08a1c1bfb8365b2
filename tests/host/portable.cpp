// tests/host/portable.cpp: the kernel of conv/portable.cuh, emulated on the host (emulate_mma.h)
// and compared with sums in double. The made-up device has few multiprocessors, so that each thread
// block computes several tiles.
#include "../support/emulate_mma.h"

#include "../support/emulate_layers.h"

#include "../../spira/conv/portable.cuh"

using namespace problems;

namespace {

enum { multiprocessors = 2, shared_most = 99 * 1024 };

const device_info device = device_made(86, multiprocessors, shared_most, false);

// The device that gives the layer's ring its depth.
device_info layer_device(const layer *l) {
    device_info d = device;
    const int columns = 32 * l->size.slices, rows = 128 * l->size.tiles;
    auto depth = [&] {
        const int resident = portable_resident_on(columns, rows, d.shared_max);
        return portable_stages(columns, rows, resident, d.shared_max);
    };
    while (l->depth && depth() > l->depth) {
        d.shared_max -= 1024;
    }
    d.programmatic = l->programmatic;
    return d;
}

// The kernel: see emulate_layers.h.
struct portable {
    enum { depth_least = portable_stages_least, depth_most = portable_stages_most, floats = true };

    template <typename E>
    static const void *weights(const conv_shape *s, bool, const std::vector<float> &weight) {
        const int64_t total = conv_tensor_weights(s);
        E *packed = guarded_new<E>(total * conv_lane_bytes / (int64_t)sizeof(E));
        CHECK_OK(kernel_launch(conv_tensor_pack_kernel<E>, (unsigned)ceil_div(total, 256), 256, 0,
                               false, 1, nullptr, "pack", *s, weight.data(), total, packed));
        return packed;
    }

    static int shortcut_parts(const conv_shape *s) {
        return conv_shape_chunks(s);
    }

    static void params(const conv_shape *s, conv_tensor_params *t) {
        t->chunks1 = conv_chunks(s->cin, s->type);
        t->chunks = conv_shape_chunks(s);
    }

    template <typename E>
    static status run(const conv_tensor_params &t, const layer *l) {
        const device_info d = layer_device(l);
        return portable_run<E>(t, &d, nullptr);
    }
};

const int edges[] = {1,  16, 17, 31, 32,  33,  34,  40,  48,  63,  64,  65,
                     80, 95, 96, 97, 100, 127, 128, 129, 160, 192, 255, 256};
const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32};

// A random layer.
layer layer_random(random_state *random, bool shortcut) {
    layer l = {};
    const numeric type = formats[random_int(random, 0, 2)];
    conv_shape s =
        shape_random(random, random_int(random, 0, 9) ? random_int(random, 1, 9) : 40, type, edges);
    s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 300) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 200);
    const int cin = shortcut ? channels_random(random, edges) : 0;
    l.joined = joined_make(random, s, cin, shortcut && random_int(random, 0, 1) ? (cin + 1) / 2 : 0,
                           inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 1, 3, 15, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_leaky));
    static conv_sizes sizes[conv_sizes_most];
    l.size = sizes[random_int(random, 0, portable_sizes_list(&device, sizes) - 1)];
    layer_vary<portable>(random, &l);
    return l;
}

} // namespace

TEST(portable_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 8 : 24); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, seed % 3 == 0);
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
                {{1, 3, 1, 1}, 40, 96},
                {{1, 4, 1, 1}, 33, 128},
                {{2, 4, 1, 1}, 64, 130}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &cut : cuts) {
        for (numeric type : formats) {
            for (bool shortcut : {false, true}) {
                random_state random = random_make((uint64_t)++seed);
                const conv_shape s = shape_make(4, cut.cin, 0, cut.cout, type);
                layer l = {};
                l.joined =
                    joined_make(&random, s, shortcut ? 36 : 0, 0, 200, 300 * cut.size.tiles, 9);
                joined_fill(&random, &l.joined, 5, with_all, with_all, activation_relu);
                l.size = cut.size;
                REQUIRE(portable_sizes_fit(&device, &l.size));
                l.programmatic = true;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<portable>(&l, "every kernel", 1));
            }
        }
    }
    // Of each format four variants, and the kernel that packs weights.
    CHECK_EQUAL(launched.size(), (size_t)(3 * (4 + 1)));
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
            l.size = {turn % 2 ? 1 + turn / 2 % 2 : 1, turn % 2 ? 4 : 2 + turn % 3 / 2, 1, 1};
            l.seed = (uint64_t)turn;
            REQUIRE(layer_check<portable>(&l, "counts", 1));
        }
    }
}

// Many short tiles, in rings of every depth.
TEST(portable_emulated_rings) {
    for (int depth = portable_stages_least; depth <= portable_stages_most; ++depth) {
        random_state random = random_make((uint64_t)depth);
        const conv_shape s = shape_make(3, random_int(&random, 33, 70), 0, 64, numeric_f16);
        layer l = {};
        l.joined = joined_make(&random, s, 0, 0, 200, 900, 0);
        joined_fill(&random, &l.joined, 2, with_all, 0, activation_none);
        l.size = {1, 2, 1, 1};
        l.seed = (uint64_t)depth;
        l.depth = depth;
        REQUIRE(layer_check<portable>(&l, "rings", test_quick() ? 1 : 2));
    }
}

// All variants give the same bits: the order of the additions does not depend on them.
TEST(portable_emulated_same_bits) {
    for (numeric type : formats) {
        random_state random = random_make((uint64_t)type);
        const conv_shape s = shape_make(5, 50, 20, 100, type);
        layer l = {};
        l.joined = joined_make(&random, s, 0, 0, 100, 300, 5);
        joined_fill(&random, &l.joined, 20, with_all, 0, activation_leaky);
        static conv_sizes sizes[conv_sizes_most];
        const int count = portable_sizes_list(&device, sizes);
        CHECK_EQUAL(count, 4);
        std::vector<char> first;
        for (int i = 0; i < count; ++i) {
            l.size = sizes[i];
            layer_name(&l, "same bits");
            const std::vector<char> out = layer_run_any<portable>(&l);
            CHECK(i == 0 || out == first);
            first = out;
        }
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(portable_emulated_planted_errors_are_found) {
    for (numeric type : formats) {
        random_state random = random_make(37);
        problem good = problem_make(&random, {4, 6, 0, 40, type}, 60, 80, 80);
        problem_fill_map(&random, &good, 40);
        check_planted_errors(good, [](const problem *p) {
            layer l = {};
            l.joined.main = *p;
            l.size = {1, 2, 1, 1};
            return layer_run_any<portable>(&l);
        });
    }
}

// Tests the test: a ring that does not wait for its copies is found.
TEST(portable_emulated_copies_are_waited_for) {
    random_state random = random_make(5);
    layer l = {};
    l.joined = joined_make(&random, shape_make(9, 64, 0, 64, numeric_f16), 0, 0, 200, 300, 0);
    joined_fill(&random, &l.joined, 30, with_all, 0, activation_none);
    l.size = {1, 2, 1, 1};
    emulate::copies_skipped = true;
    const std::vector<char> out = layer_run_any<portable>(&l);
    emulate::copies_skipped = false;
    CHECK(!(problem_judge(&l.joined.main, out.data()).ratio <= 1));
}

// Which kernel reads which form of map (conv/choice.cuh), and how layers are cut on GPUs with much
// and with little shared memory.
TEST(portable_sizes) {
    const device_info h200 = device_made(90, 132, 227 * 1024, false);
    const device_info ada = device_made(89, 76, 99 * 1024, false);
    const struct {
        int cout, columns;
    } expected[] = {{16, 64},  {33, 64},   {64, 64},   {65, 96},   {96, 96},
                    {97, 128}, {128, 128}, {160, 96},  {192, 96},  {256, 128},
                    {320, 64}, {384, 128}, {512, 128}, {1024, 128}};
    for (const auto &e : expected) {
        CHECK_EQUAL(portable_columns_choose(e.cout), e.columns);
        for (const device_info *d : {&h200, &ada}) {
            for (int32_t capacity : {1, 1000, 100000, 3000000}) {
                const conv_shape s = shape_make(27, 64, 0, e.cout, numeric_f16);
                const conv_sizes c = portable_sizes_choose(&s, capacity, d);
                CHECK(portable_sizes_fit(d, &c));
                const int columns = 32 * c.slices, rows = 128 * c.tiles;
                const int resident = portable_resident_on(columns, rows, d->shared_max);
                const int depth = portable_stages(columns, rows, resident, d->shared_max);
                CHECK(depth >= portable_stages_least && depth <= portable_stages_most);
                const int bytes = depth * portable_stage_bytes(columns, rows) +
                                  portable_fixed_bytes(columns) + 1024;
                CHECK(resident * bytes <= d->shared_max + 1024);
            }
        }
    }
    conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    CHECK(portable_takes(&s, &h200));
    s.type = numeric_f32;
    CHECK(!portable_takes(&s, &h200));
    s = shape_make(portable_volume_most + 1, 64, 0, 64, numeric_f16);
    CHECK(!portable_takes(&s, &h200));
    s.volume = portable_volume_most;
    const device_info hopper = device_made(90, 132, 227 * 1024, true);
    const device_info turing = device_made(75, 40, 64 * 1024, false);
    CHECK(portable_takes(&s, &ada) && !portable_takes(&s, &hopper) && !portable_takes(&s, &turing));
}
