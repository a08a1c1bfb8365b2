// tests/gpu/net.cu: net.cuh: planned networks on the GPU, each layer against the host; one CUDA
// graph for frames of all sizes.
#include "../support/nets.cuh"

using namespace nets;

namespace {

// Nothing has been written to bytes [from, end) of the workspace but by maps that stood there
// before the features; those follow each other.
template <typename W>
bool spare_bytes_untouched(const device_net<W> *d, const result<W> &r, int64_t from, int64_t end) {
    const net_plan *p = d->plan.get();
    bool good = true;
    for (int m = 0; m < p->maps; ++m) {
        const net_map *map = &p->map[m];
        if (!map->kept && net_map_needed(p, map)) {
            int64_t entries = (int64_t)r.words[map->outputs].size() * map->volume;
            int64_t first = (int64_t)map->map, last = first + entries * (int64_t)sizeof(int32_t);
            good = device_untouched(d->memory, from, std::min(end, first)) && good;
            from = std::max(from, last);
        }
    }
    return device_untouched(d->memory, from, end) && good;
}

// The rows behind the voxels are as they were: for the first run in a workspace.
template <typename W>
void check_spare_rows(const device_net<W> *d, const result<W> &r) {
    const net_plan *p = d->plan.get();
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        if (step->fused_into != net_none) {
            continue;
        }
        int64_t at = (int64_t)step->features;
        int64_t row = (int64_t)step->channels * numeric_size(p->limits.type);
        CHECK(spare_bytes_untouched(d, r, at + (int64_t)r.words[step->set].size() * row,
                                    at + p->set[step->set].capacity * row));
    }
}

// The features by the second stream, behind what it has to do; the first layer waits for them.
template <typename W>
void check_late_features(device_net<W> *d, const result<W> &kept, const int *never) {
    net_side side = *side_get();
    CUDA_CHECK(cudaEventCreateWithFlags(&side.features, cudaEventDisableTiming));
    d->side = &side;
    CHECK_OK(device_net_voxelize(d, nullptr));
    const int64_t bytes = (int64_t)d->plan->limits.voxels * d->plan->limits.channels *
                          numeric_size(d->plan->limits.type);
    char *made = device_new<char>(bytes);
    CUDA_CHECK(cudaMemcpyAsync(made, d->features, (size_t)bytes, cudaMemcpyDeviceToDevice));
    CUDA_CHECK(cudaMemsetAsync(d->features, 0xff, (size_t)bytes));
    CHECK_OK(net_wait(side.stream, side.begun, nullptr));
    stream_occupy<<<1, 1, 0, side.stream>>>(never, 10000000ll);
    CUDA_CHECK(
        cudaMemcpyAsync(d->features, made, (size_t)bytes, cudaMemcpyDeviceToDevice, side.stream));
    CUDA_CHECK(cudaEventRecord(side.features, side.stream));
    CHECK_OK(net_run(d->plan.get(), d->set, d->features, d->loaded, d->trouble, d->memory,
                     d->plan->workspace_bytes, &side, nullptr));
    CHECK_EQUAL(difference(result_fetch(d), kept, false), "");
    CUDA_CHECK(cudaEventDestroy(side.features));
}

// Such a plan on one stream, then on two, whichever of them is ahead: not a bit changes. Where
// pairs are counted, all maps pass through the place of the features; where not, compact ones do.
template <typename W>
void check_beside(const network *n, net_limits limits, const frame *f, const result<W> &wanted) {
    for (bool count_pairs : {true, false}) {
        limits.overlap = true;
        limits.count_pairs = count_pairs;
        device_net<W> d = device_net_make<W>(n, &limits);
        CHECK_EQUAL(difference(device_net_result(&d, f), wanted, false), "");
        const int *never = device_zeros<int>(1);
        d.side = side_get();
        for (long long cycles : {0ll, 10000000ll}) { // the second one is late
            device_net_forget(&d, 0xff);
            stream_occupy<<<1, 1, 0, d.side->stream>>>(never, cycles);
            CHECK_OK(device_net_run(&d, nullptr));
            CHECK_EQUAL(difference(result_fetch(&d), wanted, false), "");
        }
        check_late_features(&d, wanted, never);
    }
}

