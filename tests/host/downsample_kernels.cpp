// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/downsample_kernels.cpp: the kernels of index/downsample_*.cuh, run on the host
// (emulate_plane.h), against the host loop: steps in each axis, alone and together, in windows that
// hold a tile and its margins, in longer ones, and in the set itself.
#include "../support/emulate_plane.h"

#include "../support/downsample.h"

#include "../../spira/device.cuh"
#include "../../spira/downsample.cuh"

using namespace spira;

template <typename W>
static void check_step(const word_layout *layout, const std::vector<W> &words, triple from,
                       triple stride) {
    const int32_t count = (int32_t)words.size(), capacity = count + 40;
    std::vector<W> padded = words;
    set_pad(&padded, capacity);
    set_outcome<W> o = {{}, 0, std::vector<W>((size_t)capacity)};
    int32_t given = count;
    const downsample_args<W> args = {layout, {padded.data(), &given, capacity},    from,
                                     stride, {o.words.data(), &o.count, capacity}, &o.trouble};
    size_t bytes = 0;
    CHECK(downsample_is_step(from, stride));
    REQUIRE_OK(downsample_workspace(args.in, capacity, &bytes));
    const device_info gpu = {};
    REQUIRE_OK(downsample(&gpu, &args, guarded_new<char>((int64_t)bytes), bytes, nullptr));
    char label[80];
    snprintf(label, sizeof label, "%d voxels, %d %d %d from %d %d %d", count, stride.x, stride.y,
             stride.z, from.x, from.y, from.z);
    CHECK_EQUAL(
        set_difference(o, downsample_on_host(layout, padded, count, from, stride, capacity), label),
        "");
    guarded_finish();
}

template <typename W>
static void check_steps(triple reach) {
    const struct {
        triple from, stride;
    } steps[] = {
        {{1, 1, 1}, {2, 2, 2}}, {{4, 4, 4}, {8, 4, 4}}, {{1, 1, 1}, {1, 2, 1}},
        {{4, 4, 4}, {4, 4, 8}}, {{4, 4, 4}, {4, 4, 4}}, {{2, 2, 1}, {2, 2, 16}},
    };
    random_state r = random_make(sizeof(W));
    for (int n : {1, 31, 700, 3000}) {
        for (const auto &s : steps) {
            const triple lo = triple_multiply(s.from, {-5, -6, -4}),
                         hi = triple_multiply(s.from, {n < 1000 ? 6 : 1, 9, n < 1000 ? 7 : 40});
            const word_layout layout = reference_layout<W>(lo, hi, 2, s.stride, reach);
            emulate::seed = (uint64_t)n;
            std::vector<W> words = set_random<W>(&r, &layout, lo, hi, n, s.from);
            check_step(&layout, words, s.from, s.stride);
            const std::vector<W> off = set_random<W>(&r, &layout, lo, hi, n / 8 + 1);
            words.insert(words.end(), off.begin(), off.end()); // some off the lattice
            check_step(&layout, set_sorted(words), s.from, s.stride);
        }
    }
}

TEST(downsample_kernels_take_steps) {
    check_steps<uint32_t>({3, 3, 3});
    check_steps<uint64_t>({3, 3, 3});
    check_steps<uint64_t>({3, 1 << 20, 1 << 20}); // searches in the set
}

// Strides that are larger than the fields: a cell is all of an axis.
TEST(downsample_kernels_of_flat_scenes) {
    random_state r = random_make(12);
    for (triple size : {triple{0, 30, 30}, {30, 0, 30}, {30, 30, 0}, {0, 0, 300}}) {
        const word_layout layout =
            reference_layout<uint32_t>({0, 0, 0}, size, 3, {16, 16, 64}, {0, 0, 0});
        const std::vector<uint32_t> words = set_random<uint32_t>(&r, &layout, {0, 0, 0}, size, 200);
        set_outcome<uint32_t> level = {{}, (int32_t)words.size(), words};
        triple from = {1, 1, 1};
        for (triple stride : {triple{1, 2, 1}, {2, 4, 1}, {4, 8, 2}, {8, 16, 64}, {16, 16, 64}}) {
            level.words.resize((size_t)level.count);
            check_step(&layout, level.words, from, stride);
            level = downsample_on_host(&layout, words, (int32_t)words.size(), {}, stride, 200);
            from = stride;
        }
    }
}
