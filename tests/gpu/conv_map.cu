// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/conv_map.cu: the one way through: conv_map_bytes, conv_map_build, conv, the same code
// for every kernel, channel count, format and word, against sums in double.
#include "../../spira/conv.cuh"
#include "../../spira/conv_map.cuh"
#include "../support/problems.cuh"

using namespace problems;

namespace {

// A scene at stride 1 and its floor at stride 2.
template <typename W>
struct scene {
    word_layout words;
    std::vector<W> fine, coarse;
};

template <typename W>
scene<W> scene_make(random_state *random, int voxels) {
    const triple lo = triple_make(-14, -14, -14), hi = triple_make(14, 14, 14);
    scene<W> s = {};
    s.words = reference_layout<W>(lo, hi, 2, {2, 2, 2}, {10, 10, 10});
    s.fine.resize((size_t)voxels);
    s.fine.resize((size_t)reference_random_set<W>(random, &s.words, lo, hi, {1, 1, 1}, voxels,
                                                  s.fine.data()));
    s.coarse = forms_floored(&s.words, s.fine, {2, 2, 2});
    return s;
}

enum layer_kind { layer_submanifold, layer_strided, layer_inverse, layer_kinds };

// A problem on the device, on the map of a request.
device_problem problem_on_map(const problem *p, const conv_map *map) {
    device_problem d = {};
    d.args.shape = p->shape;
    d.args.weights = weights_upload(&p->shape, p->weight);
    device_problem_arrays(p, &d);
    d.args.map = map;
    return d;
}

// Builds the map of a layer in memory of exactly its size and runs the convolution over it.
template <typename W>
void check_layer(random_state *random, const scene<W> *scene, kernel_shape kernel, layer_kind kind,
                 conv_shape s) {
    s.volume = kernel_volume(&kernel);
    kernel.transposed = kind == layer_inverse;
    const std::vector<W> &from = kind == layer_inverse ? scene->coarse : scene->fine;
    const std::vector<W> &to = kind == layer_strided ? scene->coarse : scene->fine;
    const int room = random_int(random, 0, 70);
    problem p = problem_make(random, s, (int32_t)from.size(), (int32_t)to.size(),
                             (int32_t)to.size() + room);
    problem_map_sets(&p, &kernel, &scene->words, from, to);
    problem_fill_epilogue(random, &p, random_int(random, 0, with_all), activation_relu);
    char text[64];
    snprintf(text, sizeof text, "one way: size %d %d %d, kind %d", kernel.size.x, kernel.size.y,
             kernel.size.z, kind);
    problem_name(&p, text);

    conv_map_request<W> request = {};
    request.layout = &scene->words;
    request.kernel = kernel;
    request.source = set_upload(from, 3);
    request.outputs = kind == layer_submanifold ? request.source : set_upload(to, room);
    request.trouble = device_zeros<device_status>(1);
    size_t bytes = 1;
    CHECK_OK(conv_map_bytes(gpu(), &request, &bytes));
    char *memory = device_new_poisoned<char>((int64_t)bytes);
    conv_map map;
    if (bytes) {
        CHECK_STATUS(conv_map_build(gpu(), &request, memory, bytes - 1, &map, stream_get()),
                     status_workspace);
        CHECK(device_untouched(memory, 0, (int64_t)bytes));
    }
    CHECK_OK(conv_map_build(gpu(), &request, memory, bytes, &map, stream_get()));

    p.room = map.capacity - p.outputs;
    device_problem d = problem_on_map(&p, &map);
    CHECK_OK(device_problem_start(&d));
    const std::vector<char> out = device_problem_fetch(&p, &d);
    problem_good(&p, out);
    CHECK(device_problem_untouched(&p, &d));
    device_status found;
    device_copy_out((char *)&found, (const char *)request.trouble, sizeof found);
    CHECK_OK(device_status_read(&found));
    guarded_finish();
}

template <typename W>
void check_many(uint64_t seed, int count) {
    const int edges[] = {1,  3,  4,  5,  8,  15, 16, 17, 24,  31,  32, 33,
                         47, 48, 49, 63, 64, 65, 80, 96, 127, 128, 160};
    const int sizes[] = {1, 2, 3, 3, 3, 5, 4};
    for (int i = 0; i < count; ++i) {
        random_state random = random_make(seed + (uint64_t)i);
        const scene<W> scene = scene_make<W>(&random, test_quick() ? 200 : 2500);
        kernel_shape kernel = kernel_cube(sizes[random_int(&random, 0, 6)], 1);
        if (i % 5 == 0) {
            kernel.size.y = random_int(&random, 1, 3);
            kernel.size.z = random_int(&random, 1, 4);
        }
        if (i % 7 == 0) {
            kernel.dilation = triple_make(1, 2, 1 + i % 2);
        }
        conv_shape s = shape_make(1, channels_random(&random, edges), 0,
                                  channels_random(&random, edges), numerics[i % 4]);
        s.cin2 = i % 3 ? 0 : channels_random(&random, edges);
        check_layer(&random, &scene, kernel, (layer_kind)(i % layer_kinds), s);
    }
}

DEVICE_TEST(gpu_conv_map_any_layer_32) {
    check_many<uint32_t>(1000, test_quick() ? 12 : 120);
}

DEVICE_TEST(gpu_conv_map_any_layer_64) {
    check_many<uint64_t>(2000, test_quick() ? 6 : 60);
}

// Kernels of more offsets than a scope of the masks has.
DEVICE_TEST(gpu_conv_map_many_offsets) {
    random_state random = random_make(13);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, test_quick() ? 60 : 500);
    int turn = 0;
    for (int K : {11, 13, 15}) {
        for (int kind = 0; kind < layer_kinds; ++kind) {
            for (numeric type : numerics) {
                const int channels = ++turn % 3 ? 40 : 96;
                if (!test_quick() || turn % 5 == 0) {
                    check_layer(&random, &scene, kernel_cube(K, 1), (layer_kind)kind,
                                shape_make(1, channels, 0, 136 - channels, type));
                }
            }
        }
    }
}

