// tests/host/narrow.cpp: the kernel of conv/narrow.cuh, emulated on the host (emulate_mma.h) and
// compared with sums in double.
#include "../support/emulate_mma.h"

#include "../support/emulate_layers.h"

// Weights stay as they are where an offset has no sources, which are not multiplied then.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "../../spira/conv/narrow.cuh"

using namespace problems;

namespace {

const device_info device = device_made(90, 2, 227 * 1024, true);

// The kernel: see emulate_layers.h.
struct narrow {
    enum { depth_least = 1, depth_most = 1, floats = false };

    template <typename E>
    static const void *weights(const conv_shape *s, bool, const std::vector<float> &weight) {
        const int64_t total = narrow_weights(s);
        E *packed = guarded_new<E>(total * conv_lane_bytes / 2);
        weights_pack(narrow_pack_kernel<E>, {*s, 0, weight.data(), 0, total, packed, nullptr});
        return packed;
    }

    static int shortcut_parts(const conv_shape *) {
        return 0;
    }

    static void params(const conv_shape *, conv_params *t) {
        t->multiprocessors = device.multiprocessors;
    }

    template <typename E>
    static status run(const conv_params &t, const layer *) {
        return narrow_run<E>(t, nullptr);
    }
};

const int edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 28, 31, 32};

// A random layer.
layer layer_random(random_state *random, numeric type) {
    layer l = {};
    conv_shape s = {};
    do {
        const bool few = random_int(random, 0, 9) > 0;
        s = shape_random(random, few ? random_int(random, 1, 12) : 40, type, edges);
        s.cin2 = 0;
    } while (!narrow_takes(&s, &device));
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 420) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 300);
    l.joined = joined_make(random, s, 0, 0, inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 3, 15, 40, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), 0,
                (activation)random_int(random, activation_none, activation_count - 1));
    l.size = {1, 1, 1 << random_int(random, 0, s.volume > 1 ? 2 : 0), 1};
    layer_vary<narrow>(random, &l);
    return l;
}

} // namespace

TEST(narrow_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 12 : 80); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, seed % 2 ? numeric_f16 : numeric_bf16);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<narrow>(&l, what, seed % 4 ? 1 : 2));
    }
}

// Every variant, of both types, aligned and not, with each number of warps that share places, and a
// residual.
TEST(narrow_emulated_every_kernel) {
    const int channels[][2] = {{16, 16}, {16, 32}, {32, 16}, {32, 32}, {15, 7},
                               {9, 30},  {27, 9},  {4, 16},  {4, 32},  {3, 5},
                               {2, 17},  {8, 16},  {8, 32},  {5, 7},   {7, 31}};
    std::set<const void *> &launched = emulate::launched;
    launched.clear();
    int seed = 0;
    for (const auto &c : channels) {
        for (numeric type : {numeric_f16, numeric_bf16}) {
            for (int split = 1; split <= 4; split *= 2) {
                random_state random = random_make((uint64_t)++seed);
                layer l = {};
                l.joined = joined_make(&random, shape_make(9, c[0], 0, c[1], type), 0, 0, 200,
                                       test_quick() ? 200 : 400, 9);
                joined_fill(&random, &l.joined, 40, with_all, 0, activation_relu);
                l.size = {1, 1, split, 1};
                l.programmatic = seed % 2;
                l.seed = (uint64_t)seed;
                REQUIRE(layer_check<narrow>(&l, "every kernel", 1));
            }
        }
    }
    // Of each format, aligned and not: 4, 8, 16, 32 to 16 and 32 channels, but one; and the kernel
    // that packs weights.
    CHECK_EQUAL(launched.size(), (size_t)(2 * (2 * 4 * 2 - 1 + 1)));
}

TEST(narrow_emulated_negative_counts) {
    layer_negative_counts<narrow>(numeric_f16, {1, 1, 2, 1}, 16, 16);
}

// Outputs around row groups and their pairs; kernels of one to many offsets.
TEST(narrow_emulated_every_count) {
    int turn = 0;
    for (int outputs : {0, 1, 31, 32, 33, 63, 64, 65, 128, 129, 257}) {
        for (int volume : {1, 3, 27, 40, 125}) {
            random_state random = random_make((uint64_t)++turn);
            if (test_quick() && turn % 4) {
                continue;
            }
            layer l = {};
            l.joined =
                joined_make(&random, shape_make(volume, 16, 0, 16, numeric_f16), 0, 0,
                            volume == 1 ? outputs : outputs / 2 + 1, outputs, turn % 3 * 70 + 1);
            joined_fill(&random, &l.joined, volume > 27 ? 1 : 12, with_all, 0, activation_none);
            l.size = {1, 1, volume == 1 ? 1 : 1 << turn % 3, 1};
            l.in_place = turn % 2;
            l.seed = (uint64_t)turn;
            REQUIRE(layer_check<narrow>(&l, "counts", 1));
        }
    }
}

TEST(narrow_emulated_weights_beyond) {
    for (numeric type : {numeric_f16, numeric_bf16}) {
        for (int cin : {3, 8, 16, 32}) {
            layer_weights_beyond<narrow>(type, {1, 1, 2, 1}, cin, 16);
        }
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(narrow_emulated_planted_errors_are_found) {
    for (numeric type : {numeric_f16, numeric_bf16}) {
        layer_planted_errors<narrow>(type, {1, 1, 2, 1}, 16);
    }
}
