// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/exchange.cpp: the forms of exchange.h equal the maps that each engine would build from
// the same voxels.
#include "../support/reference_exchange.h"

#include <array>

using namespace spira;

// ---- weights ------------------------------------------------------------------------------------

// The weights as each engine's documentation nests them, outermost first; a weight's value encodes
// its place: offset x, y, z, channels i, o.
static std::vector<int> engine_weights(weight_order order, const weight_shape &s) {
    const bool z_fastest = order == weight_order_spira || (order == weight_order_torchsparse &&
                                                           s.size.x * s.size.y * s.size.z % 2 == 0);
    const char *nest = order == weight_order_spconv ? "ozyxi" : z_fastest ? "xyzio" : "zyxio";
    auto axis = [&](char name) { return strchr("xyzio", name) - "xyzio"; };
    const int size[5] = {s.size.x, s.size.y, s.size.z, s.cin, s.cout};
    std::vector<int> weights;
    for (int n = 0; n < size[0] * size[1] * size[2] * size[3] * size[4]; ++n) {
        int at[5], left = n, value = 0;
        for (int level = 4; level >= 0; --level) {
            at[axis(nest[level])] = left % size[axis(nest[level])];
            left /= size[axis(nest[level])];
        }
        for (int i : at) {
            value = value * 16 + i;
        }
        weights.push_back(value);
    }
    return weights;
}

TEST(weight_reorder_from_every_engine) {
    const triple sizes[] = {{3, 3, 3}, {2, 2, 2}, {5, 5, 5}, {1, 1, 3}, {3, 2, 5},
                            {1, 3, 5}, {4, 2, 3}, {1, 1, 1}, {2, 3, 1}};
    for (weight_order order : {weight_order_spira, weight_order_spconv, weight_order_torchsparse,
                               weight_order_minkowski}) {
        for (triple n : sizes) {
            for (std::array<int, 2> c : {std::array<int, 2>{1, 1}, {2, 3}, {5, 4}, {1, 7}}) {
                const weight_shape shape = {n, c[0], c[1]};
                const std::vector<int> source = engine_weights(order, shape),
                                       wanted = engine_weights(weight_order_spira, shape);
                int *target = guarded_new<int>((int64_t)source.size());
                REQUIRE_OK(weight_reorder(order, &shape, sizeof(int), source.data(), target));
                CHECK(std::equal(wanted.begin(), wanted.end(), target));
            }
        }
    }
}

TEST(weight_reorder_takes_any_element) {
    const weight_shape three = {{3, 1, 1}, 1, 1}, single = {{1, 1, 1}, 1, 1};
    const char source[2 * 3 + 1] = "aAbBcC"; // [volume 3, cin 1, cout 1] of two bytes
    char *target = guarded_new<char>(6);
    REQUIRE_OK(weight_reorder(weight_order_spconv, &three, 2, source, target));
    CHECK_EQUAL(memcmp(target, source, 6), 0);
    double one = 1, copy = 0;
    REQUIRE_OK(weight_reorder(weight_order_minkowski, &single, sizeof one, &one, &copy));
    CHECK_EQUAL(copy, 1.0);
}

TEST(weight_reorder_refuses) {
    float a[27] = {}, b[27];
    auto run = [&](int order, weight_shape s, size_t size) {
        return weight_reorder((weight_order)order, &s, size, a, b);
    };
    const weight_shape s = {{3, 3, 3}, 1, 1};
    CHECK_OK(run(weight_order_spconv, s, 4));
    CHECK_STATUS(weight_reorder(weight_order_spconv, nullptr, 4, a, b), status_null_pointer);
    CHECK_STATUS(weight_reorder(weight_order_spconv, &s, 4, nullptr, b), status_null_pointer);
    CHECK_STATUS(weight_reorder(weight_order_spconv, &s, 4, a, nullptr), status_null_pointer);
    CHECK_STATUS(run(4, s, 4), status_unsupported);
    CHECK_STATUS(run(-1, s, 4), status_unsupported);
    CHECK_STATUS(run(1, {s.size, 0, 1}, 4), status_bad_size);
    CHECK_STATUS(run(1, {s.size, 1, -1}, 4), status_bad_size);
    CHECK_STATUS(run(1, s, 0), status_bad_size);
    CHECK_STATUS(run(1, {{3, 0, 3}, 1, 1}, 4), status_kernel_size);
    CHECK_STATUS(run(1, {{3, 3, 16}, 1, 1}, 4), status_kernel_size);
}

