// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/net.cu: net.cuh: planned networks on the GPU, each layer against the host; one CUDA
// graph for frames of all sizes; a second stream; what is refused.
#include "../support/net_checks.cuh"
#include "../support/net_records.cuh"

using namespace nets;

static const shared_net_calls<uint32_t> &net32 = shared_net<uint32_t>();

// ---- every layer --------------------------------------------------------------------------------

DEVICE_TEST(gpu_net_zoo) {
    network n;
    network_named("zoo", &n);
    int32_t voxels = test_quick() ? 200 : 1500;
    for (numeric type : types) {
        check_network<uint32_t>(&n, type, voxels, voxels + 300, 1);
        check_network<uint64_t>(&n, type, voxels - 1, voxels - 1, 2);
    }
}

DEVICE_TEST(gpu_net_minkunet42) {
    network n;
    network_named("MinkUNet42", &n);
    int32_t voxels = test_quick() ? 200 : 3000;
    for (numeric type : types) {
        check_network<uint32_t>(&n, type, voxels, voxels + (test_quick() ? 150 : 1000), 3);
        if (!test_quick()) {
            check_network<uint64_t>(&n, type, voxels, voxels, 4);
        }
    }
}

DEVICE_TEST(gpu_net_ptv3) {
    network n;
    network_named("PTv3-conv", &n);
    int32_t voxels = test_quick() ? 150 : 1000;
    check_network<uint32_t>(&n, numeric_f16, voxels, voxels + 100, 24);
    check_network<uint64_t>(&n, numeric_f32, voxels, voxels, 25);
}

DEVICE_TEST(gpu_net_sparseresnets) {
    network n;
    network_named("SparseResNet21", &n);
    check_network<uint32_t>(&n, numeric_f16, test_quick() ? 150 : 2000, 2000, 5);
    if (!test_quick()) {
        network_named("SparseResNet-Large", &n);
        check_network<uint64_t>(&n, numeric_bf16, 2000, 2048, 6);
    }
}

// What there is to index on either of two streams, or on one of them alone.
DEVICE_TEST(gpu_net_small_networks) {
    for (const char *name : {"fine", "strided", "pooled", "gated", "grouped"}) {
        network n;
        network_named(name, &n);
        int32_t voxels = test_quick() ? 150 : 2000;
        check_network<uint32_t>(&n, numeric_f16, voxels, voxels + 100, 21);
        check_network<uint64_t>(&n, numeric_f32, voxels, voxels, 22);
    }
}

// Grouped layers by a convolution for each group, and too few voxels for it.
DEVICE_TEST(gpu_net_sliced_groups) {
    network n;
    network_named("sliced", &n);
    for (numeric type : types) {
        check_network<uint32_t>(&n, type, test_quick() ? 150 : 2000, conv_slices_rows, 24);
    }
    check_network<uint64_t>(&n, numeric_f16, 150, 200, 25);
}

// Plans of few and of many voxels, whose grouped layers are computed in other ways, run with the
// parameters that either has loaded.
DEVICE_TEST(gpu_net_loaded_by_other_capacities) {
    network n;
    network_named("sliced", &n);
    device_net<uint32_t> d[2];
    result<uint32_t> own[2];
    for (int i = 0; i < 2; ++i) {
        const net_limits limits = limits_make(&n, numeric_f16, i ? conv_slices_rows : 300, true);
        d[i] = device_net_make<uint32_t>(&n, &limits);
        const frame f = frame_make<uint32_t>(26, &d[i].plan->layout, 200, n.input_channels);
        own[i] = device_net_result(&d[i], &f);
    }
    REQUIRE(CHECK_EQUAL(d[0].plan->loaded_bytes, d[1].plan->loaded_bytes));
    CHECK(d[0].params == d[1].params);
    for (int i = 0; i < 2; ++i) {
        net_run_args<uint32_t> run = device_net_args(&d[i]);
        run.loaded = d[1 - i].loaded;
        device_net_forget(&d[i], 0xff);
        CHECK_OK(device_net_voxelize(&d[i], nullptr));
        CHECK_OK(net32.net_run(gpu(), d[i].plan.get(), &run, nullptr));
        CHECK_EQUAL(difference(result_fetch(&d[i]), own[i], false), "");
    }
    guarded_finish();
}

