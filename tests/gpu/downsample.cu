// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/downsample.cu: coarser sets on the GPU, word for word those of the host loop.
#include "../../spira/downsample.cuh"
#include "../support/downsample.h"
#include "../support/gpu.cuh"
#include "../support/sets.cuh"

using namespace spira;

namespace {

char label[128]; // the case at hand, for the message

// ---- one run ------------------------------------------------------------------------------------

// Buffers of one run on the device, all of exactly the size that is asked for.
template <typename W>
struct device_run {
    voxel_set<W> in, out;
    device_status *trouble;
    char *scratch;
    size_t scratch_bytes;
};

template <typename W>
device_run<W> device_run_make(std::vector<W> words, int32_t capacity, int32_t out_capacity) {
    device_run<W> d;
    int32_t count = (int32_t)words.size();
    set_pad(&words, capacity);
    d.in = {device_upload(words.data(), capacity), device_upload(&count, 1), capacity};
    d.out = {device_new<W>(out_capacity), device_new<int32_t>(1), out_capacity};
    d.trouble = device_zeros<device_status>(1);
    d.scratch_bytes = 0;
    CHECK_OK(downsample_workspace(d.in, out_capacity, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const word_layout *layout, const device_run<W> *d, triple from,
                        triple stride, cudaStream_t stream = stream_get()) {
    const downsample_args<W> args = {layout, d->in, from, stride, d->out, d->trouble};
    return downsample(gpu(), &args, d->scratch, d->scratch_bytes, stream);
}

template <typename W>
set_outcome<W> device_run_fetch(const device_run<W> *d) {
    set_outcome<W> o;
    o.words.resize((size_t)d->out.capacity);
    device_get(&o.trouble, d->trouble, sizeof o.trouble);
    device_get(&o.count, d->out.count, sizeof o.count);
    device_get(o.words.data(), d->out.words, o.words.size() * sizeof(W));
    device_settle();
    return o;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
// The input stays as it is. Frees all buffers of the test.
template <typename W>
set_outcome<W> check_step(const char *what, const word_layout *layout, const std::vector<W> &words,
                          int32_t room, triple from, triple stride, int32_t out_capacity = 0) {
    const int32_t n = (int32_t)words.size(), capacity = std::max(n + room, 1);
    out_capacity = out_capacity ? out_capacity : capacity;
    snprintf(label, sizeof label, "%s, %d of %d voxels, %d %d %d from %d %d %d, at most %d", what,
             n, capacity, stride.x, stride.y, stride.z, from.x, from.y, from.z, out_capacity);
    std::vector<W> padded = words;
    set_pad(&padded, capacity);
    const set_outcome<W> wanted = downsample_on_host(layout, padded, n, from, stride, out_capacity);
    device_run<W> d = device_run_make(words, capacity, out_capacity);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(layout, &d, from, stride));
        CHECK_EQUAL(set_difference(device_run_fetch(&d), wanted, label), "");
    }
    std::vector<W> after((size_t)std::min(n, capacity));
    device_copy_out(after.data(), d.in.words, (int64_t)after.size());
    CHECK(std::equal(after.begin(), after.end(), words.begin()));
    guarded_finish();
    return wanted;
}

// A level from the one before it, and that from the one before; all without a sort.
template <typename W>
void check_levels(const char *what, const word_layout *layout, std::vector<W> words, int32_t room,
                  std::initializer_list<triple> strides) {
    triple from = {1, 1, 1};
    for (triple stride : strides) {
        CHECK(downsample_is_step(from, stride));
        set_outcome<W> o = check_step(what, layout, words, room, from, stride);
        CHECK_OK(device_status_read(&o.trouble));
        words.assign(o.words.begin(), o.words.begin() + o.count);
        from = stride;
    }
}

// The first ones need no sort.
const struct {
    triple from, stride;
} steps[] = {
    {{1, 1, 1}, {2, 2, 2}},    {{2, 2, 2}, {4, 4, 4}},   {{8, 8, 8}, {16, 16, 16}},
    {{1, 1, 1}, {2, 1, 1}},    {{4, 4, 4}, {8, 4, 4}},   {{1, 1, 1}, {1, 2, 1}},
    {{4, 4, 4}, {4, 8, 4}},    {{1, 1, 1}, {1, 1, 2}},   {{4, 4, 4}, {4, 4, 8}},
    {{1, 1, 1}, {2, 2, 1}},    {{2, 2, 2}, {4, 4, 2}},   {{1, 1, 1}, {2, 1, 2}},
    {{2, 2, 2}, {4, 2, 4}},    {{1, 1, 1}, {1, 2, 2}},   {{2, 2, 2}, {2, 4, 4}},
    {{1, 1, 1}, {1, 1, 1}},    {{4, 4, 4}, {4, 4, 4}},   {{1, 1, 1}, {1, 1, 4}},
    {{1, 1, 1}, {1, 1, 16}},   {{2, 2, 2}, {2, 4, 16}},  {{1, 1, 1}, {2, 2, 16}},
    {{4, 4, 1}, {8, 8, 32}},   {{1, 2, 4}, {2, 4, 4}},   {{8, 1, 2}, {8, 2, 8}},
    {{16, 2, 1}, {32, 2, 1}},  {{1, 1, 1}, {4, 1, 1}},   {{1, 1, 1}, {1, 4, 1}},
    {{2, 2, 2}, {8, 4, 4}},    {{1, 1, 1}, {4, 4, 4}},   {{1, 1, 1}, {16, 16, 16}},
    {{1, 1, 1}, {64, 64, 64}}, {{1, 1, 1}, {1, 4, 2}},   {{1, 1, 1}, {8, 2, 1}},
    {{1, 1, 1}, {3, 3, 3}},    {{1, 1, 1}, {5, 5, 5}},   {{1, 1, 1}, {2, 2, 3}},
    {{1, 1, 1}, {2, 3, 5}},    {{1, 1, 1}, {1, 3, 1}},   {{1, 1, 1}, {1, 1, 3}},
    {{1, 1, 1}, {7, 1, 9}},    {{1, 1, 1}, {100, 1, 1}}, {{3, 3, 3}, {3, 3, 3}},
    {{3, 3, 3}, {6, 6, 6}},    {{2, 2, 2}, {6, 6, 6}},   {{2, 2, 1}, {2, 2, 3}},
    {{5, 1, 2}, {10, 2, 4}},
};

// ---- scenes -------------------------------------------------------------------------------------

// Each step on random voxels of three batches, negative coordinates among them, that fill a cube to
// a `density`th, with and without room behind.
template <typename W>
void check_sizes(std::initializer_list<int> sizes, int density) {
    random_state random = random_make((uint64_t)density);
    for (int n : sizes) {
        int side = 1;
        while (3 * side * side * side < density * n) {
            ++side;
        }
        for (const auto &s : steps) {
            if (test_thinned(5)) {
                continue;
            }
            triple lo = triple_multiply(s.from, triple_make(-side / 2, 1 - side, -side / 3)),
                   size = triple_multiply(s.from, triple_make(side, side, side)),
                   hi = triple_make(lo.x + size.x - 1, lo.y + size.y - 1, lo.z + size.z - 1);
            word_layout layout = reference_layout<W>(lo, hi, 3, s.stride, {3, 3, 3});
            std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n, s.from);
            CHECK_EQUAL(words.size(), (size_t)n);
            for (int room : {0, 1000}) {
                check_step("sizes", &layout, words, room, s.from, s.stride);
            }
        }
    }
}

DEVICE_TEST(gpu_downsample_sizes) {
    if (test_quick()) {
        check_sizes<uint32_t>({0, 1, 600}, 3);
        return;
    }
    check_sizes<uint32_t>({0, 1, 2, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 4097, 65537}, 2);
    check_sizes<uint64_t>({0, 1, 2, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 4097, 65537}, 2);
    check_sizes<uint32_t>({100, 513, 10007}, 20); // few in a cell
    check_sizes<uint64_t>({100, 513, 10007}, 20);
}

template <typename W>
void check_random_scenes(int scenes) {
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        const auto &s = steps[random_int(&random, 0, (int)(sizeof steps / sizeof *steps) - 1)];
        triple lo = triple_make(random_int(&random, -300, 300), random_int(&random, -300, 300),
                                random_int(&random, -40, 40));
        triple hi =
            triple_make(lo.x + random_int(&random, 0, 99), lo.y + random_int(&random, 0, 60),
                        lo.z + random_int(&random, 0, 40));
        const int batches = random_int(&random, 1, 5), n = random_int(&random, 0, 6000);
        triple fitted = triple_multiply(s.stride, triple_make(random_int(&random, 1, 3), 1, 2));
        word_layout layout = reference_layout<W>(lo, hi, batches, fitted, {3, 3, 3});
        check_step("random", &layout, set_random<W>(&random, &layout, lo, hi, n, s.from),
                   random_int(&random, 0, 300), s.from, s.stride,
                   random_int(&random, 0, 2) ? 0 : random_int(&random, 1, 900));
        layout = reference_layout<W>(lo, hi, batches, {16, 16, 16}, {3, 3, 3});
        std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n);
        const int32_t room = random_int(&random, 0, 1) * random_int(&random, 0, 2000);
        check_levels("cubes", &layout, words, room,
                     {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}});
        check_levels("axis by axis", &layout, words, room,
                     {{1, 1, 2}, {2, 1, 2}, {2, 2, 2}, {4, 4, 2}, {4, 8, 4}, {8, 8, 16}});
    }
}