// Runs a frame through a network that keeps everything and judges it all; then through one that
// shares its memory, and on two streams, which must not change a bit.
template <typename W>
void check_network(const network *n, numeric type, int32_t voxels, int32_t capacity,
                   uint64_t seed) {
    net_limits limits = limits_make(n, type, capacity, true);
    device_net<W> d = device_net_make<W>(n, &limits);
    frame f = frame_make<W>(seed, &d.plan->layout, voxels, n->input_channels);
    result<W> kept = device_net_result(&d, &f);
    check_result(&d, &f, kept);
    check_spare_rows(&d, kept);

    limits = limits_make(n, type, capacity, false);
    device_net<W> shared = device_net_make<W>(n, &limits);
    CHECK(shared.plan->workspace_bytes <= d.plan->workspace_bytes);
    CHECK_EQUAL(difference(device_net_result(&shared, &f), kept, false), "");
    check_beside(n, limits, &f, kept);
    CHECK(expect_no_cuda_error());
    guarded_finish();
}

// Four layers, all of the finest set.
void network_fine(network *n) {
    networks::network_conv(n, "in", net_input, 16, 3, 1);
    networks::network_conv(n, "flat", 0, 32, 1, 1);
    int pool = reference_net_pool(n, net_pool_max, 1, {1, 1, 3}, {1, 1, 1});
    networks::network_conv(n, "out", pool, 32, 5, 1);
    n->layers[3].residual = 1;
}

// Nothing of the finest set runs before the coarser ones are there.
void network_strided(network *n) {
    networks::network_conv(n, "down", net_input, 16, 3, 2);
    networks::network_conv(n, "coarse", 0, 16, 3, 1);
    networks::network_conv(n, "up", 1, 16, 3, 2);
    n->layers[2].transposed = true;
    networks::network_conv(n, "fine", 2, 16, 3, 1);
}

// Pools first, on the finest set and from it.
void network_pooled(network *n) {
    int smooth = reference_net_pool(n, net_pool_average, net_input, {3, 3, 1}, {1, 1, 1});
    int coarse = reference_net_pool(n, net_pool_max, smooth, {2, 2, 2}, {2, 2, 2});
    int up = networks::network_conv(n, "up", coarse, 16, 2, 2);
    n->layers[up].transposed = true;
    networks::network_conv(n, "both", up, 16, 3, 1);
    n->layers[n->count - 1].source2 = smooth;
}

// Names live in the network: it is not copied.
void network_named(const char *name, network *n) {
    static const struct {
        const char *name;
        void (*make)(network *n);
    } small[] = {{"fine", network_fine}, {"strided", network_strided}, {"pooled", network_pooled}};
    if (networks::network_make(name, n)) {
        return;
    }
    reference_net_zoo(n);
    for (const auto &s : small) {
        if (strcmp(s.name, name) == 0) {
            n->count = 0;
            s.make(n);
        }
    }
}

const numeric types[] = {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32};

} // namespace

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

static void check_minkunet42(numeric type) {
    network n;
    network_named("MinkUNet42", &n);
    int32_t voxels = test_quick() ? 200 : 3000;
    check_network<uint32_t>(&n, type, voxels, voxels + 1000, 3);
    if (!test_quick()) {
        check_network<uint64_t>(&n, type, voxels, voxels, 4);
    }
}

DEVICE_TEST(gpu_net_minkunet42_f16) {
    check_minkunet42(numeric_f16);
}

DEVICE_TEST(gpu_net_minkunet42_bf16) {
    check_minkunet42(numeric_bf16);
}

DEVICE_TEST(gpu_net_minkunet42_tf32) {
    check_minkunet42(numeric_tf32);
}

DEVICE_TEST(gpu_net_minkunet42_f32) {
    check_minkunet42(numeric_f32);
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
    for (const char *name : {"fine", "strided", "pooled"}) {
        network n;
        network_named(name, &n);
        int32_t voxels = test_quick() ? 150 : 2000;
        check_network<uint32_t>(&n, numeric_f16, voxels, voxels + 100, 21);
        check_network<uint64_t>(&n, numeric_f32, voxels, voxels, 22);
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
                check_network<uint32_t>(&n, numeric_f16, voxels, capacity, 8);
                check_network<uint64_t>(&n, numeric_f32, voxels, capacity, 9);
            }
        }
    }
}

