// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/cublas.cu: convolution by gather, cuBLAS products and scatter, against sums in double,
// each output within its bound (reference.h), and the same bits from run to run. The kernels around
// the products are tested on the host, too (tests/host/gemm.cpp). A binary of its own, because it
// is linked with cuBLAS.
#include "../../spira/map.cuh"
#include "../support/cublas.cuh"

using namespace problems;

namespace {

// ---- random shapes ------------------------------------------------------------------------------

const int channels_edges[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15, 16,  17, 20,
                              24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 97, 128, 130};

DEVICE_TEST(gpu_cublas_random_shapes) {
    blas b = blas_make();
    for (int seed = 0; seed < (test_quick() ? 24 : 600); ++seed) {
        random_state random = random_make((uint64_t)seed);
        const numeric type = numerics[seed % 4];
        const int volume = random_int(&random, 0, 9) ? random_int(&random, 1, 40) : 150;
        conv_shape s = shape_random(&random, volume, type, channels_edges);
        const int sizes[] = {0, 1, 2, 31, 33, 90, 128, 129, 257, 1025, 4097};
        int32_t outputs = sizes[random_int(&random, 0, seed / 4 % 8 ? 6 : 10)];
        ggs_problem p = ggs_problem_make(&random, s, random_int(&random, 0, 120), outputs);
        const int percents[] = {0, 3, 15, 40, 80, 100};
        problem_fill_lists(&random, &p, percents[random_int(&random, 0, 5)]);
        problem_fill_any_epilogue(&random, &p);
        if (random_int(&random, 0, 2) == 0) {
            problem_move(&random, &p);
        }
        p.room = random_int(&random, 0, 1) ? random_int(&random, 0, 300) : 0;
        p.grouping = grouping_random(&random);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        ggs_problem_name(&p, what);
        ggs_problem_check(&p, &b);
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_many_channels) {
    blas b = blas_make();
    for (auto &c : many_channels) {
        for (numeric type : numerics) {
            if (test_quick() && c[0] * c[1] * c[3] > 100000) {
                continue;
            }
            random_state random = random_make((uint64_t)(c[1] + c[2] + type));
            conv_shape s = shape_make(c[0], c[1], c[2], c[3], type);
            ggs_problem p = ggs_problem_make(&random, s, 70, 66);
            problem_fill_lists(&random, &p, 90);
            problem_fill_epilogue(&random, &p, with_all, activation_relu);
            p.grouping = grouping_random(&random);
            ggs_problem_name(&p, "many channels");
            ggs_problem_check(&p, &b);
        }
    }
    blas_free(b);
}

// ---- lists that disagree with their counts ------------------------------------------------------

// Lists of more rows on either side than there are: the other pairs give what they do alone, and
// nothing is written beyond the outputs.
DEVICE_TEST(gpu_cublas_lists_that_disagree_with_their_counts) {
    blas b = blas_make();
    for (numeric type : numerics) {
        random_state random = random_make(41);
        ggs_problem p = ggs_problem_make(&random, shape_make(9, 20, 4, 24, type), 70, 100);
        problem_fill_lists(&random, &p, 70);
        ggs_problem half = p; // of half of the outputs and inputs
        half.outputs = 50;
        half.inputs = 35;
        half.room = 50;
        half.in.resize(35 * 20);
        half.in2.resize(35 * 4);
        half.map.resize(50 * 9);
        for (int32_t &source : half.map) {
            source = source < 35 ? source : -1;
        }
        for (size_t i = 5; i < p.map.size(); i += 40) {
            half.map[i % half.map.size()] = p.map[i % half.map.size()] = -1;
        }
        ggs_problem_name(&half, "half");
        device_ggs d;
        ggs_request r = {};
        r.pairs = pairs_upload(&p);
        r.inputs = half.inputs;
        r.count = device_upload(&half.outputs, 1);
        r.outputs = problem_capacity(&half);
        std::vector<int32_t> spoilt((size_t)r.pairs.capacity); // negative rows on both sides
        device_copy_out(spoilt.data(), r.pairs.input, r.pairs.capacity);
        for (size_t i = 0; i < spoilt.size(); ++i) {
            spoilt[i] = spoilt[i] >= 35 && i % 2 ? -(int32_t)i - 1 : spoilt[i];
        }
        device_copy_in(r.pairs.input, spoilt.data(), r.pairs.capacity);
        device_copy_out(spoilt.data(), r.pairs.output, r.pairs.capacity);
        for (size_t i = 0; i < spoilt.size(); ++i) {
            spoilt[i] = spoilt[i] >= 50 && i % 2 ? INT32_MIN + (int32_t)i : spoilt[i];
        }
        device_copy_in(r.pairs.output, spoilt.data(), r.pairs.capacity);
        device_ggs_make(&half, &b, r, &d);
        problem_good(&half,
                     device_problem_run(&half, &d, true, [&] { return device_ggs_start(&d); }));
        guarded_finish();
    }
    blas_free(b);
}

// ---- values -------------------------------------------------------------------------------------

// A NaN or an infinity reaches the outputs that have its row as a source, and no others: not
// through the padding of a batch, and not by channels beyond the end of a row.
DEVICE_TEST(gpu_cublas_special_values_stay_in_their_rows) {
    blas b = blas_make();
    for (numeric type : numerics) {
        for (int channels : {5, 8, 24}) {
            for (float special : {NAN, INFINITY}) {
                random_state random = random_make((uint64_t)(channels + type));
                const int32_t bad = 20;
                conv_shape s = shape_make(6, channels, channels == 8 ? 0 : 3, 18, type);
                ggs_problem p = ggs_problem_make(&random, s, 50, 130);
                problem_fill_lists(&random, &p, 25);
                p.map[7] = p.map[150] = bad;
                p.grouping = {ggs_rule_sorted, 1.0, INT32_MAX}; // much padding
                for (int c = 0; c < channels; ++c) {
                    p.in[(size_t)(bad * channels + c)] = special;
                }
                ggs_problem_name(&p, "special");
                problem_special_good(p, bad, ggs_problem_run(&p, &b));
            }
        }
    }
    blas_free(b);
}

// Terms that cancel, sums that overflow the format, values near its lower end.
DEVICE_TEST(gpu_cublas_small_large_and_cancelling_values) {
    blas b = blas_make();
    for (numeric type : numerics) {
        for (float size : {3e-7f, 1e-4f, 300.0f, 20000.0f, 0.0f}) {
            random_state random = random_make((uint64_t)(type + 1));
            conv_shape s = shape_make(8, 40, 0, 24, type);
            ggs_problem p = ggs_problem_make(&random, s, 100, 150);
            problem_fill_lists(&random, &p, 60);
            reference_random_values(&random, type, size, (int64_t)p.in.size(), p.in.data());
            for (size_t i = 0; size == 0 && i < p.in.size(); ++i) {
                p.in[i] = numeric_stored(type, 1 + random_float(&random) / 64);
            }
            for (size_t i = 0; size == 0 && i < p.weight.size(); ++i) {
                float w = 1 + p.weight[i] / 64; // alternating signs of neighbouring channels
                p.weight[i] = i / (size_t)s.cout % 2 ? w : -w;
            }
            ggs_problem_name(&p, "values");
            ggs_problem_check(&p, &b);
        }
    }
    blas_free(b);
}

// Weights that the format cannot hold are recorded as the host's twin records them, and reach only
// the outputs that use their offset.
DEVICE_TEST(gpu_cublas_weights_beyond_the_format) {
    blas b = blas_make();
    for (numeric type : numerics) {
        for (float beyond : {numeric_largest(type) * 1.01f, -INFINITY, NAN}) {
            random_state random = random_make(91);
            const conv_shape s = shape_make(4, 9, 5, 20, type);
            const size_t first = 2 * 14 * 20, count = 14 * 20, row = 20 * numeric_size(type);
            ggs_problem p = ggs_problem_make(&random, s, 100, 200);
            problem_fill_map(&random, &p, 40);
            std::fill_n(p.weight.begin() + first, count, 0.0f);
            const std::vector<char> zeros = ggs_problem_run(&p, &b);
            std::fill_n(p.weight.begin() + first, count, beyond);
            const std::vector<char> out = ggs_problem_run(&p, &b);
            for (size_t o = 0; o < 200; ++o) {
                const bool same = memcmp(&out[o * row], &zeros[o * row], row) == 0;
                CHECK_EQUAL(same, p.map[4 * o + 2] < 0);
            }
            size_t bytes = 0;
            CHECK_OK(ggs_weights_bytes(&s, &bytes));
            device_status host = {}, *trouble = device_upload(&host, 1);
            const conv_weights weights = {device_upload(p.weight.data(), (int64_t)p.weight.size()),
                                          device_new<char>((int64_t)bytes), bytes, trouble};
            CHECK_OK(ggs_weights_pack(gpu(), &s, &weights, stream_get()));
            CHECK_OK(conv_weights_check(&s, p.weight.data(), &host));
            device_status got = {};
            device_copy_out(&got, trouble, 1);
            CHECK_EQUAL(memcmp(&got, &host, sizeof host), 0);
            guarded_finish();
        }
    }
    blas_free(b);
}

DEVICE_TEST(gpu_cublas_weights_refuse) {
    const conv_shape s = shape_make(3, 5, 2, 7, numeric_f16);
    conv_weights good = {device_new<float>(3 * 7 * 7), nullptr, 0, nullptr};
    CHECK_OK(ggs_weights_bytes(&s, &good.packed_bytes));
    good.packed = device_new<char>((int64_t)good.packed_bytes);
    const auto refused = [&](status_code code, auto spoil) {
        conv_shape shape = s;
        conv_weights w = good;
        spoil(&shape, &w);
        CHECK_STATUS(ggs_weights_pack(gpu(), &shape, &w, stream_get()), code);
    };
    typedef conv_shape *S;
    typedef conv_weights *W;
    refused(status_bad_size, [](S shape, W) { shape->cout = 0; });
    refused(status_null_pointer, [](S, W w) { w->weight = nullptr; });
    refused(status_null_pointer, [](S, W w) { w->packed = nullptr; });
    refused(status_alignment, [](S, W w) { w->packed = (char *)w->packed + 16; });
    refused(status_workspace, [](S, W w) { --w->packed_bytes; });
    CHECK_STATUS(ggs_weights_pack(nullptr, &s, &good, stream_get()), status_null_pointer);
    CHECK_STATUS(ggs_weights_pack(gpu(), nullptr, &good, stream_get()), status_null_pointer);
    CHECK_STATUS(ggs_weights_pack(gpu(), &s, nullptr, stream_get()), status_null_pointer);
    CHECK_STATUS(ggs_weights_bytes(&s, nullptr), status_null_pointer);
}

// ---- graphs -------------------------------------------------------------------------------------

// A graph that is replayed with other features in the same memory.
void check_graph(const ggs_problem *p, const blas *b, random_state *random) {
    device_ggs d;
    device_ggs_make(p, b, &d);
    CHECK_OK(device_ggs_start(&d)); // what is loaded late is loaded now
    std::vector<char> out = device_problem_fetch(p, &d);
    problem_good(p, out);
    cudaGraphExec_t replay = stream_capture([&](cudaStream_t stream) {
        blas_bind(b, stream);
        CHECK_OK(device_ggs_start(&d, stream));
        ggs_layer layer; // a plan waits for its stream, which a captured stream cannot
        CHECK_STATUS(ggs_plan(&d.request, d.host, d.memory, d.memory_bytes, &layer, stream),
                     status_unsupported);
    });
    blas_bind(b, stream_get());
    REQUIRE(replay != nullptr);
    ggs_problem other = *p;
    for (int turn = 0; turn < 3; ++turn) {
        if (turn) {
            reference_random_values(random, p->shape.type, 1, (int64_t)other.in.size(),
                                    other.in.data());
        }
        features_refill(p->shape.type, d.args.in, other.in);
        CUDA_CHECK(cudaMemset(d.scratch, 0xff, d.scratch_bytes));
        CUDA_CHECK(cudaMemset(d.args.out, 0xff, out.size() - 1));
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaGraphLaunch(replay, stream_get()));
        std::vector<char> again = device_problem_fetch(p, &d);
        problem_good(&other, again);
        CHECK(turn > 0 || again == out); // the same products, captured or not
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

DEVICE_TEST(gpu_cublas_in_a_graph) {
    blas b = blas_make();
    for (numeric type : numerics) {
        for (ggs_rule rule : {ggs_rule_each, ggs_rule_sorted}) {
            random_state random = random_make((uint64_t)(rule + type));
            ggs_problem p = ggs_problem_make(&random, shape_make(27, 16, 0, 24, type), 200, 200);
            problem_fill_lists(&random, &p, 40);
            problem_fill_epilogue(&random, &p, with_scale | with_shift, activation_relu);
            p.grouping.rule = rule;
            ggs_problem_name(&p, "graph");
            check_graph(&p, &b, &random);
        }
    }
    blas_free(b);
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_refuses) {
    blas b = blas_make(), other = blas_make();
    random_state random = random_make(37);
    ggs_problem p = ggs_problem_make(&random, shape_make(3, 6, 5, 7, numeric_f16), 10, 12);
    problem_fill_lists(&random, &p, 50);
    problem_fill_epilogue(&random, &p, with_all, activation_relu);
    device_ggs d;
    device_ggs_make(&p, &b, &d);
    ggs_layer layer;
    size_t bytes = 0;

    const auto plan_refused = [&](status_code code, auto spoil) {
        ggs_request r = d.request;
        spoil(&r);
        CHECK_STATUS(ggs_plan_workspace(&r, &bytes), code);
        CHECK_STATUS(ggs_plan(&r, d.host, d.memory, d.memory_bytes, &layer, stream_get()), code);
    };
    typedef ggs_request *R;
    plan_refused(status_null_pointer, [](R r) { r->pairs.begin = nullptr; });
    plan_refused(status_null_pointer, [](R r) { r->count = nullptr; });
    plan_refused(status_bad_size, [](R r) { r->pairs.capacity = 0; });
    plan_refused(status_bad_size, [](R r) { r->inputs = 0; });
    plan_refused(status_bad_size, [](R r) { r->outputs = -1; });
    plan_refused(status_bad_size, [](R r) { r->shape.volume = 0; });
    plan_refused(status_bad_size, [](R r) { r->shape.cin = 0; });
    plan_refused(status_unsupported, [](R r) { r->shape.type = (numeric)9; });
    plan_refused(status_unsupported, [](R r) { r->grouping.rule = (ggs_rule)3; });
    CHECK_STATUS(ggs_plan_workspace(nullptr, &bytes), status_null_pointer);
    CHECK_STATUS(ggs_plan_workspace(&d.request, nullptr), status_null_pointer);
    const auto plan = [&](int32_t *host, char *memory, size_t given, ggs_layer *to) {
        return ggs_plan(&d.request, host, memory, given, to, stream_get());
    };
    CHECK_STATUS(plan(nullptr, d.memory, d.memory_bytes, &layer), status_null_pointer);
    CHECK_STATUS(plan(d.host, d.memory, d.memory_bytes, nullptr), status_null_pointer);
    CHECK_STATUS(plan(d.host, nullptr, d.memory_bytes, &layer), status_null_pointer);
    CHECK_STATUS(plan(d.host, d.memory, d.memory_bytes - 1, &layer), status_workspace);
    CHECK_STATUS(plan(d.host, d.memory + 4, d.memory_bytes, &layer), status_alignment);

    const auto run_refused = [&](status_code code, auto spoil) {
        ggs_args args = d.args;
        spoil(&args);
        CHECK_STATUS(ggs_run(gpu(), &d.layer, &args, d.scratch, d.scratch_bytes, stream_get()),
                     code);
    };
    typedef ggs_args *A;
    run_refused(status_null_pointer, [](A a) { a->in = nullptr; });
    run_refused(status_null_pointer, [](A a) { a->in2 = nullptr; });
    run_refused(status_null_pointer, [](A a) { a->weights = nullptr; });
    run_refused(status_null_pointer, [](A a) { a->handle = nullptr; });
    run_refused(status_alignment, [](A a) { a->out = (char *)a->out + 1; });
    run_refused(status_alignment, [](A a) { a->weights = (char *)a->weights + 16; });
    run_refused(status_unsupported, [](A a) { a->out = (void *)a->in; });
    run_refused(status_unsupported, [](A a) { a->epilogue.act = activation_count; });
    check_cublas(cublasSetStream(other.handle, cudaStreamLegacy), __LINE__);
    run_refused(status_unsupported, [&](A a) { a->handle = other.handle; });
    check_cublas(cublasSetPointerMode(b.handle, CUBLAS_POINTER_MODE_DEVICE), __LINE__);
    run_refused(status_unsupported, [](A) {});
    check_cublas(cublasSetPointerMode(b.handle, CUBLAS_POINTER_MODE_HOST), __LINE__);
    const auto run = [&](const device_info *g, const ggs_layer *l, const ggs_args *a, char *scratch,
                         size_t given) { return ggs_run(g, l, a, scratch, given, stream_get()); };
    REQUIRE(d.scratch_bytes > 0);
    CHECK_STATUS(run(gpu(), &d.layer, &d.args, nullptr, d.scratch_bytes), status_null_pointer);
    CHECK_STATUS(run(gpu(), &d.layer, &d.args, d.scratch, d.scratch_bytes - 1), status_workspace);
    CHECK_STATUS(run(gpu(), &d.layer, &d.args, d.scratch + 16, d.scratch_bytes), status_alignment);
    CHECK_STATUS(run(nullptr, &d.layer, &d.args, d.scratch, d.scratch_bytes), status_null_pointer);
    CHECK_STATUS(run(gpu(), nullptr, &d.args, d.scratch, d.scratch_bytes), status_null_pointer);
    CHECK_STATUS(run(gpu(), &d.layer, nullptr, d.scratch, d.scratch_bytes), status_null_pointer);
    CHECK_STATUS(ggs_run_workspace(nullptr, &bytes), status_null_pointer);
    CHECK_STATUS(ggs_run_workspace(&d.layer, nullptr), status_null_pointer);
    CHECK(device_untouched(d.out, 0, d.out_bytes));
    CHECK(device_untouched(d.scratch, 0, (int64_t)d.scratch_bytes));
    guarded_finish();
    blas_free(other);
    blas_free(b);
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_cublas_planted_errors_are_found) {
    blas b = blas_make();
    for (numeric type : numerics) {
        random_state random = random_make(37);
        ggs_problem good = {problem_tight(&random, type), {ggs_rule_sorted, 0.1, INT32_MAX}};
        problem_fill_lists(&random, &good, 100);
        check_planted_errors(good, [&](const ggs_problem *p) { return ggs_problem_run(p, &b); });
    }
    blas_free(b);
}

// ---- maps of real layers ------------------------------------------------------------------------

// Lists that the GPU builds. Frees all buffers of the test.
template <typename W>
void check_scene(const forms_scene<W> *scene, ggs_problem *p, const blas *b, int line) {
    p->map = forms_map(scene);
    forms_wish wish = {false, false, false, true, false, 0, 0};
    wish = forms_wish_fit(wish, scene->kernel.size, p->map, p->room);
    forms_layer<W> l = forms_layer_make(scene, &wish, p->room, &memory_device);
    size_t bytes = 0;
    CHECK_OK(map_lists_workspace(&scene->kernel, l.outputs.capacity, &bytes));
    const map_request<W> request = forms_request_of(&l);
    const map_lists pairs = forms_pairs_of(&l);
    CHECK_OK(map_build_lists(&l.layout, &request, &pairs, device_new<char>((int64_t)bytes), bytes,
                             stream_get()));
    ggs_request r = {};
    r.pairs = pairs;
    r.inputs = l.source.capacity;
    r.count = l.outputs.count;
    r.outputs = l.outputs.capacity;
    device_ggs d;
    device_ggs_make(p, b, r, &d);
    problem_good(p, device_problem_run(p, &d, true, [&] { return device_ggs_start(&d); }), __FILE__,
                 line);
    guarded_finish();
}

// Submanifold, strided, transposed and foreign sets.
DEVICE_TEST(gpu_cublas_scenes) {
    blas b = blas_make();
    for (int seed = 0; seed < (test_quick() ? 8 : 120); ++seed) {
        random_state random = random_make((uint64_t)(1000 + seed));
        forms_kind kind = (forms_kind)(seed % forms_kinds);
        numeric type = numerics[seed / forms_kinds % 4];
        kernel_shape kernel = reference_random_kernel(&random, 3, 2, {1, 1, 1});
        forms_scene<uint32_t> scene = forms_scene_random<uint32_t>(&random, kind, kernel);
        conv_shape s =
            shape_make(kernel_volume(&scene.kernel), channels_random(&random, channels_edges), 0,
                       channels_random(&random, channels_edges), type);
        s.cin2 = seed % 3 ? 0 : channels_random(&random, channels_edges);
        ggs_problem p = ggs_problem_make(&random, s, (int32_t)scene.source.size(),
                                         (int32_t)scene.outputs.size());
        p.room = random_int(&random, 0, 1) ? 40 : 0;
        problem_fill_epilogue(&random, &p, random_int(&random, 0, with_all), activation_relu);
        p.grouping = grouping_random(&random);
        ggs_problem_name(&p, scene.name);
        check_scene(&scene, &p, &b, __LINE__);
    }
    blas_free(b);
}

} // namespace

TEST_MAIN
