// tests/host/exchange.cpp: the forms of exchange.h equal the maps that each engine would build from
// the same voxels.
#include "../support/reference_exchange.h"

#include "../../spira/downsample.h"

using namespace spira;

// ---- one map, in all forms ----------------------------------------------------------------------

static const engine_memory memory = {
    [](int64_t count) { return guarded_new<int32_t>(count); },
    [](int32_t *to, const int32_t *from, int64_t count) { std::copy(from, from + count, to); },
    [](const int32_t *p, int64_t from, int64_t count) { return guarded_untouched(p, from, count); },
};

template <typename W>
struct exchange_layer {
    word_layout layout;
    kernel_shape kernel;
    std::vector<W> source, outputs; // sorted words
    int32_t source_count, output_count;
    bool same; // the outputs are the source
    voxel_set<W> source_set() {
        return {source.data(), &source_count, (int32_t)source.size()};
    }
    voxel_set<W> output_set() {
        return same ? source_set()
                    : voxel_set<W>{outputs.data(), &output_count, (int32_t)outputs.size()};
    }
};

// Sets of these words, with room for more.
template <typename W>
static exchange_layer<W> layer_make(const word_layout *layout, const kernel_shape *kernel,
                                    std::vector<W> source, std::vector<W> outputs, bool same,
                                    int32_t room) {
    exchange_layer<W> l = {*layout, *kernel, source, outputs, 0, 0, same};
    l.source_count = (int32_t)source.size();
    l.output_count = (int32_t)outputs.size();
    l.source.resize(std::max(source.size() + (size_t)room, (size_t)1), word_none<W>());
    l.outputs.resize(std::max(outputs.size() + (size_t)room, (size_t)1), word_none<W>());
    return l;
}

template <typename W>
static engine_forms forms_wanted(exchange_layer<W> *l, engine_limits *limits) {
    voxel_set<W> source = l->source_set(), outputs = l->output_set();
    return engine_forms_make(&l->kernel, engine_unpack(&l->layout, source.words, *source.count),
                             engine_unpack(&l->layout, outputs.words, *outputs.count),
                             outputs.capacity, limits);
}

template <typename W>
static engine_forms forms_written(exchange_layer<W> *l, engine_limits limits,
                                  device_status *trouble) {
    const kernel_shape *k = &l->kernel;
    int volume = kernel_volume(k);
    voxel_set<W> source = l->source_set(), outputs = l->output_set();
    int32_t *map = guarded_new<int32_t>((int64_t)outputs.capacity * volume);
    map_pairs pairs = {guarded_new<int32_t>(volume + 1), guarded_new<int32_t>(limits.pairs),
                       guarded_new<int32_t>(limits.pairs), limits.pairs};
    CHECK_OK(map_build_host(&l->layout, k, source, outputs, map));
    CHECK_OK(map_build_pairs_host(&l->layout, k, source, outputs, nullptr, pairs, trouble));
    engine_buffers b = engine_buffers_make(&memory, volume, outputs.capacity, limits);
    int32_t *const *p = b.part;
    CHECK_OK(exchange_spconv_host(k, pairs, limits.stride, p[engine_indice_pairs],
                                  p[engine_indice_pair_num], trouble));
    CHECK_OK(exchange_torchsparse_host(k, pairs, p[engine_nbmaps], p[engine_nbsizes]));
    CHECK_OK(exchange_minkowski_host(k, pairs, p[engine_begin], p[engine_in], p[engine_out]));
    CHECK_OK(exchange_csr_host(map, volume, outputs.count, outputs.capacity, b.rows, trouble));
    return engine_buffers_read(&memory, &b);
}

