// tests/gpu/downsample.cu: coarser sets on the GPU, word for word those of the host loop.
#include "../../spira/downsample.cuh"
#include "../support/sets.cuh"
#include "../support/sets.h"

using namespace spira;

namespace {

char label[128];    // the case at hand, for the message
char finding[1024]; // the first difference

// ---- one run, on either side --------------------------------------------------------------------

template <typename W>
struct outcome {
    device_status trouble;
    int32_t count;
    std::vector<W> words; // [out capacity]
};

template <typename W>
outcome<W> downsample_on_host(const word_layout *layout, std::vector<W> words, int32_t capacity,
                              triple stride, int32_t out_capacity, triple from = {}) {
    outcome<W> o;
    o.trouble = {};
    o.words.assign((size_t)out_capacity, 0);
    int32_t count = (int32_t)words.size();
    set_pad(&words, capacity);
    voxel_set<W> in = {words.data(), &count, capacity};
    size_t bytes = 0;
    CHECK_OK(downsample_host_workspace(in, &bytes));
    voxel_set<W> out = {o.words.data(), &o.count, out_capacity};
    const downsample_args<W> args = {layout, in, from, stride, out, &o.trouble};
    CHECK_OK(downsample_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    return o;
}

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
    return downsample(&args, d->scratch, d->scratch_bytes, stream);
}

template <typename W>
outcome<W> device_run_fetch(const device_run<W> *d) {
    outcome<W> o;
    o.words.resize((size_t)d->out.capacity);
    device_get(&o.trouble, d->trouble, sizeof o.trouble);
    device_get(&o.count, d->out.count, sizeof o.count);
    device_get(o.words.data(), d->out.words, o.words.size() * sizeof(W));
    device_settle();
    return o;
}

// "" where all is the same; else what is not.
template <typename W>
const char *difference(const outcome<W> &got, const outcome<W> &wanted) {
    finding[0] = 0;
    if (got.count != wanted.count || got.words.size() != wanted.words.size()) {
        snprintf(finding, sizeof finding, "count: %d instead of %d (%s)", got.count, wanted.count,
                 label);
        return finding;
    }
    for (size_t i = 0; i < got.words.size(); ++i) {
        if (got.words[i] != wanted.words[i]) {
            snprintf(finding, sizeof finding, "words[%zu]: %llx instead of %llx (%s)", i,
                     (unsigned long long)got.words[i], (unsigned long long)wanted.words[i], label);
            return finding;
        }
    }
    if (memcmp(&got.trouble, &wanted.trouble, sizeof got.trouble) != 0) {
        snprintf(finding, sizeof finding, "trouble: flags %u, needed %u instead of %u, %u (%s)",
                 got.trouble.flags, got.trouble.needed, wanted.trouble.flags, wanted.trouble.needed,
                 label);
    }
    return finding;
}

// Both sides, the device twice: the second run finds scratch and outputs as the first left them.
// The input stays as it is. Frees all buffers of the test. from: the stride of the words.
template <typename W>
outcome<W> check_from(const word_layout *layout, const std::vector<W> &words, int32_t capacity,
                      triple from, triple stride, int32_t out_capacity) {
    outcome<W> wanted = downsample_on_host(layout, words, capacity, stride, out_capacity, from);
    device_run<W> d = device_run_make(words, capacity, out_capacity);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(layout, &d, from, stride));
        CHECK_EQUAL(difference(device_run_fetch(&d), wanted), "");
    }
    std::vector<W> after(std::min(words.size(), (size_t)capacity));
    device_copy_out(after.data(), d.in.words, (int64_t)after.size());
    CHECK(std::equal(after.begin(), after.end(), words.begin()));
    guarded_finish();
    return wanted;
}

template <typename W>
outcome<W> check_both(const word_layout *layout, const std::vector<W> &words, int32_t capacity,
                      triple stride, int32_t out_capacity) {
    return check_from(layout, words, capacity, {}, stride, out_capacity);
}

// Random words of voxels that are multiples of `from`.
template <typename W>
std::vector<W> random_words(random_state *random, const word_layout *layout, triple lo, triple hi,
                            int32_t wanted, triple from = {1, 1, 1}) {
    std::vector<W> words((size_t)wanted + 1);
    int32_t count =
        wanted == 0 ? 0
                    : reference_random_set<W>(random, layout, lo, hi, from, wanted, words.data());
    words.resize((size_t)count);
    return words;
}

const triple strides_all[] = {{1, 1, 1}, {2, 2, 2}, {4, 4, 4},  {8, 8, 8},  {16, 16, 16},
                              {1, 1, 2}, {2, 1, 1}, {1, 4, 2},  {8, 2, 1},  {64, 64, 64},
                              {3, 3, 3}, {5, 5, 5}, {2, 3, 5},  {1, 3, 1},  {6, 4, 2},
                              {7, 1, 9}, {1, 1, 3}, {10, 2, 1}, {100, 1, 1}};

// ---- tests --------------------------------------------------------------------------------------