// Layers of fp32 and of tf32 read each other.
DEVICE_TEST(gpu_net_formats_of_layers) {
    for (numeric type : {numeric_tf32, numeric_f32}) {
        for (const char *name : {"pooled", "gated", "grouped", "SparseResNet21"}) {
            network n;
            network_named(name, &n);
            for (int i = 0; i < n.count; ++i) {
                n.layers[i].format = i % 3 == 0   ? net_format_f32
                                     : i % 3 == 1 ? net_format_tf32
                                                  : net_format_same;
            }
            check_network<uint32_t>(&n, type, 150, 200, 23);
        }
    }
}

DEVICE_TEST(gpu_net_random_networks) {
    random_state r = random_make(7);
    for (int i = 0; i < (test_quick() ? 4 : 60); ++i) {
        network n;
        reference_net_random(&r, random_int(&r, 1, 25), &n);
        int32_t voxels = random_int(&r, 0, 600), capacity = voxels + random_int(&r, 1, 1500);
        numeric type = types[random_int(&r, 0, 3)];
        i % 2 ? check_network<uint32_t>(&n, type, voxels, capacity, random_u64(&r))
              : check_network<uint64_t>(&n, type, voxels, capacity, random_u64(&r));
    }
}

// No voxel at all, and a single one.
DEVICE_TEST(gpu_net_empty_and_single) {
    for (const char *name : {"zoo", "MinkUNet42"}) {
        network n;
        network_named(name, &n);
        for (int32_t voxels : {0, 1}) {
            for (int32_t capacity : {1, 1025}) {
                if (test_thinned(3)) {
                    continue;
                }
                check_network<uint32_t>(&n, numeric_f16, voxels, capacity, 8);
                check_network<uint64_t>(&n, numeric_f32, voxels, capacity, 9);
            }
        }
    }
}

// Index first and layer by layer, as people do who time the parts.
DEVICE_TEST(gpu_net_index_and_layers_are_the_run) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_bf16, 500, false);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    frame f = frame_make<uint32_t>(11, &d.plan->layout, 450, n.input_channels);
    result<uint32_t> whole = device_net_result(&d, &f);
    device_net_forget(&d, 0xff);
    CHECK_OK(device_net_voxelize(&d, nullptr));
    const net_run_args<uint32_t> run = device_net_args(&d);
    CHECK_OK(net32.net_index(gpu(), d.plan.get(), &run, nullptr));
    for (int i = 0; i < n.count; ++i) {
        CHECK_OK(net32.net_layer_run(gpu(), d.plan.get(), i, &run, nullptr));
    }
    CHECK_EQUAL(difference(result_fetch(&d), whole, true), "");
}

// The judges of layers find what is wrong: net_host_judges_find_planted_errors. So does the
// comparison of two runs, and a judge in each format.
DEVICE_TEST(gpu_net_planted_errors_are_found) {
    network n;
    network_named("zoo", &n);
    for (numeric type : types) {
        net_limits limits = limits_make(&n, type, 800, true);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(12, &d.plan->layout, 800, n.input_channels);
        result<uint32_t> r = device_net_result(&d, &f), other = r;
        const float kept = numeric_load(type, r.features[n.count].data(), 11);
        const float step = std::max(0.01f, 20.0f * (float)numeric_epsilon(type));
        numeric_store(type, other.features[n.count].data(), 11, kept * (1 + step) + step);
        CHECK(*difference(other, r, true) && *difference(other, r, false));
        reference_net_run<uint32_t> judged = result_judged(&d, &other);
        CHECK(reference_net_judge(&judged, n.count - 1).ratio > 1);
        guarded_finish();
    }
}

// ---- capacities ---------------------------------------------------------------------------------

