// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/voxel_features.cpp: features of voxels with few and with very many rows: the order of
// sums, and the kernel (emulated) against the host loop, bit for bit.
#include "../support/reference.h"
#include "../support/sets.h"

#include "../support/emulate_numeric.h"

#include "../../spira/voxel_features.cuh"

using namespace spira;

namespace {

// Voxels with these numbers of rows, spread over the input.
struct crowd {
    std::vector<int32_t> order, begin;
    std::vector<float> values; // [rows, columns]
    std::vector<uint32_t> words;
    int columns;
    int32_t count;
};

crowd crowd_make(random_state *r, const std::vector<int32_t> &rows, int columns) {
    crowd c;
    c.columns = columns;
    c.count = (int32_t)rows.size();
    c.begin.push_back(0);
    for (size_t v = 0; v < rows.size(); ++v) {
        c.begin.push_back(c.begin.back() + rows[v]);
        c.words.push_back((uint32_t)v);
    }
    const int32_t all = c.begin.back();
    for (int32_t i = 0; i < all; ++i) {
        c.order.push_back((int32_t)((int64_t)i * 7919 % all)); // distinct unless 7919 divides it
    }
    for (int64_t i = 0; i < (int64_t)all * columns; ++i) {
        c.values.push_back(random_float(r) * (float)(1 << random_int(r, 0, 12))); // order matters
    }
    return c;
}

voxel_features_args<uint32_t> args_of(crowd *c, const word_layout *words) {
    voxel_features_args<uint32_t> a = {};
    a.values = c->values.data();
    a.columns = a.channels = c->columns;
    a.rows = {nullptr, c->order.data(), c->begin.data()};
    a.set = {c->words.data(), &c->count, c->count};
    a.layout = words;
    for (int i = 0; i < 3; ++i) {
        a.size[i] = 0.1f;
        a.origin[i] = -3.7f;
    }
    a.type = numeric_f32;
    return a;
}

// Both sides. Returns what the host wrote.
std::vector<char> check_alike(voxel_features_args<uint32_t> a) {
    const int64_t used = (int64_t)*a.set.count * voxel_features_channels(&a) * numeric_size(a.type);
    const int64_t all =
        (int64_t)a.set.capacity * voxel_features_channels(&a) * numeric_size(a.type);
    std::vector<char> host((size_t)all, 1), device((size_t)all, 1);
    a.features = host.data();
    CHECK_OK(voxel_features_host(&a));
    a.features = device.data();
    CHECK_OK(voxel_features(&a, nullptr));
    CHECK(host == device);
    CHECK(std::all_of(host.begin() + used, host.end(), [](char b) { return b == 1; }));
    return host;
}

// The documented order, written out another way: the partial sum of each row is known beforehand.
float mean_by_order(const crowd &c, int32_t voxel, int channel) {
    const int32_t begin = c.begin[(size_t)voxel], rows = c.begin[(size_t)voxel + 1] - begin;
    const int32_t chunks = (rows + 255) / 256;
    std::vector<std::vector<float>> partial((size_t)chunks * 32);
    for (int32_t i = 0; i < rows; ++i) {
        const int32_t row = c.order[(size_t)(begin + i)];
        partial[(size_t)(i / 256 * 32 + i % 32)].push_back(
            c.values[(size_t)row * (size_t)c.columns + (size_t)channel]);
    }
    const auto sum = [](const std::vector<float> &terms) {
        float all = terms[0];
        for (size_t i = 1; i < terms.size(); ++i) {
            all += terms[i];
        }
        return all;
    };
    std::vector<float> chunk;
    for (int32_t k = 0; k < chunks; ++k) {
        std::vector<float> parts;
        for (int32_t j = 0; j < 32 && k * 256 + j < rows; ++j) {
            parts.push_back(sum(partial[(size_t)(k * 32 + j)]));
        }
        chunk.push_back(sum(parts));
    }
    return sum(chunk) / (float)rows;
}

const std::vector<int32_t> edges = {1,   2,   7,   8,   9,   31,  32,   33,  63, 64,
                                    65,  127, 128, 129, 255, 256, 257,  288, 1,  289,
                                    511, 512, 513, 3,   5,   700, 1024, 1051};

} // namespace

