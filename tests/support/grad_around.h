// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/grad_around.h: gradients of what stands around convolutions: pooling, dense maps,
// voxel features, joined sets. Host loops against their definitions, kernels against the host loops
// to the bit. A test on the GPU and one of emulated kernels include it, and have before:
//
//     large                  whether problems may be large
//     memory                 for the arrays of the kernels (test_memory)
//     stream(), device()     of the launches
//
// ..._case(seed) is one problem of a kind.
#ifndef SPIRA_TESTS_GRAD_AROUND_H
#define SPIRA_TESTS_GRAD_AROUND_H

#include "dense_problems.h"
#include "problems.h"
#include "reference_forms.h"

using namespace spira;

const numeric grad_formats[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

inline std::vector<float> grad_values(random_state *r, numeric type, int64_t count) {
    std::vector<float> v((size_t)count);
    reference_random_values(r, type, 1, count, v.data());
    return v;
}

using problems::features_store;

// A kernel's `got` [total] of the type is the host loop's [used], rounded; nothing is written
// behind.
inline void check_same(numeric type, const float *host, const void *got, int64_t used,
                       int64_t total) {
    const int64_t size = numeric_size(type);
    const std::vector<char> copy = memory_get(memory, (const char *)got, used * size);
    bool same = true;
    for (int64_t i = 0; i < used; ++i) {
        same = same && numeric_load(type, copy.data(), i) == numeric_stored(type, host[i]);
    }
    CHECK(same);
    CHECK(memory_untouched(memory, (const char *)got, used * size, total * size));
}

// ---- pooling ------------------------------------------------------------------------------------

struct pool_case {
    pool_grad_args args; // of the host loop
    std::vector<float> in, out_grad;
    std::vector<int32_t> map, back;
    int32_t inputs, outputs;
};

inline pool_case pool_make(random_state *r, numeric type, pool_kind kind, forms_kind sets) {
    pool_case p = {};
    const kernel_shape kernel = reference_random_kernel(r, 3, 2, {1, 1, 1});
    forms_scene<uint32_t> s = forms_scene_random<uint32_t>(r, sets, kernel);
    p.inputs = (int32_t)s.source.size();
    p.outputs = (int32_t)s.outputs.size();
    p.map = forms_map(&s);
    std::swap(s.source, s.outputs);
    s.kernel.transposed = !s.kernel.transposed;
    p.back = forms_map(&s);
    p.args.kind = kind;
    p.args.type = type;
    p.args.channels = random_int(r, 1, large ? 70 : 9);
    p.args.volume = kernel_volume(&kernel);
    p.in = grad_values(r, type, (int64_t)(p.inputs + 1) * p.args.channels);
    for (float &f : p.in) { // with ties
        f = random_int(r, 0, 2) ? f : 0.0f;
    }
    p.out_grad = grad_values(r, type, (int64_t)(p.outputs + 1) * p.args.channels);
    p.map.push_back(-1);
    p.back.push_back(-1);
    p.args.in = kind == pool_max ? memory_put(&memory_host, p.in) : nullptr;
    p.args.out_grad = memory_put(&memory_host, p.out_grad);
    p.args.map = memory_put(&memory_host, p.map);
    p.args.back = memory_put(&memory_host, p.back);
    p.args.count = memory_put(&memory_host, std::vector<int32_t>(1, p.inputs));
    p.args.capacity = p.inputs + random_int(r, 1, 3);
    p.args.in_grad = guarded_new<float>((int64_t)p.args.capacity * p.args.channels);
    return p;
}

// Each output gives to its sources.
inline std::vector<double> pool_expected(const pool_case *p) {
    const int channels = p->args.channels, volume = p->args.volume;
    std::vector<double> sum((size_t)(p->inputs * channels));
    for (int32_t o = 0; o < p->outputs; ++o) {
        const int32_t *taps = p->map.data() + o * volume;
        const int64_t sources = volume - std::count(taps, taps + volume, -1);
        for (int c = 0; c < channels; ++c) {
            const double grad = (double)p->out_grad[(size_t)(o * channels + c)];
            int32_t winner = -1;
            for (int k = 0; k < volume; ++k) {
                auto at = [&](int32_t row) { return (size_t)(row * channels + c); };
                if (taps[k] >= 0 && p->args.kind == pool_average) {
                    sum[at(taps[k])] += grad / (double)sources;
                } else if (taps[k] >= 0 && (winner < 0 || p->in[at(taps[k])] > p->in[at(winner)])) {
                    winner = taps[k];
                }
            }
            if (winner >= 0) {
                sum[(size_t)(winner * channels + c)] += grad;
            }
        }
    }
    return sum;
}

inline void pool_grad_case(int seed) {
    random_state r = random_make((uint64_t)seed);
    const numeric type = grad_formats[seed % 4];
    const pool_kind kind = seed / 4 % 2 ? pool_max : pool_average;
    const pool_case p = pool_make(&r, type, kind, (forms_kind)(seed / 8 % forms_kinds));
    const int64_t used = (int64_t)p.inputs * p.args.channels;
    const int64_t total = (int64_t)p.args.capacity * p.args.channels;
    REQUIRE_OK(pool_grad_host(&p.args));
    const float *host = (const float *)p.args.in_grad;
    const std::vector<double> wanted = pool_expected(&p);
    double worst = 0;
    for (int64_t i = 0; i < used; ++i) {
        worst = fmax(worst, fabs((double)host[i] - wanted[(size_t)i]));
    }
    CHECK(worst <= 1e-5);
    pool_grad_args a = p.args;
    a.in = kind == pool_max ? memory_put(memory, features_store(type, p.in)) : nullptr;
    a.out_grad = memory_put(memory, features_store(type, p.out_grad));
    a.map = memory_put(memory, p.map);
    a.back = memory_put(memory, p.back);
    a.count = memory_put(memory, std::vector<int32_t>(1, p.inputs));
    a.in_grad = memory_new<char>(memory, total * numeric_size(type));
    REQUIRE_OK(pool_grad(&a, stream()));
    check_same(type, host, a.in_grad, used, total);
    guarded_finish();
}

// Several batch indices, some of them empty.
inline void pool_global_grad_case(int seed) {
    random_state r = random_make((uint64_t)seed);
    const int batches = random_int(&r, 1, 4);
    const triple far = large ? triple_make(29, 29, 29) : triple_make(9, 9, 9);
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, far, batches, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words(!random_int(&r, 0, 3) ? 3 : large ? 3000 : 150);
    words.resize((size_t)reference_random_set<uint32_t>(&r, &layout, {0, 0, 0}, far, {1, 1, 1},
                                                        (int32_t)words.size(), words.data()));
    const int empty = random_int(&r, 0, batches);
    words.erase(std::remove_if(words.begin(), words.end(),
                               [&](uint32_t w) { return word_unpack(&layout, w).batch == empty; }),
                words.end());
    int32_t count = (int32_t)words.size();
    words.resize((size_t)count + 2);
    pool_global_grad_args<uint32_t> a = {};
    a.kind = seed % 2 ? pool_max : pool_average;
    a.type = grad_formats[seed / 2 % 4];
    a.layout = &layout;
    a.set = {words.data(), &count, count + 2};
    a.channels = random_int(&r, 1, large ? 300 : 9);
    const int64_t used = (int64_t)count * a.channels;
    const int64_t total = (int64_t)a.set.capacity * a.channels;
    std::vector<float> in = grad_values(&r, a.type, total);
    for (float &f : in) { // with ties
        f = random_int(&r, 0, 3) ? f : 0.75f;
    }
    const std::vector<float> grad = grad_values(&r, a.type, (int64_t)batches * a.channels);
    pool_global_grad_args<uint32_t> h = a;
    float *host = guarded_new<float>(total);
    h.in = memory_put(&memory_host, in);
    h.out_grad = memory_put(&memory_host, grad);
    h.in_grad = host;
    REQUIRE_OK(pool_global_grad_host(&h));
    for (int b = 0; b < batches; ++b) { // what a batch index has given
        for (int c = 0; c < a.channels; ++c) {
            double sum = 0;
            int64_t voxels = 0, got = 0, at = -1;
            for (int64_t v = 0; v < count; ++v) {
                if (word_unpack(&layout, words[(size_t)v]).batch == b) {
                    const float own = host[v * a.channels + c];
                    const float x = in[(size_t)(v * a.channels + c)];
                    sum += (double)own;
                    ++voxels;
                    got += own != 0;
                    at = at < 0 || x > in[(size_t)(at * a.channels + c)] ? v : at;
                }
            }
            const double wanted = voxels ? (double)grad[(size_t)(b * a.channels + c)] : 0;
            CHECK(fabs(sum - wanted) <= 1e-5);
            CHECK(a.kind == pool_average || got <= 1);
            CHECK(a.kind == pool_average || at < 0 || (double)host[at * a.channels + c] == wanted);
        }
    }
    a.set = {memory_put(memory, words), memory_put(memory, std::vector<int32_t>(1, count)),
             count + 2};
    a.in = memory_put(memory, features_store(a.type, in));
    a.out_grad = memory_put(memory, features_store(a.type, grad));
    a.in_grad = memory_new<char>(memory, total * numeric_size(a.type));
    size_t bytes = 0;
    REQUIRE_OK(pool_global_workspace(a.layout, a.channels, &bytes));
    char *scratch = memory_new<char>(memory, (int64_t)bytes);
    CHECK_STATUS(pool_global_grad(&a, scratch, bytes - 1, stream()), status_workspace);
    REQUIRE_OK(pool_global_grad(&a, scratch, bytes, stream()));
    check_same(a.type, host, a.in_grad, used, total);
    a.channels = 0;
    CHECK_STATUS(pool_global_grad(&a, scratch, bytes, stream()), status_bad_size);
    guarded_finish();
}

// ---- dense maps ---------------------------------------------------------------------------------

// The gradient of a map that holds the features is the features; 0 for voxels without a cell.
inline void dense_grad_case(int seed) {
    random_state r = random_make((uint64_t)seed);
    dense_shape s = dense_shape_random(&r, large ? 24 : 9);
    if (s.type == numeric_i8) { // has no gradient
        s.type = s.out_type = numeric_f16;
    }
    const dense_problem<uint32_t> p =
        dense_problem_make<uint32_t>(&r, &s, random_int(&r, 0, 60), random_int(&r, 0, 5));
    dense_args<uint32_t> a = p.args;
    const int64_t all = (int64_t)a.set.capacity * a.channels, size = numeric_size(a.type);
    int32_t count = p.count;
    device_status trouble = {};
    a.layout = &p.layout;
    a.set.words = memory_put(&memory_host, p.words);
    a.set.count = &count;
    a.features = memory_put(&memory_host, p.features);
    a.out = guarded_new<char>((int64_t)p.bytes());
    a.trouble = &trouble;
    REQUIRE_OK(dense_host(&a));
    a.features = nullptr;
    char *host = guarded_new<char>(all * size), *got = memory_new<char>(memory, all * size);
    REQUIRE_OK(dense_grad_host(&a, host));
    a.set.words = memory_put(memory, p.words);
    a.set.count = memory_put(memory, std::vector<int32_t>(1, count));
    a.out =
        memory_put(memory, std::vector<char>((const char *)a.out, (const char *)a.out + p.bytes()));
    a.trouble = memory_put(memory, std::vector<device_status>(1));
    REQUIRE_OK(dense_grad(device(), &a, got, stream()));
    const int64_t used = (int64_t)p.voxels() * a.channels;
    CHECK(memcmp(host, memory_get(memory, got, used * size).data(), (size_t)(used * size)) == 0);
    CHECK(memory_untouched(memory, got, used * size, all * size));
    bool good = true;
    for (int64_t i = 0; i < used; ++i) {
        voxel cell;
        const bool there = !dense_locate(&p.layout, &a.grid, a.stride, a.batch,
                                         p.words[(size_t)(i / a.channels)], &cell);
        const float x = numeric_load(a.type, p.features.data(), i);
        const float wanted = there ? numeric_stored(a.type, numeric_stored(a.out_type, x)) : 0;
        good = good && numeric_load(a.type, host, i) == wanted;
    }
    CHECK(good);
    CHECK_STATUS(dense_grad(device(), &a, nullptr, stream()), status_null_pointer);
    CHECK_STATUS(dense_grad(device(), &a, a.out, stream()), status_unsupported);
    CHECK_STATUS(dense_grad(nullptr, &a, got, stream()), status_null_pointer);
    guarded_finish();
}

// ---- voxel features -----------------------------------------------------------------------------

// Against difference quotients of the features, in which the rows' values are distinct.
inline void voxel_features_grad_case(int seed) {
    random_state r = random_make((uint64_t)seed);
    const int32_t voxels = random_int(&r, 0, large ? 2000 : 20), rows = 4 * voxels + 2;
    std::vector<int32_t> order, begin(1, 0);
    for (int32_t v = 0; v < voxels; ++v) { // up to 4 rows each; some rows are of no voxel
        const int own = random_int(&r, 1, 4);
        for (int i = 0; i < own; ++i) {
            order.push_back(rows - 1 - (4 * v + i));
        }
        begin.push_back((int32_t)order.size());
    }
    order.resize((size_t)rows, -1);
    begin.resize((size_t)voxels + 4, -1);
    voxel_features_args<uint32_t> f = {};
    f.kind = (voxel_feature)(seed % 3);
    f.max_points = seed / 3 % 3;
    f.append = (unsigned)(seed / 9 % 4);
    f.channels = random_int(&r, 1, 5);
    f.columns = std::max(f.channels + random_int(&r, 0, 2), f.append ? 3 : 1);
    std::vector<float> values = grad_values(&r, numeric_f32, (int64_t)rows * f.columns);
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {2000, 1, 1}, 1, {1, 1, 1}, {1, 1, 1});
    std::vector<uint32_t> words((size_t)voxels + 3, word_none<uint32_t>());
    for (int32_t v = 0; v < voxels; ++v) {
        words[(size_t)v] = word_pack<uint32_t>(&layout, {0, v, 1, 0});
    }
    f.set.words = words.data();
    f.layout = &layout;
    std::fill(f.size, f.size + 3, 0.25f);
    int32_t count = voxels;
    f.values = values.data();
    f.rows = {nullptr, memory_put(&memory_host, order), memory_put(&memory_host, begin)};
    f.set.count = &count;
    f.set.capacity = voxels + 3;
    f.type = numeric_f32;
    const int channels = voxel_features_channels(&f);
    const int64_t features = (int64_t)f.set.capacity * channels;
    const numeric type = grad_formats[seed % 4];
    const std::vector<float> grad = grad_values(&r, type, features);
    auto loss = [&] {
        std::vector<float> out((size_t)features);
        f.features = out.data();
        CHECK_OK(voxel_features_host(&f));
        double sum = 0;
        for (int64_t i = 0; i < (int64_t)voxels * channels; ++i) {
            sum += (double)out[(size_t)i] * (double)grad[(size_t)i];
        }
        return sum;
    };
    voxel_features_grad_args a = {};
    a.kind = f.kind;
    a.max_points = f.max_points;
    a.values = f.values;
    a.columns = f.columns;
    a.channels = f.channels;
    a.features_channels = channels;
    a.append = f.append;
    a.rows = f.rows;
    a.row_capacity = rows;
    a.count = &count;
    a.capacity = f.set.capacity;
    a.type = type;
    a.features_grad = memory_put(&memory_host, features_store(type, grad));
    const int columns = voxel_features_grad_channels(a);
    a.values_grad = guarded_new<float>((int64_t)rows * columns);
    REQUIRE_OK(voxel_features_grad_host(&a));
    const float *host = a.values_grad;
    for (int i = 0; i < 20; ++i) {
        const int row = random_int(&r, 0, rows - 1), c = random_int(&r, 0, columns - 1);
        float *value = &values[(size_t)(row * f.columns + c)];
        const float kept = *value, step = 0x1p-10f;
        *value = kept + step;
        const double up = loss();
        *value = kept - step;
        const double slope = (up - loss()) / (2 * (double)step);
        *value = kept;
        CHECK(fabs((double)host[row * columns + c] - slope) <= 2e-3);
    }
    a.values = memory_put(memory, values);
    a.rows = {nullptr, memory_put(memory, order), memory_put(memory, begin)};
    a.count = memory_put(memory, std::vector<int32_t>(1, count));
    a.features_grad = memory_put(memory, features_store(type, grad));
    a.values_grad = memory_new<float>(memory, (int64_t)rows * columns);
    REQUIRE_OK(voxel_features_grad(&a, stream()));
    const std::vector<float> got = memory_get(memory, a.values_grad, (int64_t)rows * columns);
    CHECK(memcmp(host, got.data(), got.size() * sizeof(float)) == 0);
    a.rows.order = nullptr;
    CHECK_STATUS(voxel_features_grad(&a, stream()), status_null_pointer);
    a.rows.order = memory_put(memory, order);
    a.features_channels = channels + 1;
    CHECK_STATUS(voxel_features_grad(&a, stream()), status_bad_size);
    a.append = 4;
    CHECK_STATUS(voxel_features_grad(&a, stream()), status_unsupported);
    guarded_finish();
}