DEVICE_TEST(gpu_downsample_random_scenes) {
    check_random_scenes<uint32_t>(test_quick() ? 3 : 120);
    check_random_scenes<uint64_t>(test_quick() ? 3 : 120);
}

// Voxels off the lattice of `from`, some or all of them: each way and window finds the first, and
// leaves out those whose x or y is at fault.
template <typename W>
void check_off_lattice(std::initializer_list<int> sizes, triple reach) {
    random_state random = random_make(18);
    for (int n : sizes) {
        for (const auto &s : steps) {
            if (test_thinned(7)) {
                continue;
            }
            const triple lo = {-16, -48, -32}, hi = {n < 3000 ? 40 : 3, 47, n < 3000 ? 31 : 96};
            word_layout layout = reference_layout<W>(lo, hi, 2, s.stride, reach);
            std::vector<W> words = set_random<W>(&random, &layout, lo, hi, n, s.from),
                           off = set_random<W>(&random, &layout, lo, hi, n / 8 + 1);
            words.insert(words.end(), off.begin(), off.end());
            set_outcome<W> o =
                check_step("off the lattice", &layout, set_sorted(words), 0, s.from, s.stride);
            CHECK(n < 100 || triple_equal(s.from, triple_make(1, 1, 1)) ||
                  o.trouble.flags == (uint32_t)device_flag_lattice);
        }
    }
}