// Coarse sets that do not fit are cut off and said, nothing is written past their ends, and what
// is computed is right for what is left. The frame after is as if nothing had been.
template <typename W>
static void check_small_sets(const char *name, numeric type, int32_t room) {
    network n;
    network_named(name, &n);
    net_limits limits = limits_make(&n, type, 900, true);
    int32_t capacity[net_sets_max] = {};
    for (int s = 1; s < net_sets_max; s += 2) {
        capacity[s] = room;
    }
    reference_net_capacities(&n, &limits, capacity);
    device_net<W> d = device_net_make<W>(&n, &limits);
    frame large = frame_make<W>(13, &d.plan->layout, 900, n.input_channels),
          small = frame_make<W>(14, &d.plan->layout, room, n.input_channels);
    result<W> r = device_net_result(&d, &large);
    CHECK_STATUS(device_status_read(&r.trouble), status_capacity);
    CHECK_EQUAL(r.words[1].size(), (size_t)room);
    check_result(&d, &large, r);
    check_spare_rows(&d, r);
    r = device_net_result(&d, &small);
    CHECK_OK(device_status_read(&r.trouble));
    check_result(&d, &small, r);
    guarded_finish();
}

namespace {

// An input whose count is larger than its capacity: said, and taken for that.
template <typename W>
void check_input_count(const char *name) {
    const int32_t most = 300;
    network n;
    network_named(name, &n);
    net_limits limits = limits_make(&n, numeric_f16, most, true);
    device_net<W> d = device_net_make<W>(&n, &limits);
    const frame f = frame_make<W>(21, &d.plan->layout, 2 * most, n.input_channels);
    device_net_upload(&d, &f);
    CHECK_OK(device_net_voxelize(&d, nullptr));
    result<W> results[2];
    for (int32_t more : {0, 9}) {
        const int32_t count = most + more;
        device_copy_in(d.set.count, &count, 1);
        CHECK_OK(device_status_clear(d.trouble, nullptr));
        const net_run_args<W> run = device_net_args(&d);
        CHECK_OK(shared_net<W>().net_run(gpu(), d.plan.get(), &run, nullptr));
        device_copy_in(d.set.count, &most, 1);
        result<W> &r = results[more > 0];
        r = result_fetch(&d);
        CHECK_EQUAL(r.trouble.flags, more ? (uint32_t)device_flag_capacity : 0u);
        CHECK_EQUAL(r.trouble.needed, more ? (uint32_t)count : 0u);
        r.trouble = {};
    }
    CHECK_EQUAL(difference(results[1], results[0], true), "");
    guarded_finish();
}

} // namespace

DEVICE_TEST(gpu_net_input_count_passed) {
    check_input_count<uint32_t>("zoo");
    check_input_count<uint64_t>("fine"); // which has one set
}

DEVICE_TEST(gpu_net_set_capacity_passed) {
    for (int32_t room : {1, 64, 150}) {
        if (test_quick() && room != 64) {
            continue;
        }
        check_small_sets<uint32_t>("zoo", numeric_f16, room);
        check_small_sets<uint64_t>("zoo", numeric_f32, room);
    }
    if (!test_quick()) {
        check_small_sets<uint32_t>("MinkUNet42", numeric_f16, 100);
    }
}

// ---- one graph ----------------------------------------------------------------------------------

// On one stream, and beside a second one.
DEVICE_TEST(gpu_net_graph_replays) {
    const struct {
        const char *name;
        numeric type;
        bool wide, keep_all, beside, quick; // quick: a sanitizer runs it, too
    } cases[] = {
        {"zoo", numeric_f16, false, true, false, true},
        {"zoo", numeric_bf16, true, true, false, true},
        {"zoo", numeric_tf32, false, true, false, false},
        {"zoo", numeric_f32, true, true, false, false},
        {"MinkUNet42", numeric_f16, false, false, false, true},
        {"MinkUNet42", numeric_f16, true, false, false, false},
        {"MinkUNet42", numeric_bf16, false, false, false, false},
        {"MinkUNet42", numeric_tf32, false, false, false, false},
        {"MinkUNet42", numeric_f32, true, false, false, false},
        {"zoo", numeric_f16, false, true, true, true},
        {"fine", numeric_f16, false, true, true, true},
        {"strided", numeric_f16, false, true, true, true},
        {"pooled", numeric_f16, false, true, true, true},
        {"zoo", numeric_f32, true, true, true, true},
        {"MinkUNet42", numeric_f16, false, false, true, false},
        {"SparseResNet21", numeric_bf16, true, false, true, false},
    };
    for (const auto &c : cases) {
        if (!test_quick() || c.quick) {
            network n;
            network_named(c.name, &n);
            const net_side *side = c.beside ? side_get() : nullptr;
            c.wide ? check_replays<uint64_t>(&n, c.type, c.keep_all, side)
                   : check_replays<uint32_t>(&n, c.type, c.keep_all, side);
        }
    }
}

