// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/downsample.cpp: downsample.h, against a set of tuples.
#include "../support/downsample.h"

#include <set>

using namespace spira;

static int floor_of(int a, int stride) {
    return (int)floor((double)a / stride) * stride;
}

// words: with what stands behind the first `count`.
template <typename W>
static void check_coarse(const word_layout *l, const std::vector<W> &words, int32_t count,
                         triple stride, int32_t capacity) {
    std::set<W> coarse;
    for (int32_t i = 0; i < count; ++i) {
        const voxel v = word_unpack(l, words[(size_t)i]);
        coarse.insert(word_pack<W>(l, {v.batch, floor_of(v.x, stride.x), floor_of(v.y, stride.y),
                                       floor_of(v.z, stride.z)}));
    }
    set_outcome<W> wanted = {{}, (int32_t)coarse.size(), {coarse.begin(), coarse.end()}};
    if (wanted.count > capacity) {
        device_status_note(&wanted.trouble, device_flag_capacity, (uint32_t)wanted.count);
        wanted.count = capacity;
    }
    wanted.words.resize((size_t)capacity, word_none<W>());
    CHECK_EQUAL(set_difference(downsample_on_host(l, words, count, {}, stride, capacity), wanted),
                "");
}

// Strides that the largest one is a multiple of, on each axis its own.
static triple stride_random(random_state *r, triple largest) {
    int s[3] = {largest.x, largest.y, largest.z};
    for (int &stride : s) {
        int top = stride;
        do {
            stride = random_int(r, 1, top);
        } while (top % stride);
    }
    return {s[0], s[1], s[2]};
}

template <typename W>
static void check_random(uint64_t seed, bool powers) {
    random_state r = random_make(seed);
    for (int i = 0; i < 150; ++i) {
        triple largest = {powers ? 1 << random_int(&r, 0, 5) : random_int(&r, 1, 20),
                          powers ? 1 << random_int(&r, 0, 5) : random_int(&r, 1, 20),
                          powers ? 1 << random_int(&r, 0, 5) : random_int(&r, 1, 20)};
        triple lo = {random_int(&r, -60, 20), random_int(&r, -60, 20), random_int(&r, -60, 20)};
        triple hi = {lo.x + random_int(&r, 0, 30), lo.y + random_int(&r, 0, 30),
                     lo.z + random_int(&r, 0, 30)};
        triple reach = {random_int(&r, 0, 3), random_int(&r, 0, 3), random_int(&r, 0, 3)};
        word_layout l = reference_layout<W>(lo, hi, random_int(&r, 1, 4), largest, reach);
        if (i % 2) { // up to both ends of every field
            lo = l.lo;
            hi = l.hi;
        }
        const int32_t wanted = random_int(&r, 1, 500);
        std::vector<W> words = set_random<W>(&r, &l, lo, hi, wanted);
        const int32_t count = (int32_t)words.size();
        set_pad(&words, wanted);
        check_coarse(&l, words, count, largest, wanted);
        check_coarse(&l, words, count, stride_random(&r, largest), wanted);
        check_coarse(&l, words, count, stride_random(&r, largest), random_int(&r, 1, wanted));
        guarded_finish();
    }
}

// A count beyond the capacity is said, and taken for that; a negative one for none.
TEST(downsample_count_of_the_input) {
    random_state r = random_make(9);
    const triple lo = {-9, -9, -9}, hi = {9, 9, 9}, stride = {2, 2, 2};
    word_layout l = reference_layout<uint32_t>(lo, hi, 1, stride, {1, 1, 1});
    const int32_t most = 60;
    std::vector<uint32_t> words = set_random<uint32_t>(&r, &l, lo, hi, most);
    const auto run = [&](int32_t count) {
        return downsample_on_host(&l, words, count, {}, stride, most);
    };
    set_outcome<uint32_t> wanted = run(most);
    CHECK_EQUAL(wanted.trouble.flags, 0u);
    device_status_note(&wanted.trouble, device_flag_capacity, most + 17);
    CHECK_EQUAL(set_difference(run(most + 17), wanted), "");
    wanted = {{}, 0, std::vector<uint32_t>(most, word_none<uint32_t>())};
    CHECK_EQUAL(set_difference(run(-5), wanted), "");
}

TEST(downsample_powers_of_two) {
    check_random<uint32_t>(1, true);
    check_random<uint64_t>(2, true);
}

TEST(downsample_any_stride) {
    check_random<uint32_t>(3, false);
    check_random<uint64_t>(4, false);
}