DEVICE_TEST(gpu_downsample_off_the_lattice) {
    check_off_lattice<uint32_t>({1, 513, 2863}, {3, 3, 3});
    check_off_lattice<uint64_t>({40, 2863}, {3, 3, 3});
    if (!test_quick()) {
        check_off_lattice<uint32_t>({20000}, {3, 3, 3});
        check_off_lattice<uint64_t>({20000}, {3, 1 << 20, 1 << 20}); // searches in the set
    }
}

// Multiples of `from` at both ends of a field and around zero.
std::vector<int> axis_ends(int lo, int hi, int from) {
    const int top = (int)floor_to(hi, from), low = -(int)floor_to(-lo, from);
    return set_sorted(std::vector<int>{low, low + from, -from, 0, top - from, top});
}

// Voxels at both ends of every field, on either side of zero, in the first and the last batch.
template <typename W>
void check_field_ends(int batches) {
    for (const auto &s : steps) {
        if (test_thinned(5)) {
            continue;
        }
        word_layout layout =
            reference_layout<W>({-100, -70, -90}, {200, 150, 85}, batches, s.stride, {1, 1, 1});
        std::vector<W> words;
        for (int batch = 0; batch < batches; ++batch) {
            for (int x : axis_ends(layout.lo.x, layout.hi.x, s.from.x)) {
                for (int y : axis_ends(layout.lo.y, layout.hi.y, s.from.y)) {
                    for (int z : axis_ends(layout.lo.z, layout.hi.z, s.from.z)) {
                        words.push_back(word_pack<W>(&layout, {batch, x, y, z}));
                    }
                }
            }
        }
        CHECK(std::is_sorted(words.begin(), words.end()));
        set_outcome<W> o = check_step("ends", &layout, words, 0, s.from, s.stride);
        for (int32_t i = 0; i < o.count; ++i) { // floored, and inside of the layout
            voxel v = word_unpack<W>(&layout, o.words[(size_t)i]);
            CHECK(v.x % s.stride.x == 0 && v.y % s.stride.y == 0 && v.z % s.stride.z == 0);
            CHECK(word_contains(&layout, v));
        }
        const size_t fewer = test_quick() ? 2000 : 97;
        for (size_t last = words.size(); last > 0; last -= std::min(last, fewer)) {
            std::vector<W> behind(words.begin() + (int64_t)last - 1, words.end());
            check_step("ends", &layout, behind, (int32_t)last - 1, s.from, s.stride);
        }
    }
}

