// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/curve.cpp: curve.h against the curves' inverse, and its kernels, run on the host.
#include "../support/emulate_numeric.h"

#include "../support/curves.h"

#include "../../spira/curve.cuh"

using namespace spira;

namespace {

template <typename W>
const curve_side<W> by_host = {&memory_host, curve_order_host_workspace<W>, curve_order_host<W>};

template <typename W>
const curve_side<W> by_kernel = {&memory_host, curve_order_workspace<W>,
                                 [](const curve_args<W> *a, void *scratch, size_t bytes) {
                                     return curve_order<W>(a, scratch, bytes, nullptr);
                                 }};

TEST(curve_host_random) {
    curve_check_random(1, 200, 300, &by_host<uint32_t>);
    curve_check_random(2, 200, 300, &by_host<uint64_t>);
}

TEST(curve_emulated_random) {
    curve_check_random(3, 4, 500, &by_kernel<uint32_t>);
    curve_check_random(4, 4, 500, &by_kernel<uint64_t>);
}

// Hilbert's curve goes through every cell of the cube, one step at a time; its first eight cells
// are known. A cell's place is that of its children >> 3.
TEST(curve_hilbert_is_a_walk) {
    const int first[8][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0},
                             {1, 1, 0}, {1, 1, 1}, {1, 0, 1}, {1, 0, 0}};
    for (int i = 0; i < 8; ++i) {
        CHECK(curve_place(curve_hilbert, 1, {first[i][0], first[i][1], first[i][2]}) ==
              (uint64_t)i);
    }
    for (int depth = 1; depth <= 4; ++depth) {
        const int side = 1 << depth;
        std::vector<std::array<int, 3>> at((size_t)side * side * side, {-1, -1, -1});
        for (int i = 0; i < side * side * side; ++i) {
            const triple cell = {i / side / side, i / side % side, i % side};
            const uint64_t place = curve_place(curve_hilbert, depth, cell);
            CHECK(place < at.size() && at[(size_t)place][0] < 0);
            at[(size_t)place] = {cell.x, cell.y, cell.z};
            for (const curve_kind kind : {curve_z, curve_hilbert}) {
                CHECK(depth == 1 ||
                      curve_place(kind, depth, cell) >> 3 ==
                          curve_place(kind, depth - 1, {cell.x / 2, cell.y / 2, cell.z / 2}));
            }
        }
        for (size_t i = 1; i < at.size(); ++i) {
            int steps = 0;
            for (size_t a = 0; a < 3; ++a) {
                steps += abs(at[i][a] - at[i - 1][a]);
            }
            CHECK(steps == 1);
        }
    }
}

// Codes that were computed elsewhere: z, z swapped, Hilbert, Hilbert swapped.
TEST(curve_known_codes) {
    const struct {
        triple cell;
        int depth;
        uint64_t code[curve_count];
    } known[] = {{{0, 0, 1}, 3, {1, 1, 3, 3}},
                 {{0, 1, 0}, 3, {2, 4, 7, 1}},
                 {{1, 0, 0}, 3, {4, 2, 1, 7}},
                 {{1, 2, 3}, 3, {29, 43, 48, 38}},
                 {{5, 0, 2}, 3, {268, 138, 479, 205}},
                 {{7, 7, 7}, 3, {511, 511, 365, 365}},
                 {{1, 2, 3}, 10, {29, 43, 36, 0}},
                 {{1023, 943, 435}, 10, {938728895, 0, 631680429, 0}},
                 {{65535, 0, 1}, 16, {160842843834661, 0, 281474976710654, 0}}};
    for (const auto &one : known) {
        for (int kind = 0; kind < curve_count; ++kind) {
            if (one.code[kind]) { // the others are not known
                CHECK_EQUAL(curve_place((curve_kind)kind, one.depth, one.cell), one.code[kind]);
            }
        }
    }
}

TEST(curve_depths) {
    CHECK(curve_depth({0, 0, 0}) == 1 && curve_depth({1, 0, 0}) == 1);
    CHECK(curve_depth({3, 4, 1}) == 3 && curve_depth({65535, 0, 0}) == 16);
}

TEST(curve_refuses) {
    random_state r = random_make(5);
    curve_problem<uint32_t> p = curve_random<uint32_t>(&r, 50);
    device_status trouble = {};
    std::vector<int32_t> order(p.words.size());
    typedef curve_args<uint32_t> A;
    A good = p.args;
    good.layout = &p.layout;
    good.set = {p.words.data(), &p.count, (int32_t)p.words.size()};
    good.order = order.data();
    good.trouble = &trouble;
    CHECK_OK(curve_check(&good));
    const struct {
        void (*spoil)(A *);
        status_code code;
        const char *subject;
    } bad[] = {
        {[](A *a) { a->layout = nullptr; }, status_null_pointer, "layout"},
        {[](A *a) { a->set.words = nullptr; }, status_null_pointer, "set.words"},
        {[](A *a) { a->order = nullptr; }, status_null_pointer, "order"},
        {[](A *a) { a->trouble = nullptr; }, status_null_pointer, "trouble"},
        {[](A *a) { a->code = (uint64_t *)((char *)a->set.words + 1); }, status_alignment, "code"},
        {[](A *a) { a->rank = (int32_t *)((char *)a->order + 1); }, status_alignment, "rank"},
        {[](A *a) { a->stride.y = 0; }, status_stride, "stride"},
        {[](A *a) { a->depth = 0; }, status_bad_size, "depth"},
        {[](A *a) { a->depth = 17; }, status_bad_size, "depth"},
        {[](A *a) { a->kind = curve_count; }, status_unsupported, "kind"},
    };
    alignas(256) char scratch[256];
    for (const auto &one : bad) {
        A a = good;
        one.spoil(&a);
        const status s = curve_order(&a, scratch, sizeof scratch, nullptr);
        CHECK(s.code == one.code && strstr(s.subject, one.subject));
        CHECK(curve_order_host(&a, scratch, sizeof scratch).code == one.code);
    }
    CHECK(curve_order(&good, scratch, 1, nullptr).code == status_workspace);
    CHECK(curve_order<uint32_t>(nullptr, scratch, 1, nullptr).code == status_null_pointer);
}

} // namespace
