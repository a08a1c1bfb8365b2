// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/linear.cpp: the kernel of conv/linear, emulated on the host (emulate_layers.h). The
// made-up device has few multiprocessors, so that each thread block computes several tiles.
#include "../support/emulate_layers.h"

#include "../../spira/conv/linear/launch.cuh"

using namespace problems;

namespace {

device_info linear_device(int multiprocessors) {
    device_info d = device_made(90, multiprocessors, 232448, true);
    d.tensor_map_encode = emulate::tensor_map_encode;
    return d;
}

// The kernel: see emulate_layers.h.
struct linear {
    static constexpr conv_kernel kernel = conv_kernel_hopper;
    enum { floats = false };
    static const device_info device;
    static bool taken; // whether the last layer was the linear kernel's

    template <typename tag>
    static status run(tag, const conv_params &t, const layer *l) {
        device_info d = device;
        d.shared_max -= l->depth * 1024; // leaves fewer stages
        linear_params p = {};
        p.conv = t;
        taken = linear_takes(&d, t) && linear_map_encode(&d, t, &p.rows);
        return taken ? linear_run<typename tag::element>(&d, &p, nullptr)
                     : hopper_launcher_of<typename tag::element>(t)(&d, t, nullptr);
    }
};

const device_info linear::device = linear_device(2);
bool linear::taken;

struct linear_layer {
    int cin, cout;
    int32_t outputs;
    activation act;
    int depth; // kilobytes of shared memory that are not there
};

layer linear_layer_make(const linear_layer &own, uint64_t seed) {
    random_state random = random_make(seed);
    const conv_shape s = shape_make(1, own.cin, 0, own.cout, seed % 2 ? numeric_f16 : numeric_bf16);
    layer l = layer_of(&random, s, {own.outputs, own.outputs, (int32_t)(seed % 3 * 100)}, 100, 0,
                       seed % 4 ? with_all : 0);
    l.joined.main.identity = true;
    l.joined.main.act = own.act;
    l.sizes = conv_sizes_choose(&s, own.outputs, &linear::device);
    l.depth = own.depth;
    l.programmatic = seed / 2 % 2;
    l.in_place = seed / 3 % 2;
    l.seed = seed;
    return l;
}

} // namespace

// Each number of columns, weights that stay in shared memory and weights that do not, rows around
// tiles, whole and partial chunks, all activations.
TEST(linear_emulated_layers) {
    const linear_layer layers[] = {
        {64, 64, 700, activation_relu, 0},    {72, 40, 129, activation_silu, 0},
        {256, 256, 300, activation_silu, 0},  {192, 520, 257, activation_gelu, 0},
        {128, 128, 1, activation_none, 0},    {1024, 64, 128, activation_leaky, 0},
        {320, 256, 400, activation_silu, 0},  {584, 136, 260, activation_relu, 0},
        {640, 384, 513, activation_gelu, 0},  {256, 64, 127, activation_none, 40},
        {64, 256, 900, activation_relu, 100}, {8, 128, 63, activation_relu, 0}};
    emulate::launched.clear();
    uint64_t seed = 0;
    for (const linear_layer &own : layers) {
        for (int turn = 0; turn < (test_quick() ? 1 : 4); ++turn) {
            layer l = linear_layer_make(own, ++seed);
            REQUIRE(layer_check<linear>(&l, "linear", 2));
            CHECK(linear::taken);
        }
    }
}

// No outputs, and rows behind the last that are there: nothing is read or written.
TEST(linear_emulated_counts) {
    for (int32_t outputs : {0, 1, 64, 127, 128, 129, 255, 256, 385}) {
        for (int cin : {64, 576}) {
            layer l =
                linear_layer_make({cin, 128, outputs, activation_relu, 0}, (uint64_t)outputs + 2);
            REQUIRE(layer_check<linear>(&l, "counts"));
            CHECK(linear::taken || outputs == 0);
        }
    }
}

// Layers that it does not take are Hopper's: unaligned rows, a second source, initial sums.
TEST(linear_emulated_others) {
    layer l = linear_layer_make({60, 64, 200, activation_relu, 0}, 1);
    REQUIRE(layer_check<linear>(&l, "unaligned rows"));
    CHECK(!linear::taken);
    l = linear_layer_make({64, 68, 200, activation_relu, 0}, 2);
    REQUIRE(layer_check<linear>(&l, "unaligned outputs"));
    CHECK(!linear::taken);
}

// Few tiles are Hopper's, and plain layers of few input channels, but not with SiLU.
TEST(linear_pays_for_many_tiles) {
    const device_info d = linear_device(132);
    conv_params p = {};
    p.cin = 1024;
    p.cout = 512;
    p.capacity = 65 * linear_rows;
    CHECK(!linear_pays(&d, p));
    p.capacity += 1;
    CHECK(linear_pays(&d, p));
    p.cin = 512;
    CHECK(!linear_pays(&d, p));
    p.residual = &p;
    CHECK(linear_pays(&d, p));
    p.residual = nullptr;
    p.capacity = 1;
    p.epilogue.act = activation_silu;
    CHECK(linear_pays(&d, p));
}

// Tests the test: warpgroups that do not wait for the rows are found out.
TEST(linear_emulated_waits) {
    int wrong = 0;
    for (uint64_t seed = 1; seed < 9; ++seed) {
        const layer l = linear_layer_make({320, 256, 600, activation_relu, 0}, seed);
        emulate::wait_skipped = [] { return threadIdx.x < 128; };
        wrong += layer_fails<linear>(&l);
        emulate::wait_skipped = nullptr;
    }
    CHECK(wrong > 0);
}