DEVICE_TEST(gpu_downsample_field_ends) {
    check_field_ends<uint32_t>(1);
    check_field_ends<uint32_t>(3);
    check_field_ends<uint64_t>(1);
    check_field_ends<uint64_t>(8);
}

// Full cells, and everything in one plane, one row of planes or one column, lower and upper.
template <typename W>
void check_shapes() {
    const triple lo = {-6, -6, -6},
                 sizes[] = {{16, 16, 16}, {1, 60, 60},  {2, 50, 40},  {60, 1, 60}, {60, 2, 30},
                            {60, 60, 1},  {1, 1, 3000}, {1, 3000, 1}, {3000, 1, 1}};
    random_state random = random_make(11);
    for (triple size : sizes) {
        triple hi = triple_make(lo.x + size.x, lo.y + size.y, lo.z + size.z);
        word_layout layout = reference_layout<W>(lo, hi, 2, {16, 16, 16}, {3, 3, 3});
        for (int corner = 0; corner < 8; corner += test_quick() ? 7 : 1) {
            if (test_thinned(5)) {
                continue;
            }
            const int keep = corner < 4 || size.x == 16 ? 100 : 60; // of 100
            std::vector<W> words;
            for (int i = 0; i < size.x * size.y * size.z; ++i) {
                const voxel v = {0, lo.x + (corner & 1) + i / (size.y * size.z),
                                 lo.y + (corner >> 1 & 1) + i / size.z % size.y,
                                 lo.z + (corner >> 2) + i % size.z};
                if (random_int(&random, 0, 99) < keep) {
                    words.push_back(word_pack<W>(&layout, v));
                }
            }
            check_levels("shapes", &layout, words, 0,
                         {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}});
            check_levels("shapes", &layout, words, 0, {{2, 1, 1}, {2, 2, 1}, {2, 2, 16}});
            check_levels("shapes", &layout, words, 0, {{1, 2, 4}, {2, 2, 8}, {4, 2, 8}});
        }
    }
}

DEVICE_TEST(gpu_downsample_shapes) {
    check_shapes<uint32_t>();
    if (!test_quick()) {
        check_shapes<uint64_t>();
    }
}