template <typename W>
void check_every_size() {
    const int sizes[] = {0,    1,    2,    7,    8,    9,    31,   32,   33,   63,    64,
                         65,   127,  128,  129,  255,  256,  257,  511,  512,  513,   1023,
                         1024, 1025, 1919, 1920, 1921, 2047, 2048, 2049, 4097, 10007, 65537};
    random_state random = random_make(1);
    int turn = 0;
    for (int n : sizes) {
        if (test_quick() && n > 300) {
            continue;
        }
        for (int room : {0, 37}) {
            triple stride = strides_all[turn++ % 19];
            if (test_thinned(3)) {
                continue;
            }
            int side = n < 300 ? 9 : n < 3000 ? 19 : 60;
            triple lo = triple_make(-side, -side, -side), hi = triple_make(side, side, side - 3);
            word_layout layout = reference_layout<W>(lo, hi, 2, stride, {2, 2, 2});
            std::vector<W> words = random_words<W>(&random, &layout, lo, hi, n);
            int32_t capacity = n + room > 0 ? n + room : 1;
            snprintf(label, sizeof label, "%d of %d words, stride %d %d %d", n, capacity, stride.x,
                     stride.y, stride.z);
            outcome<W> o = check_both(&layout, words, capacity, stride, capacity);
            CHECK_OK(device_status_read(&o.trouble));
        }
    }
}

DEVICE_TEST(gpu_downsample_every_size) {
    check_every_size<uint32_t>();
    check_every_size<uint64_t>();
}

template <typename W>
void check_random_scenes(int scenes) {
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        triple stride = strides_all[random_int(&random, 0, 18)];
        triple lo = triple_make(random_int(&random, -300, 300), random_int(&random, -300, 300),
                                random_int(&random, -40, 40));
        triple hi =
            triple_make(lo.x + random_int(&random, 0, 99), lo.y + random_int(&random, 0, 40),
                        lo.z + random_int(&random, 0, 20));
        triple fitted = triple_multiply(stride, triple_make(random_int(&random, 1, 3), 1, 2));
        word_layout layout =
            reference_layout<W>(lo, hi, random_int(&random, 1, 5), fitted, {3, 3, 3});
        std::vector<W> words =
            random_words<W>(&random, &layout, lo, hi, random_int(&random, 0, 3000));
        int32_t count = (int32_t)words.size(), room = random_int(&random, 0, 300);
        int32_t capacity = count + room > 0 ? count + room : 1;
        int32_t out_capacity = random_int(&random, 0, 2) ? capacity : random_int(&random, 1, 900);
        snprintf(label, sizeof label, "%d bits, seed %d: %d words, capacities %d, %d",
                 (int)(8 * sizeof(W)), seed, count, capacity, out_capacity);
        check_both(&layout, words, capacity, stride, out_capacity);
    }
}

DEVICE_TEST(gpu_downsample_random_scenes) {
    check_random_scenes<uint32_t>(test_quick() ? 8 : 200);
    check_random_scenes<uint64_t>(test_quick() ? 8 : 200);
}

