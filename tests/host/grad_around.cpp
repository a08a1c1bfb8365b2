// tests/host/grad_around.cpp: gradients of what stands around convolutions: pooling, dense maps,
// voxel features, joined sets. Host loops against their definitions, and the kernels, run on the
// host (emulate_numeric.h), against the host loops to the bit.
#include "../support/emulate_numeric.h"

#include "../support/devices.h"

#include "../../spira/dense_grad.cuh"
#include "../../spira/join_grad.cuh"
#include "../../spira/pool_grad.cuh"
#include "../../spira/voxel_features_grad.cuh"

#include "../support/dense_problems.h"
#include "../support/join_grad_problems.h"
#include "../support/reference_forms.h"

using namespace spira;

namespace {

const device_info device = device_made(86, 2, 99 * 1024, false);
const numeric formats[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

template <typename T>
T *put(const std::vector<T> &values) {
    T *to = guarded_new<T>((int64_t)values.size());
    std::copy(values.begin(), values.end(), to);
    return to;
}

std::vector<float> random_values(random_state *r, numeric type, int64_t count) {
    std::vector<float> v((size_t)count);
    reference_random_values(r, type, 1, count, v.data());
    return v;
}

char *stored(numeric type, const std::vector<float> &values) {
    char *to = guarded_new<char>((int64_t)values.size() * numeric_size(type));
    reference_store(type, values.data(), (int64_t)values.size(), to);
    return to;
}

// ---- pooling ------------------------------------------------------------------------------------

struct pool_case {
    pool_grad_args args; // of the host loop
    std::vector<float> in, out_grad;
    std::vector<int32_t> map, back;
    int32_t inputs, outputs;
};

pool_case pool_make(random_state *r, numeric type, pool_kind kind, forms_kind sets) {
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
    p.args.channels = random_int(r, 1, 9);
    p.args.volume = kernel_volume(&kernel);
    p.in = random_values(r, type, (int64_t)(p.inputs + 1) * p.args.channels);
    for (float &f : p.in) { // with ties
        f = random_int(r, 0, 2) ? f : 0.0f;
    }
    p.out_grad = random_values(r, type, (int64_t)(p.outputs + 1) * p.args.channels);
    p.map.push_back(-1);
    p.back.push_back(-1);
    p.args.in = kind == pool_max ? put(p.in) : nullptr;
    p.args.out_grad = put(p.out_grad);
    p.args.map = put(p.map);
    p.args.back = put(p.back);
    p.args.count = put(std::vector<int32_t>(1, p.inputs));
    p.args.capacity = p.inputs + random_int(r, 1, 3);
    p.args.in_grad = guarded_new<float>((int64_t)p.args.capacity * p.args.channels);
    return p;
}

// Each output gives to its sources.
std::vector<double> pool_expected(const pool_case *p) {
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

} // namespace

TEST(grad_pool) {
    for (int seed = 0; seed < (test_quick() ? 8 : 48); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const numeric type = formats[seed % 4];
        const pool_kind kind = seed / 4 % 2 ? pool_max : pool_average;
        pool_case p = pool_make(&r, type, kind, (forms_kind)(seed / 8 % forms_kinds));
        const int64_t total = (int64_t)p.inputs * p.args.channels;
        REQUIRE_OK(pool_grad_host(&p.args));
        const float *host = (const float *)p.args.in_grad;
        const std::vector<double> wanted = pool_expected(&p);
        double worst = 0;
        for (int64_t i = 0; i < total; ++i) {
            worst = fmax(worst, fabs((double)host[i] - wanted[(size_t)i]));
        }
        CHECK(worst <= 1e-5);
        pool_grad_args a = p.args;
        a.in = kind == pool_max ? stored(type, p.in) : nullptr;
        a.out_grad = stored(type, p.out_grad);
        a.in_grad = guarded_new<char>((int64_t)a.capacity * a.channels * numeric_size(type));
        emulate::seed = (uint64_t)seed;
        REQUIRE_OK(pool_grad(&a, nullptr));
        bool same = true;
        for (int64_t i = 0; i < total; ++i) {
            const float got = numeric_load(type, a.in_grad, i);
            same = same && got == numeric_stored(type, host[i]);
        }
        CHECK(same);
        CHECK(guarded_untouched((const char *)a.in_grad, total * numeric_size(type),
                                (int64_t)a.capacity * a.channels * numeric_size(type)));
        guarded_finish();
    }
}

TEST(grad_pool_refuses) {
    random_state r = random_make(1);
    const pool_case p = pool_make(&r, numeric_f32, pool_max, forms_strided);
    auto by = [&](status_code code, auto spoil) {
        pool_grad_args a = p.args;
        spoil(&a);
        CHECK_STATUS(pool_grad_host(&a), code);
        CHECK_STATUS(pool_grad(&a, nullptr), code);
    };
    by(status_null_pointer, [](pool_grad_args *a) { a->in = nullptr; });
    by(status_null_pointer, [](pool_grad_args *a) { a->back = nullptr; });
    by(status_null_pointer, [](pool_grad_args *a) { a->in_grad = nullptr; });
    by(status_alignment, [](pool_grad_args *a) { a->map = misaligned((int32_t *)a->map); });
    by(status_bad_size, [](pool_grad_args *a) { a->channels = 0; });
    by(status_bad_size, [](pool_grad_args *a) { a->volume = 0; });
    by(status_bad_size, [](pool_grad_args *a) { a->capacity = 0; });
    by(status_unsupported, [](pool_grad_args *a) { a->in_grad = (void *)a->in; });
    CHECK(guarded_untouched((const char *)p.args.in_grad, 0,
                            (int64_t)p.args.capacity * p.args.channels * 4));
}

// Several batch indices, some of them empty.
TEST(grad_pool_global) {
    for (int seed = 0; seed < (test_quick() ? 6 : 24); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const int batches = random_int(&r, 1, 4);
        const word_layout layout =
            reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, batches, {1, 1, 1}, {1, 1, 1});
        std::vector<uint32_t> words(random_int(&r, 0, 3) ? 150 : 3);
        words.resize((size_t)reference_random_set<uint32_t>(
            &r, &layout, {0, 0, 0}, {9, 9, 9}, {1, 1, 1}, (int32_t)words.size(), words.data()));
        const int empty = random_int(&r, 0, batches);
        words.erase(
            std::remove_if(words.begin(), words.end(),
                           [&](uint32_t w) { return word_unpack(&layout, w).batch == empty; }),
            words.end());
        int32_t count = (int32_t)words.size();
        words.resize((size_t)count + 2);
        pool_global_grad_args<uint32_t> a = {};
        a.kind = seed % 2 ? pool_max : pool_average;
        a.type = formats[seed / 2 % 4];
        a.layout = &layout;
        a.set = {put(words), &count, count + 2};
        a.channels = random_int(&r, 1, 9);
        const int64_t used = (int64_t)count * a.channels, size = numeric_size(a.type);
        const int64_t total = (int64_t)a.set.capacity * a.channels;
        std::vector<float> in = random_values(&r, a.type, total);
        for (float &f : in) { // with ties
            f = random_int(&r, 0, 3) ? f : 0.75f;
        }
        const std::vector<float> grad = random_values(&r, a.type, (int64_t)batches * a.channels);
        pool_global_grad_args<uint32_t> h = a;
        float *host = guarded_new<float>(total);
        h.in = put(in);
        h.out_grad = put(grad);
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
                CHECK(a.kind == pool_average || at < 0 ||
                      (double)host[at * a.channels + c] == wanted);
            }
        }
        a.in = stored(a.type, in);
        a.out_grad = stored(a.type, grad);
        char *to = guarded_new<char>(total * size);
        a.in_grad = to;
        size_t bytes = 0;
        REQUIRE_OK(pool_global_workspace(a.layout, a.channels, &bytes));
        char *scratch = guarded_new<char>((int64_t)bytes);
        CHECK_STATUS(pool_global_grad(&a, scratch, bytes - 1, nullptr), status_workspace);
        emulate::seed = (uint64_t)seed;
        REQUIRE_OK(pool_global_grad(&a, scratch, bytes, nullptr));
        bool same = true;
        for (int64_t i = 0; i < used; ++i) {
            same = same && numeric_load(a.type, to, i) == numeric_stored(a.type, host[i]);
        }
        CHECK(same);
        CHECK(guarded_untouched(to, used * size, total * size));
        a.channels = 0;
        CHECK_STATUS(pool_global_grad(&a, scratch, bytes, nullptr), status_bad_size);
        guarded_finish();
    }
}