// A scene that is flat, and strides that are larger than its fields: a cell is all of an axis.
template <typename W>
void check_flats() {
    const triple sizes[] = {{0, 30, 30}, {30, 0, 30}, {30, 30, 0}, {300, 0, 0},
                            {0, 300, 0}, {0, 0, 300}, {5, 5, 5}};
    random_state random = random_make(12);
    for (int i = 0; i < 14; ++i) {
        if (test_thinned(5)) {
            continue;
        }
        const triple size = sizes[i % 7];
        word_layout layout =
            reference_layout<W>({0, 0, 0}, size, i < 7 ? 1 : 40, {16, 16, 64}, {0, 0, 0});
        std::vector<W> words = set_random<W>(&random, &layout, {0, 0, 0}, size, 300);
        check_levels("flat", &layout, words, 10,
                     {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}, {16, 16, 64}});
        check_levels("flat", &layout, words, 0, {{1, 1, 64}});
        check_levels("flat", &layout, words, 0, {{2, 1, 1}, {4, 1, 1}, {8, 1, 1}, {16, 1, 1}});
        check_levels("flat", &layout, words, 0, {{1, 2, 1}, {1, 4, 1}, {1, 8, 1}, {1, 16, 1}});
        for (triple stride : {triple{4, 1, 64}, triple{16, 16, 64}, triple{1, 8, 16}}) {
            check_step("flat, sorted", &layout, words, 0, {1, 1, 1}, stride);
        }
    }
}

DEVICE_TEST(gpu_downsample_strides_wider_than_the_fields) {
    check_flats<uint32_t>();
    check_flats<uint64_t>();
}

// One voxel of room too little, and less: what fits is there, and how many there would have been.
template <typename W>
void check_capacity() {
    random_state random = random_make(13);
    for (const auto &s : steps) {
        if (test_thinned(3)) {
            continue;
        }
        triple lo = triple_multiply(s.from, triple_make(-9, -9, -9)),
               hi = triple_multiply(s.from, triple_make(9, 9, 9));
        word_layout layout = reference_layout<W>(lo, hi, 1, s.stride, {1, 1, 1});
        std::vector<W> words = set_random<W>(&random, &layout, lo, hi, 1500, s.from);
        const int32_t n = (int32_t)words.size();
        const int32_t all = downsample_on_host(&layout, words, n, s.from, s.stride, n).count;
        for (int32_t capacity : {3 * n + 5000, all + 1, all, all - 1, all / 2, 1}) {
            set_outcome<W> o =
                check_step("capacity", &layout, words, 0, s.from, s.stride, capacity);
            CHECK_EQUAL(o.count, capacity < all ? capacity : all);
            CHECK_EQUAL(o.trouble.flags, capacity < all ? (uint32_t)device_flag_capacity : 0u);
            CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
        }
        set_outcome<W> o = check_step("count", &layout, words, -10, s.from, s.stride, n);
        CHECK_EQUAL(o.trouble.flags, (uint32_t)device_flag_capacity);
        CHECK_EQUAL(o.trouble.needed, (uint32_t)n);
        const set_outcome<W> nothing = downsample_on_host(&layout, words, 0, s.from, s.stride, n);
        device_run<W> d = device_run_make(words, n, n);
        for (int32_t count : {-1, -5, INT32_MIN}) {
            device_copy_in(d.in.count, &count, 1);
            CHECK_OK(device_run_start(&layout, &d, s.from, s.stride));
            CHECK_EQUAL(set_difference(device_run_fetch(&d), nothing, "negative count"), "");
        }
        guarded_finish();
    }
}

DEVICE_TEST(gpu_downsample_full_capacity_and_one_more) {
    check_capacity<uint32_t>();
    if (!test_quick()) {
        check_capacity<uint64_t>();
    }
}

// ---- windows and tiles --------------------------------------------------------------------------