// ---- a second stream ----------------------------------------------------------------------------

// While the second stream is busy the first layers are computed, and no more.
DEVICE_TEST(gpu_net_first_layers_do_not_wait) {
    if (test_quick()) {
        SKIP("a sanitizer may run one kernel after the other");
    }
    network n;
    network_named("MinkUNet42", &n);
    net_limits limits = limits_make(&n, numeric_f16, 900, true);
    limits.overlap = true;
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    // Made one after the other: streams that share a queue of the device would wait for each other.
    cudaStream_t stream[3];
    for (cudaStream_t &s : stream) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    net_side side = *side_get();
    side.stream = stream[1];
    d.side = &side;
    frame f = frame_make<uint32_t>(23, &d.plan->layout, 800, n.input_channels);
    const result<uint32_t> wanted = device_net_result(&d, &f); // loads the kernels,
    const int last = net_fine_layers(d.plan.get()) - 1;
    const std::vector<char> &features = wanted.features[1 + last];
    int *stop = nullptr;
    char *got = nullptr;
    CUDA_CHECK(cudaMallocHost((void **)&stop, sizeof *stop));
    CUDA_CHECK(cudaMallocHost((void **)&got, features.size()));
    *stop = 1;
    stream_occupy<<<1, 1, 0, side.stream>>>(stop, 0); // and this one
    device_net_forget(&d, 0xff);
    *stop = 0;
    stream_occupy<<<1, 1, 0, side.stream>>>(stop, 4000000000ll); // two seconds at the most
    CHECK_OK(device_net_run(&d, stream[0]));
    bool seen = false;
    for (double begin = test_seconds(); !seen && test_seconds() < begin + 1;) {
        CUDA_CHECK(cudaMemcpyAsync(got, d.memory + d.plan->step[last].features, features.size(),
                                   cudaMemcpyDeviceToHost, stream[2]));
        CUDA_CHECK(cudaStreamSynchronize(stream[2]));
        seen = memcmp(got, features.data(), features.size()) == 0;
    }
    CHECK(seen);
    CHECK_EQUAL(cudaStreamQuery(side.stream), cudaErrorNotReady); // busy to this moment,
    CHECK_EQUAL(cudaStreamQuery(stream[0]), cudaErrorNotReady);   // and waited for
    cudaGetLastError();                                           // which is no error
    *(volatile int *)stop = 1;
    CHECK(expect_no_cuda_error());
    CHECK_EQUAL(difference(result_fetch(&d), wanted, true), "");
    for (cudaStream_t s : stream) {
        CUDA_CHECK(cudaStreamDestroy(s));
    }
    CUDA_CHECK(cudaFreeHost(stop));
    CUDA_CHECK(cudaFreeHost(got));
}

// The first map of a part of the index.
static net_map *map_of_part(net_plan *p, net_part part) {
    int m = 0;
    while (!net_map_in(&p->map[m], part)) {
        ++m;
    }
    return &p->map[m];
}

// A run that fails on one of two streams has brought them together: its capture can be ended, and
// the next run is a good one.
DEVICE_TEST(gpu_net_failure_leaves_no_stream_behind) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 300, false);
    limits.overlap = true;
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    frame f = frame_make<uint32_t>(24, &d.plan->layout, 300, n.input_channels);
    const result<uint32_t> wanted = device_net_result(&d, &f);
    d.side = side_get();
    CHECK_EQUAL(difference(device_net_result(&d, &f), wanted, true), "");
    for (net_part part : {net_part_fine, net_part_coarse}) {
        net_map *map = map_of_part(d.plan.get(), part);
        const kernel_shape kept = map->kernel;
        map->kernel.size.x = kernel_size_max + 1;
        cudaGraphExec_t replay = stream_capture([&](cudaStream_t stream) {
            cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
            CHECK_STATUS(device_net_run(&d, stream), status_kernel_size);
            CUDA_CHECK(cudaStreamIsCapturing(d.side->stream, &captured));
            CHECK_EQUAL(captured, cudaStreamCaptureStatusActive); // it did take part
        });
        CHECK(replay != nullptr);
        CUDA_CHECK(cudaGraphExecDestroy(replay));
        CHECK_STATUS(device_net_run(&d, nullptr), status_kernel_size);
        CHECK(expect_no_cuda_error());
        map->kernel = kept;
        device_net_forget(&d, 0xff);
        CHECK_EQUAL(difference(device_net_result(&d, &f), wanted, true), "");
    }
}