// A batch index that the word has bits for, and the layout does not have, gets nothing.
TEST(grad_pool_global_batch_beyond_the_layout) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {9, 9, 9}, 3, {1, 1, 1}, {1, 1, 1});
    word_layout four = layout;
    four.batches = 4;
    int32_t count = 3;
    for (pool_kind kind : {pool_max, pool_average}) {
        pool_global_grad_args<uint32_t> a = {};
        a.kind = kind;
        a.type = numeric_f32;
        a.layout = &layout;
        a.set = {put<uint32_t>({word_pack<uint32_t>(&layout, {0, 1, 1, 1}),
                                word_pack<uint32_t>(&layout, {2, 1, 1, 1}),
                                word_pack<uint32_t>(&four, {3, 1, 1, 1})}),
                 &count, 3};
        a.channels = 1;
        a.in = put<float>({1, 2, 3});
        a.out_grad = put<float>({10, 11, 12});
        float *grad = guarded_new<float>(3);
        a.in_grad = grad;
        size_t bytes = 0;
        REQUIRE_OK(pool_global_workspace(a.layout, a.channels, &bytes));
        REQUIRE_OK(pool_global_grad(&a, guarded_new<char>((int64_t)bytes), bytes, nullptr));
        CHECK(grad[0] == 10 && grad[1] == 12 && guarded_untouched(grad, 2, 3));
        guarded_finish();
    }
}