// All strides on one set with negative coordinates and voxels at both ends of every field.
template <typename W>
void check_field_ends(int batches) {
    for (triple stride : strides_all) {
        if (test_thinned(4)) {
            continue;
        }
        word_layout layout =
            reference_layout<W>({-100, -7, -30}, {200, 50, 5}, batches, stride, {1, 1, 1});
        std::vector<W> words;
        for (int batch = 0; batch < batches; ++batch) {
            for (int x : {layout.lo.x, layout.lo.x + 1, -1, 0, layout.hi.x - 1, layout.hi.x}) {
                for (int y : {layout.lo.y, -1, 0, layout.hi.y}) {
                    for (int z : {layout.lo.z, -1, 0, layout.hi.z - 1, layout.hi.z}) {
                        words.push_back(word_pack<W>(&layout, {batch, x, y, z}));
                    }
                }
            }
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        int32_t count = (int32_t)words.size();
        snprintf(label, sizeof label, "stride %d %d %d, %d batches", stride.x, stride.y, stride.z,
                 batches);
        outcome<W> o = check_both(&layout, words, count, stride, count);
        for (int32_t i = 0; i < o.count; ++i) { // floored, and inside of the layout
            voxel v = word_unpack<W>(&layout, o.words[(size_t)i]);
            CHECK(v.x % stride.x == 0 && v.y % stride.y == 0 && v.z % stride.z == 0);
            CHECK(word_contains(&layout, v));
        }
    }
}

DEVICE_TEST(gpu_downsample_field_ends) {
    check_field_ends<uint32_t>(1);
    check_field_ends<uint32_t>(4);
    check_field_ends<uint64_t>(1);
    check_field_ends<uint64_t>(9);
}

template <typename W>
void check_capacity() {
    random_state random = random_make(3);
    triple lo = triple_make(0, 0, 0), hi = triple_make(40, 40, 40);
    word_layout layout = reference_layout<W>(lo, hi, 1, {4, 4, 4}, {4, 4, 4});
    for (int n : {1, 33, 257, 1025, 4097, 20000}) {
        if (test_quick() && n > 300) {
            continue;
        }
        std::vector<W> words = random_words<W>(&random, &layout, lo, hi, n);
        for (triple stride : {triple{1, 1, 1}, triple{2, 2, 2}, triple{3, 1, 4}, triple{4, 4, 4}}) {
            if (stride.x == 3) { // a bias of 4 is no multiple of 3, which only a mask minds
                CHECK_EQUAL(downsample_by_mask(stride), false);
            }
            int32_t all = downsample_on_host(&layout, words, n, stride, n).count;
            for (int32_t capacity : {all, all - 1, all - 2, all / 2, 1}) {
                if (capacity < 1 || test_thinned(3)) {
                    continue;
                }
                snprintf(label, sizeof label, "%d voxels, stride %d, capacity %d", all, stride.x,
                         capacity);
                outcome<W> o = check_both(&layout, words, n, stride, capacity);
                status s = device_status_read(&o.trouble);
                CHECK_EQUAL(o.count, capacity < all ? capacity : all);
                CHECK_EQUAL(s.code, capacity < all ? status_capacity : status_ok);
                CHECK_EQUAL(s.detail, capacity < all ? all : 0);
            }
            // A capacity far above the input's: the tail is filled too.
            snprintf(label, sizeof label, "capacity above the input's");
            check_both(&layout, words, n, stride, 3 * n + 5000);
        }
    }
}

DEVICE_TEST(gpu_downsample_full_capacity_and_one_more) {
    check_capacity<uint32_t>();
    check_capacity<uint64_t>();
}

// A stride at which no two voxels merge is a stride all the same: |outputs| = |inputs|.
DEVICE_TEST(gpu_downsample_without_merging) {
    word_layout layout = reference_layout<uint32_t>({-64, 0, 0}, {63, 31, 31}, 1, {4, 4, 4}, {});
    std::vector<uint32_t> words;
    random_state random = random_make(4);
    for (int x = -64; x < 64; x += 4) {
        for (int y = 0; y < 32; y += 4) {
            for (int z = 0; z < 32; z += 4) {
                words.push_back(word_pack<uint32_t>(&layout, {0, x + random_int(&random, 0, 3),
                                                              y + random_int(&random, 0, 3),
                                                              z + random_int(&random, 0, 3)}));
            }
        }
    }
    std::sort(words.begin(), words.end());
    int32_t n = (int32_t)words.size();
    outcome<uint32_t> o = check_both(&layout, words, n, {4, 4, 4}, n);
    CHECK_EQUAL(o.count, n);
    CHECK(o.words != words);
    // And the other extreme: all of them merge into one voxel.
    std::vector<uint32_t> cell;
    for (int i = 0; i < 64; ++i) {
        cell.push_back(word_pack<uint32_t>(&layout, {0, -4 + i / 16, 4 + i / 4 % 4, 8 + i % 4}));
    }
    std::sort(cell.begin(), cell.end());
    o = check_both(&layout, cell, 64, {4, 4, 4}, 1);
    CHECK_EQUAL(o.count, 1);
    CHECK_EQUAL(o.words[0], word_pack<uint32_t>(&layout, {0, -4, 4, 8}));
}

template <typename W>
void check_real_scan(const char *name) {
    word_layout layout;
    std::vector<W> words = reference_scan<W>(name, 16, &layout);
    REQUIRE(!words.empty());
    int32_t n = (int32_t)words.size();
    std::vector<W> finer = words;
    for (int s : {2, 4, 8, 16}) {
        snprintf(label, sizeof label, "%s by %d", name, s);
        outcome<W> o = check_both(&layout, words, n, {s, s, s}, n);
        // Floors nest: the same set follows from the level before.
        outcome<W> nested = check_both(&layout, finer, n, {s, s, s}, n);
        CHECK_EQUAL(difference(nested, o), "");
        CHECK(o.count > 0 && o.count < (int32_t)finer.size());
        finer.assign(o.words.begin(), o.words.begin() + o.count);
    }
    snprintf(label, sizeof label, "%s by 3, 2, 1", name);
    check_both(&layout, words, n, {3, 2, 1}, n);
}

DEVICE_TEST(gpu_downsample_real_scans) {
    NEED_SCANS("kitti00_000000_5cm.vox32", "lone_star_5cm.vox32");
    for (const char *name : {"kitti00_000000_5cm.vox32", "lone_star_5cm.vox32"}) {
        if (test_thinned(2)) {
            continue;
        }
        check_real_scan<uint32_t>(name);
        if (!test_quick()) {
            check_real_scan<uint64_t>(name);
        }
    }
}

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
        CHECK((char *)s.marks >= w.base + 1024 && (char *)s.sort.sorted >= w.base + 1024);
        CHECK((char *)(s.counts + downsample_cut_make(rows).blocks) <= w.base + w.used);
        const radix_scratch<uint32_t> *radix = &s.sort.radix;
        CHECK((char *)(radix->state + 2 * (int64_t)radix->tiles * radix_digits) <= w.base + w.used);
    }
}