// Returns the wanted forms.
template <typename W>
static engine_forms check_layer(exchange_layer<W> *l, engine_limits limits = {-1, -1, -1}) {
    engine_forms wanted = forms_wanted(l, &limits);
    device_status trouble = {};
    engine_forms got = forms_written(l, limits, &trouble);
    CHECK_EQUAL(engine_difference(got, wanted), "");
    CHECK(engine_same_trouble(trouble, engine_trouble(wanted, limits)));
    guarded_finish();
    return wanted;
}

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
    exchange_layer<uint32_t> two = layer_make(&l, &k, words, {}, true, 1);
    device_status trouble = {};
    engine_forms f = forms_written(&two, {8, 2, 8}, &trouble);
    // Output 0 reads itself at (0, 0, 0) and voxel 1 at (1, 0, 1); output 1 reads itself only.
    typedef std::vector<int32_t> numbers;
    CHECK(f.part[engine_indice_pair_num] == numbers({0, 2, 0, 0, 0, 1})); // x fastest
    CHECK(f.part[engine_indice_pairs] == numbers({-1, -1, 0, 1, -1, -1, -1, -1, -1, -1, 1, -1, //
                                                  -1, -1, 0, 1, -1, -1, -1, -1, -1, -1, 0, -1}));
    CHECK(f.part[engine_nbsizes] == numbers({0, 0, 2, 0, 0, 1})); // even: z fastest
    CHECK(f.part[engine_nbmaps] == numbers({0, 0, 1, 1, 1, 0}));
    CHECK(f.part[engine_begin] == numbers({0, 0, 2, 2, 2, 2, 3}));
    CHECK(f.part[engine_in] == numbers({0, 1, 1}) && f.part[engine_out] == numbers({0, 1, 0}));
    CHECK(f.part[engine_row_begin] == numbers({0, 2, 3, 3}));
    CHECK(f.part[engine_row_offset] == numbers({2, 5, 2}));
    CHECK(f.part[engine_row_input] == numbers({0, 1, 1}));
    CHECK_EQUAL(trouble.flags, 0u);
}

// ---- scenes and kernels -------------------------------------------------------------------------

static const struct {
    triple size, dilation;
} kernels[] = {
    {{1, 1, 1}, {1, 1, 1}}, {{3, 3, 3}, {1, 1, 1}}, {{2, 2, 2}, {1, 1, 1}}, {{5, 5, 5}, {1, 1, 1}},
    {{3, 2, 1}, {1, 1, 1}}, {{1, 3, 5}, {1, 1, 1}}, {{4, 2, 3}, {1, 1, 1}}, {{2, 3, 5}, {1, 1, 1}},
    {{4, 4, 4}, {1, 1, 1}}, {{1, 1, 9}, {1, 1, 1}}, {{3, 3, 3}, {2, 2, 2}}, {{5, 3, 2}, {1, 2, 3}},
    {{2, 2, 2}, {2, 1, 2}}, {{3, 1, 7}, {3, 1, 1}}, {{7, 7, 7}, {1, 1, 1}},
};

template <typename W>
static std::vector<W> words_random(random_state *r, const word_layout *layout, triple lo, triple hi,
                                   triple stride, int32_t wanted) {
    std::vector<W> words((size_t)wanted + 1);
    int32_t count =
        wanted ? reference_random_set(r, layout, lo, hi, stride, wanted, words.data()) : 0;
    words.resize((size_t)count);
    return words;
}

template <typename W>
static void check_kernels() {
    random_state r = random_make(sizeof(W));
    const triple lo = {-9, -6, 2}, hi = {9, 8, 17};
    for (const auto &c : kernels) {
        for (triple stride : {triple{1, 1, 1}, triple{2, 1, 3}}) {
            for (bool transposed : {false, true}) {
                kernel_shape k = {c.size, c.dilation, stride, transposed};
                word_layout l = reference_layout<W>(lo, hi, 2, stride, kernel_reach(&k));
                for (int32_t n : {0, 1, 2, 33, 700}) {
                    if (test_quick() && n > 33) {
                        continue;
                    }
                    std::vector<W> words = words_random<W>(&r, &l, lo, hi, stride, n);
                    std::vector<W> others = words_random<W>(&r, &l, lo, hi, stride, n / 2);
                    exchange_layer<W> same = layer_make(&l, &k, words, {}, true, n % 5);
                    engine_forms f = check_layer(&same);
                    CHECK(f.pairs >= (k.size.x % 2 && k.size.y % 2 && k.size.z % 2 ? n / 2 : 0));
                    exchange_layer<W> other = layer_make(&l, &k, words, others, false, n % 3);
                    check_layer(&other);
                }
            }
        }
    }
}

TEST(exchange_every_kernel) {
    check_kernels<uint32_t>();
}

TEST(exchange_every_kernel_wide) {
    check_kernels<uint64_t>();
}

