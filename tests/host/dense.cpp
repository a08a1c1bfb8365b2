// tests/host/dense.cpp: dense.h against maps that are made element by element, and the kernels of
// dense.cuh, run on the host (emulate_numeric.h), against the same.
#include "../support/devices.h"
#include "../support/emulate_numeric.h"

#include "../support/dense_problems.h"

#include "../../spira/dense.cuh"

using namespace spira;

namespace {

const device_info device = device_made(90, 4, 232448, false);

enum how { by_host, by_kernel };

char *features_at; // of the run at hand

template <typename W>
struct outcome {
    std::vector<char> out;
    device_status trouble;
};

// Runs a problem in memory that is exactly as large as it must be.
template <typename W>
outcome<W> run(const dense_problem<W> *p, how by) {
    const size_t in = (size_t)numeric_size(p->args.type),
                 out = (size_t)numeric_size(p->args.out_type), bytes = p->bytes();
    dense_args<W> a = p->args;
    int32_t count = p->count;
    outcome<W> o = {};
    a.layout = &p->layout;
    a.set.words = guarded_new<W>(a.set.capacity);
    a.set.count = &count;
    std::copy(p->words.begin(), p->words.end(), a.set.words);
    char *features = guarded_new<char>((int64_t)(p->features.size() + in * (size_t)p->off_in));
    features += in * (size_t)p->off_in;
    std::copy(p->features.begin(), p->features.end(), features);
    a.features = features_at = features;
    char *map = guarded_new<char>((int64_t)(bytes + out * (size_t)p->off_out));
    a.out = map + out * (size_t)p->off_out;
    a.trouble = &o.trouble;
    if (by == by_host) {
        CHECK_OK(dense_host(&a));
    } else {
        CHECK_OK(dense<W>(&device, &a, nullptr));
    }
    CHECK(guarded_untouched(map, 0, (int64_t)(out * (size_t)p->off_out)));
    o.out.assign((char *)a.out, (char *)a.out + bytes);
    guarded_finish();
    return o;
}

template <typename W>
bool agrees(const dense_problem<W> *p, how by) {
    const outcome<W> got = run(p, by);
    const device_status trouble = dense_expected_trouble(p);
    const bool good =
        got.out == dense_expected(p) && memcmp(&got.trouble, &trouble, sizeof trouble) == 0;
    return test_check(good, __FILE__, __LINE__, p->label);
}

template <typename W>
void check_random(uint64_t seed, int cases, int most, how by) {
    random_state r = random_make(seed);
    for (int i = 0; i < cases; ++i) {
        emulate::seed = (uint64_t)i;
        const dense_shape s = dense_shape_random(&r, most);
        const int percents[] = {0, 3, 40, 300};
        dense_problem<W> p =
            dense_problem_make<W>(&r, &s, percents[random_int(&r, 0, 3)], random_int(&r, 0, 9));
        p.off_in = random_int(&r, 0, 1) * random_int(&r, 1, 7);
        p.off_out = random_int(&r, 0, 1) * random_int(&r, 1, 3);
        if (i % 5 == 0) {
            p.count = random_int(&r, 0, 1) ? -1 : p.args.set.capacity + 7;
            for (int32_t j = 0; j < p.voxels(); ++j) { // then all words are voxels
                p.words[(size_t)j] =
                    word_pack<W>(&p.layout, {0, p.layout.lo.x, p.layout.lo.y, p.layout.lo.z + j});
            }
            p.layout.hi.z = (int)max_of(p.layout.hi.z, p.layout.lo.z + p.voxels());
        }
        agrees(&p, by);
    }
}

dense_shape shape_of(triple extent, int batch, int channels, numeric type, dense_order order) {
    dense_shape s = {};
    s.extent = extent;
    s.stride = {1, 1, 1};
    s.batch = batch;
    s.channels = channels;
    s.type = s.out_type = type;
    s.order = order;
    return s;
}

} // namespace

TEST(dense_host_random) {
    check_random<uint32_t>(1, 150, 12, by_host);
    check_random<uint64_t>(2, 150, 12, by_host);
}

TEST(dense_kernels_random) {
    check_random<uint32_t>(3, test_quick() ? 10 : 60, 14, by_kernel);
    check_random<uint64_t>(4, test_quick() ? 10 : 60, 14, by_kernel);
}