// ---- joined sets --------------------------------------------------------------------------------

// Source rows of several sets, each of one voxel or of none.
struct join_grad_problem {
    join_sum_grad_args args;           // without pointers
    std::vector<int32_t> begin, order; // of join_rows
    std::vector<int32_t> voxel;        // of each source row; -1: none
    int32_t voxels;
    std::vector<char> out_grad; // as stored
};

inline join_grad_problem join_grad_problem_make(random_state *r, int most) {
    join_grad_problem p = {};
    p.voxels = random_int(r, 0, most);
    p.args.sets = random_int(r, 1, join_sets_max);
    p.args.channels = random_int(r, 0, 1) ? random_int(r, 1, 20) : 8 * random_int(r, 1, 5);
    p.args.type = grad_formats[random_int(r, 0, 3)];
    p.args.out_capacity = p.voxels + random_int(r, 1, 9);
    for (int s = 0; s < p.args.sets; ++s) {
        p.args.capacity[s] = random_int(r, 1, most);
        for (int32_t i = 0; i < p.args.capacity[s]; ++i) {
            p.voxel.push_back(p.voxels && random_int(r, 0, 4) ? random_int(r, 0, p.voxels - 1)
                                                              : -1);
        }
    }
    std::vector<std::vector<int32_t>> rows((size_t)p.voxels);
    for (size_t i = 0; i < p.voxel.size(); ++i) {
        if (p.voxel[i] >= 0) {
            rows[(size_t)p.voxel[i]].push_back((int32_t)i);
        }
    }
    p.begin.push_back(0);
    for (const std::vector<int32_t> &own : rows) {
        p.order.insert(p.order.end(), own.begin(), own.end());
        p.begin.push_back((int32_t)p.order.size());
    }
    p.order.resize(p.voxel.size(), -1);
    p.begin.resize((size_t)p.args.out_capacity + 1, -1);
    const int64_t values = (int64_t)p.args.out_capacity * p.args.channels;
    std::vector<float> value((size_t)values);
    reference_random_values(r, p.args.type, 1, values, value.data());
    p.out_grad.resize((size_t)(values * numeric_size(p.args.type)));
    reference_store(p.args.type, value.data(), values, p.out_grad.data());
    return p;
}