// A stream whose capture has failed refuses all work. Each call returns that error, and leaves
// none. tests/dry has all functions, and errors in the middle of them.
DEVICE_TEST(gpu_net_refused_by_the_stream) {
    if (test_environment("SPIRA_EXACT")) {
        SKIP("a sanitizer would report the planted errors");
    }
    network n;
    network_named("zoo", &n);
    const net_limits limits = limits_make(&n, numeric_f16, 300, false);
    const device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const net_run_args<uint32_t> run = device_net_args(&d);
    const float *params = device_upload(d.params.data(), (int64_t)d.params.size());
    const net_load_args load = {params, d.loaded, d.plan->loaded_bytes, nullptr};
    const voxelize_args<uint32_t> voxels = {&d.plan->layout, &d.in, d.set, d.rows, d.trouble};
    cudaStream_t stream = nullptr;
    REQUIRE(CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
    REQUIRE(CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)));
    CHECK(cudaStreamSynchronize(stream) != cudaSuccess); // refused while it is captured
    cudaGetLastError();
    const status said[] = {device_status_clear(d.trouble, stream),
                           net32.voxelize(&voxels, d.scratch, d.scratch_bytes, stream),
                           net32.net_load(gpu(), d.plan.get(), &load, stream),
                           net32.net_index(gpu(), d.plan.get(), &run, stream),
                           net32.net_run(gpu(), d.plan.get(), &run, stream)};
    for (const status &s : said) {
        CHECK_STATUS(s, status_cuda);
        CHECK_EQUAL(s.detail, (int64_t)cudaErrorStreamCaptureInvalidated);
    }
    CHECK_EQUAL((int)cudaGetLastError(), (int)cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
    cudaGetLastError();
    CHECK_OK(net32.net_load(gpu(), d.plan.get(), &load, stream)); // the stream is a good one again
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
}

// ---- tuning records -----------------------------------------------------------------------------

// Every layer cut otherwise than by the rules: the features stay within their bounds.
DEVICE_TEST(gpu_net_with_records) {
    int32_t voxels = test_quick() ? 60 : 1500;
    for (const char *name : {"zoo", "MinkUNet42", "SparseResNet21"}) {
        for (numeric type : types) {
            for (int turn = 0; turn < (test_quick() ? 1 : 2); ++turn) {
                if (test_thinned(8)) { // one of the first, one of the last network
                    continue;
                }
                network n;
                net_plan none;
                network_named(name, &n);
                net_limits limits = limits_make(&n, type, voxels, true);
                REQUIRE_OK(plan_for(&n, &limits, gpu(), &none));
                const std::vector<tune_record> records = records_of(&none, gpu(), turn);
                limits.records = records.data();
                limits.record_count = (int)records.size();
                device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
                CHECK(check_choices(d.plan.get(), gpu()) > 0);
                frame f = frame_make<uint32_t>(20, &d.plan->layout, voxels, n.input_channels);
                result<uint32_t> r = device_net_result(&d, &f);
                check_result(&d, &f, r);
                device_net_forget(&d, 0xff);
                CHECK_OK(device_net_run(&d, nullptr));
                CHECK_EQUAL(difference(result_fetch(&d), r, true), ""); // to the bit
                guarded_finish();
            }
        }
    }
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_net_plan_refuses) {
    network n;
    network_named("zoo", &n);
    word_layout layout = layout_make<uint32_t>(&n);
    net_limits good = limits_make(&n, numeric_f16, 100, false), l;
    net_plan plan;
    auto make = [&](const net_layer *layers, int count, const word_layout *w,
                    const net_limits *limits, net_plan *p) {
        return net_plan_device<uint32_t>(gpu(), layers, count, w, limits, p);
    };
    REQUIRE_OK(make(n.layers, n.count, &layout, &good, &plan));
    CHECK(plan.device && plan.loaded_bytes > 0);
    CHECK(device_info_equal(&plan.gpu, gpu()));
    CHECK_STATUS(net_plan_device<uint32_t>(nullptr, n.layers, n.count, &layout, &good, &plan),
                 status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, nullptr, &good, &plan), status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, &layout, nullptr, &plan), status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, nullptr), status_null_pointer);
    CHECK_STATUS(net_plan_device<uint64_t>(gpu(), n.layers, n.count, &layout, &good, &plan),
                 status_unsupported);
    l = good; // what both planners refuse: tests/host/net_plan.cpp
    l.type = (numeric)7;
    CHECK_STATUS(make(n.layers, n.count, &layout, &l, &plan), status_unsupported);
    network_named("zoo", &n);
    n.layers[0].size = {15, 15, 15}; // reaches further than the layout was fitted to
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, &plan), status_unsupported);
    network_named("zoo", &n);
    layout = reference_layout<uint32_t>(scene_lo, scene_hi, 1, {4, 4, 6}, {4, 4, 4});
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, &plan), status_stride); // 4 and 6: 12
}