// To the bit, whatever the workspace held before.
DEVICE_TEST(gpu_net_is_the_same_each_time) {
    network n;
    network_named("MinkUNet42", &n);
    int32_t voxels = test_quick() ? 150 : 3000;
    for (numeric type : types) {
        net_limits limits = limits_make(&n, type, voxels, true);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(10, &d.plan->layout, voxels, n.input_channels);
        result<uint32_t> first = device_net_result(&d, &f);
        for (int i = 0; i < (test_quick() ? 1 : 5); ++i) {
            device_net_forget(&d, 0xff - i); // all ones are NaN in every format
            CHECK_OK(device_net_run(&d, nullptr));
            CHECK_EQUAL(difference(result_fetch(&d), first, true), "");
        }
        guarded_finish();
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
    CHECK_OK(net_index(d.plan.get(), d.set, d.trouble, d.memory, d.plan->workspace_bytes, nullptr));
    for (int i = 0; i < n.count; ++i) {
        CHECK_OK(net_layer_run(d.plan.get(), i, d.set, d.features, d.loaded, d.memory, nullptr));
    }
    CHECK_EQUAL(difference(result_fetch(&d), whole, true), "");
}

// Weights that are not those that were loaded, and a feature that is off, are found.
DEVICE_TEST(gpu_net_planted_errors_are_found) {
    network n;
    network_named("zoo", &n);
    for (numeric type : types) {
        net_limits limits = limits_make(&n, type, 800, true);
        device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
        frame f = frame_make<uint32_t>(12, &d.plan->layout, 800, n.input_channels);
        result<uint32_t> r = device_net_result(&d, &f);
        reference_net_run<uint32_t> judged = result_judged(&d, &r);
        REQUIRE(reference_net_good(&judged, false));
        for (int i = 0; i < n.count; ++i) {
            float kept = numeric_load(type, r.features[1 + i].data(), 11);
            float step = std::max(0.01f, 20.0f * (float)numeric_epsilon(type));
            numeric_store(type, r.features[1 + i].data(), 11, kept * (1 + step) + step);
            CHECK(reference_net_judge(&judged, i, false).ratio > 1);
            numeric_store(type, r.features[1 + i].data(), 11, kept);
        }
        std::vector<float> wrong = d.params;
        for (float &p : wrong) {
            p *= 1.05f;
        }
        judged.params = wrong.data();
        for (int i = 0; i < n.count; ++i) {
            bool pools = n.layers[i].op != net_conv;
            CHECK_EQUAL(reference_net_judge(&judged, i, false).ratio > 1, !pools);
        }
        result<uint32_t> other = r;
        other.features[n.count][5] ^= 1;
        CHECK(*difference(other, r, true) && *difference(other, r, false));
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
    for (int s = 1; s < net_sets_max; ++s) {
        limits.set_voxels[s] = s % 2 ? room : 0;
    }
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
void check_input_count(const network *n) {
    const int32_t most = 300;
    net_limits limits = limits_make(n, numeric_f16, most, true);
    device_net<W> d = device_net_make<W>(n, &limits);
    const frame f = frame_make<W>(21, &d.plan->layout, 2 * most, n->input_channels);
    device_net_upload(&d, &f);
    CHECK_OK(device_net_voxelize(&d, nullptr));
    result<W> results[2];
    for (int32_t more : {0, 9}) {
        const int32_t count = most + more;
        device_copy_in(d.set.count, &count, 1);
        CHECK_OK(device_status_clear(d.trouble, nullptr));
        CHECK_OK(net_run(d.plan.get(), d.set, d.features, d.loaded, d.trouble, d.memory,
                         d.plan->workspace_bytes, nullptr, nullptr));
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
    network zoo, fine;
    network_named("zoo", &zoo);
    network_named("fine", &fine);
    check_input_count<uint32_t>(&zoo);
    check_input_count<uint64_t>(&fine); // which has one set
}

DEVICE_TEST(gpu_net_set_capacity_passed) {
    for (int32_t room : {1, 64, 150}) {
        check_small_sets<uint32_t>("zoo", numeric_f16, room);
        check_small_sets<uint64_t>("zoo", numeric_f32, room);
    }
    check_small_sets<uint32_t>("MinkUNet42", numeric_f16, 100);
}

// ---- one graph ----------------------------------------------------------------------------------

namespace {

// One graph, captured once for a capacity, over frames of all sizes up to it and beyond. Each frame
// gives what a run without a graph gives in a workspace without a past, and, where all layers are
// kept, what the host says. side: null, or the second stream of the graph alone.
template <typename W>
void check_replays(const char *name, numeric type, bool keep_all, const net_side *side) {
    network n;
    network_named(name, &n);
    const int32_t most = test_quick() ? 150 : 1100;
    net_limits limits = limits_make(&n, type, most, keep_all);
    limits.overlap = side != nullptr;
    device_net<W> d = device_net_make<W>(&n, &limits), fresh = device_net_make<W>(&n, &limits);
    d.side = side;
    cudaGraphExec_t replay = device_net_capture(&d);
    REQUIRE(replay != nullptr);
    const int32_t voxels[] = {most / 2, 0,        1, most,     most + 1, most / 3,
                              2 * most, most - 1, 0, 2 * most, 1,        most / 2 + 1};
    const int frames = test_quick() ? 7 : 12;
    for (int i = 0; i < frames; ++i) {
        frame f = frame_make<W>(16 + (uint64_t)i, &d.plan->layout, voxels[i], n.input_channels);
        device_net_upload(&d, &f);
        graph_replay(replay);
        check_told(&d, voxels[i]);
        result<W> got = result_fetch(&d);
        CHECK_EQUAL(got.words[0].size(), (size_t)std::min(voxels[i], most));
        device_net_forget(&fresh, 0xff);
        CHECK_EQUAL(difference(got, device_net_result(&fresh, &f), true), "");
        if (keep_all) {
            check_result(&d, &f, got);
        }
        graph_replay(replay); // again, on what it left
        CHECK_EQUAL(difference(result_fetch(&d), got, true), "");
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    guarded_finish();
}

} // namespace

DEVICE_TEST(gpu_net_graph_replays_zoo) {
    check_replays<uint32_t>("zoo", numeric_f16, true, nullptr);
    check_replays<uint64_t>("zoo", numeric_bf16, true, nullptr);
    if (!test_quick()) {
        check_replays<uint32_t>("zoo", numeric_tf32, true, nullptr);
        check_replays<uint64_t>("zoo", numeric_f32, true, nullptr);
    }
}

DEVICE_TEST(gpu_net_graph_replays_minkunet42) {
    check_replays<uint32_t>("MinkUNet42", numeric_f16, false, nullptr);
    if (!test_quick()) {
        check_replays<uint64_t>("MinkUNet42", numeric_f16, false, nullptr);
        check_replays<uint32_t>("MinkUNet42", numeric_bf16, false, nullptr);
        check_replays<uint32_t>("MinkUNet42", numeric_tf32, false, nullptr);
        check_replays<uint64_t>("MinkUNet42", numeric_f32, false, nullptr);
    }
}

// ---- a second stream ----------------------------------------------------------------------------

DEVICE_TEST(gpu_net_graph_replays_beside) {
    for (const char *name : {"zoo", "fine", "strided", "pooled"}) {
        check_replays<uint32_t>(name, numeric_f16, true, side_get());
    }
    check_replays<uint64_t>("zoo", numeric_f32, true, side_get());
    check_replays<uint32_t>("MinkUNet42", numeric_f16, false, side_get());
    check_replays<uint64_t>("SparseResNet21", numeric_bf16, false, side_get());
}

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
    const net_side side = {stream[1], side_get()->begun, side_get()->indexed, nullptr};
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

// ---- tuning records -----------------------------------------------------------------------------

namespace {

const device_info hopper = {90, 132, 232448, true}, ampere = {80, 108, 166912, false},
                  turing = {75, 68, 65536, false};

// A deterministic record of a convolution of a plan. pairs 0: any density.
tune_record record_of(const net_plan *p, int layer, const device_info *d, int64_t pairs,
                      tune_choice choice) {
    const net_step *step = &p->step[layer];
    tune_key key =
        tune_key_make(tune_gpu_of(d), &step->shape, p->set[step->set].capacity, pairs, true);
    return {key, choice, {1000, 0}};
}

// Some way to compute a layer that is not the one without records, where there is one.
tune_choice choice_of(const net_plan *p, int layer, const device_info *d, int turn) {
    static conv_sizes sizes[conv_sizes_most];
    const net_step *step = &p->step[layer];
    const conv_shape *s = &step->shape;
    const conv_kernel kernel = conv_kernel_of(s, d);
    int rows = conv_kernel_form(kernel) == conv_form_order ? 0
               : turn % 2 || step->map == net_none         ? tile_rows(s->volume)
                                                           : tile_rows_limit(s->volume);
    if (kernel == conv_kernel_exact) {
        return {tune_dataflow_os, rows, 0, 0, 0, 0};
    }
    int count = conv_sizes_list(s, rows, d, sizes);
    CHECK(count > 0);
    return tune_choice_cut(rows, &sizes[(turn * 7 + layer) % count]);
}

// The first half of planning for a device that is not there.
status plan_for(const network *n, const net_limits *limits, const device_info *d, net_plan *p) {
    SPIRA_TRY(net_plan_sets(n->layers, n->count, limits, true, p));
    net_plan_forms(p, d);
    return net_plan_choices(limits, d, p);
}

// A record for each convolution.
std::vector<tune_record> records_of(const net_plan *p, const device_info *d, int turn) {
    std::vector<tune_record> records;
    for (int i = 0; i < p->layer_count; ++i) {
        if (net_is_conv(&p->layers[i])) {
            tune_choice choice = choice_of(p, i, d, turn);
            records.push_back(record_of(p, i, d, p->limits.voxels, choice));
        }
    }
    return records;
}

bool choice_none(const tune_choice *c) {
    const tune_choice none = {};
    return tune_same_choice(c, &none);
}

// What a plan takes fits the layer and the tiles of its map. Returns how many layers take one.
int check_choices(const net_plan *p, const device_info *d) {
    int taken = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        const tune_choice *c = &step->choice;
        if (choice_none(c)) {
            continue;
        }
        const bool tiled = conv_kernel_form(conv_kernel_of(&step->shape, d)) == conv_form_tiles;
        const conv_sizes sizes = tune_sizes(c);
        int rows = step->map == net_none ? tile_rows(1) : p->map[step->map].rows;
        CHECK(net_is_conv(&p->layers[i]));
        CHECK_EQUAL(c->rows, tiled ? rows : 0);
        CHECK(!c->tiles || conv_sizes_fit(&step->shape, rows, d, &sizes));
        ++taken;
    }
    return taken;
}

} // namespace

// Without a GPU: what is taken, on all devices.
TEST(gpu_net_plan_takes_records) {
    for (const device_info *d : {&hopper, &ampere, &turing}) {
        for (numeric type : types) {
            for (const char *name : {"zoo", "MinkUNet42"}) {
                for (int turn = 0; turn < 4; ++turn) {
                    network n;
                    net_plan none, tuned;
                    network_named(name, &n);
                    net_limits limits = limits_make(&n, type, 5000, false);
                    REQUIRE_OK(plan_for(&n, &limits, d, &none));
                    CHECK_EQUAL(check_choices(&none, d), 0);
                    const std::vector<tune_record> records = records_of(&none, d, turn);
                    limits.records = records.data();
                    limits.record_count = (int)records.size();
                    REQUIRE_OK(plan_for(&n, &limits, d, &tuned));
                    CHECK(!tuned.limits.records); // not kept
                    CHECK(check_choices(&tuned, d) > 0);
                    CHECK(turn != 1 || check_choices(&tuned, d) == (int)records.size());
                }
            }
        }
    }
}

// A record that does not fit is left alone; of two that want other tiles of one map, that of the
// layer with more products counts.
TEST(gpu_net_plan_leaves_records_alone) {
    network n;
    net_plan plan;
    network_named("MinkUNet42", &n);
    net_limits limits = limits_make(&n, numeric_f16, 5000, false);
    REQUIRE_OK(plan_for(&n, &limits, &ampere, &plan));
    const net_plan none = plan;
    auto layer_named = [&](const char *name) {
        int i = 0;
        while (strcmp(n.layers[i].name, name) != 0) {
            ++i;
        }
        return i;
    };
    const int low = layer_named("dec4.1.conv2"), up = layer_named("dec4.1.conv1");
    REQUIRE(none.step[low].map == none.step[up].map);
    auto planned = [&](std::vector<tune_record> records, const device_info *d) {
        limits.records = records.data();
        limits.record_count = (int)records.size();
        status s = plan_for(&n, &limits, d, &plan);
        limits.records = nullptr;
        limits.record_count = 0;
        return s;
    };
    const tune_choice small = {tune_dataflow_os, 64, 1, 1, 1, 0},
                      large = {tune_dataflow_os, 128, 1, 1, 1, 0},
                      wrong = {tune_dataflow_os, 64, 64, 64, 1, 0},
                      ordered = {tune_dataflow_os, 0, 1, 1, 1, 0};
    const tune_record low_small = record_of(&none, low, &ampere, 9000, small),
                      up_large = record_of(&none, up, &ampere, 9000, large),
                      up_small = record_of(&none, up, &ampere, 9000, small);
    REQUIRE_OK(planned({low_small}, &ampere));
    CHECK(tune_same_choice(&plan.step[low].choice, &small) && choice_none(&plan.step[up].choice));
    CHECK_EQUAL(plan.map[plan.step[low].map].rows, 64);
    REQUIRE_OK(planned({low_small, up_large}, &ampere));
    CHECK(choice_none(&plan.step[low].choice));
    CHECK(tune_same_choice(&plan.step[up].choice, &large));
    CHECK_EQUAL(plan.map[plan.step[low].map].rows, 128);
    REQUIRE_OK(planned({low_small, up_small}, &ampere));
    CHECK(!choice_none(&plan.step[low].choice) && !choice_none(&plan.step[up].choice));
    for (const tune_choice &c : {wrong, ordered}) { // of other sizes, of another program
        REQUIRE_OK(planned({record_of(&none, up, &ampere, 9000, c)}, &ampere));
        CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    }
    REQUIRE_OK(planned({low_small, up_large}, &turing)); // another GPU
    CHECK_EQUAL(check_choices(&plan, &turing), 0);
    tune_record other = up_large; // bits that may differ
    other.key.deterministic = false;
    REQUIRE_OK(planned({other}, &ampere));
    CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    other = up_large;
    other.key.outputs *= 8; // too far away
    REQUIRE_OK(planned({other}, &ampere));
    CHECK_EQUAL(check_choices(&plan, &ampere), 0);
    // Pairs that are known choose among densities.
    tune_record dense = up_small, sparse = up_large;
    dense.key.density = 16;
    sparse.key.density = 1;
    REQUIRE_OK(planned({dense, sparse}, &ampere));
    CHECK(tune_same_choice(&plan.step[up].choice, &small)); // the first
    limits.map_pairs[none.step[up].map] = 5000;
    REQUIRE_OK(planned({dense, sparse}, &ampere));
    CHECK(tune_same_choice(&plan.step[up].choice, &large));
    REQUIRE_OK(planned({dense}, &ampere));
    CHECK(choice_none(&plan.step[up].choice));
}

TEST(gpu_net_plan_refuses_records) {
    network n;
    net_plan plan;
    network_named("zoo", &n);
    net_limits limits = limits_make(&n, numeric_f16, 5000, false);
    REQUIRE_OK(plan_for(&n, &limits, &hopper, &plan));
    int layer = n.count - 1;
    while (!net_is_conv(&n.layers[layer])) {
        --layer;
    }
    tune_record record = {};
    for (tune_dataflow other : {tune_dataflow_stripes, tune_dataflow_hybrid_stripes}) {
        record = record_of(&plan, layer, &hopper, 5000,
                           {other, 0, 0, 0, 0, other == tune_dataflow_stripes ? 0 : 2});
        limits.records = &record;
        limits.record_count = 1;
        net_plan same;
        REQUIRE_OK(plan_for(&n, &limits, &hopper, &same)); // left alone: by rules
        CHECK(memcmp(&same.step[layer].choice, &plan.step[layer].choice, sizeof(tune_choice)) == 0);
    }
    record.choice = {tune_dataflow_os, 64, 1, 0, 1, 0};
    status s = plan_for(&n, &limits, &hopper, &plan);
    CHECK_STATUS(s, status_bad_size);
    CHECK_EQUAL(s.subject, "tiles (slices, split)");
    limits.record_count = 0;
    CHECK_OK(plan_for(&n, &limits, &hopper, &plan));
}

// Every layer cut otherwise than by the rules: the features stay within their bounds.
DEVICE_TEST(gpu_net_with_records) {
    device_info device;
    REQUIRE_OK(device_info_query(&device));
    int32_t voxels = test_quick() ? 200 : 1500;
    for (const char *name : {"zoo", "MinkUNet42", "SparseResNet21"}) {
        for (numeric type : types) {
            for (int turn = 0; turn < (test_quick() ? 1 : 2); ++turn) {
                network n;
                net_plan none;
                network_named(name, &n);
                net_limits limits = limits_make(&n, type, voxels, true);
                REQUIRE_OK(plan_for(&n, &limits, &device, &none));
                const std::vector<tune_record> records = records_of(&none, &device, turn);
                limits.records = records.data();
                limits.record_count = (int)records.size();
                device_net<uint32_t> d = device_net_make<uint32_t>(&n, &limits);
                CHECK(check_choices(d.plan.get(), &device) > 0);
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
                    const net_limits *limits,
                    net_plan *p) { return net_plan_device<uint32_t>(layers, count, w, limits, p); };
    REQUIRE_OK(make(n.layers, n.count, &layout, &good, &plan));
    CHECK(plan.device && plan.loaded_bytes > 0);
    CHECK_STATUS(make(nullptr, n.count, &layout, &good, &plan), status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, nullptr, &good, &plan), status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, &layout, nullptr, &plan), status_null_pointer);
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, nullptr), status_null_pointer);
    CHECK_STATUS(make(n.layers, 0, &layout, &good, &plan), status_bad_size);
    CHECK_STATUS(net_plan_device<uint64_t>(n.layers, n.count, &layout, &good, &plan),
                 status_unsupported);
    l = good;
    l.voxels = 0;
    CHECK_STATUS(make(n.layers, n.count, &layout, &l, &plan), status_bad_size);
    l = good;
    l.type = (numeric)7;
    CHECK_STATUS(make(n.layers, n.count, &layout, &l, &plan), status_unsupported);
    n.layers[4].source = 4;
    status s = make(n.layers, n.count, &layout, &good, &plan);
    CHECK_STATUS(s, status_layer);
    CHECK_EQUAL(s.detail, 4);
    network_named("zoo", &n);
    n.layers[0].size = {15, 15, 15}; // reaches further than the layout was fitted to
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, &plan), status_unsupported);
    network_named("zoo", &n);
    layout = reference_layout<uint32_t>(scene_lo, scene_hi, 1, {4, 4, 6}, {4, 4, 4});
    CHECK_STATUS(make(n.layers, n.count, &layout, &good, &plan), status_stride); // 4 and 6: 12
}