// ---- dense maps ---------------------------------------------------------------------------------

// The gradient of a map that holds the features is the features; 0 for voxels without a cell.
TEST(grad_dense) {
    for (int seed = 0; seed < (test_quick() ? 8 : 60); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const dense_shape s = dense_shape_random(&r, 9);
        const dense_problem<uint32_t> p =
            dense_problem_make<uint32_t>(&r, &s, random_int(&r, 0, 60), random_int(&r, 0, 5));
        dense_args<uint32_t> a = p.args;
        const int64_t all = (int64_t)a.set.capacity * a.channels, size = numeric_size(a.type);
        int32_t count = p.count;
        device_status trouble = {};
        a.words = &p.layout;
        a.set.words = put(p.words);
        a.set.count = &count;
        a.features = put(p.features);
        a.out = guarded_new<char>((int64_t)p.bytes());
        a.trouble = &trouble;
        REQUIRE_OK(dense_host(&a));
        a.features = nullptr;
        char *host = guarded_new<char>(all * size), *got = guarded_new<char>(all * size);
        REQUIRE_OK(dense_grad_host(&a, host));
        emulate::seed = (uint64_t)seed;
        REQUIRE_OK(dense_grad(&device, &a, got, nullptr));
        const int64_t used = (int64_t)p.voxels() * a.channels;
        CHECK(memcmp(host, got, (size_t)(used * size)) == 0);
        CHECK(guarded_untouched(got, used * size, all * size));
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
        CHECK_STATUS(dense_grad(&device, &a, nullptr, nullptr), status_null_pointer);
        CHECK_STATUS(dense_grad(&device, &a, a.out, nullptr), status_unsupported);
        CHECK_STATUS(dense_grad(nullptr, &a, got, nullptr), status_null_pointer);
        guarded_finish();
    }
}

// ---- voxel features -----------------------------------------------------------------------------

