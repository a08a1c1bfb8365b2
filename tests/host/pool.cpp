// tests/host/pool.cpp: pool.h.
#include "../support/emulate_numeric.h"
#include "../support/reference.h"

#include "../../spira/pool.cuh"

using namespace spira;

TEST(pool_local) {
    random_state r = random_make(1);
    for (int i = 0; i < 100; ++i) {
        int32_t inputs = random_int(&r, 1, 60), outputs = random_int(&r, 0, 60);
        int channels = random_int(&r, 1, 9), volume = random_int(&r, 1, 30);
        float *in = guarded_new<float>((int64_t)inputs * channels);
        float *out = guarded_new<float>((int64_t)outputs * channels);
        int32_t *map = guarded_new<int32_t>((int64_t)outputs * volume);
        for (int32_t j = 0; j < inputs * channels; ++j) {
            in[j] = random_float(&r) - (i % 2 ? 3.0f : 0.0f); // also where all are negative
        }
        for (int32_t j = 0; j < outputs * volume; ++j) {
            bool there = j / volume % 5 && random_int(&r, 0, 3) == 0; // some outputs have none
            map[j] = there ? random_int(&r, 0, inputs - 1) : -1;
        }
        for (pool_kind kind : {pool_max, pool_average}) {
            const pool_args args = {kind,     numeric_f32,          channels, volume, in, map,
                                    &outputs, std::max(outputs, 1), out};
            REQUIRE_OK(pool_host(&args));
            for (int32_t o = 0; o < outputs; ++o) {
                for (int c = 0; c < channels; ++c) {
                    double largest = -INFINITY, sum = 0, taps = 0;
                    for (int k = 0; k < volume; ++k) {
                        if (map[o * volume + k] >= 0) {
                            double x = (double)in[map[o * volume + k] * channels + c];
                            largest = x > largest ? x : largest;
                            sum += x;
                            ++taps;
                        }
                    }
                    double expected = taps == 0 ? 0 : kind == pool_max ? largest : sum / taps;
                    double bound = kind == pool_max ? 0 : 4 * (taps + 2) / (1 << 24) * 4;
                    CHECK(fabs((double)out[o * channels + c] - expected) <= bound);
                }
            }
        }
        guarded_finish();
    }
}

TEST(float_larger_keeps_nan) {
    CHECK_EQUAL(float_larger(1, 2), 2.0f);
    CHECK_EQUAL(float_larger(2, 1), 2.0f);
    CHECK_EQUAL(float_larger(-INFINITY, -3), -3.0f);
    CHECK(isnan(float_larger(NAN, 1)) && isnan(float_larger(1, NAN)) &&
          isnan(float_larger(NAN, NAN)));
}

TEST(pool_local_shows_nan) {
    const float in[] = {1, 2, NAN, 3, 5, INFINITY};
    const int32_t map[] = {0, 1, 2, 2, 0, 1, 0, 2, 1, 1, 0, -1};
    float out[8];
    for (pool_kind kind : {pool_max, pool_average}) { // in [3, 2]: NaN in row 1, channel 0
        const int32_t four = 4;
        const pool_args args = {kind, numeric_f32, 2, 3, in, map, &four, 4, out};
        REQUIRE_OK(pool_host(&args));
        for (int o = 0; o < 4; ++o) {
            CHECK(isnan(out[2 * o]));
            CHECK_EQUAL(out[2 * o + 1], o < 3 ? INFINITY : kind == pool_max ? 3.0f : 2.5f);
        }
    }
}

// The kernels of global pooling, with the host's threads: maxima to the bit, averages to a few.
template <typename W>
static void check_emulated(pool_global_args<W> args, uint64_t seed) {
    const std::vector<float> host((const float *)args.out,
                                  (const float *)args.out + args.layout->batches * args.channels);
    size_t bytes = 0;
    CHECK_OK(pool_global_workspace(args.layout, args.channels, &bytes));
    float *out = guarded_new<float>((int64_t)host.size());
    args.out = out;
    emulate::seed = seed;
    CHECK_OK(pool_global(&args, guarded_new<char>((int64_t)bytes), bytes, nullptr));
    for (size_t i = 0; i < host.size(); ++i) {
        CHECK(fabsf(out[i] - host[i]) <= (args.kind == pool_max ? 0 : 1e-5f));
    }
}

template <typename W>
static void check_global(uint64_t seed) {
    random_state r = random_make(seed);
    for (int i = 0; i < 60; ++i) {
        int batches = random_int(&r, 1, i % 20 ? 9 : 3), channels = random_int(&r, 1, 7);
        triple lo = {-3, 0, 2}, hi = {3, 4, 5};
        word_layout l = reference_layout<W>(lo, hi, batches, {1, 1, 1}, {1, 1, 1});
        int32_t capacity = random_int(&r, 1, 200);
        W *words = guarded_new<W>(capacity);
        int32_t have = reference_random_set(&r, &l, lo, hi, {1, 1, 1}, capacity, words), count = 0;
        int empty = random_int(&r, -1, batches - 1); // this batch index has no voxels
        for (int32_t j = 0; j < have; ++j) {
            if (word_unpack(&l, words[j]).batch != empty) {
                words[count++] = words[j];
            }
        }
        std::fill(words + count, words + capacity, word_none<W>());
        float *in = guarded_new<float>((int64_t)count * channels);
        float *out = guarded_new<float>((int64_t)batches * channels);
        reference_random_values(&r, numeric_f32, 2, (int64_t)count * channels, in);
        voxel_set<W> set = {words, &count, capacity};
        for (pool_kind kind : {pool_max, pool_average}) {
            const pool_global_args<W> args = {kind, numeric_f32, &l, set, channels, in, out};
            REQUIRE_OK(pool_global_host(&args));
            if (i % 20 == 0) {
                check_emulated(args, seed + (uint64_t)i);
            }
            for (int j = 0; j < batches * channels; ++j) {
                double largest = -INFINITY, sum = 0, rows = 0;
                for (int32_t v = 0; v < count; ++v) {
                    if (word_unpack(&l, words[v]).batch == j / channels) {
                        double x = (double)in[v * channels + j % channels];
                        largest = x > largest ? x : largest;
                        sum += x;
                        ++rows;
                    }
                }
                double expected = rows == 0 ? 0 : kind == pool_max ? largest : sum / rows;
                CHECK(fabs((double)out[j] - expected) <= (kind == pool_max ? 0 : 1e-5));
                CHECK(j / channels != empty || out[j] == 0);
            }
        }
        guarded_finish();
    }
}