DEVICE_TEST(gpu_downsample_refuses) {
    word_layout layout = reference_layout<uint32_t>({-5, -5, -5}, {20, 20, 20}, 1, {4, 4, 4}, {});
    word_layout wide = word_widen(layout);
    std::vector<uint32_t> words = {word_pack<uint32_t>(&layout, {0, 1, 2, 3})};
    const device_run<uint32_t> d = device_run_make(words, 100, 50);
    typedef downsample_args<uint32_t> args;
    const size_t n = d.scratch_bytes;
    const args good = {&layout, d.in, {}, {2, 2, 2}, d.out, d.trouble};
    auto start = [&](const args *a, void *scratch, size_t bytes) {
        return downsample(a, scratch, bytes, stream_get());
    };
    CHECK_STATUS(start(nullptr, d.scratch, n), status_null_pointer);
    CHECK_STATUS(start(&good, nullptr, n), status_null_pointer);
    CHECK_STATUS(start(&good, d.scratch, n - 1), status_workspace);
    CHECK_EQUAL(start(&good, d.scratch, n - 1).detail, (int64_t)n);
    CHECK_STATUS(start(&good, d.scratch + 1, n), status_alignment);
    const struct {
        status_code code;
        void (*spoil)(args *);
    } bad[] = {
        {status_null_pointer, [](args *a) { a->layout = nullptr; }},
        {status_null_pointer, [](args *a) { a->trouble = nullptr; }},
        {status_null_pointer, [](args *a) { a->in.words = nullptr; }},
        {status_null_pointer, [](args *a) { a->out.words = nullptr; }},
        {status_null_pointer, [](args *a) { a->in.count = nullptr; }},
        {status_null_pointer, [](args *a) { a->out.count = nullptr; }},
        {status_alignment, [](args *a) { a->in.words = misaligned(a->in.words); }},
        {status_alignment, [](args *a) { a->out.words = misaligned(a->out.words); }},
        {status_alignment, [](args *a) { a->in.count = misaligned(a->in.count); }},
        {status_alignment, [](args *a) { a->out.count = misaligned(a->out.count); }},
        {status_bad_size, [](args *a) { a->in.capacity = 0; }},
        {status_bad_size, [](args *a) { a->in.capacity = -7; }},
        {status_bad_size, [](args *a) { a->out.capacity = 0; }},
        {status_bad_size, [](args *a) { a->out.capacity = -7; }},
    };
    for (auto &b : bad) {
        args a = good;
        b.spoil(&a);
        CHECK_STATUS(start(&a, d.scratch, n), b.code);
    }
    args a = good;
    a.layout = &wide;
    CHECK_STATUS(start(&a, d.scratch, n), status_unsupported);
    // No stride, or one that the layout was not fitted to: its bias or bound is no multiple.
    for (triple stride :
         {triple{0, 2, 2}, triple{2, -1, 2}, triple{2, 2, 0}, triple{16, 2, 2}, triple{2, 2, 64},
          triple{2, INT32_MIN, 2}, triple{3, 1, 1}, triple{INT32_MAX, 2, 2}}) {
        a = good;
        a.stride = stride;
        CHECK_STATUS(start(&a, d.scratch, n), status_stride);
    }
    size_t bytes = 0;
    voxel_set<uint32_t> none = d.in;
    none.capacity = 0;
    CHECK_STATUS(downsample_workspace(none, 50, &bytes), status_bad_size);
    CHECK_STATUS(downsample_workspace(d.in, 0, &bytes), status_bad_size);
    CHECK_STATUS(downsample_workspace(d.in, 50, nullptr), status_null_pointer);
    CHECK(device_untouched(d.out.words, 0, 50)); // a refused call has done nothing
    CHECK(device_untouched(d.scratch, 0, (int64_t)n));
}

// ---- from one level to the next -----------------------------------------------------------------

// Steps, and whether they need no sort.
struct step {
    triple from, stride;
    bool is_short;
};