// A level straight from the first set is the level from the one before it.
TEST(downsample_nests) {
    random_state r = random_make(5);
    for (int base : {2, 3}) {
        int largest = base * base * base;
        word_layout l = reference_layout<uint32_t>({-50, -50, -9}, {50, 50, 9}, 2,
                                                   {largest, largest, largest}, {2, 2, 2});
        const std::vector<uint32_t> words =
            set_random<uint32_t>(&r, &l, {-50, -50, -9}, {50, 50, 9}, 3000);
        set_outcome<uint32_t> before = {{}, (int32_t)words.size(), words};
        for (int s = base; s <= largest; s *= base) {
            const set_outcome<uint32_t> direct =
                downsample_on_host(&l, words, (int32_t)words.size(), {}, {s, s, s}, 3000);
            CHECK(direct.count < before.count);
            before = downsample_on_host(&l, before.words, before.count, {}, {s, s, s}, 3000);
            CHECK_EQUAL(set_difference(before, direct), "");
        }
    }
}

TEST(downsample_nothing_one_and_a_full_capacity) {
    word_layout l = reference_layout<uint32_t>({-8, -8, -8}, {7, 7, 7}, 1, {4, 4, 4}, {1, 1, 1});
    std::vector<uint32_t> words(16);
    check_coarse(&l, words, 0, {2, 2, 2}, 1);
    for (int i = 0; i < 16; ++i) { // 16 voxels in 8 cells of 2, in 4 of 4
        words[(size_t)i] = word_pack<uint32_t>(&l, {0, 0, 0, i - 8});
        for (int32_t capacity : {1, 3, 4, 5, 7, 8, 9, 16, 100}) {
            for (int stride : {1, 2, 4}) {
                check_coarse(&l, words, i + 1, {stride, stride, stride}, capacity);
            }
        }
    }
}

// One row of voxels is flat in x and y: the strides there are larger than the fields.
TEST(downsample_flat_scene) {
    random_state r = random_make(6);
    word_layout l = reference_layout<uint32_t>({0, 3, -2}, {20, 3, -2}, 3, {16, 16, 16}, {0, 0, 0});
    const std::vector<uint32_t> words = set_random<uint32_t>(&r, &l, {0, 3, -2}, {20, 3, -2}, 40);
    for (triple stride : {triple{16, 16, 16}, {1, 16, 16}, {1, 1, 16}, {2, 16, 1}}) {
        check_coarse(&l, words, (int32_t)words.size(), stride, 40);
    }
}

TEST(downsample_refuses) {
    typedef downsample_args<uint32_t> args;
    word_layout l = reference_layout<uint32_t>({-5, -5, -5}, {9, 9, 9}, 1, {4, 4, 4}, {1, 1, 1});
    uint32_t *words = guarded_new<uint32_t>(2), *out_words = guarded_new<uint32_t>(2);
    words[0] = word_pack<uint32_t>(&l, {0, 1, 1, 1});
    words[1] = word_pack<uint32_t>(&l, {0, 5, 1, 1});
    int32_t count = 2, *out_count = guarded_new<int32_t>(1);
    const voxel_set<uint32_t> in = {words, &count, 2}, out = {out_words, out_count, 2};
    device_status trouble = {};
    size_t bytes = 0;
    CHECK_STATUS(downsample_host_workspace(in, nullptr), status_null_pointer);
    CHECK_OK(downsample_host_workspace(in, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    const args good = {&l, in, {}, {2, 2, 2}, out, &trouble};
    check_refusals<args>(good, scratch, bytes, downsample_refusals(),
                         [](const args *a, void *s, size_t n) { return downsample_host(a, s, n); });
    // 3 does not divide 4: the voxel of the lowest coordinate would leave the layout.
    const word_layout high =
        reference_layout<uint32_t>({5, 5, 5}, {9, 9, 9}, 1, {4, 4, 4}, {1, 1, 1});
    args other = good;
    other.layout = &high;
    other.stride = {1, 3, 1};
    CHECK_STATUS(downsample_host(&other, scratch, bytes), status_stride);
    CHECK(guarded_untouched(out_words, 0, 2) && guarded_untouched(out_count, 0, 1));
    CHECK_OK(downsample_host(&good, scratch, bytes));
    CHECK_EQUAL(*out_count, 2);
}

// All voxels of a cube, as if they were at stride 2: the first one off the lattice is recorded, z
// is floored all the same, and the others are left out.
TEST(downsample_off_the_lattice) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {15, 15, 15}, 1, {4, 4, 4}, {1, 1, 1});
    std::vector<uint32_t> words;
    std::set<uint32_t> wanted;
    for (int i = 0; i < 4096; ++i) {
        const voxel v = {0, i / 256, i / 16 % 16, i % 16};
        if ((v.x * 7 + v.y * 3 + v.z) % 5 == 0) {
            words.push_back(word_pack<uint32_t>(&l, v));
            if (v.x % 2 == 0 && v.y % 2 == 0) {
                wanted.insert(word_pack<uint32_t>(&l, {0, v.x & ~3, v.y & ~3, v.z & ~3}));
            }
        }
    }
    const int32_t count = (int32_t)words.size();
    const set_outcome<uint32_t> c =
        downsample_on_host(&l, words, count, {2, 2, 2}, {4, 4, 4}, count);
    CHECK_EQUAL(c.trouble.flags, (uint32_t)device_flag_lattice);
    CHECK_STATUS(device_status_read(&c.trouble), status_lattice);
    CHECK_EQUAL(device_status_read(&c.trouble).detail, 1); // (0, 0, 5)
    CHECK_EQUAL(c.count, (int32_t)wanted.size());
    CHECK(std::equal(wanted.begin(), wanted.end(), c.words.begin()));
}