// ---- one map, in all forms ----------------------------------------------------------------------

static const test_memory *const memory = &memory_host;

template <typename W>
static status layer_run(const engine_layer<W> *l) {
    const map_request<W> request = {l->kernel, l->source, l->outputs,
                                    map_forms_none(0, false, l->trouble)};
    SPIRA_TRY(map_build_lists_host(&l->layout, &request, &l->pairs));
    for (const exchange_lists &to : l->buffers.to) {
        SPIRA_TRY(exchange_host(&l->pairs, &to, l->trouble));
    }
    return status_success();
}

static const auto check = engine_checker(memory, [](auto *l) { return layer_run(l); });

// ---- orders -------------------------------------------------------------------------------------

TEST(exchange_orders_turn_back) {
    for (triple size : {triple{1, 1, 1}, triple{3, 3, 3}, triple{2, 2, 2}, triple{2, 3, 4},
                        triple{5, 1, 3}, triple{15, 14, 13}, triple{1, 1, 15}, triple{7, 2, 1}}) {
        int volume = size.x * size.y * size.z;
        for (weight_order order : {weight_order_spira, weight_order_spconv,
                                   weight_order_torchsparse, weight_order_minkowski}) {
            for (int k = 0; k < volume; ++k) {
                int place = exchange_place(order, size, k);
                REQUIRE(place >= 0 && place < volume);
                CHECK_EQUAL(exchange_offset(order, size, place), k);
            }
        }
    }
}

TEST(exchange_orders_by_hand) {
    const triple size = {2, 3, 4}; // spira's k is (ix * 3 + iy) * 4 + iz
    CHECK_EQUAL(exchange_place(weight_order_spconv, size, 1), 6);    // iz = 1: over 3 * 2
    CHECK_EQUAL(exchange_place(weight_order_spconv, size, 4), 2);    // iy = 1: over 2
    CHECK_EQUAL(exchange_place(weight_order_spconv, size, 12), 1);   // ix = 1
    CHECK_EQUAL(exchange_place(weight_order_minkowski, size, 4), 2); // the same
    CHECK_EQUAL(exchange_place(weight_order_torchsparse, size, 4), 4);
    CHECK_EQUAL(exchange_place(weight_order_torchsparse, {3, 3, 3}, 1), 9);
    CHECK_EQUAL(exchange_offset(weight_order_spconv, size, 1), 12);
    CHECK_EQUAL(exchange_offset(weight_order_spconv, size, 6), 1);
    CHECK_EQUAL(exchange_offset(weight_order_spira, size, 5), 5);
}

// Two voxels; every number is worked out by hand.
TEST(exchange_two_voxels_by_hand) {
    kernel_shape k = {{3, 1, 2}, {1, 1, 1}, {1, 1, 1}, false};
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 0, 1});
    std::vector<uint32_t> words = {word_pack<uint32_t>(&l, {0, 4, 5, 6}),
                                   word_pack<uint32_t>(&l, {0, 5, 5, 7})};
    const voxel_set<uint32_t> set = forms_set(words, 1, memory);
    const engine_layer<uint32_t> two = engine_layer_make(memory, &l, &k, set, set, {8, 2});
    REQUIRE_OK(layer_run(&two));
    const engine_forms f = engine_buffers_read(memory, &two.buffers);
    // Output 0 reads itself at (0, 0, 0) and voxel 1 at (1, 0, 1); output 1 reads itself only.
    typedef std::vector<int32_t> numbers;
    CHECK(f.part[engine_indice_pair_num] == numbers({0, 2, 0, 0, 0, 1})); // x fastest
    CHECK(f.part[engine_indice_pairs] == numbers({-1, -1, 0, 1, -1, -1, -1, -1, -1, -1, 1, -1, //
                                                  -1, -1, 0, 1, -1, -1, -1, -1, -1, -1, 0, -1}));
    CHECK(f.part[engine_nbsizes] == numbers({0, 0, 2, 0, 0, 1})); // even: z fastest
    CHECK(f.part[engine_nbmaps] == numbers({0, 0, 1, 1, 1, 0}));
    CHECK(f.part[engine_begin] == numbers({0, 0, 2, 2, 2, 2, 3}));
    CHECK(f.part[engine_in] == numbers({0, 1, 1}) && f.part[engine_out] == numbers({0, 1, 0}));
    CHECK_EQUAL(two.trouble->flags, 0u);
}

// ---- scenes and kernels -------------------------------------------------------------------------

TEST(exchange_every_kernel) {
    engine_every_kernel<uint32_t>({0, 1, 2, 33, 700}, check);
}

