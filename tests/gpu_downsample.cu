// tests/gpu_downsample.cu: coarser sets on the GPU, word for word those of the host loop.
#include "../spira/downsample.cuh"
#include "device.cuh"
#include "reference.h"

using namespace spira;

namespace {

// Non-blocking: work that strays to the default stream is not ordered with it, and is missed.
cudaStream_t stream_get() {
    static cudaStream_t stream = nullptr;
    if (!stream) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return stream;
}

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
                              triple stride, int32_t out_capacity) {
    outcome<W> o;
    o.trouble = {};
    o.words.assign((size_t)out_capacity, 0);
    int32_t count = (int32_t)words.size();
    words.resize((size_t)capacity, word_none<W>());
    voxel_set<W> in = {words.data(), &count, capacity};
    size_t bytes = downsample_host_workspace(in);
    void *scratch = guarded_new<char>((int64_t)bytes);
    voxel_set<W> out = {o.words.data(), &o.count, out_capacity};
    CHECK_OK(downsample_host(layout, in, stride, out, &o.trouble, scratch, bytes));
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
    words.resize((size_t)capacity, word_none<W>());
    d.in = {device_upload(words.data(), capacity), device_upload(&count, 1), capacity};
    d.out = {device_new<W>(out_capacity), device_new<int32_t>(1), out_capacity};
    d.trouble = device_zeros<device_status>(1);
    d.scratch_bytes = 0;
    CHECK_OK(downsample_workspace(d.in, out_capacity, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    return d;
}

template <typename W>
status device_run_start(const word_layout *layout, const device_run<W> *d, triple stride) {
    return downsample<W>(layout, d->in, stride, d->out, d->trouble, d->scratch, d->scratch_bytes,
                         stream_get());
}

template <typename W>
outcome<W> device_run_fetch(const device_run<W> *d) {
    outcome<W> o;
    o.trouble = device_value(d->trouble);
    o.count = device_value(d->out.count);
    o.words.resize((size_t)d->out.capacity);
    device_copy_out(o.words.data(), d->out.words, d->out.capacity);
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
// Frees all buffers of the test.
template <typename W>
outcome<W> check_both(const word_layout *layout, const std::vector<W> &words, int32_t capacity,
                      triple stride, int32_t out_capacity) {
    outcome<W> wanted = downsample_on_host(layout, words, capacity, stride, out_capacity);
    device_run<W> d = device_run_make(words, capacity, out_capacity);
    for (int run = 0; run < 2; ++run) {
        CHECK_OK(device_run_start(layout, &d, stride));
        CHECK_EQUAL(difference(device_run_fetch(&d), wanted), "");
    }
    guarded_finish();
    return wanted;
}

template <typename W>
std::vector<W> random_words(random_state *random, const word_layout *layout, triple lo, triple hi,
                            int32_t wanted) {
    std::vector<W> words((size_t)wanted + 1);
    int32_t count = wanted == 0 ? 0
                                : reference_random_set<W>(random, layout, lo, hi, {1, 1, 1}, wanted,
                                                          words.data());
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
                if (capacity < 1) {
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
    if (reference_file("kitti00_000000_5cm.vox32").empty()) {
        SKIP("no data/");
    }
    for (const char *name : {"kitti00_000000_5cm.vox32", "lone_star_5cm.vox32"}) {
        check_real_scan<uint32_t>(name);
        if (!test_quick()) {
            check_real_scan<uint64_t>(name);
        }
    }
}

DEVICE_TEST(gpu_downsample_refuses) {
    word_layout layout = reference_layout<uint32_t>({-5, -5, -5}, {20, 20, 20}, 1, {4, 4, 4}, {});
    word_layout wide = word_widen(layout);
    std::vector<uint32_t> words = {word_pack<uint32_t>(&layout, {0, 1, 2, 3})};
    const device_run<uint32_t> d = device_run_make(words, 100, 50);
    const triple two = {2, 2, 2};
    auto start = [&](const word_layout *l, voxel_set<uint32_t> in, triple stride,
                     voxel_set<uint32_t> out, device_status *trouble, void *scratch, size_t bytes) {
        return downsample<uint32_t>(l, in, stride, out, trouble, scratch, bytes, stream_get());
    };
    const size_t n = d.scratch_bytes;
    CHECK_STATUS(start(nullptr, d.in, two, d.out, d.trouble, d.scratch, n), status_null_pointer);
    CHECK_STATUS(start(&wide, d.in, two, d.out, d.trouble, d.scratch, n), status_unsupported);
    CHECK_STATUS(start(&layout, d.in, two, d.out, nullptr, d.scratch, n), status_null_pointer);
    if (CHECK(n > 0)) {
        CHECK_STATUS(start(&layout, d.in, two, d.out, d.trouble, nullptr, n), status_null_pointer);
        CHECK_STATUS(start(&layout, d.in, two, d.out, d.trouble, d.scratch, n - 1),
                     status_workspace);
        CHECK_EQUAL(start(&layout, d.in, two, d.out, d.trouble, d.scratch, n - 1).detail,
                    (int64_t)n);
        CHECK_STATUS(start(&layout, d.in, two, d.out, d.trouble, d.scratch + 1, n),
                     status_alignment);
    }
    // No stride, or one that the layout was not fitted to: its bias or bound is no multiple.
    for (triple bad :
         {triple{0, 2, 2}, triple{2, -1, 2}, triple{2, 2, 0}, triple{16, 2, 2}, triple{2, 2, 64},
          triple{2, INT32_MIN, 2}, triple{3, 1, 1}, triple{INT32_MAX, 2, 2}}) {
        CHECK_STATUS(start(&layout, d.in, bad, d.out, d.trouble, d.scratch, n), status_stride);
    }
    struct {
        status_code code;
        void (*spoil)(voxel_set<uint32_t> *);
    } const bad[] = {
        {status_null_pointer, [](voxel_set<uint32_t> *s) { s->words = nullptr; }},
        {status_null_pointer, [](voxel_set<uint32_t> *s) { s->count = nullptr; }},
        {status_bad_size, [](voxel_set<uint32_t> *s) { s->capacity = 0; }},
        {status_bad_size, [](voxel_set<uint32_t> *s) { s->capacity = -7; }},
    };
    for (auto &b : bad) {
        voxel_set<uint32_t> in = d.in, out = d.out;
        b.spoil(&in);
        b.spoil(&out);
        CHECK_STATUS(start(&layout, in, two, d.out, d.trouble, d.scratch, n), b.code);
        CHECK_STATUS(start(&layout, d.in, two, out, d.trouble, d.scratch, n), b.code);
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

DEVICE_TEST(gpu_downsample_planted_errors_are_found) {
    random_state random = random_make(5);
    triple lo = triple_make(-9, -9, -9), hi = triple_make(9, 9, 9);
    word_layout layout = reference_layout<uint32_t>(lo, hi, 1, {4, 4, 4}, {});
    std::vector<uint32_t> words = random_words<uint32_t>(&random, &layout, lo, hi, 500);
    const outcome<uint32_t> wanted = downsample_on_host(&layout, words, 500, {2, 2, 2}, 500);
    device_run<uint32_t> d = device_run_make(words, 500, 500);
    REQUIRE_OK(device_run_start(&layout, &d, {2, 2, 2}));
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