// Each map has the layouts that its convolutions read, and no other.
DEVICE_TEST(gpu_net_plan_has_the_layouts_that_are_read) {
    for (const char *name : {"zoo", "MinkUNet42", "SparseResNet-Large"}) {
        for (numeric type : types) {
            network n;
            network_named(name, &n);
            word_layout layout = layout_make<uint64_t>(&n);
            net_limits limits = limits_make(&n, type, 100, false);
            net_plan plan;
            REQUIRE_OK(net_plan_device<uint64_t>(n.layers, n.count, &layout, &limits, &plan));
            bool tiled[net_maps_max] = {}, ordered[net_maps_max] = {};
            for (int i = 0; i < n.count; ++i) {
                conv_form form = conv_form_tiles;
                if (n.layers[i].op == net_conv && plan.step[i].map != net_none) {
                    CHECK_OK(conv_form_of(&plan.step[i].shape, &form));
                    (form == conv_form_tiles ? tiled : ordered)[plan.step[i].map] = true;
                }
            }
            for (int m = 0; m < plan.maps; ++m) {
                CHECK_EQUAL(plan.map[m].tiled, tiled[m]);
                CHECK_EQUAL(plan.map[m].ordered, ordered[m]);
            }
        }
    }
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
    auto run = [&](const net_plan *plan, voxel_set<uint32_t> set, const void *features,
                   const void *loaded, device_status *trouble, void *memory, size_t size) {
        return net_run(plan, set, features, loaded, trouble, memory, size, nullptr, nullptr);
    };
    status s = run(p, d.set, d.features, d.loaded, d.trouble, d.memory, bytes - 1);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, bytes);
    CHECK_STATUS(run(p, d.set, d.features, d.loaded, d.trouble, d.memory + 1, bytes),
                 status_alignment);
    CHECK_STATUS(run(p, d.set, d.features, d.loaded, d.trouble, nullptr, bytes),
                 status_null_pointer);
    CHECK_STATUS(run(nullptr, d.set, d.features, d.loaded, d.trouble, d.memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(run(&other, d.set, d.features, d.loaded, d.trouble, d.memory, bytes),
                 status_unsupported);
    CHECK_STATUS(run(p, d.set, d.features, d.loaded, nullptr, d.memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(run(p, d.set, nullptr, d.loaded, d.trouble, d.memory, bytes), status_null_pointer);
    CHECK_STATUS(run(p, d.set, d.features, nullptr, d.trouble, d.memory, bytes),
                 status_null_pointer);
    CHECK_STATUS(run(p, d.set, d.features + 1, d.loaded, d.trouble, d.memory, bytes),
                 status_alignment);
    CHECK_STATUS(run(p, d.set, d.features, d.loaded + 128, d.trouble, d.memory, bytes),
                 status_alignment);
    voxel_set<uint32_t> set = d.set;
    set.words = nullptr;
    CHECK_STATUS(run(p, set, d.features, d.loaded, d.trouble, d.memory, bytes),
                 status_null_pointer);
    set = d.set;
    set.count = nullptr;
    CHECK_STATUS(run(p, set, d.features, d.loaded, d.trouble, d.memory, bytes),
                 status_null_pointer);
    for (int32_t capacity : {299, 301}) {
        set = d.set;
        set.capacity = capacity;
        s = run(p, set, d.features, d.loaded, d.trouble, d.memory, bytes);
        CHECK_STATUS(s, status_capacity);
        CHECK_EQUAL(s.detail, 300);
    }
    other = *p;
    auto beside = [&](net_side side, const net_plan *plan) {
        return net_run(plan, d.set, d.features, d.loaded, d.trouble, d.memory, bytes, &side,
                       nullptr);
    };
    net_side side = *side_get();
    CHECK_STATUS(beside(side, p), status_unsupported);
    other.limits.overlap = true;
    s = beside({side.stream, nullptr, side.indexed, nullptr}, &other);
    CHECK_STATUS(s, status_null_pointer);
    CHECK_EQUAL(s.subject, "side.begun");
    s = beside({side.stream, side.begun, nullptr, nullptr}, &other);
    CHECK_STATUS(s, status_null_pointer);
    CHECK_EQUAL(s.subject, "side.indexed");
    for (int layer : {-1, n.count, INT32_MAX}) {
        CHECK_STATUS(net_layer_run(p, layer, d.set, d.features, d.loaded, d.memory, nullptr),
                     status_bad_size);
    }
    CHECK_STATUS(
        net_layer_run<uint32_t>(nullptr, 0, d.set, d.features, d.loaded, d.memory, nullptr),
        status_null_pointer);
    CHECK_STATUS(net_layer_run(p, 0, d.set, d.features, d.loaded, nullptr, nullptr),
                 status_null_pointer);
    CHECK(device_untouched(d.memory, 0, (int64_t)bytes)); // nothing was launched
    CHECK_OK(run(p, d.set, d.features, d.loaded, d.trouble, d.memory, bytes));
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
    status s = net_load(p, params, loaded, p->loaded_bytes - 1, nullptr);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, p->loaded_bytes);
    CHECK_STATUS(net_load(p, params, loaded + 1, p->loaded_bytes, nullptr), status_alignment);
    CHECK_STATUS(net_load(p, params, nullptr, p->loaded_bytes, nullptr), status_null_pointer);
    CHECK_STATUS(net_load(p, nullptr, loaded, p->loaded_bytes, nullptr), status_null_pointer);
    CHECK_STATUS(net_load(nullptr, params, loaded, p->loaded_bytes, nullptr), status_null_pointer);
    CHECK_STATUS(net_load(&other, params, loaded, p->loaded_bytes, nullptr), status_unsupported);
    CHECK(device_untouched(loaded, 0, (int64_t)p->loaded_bytes));
    CHECK_OK(net_load(p, params, loaded, p->loaded_bytes, nullptr));
}