TEST(exchange_every_kernel_wide) {
    engine_every_kernel<uint64_t>({0, 1, 2, 33, 700}, check);
}

TEST(exchange_strided_and_inverse) {
    engine_strides<uint32_t>(900, check);
    engine_strides<uint64_t>(900, check);
}

// Lists that leave offsets out: those offsets are empty, the others are as in the whole map.
TEST(exchange_half_and_hybrid_lists) {
    random_state r = random_make(3);
    kernel_shape k = kernel_cube(3, 1);
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    const std::vector<uint32_t> words = set_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, 300);
    const voxel_set<uint32_t> set = forms_set(words, 0, memory);
    engine_limits limits = {-1, -1};
    const engine_forms whole = engine_wanted(&l, &k, words, words, &limits);
    map_forms choices[2] = {};
    choices[0].half = true;
    choices[1].os = guarded_new<int32_t>(300 * 27);
    choices[1].threshold = 2;
    for (const map_forms &choice : choices) {
        device_status trouble = {};
        map_lists pairs = {guarded_new<int32_t>(28), guarded_new<int32_t>(limits.pairs),
                           guarded_new<int32_t>(limits.pairs), limits.pairs};
        map_request<uint32_t> request = {k, set, set, choice};
        request.forms.trouble = &trouble;
        REQUIRE_OK(map_build_lists_host(&l, &request, &pairs));
        int32_t *nbmaps = guarded_new<int32_t>(2 * limits.pairs),
                *nbsizes = guarded_new<int32_t>(27);
        const exchange_lists to = exchange_torchsparse(k.size, nbmaps, nbsizes);
        REQUIRE_OK(exchange_host(&pairs, &to, &trouble));
        const int32_t *got = nbmaps, *wanted = whole.part[engine_nbmaps].data();
        for (int place = 0; place < 27; ++place) {
            int offset = place % 3 * 9 + place / 3 % 3 * 3 + place / 9; // x is fastest
            int32_t size = whole.part[engine_nbsizes][(size_t)place];
            bool listed = choice.half ? offset < 13 : kernel_norm(&k, offset) >= 2;
            CHECK_EQUAL(nbsizes[place], listed ? size : 0);
            if (listed) {
                CHECK(std::equal(wanted, wanted + 2 * size, got));
                got += 2 * size;
            }
            wanted += 2 * size;
        }
        CHECK_EQUAL(trouble.flags, 0u);
    }
}

// ---- capacities ---------------------------------------------------------------------------------

TEST(exchange_full_and_one_more) {
    engine_full_and_one_more({2, 50, 400}, check);
}

TEST(exchange_of_lists_that_disagree) {
    engine_lists_that_disagree(memory, [](const int32_t *begin, const engine_buffers *b) {
        int32_t *rows = guarded_new<int32_t>(4), begins[4];
        std::fill(rows, rows + 4, 7);
        std::copy(begin, begin + 4, begins);
        const map_lists pairs = {begins, rows, rows, 4};
        device_status trouble = {};
        for (const exchange_lists &to : b->to) {
            CHECK_OK(exchange_host(&pairs, &to, &trouble));
        }
    });
}

// ---- errors -------------------------------------------------------------------------------------

static void check_subject(status s, status_code code, const char *subject) {
    CHECK_STATUS(s, code);
    CHECK_EQUAL(s.subject, subject);
}

