// tests/host/downsample.cpp: downsample.h, against a set of tuples.
#include "../support/downsample.h"

#include <set>
#include <tuple>

using namespace spira;

template <typename W>
struct coarse {
    voxel_set<W> set;
    device_status trouble;
    status returned;
};

template <typename W>
static coarse<W> downsample_new(const word_layout *l, voxel_set<W> in, triple stride,
                                int32_t capacity, triple from = {}) {
    coarse<W> c = {{guarded_new<W>(capacity), guarded_new<int32_t>(1), capacity}, {}, {}};
    const downsample_args<W> args = {l, in, from, stride, c.set, &c.trouble};
    size_t bytes = 0;
    CHECK_OK(downsample_host_workspace(in, &bytes));
    c.returned = downsample_host(&args, guarded_new<char>((int64_t)bytes), bytes);
    return c;
}

static int floor_of(int a, int stride) {
    return (int)floor((double)a / stride) * stride;
}

template <typename W>
static void check_coarse(const word_layout *l, voxel_set<W> in, triple stride, int32_t capacity) {
    coarse<W> c = downsample_new(l, in, stride, capacity);
    REQUIRE_OK(c.returned);
    std::set<std::tuple<int, int, int, int>> expected;
    for (int32_t i = 0; i < *in.count; ++i) {
        voxel v = word_unpack(l, in.words[i]);
        expected.insert(
            {v.batch, floor_of(v.x, stride.x), floor_of(v.y, stride.y), floor_of(v.z, stride.z)});
    }
    bool full = (int64_t)expected.size() > capacity;
    REQUIRE(CHECK_EQUAL(*c.set.count, full ? capacity : (int32_t)expected.size()));
    CHECK_EQUAL(c.trouble.flags, full ? (uint32_t)device_flag_capacity : 0u);
    CHECK_EQUAL(c.trouble.needed, full ? expected.size() : 0u);
    auto at = expected.begin();
    for (int32_t i = 0; i < capacity; ++i) {
        W word = word_none<W>();
        if (i < *c.set.count) {
            auto [batch, x, y, z] = *at++;
            word = word_pack<W>(l, {batch, x, y, z});
        }
        CHECK_EQUAL(c.set.words[i], word);
    }
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
        int32_t wanted = random_int(&r, 1, 500), count;
        W *words = guarded_new<W>(wanted);
        count = reference_random_set(&r, &l, lo, hi, {1, 1, 1}, wanted, words);
        std::vector<W> padded(words, words + count);
        set_pad(&padded, wanted);
        std::copy(padded.begin(), padded.end(), words);
        voxel_set<W> in = {words, &count, wanted};
        check_coarse(&l, in, largest, wanted);
        check_coarse(&l, in, stride_random(&r, largest), wanted);
        check_coarse(&l, in, stride_random(&r, largest), random_int(&r, 1, wanted));
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
    int32_t count = most;
    const voxel_set<uint32_t> in = {words.data(), &count, most};
    const coarse<uint32_t> full = downsample_new(&l, in, stride, most);
    CHECK_EQUAL(full.trouble.flags, 0u);
    count = most + 17;
    const coarse<uint32_t> more = downsample_new(&l, in, stride, most);
    CHECK_EQUAL(more.trouble.flags, (uint32_t)device_flag_capacity);
    CHECK_EQUAL(more.trouble.needed, (uint32_t)count);
    CHECK_EQUAL(*more.set.count, *full.set.count);
    CHECK(std::equal(more.set.words, more.set.words + most, full.set.words));
    count = -5;
    const coarse<uint32_t> none = downsample_new(&l, in, stride, most);
    CHECK(*none.set.count == 0 && none.trouble.flags == 0);
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
        int32_t count = 0;
        uint32_t *words = guarded_new<uint32_t>(3000);
        count = reference_random_set(&r, &l, {-50, -50, -9}, {50, 50, 9}, {1, 1, 1}, 3000, words);
        voxel_set<uint32_t> first = {words, &count, 3000}, before = first;
        for (int s = base; s <= largest; s *= base) {
            coarse<uint32_t> direct = downsample_new(&l, first, {s, s, s}, 3000);
            coarse<uint32_t> chained = downsample_new(&l, before, {s, s, s}, 3000);
            REQUIRE_OK(direct.returned);
            REQUIRE_OK(chained.returned);
            CHECK_EQUAL(*direct.set.count, *chained.set.count);
            CHECK(*direct.set.count < *before.count);
            CHECK(std::equal(direct.set.words, direct.set.words + 3000, chained.set.words));
            before = chained.set;
        }
    }
}