// A strided layer and its inverse. The engines keep one map for both: that of the strided layer.
template <typename W>
static void check_strides() {
    random_state r = random_make(2);
    const triple lo = {-20, -9, 3}, hi = {12, 15, 20};
    for (triple up : {triple{2, 2, 2}, triple{3, 1, 2}, triple{4, 4, 1}}) {
        for (const auto &c : kernels) {
            kernel_shape k = {c.size, c.dilation, {1, 1, 1}, false}, back = k;
            back.transposed = true;
            word_layout l = reference_layout<W>(lo, hi, 2, up, kernel_reach(&k));
            std::vector<W> fine = words_random<W>(&r, &l, lo, hi, {1, 1, 1}, 900), coarse;
            for (W word : fine) {
                coarse.push_back(downsample_word(&l, word, up, downsample_by_mask(up)));
            }
            std::sort(coarse.begin(), coarse.end());
            coarse.erase(std::unique(coarse.begin(), coarse.end()), coarse.end());
            exchange_layer<W> down = layer_make(&l, &k, fine, coarse, false, 2);
            exchange_layer<W> inverse = layer_make(&l, &back, coarse, fine, false, 0);
            engine_forms f = check_layer(&down), g = check_layer(&inverse);
            CHECK_EQUAL(f.pairs, g.pairs);
            CHECK(f.part[engine_indice_pair_num] == g.part[engine_indice_pair_num]);
        }
    }
}

TEST(exchange_strided_and_inverse) {
    check_strides<uint32_t>();
    check_strides<uint64_t>();
}

// Lists that leave offsets out: those offsets are empty, the others are as in the whole map.
TEST(exchange_half_and_hybrid_lists) {
    random_state r = random_make(3);
    kernel_shape k = kernel_cube(3, 1);
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    exchange_layer<uint32_t> all = layer_make(
        &l, &k, words_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, {1, 1, 1}, 300), {}, true, 0);
    engine_limits limits = {-1, -1, -1};
    engine_forms whole = forms_wanted(&all, &limits);
    map_forms choices[2] = {};
    choices[0].half = true;
    choices[1].os = guarded_new<int32_t>(300 * 27);
    choices[1].threshold = 2;
    for (const map_forms &choice : choices) {
        device_status trouble = {};
        map_pairs pairs = {guarded_new<int32_t>(28), guarded_new<int32_t>(limits.pairs),
                           guarded_new<int32_t>(limits.pairs), limits.pairs};
        REQUIRE_OK(map_build_pairs_host(&l, &k, all.source_set(), all.source_set(), &choice, pairs,
                                        &trouble));
        int32_t *nbmaps = guarded_new<int32_t>(2 * limits.pairs),
                *nbsizes = guarded_new<int32_t>(27);
        REQUIRE_OK(exchange_torchsparse_host(&k, pairs, nbmaps, nbsizes));
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
    random_state r = random_make(4);
    for (triple size : {triple{3, 3, 3}, triple{2, 2, 2}, triple{5, 3, 2}, triple{1, 1, 1}}) {
        kernel_shape k = {size, {1, 1, 1}, {1, 1, 1}, false};
        word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {2, 1, 1});
        for (int32_t n : {2, 50, 400}) {
            exchange_layer<uint32_t> all = layer_make(
                &l, &k, words_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, {1, 1, 1}, n), {},
                true, 0);
            engine_forms f = check_layer(&all);
            int32_t pairs = (int32_t)f.pairs, longest = (int32_t)f.longest;
            REQUIRE(longest >= 2 && pairs >= 2);
            check_layer(&all, {pairs, longest - 1, pairs});
            check_layer(&all, {pairs, 1, pairs});
            check_layer(&all, {pairs, longest, pairs - 1});
            check_layer(&all, {pairs, longest + 3, pairs + 3});
            check_layer(&all, {pairs + 5, longest - 1, 1});
        }
    }
}

// Rows from the count on are not read.
TEST(exchange_rows_behind_the_count) {
    const int32_t map[] = {-1, 4, 2, -1, 5, 5, 5, 5};
    for (int32_t count : {0, 1, 2}) {
        int32_t *begin = guarded_new<int32_t>(5), *offset = guarded_new<int32_t>(3),
                *input = guarded_new<int32_t>(3);
        device_status trouble = {};
        REQUIRE_OK(exchange_csr_host(map, 2, &count, 4, {begin, offset, input, 3}, &trouble));
        for (int o = 0; o <= 4; ++o) {
            CHECK_EQUAL(begin[o], std::min(o, count));
        }
        CHECK(count < 1 || (offset[0] == 1 && input[0] == 4));
        CHECK(count < 2 || (offset[1] == 0 && input[1] == 2));
        CHECK(guarded_untouched(offset, count, 3) && guarded_untouched(input, count, 3));
        CHECK_EQUAL(trouble.flags, 0u);
    }
    int32_t many = 9; // a count beyond the capacity is read as the capacity
    int32_t *begin = guarded_new<int32_t>(3), *entry = guarded_new<int32_t>(4);
    device_status trouble = {};
    REQUIRE_OK(exchange_csr_host(map, 2, &many, 2, {begin, entry, entry + 2, 2}, &trouble));
    CHECK(begin[0] == 0 && begin[1] == 1 && begin[2] == 2);
    CHECK_EQUAL(trouble.flags, (uint32_t)device_flag_capacity);
    CHECK_EQUAL(trouble.needed, 9u);
}