TEST(exchange_refuses) {
    int32_t *p = guarded_new<int32_t>(100), *odd = (int32_t *)((char *)p + 2);
    const map_lists pairs = {p, p, p, 10};
    const triple size = {3, 3, 3};
    device_status trouble = {};
    auto refused = [&](exchange_lists to, status_code code, const char *subject) {
        check_subject(exchange_host(&pairs, &to, &trouble), code, subject);
    };
    refused(exchange_minkowski({16, 3, 3}, p, p, p), status_kernel_size, "kernel.size");
    for (int32_t stride : {0, -1, INT32_MAX}) {
        refused(exchange_spconv(size, stride, p, p), status_bad_size, "to.stride");
    }
    refused(exchange_spconv(size, 1, nullptr, p), status_null_pointer, "to.input");
    refused(exchange_spconv(size, 1, p, nullptr), status_null_pointer, "to.counts");
    refused(exchange_spconv(size, 1, odd, p), status_alignment, "to.input");
    refused(exchange_torchsparse(size, nullptr, p), status_null_pointer, "to.input");
    refused(exchange_torchsparse(size, p, nullptr), status_null_pointer, "to.counts");
    refused(exchange_minkowski(size, nullptr, p, p), status_null_pointer, "to.begin");
    refused(exchange_minkowski(size, odd, p, p), status_alignment, "to.begin");
    refused(exchange_minkowski(size, p, nullptr, p), status_null_pointer, "to.input");
    refused(exchange_minkowski(size, p, p, nullptr), status_null_pointer, "to.output");
    refused(exchange_lists{}, status_kernel_size, "kernel.size");
    const exchange_lists good = exchange_minkowski(size, p, p, p);
    auto from = [&](map_lists lists) { return exchange_host(&lists, &good, &trouble); };
    check_subject(from({nullptr, p, p, 10}), status_null_pointer, "pairs.begin");
    check_subject(from({p, odd, p, 10}), status_alignment, "pairs.input");
    check_subject(from({p, p, p, 0}), status_bad_size, "pairs.capacity");
    check_subject(exchange_host(nullptr, &good, &trouble), status_null_pointer, "pairs");
    check_subject(exchange_host(&pairs, nullptr, &trouble), status_null_pointer, "to");
    check_subject(exchange_host(&pairs, &good, nullptr), status_null_pointer, "trouble");
    check_subject(exchange_host(&pairs, &good, (device_status *)odd), status_alignment, "trouble");
    CHECK(guarded_untouched(p, 0, 100));
}

// ---- the test, tested ---------------------------------------------------------------------------

// On a kernel that is no cube and a scene without symmetry each wrong order, swapped column and
// lost pair shows.
TEST(exchange_planted_errors_are_found) {
    random_state r = random_make(5);
    kernel_shape k = {{3, 1, 5}, {1, 1, 1}, {1, 1, 1}, false}, turned = k, flipped = k;
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {2, 2, 2});
    const std::vector<uint32_t> source = set_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, 200),
                                outputs = set_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, 150);
    engine_limits limits = {-1, -1};
    const engine_forms wanted = engine_wanted(&l, &k, source, outputs, &limits);
    const engine_layer<uint32_t> all = engine_layer_make(
        memory, &l, &k, forms_set(source, 0, memory), forms_set(outputs, 0, memory), limits);
    REQUIRE_OK(layer_run(&all));
    const engine_forms got = engine_buffers_read(memory, &all.buffers);
    CHECK_EQUAL(engine_difference(got, wanted), "");
    for (int p = 0; p < engine_parts; ++p) {
        engine_forms bad = got;
        size_t last = bad.part[p].size() - 1;
        bad.part[p][last] ^= 1;
        CHECK(*engine_difference(bad, wanted) != 0);
        bad.part[p].pop_back();
        CHECK(*engine_difference(bad, wanted) != 0);
    }
    engine_forms bad = got;
    std::swap(bad.part[engine_in], bad.part[engine_out]);
    CHECK(strstr(engine_difference(bad, wanted), "in["));
    turned.size = {5, 1, 3}; // x and z exchanged
    flipped.transposed = true;
    for (const kernel_shape &other : {turned, flipped}) {
        engine_limits same = limits;
        CHECK(*engine_difference(got, engine_wanted(&l, &other, source, outputs, &same)) != 0);
    }
    // Spira's order where the engine has x fastest.
    bad = got;
    engine_forms sorted = {};
    engine_offsets in_order = engine_minkowski(&k);
    std::sort(in_order.begin(), in_order.end(), [](triple a, triple b) {
        return a.x != b.x ? a.x < b.x : a.y != b.y ? a.y < b.y : a.z < b.z;
    });
    engine_lists lists = engine_pairs(in_order, false, engine_unpack(&l, source.data(), 200),
                                      engine_unpack(&l, outputs.data(), 150));
    engine_write_lists(lists, lists, &sorted);
    bad.part[engine_nbmaps] = sorted.part[engine_nbmaps];
    CHECK(strstr(engine_difference(bad, wanted), "nbmaps["));
}

// ---- real scans ---------------------------------------------------------------------------------

TEST(exchange_of_kitti) {
    kernel_shape k = kernel_cube(3, 1);
    word_layout l;
    std::vector<uint32_t> words = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &l);
    if (words.empty()) {
        SKIP("the .vox32 files of data/ are not here");
    }
    const engine_forms f = check(&l, &k, words, (const std::vector<uint32_t> *)nullptr, 1,
                                 engine_limits{-1, (int32_t)words.size()});
    CHECK_EQUAL(f.pairs, 346220);
}