// `wanted` voxels of two planes, or of two rows of one, between `ahead` and `behind` others that
// share a plane and a row with none.
template <typename W>
std::vector<W> group_words(random_state *random, const word_layout *layout, bool rows, int wanted,
                           int ahead, int behind) {
    std::vector<W> words;
    for (int i = 0; i < ahead; ++i) {
        words.push_back(word_pack<W>(layout, {0, 2 * (i - ahead), 5, -7}));
    }
    const int planes = rows ? 1 : 2, depth = rows ? 2 : 64,
              height = wanted / (planes * depth) * 5 / 4 + 2;
    int left = wanted, room = planes * depth * height;
    for (int x = 0; x < planes; ++x) {
        for (int y = 0; y < depth; ++y) {
            for (int z = 0; z < height; ++z, --room) {
                if (random_int(random, 0, room - 1) < left) {
                    words.push_back(word_pack<W>(layout, {0, x, y, z}));
                    --left;
                }
            }
        }
    }
    for (int i = 0; i < behind; ++i) {
        words.push_back(word_pack<W>(layout, {0, 2 * i + 2, -3, 9}));
    }
    return words;
}

// Groups of planes and of rows as long as what is read at once and as what shared memory holds, a
// few words more and less; in wide fields, distances that 32 bits hold, and that they do not.
template <typename W>
void check_groups(triple reach) {
    random_state random = random_make(16);
    word_layout layout =
        reference_layout<W>({-1400, -8, -8}, {1400, 80, 6000}, 1, {4, 4, 4}, reach);
    const int near = downsample_margin, most = downsample_window;
    for (int n : {near - 1, near, near + 1, near + 512, most - 100, most - 40, most - 32, most - 20,
                  most + 1}) {
        for (int ahead : {0, 1, 31, 511, 512, 600}) {
            if (test_thinned(19)) {
                continue;
            }
            const int behind = (ahead * 7 + n) % 600;
            std::vector<W> planes = group_words<W>(&random, &layout, false, n, ahead, behind);
            check_levels("planes", &layout, planes, 0, {{2, 2, 2}, {4, 4, 4}});
            check_levels("planes", &layout, planes, 100, {{2, 1, 1}});
            std::vector<W> rows = group_words<W>(&random, &layout, true, n, ahead, behind);
            check_levels("rows", &layout, rows, 0, {{1, 2, 1}, {1, 4, 1}});
            check_levels("rows", &layout, rows, 0, {{2, 2, 2}});
        }
    }
}

DEVICE_TEST(gpu_downsample_long_groups) {
    check_groups<uint32_t>({0, 0, 0});
    check_groups<uint64_t>({3, 3, 3});
    if (!test_quick()) {
        check_groups<uint64_t>({3, 1 << 12, 3}); // some of the sets' groups are too far apart
        check_groups<uint64_t>({3, 1 << 14, 3});
    }
    check_groups<uint64_t>({3, 1 << 20, 1 << 20}); // each group is too long
}

// A group of two planes that ends with the words of a near window, one more and one less;
// its upper plane ends long before its lower one, so that cells are searched for behind its end.
template <typename W>
void check_window_ends(int turn, int room) {
    word_layout layout = reference_layout<W>({0, 0, 0}, {9, 400, 40}, 1, {2, 2, 2}, {3, 3, 3});
    for (int first : {0, 512, 1024}) {
        for (int more : {-1, 0, 1}) {
            for (int behind : {0, 300}) {
                if (test_thinned(5)) {
                    continue;
                }
                const int in_front = first ? first - 512 : 0;
                const int own = first + turn + 512 + more - in_front;
                std::vector<W> words;
                auto put = [&](int x, int count, int depth) { // `depth` voxels a row
                    for (int i = 0; i < count; ++i) {
                        voxel v = {0, x, i / depth * 2, i % depth * 2};
                        words.push_back(word_pack<W>(&layout, v));
                    }
                };
                put(0, in_front, 16);
                put(2, own / 2, 5);
                put(3, own - own / 2, 10);
                put(6, behind, 16);
                check_levels("ends", &layout, words, room, {{2, 2, 2}});
            }
        }
    }
}

