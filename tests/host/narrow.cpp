// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/narrow.cpp: the kernel of conv/narrow.cuh, emulated on the host (emulate_layers.h).

// Weights stay as they are where an offset has no sources, which are not multiplied then.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "../support/emulate_i8.h"

using namespace problems;

namespace {

// The kernel: see emulate_layers.h.
struct narrow {
    static constexpr conv_kernel kernel = conv_kernel_narrow;
    enum { depth_least = 1, depth_most = 1, floats = false };
    static constexpr int edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 28, 31, 32};
    static const device_info device;

    template <typename tag>
    static status run(tag, const conv_params &t, const layer *) {
        return narrow_run<typename tag::element>(t, nullptr);
    }

    template <bool mixed, typename tag>
    static status run(tag, const conv_params &t) {
        if constexpr (sizeof(typename tag::element) == 2) {
            return narrow_run<typename tag::element, mixed>(t, nullptr);
        }
        return conv_not_compiled();
    }

    // The same of int8 (emulate_i8.h).
    static status run(const conv_params &t, const i8_layer *) {
        return narrow_run<int8_t>(t, nullptr);
    }
};

const device_info narrow::device = device_made(86, 2, 99 * 1024, false);

} // namespace

TEST(narrow_emulated_random_layers) {
    layers_random<narrow>(test_quick() ? 12 : 80, false);
}

// Layers of int8, to the bit, by every variant: rows of up to 8, 16 and 32 bytes, and those that
// are not aligned.
TEST(narrow_emulated_i8) {
    emulate::launched.clear();
    i8_layers_check<narrow>({{9, 16, 0, 16, numeric_i8},
                             {9, 32, 0, 32, numeric_i8},
                             {9, 16, 0, 32, numeric_i8},
                             {9, 5, 0, 7, numeric_i8},
                             {40, 8, 0, 20, numeric_i8},
                             {3, 8, 0, 12, numeric_i8},
                             {1, 24, 0, 16, numeric_i8},
                             {8, 12, 0, 32, numeric_i8},
                             {4, 31, 0, 31, numeric_i8}});
    CHECK_EQUAL(test_quick() ? 6 + 2 + 1 : emulate::launched.size(), 6 + 2 + 1);
}

TEST(narrow_emulated_mixed_formats) {
    mixed_check<narrow>(numeric_f16, 1, 16, 16);
    mixed_check<narrow>(numeric_bf16, 2, 7, 31);
    mixed_check<narrow>(numeric_f16, 3, 32, 20);
}

TEST(narrow_emulated_every_count) {
    layers_every_count<narrow>();
}

// Of each format, aligned and not: up to 4 or 8 input channels, 16, 32 to 16 and 32 channels; and
// the kernel that packs weights. Each with every number of warps that share places.
TEST(narrow_emulated_every_kernel) {
    const int channels[][2] = {{16, 16}, {16, 32}, {32, 16}, {32, 32}, {15, 7}, {9, 30},
                               {27, 9},  {25, 20}, {4, 16},  {4, 32},  {3, 5},  {2, 17},
                               {8, 16},  {8, 32},  {5, 7},   {7, 31}};
    std::vector<layer_cut> cuts;
    for (const auto &c : channels) {
        for (int split = 1; split <= 4; split *= 2) {
            cuts.push_back({{1, 1, split, 1}, c[0], 0, c[1]});
        }
    }
    layers_every_kernel<narrow>(cuts, false, 2 * (8 + 4 + 1));
}

TEST(narrow_emulated_slices) {
    layers_slices<narrow>(slices_narrow);
}

TEST(narrow_emulated_negative_counts) {
    layers_negative_counts<narrow>(shape_make(5, 16, 0, 16, numeric_f16), {1, 1, 2, 1});
}

TEST(narrow_emulated_weights_beyond) {
    for (numeric type : layer_formats<narrow>()) {
        for (int cin : {3, 8, 16, 32}) {
            layers_weights_beyond<narrow>(type, cin, 16);
        }
    }
}

// Tests the test: one wrong weight, tap, source row or epilogue is found.
TEST(narrow_emulated_planted_errors_are_found) {
    for (numeric type : layer_formats<narrow>()) {
        layers_planted_errors<narrow>(type, {1, 1, 2, 1}, 16);
    }
}
