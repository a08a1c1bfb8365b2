// tests/gpu/grad_around.cu: gradients of pooling, dense maps, voxel features and joined sets on the
// GPU, against the host loops.
#include "../../spira/dense_grad.cuh"
#include "../../spira/join_grad.cuh"
#include "../../spira/pool_grad.cuh"
#include "../../spira/voxel_features_grad.cuh"
#include "../support/dense_problems.h"
#include "../support/gpu.cuh"
#include "../support/join_grad_problems.h"
#include "../support/sets.cuh"

using namespace spira;

namespace {

const numeric formats[] = {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16};

std::vector<float> random_values(random_state *r, numeric type, int64_t count) {
    std::vector<float> v((size_t)count);
    reference_random_values(r, type, 1, count, v.data());
    return v;
}

template <typename T>
T *upload(const std::vector<T> &values) {
    return device_upload(values.data(), (int64_t)values.size());
}

const char *upload_stored(numeric type, const std::vector<float> &values) {
    std::vector<char> to(values.size() * (size_t)numeric_size(type));
    reference_store(type, values.data(), (int64_t)values.size(), to.data());
    return upload(to);
}

// `got` [total] of the type is host [used], rounded; nothing is written behind it.
void check_same(numeric type, const std::vector<float> &host, const char *got, int64_t used,
                int64_t total) {
    const int64_t size = numeric_size(type);
    const char *copy = device_fetch(got, used * size);
    bool same = true;
    for (int64_t i = 0; i < used; ++i) {
        same = same && numeric_load(type, copy, i) == numeric_stored(type, host[(size_t)i]);
    }
    CHECK(same);
    CHECK(device_untouched(got, used * size, total * size));
}

} // namespace