// Each map that convolutions read has its layout, and no other map.
DEVICE_TEST(gpu_net_plan_has_the_layouts_that_are_read) {
    for (const char *name : {"zoo", "MinkUNet42", "SparseResNet-Large"}) {
        for (numeric type : types) {
            network n;
            network_named(name, &n);
            word_layout layout = layout_make<uint64_t>(&n);
            net_limits limits = limits_make(&n, type, 100, false);
            net_plan plan;
            REQUIRE_OK(
                net_plan_device<uint64_t>(gpu(), n.layers, n.count, &layout, &limits, &plan));
            bool ordered[net_maps_max] = {};
            for (int i = 0; i < n.count; ++i) {
                if (n.layers[i].op == net_conv && plan.step[i].map != net_none) {
                    ordered[plan.step[i].map] = true;
                }
            }
            for (int m = 0; m < plan.maps; ++m) {
                CHECK_EQUAL(plan.map[m].ordered, ordered[m]);
            }
        }
    }
}

// Layouts of more rows than one launch takes are built in several. No memory is needed to plan.
DEVICE_TEST(gpu_net_plan_of_many_rows) {
    net_layer layers[4];
    const triple sizes[] = {{3, 1, 1}, {1, 3, 1}, {1, 1, 3}, {1, 3, 3}};
    for (int i = 0; i < 4; ++i) {
        layers[i] = net_layer_conv("wide", i - 1, 8, 3, 1);
        layers[i].size = sizes[i];
    }
    word_need need = {};
    need.lo = {-512, -512, -64};
    need.hi = {511, 511, 63};
    need.batches = 1;
    REQUIRE_OK(net_need(layers, 4, &need));
    word_layout layout;
    REQUIRE_OK(word_fit(&need, &layout));
    net_limits limits = {};
    limits.voxels = 300000000;
    limits.channels = 8;
    limits.type = numeric_f16;
    net_plan plan;
    REQUIRE_OK(net_plan_device<uint32_t>(gpu(), layers, 4, &layout, &limits, &plan));
    CHECK_EQUAL(plan.maps, 4);
    limits.voxels = INT32_MAX / 2;
    CHECK_OK(net_plan_device<uint32_t>(gpu(), layers, 4, &layout, &limits, &plan));
}