// A layer from the fine set onto itself.
conv_map_request<uint32_t> request_make(const scene<uint32_t> *scene, const kernel_shape &kernel) {
    conv_map_request<uint32_t> request = {};
    request.layout = &scene->words;
    request.kernel = kernel;
    request.source = request.outputs = set_upload(scene->fine);
    request.trouble = device_zeros<device_status>(1);
    return request;
}

// The map of a request, in memory of its own.
conv_map map_make(const conv_map_request<uint32_t> &request) {
    size_t bytes = 0;
    CHECK_OK(conv_map_bytes(gpu(), &request, &bytes));
    char *memory = device_new_poisoned<char>((int64_t)bytes);
    conv_map map = {};
    CHECK_OK(conv_map_build(gpu(), &request, memory, bytes, &map, stream_get()));
    return map;
}

// Layers of all channels and formats share a map.
DEVICE_TEST(gpu_conv_map_is_shared) {
    random_state random = random_make(5);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 700);
    const kernel_shape kernel = kernel_cube(3, 1);
    const conv_map_request<uint32_t> request = request_make(&scene, kernel);
    const conv_map map = map_make(request);
    for (int channels : {4, 16, 32, 48, 64, 96}) {
        const conv_shape s = conv_shape_of(&kernel, channels, channels, numeric_bf16);
        problem p = problem_make(&random, s, (int32_t)scene.fine.size(), (int32_t)scene.fine.size(),
                                 (int32_t)scene.fine.size());
        problem_map_sets(&p, &kernel, &scene.words, scene.fine, scene.fine);
        problem_name(&p, "shared map");
        device_problem d = problem_on_map(&p, &map);
        CHECK_OK(device_problem_start(&d));
        problem_good(&p, device_problem_fetch(&p, &d));
    }
}

// Coordinates off the stride's lattice are recorded where the map has the compact form, which
// assumes the lattice, and nothing else is recorded with them. Maps of other strides assume
// nothing.
DEVICE_TEST(gpu_conv_map_records_coordinates_off_the_lattice) {
    random_state random = random_make(6);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 2000);
    for (int size : {2, 3, 5}) {
        for (triple stride : {triple{1, 1, 1}, triple{2, 2, 2}, triple{3, 3, 2}, triple{3, 3, 3}}) {
            kernel_shape kernel = kernel_cube(size, 1); // the set is of stride 1
            kernel.stride = stride;
            const conv_map_request<uint32_t> request = request_make(&scene, kernel);
            map_make(request);
            const device_status found = device_value(request.trouble);
            const bool off = compact_takes(&kernel) && stride.z > 1;
            CHECK_EQUAL(found.flags, off ? (uint32_t)device_flag_lattice : 0u);
            CHECK_EQUAL(found.needed, 0u);
            CHECK_EQUAL(device_status_read(&found).code, off ? status_lattice : status_ok);
            guarded_finish();
        }
    }
}

// A negative count, however low, is taken as 0: nothing is written, and nothing hangs.
DEVICE_TEST(gpu_conv_map_negative_counts) {
    random_state random = random_make(9);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 2000);
    const int32_t capacity = (int32_t)scene.fine.size();
    const conv_shape shapes[] = {
        shape_make(27, 16, 0, 16, numeric_f16), shape_make(27, 64, 0, 64, numeric_f16),
        shape_make(27, 64, 0, 64, numeric_tf32), shape_make(27, 64, 0, 64, numeric_f32)};
    for (int32_t count : {-1, -255, -1000, -100000, INT32_MIN}) {
        const conv_map_request<uint32_t> request = request_make(&scene, kernel_cube(3, 1));
        device_copy_in(request.outputs.count, &count, 1);
        const conv_map map = map_make(request);
        CHECK_EQUAL(device_value(request.trouble).flags, 0u);
        for (const conv_shape &s : shapes) {
            problem p = problem_make(&random, s, capacity, 0, capacity);
            problem_name(&p, "negative count");
            device_problem d = problem_on_map(&p, &map);
            CHECK_OK(device_problem_start(&d));
            CUDA_CHECK(cudaDeviceSynchronize());
            CHECK(device_untouched(d.out, 0, d.out_bytes));
        }
        guarded_finish();
    }
}