// Around the edges of tiles (128 cells), chunks (64 channels, 1024 elements) and groups (8, 4).
TEST(dense_kernels_every_edge) {
    random_state r = random_make(5);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        for (triple extent : {triple{127, 1, 1}, triple{128, 1, 1}, triple{43, 3, 1},
                              triple{4, 64, 2}, triple{1, 1, 130}, triple{3, 1, 129}}) {
            for (int channels : {1, 7, 8, 64, 65}) {
                const numeric type = channels % 2 ? numeric_bf16 : numeric_f16;
                const dense_shape s = shape_of(extent, 1, channels, type, order);
                if (extent.z > 2 && channels > 8) {
                    continue; // a minute of emulation
                }
                const dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 60, 0);
                agrees(&p, by_kernel);
            }
        }
    }
    for (int channels : {1023, 1024, 1032, 4096}) {
        for (dense_order order : {dense_channels_first, dense_channels_last}) {
            const dense_shape s = shape_of({2, 2, 1}, 1, channels, numeric_f32, order);
            const dense_problem<uint64_t> p = dense_problem_make<uint64_t>(&r, &s, 80, 2);
            agrees(&p, by_kernel);
        }
    }
}

// Bits that no arithmetic would keep: signalling NaNs, negative zeros.
TEST(dense_keeps_bits_of_one_format) {
    random_state r = random_make(6);
    for (numeric type : {numeric_f16, numeric_bf16, numeric_f32}) {
        for (how by : {by_host, by_kernel}) {
            const dense_shape s = shape_of({5, 4, 2}, 1, 8, type, (dense_order)(type % 2));
            dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 200, 0);
            for (char &c : p.features) {
                const char odd[] = {(char)0x7f, (char)0xff, (char)0x80, 1, 0, (char)0x7d};
                c = odd[random_int(&r, 0, 5)];
            }
            agrees(&p, by);
        }
    }
}

// A voxel that the grid has, in a batch that the words have no bits for: zeros.
TEST(dense_batches_beyond_the_words) {
    random_state r = random_make(7);
    dense_shape s = shape_of({6, 5, 2}, 2, 4, numeric_f16, dense_channels_first);
    for (how by : {by_host, by_kernel}) {
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
        p.args.batch = 9;
        agrees(&p, by);
        p.args.grid.extent = {40, 40, 7}; // and cells that the words have no coordinates for
        agrees(&p, by);
    }
}

// A voxel outside of the words' bounds has no cell, even where the grid has one.
TEST(dense_leaves_out_words_outside_of_the_layout) {
    random_state r = random_make(9);
    for (dense_order order : {dense_channels_first, dense_channels_last}) {
        const dense_shape s = shape_of({6, 5, 2}, 2, 4, numeric_f16, order);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
        p.layout.lo.x = p.args.grid.origin.x + 2;
        const outcome<uint32_t> host = run(&p, by_host), kernel = run(&p, by_kernel);
        CHECK(host.out == kernel.out);
        CHECK_EQUAL(memcmp(&host.trouble, &kernel.trouble, sizeof host.trouble), 0);
        CHECK(host.trouble.flags & (uint32_t)device_flag_range);
        const int64_t row = numeric_size(numeric_f16) * s.channels; // bytes at x = 0
        for (int64_t i = 0; order == dense_channels_last && i < row; ++i) {
            CHECK_EQUAL(host.out[(size_t)i], 0);
        }
    }
}

// With programmatic launch the set is searched while the kernel before still writes the features.
TEST(dense_waits_for_the_features) {
    random_state r = random_make(9);
    for (int i = 0; i < 12; ++i) {
        emulate::seed = (uint64_t)i;
        const dense_shape s = dense_shape_random(&r, 10);
        dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 60, 2);
        p.args.programmatic = true;
        emulate::previous = {[&] { memset(features_at, 0x5a, p.features.size()); },
                             [&] { memcpy(features_at, p.features.data(), p.features.size()); }};
        agrees(&p, by_kernel);
        emulate::previous = {};
    }
}

TEST(dense_finds_planted_errors) {
    random_state r = random_make(8);
    const dense_shape s = shape_of({6, 5, 2}, 2, 4, numeric_f16, dense_channels_first);
    dense_problem<uint32_t> p = dense_problem_make<uint32_t>(&r, &s, 80, 0);
    const outcome<uint32_t> good = run(&p, by_kernel);
    CHECK(good.out == dense_expected(&p));
    p.args.order = dense_channels_last;
    CHECK(good.out != dense_expected(&p));
    p.args.order = dense_channels_first;
    p.words[0] += 1; // another voxel
    CHECK(good.out != dense_expected(&p));
}