DEVICE_TEST(gpu_net_run_refuses) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 300, false);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const net_plan *p = d.plan.get();
    const size_t bytes = p->workspace_bytes;
    net_plan other = *p;
    other.device = false;
    frame f = frame_make<uint32_t>(17, &p->layout, 200, n.input_channels);
    device_net_upload(&d, &f);
    CHECK_OK(device_net_voxelize(&d, nullptr));
    typedef net_run_args<uint32_t> args;
    const args good = device_net_args(&d);
    reference_net_run_refuses(good,
                              [&](const args *a) { return net32.net_run(gpu(), p, a, nullptr); });
    args odd = good;
    odd.loaded = (char *)odd.loaded + 128;
    CHECK_STATUS(net32.net_run(gpu(), p, &odd, nullptr), status_alignment);
    CHECK_STATUS(net32.net_run(gpu(), nullptr, &good, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_run(gpu(), p, nullptr, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_run(nullptr, p, &good, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_run(gpu(), &other, &good, nullptr), status_unsupported);
    other = *p;
    auto beside = [&](void (*change)(net_side *), const net_plan *plan) {
        net_side side = *side_get();
        args changed = good;
        change(&side);
        changed.side = &side;
        return net32.net_run(gpu(), plan, &changed, nullptr);
    };
    CHECK_STATUS(beside([](net_side *) {}, p), status_unsupported);
    other.limits.overlap = true;
    status s = beside([](net_side *side) { side->begun = nullptr; }, &other);
    CHECK_STATUS(s, status_null_pointer);
    CHECK_EQUAL(s.subject, "side.begun");
    s = beside([](net_side *side) { side->indexed = nullptr; }, &other);
    CHECK_STATUS(s, status_null_pointer);
    CHECK_EQUAL(s.subject, "side.indexed");
    for (int layer : {-1, n.count, INT32_MAX}) {
        CHECK_STATUS(net32.net_layer_run(gpu(), p, layer, &good, nullptr), status_bad_size);
    }
    args without = good;
    without.memory = nullptr;
    CHECK_STATUS(net32.net_layer_run(gpu(), nullptr, 0, &good, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_layer_run(gpu(), p, 0, &without, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_index(gpu(), p, &without, nullptr), status_null_pointer);
    CHECK(device_untouched(d.memory, 0, (int64_t)bytes)); // nothing was launched
    CHECK_OK(net32.net_run(gpu(), p, &good, nullptr));
}

// A plan of another GPU model, or of another format than the caller is compiled for, is refused by
// every function that would read it, before anything is launched.
DEVICE_TEST(gpu_net_refuses_plans_of_another_gpu) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 300, false);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    frame f = frame_make<uint32_t>(17, &d.plan->layout, 200, n.input_channels);
    device_net_upload(&d, &f);
    CHECK_OK(device_net_voxelize(&d, nullptr));
    const net_run_args<uint32_t> run = device_net_args(&d);
    const float *params = device_upload(d.params.data(), d.plan->params);
    char *loaded = device_new<char>((int64_t)d.plan->loaded_bytes);
    const net_load_args load = {params, loaded, d.plan->loaded_bytes, nullptr};
    static void (*const changes[])(device_info *) = {
        [](device_info *g) { g->capability += 10; },
        [](device_info *g) { ++g->multiprocessors; },
        [](device_info *g) { g->shared_max -= 1024; },
        [](device_info *g) { g->hopper = !g->hopper; },
        [](device_info *g) { g->programmatic = !g->programmatic; },
    };
    for (auto change : changes) {
        net_plan other = *d.plan;
        change(&other.gpu);
        const status all[] = {
            net32.net_load(gpu(), &other, &load, nullptr),
            net32.net_index(gpu(), &other, &run, nullptr),
            net32.net_layer_run(gpu(), &other, 0, &run, nullptr),
            net32.net_run(gpu(), &other, &run, nullptr),
        };
        for (const status &s : all) {
            CHECK_STATUS(s, status_unsupported);
            CHECK_EQUAL(s.subject, "plan (made for another GPU model)");
        }
    }
    net_plan other = *d.plan;
    other.limits.type = numeric_bf16;
    const status formats[] = {
        net32.net_load_f16(gpu(), &other, &load, nullptr),
        net32.net_layer_run_f16(gpu(), &other, 0, &run, nullptr),
        net32.net_run_f16(gpu(), &other, &run, nullptr),
    };
    for (const status &s : formats) {
        CHECK_STATUS(s, status_unsupported);
        CHECK_EQUAL(s.subject, "plan (of another type than the function is compiled for)");
    }
    CHECK(device_untouched(d.memory, 0, (int64_t)d.plan->workspace_bytes));
    CHECK(device_untouched(loaded, 0, (int64_t)d.plan->loaded_bytes));
    CHECK_OK(net32.net_run_f16(gpu(), d.plan.get(), &run, nullptr));
}

// Loaded parameters that are stored are taken for the same network, GPU model and version only.
DEVICE_TEST(gpu_net_load_stored) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 300, false);
    const device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const net_plan *p = d.plan.get();
    std::vector<char> stored(p->loaded_bytes);
    device_copy_out(stored.data(), (const char *)d.loaded, (int64_t)p->loaded_bytes);
    CHECK_OK(net_load_stored(p, stored.data(), p->loaded_bytes));
    const auto refuses = [&](const net_plan *plan, size_t bytes, const char *word) {
        const status s = net_load_stored(plan, stored.data(), bytes);
        CHECK(status_failed(s) && strstr(s.subject, word));
    };
    net_plan other = *p;
    ++other.gpu.multiprocessors;
    refuses(&other, p->loaded_bytes, "another GPU model");
    refuses(p, p->loaded_bytes - 256, "another network");
    refuses(p, 8, "cut short");
    other = *p;
    ++other.step[0].shape.cout; // as long as the bytes are there
    refuses(&other, p->loaded_bytes, "another layer");
    ++((conv_weights_tag *)stored.data())->version;
    refuses(p, p->loaded_bytes, "another version");
    CHECK_STATUS(net_load_stored(p, nullptr, p->loaded_bytes), status_null_pointer);
}