DEVICE_TEST(gpu_downsample_groups_end_with_the_window) {
    check_window_ends<uint32_t>(256, 0);
    check_window_ends<uint64_t>(256, 0);
    check_window_ends<uint32_t>(512, downsample_small); // turns are longer there
    check_window_ends<uint64_t>(512, downsample_small);
}

// So many blocks that the heads are listed, most of them without a voxel; and more voxels than
// there are blocks of the smallest size.
DEVICE_TEST(gpu_downsample_many_blocks) {
    const int32_t many = downsample_blocks_many * 512 + 1, most = downsample_blocks_max * 512;
    const triple lo = {-90, -90, -90}, hi = {90, 90, 90};
    word_layout layout = reference_layout<uint32_t>(lo, hi, 2, {16, 16, 16}, {3, 3, 3});
    random_state random = random_make(17);
    CHECK(downsample_cut_make(many).blocks > downsample_blocks_many);
    CHECK(downsample_cut_make(most).shift == 9 && downsample_cut_make(most + 1).shift > 9);
    for (int32_t capacity : {many, most, most + 1, 2 * most + 5000}) {
        for (int32_t n : {0, 700, 5000, most - 1, most + 1}) {
            if (n > capacity || (test_quick() && capacity > many)) {
                continue;
            }
            const int32_t side = n < 10000 ? 20 : 90;
            std::vector<uint32_t> words = set_random<uint32_t>(
                &random, &layout, {-side, -side, -side}, {side, side, side}, n);
            check_levels("many", &layout, words, capacity - n, {{2, 2, 2}, {4, 4, 4}});
            check_levels("many", &layout, words, capacity - n, {{1, 1, 2}, {1, 2, 2}, {2, 2, 16}});
        }
    }
}

// ---- graphs and scans ---------------------------------------------------------------------------

// Three levels and a step that sorts, captured once for a capacity and replayed on other scenes.
template <typename W>
void check_replays() {
    const triple lo = {-40, -40, -20}, hi = {40, 40, 20},
                 strides[] = {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 16}, {16, 64, 16}};
    const int levels = 4, capacity = 20000;
    word_layout layout = reference_layout<W>(lo, hi, 2, {16, 64, 16}, {4, 4, 4});
    random_state random = random_make(15);
    std::vector<W> words = set_random<W>(&random, &layout, lo, hi, 9000);
    device_run<W> d[levels];
    for (int l = 0; l < levels; ++l) {
        d[l] = device_run_make(words, capacity, capacity);
        d[l].in = l ? d[l - 1].out : d[l].in;
    }
    auto run = [&](cudaStream_t stream) {
        for (int l = 0; l < levels; ++l) {
            CHECK_OK(device_run_start(&layout, &d[l], strides[l], strides[l + 1], stream));
        }
    };
    run(stream_get()); // kernels are loaded at their first launch
    cudaGraphExec_t replay = stream_capture(run);
    REQUIRE(replay != nullptr);
    for (int n : {500, capacity, 0, 9000, 1, 513, 12345}) {
        words = set_random<W>(&random, &layout, lo, hi, n);
        set_refill(&d[0].in, words);
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        const int32_t count = (int32_t)words.size();
        set_pad(&words, capacity);
        for (int l = 0; l < levels; ++l) { // floors nest: each follows from the first set, too
            CHECK_EQUAL(set_difference(
                            device_run_fetch(&d[l]),
                            downsample_on_host(&layout, words, count, {}, strides[l + 1], capacity),
                            "replay"),
                        "");
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_downsample_levels_replay) {
    check_replays<uint32_t>();
    check_replays<uint64_t>();
}

DEVICE_TEST(gpu_downsample_real_levels) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32", "pcl_room_scan1_2cm.vox32");
    for (const char *name :
         {"kitti00_000000_5cm.vox32", "lone_star_5cm.vox32", "pcl_room_scan1_2cm.vox32"}) {
        word_layout layout;
        std::vector<uint32_t> words = reference_scan<uint32_t>(name, 16, &layout);
        REQUIRE(!words.empty());
        if (test_quick()) {
            words.resize(words.size() / 20);
        }
        for (int32_t room : {0, 50000}) {
            check_levels(name, &layout, words, room,
                         {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}});
            check_levels(name, &layout, words, room,
                         {{1, 1, 2}, {2, 1, 8}, {2, 2, 16}, {4, 4, 16}});
        }
        word_layout wide = word_widen(layout);
        std::vector<uint64_t> wide_words(words.begin(), words.end());
        check_levels(name, &wide, wide_words, 1, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}});
        for (triple stride : {triple{3, 2, 1}, triple{16, 16, 16}}) {
            check_step(name, &layout, words, 0, {}, stride);
            check_step(name, &wide, wide_words, 0, {}, stride);
        }
    }
}

