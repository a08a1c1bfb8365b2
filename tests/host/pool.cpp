// tests/host/pool.cpp: pool.h.
#include "../support/reference.h"

#include "../../spira/pool.h"

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
            REQUIRE_OK(pool_host(kind, in, channels, map, volume, outputs, out));
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

TEST(pool_larger_keeps_nan) {
    CHECK_EQUAL(pool_larger(1, 2), 2.0f);
    CHECK_EQUAL(pool_larger(2, 1), 2.0f);
    CHECK_EQUAL(pool_larger(-INFINITY, -3), -3.0f);
    CHECK(isnan(pool_larger(NAN, 1)) && isnan(pool_larger(1, NAN)) && isnan(pool_larger(NAN, NAN)));
}

TEST(pool_local_shows_nan) {
    const float in[] = {1, 2, NAN, 3, 5, INFINITY};
    const int32_t map[] = {0, 1, 2, 2, 0, 1, 0, 2, 1, 1, 0, -1};
    float out[8];
    for (pool_kind kind : {pool_max, pool_average}) { // in [3, 2]: NaN in row 1, channel 0
        REQUIRE_OK(pool_host(kind, in, 2, map, 3, 4, out));
        for (int o = 0; o < 4; ++o) {
            CHECK(isnan(out[2 * o]));
            CHECK_EQUAL(out[2 * o + 1], o < 3 ? INFINITY : kind == pool_max ? 3.0f : 2.5f);
        }
    }
}

template <typename W>
static void check_global(uint64_t seed) {
    random_state r = random_make(seed);
    for (int i = 0; i < 60; ++i) {
        int batches = random_int(&r, 1, 9), channels = random_int(&r, 1, 7);
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
            REQUIRE_OK(pool_global_host(kind, &l, set, in, channels, out));
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
        REQUIRE_OK(pool_global_host(kind, &l, set, in, 1, out));
        CHECK(isnan(out[0]));
        CHECK_EQUAL(out[1], kind == pool_max ? 3.0f : 2.5f);
        CHECK_EQUAL(out[2], 0.0f);
        count = 0;
        REQUIRE_OK(pool_global_host(kind, &l, set, in, 1, out));
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
    const int32_t edges[5] = {0, 2, 2, 5, 6};
    for (int b = 0; b < 4; ++b) {
        int32_t first, last;
        pool_batch_range(&l, words, 6, b, &first, &last);
        CHECK_EQUAL(first, edges[b]);
        CHECK_EQUAL(last, edges[b + 1]);
    }
}

TEST(pool_refuses) {
    float in[4] = {}, out[4];
    const int32_t map[2] = {0, 1};
    CHECK_OK(pool_host(pool_max, in, 2, map, 1, 2, out));
    CHECK_STATUS(pool_host(pool_max, nullptr, 2, map, 1, 2, out), status_null_pointer);
    CHECK_STATUS(pool_host(pool_max, in, 2, nullptr, 1, 2, out), status_null_pointer);
    CHECK_STATUS(pool_host(pool_max, in, 2, map, 1, 2, nullptr), status_null_pointer);
    CHECK_STATUS(pool_host(pool_max, in, 2, map, 1, 2, in), status_unsupported);
    CHECK_STATUS(pool_host(pool_max, in, 0, map, 1, 2, out), status_bad_size);
    CHECK_STATUS(pool_host((pool_kind)2, in, 2, map, 1, 2, out), status_unsupported);
    CHECK_STATUS(pool_host((pool_kind)-1, in, 2, map, 1, 2, out), status_unsupported);
    CHECK_STATUS(pool_host(pool_max, in, -2, map, 1, 2, out), status_bad_size);
    CHECK_STATUS(pool_host(pool_max, in, 2, map, 0, 2, out), status_bad_size);

    word_layout l = reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    word_layout wide = word_widen(l);
    uint32_t words[1] = {word_pack<uint32_t>(&l, {0, 1, 2, 3})};
    int32_t count = 1;
    voxel_set<uint32_t> set = {words, &count, 1}, none = {nullptr, &count, 1};
    CHECK_OK(pool_global_host(pool_max, &l, set, in, 2, out));
    CHECK_STATUS(pool_global_host(pool_max, &l, none, in, 2, out), status_null_pointer);
    CHECK_STATUS(pool_global_host<uint32_t>(pool_max, nullptr, set, in, 2, out),
                 status_null_pointer);
    CHECK_STATUS(pool_global_host(pool_max, &wide, set, in, 2, out), status_unsupported);
    CHECK_STATUS(pool_global_host(pool_max, &l, set, nullptr, 2, out), status_null_pointer);
    CHECK_STATUS(pool_global_host(pool_max, &l, set, in, 2, nullptr), status_null_pointer);
    CHECK_STATUS(pool_global_host(pool_max, &l, set, in, 0, out), status_bad_size);
}