TEST(pool_global) {
    check_global<uint32_t>(2);
    check_global<uint64_t>(3);
}

TEST(pool_global_shows_nan_and_takes_nothing) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 3, {1, 1, 1}, {1, 1, 1});
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) {
        words[i] = word_pack<uint32_t>(&l, {i / 2, 0, 0, i});
    }
    const float in[4] = {1, NAN, 2, 3};
    float out[3];
    int32_t count = 4;
    for (pool_kind kind : {pool_max, pool_average}) {
        count = 4;
        voxel_set<uint32_t> set = {words, &count, 4};
        const pool_global_args<uint32_t> args = {kind, numeric_f32, &l, set, 1, in, out};
        REQUIRE_OK(pool_global_host(&args));
        CHECK(isnan(out[0]));
        CHECK_EQUAL(out[1], kind == pool_max ? 3.0f : 2.5f);
        CHECK_EQUAL(out[2], 0.0f);
        count = 0;
        REQUIRE_OK(pool_global_host(&args));
        CHECK(out[0] == 0 && out[1] == 0 && out[2] == 0);
    }
}

TEST(pool_batch_range_is_exact) {
    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 4, {1, 1, 1}, {1, 1, 1});
    uint32_t words[6];
    const int batch[6] = {0, 0, 2, 2, 2, 3}; // a full field: there is no word for batch 4
    for (int i = 0; i < 6; ++i) {
        words[i] = word_pack<uint32_t>(&l, {batch[i], i, i, i});
    }
    int32_t count = 6;
    const voxel_set<uint32_t> set = {words, &count, 6};
    const int32_t edges[5] = {0, 2, 2, 5, 6};
    for (int b = 0; b < 4; ++b) {
        int32_t first, last;
        pool_batch_range(&l, set, b, &first, &last);
        CHECK_EQUAL(first, edges[b]);
        CHECK_EQUAL(last, edges[b + 1]);
    }
}

// The host loops and the launchers.
TEST(pool_refuses) {
    float in[4] = {}, out[4];
    const int32_t map[2] = {0, 1}, two = 2;
    const pool_args good = {pool_max, numeric_f32, 2, 1, in, map, &two, 2, out};
    CHECK_OK(pool_host(&good));
    const auto refuses = [&](status_code code, auto spoil) {
        pool_args a = good;
        spoil(&a);
        CHECK_STATUS(pool_host(&a), code);
        CHECK_STATUS(pool(&a, nullptr), code);
    };
    refuses(status_null_pointer, [](pool_args *a) { a->in = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->map = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->count = nullptr; });
    refuses(status_null_pointer, [](pool_args *a) { a->out = nullptr; });
    refuses(status_unsupported, [](pool_args *a) { a->out = (void *)a->in; });
    refuses(status_alignment, [](pool_args *a) { a->in = (char *)a->in + 2; });
    for (int bad : {0, -2}) {
        refuses(status_unsupported, [=](pool_args *a) { a->kind = (pool_kind)(2 + bad / 2 * 3); });
        refuses(status_bad_size, [=](pool_args *a) { a->channels = bad; });
        refuses(status_bad_size, [=](pool_args *a) { a->volume = bad; });
        refuses(status_bad_size, [=](pool_args *a) { a->capacity = bad; });
    }
    refuses(status_bad_size, [](pool_args *a) { a->volume = 1 << 20; });
    pool_args other = good;
    other.type = (numeric)4; // of the launcher alone
    CHECK_STATUS(pool(&other, nullptr), status_unsupported);

    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    word_layout wide = word_widen(l);
    uint32_t words[1] = {word_pack<uint32_t>(&l, {0, 1, 2, 3})};
    int32_t count = 1;
    typedef pool_global_args<uint32_t> args;
    const args global = {pool_max, numeric_f32, &l, {words, &count, 1}, 2, in, out};
    CHECK_OK(pool_global_host(&global));
    size_t bytes = 0;
    CHECK_OK(pool_global_workspace(&l, 2, &bytes));
    char *scratch = guarded_new<char>((int64_t)bytes);
    const auto global_refuses = [&](status_code code, auto spoil) {
        args a = global;
        spoil(&a);
        CHECK_STATUS(pool_global_host(&a), code);
        CHECK_STATUS(pool_global(&a, scratch, bytes, nullptr), code);
    };
    global_refuses(status_null_pointer, [](args *a) { a->set.words = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->layout = nullptr; });
    global_refuses(status_unsupported, [&](args *a) { a->layout = &wide; });
    global_refuses(status_null_pointer, [](args *a) { a->in = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->out = nullptr; });
    global_refuses(status_null_pointer, [](args *a) { a->set.count = nullptr; });
    global_refuses(status_bad_size, [](args *a) { a->set.capacity = 0; });
    global_refuses(status_bad_size, [](args *a) { a->channels = 0; });
    global_refuses(status_unsupported, [](args *a) { a->kind = (pool_kind)-1; });
}