DEVICE_TEST(gpu_net_load_refuses) {
    network n;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 300, false);
    device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const net_plan *p = d.plan.get();
    net_plan other = *p;
    other.device = false;
    const float *params = device_upload(d.params.data(), p->params);
    char *loaded = device_new<char>((int64_t)p->loaded_bytes);
    const net_load_args good = {params, loaded, p->loaded_bytes, nullptr};
    net_load_args bad = good;
    --bad.bytes;
    status s = net32.net_load(gpu(), p, &bad, nullptr);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, p->loaded_bytes);
    bad = good;
    bad.loaded = loaded + 1;
    CHECK_STATUS(net32.net_load(gpu(), p, &bad, nullptr), status_alignment);
    bad.loaded = nullptr;
    CHECK_STATUS(net32.net_load(gpu(), p, &bad, nullptr), status_null_pointer);
    bad = good;
    bad.params = nullptr;
    CHECK_STATUS(net32.net_load(gpu(), p, &bad, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_load(gpu(), p, nullptr, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_load(gpu(), nullptr, &good, nullptr), status_null_pointer);
    CHECK_STATUS(net32.net_load(gpu(), &other, &good, nullptr), status_unsupported);
    CHECK(device_untouched(loaded, 0, (int64_t)p->loaded_bytes));
    CHECK_OK(net32.net_load(gpu(), p, &good, nullptr));
}

// A weight that the format cannot hold: its layer is named, by the host and after loading, also of
// a shortcut that is fused into another layer.
DEVICE_TEST(gpu_net_load_names_weights_beyond) {
    network n;
    networks::network_begin(&n, 4);
    const int stem = networks::network_conv(&n, "stem", net_input, 32, 3, 1);
    networks::network_block(&n, "block", stem, net_none, 32, 64, 3); // has a shortcut
    const net_limits limits = limits_make(&n, numeric_f16, 300, false);
    const device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
    const net_plan *p = d.plan.get();
    std::vector<float> params = d.params;
    device_status *const trouble = device_new<device_status>(p->layer_count);
    int fused = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const int64_t weight = net_params_of(p, i).weight;
        if (weight < 0) {
            continue;
        }
        fused += p->step[i].fused_into != net_none;
        const float before = params[(size_t)weight + 1];
        params[(size_t)weight + 1] = i % 2 ? 65520.0f : INFINITY;
        CHECK_OK(status_from_cuda(cudaMemset(trouble, 0, (size_t)p->layer_count * sizeof *trouble),
                                  "trouble"));
        const net_load_args load = {device_upload(params.data(), p->params), d.loaded,
                                    p->loaded_bytes, trouble};
        CHECK_OK(net32.net_load(gpu(), p, &load, nullptr));
        device_status found[net_layers_max];
        REQUIRE(device_copy_out(found, trouble, p->layer_count));
        const status s = net_load_read(p, found);
        CHECK_STATUS(s, status_layer);
        CHECK_EQUAL(s.detail, i);
        CHECK_EQUAL(device_status_read(&found[i]).detail, 1);
        CHECK_EQUAL(net_params_check(p, params.data()).detail, i);
        params[(size_t)weight + 1] = before;
        CHECK_OK(net_params_check(p, params.data()));
    }
    CHECK(fused > 0);
}