// Against difference quotients of the features, in which the rows' values are distinct.
TEST(grad_voxel_features) {
    for (int seed = 0; seed < (test_quick() ? 6 : 36); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const int32_t voxels = random_int(&r, 0, 20), rows = 4 * voxels + 2;
        std::vector<int32_t> order, begin(1, 0), all((size_t)rows);
        for (int32_t i = 0; i < rows; ++i) {
            all[(size_t)i] = rows - 1 - i;
        }
        for (int32_t v = 0; v < voxels; ++v) { // up to 4 rows each; some rows are of no voxel
            const int own = random_int(&r, 1, 4);
            for (int i = 0; i < own; ++i) {
                order.push_back(all[(size_t)(4 * v + i)]);
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
        std::vector<float> values = random_values(&r, numeric_f32, (int64_t)rows * f.columns);
        const word_layout layout =
            reference_layout<uint32_t>({0, 0, 0}, {19, 1, 1}, 1, {1, 1, 1}, {1, 1, 1});
        std::vector<uint32_t> words((size_t)voxels + 3, word_none<uint32_t>());
        for (int32_t v = 0; v < voxels; ++v) {
            words[(size_t)v] = word_pack<uint32_t>(&layout, {0, v, 1, 0});
        }
        f.set.words = words.data();
        f.layout = &layout;
        std::fill(f.size, f.size + 3, 0.25f);
        int32_t count = voxels;
        f.values = values.data();
        f.rows = {nullptr, put(order), put(begin)};
        f.set.count = &count;
        f.set.capacity = voxels + 3;
        f.type = numeric_f32;
        const int channels = voxel_features_channels(&f);
        const int64_t features = (int64_t)f.set.capacity * channels;
        const numeric type = formats[seed % 4];
        const std::vector<float> grad = random_values(&r, type, features);
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
        a.features_grad = stored(type, grad);
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
        a.values_grad = guarded_new<float>((int64_t)rows * columns);
        emulate::seed = (uint64_t)seed;
        REQUIRE_OK(voxel_features_grad(&a, nullptr));
        CHECK(memcmp(host, a.values_grad, (size_t)(rows * columns) * sizeof(float)) == 0);
        a.rows.order = nullptr;
        CHECK_STATUS(voxel_features_grad(&a, nullptr), status_null_pointer);
        a.rows.order = f.rows.order;
        a.features_channels = channels + 1;
        CHECK_STATUS(voxel_features_grad(&a, nullptr), status_bad_size);
        a.append = 4;
        CHECK_STATUS(voxel_features_grad(&a, nullptr), status_unsupported);
        guarded_finish();
    }
}

// ---- joined sets --------------------------------------------------------------------------------

TEST(grad_join_sum) {
    for (int seed = 0; seed < (test_quick() ? 8 : 40); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const join_grad_problem p = join_grad_problem_make(&r, 60);
        const int64_t off = seed % 3 ? 0 : numeric_size(p.args.type);
        join_sum_grad_args a = p.args;
        char *out = guarded_new<char>((int64_t)p.out_grad.size() + off) + off;
        std::copy(p.out_grad.begin(), p.out_grad.end(), out);
        a.out_grad = out;
        a.rows = {put(p.begin), put(p.order)};
        a.count = put(std::vector<int32_t>(1, p.voxels));
        const int left_out = seed % 2 && a.sets > 1 ? random_int(&r, 0, a.sets - 1) : -1;
        for (bool host : {true, false}) {
            for (int s = 0; s < a.sets; ++s) {
                const int64_t bytes = (int64_t)join_sum_grad_bytes(&a, s);
                a.in_grad[s] = s == left_out ? nullptr : guarded_new<char>(bytes + off) + off;
            }
            emulate::seed = (uint64_t)seed;
            REQUIRE_OK(host ? join_sum_grad_host(&a) : join_sum_grad(&a, nullptr));
            for (int s = 0; s < a.sets; ++s) {
                CHECK(s == left_out || join_grad_good(&p, s, (const char *)a.in_grad[s]));
            }
        }
        guarded_finish();
    }
}

TEST(grad_join_sum_refuses) {
    int32_t words[4] = {};
    float from[4] = {}, to[4] = {};
    join_sum_grad_args good = {};
    good.out_grad = from;
    good.sets = good.channels = good.out_capacity = 1;
    good.capacity[0] = 1;
    good.rows = {words, words};
    good.count = words;
    good.in_grad[0] = to;
    auto by = [&](status_code code, auto spoil) {
        join_sum_grad_args a = good;
        spoil(&a);
        CHECK_STATUS(join_sum_grad_host(&a), code);
        CHECK_STATUS(join_sum_grad(&a, nullptr), code);
    };
    by(status_ok, [](join_sum_grad_args *) {});
    by(status_null_pointer, [](join_sum_grad_args *a) { a->out_grad = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->in_grad[0] = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->rows.order = nullptr; });
    by(status_null_pointer, [](join_sum_grad_args *a) { a->count = nullptr; });
    by(status_alignment,
       [](join_sum_grad_args *a) { a->in_grad[0] = misaligned((float *)a->in_grad[0]); });
    by(status_bad_size, [](join_sum_grad_args *a) { a->sets = join_sets_max + 1; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->capacity[0] = 0; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->channels = 0; });
    by(status_bad_size, [](join_sum_grad_args *a) { a->out_capacity = 0; });
    by(status_unsupported, [](join_sum_grad_args *a) { a->type = (numeric)99; });
    by(status_unsupported, [](join_sum_grad_args *a) { a->in_grad[0] = (void *)a->out_grad; });
    CHECK_STATUS(join_sum_grad_host(nullptr), status_null_pointer);
}