const step steps_all[] = {
    {{1, 1, 1}, {2, 2, 2}, true},     {{2, 2, 2}, {4, 4, 4}, true},
    {{8, 8, 8}, {16, 16, 16}, true},  {{1, 1, 1}, {2, 1, 1}, true},
    {{4, 4, 4}, {8, 4, 4}, true},     {{1, 1, 1}, {1, 2, 1}, true},
    {{4, 4, 4}, {4, 8, 4}, true},     {{1, 1, 1}, {1, 1, 2}, true},
    {{4, 4, 4}, {4, 4, 8}, true},     {{1, 1, 1}, {2, 2, 1}, true},
    {{2, 2, 2}, {4, 4, 2}, true},     {{1, 1, 1}, {2, 1, 2}, true},
    {{2, 2, 2}, {4, 2, 4}, true},     {{1, 1, 1}, {1, 2, 2}, true},
    {{2, 2, 2}, {2, 4, 4}, true},     {{1, 1, 1}, {1, 1, 1}, true},
    {{4, 4, 4}, {4, 4, 4}, true},     {{1, 1, 1}, {1, 1, 4}, true},
    {{1, 1, 1}, {1, 1, 16}, true},    {{2, 2, 2}, {2, 4, 16}, true},
    {{1, 1, 1}, {2, 2, 16}, true},    {{4, 4, 1}, {8, 8, 32}, true},
    {{1, 2, 4}, {2, 4, 4}, true},     {{8, 1, 2}, {8, 2, 8}, true},
    {{16, 2, 1}, {32, 2, 1}, true},   {{1, 1, 1}, {4, 1, 1}, false},
    {{1, 1, 1}, {1, 4, 1}, false},    {{2, 2, 2}, {8, 4, 4}, false},
    {{1, 1, 1}, {16, 16, 16}, false}, {{1, 1, 1}, {3, 3, 3}, false},
    {{1, 1, 1}, {2, 2, 3}, false},    {{3, 3, 3}, {3, 3, 3}, false},
    {{3, 3, 3}, {6, 6, 6}, false},    {{2, 2, 2}, {6, 6, 6}, false},
    {{2, 2, 1}, {2, 2, 3}, false},    {{5, 1, 2}, {10, 2, 4}, false},
};

void label_step(const char *what, int voxels, triple from, triple stride) {
    snprintf(label, sizeof label, "%s, %d voxels, %d %d %d from %d %d %d", what, voxels, stride.x,
             stride.y, stride.z, from.x, from.y, from.z);
}

// Each step on random voxels of three batches, negative coordinates among them, that fill a cube to
// a `density`th, with and without room behind.
template <typename W>
void check_steps(std::initializer_list<int> sizes, int density) {
    random_state random = random_make((uint64_t)density);
    for (int n : sizes) {
        int side = 1;
        while (3 * side * side * side < density * n) {
            ++side;
        }
        for (const step &s : steps_all) {
            triple lo = triple_multiply(s.from, triple_make(-side / 2, 1 - side, -side / 3)),
                   size = triple_multiply(s.from, triple_make(side, side, side)),
                   hi = triple_make(lo.x + size.x - 1, lo.y + size.y - 1, lo.z + size.z - 1);
            word_layout layout = reference_layout<W>(lo, hi, 3, s.stride, {3, 3, 3});
            std::vector<W> words = random_words<W>(&random, &layout, lo, hi, n, s.from);
            CHECK_EQUAL(words.size(), (size_t)n);
            CHECK_EQUAL(downsample_is_step(s.from, s.stride), s.is_short);
            for (int room : {0, 1000}) {
                if (test_thinned(11)) {
                    continue;
                }
                int32_t capacity = n + room > 0 ? n + room : 1;
                label_step(room ? "room" : "full", n, s.from, s.stride);
                check_from(&layout, words, capacity, s.from, s.stride, capacity);
            }
        }
    }
}

DEVICE_TEST(gpu_downsample_steps) {
    if (test_quick()) {
        check_steps<uint32_t>({0, 1, 600}, 3);
        return;
    }
    check_steps<uint32_t>({0, 1, 2, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 4097}, 2);
    check_steps<uint64_t>({0, 1, 2, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 4097}, 2);
    check_steps<uint32_t>({100, 513, 10007}, 20); // few in a cell
    check_steps<uint64_t>({100, 513, 10007}, 20);
}

// A level from the one before it, and that from the one before.
template <typename W>
void check_levels(const char *what, const word_layout *layout, std::vector<W> words, int32_t room,
                  std::initializer_list<triple> strides) {
    triple from = {1, 1, 1};
    for (triple stride : strides) {
        int32_t n = (int32_t)words.size(), capacity = n + room > 0 ? n + room : 1;
        label_step(what, n, from, stride);
        CHECK(downsample_is_step(from, stride));
        outcome<W> o = check_from(layout, words, capacity, from, stride, capacity);
        CHECK_OK(device_status_read(&o.trouble));
        words.assign(o.words.begin(), o.words.begin() + o.count);
        from = stride;
    }
}

template <typename W>
void check_random_levels(int scenes) {
    for (int seed = 0; seed < scenes; ++seed) {
        random_state random = random_make((uint64_t)seed * 2 + sizeof(W) / 8);
        triple lo = triple_make(random_int(&random, -300, 300), random_int(&random, -300, 300),
                                random_int(&random, -40, 40));
        triple hi =
            triple_make(lo.x + random_int(&random, 0, 60), lo.y + random_int(&random, 0, 60),
                        lo.z + random_int(&random, 0, 40));
        word_layout layout =
            reference_layout<W>(lo, hi, random_int(&random, 1, 5), {16, 16, 16}, {3, 3, 3});
        std::vector<W> words =
            random_words<W>(&random, &layout, lo, hi, random_int(&random, 0, 6000));
        int32_t room = random_int(&random, 0, 1) * random_int(&random, 0, 2000);
        check_levels("cubes", &layout, words, room,
                     {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}});
        check_levels("axis by axis", &layout, words, room,
                     {{1, 1, 2}, {2, 1, 2}, {2, 2, 2}, {4, 4, 2}, {4, 8, 4}, {8, 8, 16}});
    }
}