// ---- scratch and what is refused ----------------------------------------------------------------

// Of a workspace from which other arrays have been carved, both ways take what is behind them.
DEVICE_TEST(gpu_downsample_carves_behind_other_arrays) {
    for (int32_t rows : {1, 33, 5000, 70000}) {
        downsample_scratch<uint32_t> s;
        workspace alone = workspace_begin(nullptr);
        downsample_carve(&alone, rows, rows, &s);
        CHECK(alone.used > 0);
        workspace w = workspace_begin(device_new<char>(1024 + (int64_t)alone.used));
        workspace_take<char>(&w, 1000);
        downsample_carve(&w, rows, rows, &s);
        CHECK_EQUAL(w.used, 1024 + alone.used);
        CHECK((char *)s.marks.heads >= w.base + 1024 && (char *)s.sort.sorted >= w.base + 1024);
        CHECK((char *)(s.marks.counts + downsample_cut_make(rows).blocks) <= w.base + w.used);
        const radix_scratch<uint32_t> *radix = &s.sort.radix;
        CHECK((char *)(radix->state + 2 * (int64_t)radix->tiles * radix_digits) <= w.base + w.used);
    }
}

DEVICE_TEST(gpu_downsample_refuses) {
    typedef downsample_args<uint32_t> args;
    word_layout layout = reference_layout<uint32_t>({-5, -5, -5}, {20, 20, 20}, 1, {4, 4, 4}, {});
    std::vector<uint32_t> words = {word_pack<uint32_t>(&layout, {0, 1, 2, 3})};
    const device_run<uint32_t> d = device_run_make(words, 100, 50);
    check_refusals<args>({&layout, d.in, {}, {2, 2, 2}, d.out, d.trouble}, d.scratch,
                         d.scratch_bytes, downsample_refusals(),
                         [&](const args *a, void *scratch, size_t bytes) {
                             return downsample(gpu(), a, scratch, bytes, stream_get());
                         });
    size_t bytes = 0;
    voxel_set<uint32_t> none = d.in;
    none.capacity = 0;
    CHECK_STATUS(downsample_workspace(none, 50, &bytes), status_bad_size);
    CHECK_STATUS(downsample_workspace(d.in, 0, &bytes), status_bad_size);
    CHECK_STATUS(downsample_workspace(d.in, 50, nullptr), status_null_pointer);
    const args good = {&layout, d.in, {}, {2, 2, 2}, d.out, d.trouble};
    CHECK_STATUS(
        downsample((const device_info *)nullptr, &good, d.scratch, d.scratch_bytes, stream_get()),
        status_null_pointer);
    CHECK(device_untouched(d.out.words, 0, 50)); // a refused call has done nothing
    CHECK(device_untouched(d.scratch, 0, (int64_t)d.scratch_bytes));
}

} // namespace