DEVICE_TEST(gpu_grad_pool) {
    for (int seed = 0; seed < (test_quick() ? 8 : 48); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const kernel_shape kernel = reference_random_kernel(&r, 3, 2, {1, 1, 1});
        forms_scene<uint32_t> s =
            forms_scene_random<uint32_t>(&r, (forms_kind)(seed / 8 % forms_kinds), kernel);
        const int32_t inputs = (int32_t)s.source.size(), outputs = (int32_t)s.outputs.size();
        std::vector<int32_t> map = forms_map(&s);
        std::swap(s.source, s.outputs);
        s.kernel.transposed = !s.kernel.transposed;
        std::vector<int32_t> back = forms_map(&s);
        map.push_back(-1);
        back.push_back(-1);
        pool_grad_args a = {};
        a.kind = seed / 4 % 2 ? pool_max : pool_average;
        a.type = formats[seed % 4];
        a.channels = random_int(&r, 1, 70);
        a.volume = kernel_volume(&kernel);
        a.capacity = inputs + 2;
        std::vector<float> in = random_values(&r, a.type, (int64_t)(inputs + 1) * a.channels);
        for (float &f : in) { // with ties
            f = random_int(&r, 0, 2) ? f : 0.0f;
        }
        const std::vector<float> grad =
            random_values(&r, a.type, (int64_t)(outputs + 1) * a.channels);
        const int64_t used = (int64_t)inputs * a.channels;
        const int64_t total = (int64_t)a.capacity * a.channels;
        std::vector<float> host((size_t)total);
        pool_grad_args h = a;
        h.in = in.data();
        h.out_grad = grad.data();
        h.map = map.data();
        h.back = back.data();
        h.count = &inputs;
        h.in_grad = host.data();
        REQUIRE_OK(pool_grad_host(&h));
        char *got = device_new<char>(total * numeric_size(a.type));
        a.in = upload_stored(a.type, in);
        a.out_grad = upload_stored(a.type, grad);
        a.map = upload(map);
        a.back = upload(back);
        a.count = device_upload(&inputs, 1);
        a.in_grad = got;
        REQUIRE_OK(pool_grad(&a, stream_get()));
        check_same(a.type, host, got, used, total);
        a.capacity = 0;
        CHECK_STATUS(pool_grad(&a, stream_get()), status_bad_size);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_grad_pool_global) {
    for (int seed = 0; seed < (test_quick() ? 6 : 24); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const int batches = random_int(&r, 1, 4);
        const word_layout layout =
            reference_layout<uint32_t>({0, 0, 0}, {29, 29, 29}, batches, {1, 1, 1}, {1, 1, 1});
        std::vector<uint32_t> words(seed % 5 ? 3000 : 2);
        words.resize((size_t)reference_random_set<uint32_t>(
            &r, &layout, {0, 0, 0}, {29, 29, 29}, {1, 1, 1}, (int32_t)words.size(), words.data()));
        int32_t count = (int32_t)words.size();
        words.resize((size_t)count + 2);
        pool_global_grad_args<uint32_t> a = {};
        a.kind = seed % 2 ? pool_max : pool_average;
        a.type = formats[seed / 2 % 4];
        a.layout = &layout;
        a.set = {words.data(), &count, count + 2};
        a.channels = random_int(&r, 1, 300);
        const int64_t used = (int64_t)count * a.channels, size = numeric_size(a.type);
        const int64_t total = (int64_t)a.set.capacity * a.channels;
        const std::vector<float> in = random_values(&r, a.type, total);
        const std::vector<float> grad = random_values(&r, a.type, (int64_t)batches * a.channels);
        pool_global_grad_args<uint32_t> h = a;
        std::vector<float> host((size_t)total);
        h.in = in.data();
        h.out_grad = grad.data();
        h.in_grad = host.data();
        REQUIRE_OK(pool_global_grad_host(&h));
        char *got = device_new<char>(total * size);
        a.set = {upload(words), device_upload(&count, 1), count + 2};
        a.in = upload_stored(a.type, in);
        a.out_grad = upload_stored(a.type, grad);
        a.in_grad = got;
        size_t bytes = 0;
        REQUIRE_OK(pool_global_workspace(a.layout, a.channels, &bytes));
        char *scratch = device_new<char>((int64_t)bytes);
        CHECK_STATUS(pool_global_grad(&a, scratch, bytes - 1, stream_get()), status_workspace);
        REQUIRE_OK(pool_global_grad(&a, scratch, bytes, stream_get()));
        check_same(a.type, host, got, used, total);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_grad_dense) {
    for (int seed = 0; seed < (test_quick() ? 8 : 80); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const dense_shape s = dense_shape_random(&r, 24);
        const dense_problem<uint32_t> p =
            dense_problem_make<uint32_t>(&r, &s, random_int(&r, 0, 60), random_int(&r, 0, 5));
        dense_args<uint32_t> a = p.args;
        const int64_t size = numeric_size(a.type), used = (int64_t)p.voxels() * a.channels;
        const int64_t total = (int64_t)a.set.capacity * a.channels;
        std::vector<uint32_t> words = p.words;
        int32_t count = p.count;
        device_status trouble = {};
        std::vector<char> map(p.bytes()), host((size_t)(total * size));
        a.words = &p.layout;
        a.set.words = words.data();
        a.set.count = &count;
        a.features = p.features.data();
        a.out = map.data();
        a.trouble = &trouble;
        REQUIRE_OK(dense_host(&a));
        REQUIRE_OK(dense_grad_host(&a, host.data()));
        a.set.words = upload(words);
        a.set.count = device_upload(&count, 1);
        a.out = upload(map);
        a.trouble = device_zeros<device_status>(1);
        char *got = device_new<char>(total * size);
        REQUIRE_OK(dense_grad(gpu(), &a, got, stream_get()));
        CHECK(memcmp(device_fetch(got, used * size), host.data(), (size_t)(used * size)) == 0);
        CHECK(device_untouched(got, used * size, total * size));
        guarded_finish();
    }
}

DEVICE_TEST(gpu_grad_voxel_features) {
    for (int seed = 0; seed < (test_quick() ? 6 : 36); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const int32_t voxels = random_int(&r, 0, 2000), rows = 4 * voxels + 2;
        std::vector<int32_t> order, begin(1, 0);
        for (int32_t v = 0; v < voxels; ++v) {
            const int own = random_int(&r, 1, 4);
            for (int i = 0; i < own; ++i) {
                order.push_back(rows - 1 - (4 * v + i));
            }
            begin.push_back((int32_t)order.size());
        }
        order.resize((size_t)rows, -1);
        begin.resize((size_t)voxels + 4, -1);
        voxel_features_grad_args a = {};
        a.kind = (voxel_feature)(seed % 3);
        a.max_points = seed / 3 % 3;
        a.append = (unsigned)(seed / 9 % 4);
        a.channels = random_int(&r, 1, 5);
        a.columns = std::max(a.channels + random_int(&r, 0, 2), 3);
        a.features_channels = voxel_features_grad_read(a);
        a.row_capacity = rows;
        a.capacity = voxels + 3;
        a.type = formats[seed % 4];
        const std::vector<float> values = random_values(&r, numeric_f32, (int64_t)rows * a.columns);
        const std::vector<float> grad =
            random_values(&r, a.type, (int64_t)a.capacity * a.features_channels);
        const int64_t total = (int64_t)rows * voxel_features_grad_channels(a);
        std::vector<float> host((size_t)total);
        std::vector<char> stored(grad.size() * (size_t)numeric_size(a.type));
        reference_store(a.type, grad.data(), (int64_t)grad.size(), stored.data());
        voxel_features_grad_args h = a;
        h.values = values.data();
        h.rows = {nullptr, order.data(), begin.data()};
        h.count = &voxels;
        h.features_grad = stored.data();
        h.values_grad = host.data();
        REQUIRE_OK(voxel_features_grad_host(&h));
        a.values = upload(values);
        a.rows = {nullptr, upload(order), upload(begin)};
        a.count = device_upload(&voxels, 1);
        a.features_grad = upload(stored);
        a.values_grad = device_new<float>(total);
        REQUIRE_OK(voxel_features_grad(&a, stream_get()));
        const float *got = device_fetch(a.values_grad, total);
        CHECK(memcmp(got, host.data(), (size_t)total * sizeof(float)) == 0);
        guarded_finish();
    }
}

DEVICE_TEST(gpu_grad_join_sum) {
    for (int seed = 0; seed < (test_quick() ? 6 : 40); ++seed) {
        random_state r = random_make((uint64_t)seed);
        const join_grad_problem p = join_grad_problem_make(&r, 3000);
        join_sum_grad_args a = p.args;
        a.out_grad = upload(p.out_grad);
        a.rows = {upload(p.begin), upload(p.order)};
        a.count = device_upload(&p.voxels, 1);
        for (int s = 0; s < a.sets; ++s) {
            a.in_grad[s] = device_new<char>((int64_t)join_sum_grad_bytes(&a, s));
        }
        REQUIRE_OK(join_sum_grad(&a, stream_get()));
        for (int s = 0; s < a.sets; ++s) {
            const int64_t bytes = (int64_t)join_sum_grad_bytes(&a, s);
            CHECK(join_grad_good(&p, s, device_fetch((const char *)a.in_grad[s], bytes)));
        }
        guarded_finish();
    }
}