DEVICE_TEST(gpu_downsample_random_levels) {
    check_random_levels<uint32_t>(test_quick() ? 2 : 60);
    check_random_levels<uint64_t>(test_quick() ? 2 : 60);
}

// Voxels off the lattice of `from`, some or all of them: each way and window finds the first, and
// leaves out those whose x or y is at fault.
template <typename W>
void check_off_lattice(std::initializer_list<int> sizes, triple reach) {
    random_state random = random_make(18);
    for (int n : sizes) {
        for (const step &s : steps_all) {
            if (test_thinned(7)) {
                continue;
            }
            const triple lo = {-16, -48, -32}, hi = {n < 3000 ? 40 : 3, 47, n < 3000 ? 31 : 96};
            word_layout layout = reference_layout<W>(lo, hi, 2, s.stride, reach);
            std::vector<W> words = random_words<W>(&random, &layout, lo, hi, n, s.from);
            const int on = (int)words.size(), off = n / 8 + 1;
            for (int i = 0; i < off; ++i) {
                const voxel v = {random_int(&random, 0, 1), random_int(&random, lo.x, hi.x),
                                 random_int(&random, lo.y, hi.y), random_int(&random, lo.z, hi.z)};
                words.push_back(word_pack<W>(&layout, v));
            }
            std::sort(words.begin(), words.end());
            words.erase(std::unique(words.begin(), words.end()), words.end());
            label_step("off the lattice", on, s.from, s.stride);
            const int32_t all = (int32_t)words.size();
            outcome<W> o = check_from(&layout, words, all, s.from, s.stride, all);
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

// Multiples of `from` at both ends of a field and around zero; `lo` is one.
std::vector<int> axis_ends(int lo, int hi, int from) {
    int top = (int)floor_to(hi, from);
    std::vector<int> at = {lo, lo + from, -from, 0, top - from, top};
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    return at;
}

// Voxels at both ends of every field, on either side of zero, in the first and the last batch.
template <typename W>
void check_steps_field_ends(int batches) {
    for (const step &s : steps_all) {
        if (test_thinned(5)) {
            continue;
        }
        word_layout layout =
            reference_layout<W>({-100, -70, -90}, {200, 150, 85}, batches, s.stride, {1, 1, 1});
        const std::vector<int> xs = axis_ends(layout.lo.x, layout.hi.x, s.from.x),
                               ys = axis_ends(layout.lo.y, layout.hi.y, s.from.y),
                               zs = axis_ends(layout.lo.z, layout.hi.z, s.from.z);
        std::vector<W> words;
        for (int batch = 0; batch < batches; ++batch) {
            for (int x : xs) {
                for (int y : ys) {
                    for (int z : zs) {
                        words.push_back(word_pack<W>(&layout, {batch, x, y, z}));
                    }
                }
            }
        }
        CHECK(std::is_sorted(words.begin(), words.end()));
        int32_t n = (int32_t)words.size();
        label_step("ends", n, s.from, s.stride);
        check_from(&layout, words, n, s.from, s.stride, n);
        const size_t fewer = test_quick() ? 2000 : 97;
        for (size_t last = words.size(); last > 0; last -= std::min(last, fewer)) {
            std::vector<W> behind(words.begin() + (int64_t)last - 1, words.end());
            check_from(&layout, behind, n, s.from, s.stride, n); // what lies before is gone
        }
    }
}

DEVICE_TEST(gpu_downsample_steps_field_ends) {
    check_steps_field_ends<uint32_t>(1);
    check_steps_field_ends<uint32_t>(3);
    check_steps_field_ends<uint64_t>(1);
    check_steps_field_ends<uint64_t>(8);
}

// All voxels of a box, of which `keep` of 100 are there.
template <typename W>
std::vector<W> box_words(random_state *random, const word_layout *layout, triple lo, triple size,
                         int keep) {
    std::vector<W> words;
    for (int x = 0; x < size.x; ++x) {
        for (int y = 0; y < size.y; ++y) {
            for (int z = 0; z < size.z; ++z) {
                if (random_int(random, 0, 99) < keep) {
                    voxel v = {0, lo.x + x, lo.y + y, lo.z + z};
                    words.push_back(word_pack<W>(layout, v));
                }
            }
        }
    }
    return words;
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
            triple at = {lo.x + (corner & 1), lo.y + (corner >> 1 & 1), lo.z + (corner >> 2)};
            std::vector<W> words =
                box_words<W>(&random, &layout, at, size, corner < 4 || size.x == 16 ? 100 : 60);
            if (test_thinned(5)) {
                continue;
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
void check_flat(triple size, int batches) {
    random_state random = random_make(12);
    word_layout layout = reference_layout<W>({0, 0, 0}, size, batches, {16, 16, 64}, {0, 0, 0});
    std::vector<W> words = random_words<W>(&random, &layout, {0, 0, 0}, size, 300);
    int32_t n = (int32_t)words.size();
    check_levels("flat", &layout, words, 10,
                 {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 8}, {16, 16, 16}, {16, 16, 64}});
    check_levels("flat", &layout, words, 0, {{1, 1, 64}});
    check_levels("flat", &layout, words, 0, {{2, 1, 1}, {4, 1, 1}, {8, 1, 1}, {16, 1, 1}});
    check_levels("flat", &layout, words, 0, {{1, 2, 1}, {1, 4, 1}, {1, 8, 1}, {1, 16, 1}});
    for (triple stride : {triple{4, 1, 64}, triple{16, 16, 64}, triple{1, 8, 16}}) {
        label_step("flat, sorted", n, {1, 1, 1}, stride);
        check_from(&layout, words, n, {1, 1, 1}, stride, n);
    }
}

template <typename W>
void check_flats() {
    const triple sizes[] = {{0, 30, 30}, {30, 0, 30}, {30, 30, 0}, {300, 0, 0},
                            {0, 300, 0}, {0, 0, 300}, {5, 5, 5}};
    for (int batches : {1, 40}) {
        for (triple size : sizes) {
            if (!test_thinned(5)) {
                check_flat<W>(size, batches);
            }
        }
    }
}

DEVICE_TEST(gpu_downsample_strides_wider_than_the_fields) {
    check_flats<uint32_t>();
    check_flats<uint64_t>();
}

// One voxel of room too little, and less: what fits is there, and how many there would have been.
template <typename W>
void check_steps_capacity() {
    random_state random = random_make(13);
    for (const step &s : steps_all) {
        if (test_thinned(3)) {
            continue;
        }
        triple lo = triple_multiply(s.from, triple_make(-9, -9, -9)),
               hi = triple_multiply(s.from, triple_make(9, 9, 9));
        word_layout layout = reference_layout<W>(lo, hi, 1, s.stride, {1, 1, 1});
        std::vector<W> words = random_words<W>(&random, &layout, lo, hi, 1500, s.from);
        int32_t n = (int32_t)words.size();
        int32_t all = downsample_on_host(&layout, words, n, s.stride, n).count;
        for (int32_t capacity : {all + 1, all, all - 1, all / 2, 1}) {
            label_step("capacity", n, s.from, s.stride);
            outcome<W> o = check_from(&layout, words, n, s.from, s.stride, capacity);
            CHECK_EQUAL(o.count, capacity < all ? capacity : all);
            CHECK_EQUAL(o.trouble.flags, capacity < all ? (uint32_t)device_flag_capacity : 0u);
            CHECK_EQUAL(o.trouble.needed, capacity < all ? (uint32_t)all : 0u);
        }
        for (triple stride : {s.stride, triple_multiply(s.stride, triple_make(4, 1, 4))}) {
            label_step("count of the input", n, s.from, stride);
            word_layout wide = reference_layout<W>(lo, hi, 1, stride, {1, 1, 1});
            words = random_words<W>(&random, &wide, lo, hi, 1500, s.from);
            n = (int32_t)words.size();
            outcome<W> o = check_from(&wide, words, n - 10, s.from, stride, n);
            CHECK_EQUAL(o.trouble.flags, (uint32_t)device_flag_capacity);
            CHECK_EQUAL(o.trouble.needed, (uint32_t)n);
            const outcome<W> nothing = downsample_on_host<W>(&wide, {}, n, stride, n);
            device_run<W> d = device_run_make(words, n, n);
            for (int32_t count : {-1, -5, INT32_MIN}) {
                device_copy_in(d.in.count, &count, 1);
                CHECK_OK(device_run_start(&wide, &d, s.from, stride));
                CHECK_EQUAL(difference(device_run_fetch(&d), nothing), "");
            }
            guarded_finish();
        }
    }
}

DEVICE_TEST(gpu_downsample_steps_capacity) {
    check_steps_capacity<uint32_t>();
    if (!test_quick()) {
        check_steps_capacity<uint64_t>();
    }
}

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

// So many blocks that the heads are listed, most of them without a voxel.
DEVICE_TEST(gpu_downsample_many_blocks) {
    const int32_t capacity = downsample_blocks_many * 512 + 1;
    const triple lo = {-20, -20, -20}, hi = {20, 20, 20};
    word_layout layout = reference_layout<uint32_t>(lo, hi, 2, {4, 4, 4}, {3, 3, 3});
    random_state random = random_make(17);
    CHECK(downsample_cut_make(capacity).blocks > downsample_blocks_many);
    for (int n : {0, 1, 700, 3000}) {
        std::vector<uint32_t> words = random_words<uint32_t>(&random, &layout, lo, hi, n);
        check_levels("many", &layout, words, capacity - n, {{2, 2, 2}, {4, 4, 4}});
        check_levels("many", &layout, words, capacity - n, {{1, 1, 2}, {1, 2, 2}});
    }
}

// More voxels than there are blocks of the smallest size; the capacity alone, and both.
DEVICE_TEST(gpu_downsample_steps_large) {
    if (test_quick()) {
        SKIP("large");
    }
    const int32_t most = downsample_blocks_max * 512;
    random_state random = random_make(14);
    const triple lo = {-90, -90, -90}, hi = {90, 90, 90};
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {16, 16, 16}, {3, 3, 3});
    for (int32_t n : {5000, most - 1, most, most + 1, 2300000}) {
        std::vector<uint32_t> words = random_words<uint32_t>(&random, &layout, lo, hi, n);
        for (int32_t room : {0, 2 * most}) {
            CHECK_EQUAL(downsample_cut_make(n + room).shift > 9, n + room > most);
            check_levels("large", &layout, words, room, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}});
            check_levels("large", &layout, words, room, {{1, 1, 1}, {1, 1, 4}, {2, 1, 8}});
        }
    }
}

// Three levels and a step that sorts, captured once for a capacity and replayed on other scenes.
template <typename W>
void check_level_replays() {
    const triple lo = {-40, -40, -20}, hi = {40, 40, 20},
                 strides[] = {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 8, 16}, {16, 64, 16}};
    const int levels = 4, capacity = 20000;
    word_layout layout = reference_layout<W>(lo, hi, 2, {16, 64, 16}, {4, 4, 4});
    random_state random = random_make(15);
    std::vector<W> words = random_words<W>(&random, &layout, lo, hi, 9000);
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
        words = random_words<W>(&random, &layout, lo, hi, n);
        set_refill(&d[0].in, words);
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        for (int l = 0; l < levels; ++l) {
            label_step("replay", n, strides[l], strides[l + 1]);
            CHECK_EQUAL(
                difference(device_run_fetch(&d[l]),
                           downsample_on_host(&layout, words, capacity, strides[l + 1], capacity)),
                "");
        }
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_downsample_levels_replay) {
    check_level_replays<uint32_t>();
    check_level_replays<uint64_t>();
}