// Lists that did not fit are empty, and so are the forms made of them.
TEST(exchange_of_empty_lists) {
    kernel_shape k = kernel_cube(3, 1);
    int32_t begin[28] = {}, row = 0;
    map_pairs pairs = {begin, &row, &row, 1};
    device_status trouble = {};
    engine_buffers b = engine_buffers_make(&memory, 27, 1, {1, 3, 1});
    int32_t *map = guarded_new<int32_t>(27), none = 0;
    REQUIRE_OK(exchange_spconv_host(&k, pairs, 3, b.part[engine_indice_pairs],
                                    b.part[engine_indice_pair_num], &trouble));
    REQUIRE_OK(exchange_torchsparse_host(&k, pairs, b.part[engine_nbmaps], b.part[engine_nbsizes]));
    REQUIRE_OK(exchange_minkowski_host(&k, pairs, b.part[engine_begin], b.part[engine_in],
                                       b.part[engine_out]));
    REQUIRE_OK(exchange_csr_host(map, 27, &none, 1, b.rows, &trouble));
    engine_forms f = engine_buffers_read(&memory, &b);
    CHECK(f.part[engine_indice_pairs] == std::vector<int32_t>(2 * 27 * 3, -1));
    CHECK(f.part[engine_indice_pair_num] == std::vector<int32_t>(27, 0));
    CHECK(f.part[engine_nbmaps].empty() && f.part[engine_in].empty());
    CHECK(f.part[engine_begin] == std::vector<int32_t>(28, 0));
    CHECK(f.part[engine_row_begin] == std::vector<int32_t>(2, 0));
    CHECK_EQUAL(trouble.flags, 0u);
}

// ---- errors -------------------------------------------------------------------------------------

static void check_subject(status s, status_code code, const char *subject) {
    CHECK_STATUS(s, code);
    CHECK_EQUAL(s.subject, subject);
}

TEST(exchange_lists_refuse) {
    kernel_shape k = kernel_cube(3, 1), bad = kernel_cube(16, 1);
    int32_t *p = guarded_new<int32_t>(100);
    const map_pairs pairs = {p, p, p, 10};
    device_status trouble = {};
    auto run = [&](const kernel_shape *kernel, map_pairs from) {
        status all[3] = {exchange_spconv_host(kernel, from, 1, p, p, &trouble),
                         exchange_torchsparse_host(kernel, from, p, p),
                         exchange_minkowski_host(kernel, from, p, p, p)};
        CHECK(all[0].code == all[1].code && all[0].code == all[2].code);
        return all[0];
    };
    check_subject(run(nullptr, pairs), status_null_pointer, "kernel");
    check_subject(run(&bad, pairs), status_kernel_size, "kernel.size");
    check_subject(run(&k, {nullptr, p, p, 10}), status_null_pointer, "pairs.begin");
    check_subject(run(&k, {p, nullptr, p, 10}), status_null_pointer, "pairs.input");
    check_subject(run(&k, {p, p, nullptr, 10}), status_null_pointer, "pairs.output");
    int32_t *odd = (int32_t *)((char *)p + 2);
    check_subject(run(&k, {odd, p, p, 10}), status_alignment, "pairs.begin");
    check_subject(run(&k, {p, odd, p, 10}), status_alignment, "pairs.input");
    check_subject(run(&k, {p, p, odd, 10}), status_alignment, "pairs.output");
    check_subject(run(&k, {p, p, p, 0}), status_bad_size, "pairs.capacity");
    for (int32_t stride : {0, -1, INT32_MAX}) {
        check_subject(exchange_spconv_host(&k, pairs, stride, p, p, &trouble), status_bad_size,
                      "stride");
    }
    check_subject(exchange_spconv_host(&k, pairs, 1, nullptr, p, &trouble), status_null_pointer,
                  "indice_pairs");
    check_subject(exchange_spconv_host(&k, pairs, 1, p, nullptr, &trouble), status_null_pointer,
                  "indice_pair_num");
    check_subject(exchange_spconv_host(&k, pairs, 1, p, p, nullptr), status_null_pointer,
                  "trouble");
    check_subject(exchange_spconv_host(&k, pairs, 1, p, p, (device_status *)((char *)p + 2)),
                  status_alignment, "trouble");
    check_subject(exchange_torchsparse_host(&k, pairs, nullptr, p), status_null_pointer, "nbmaps");
    check_subject(exchange_torchsparse_host(&k, pairs, p, nullptr), status_null_pointer, "nbsizes");
    check_subject(exchange_minkowski_host(&k, pairs, nullptr, p, p), status_null_pointer, "begin");
    check_subject(exchange_minkowski_host(&k, pairs, p, nullptr, p), status_null_pointer, "in");
    check_subject(exchange_minkowski_host(&k, pairs, p, p, nullptr), status_null_pointer, "out");
    check_subject(exchange_spconv_host(&k, pairs, 1, odd, p, &trouble), status_alignment,
                  "indice_pairs");
    check_subject(exchange_torchsparse_host(&k, pairs, odd, p), status_alignment, "nbmaps");
    check_subject(exchange_minkowski_host(&k, pairs, p, odd, p), status_alignment, "in");
    CHECK(guarded_untouched(p, 0, 100));
}

