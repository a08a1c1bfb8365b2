// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/exact.cpp: the kernel of conv/exact.cuh in every format, emulated on the host
// (emulate_layers.h): against sums in double, and bit by bit against fmaf in the stated order.
#include "../support/emulate_layers.h"

using namespace problems;

namespace {

int exact_workers = 65535; // thread blocks of a slice

// The kernel: see emulate_layers.h. It has no ring and no shortcuts.
struct exact {
    static constexpr conv_kernel kernel = conv_kernel_exact;
    enum { depth_least = 1, depth_most = 1, floats = true };
    static constexpr int edges[] = {1,  3,  4,  5,  8,  12, 15, 16, 17, 31,  32,  33,
                                    36, 47, 48, 63, 64, 65, 80, 95, 96, 127, 128, 129};
    static const device_info device;

    template <typename tag>
    static status run(tag, const conv_params &t, const layer *) {
        return exact_run<typename tag::element>(t, nullptr, exact_workers);
    }
};

const device_info exact::device = device_made(75, 2, 64 * 1024, false);

// The same layers by the portable kernel.
struct by_portable : exact {
    template <typename tag>
    static status run(tag own, const conv_params &t, const layer *) {
        const device_info d = device_made(86, 2, 99 * 1024, false);
        if constexpr (tag::value == numeric_f32) {
            return portable_run(own, &d, t, nullptr);
        }
        return conv_not_compiled();
    }
};

layer layer_plain(random_state *random, const conv_shape &s, const layer_rows &rows, int percent) {
    layer l = layer_of(random, s, rows, percent, 0, 0);
    l.joined.main.act = activation_none;
    l.sizes = exact_sizes_choose(&s);
    return l;
}

} // namespace

TEST(exact_emulated_random_layers) {
    layers_random<exact>(test_quick() ? 8 : 32, false);
}

TEST(exact_emulated_every_count) {
    layers_every_count<exact>();
}

TEST(exact_emulated_many_offsets) {
    int turn = 0;
    for (int volume : {70, 1025, (int)kernel_volume_max}) {
        random_state random = random_make((uint64_t)++turn);
        layer l =
            layer_plain(&random, shape_make(volume, 7, 0, 66, numerics[turn]), {33, 65, 9}, 1);
        REQUIRE(layer_check<exact>(&l, "many offsets"));
    }
}

// Of each of three element types both variants; the kernel that packs weights.
TEST(exact_emulated_every_kernel) {
    std::vector<layer_cut> cuts;
    for (int slices : {1, 2}) {
        for (const layer_cut &c : {layer_cut{{}, 4, 0, 16}, layer_cut{{}, 16, 5, 33},
                                   layer_cut{{}, 64, 0, 64}, layer_cut{{}, 19, 3, 100}}) {
            cuts.push_back({{1, slices, 1, 1}, c.cin, c.cin2, c.cout});
        }
    }
    layers_every_kernel<exact>(cuts, false, 3 * 2 + 1);
}

TEST(exact_emulated_many_channels) {
    layers_many_channels<exact>(false);
}

TEST(exact_emulated_same_bits) {
    for (numeric type : numerics) {
        layers_same_bits<exact>(shape_make(5, 50, 20, 100, type), 2);
    }
}

TEST(exact_emulated_slices) {
    layers_slices<exact>(slices_tested);
    layers_slices<exact>(slices_narrow);
}

TEST(exact_emulated_negative_counts) {
    layers_negative_counts<exact>(shape_make(5, 20, 0, 40, numeric_f32), {1, 2, 1, 1});
}

TEST(exact_emulated_weights_beyond) {
    for (numeric type : numerics) {
        layers_weights_beyond<exact>(type, 6, 40);
    }
}

TEST(exact_emulated_weights_of_gradients) {
    for (numeric type : numerics) {
        layers_weights_of_gradients<exact>(type);
    }
}

TEST(exact_emulated_planted_errors_are_found) {
    for (numeric type : numerics) {
        layers_planted_errors<exact>(type, {1, 2, 1, 1}, 40);
    }
}

// Where a grid has room for fewer tiles than there are, a thread block has several.
TEST(exact_emulated_several_tiles) {
    for (numeric type : numerics) {
        random_state random = random_make((uint64_t)type);
        layer l = layer_plain(&random, shape_make(3, 20, 0, 40, type), {300, 900, 9}, 8);
        layer_name(&l, "several tiles");
        const std::vector<char> out = layer_run<exact>(&l);
        exact_workers = 3;
        CHECK(layer_run<exact>(&l) == out);
        exact_workers = 65535;
    }
}

// In fp32 the portable kernel reads the same packed weights and gives the same bits, epilogue and
// all.
TEST(exact_emulated_bits_of_the_portable_kernel) {
    for (int seed = 0; seed < 6; ++seed) {
        random_state random = random_make((uint64_t)seed);
        const conv_shape s = shape_make(9, 20 + seed, seed % 2 * 7, 40 + seed, numeric_f32);
        layer l = layer_of(&random, s, {100, 300, 9}, 20);
        l.sizes = {1, 2, 1, 1};
        l.summed = seed % 3;
        CHECK(layer_run<exact>(&l) == layer_run<by_portable>(&l));
    }
}

// A source row of infinities is multiplied where the map has it, and nowhere else: not by the
// padding of its last chunk.
TEST(exact_emulated_infinity_stays_where_it_is) {
    for (numeric type : numerics) {
        random_state random = random_make((uint64_t)type);
        layer l = layer_plain(&random, shape_make(3, 18, 5, 40, type), {100, 130, 9}, 30);
        problem *p = &l.joined.main;
        for (int i = 0; i < p->shape.cin; ++i) {
            p->in[(size_t)i] = INFINITY; // row 0
        }
        for (float &w : p->weight) {
            w = fabsf(w) + 0.125f;
        }
        p->map[0] = 0; // output 0, offset 0
        const std::vector<char> out = layer_run<exact>(&l);
        const std::vector<char> expected = features_store(type, sums_in_order(p));
        CHECK(!memcmp(out.data(), expected.data(), expected.size()));
    }
}

// Tests the test: exact fp32 with operands of tf32 is found, and tf32 without its rounding.
TEST(exact_emulated_rounding_is_found) {
    random_state random = random_make(7);
    layer l = layer_plain(&random, shape_make(3, 24, 0, 32, numeric_f32), {90, 100, 9}, 50);
    REQUIRE(layer_check<exact>(&l, "exact"));
    const problem p = l.joined.main;
    l.joined.main.shape.type = numeric_tf32;
    const std::vector<char> rounded = layer_run<exact>(&l);
    CHECK(!(problem_judge(&p, rounded.data()).ratio <= 1));
    const std::vector<float> expected = sums_in_order(&l.joined.main);
    CHECK(!memcmp(rounded.data(), expected.data(), expected.size() * sizeof(float)));
}

// Tests the test: a wait that is left out is found.
TEST(exact_emulated_barriers_are_needed) {
    random_state random = random_make(5);
    layer l = layer_plain(&random, shape_make(9, 64, 0, 64, numeric_f16), {200, 300, 9}, 30);
    bool found = false;
    for (int seed = 0; seed < 8 && !found; ++seed) {
        l.seed = (uint64_t)seed;
        emulate::barriers_skipped = true;
        found = layer_fails<exact>(&l);
        emulate::barriers_skipped = false;
    }
    CHECK(found);
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