DEVICE_TEST(gpu_downsample_from_refuses) {
    word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {40, 40, 40}, 1, {12, 12, 12}, {});
    std::vector<uint32_t> words = {word_pack<uint32_t>(&layout, {0, 12, 12, 12})};
    const device_run<uint32_t> d = device_run_make(words, 100, 50);
    const struct {
        triple from, stride;
        int detail;
    } bad[] = {
        {{2, 1, 1}, {1, 1, 1}, 2},
        {{1, 4, 1}, {4, 2, 4}, 4},
        {{1, 1, 3}, {4, 4, 4}, 3},
        {{12, 12, 8}, {12, 12, 12}, 8},
        {{0, 1, 1}, {4, 4, 4}, 0},
        {{1, -2, 1}, {4, 4, 4}, -2},
        {{1, 1, INT32_MIN}, {4, 4, 4}, INT32_MIN},
    };
    for (auto &b : bad) {
        status s = device_run_start(&layout, &d, b.from, b.stride);
        CHECK_STATUS(s, status_stride);
        CHECK(s.subject && strstr(s.subject, "from"));
        CHECK_EQUAL(s.detail, b.detail);
    }
    CHECK(device_untouched(d.out.words, 0, 50));
    CHECK(device_untouched(d.out.count, 0, 1));
    CHECK(device_untouched(d.scratch, 0, (int64_t)d.scratch_bytes));
    CHECK_OK(device_run_start(&layout, &d, {4, 4, 4}, {12, 12, 12}));
    CHECK_EQUAL(device_value(d.out.count), 1);
    CHECK_EQUAL(device_value(d.out.words), words[0]);
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
    }
}