TEST(exchange_csr_refuses) {
    int32_t *p = guarded_new<int32_t>(100);
    const exchange_rows rows = {p, p, p, 10};
    device_status trouble = {};
    check_subject(exchange_csr_host(nullptr, 27, p, 1, rows, &trouble), status_null_pointer, "map");
    for (int volume : {0, -1, kernel_volume_max + 1}) {
        check_subject(exchange_csr_host(p, volume, p, 1, rows, &trouble), status_bad_size,
                      "volume");
    }
    check_subject(exchange_csr_host(p, 27, nullptr, 1, rows, &trouble), status_null_pointer,
                  "count");
    for (int32_t capacity : {0, -1, INT32_MAX}) {
        check_subject(exchange_csr_host(p, 27, p, capacity, rows, &trouble), status_bad_size,
                      "capacity");
        check_subject(exchange_csr_host(p, 27, p, 1, {p, p, p, capacity}, &trouble),
                      status_bad_size, "rows.capacity");
    }
    auto refused = [&](exchange_rows bad, status_code code, const char *subject) {
        check_subject(exchange_csr_host(p, 27, p, 1, bad, &trouble), code, subject);
    };
    int32_t *odd = (int32_t *)((char *)p + 2);
    refused({nullptr, p, p, 10}, status_null_pointer, "rows.begin");
    refused({p, nullptr, p, 10}, status_null_pointer, "rows.offset");
    refused({p, p, nullptr, 10}, status_null_pointer, "rows.input");
    refused({odd, p, p, 10}, status_alignment, "rows.begin");
    refused({p, odd, p, 10}, status_alignment, "rows.offset");
    refused({p, p, odd, 10}, status_alignment, "rows.input");
    check_subject(exchange_csr_host(odd, 27, p, 1, rows, &trouble), status_alignment, "map");
    check_subject(exchange_csr_host(p, 27, p, 1, rows, nullptr), status_null_pointer, "trouble");
    check_subject(exchange_csr_host(p, 27, p, 1, rows, (device_status *)odd), status_alignment,
                  "trouble");
    CHECK(guarded_untouched(p, 0, 100));
}

// ---- the test, tested ---------------------------------------------------------------------------

// On a kernel that is no cube and a scene without symmetry each wrong order, swapped column and
// lost pair shows.
TEST(exchange_planted_errors_are_found) {
    random_state r = random_make(5);
    kernel_shape k = {{3, 1, 5}, {1, 1, 1}, {1, 1, 1}, false}, turned = k, flipped = k;
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {2, 2, 2});
    exchange_layer<uint32_t> all =
        layer_make(&l, &k, words_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, {1, 1, 1}, 200),
                   words_random<uint32_t>(&r, &l, {0, 0, 0}, {9, 9, 9}, {1, 1, 1}, 150), false, 0);
    engine_limits limits = {-1, -1, -1};
    device_status trouble = {};
    engine_forms wanted = forms_wanted(&all, &limits), got = forms_written(&all, limits, &trouble);
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
        exchange_layer<uint32_t> wrong = all;
        wrong.kernel = other;
        CHECK(*engine_difference(got, forms_wanted(&wrong, &same)) != 0);
    }
    // Spira's order where the engine has x fastest.
    bad = got;
    engine_forms sorted = {};
    engine_lists lists = engine_pairs(engine_sorted(&k), false,
                                      engine_unpack(&l, all.source.data(), all.source_count),
                                      engine_unpack(&l, all.outputs.data(), all.output_count));
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
    exchange_layer<uint32_t> scan = layer_make(&l, &k, words, {}, true, 1);
    engine_forms f = check_layer(&scan, {-1, (int32_t)words.size(), -1});
    CHECK_EQUAL(f.pairs, 346220);
}