TEST(downsample_nothing_one_and_a_full_capacity) {
    word_layout l = reference_layout<uint32_t>({-8, -8, -8}, {7, 7, 7}, 1, {4, 4, 4}, {1, 1, 1});
    int32_t count = 0;
    uint32_t words[16];
    voxel_set<uint32_t> in = {words, &count, 16};
    check_coarse(&l, in, {2, 2, 2}, 1);
    for (int i = 0; i < 16; ++i) { // 16 voxels in 8 cells of 2, in 4 of 4
        words[i] = word_pack<uint32_t>(&l, {0, 0, 0, i - 8});
        ++count;
        for (int32_t capacity : {1, 3, 4, 5, 7, 8, 9, 16, 100}) {
            check_coarse(&l, in, {2, 2, 2}, capacity);
            check_coarse(&l, in, {4, 4, 4}, capacity);
            check_coarse(&l, in, {1, 1, 1}, capacity);
        }
    }
}

// One row of voxels is flat in x and y: the strides there are larger than the fields.
TEST(downsample_flat_scene) {
    random_state r = random_make(6);
    word_layout l = reference_layout<uint32_t>({0, 3, -2}, {20, 3, -2}, 3, {16, 16, 16}, {0, 0, 0});
    int32_t count;
    uint32_t words[40];
    count = reference_random_set(&r, &l, {0, 3, -2}, {20, 3, -2}, {1, 1, 1}, 40, words);
    voxel_set<uint32_t> in = {words, &count, 40};
    check_coarse(&l, in, {16, 16, 16}, 40);
    check_coarse(&l, in, {1, 16, 16}, 40);
    check_coarse(&l, in, {1, 1, 16}, 40);
    check_coarse(&l, in, {2, 16, 1}, 40);
}

// No two voxels merge: the outputs are as many as the inputs, and other voxels.
TEST(downsample_of_equal_sizes) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {2, 2, 2}, {1, 1, 1});
    uint32_t words[3] = {word_pack<uint32_t>(&l, {0, 1, 1, 1}),
                         word_pack<uint32_t>(&l, {0, 5, 4, 3}),
                         word_pack<uint32_t>(&l, {0, 9, 9, 9})};
    int32_t count = 3;
    check_coarse<uint32_t>(&l, {words, &count, 3}, {2, 2, 2}, 3);
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
    int32_t count = (int32_t)words.size();
    const voxel_set<uint32_t> in = {words.data(), &count, count};
    const coarse<uint32_t> c = downsample_new<uint32_t>(&l, in, {4, 4, 4}, count, {2, 2, 2});
    CHECK_OK(c.returned);
    CHECK_EQUAL(c.trouble.flags, (uint32_t)device_flag_lattice);
    CHECK_STATUS(device_status_read(&c.trouble), status_lattice);
    CHECK_EQUAL(device_status_read(&c.trouble).detail, 1); // (0, 0, 5)
    CHECK_EQUAL(*c.set.count, (int32_t)wanted.size());
    CHECK(std::equal(wanted.begin(), wanted.end(), c.set.words));
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
    int32_t count = (int32_t)words.size();
    for (int stride : {2, 4, 8, 16}) {
        check_coarse<uint32_t>(&l, {words.data(), &count, count}, {stride, stride, stride}, count);
    }
}