TEST(dense_bytes_of_a_birds_eye_map) {
    const expand_grid grid = {{0, 0, 0}, {180, 180, 2}};
    size_t bytes = 0;
    CHECK_OK(dense_bytes(&grid, 1, 128, numeric_f16, &bytes));
    CHECK_EQUAL(bytes, (size_t)256 * 180 * 180 * 2);
    CHECK_OK(dense_bytes(&grid, 3, 128, numeric_f32, &bytes));
    CHECK_EQUAL(bytes, (size_t)3 * 256 * 180 * 180 * 4);
    const expand_grid large = {{0, 0, 0}, {1 << 20, 1 << 20, 1}};
    CHECK_OK(dense_bytes(&large, 1, 4096, numeric_bf16, &bytes));
    CHECK_EQUAL(bytes, (size_t)1 << 53);
    CHECK_STATUS(dense_bytes(&large, 1 << 9, 4096, numeric_bf16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(nullptr, 1, 4, numeric_f16, &bytes), status_null_pointer);
    CHECK_STATUS(dense_bytes(&grid, 1, 4, numeric_f16, nullptr), status_null_pointer);
    CHECK_STATUS(dense_bytes(&grid, 0, 4, numeric_f16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(&grid, 1, 0, numeric_f16, &bytes), status_bad_size);
    CHECK_STATUS(dense_bytes(&grid, 1, 4, numeric_tf32, &bytes), status_unsupported);
    for (int a = 0; a < 3; ++a) {
        expand_grid none = grid;
        (a == 0 ? none.extent.x : a == 1 ? none.extent.y : none.extent.z) = 0;
        CHECK_STATUS(dense_bytes(&none, 1, 4, numeric_f16, &bytes), status_bad_size);
    }
}

TEST(dense_refuses) {
    word_layout layout = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    uint32_t words[1] = {word_pack<uint32_t>(&layout, {0, 1, 0, 1})};
    int32_t count = 1;
    alignas(16) float features[8] = {1, 2}, out[8];
    device_status trouble = {};
    dense_args<uint32_t> good = {};
    good.layout = &layout;
    good.set = {words, &count, 1};
    good.grid = {{0, 0, 0}, {2, 1, 2}};
    good.stride = {1, 1, 1};
    good.batch = 1;
    good.channels = 2;
    good.type = good.out_type = numeric_f32;
    good.features = features;
    good.out = out;
    good.trouble = &trouble;
    auto refuses = [&](status_code code, void (*spoil)(dense_args<uint32_t> *)) {
        dense_args<uint32_t> bad = good;
        spoil(&bad);
        CHECK_STATUS(dense_host(&bad), code);
        CHECK_STATUS(dense<uint32_t>(&device, &bad, nullptr), code);
    };
    typedef dense_args<uint32_t> args;
    CHECK_OK(dense_host(&good));
    CHECK_OK(dense<uint32_t>(&device, &good, nullptr));
    CHECK_STATUS(dense<uint32_t>(nullptr, &good, nullptr), status_null_pointer);
    CHECK_STATUS(dense<uint32_t>(&device, nullptr, nullptr), status_null_pointer);
    CHECK_STATUS(dense_host<uint32_t>(nullptr), status_null_pointer);
    refuses(status_null_pointer, [](args *a) { a->layout = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set.words = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->set.count = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->features = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->out = nullptr; });
    refuses(status_null_pointer, [](args *a) { a->trouble = nullptr; });
    refuses(status_alignment, [](args *a) { a->out = misaligned((char *)a->out); });
    refuses(status_alignment, [](args *a) { a->features = misaligned((char *)a->features); });
    refuses(status_alignment, [](args *a) { a->set.words = misaligned(a->set.words); });
    refuses(status_unsupported, [](args *a) { a->out = (void *)a->features; });
    refuses(status_unsupported, [](args *a) { a->type = (numeric)7; });
    refuses(status_unsupported, [](args *a) { a->out_type = numeric_tf32; });
    refuses(status_unsupported, [](args *a) { a->order = (dense_order)2; });
    refuses(status_bad_size, [](args *a) { a->batch = 0; });
    refuses(status_bad_size, [](args *a) { a->channels = -1; });
    refuses(status_bad_size, [](args *a) { a->set.capacity = 0; });
    refuses(status_bad_size, [](args *a) { a->grid.extent.y = 0; });
    refuses(status_bad_size, [](args *a) { a->grid.origin.z = INT32_MIN; });
    refuses(status_stride, [](args *a) { a->stride.x = 0; });
    refuses(status_bad_size, [](args *a) { a->stride.z = INT32_MAX, a->grid.extent.z = 3; });
    refuses(status_bad_size, [](args *a) {
        a->order = dense_channels_last;
        a->grid.extent.z = dense_depth_max + 1;
    });
    word_layout wide = word_widen(layout);
    good.layout = &wide;
    CHECK_STATUS(dense_host(&good), status_unsupported);
    good.layout = &layout;
    good.grid.extent = {1 << 30, 1 << 10, 1}; // more thread blocks than a launch has
    CHECK_STATUS(dense<uint32_t>(&device, &good, nullptr), status_bad_size);
}