DEVICE_TEST(gpu_downsample_planted_errors_are_found) {
    random_state random = random_make(5);
    triple lo = triple_make(-9, -9, -9), hi = triple_make(9, 9, 9);
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {4, 4, 4}, {});
    std::vector<uint32_t> words = random_words<uint32_t>(&random, &layout, lo, hi, 500);
    const outcome<uint32_t> wanted = downsample_on_host(&layout, words, 500, {2, 2, 2}, 500);
    device_run<uint32_t> d = device_run_make(words, 500, 500);
    REQUIRE_OK(device_run_start(&layout, &d, {}, {2, 2, 2}));
    const outcome<uint32_t> got = device_run_fetch(&d);
    CHECK_EQUAL(difference(got, wanted), "");
    outcome<uint32_t> bad = got;
    bad.words[3] ^= 1; // not floored
    CHECK(strstr(difference(bad, wanted), "words[3]"));
    bad = got;
    bad.words.back() = 0;
    CHECK(strstr(difference(bad, wanted), "words[499]"));
    bad = got;
    bad.count += 1;
    CHECK(strstr(difference(bad, wanted), "count"));
    bad = got;
    bad.trouble.flags = device_flag_capacity;
    CHECK(strstr(difference(bad, wanted), "trouble"));
    CHECK(difference(got, downsample_on_host(&layout, words, 500, {2, 2, 1}, 500))[0] != 0);
}

} // namespace