// Whether there is a sort: none for powers of two that at most double x and y.
TEST(downsample_steps) {
    const struct {
        triple from, stride;
        bool is_step;
    } cases[] = {
        {{1, 1, 1}, {1, 1, 1}, true},    {{1, 1, 1}, {2, 2, 2}, true},
        {{8, 8, 8}, {16, 16, 16}, true}, {{1, 1, 1}, {2, 1, 1}, true},
        {{1, 1, 1}, {1, 2, 1}, true},    {{1, 1, 1}, {1, 1, 2}, true},
        {{1, 1, 1}, {1, 1, 16}, true},   {{2, 4, 1}, {4, 8, 64}, true},
        {{1, 1, 1}, {4, 1, 1}, false},   {{1, 1, 1}, {1, 4, 1}, false},
        {{1, 1, 1}, {4, 4, 4}, false},   {{2, 2, 2}, {16, 4, 4}, false},
        {{2, 1, 1}, {1, 1, 1}, false},   {{1, 2, 1}, {1, 1, 1}, false},
        {{1, 1, 2}, {1, 1, 1}, false},   {{1, 1, 1}, {3, 1, 1}, false},
        {{1, 1, 1}, {2, 2, 3}, false},   {{3, 3, 3}, {3, 3, 3}, false},
        {{3, 3, 3}, {6, 6, 6}, false},   {{2, 2, 2}, {6, 6, 6}, false},
        {{1, 1, 3}, {2, 2, 6}, false},   {{5, 1, 1}, {5, 2, 2}, false},
    };
    for (auto &c : cases) {
        CHECK_EQUAL(downsample_is_step(c.from, c.stride), c.is_step);
    }
    for (int from = 1; from <= 64; ++from) {
        for (int to = 1; to <= 64; ++to) {
            bool powers = is_power_of_two(from) && is_power_of_two(to);
            bool doubles = powers && (to == from || to == 2 * from);
            CHECK_EQUAL(downsample_is_step({from, 1, 1}, {to, 1, 1}), doubles);
            CHECK_EQUAL(downsample_is_step({1, from, 1}, {1, to, 1}), doubles);
            CHECK_EQUAL(downsample_is_step({1, 1, from}, {1, 1, to}), powers && to >= from);
        }
    }
}

TEST(downsample_from_divides_the_stride) {
    for (triple good : {triple{1, 1, 1}, triple{6, 4, 1}, triple{3, 2, 1}, triple{6, 1, 1}}) {
        CHECK_OK(downsample_from_check(good, {6, 4, 1}));
    }
    const struct {
        triple from, stride;
        int detail;
    } bad[] = {
        {{4, 1, 1}, {6, 4, 1}, 4},
        {{1, 3, 1}, {6, 4, 1}, 3},
        {{1, 1, 2}, {6, 4, 1}, 2},
        {{12, 4, 1}, {6, 4, 1}, 12},
        {{0, 1, 1}, {6, 4, 1}, 0},
        {{1, -2, 1}, {6, 4, 1}, -2},
        {{1, 1, 1}, {6, 4, 0}, 1},
        {{1, 1, 1}, {6, -4, 1}, 1},
        {{1, 1, INT32_MIN}, {6, 4, 1}, INT32_MIN},
    };
    for (auto &b : bad) {
        status s = downsample_from_check(b.from, b.stride);
        CHECK_STATUS(s, status_stride);
        CHECK(strstr(s.subject, "from"));
        CHECK_EQUAL(s.detail, b.detail);
    }
}

TEST(downsample_real_scan) {
    word_layout l;
    std::vector<uint32_t> words = reference_scan<uint32_t>("kitti00_000000_5cm.vox32", 16, &l);
    if (words.empty()) {
        SKIP("data/kitti00_000000_5cm.vox32 is not here");
    }
    const int32_t count = (int32_t)words.size();
    for (int stride : {2, 4, 8, 16}) {
        check_coarse(&l, words, count, {stride, stride, stride}, count);
    }
}