// The identity stands for rows that both sets have.
DEVICE_TEST(gpu_conv_map_identity_needs_the_capacity) {
    random_state random = random_make(12);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 500);
    for (int32_t less : {0, 5}) {
        conv_map_request<uint32_t> request = request_make(&scene, kernel_cube(1, 1));
        request.source.capacity -= less;
        CHECK_EQUAL(map_make(request).form, less ? conv_form_order : conv_form_identity);
        CHECK_EQUAL(device_value(request.trouble).flags,
                    less ? (uint32_t)device_flag_capacity : 0u);
        guarded_finish();
    }
}

// Counts above their capacity are recorded, whichever kernel builds the map, and clamped.
DEVICE_TEST(gpu_conv_map_records_counts_above_their_capacity) {
    random_state random = random_make(8);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 2000);
    const triple sizes[] = {{3, 3, 3}, {5, 5, 5}, {2, 2, 2}, {3, 1, 3}, {1, 1, 1}};
    for (triple size : sizes) {
        for (int above = 0; above < 4; ++above) { // bit 0: of the source, bit 1: of the outputs
            conv_map_request<uint32_t> request = request_make(&scene, kernel_cube(3, 1));
            request.kernel.size = size;
            request.outputs = set_upload(scene.coarse);
            request.source.capacity -= above % 2 * 5;
            request.outputs.capacity -= above / 2 * 7;
            map_make(request);
            const device_status found = device_value(request.trouble);
            const size_t needed = above % 2 ? scene.fine.size() : above ? scene.coarse.size() : 0;
            CHECK_EQUAL(found.flags, above ? (uint32_t)device_flag_capacity : 0u);
            CHECK_EQUAL(found.needed, (uint32_t)needed);
            guarded_finish();
        }
    }
}

TEST(gpu_status_text_has_the_words_of_the_runtime) {
    char text[200];
    status_text(status_from_cuda(cudaErrorInvalidValue, "launch"), text, sizeof text);
    CHECK(strncmp(text, "launch: ", 8) == 0);
    CHECK(strstr(text, cudaGetErrorString(cudaErrorInvalidValue)) != nullptr);
}

DEVICE_TEST(gpu_conv_map_refuses) {
    random_state random = random_make(7);
    const scene<uint32_t> scene = scene_make<uint32_t>(&random, 100);
    typedef conv_map_request<uint32_t> request_type;
    const request_type good = request_make(&scene, kernel_cube(3, 1));
    size_t bytes = 0;
    CHECK_OK(conv_map_bytes(gpu(), &good, &bytes));
    char *memory = device_new<char>((int64_t)bytes);
    static const struct {
        status_code code;
        void (*spoil)(request_type *);
    } bad[] = {
        {status_null_pointer, [](request_type *r) { r->layout = nullptr; }},
        {status_null_pointer, [](request_type *r) { r->trouble = nullptr; }},
        {status_null_pointer, [](request_type *r) { r->source.words = nullptr; }},
        {status_null_pointer, [](request_type *r) { r->outputs.count = nullptr; }},
        {status_bad_size, [](request_type *r) { r->outputs.capacity = 0; }},
        {status_kernel_size, [](request_type *r) { r->kernel.size.x = 16; }},
    };
    conv_map map;
    for (const auto &b : bad) {
        request_type r = good;
        b.spoil(&r);
        CHECK_STATUS(conv_map_build(gpu(), &r, memory, bytes, &map, stream_get()), b.code);
    }
    // The words of an error name the member or the argument.
    request_type r = good;
    r.layout = nullptr;
    CHECK_EQUAL(conv_map_build(gpu(), &r, memory, bytes, &map, stream_get()).subject, "layout");
    CHECK_EQUAL(conv_map_build(gpu(), &good, nullptr, bytes, &map, stream_get()).subject, "memory");
    const request_type *none = nullptr;
    auto build = [&](const device_info *device, const request_type *request, char *at,
                     conv_map *to) {
        return conv_map_build(device, request, at, bytes, to, stream_get());
    };
    CHECK_STATUS(build(nullptr, &good, memory, &map), status_null_pointer);
    CHECK_STATUS(build(gpu(), none, memory, &map), status_null_pointer);
    CHECK_STATUS(build(gpu(), &good, memory, nullptr), status_null_pointer);
    CHECK_STATUS(build(gpu(), &good, nullptr, &map), status_null_pointer);
    CHECK_STATUS(build(gpu(), &good, memory + 16, &map), status_alignment);
    CHECK(device_untouched(memory, 0, (int64_t)bytes));
}

} // namespace