TEST(voxel_features_sum_in_the_documented_order) {
    random_state r = random_make(1);
    word_layout words = {};
    crowd c = crowd_make(&r, edges, 2);
    voxel_features_args<uint32_t> a = args_of(&c, &words);
    const std::vector<char> got = check_alike(a);
    for (int32_t v = 0; v < c.count; ++v) {
        for (int channel = 0; channel < 2; ++channel) {
            float mean;
            memcpy(&mean, got.data() + (v * 2 + channel) * 4, 4);
            CHECK_EQUAL(mean, mean_by_order(c, v, channel));
        }
        double sum = 0, whole = 0; // of the first channel
        for (int32_t i = c.begin[(size_t)v]; i < c.begin[(size_t)v + 1]; ++i) {
            const double x = c.values[(size_t)c.order[(size_t)i] * 2];
            sum += x;
            whole += fabs(x);
        }
        const int32_t rows = c.begin[(size_t)v + 1] - c.begin[(size_t)v];
        float mean;
        memcpy(&mean, got.data() + v * 2 * 4, 4);
        CHECK(fabs(mean - sum / rows) <= whole / rows * 64 * 6e-8); // 8 + 32 + chunks roundings
    }
}

TEST(voxel_features_every_kind_and_width) {
    const word_layout words =
        reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    random_state r = random_make(2);
    int turn = 0;
    for (int columns : {3, 5, 515}) {
        std::vector<int32_t> rows = {33, 4, 290, 1, 32};
        if (columns == 3) {
            rows.insert(rows.end(), edges.begin(), edges.end());
        }
        crowd c = crowd_make(&r, rows, columns);
        for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
            emulate::seed = (uint64_t)++turn;
            voxel_features_args<uint32_t> a = args_of(&c, &words);
            a.kind = kind;
            a.max_points = turn % 2 ? 0 : 40;
            a.append = (unsigned)(turn + turn / 4) % 4;
            a.channels = columns - turn % 3;
            a.type = turn % 5 < 2 ? numeric_f16 : numeric_f32;
            check_alike(a);
        }
    }
}

// More chunks than a thread block adds up at a time, and a thread block full of crowded voxels.
TEST(voxel_features_of_crowded_voxels) {
    const word_layout words = {};
    random_state r = random_make(3);
    crowd one = crowd_make(&r, {3, 256 * 128 + 300, 1, 40}, 1);
    crowd all = crowd_make(&r, std::vector<int32_t>(515, 33), 1);
    check_alike(args_of(&one, &words));
    voxel_features_args<uint32_t> largest = args_of(&all, &words);
    largest.kind = voxel_feature_max;
    check_alike(largest);
    voxel_features_args<uint32_t> a = args_of(&one, &words); // a set that is not full, and none
    for (int32_t count : {2, 0}) {
        a.set.count = &count;
        check_alike(a);
    }
}

// Only voxel_append_centre needs the words, their layout, sizes and origins.
TEST(voxel_features_need_no_words) {
    const word_layout words = {};
    random_state r = random_make(4);
    crowd c = crowd_make(&r, edges, 7);
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
        for (unsigned append : {(unsigned)voxel_append_none, (unsigned)voxel_append_mean}) {
            voxel_features_args<uint32_t> full = args_of(&c, &words), bare = {};
            full.kind = bare.kind = kind;
            full.append = bare.append = append;
            full.channels = bare.channels = 4;
            bare.values = full.values;
            bare.columns = full.columns;
            bare.rows = full.rows;
            bare.set.count = full.set.count;
            bare.set.capacity = full.set.capacity;
            bare.type = full.type;
            CHECK(check_alike(bare) == check_alike(full));
        }
    }
}

// NaN wins wherever it is; a planted error is found.
TEST(voxel_features_find_no_number) {
    const word_layout words = {};
    random_state r = random_make(5);
    for (int32_t at : {0, 31, 32, 255, 256, 600, 699}) {
        crowd c = crowd_make(&r, {700, 2}, 1);
        voxel_features_args<uint32_t> a = args_of(&c, &words);
        a.kind = voxel_feature_max;
        const std::vector<char> clean = check_alike(a);
        c.values[(size_t)c.order[(size_t)at]] = NAN;
        const std::vector<char> got = check_alike(a);
        float first, second;
        memcpy(&first, got.data(), 4);
        memcpy(&second, got.data() + 4, 4);
        CHECK(float_is_nan(first) && !float_is_nan(second));
        CHECK(got != clean);
    }
}