// Whether `got` is the gradient of a set: the bytes of the row's voxel, or zeros.
inline bool join_grad_good(const join_grad_problem *p, int set, const char *got) {
    const size_t row = (size_t)(p->args.channels * numeric_size(p->args.type));
    int32_t base = 0;
    for (int s = 0; s < set; ++s) {
        base += p->args.capacity[s];
    }
    const std::vector<char> zeros(row);
    for (int32_t i = 0; i < p->args.capacity[set]; ++i) {
        const int32_t voxel = p->voxel[(size_t)(base + i)];
        const char *wanted = voxel < 0 ? zeros.data() : p->out_grad.data() + (size_t)voxel * row;
        if (memcmp(got + (size_t)i * row, wanted, row) != 0) {
            return false;
        }
    }
    return true;
}

inline void join_sum_grad_case(int seed) {
    random_state r = random_make((uint64_t)seed);
    const join_grad_problem p = join_grad_problem_make(&r, large ? 3000 : 60);
    const int64_t off = seed % 3 ? 0 : numeric_size(p.args.type);
    const int left_out = seed % 2 && p.args.sets > 1 ? random_int(&r, 0, p.args.sets - 1) : -1;
    std::vector<char> out((size_t)off);
    out.insert(out.end(), p.out_grad.begin(), p.out_grad.end());
    for (bool host : {true, false}) {
        const test_memory *m = host ? &memory_host : memory;
        join_sum_grad_args a = p.args;
        a.out_grad = memory_put(m, out) + off;
        a.rows = {memory_put(m, p.begin), memory_put(m, p.order)};
        a.count = memory_put(m, &p.voxels, 1);
        for (int s = 0; s < a.sets; ++s) {
            const int64_t bytes = (int64_t)join_sum_grad_bytes(&a, s) + off;
            a.in_grad[s] = s == left_out ? nullptr : memory_new<char>(m, bytes) + off;
        }
        REQUIRE_OK(host ? join_sum_grad_host(&a) : join_sum_grad(&a, stream()));
        for (int s = 0; s < a.sets; ++s) {
            const char *got = (const char *)a.in_grad[s];
            const int64_t bytes = (int64_t)join_sum_grad_bytes(&a, s);
            CHECK(s == left_out || join_grad_good(&p, s, memory_get(m, got, bytes).data()));
        }
    }
    guarded_finish();
}

#endif