// With ties and NaN among the values: the row that gets the gradient of the largest is the host's.
TEST(voxel_features_gradients_of_crowded_voxels) {
    random_state r = random_make(6);
    crowd c = crowd_make(&r, {1, 32, 33, 700, 40, 1051, 2, 600}, 3);
    for (size_t i = 0; i < c.values.size(); i += 2) {
        c.values[i] = 5000.0f * (float)(i % 3); // ties, above most others
    }
    const int32_t rows = c.begin.back();
    for (int64_t at : {1500, 1700, 2300}) {
        c.values[(size_t)c.order[(size_t)at] * 3 + 1] = NAN;
    }
    std::vector<float> grad((size_t)c.count * 3), host((size_t)rows * 3), device(host);
    for (float &g : grad) {
        g = random_float(&r);
    }
    for (voxel_feature kind : {voxel_feature_mean, voxel_feature_first, voxel_feature_max}) {
        for (int max_points : {0, 34, 500}) {
            emulate::seed = (uint64_t)(kind * 3 + max_points);
            voxel_features_grad_args a = {};
            a.kind = kind;
            a.max_points = max_points;
            a.values = c.values.data();
            a.columns = a.channels = 3;
            a.rows = {nullptr, c.order.data(), c.begin.data()};
            a.row_capacity = rows;
            a.count = &c.count;
            a.capacity = c.count;
            a.type = numeric_f32;
            a.features_grad = grad.data();
            a.features_channels = 3;
            a.values_grad = host.data();
            CHECK_OK(voxel_features_grad_host(&a));
            a.values_grad = device.data();
            CHECK_OK(voxel_features_grad(&a, nullptr));
            CHECK(host == device);
            CHECK(std::count(host.begin(), host.end(), 0.0f) < (int64_t)host.size());
        }
    }
}

TEST(voxel_features_refuses) {
    const word_layout words =
        reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 1, {1, 1, 1}, {1, 1, 1});
    float values[5] = {}, features[11];
    int32_t order[1] = {0}, begin[2] = {0, 1}, count = 1;
    uint32_t word = 0;
    voxel_features_args<uint32_t> good = {}, a;
    good.append = voxel_append_centre | voxel_append_mean;
    good.values = values;
    good.columns = good.channels = 4;
    good.rows = {nullptr, order, begin};
    good.set = {&word, &count, 1};
    good.layout = &words;
    good.size[0] = good.size[1] = good.size[2] = 1;
    good.type = numeric_f32;
    good.features = features;
    CHECK_OK(voxel_features_host(&good));
    CHECK_EQUAL(voxel_features_channels(&good), 10);
#define REFUSED(code, name, change)                                                                \
    do {                                                                                           \
        a = good;                                                                                  \
        change;                                                                                    \
        for (const status &s : {voxel_features_host(&a), voxel_features(&a, nullptr)}) {           \
            CHECK_STATUS(s, code);                                                                 \
            CHECK_EQUAL(s.subject, name);                                                          \
        }                                                                                          \
    } while (0)
    REFUSED(status_unsupported, "kind", a.kind = (voxel_feature)3);
    REFUSED(status_unsupported, "append", a.append = 4);
    REFUSED(status_unsupported, "type", a.type = (numeric)9);
    REFUSED(status_unsupported, "inverse", a.type = numeric_i8);
    REFUSED(status_unsupported, "inverse", a.inverse = 1);
    REFUSED(status_bad_size, "max_points", a.max_points = -1);
    REFUSED(status_bad_size, "channels", a.channels = 0);
    REFUSED(status_bad_size, "columns", a.columns = 3);
    REFUSED(status_bad_size, "columns", (a.columns = 2, a.channels = 2));
    REFUSED(status_bad_size, "set.capacity", a.set.capacity = 0);
    REFUSED(status_null_pointer, "values", a.values = nullptr);
    REFUSED(status_null_pointer, "features", a.features = nullptr);
    REFUSED(status_null_pointer, "set.words", a.set.words = nullptr);
    REFUSED(status_null_pointer, "set.count", a.set.count = nullptr);
    REFUSED(status_null_pointer, "rows.order", a.rows.order = nullptr);
    REFUSED(status_null_pointer, "rows.begin", a.rows.begin = nullptr);
    REFUSED(status_null_pointer, "layout", a.layout = nullptr);
    REFUSED(status_alignment, "values", a.values = misaligned(values));
    REFUSED(status_alignment, "set.words", a.set.words = misaligned(&word));
    REFUSED(status_alignment, "set.count", a.set.count = misaligned(&count));
    REFUSED(status_alignment, "rows.order", a.rows.order = misaligned(order));
    REFUSED(status_alignment, "rows.begin", a.rows.begin = misaligned(begin));
    for (numeric type : {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16}) {
        REFUSED(status_alignment, "features", (a.type = type, a.features = misaligned(features)));
        CHECK_EQUAL(voxel_features_host(&a).detail, numeric_size(type));
    }
    REFUSED(status_grid, "size (must be positive and finite)", a.size[1] = 0);
    REFUSED(status_grid, "size (must be positive and finite)", a.size[2] = NAN);
    REFUSED(status_grid, "origin (must be finite)", a.origin[0] = INFINITY);
#undef REFUSED
    const voxel_features_args<uint32_t> *none = nullptr;
    CHECK_STATUS(voxel_features_host(none), status_null_pointer);
    CHECK_STATUS(voxel_features(none, nullptr), status_null_pointer);
}
