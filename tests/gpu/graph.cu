// tests/gpu/graph.cu: all stages in one CUDA graph, captured once for a capacity and replayed on
// scenes of other sizes. Nothing allocates, waits, or is launched on the default stream.
#include "../../spira/conv.cuh"
#include "../../spira/downsample.cuh"
#include "../../spira/map.cuh"
#include "../../spira/order.cuh"
#include "../../spira/pool.cuh"
#include "../../spira/voxel.cuh"
#include "../support/gpu.cuh"
#include "../support/problems.cuh"

using namespace spira;

namespace {

// ---- a small network ----------------------------------------------------------------------------

enum {
    rows_most = 6000,
    fine_most = 3000, // fewer than there may be voxels: some scenes do not fit
    coarse_most = 1500,
    columns = 4,
};

// Channels: points 4 -> first 32 -> down 40 -> up 32; up and first together -> 36 -> pooled.
enum { first_channels = 32, down_channels = 40, last_channels = 36 };

// A kernel map, and the layout that its layer reads.
struct layer_map {
    kernel_shape kernel;
    int32_t *os;   // [read.capacity, volume]
    conv_map read; // its layout
};

enum { map_same, map_down, map_up, maps };

// A network in device memory; every buffer has its exact size.
template <typename W>
struct network {
    numeric type;
    word_layout layout;
    voxel_input in;
    voxel_set<W> fine, coarse;
    voxel_rows rows;
    layer_map map[maps];
    conv_map identity; // of the last layer
    int32_t *pairs;
    conv_args first, down, up, last;
    char *points_features, *first_out, *down_out, *up_out, *last_out, *pooled, *global;
    device_status *trouble;
    char *scratch; // of the largest need
    size_t scratch_bytes;
};

order_layout order_new(int32_t capacity, int32_t volume) {
    const int64_t many = order_count(capacity);
    order_layout t = {};
    t.row = device_new<int32_t>(many * order_rows);
    t.mask = device_new<uint32_t>(many * order_words(volume));
    t.source = device_new<int32_t>(many * order_rows * volume);
    t.schedule = device_new<int32_t>(order_pairs((int32_t)many));
    t.groups = (int32_t)many;
    t.volume = volume;
    return t;
}

template <typename W>
layer_map layer_map_new(kernel_shape kernel, voxel_set<W> outputs, conv_shape shape) {
    layer_map m = {};
    m.kernel = kernel;
    m.os = device_new_poisoned<int32_t>((int64_t)outputs.capacity * shape.volume);
    const order_layout order = order_new(outputs.capacity, shape.volume);
    m.read = conv_map_of_order(&order, outputs.count, outputs.capacity);
    return m;
}

char *features_new(numeric type, int64_t rows, int channels) {
    return device_new<char>(rows * channels * numeric_size(type));
}

struct layer_values {
    std::vector<float> weight, scale, shift;
};

// Of a layer, from its seed.
layer_values layer_values_make(uint64_t seed, conv_shape shape) {
    random_state random = random_make(seed);
    layer_values v;
    v.weight.resize((size_t)shape.volume * (size_t)(shape.cin + shape.cin2) * (size_t)shape.cout);
    for (float &w : v.weight) {
        w = 0.3f * random_float(&random);
    }
    for (int c = 0; c < shape.cout; ++c) {
        v.scale.push_back(1 + 0.1f * random_float(&random));
        v.shift.push_back(0.1f * random_float(&random));
    }
    return v;
}

conv_args layer_make(uint64_t seed, conv_shape shape, const void *in, const conv_map *map,
                     void *out) {
    layer_values v = layer_values_make(seed, shape);
    conv_args a = {};
    a.shape = shape;
    a.map = map;
    a.in = in;
    a.weights = problems::weights_upload(&shape, v.weight);
    a.epilogue.scale = device_upload(v.scale.data(), shape.cout);
    a.epilogue.shift = device_upload(v.shift.data(), shape.cout);
    a.epilogue.act = activation_relu;
    a.out = out;
    return a;
}

template <typename W>
void network_features(network<W> *n) {
    const numeric t = n->type;
    n->points_features = features_new(t, fine_most, columns);
    n->first_out = features_new(t, fine_most, first_channels);
    n->down_out = features_new(t, coarse_most, down_channels);
    n->up_out = features_new(t, fine_most, first_channels);
    n->last_out = features_new(t, fine_most, last_channels);
    n->pooled = features_new(t, coarse_most, last_channels);
    n->global = features_new(t, n->layout.batches, last_channels);
}

// Maps and layers.
template <typename W>
void network_convolutions(network<W> *n) {
    const numeric t = n->type;
    const kernel_shape one = kernel_cube(1, 1), cube = kernel_cube(3, 1), down = kernel_cube(2, 1);
    kernel_shape up = down;
    up.transposed = true;
    const conv_shape first = conv_shape_of(&cube, columns, first_channels, t);
    const conv_shape strided = conv_shape_of(&down, first_channels, down_channels, t);
    const conv_shape inverse = conv_shape_of(&up, down_channels, first_channels, t);
    conv_shape last = conv_shape_of(&one, first_channels, last_channels, t);
    last.cin2 = first_channels;
    n->map[map_same] = layer_map_new(cube, n->fine, first);
    n->map[map_down] = layer_map_new(down, n->coarse, strided);
    n->map[map_up] = layer_map_new(up, n->fine, inverse);
    n->identity = conv_map_identity(n->fine.count, fine_most);
    n->first = layer_make(1, first, n->points_features, &n->map[map_same].read, n->first_out);
    n->down = layer_make(2, strided, n->first_out, &n->map[map_down].read, n->down_out);
    n->up = layer_make(3, inverse, n->down_out, &n->map[map_up].read, n->up_out);
    n->last = layer_make(4, last, n->up_out, &n->identity, n->last_out);
    n->last.in2 = n->first_out;
}

// Fills the requests for all layouts.
template <typename W>
void network_orders(const network<W> *n, order_request (&request)[maps]) {
    int count = 0;
    for (const layer_map &m : n->map) {
        order_request *r = &request[count++];
        *r = {};
        r->kernel = m.kernel;
        r->map = m.os;
        r->count = m.read.count;
        r->capacity = m.read.capacity;
        r->layout = m.read.order;
    }
}

// One scratch buffer serves all stages, which run one after the other.
template <typename W>
void network_scratch(network<W> *n) {
    size_t bytes[4] = {};
    order_request orders[maps];
    network_orders(n, orders);
    CHECK_OK(voxelize_workspace<W>(&n->in, fine_most, &bytes[0]));
    CHECK_OK(downsample_workspace(n->fine, coarse_most, &bytes[1]));
    CHECK_OK(pool_global_workspace(&n->layout, last_channels, &bytes[2]));
    CHECK_OK(order_workspace(orders, maps, &bytes[3]));
    n->scratch_bytes = *std::max_element(bytes, bytes + 4);
    n->scratch = device_new<char>((int64_t)n->scratch_bytes);
}

// The layers point to the maps of `n`: it must not be copied.
template <typename W>
void network_make(numeric type, network<W> *n) {
    n->type = type;
    n->layout = reference_layout<W>({-64, -64, -16}, {63, 63, 15}, 2, {2, 2, 2}, {2, 2, 2});
    n->in = {};
    n->in.points = device_zeros<float>(rows_most * columns);
    n->in.batch = device_zeros<int32_t>(rows_most);
    n->in.count = device_zeros<int32_t>(1);
    n->in.rows = rows_most;
    n->in.columns = columns;
    for (float &size : n->in.size) {
        size = 0.125f;
    }
    n->fine = {device_new<W>(fine_most), device_new<int32_t>(1), fine_most};
    n->coarse = {device_new<W>(coarse_most), device_new<int32_t>(1), coarse_most};
    n->rows = {device_new<int32_t>(rows_most), device_new<int32_t>(rows_most),
               device_new<int32_t>(fine_most + 1)};
    n->pairs = device_new<int32_t>(27);
    n->trouble = device_new<device_status>(1);
    network_features(n);
    network_convolutions(n);
    network_scratch(n);
}

template <typename W>
status network_layouts(const network<W> *n, cudaStream_t s) {
    order_request orders[maps];
    network_orders(n, orders);
    return order_build(gpu(), orders, maps, n->scratch, n->scratch_bytes, s);
}

template <typename W>
status network_index(const network<W> *n, cudaStream_t s) {
    SPIRA_TRY(device_status_clear(n->trouble, s));
    SPIRA_TRY(voxelize<W>(&n->layout, &n->in, n->fine, n->rows, n->trouble, n->scratch,
                          n->scratch_bytes, s));
    voxel_features_args<W> mean = {};
    mean.kind = voxel_feature_mean;
    mean.values = n->in.points;
    mean.columns = mean.channels = columns;
    mean.rows = n->rows;
    mean.set = n->fine;
    mean.type = n->type;
    mean.features = n->points_features;
    SPIRA_TRY(voxel_features(&mean, s));
    const downsample_args<W> by_two = {&n->layout, n->fine, {}, {2, 2, 2}, n->coarse, n->trouble};
    SPIRA_TRY(downsample(&by_two, n->scratch, n->scratch_bytes, s));
    const layer_map *m = n->map;
    const voxel_set<W> source[maps] = {n->fine, n->fine, n->coarse};
    const voxel_set<W> outputs[maps] = {n->fine, n->coarse, n->fine};
    for (int i = 0; i < maps; ++i) {
        SPIRA_TRY(map_build<W>(&n->layout, &m[i].kernel, source[i], outputs[i], m[i].os, s));
    }
    SPIRA_TRY(map_count(m[map_same].os, 27, n->fine.count, fine_most, n->pairs, s));
    return network_layouts(n, s);
}

template <typename W>
status network_run(const network<W> *n, cudaStream_t s) {
    SPIRA_TRY(network_index(n, s));
    SPIRA_TRY(shared_conv.conv(gpu(), &n->first, s));
    SPIRA_TRY(shared_conv.conv(gpu(), &n->down, s));
    SPIRA_TRY(shared_conv.conv(gpu(), &n->up, s));
    SPIRA_TRY(shared_conv.conv(gpu(), &n->last, s));
    pool_args local = {};
    local.kind = pool_max;
    local.type = n->type;
    local.channels = last_channels;
    local.volume = 8;
    local.in = n->last_out;
    local.map = n->map[map_down].os;
    local.count = n->coarse.count;
    local.capacity = coarse_most;
    local.out = n->pooled;
    SPIRA_TRY(pool(&local, s));
    const pool_global_args<W> global = {pool_average,  n->type,   &n->layout, n->coarse,
                                        last_channels, n->pooled, n->global};
    return pool_global(&global, n->scratch, n->scratch_bytes, s);
}

// ---- scenes -------------------------------------------------------------------------------------

struct scene {
    const char *name;
    int32_t count;
    std::vector<float> points; // [rows_most, columns]; behind the count: points that would be good
    std::vector<int32_t> batch;
};

// `spread`: how far apart the points lie; few voxels for a small one.
scene scene_make(const char *name, uint64_t seed, int32_t count, float spread) {
    random_state random = random_make(seed);
    scene s;
    s.name = name;
    s.count = count;
    for (int32_t i = 0; i < rows_most; ++i) {
        for (int c = 0; c < columns; ++c) {
            s.points.push_back((c == 2 ? 0.25f : 1.0f) * spread * random_float(&random));
        }
        s.batch.push_back(random_int(&random, 0, 1));
    }
    return s;
}

std::vector<scene> scenes_make() {
    std::vector<scene> scenes = {
        scene_make("crowded", 1, 2500, 1.5f),  scene_make("none", 2, 0, 4),
        scene_make("sparse", 3, 1400, 7.9f),   scene_make("one point", 4, 1, 4),
        scene_make("too many", 5, 6000, 7.9f), scene_make("bad rows", 6, 2000, 3),
        scene_make("one batch", 7, 900, 2),    scene_make("full rows", 8, 6000, 1.0f),
    };
    scenes[5].points[40 * columns] = NAN;
    scenes[5].points[1999 * columns + 2] = 1e9f;
    scenes[5].batch[77] = 5;
    for (int32_t &b : scenes[6].batch) {
        b = 1; // batch index 0 has no voxels
    }
    return scenes;
}

template <typename W>
void scene_upload(const scene *s, const network<W> *n) {
    device_copy_in((float *)n->in.points, s->points.data(), rows_most * columns);
    device_copy_in((int32_t *)n->in.batch, s->batch.data(), rows_most);
    device_copy_in((int32_t *)n->in.count, &s->count, 1);
}

// ---- results ------------------------------------------------------------------------------------

struct part {
    const char *name;
    std::vector<char> bytes;
};

template <typename T>
part part_fetch(const char *name, const T *device, int64_t elements) {
    part p;
    p.name = name;
    p.bytes.resize((size_t)elements * sizeof(T));
    device_copy_out(p.bytes.data(), (const char *)device, (int64_t)p.bytes.size());
    return p;
}

template <typename T>
void part_append(part *p, const T *device, int64_t elements) {
    size_t before = p->bytes.size();
    p->bytes.resize(before + (size_t)elements * sizeof(T));
    device_copy_out(p->bytes.data() + before, (const char *)device, elements * (int64_t)sizeof(T));
}

// Sources of offsets that a mask lacks are not written, and not compared.
void parts_fetch_order(const char *name, const order_layout *t, std::vector<part> *parts) {
    const int words = order_words(t->volume);
    std::vector<uint32_t> mask((size_t)(t->groups * words));
    device_copy_out(mask.data(), t->mask, (int64_t)mask.size());
    parts->push_back(part_fetch(name, t->row, (int64_t)t->groups * order_rows));
    parts->push_back(part_fetch(name, t->mask, (int64_t)mask.size()));
    part source = {name, {}};
    for (int64_t group = 0; group < t->groups; ++group) {
        for (int k = 0; k < t->volume; ++k) {
            if (mask[(size_t)(group * words + k / 32)] >> k % 32 & 1) {
                part_append(&source, t->source + order_begin(t, group, k), order_rows);
            }
        }
    }
    parts->push_back(source);
}

// Everything that a run writes, up to its counts.
template <typename W>
std::vector<part> network_fetch(const network<W> *n) {
    int64_t fine = device_value(n->fine.count), coarse = device_value(n->coarse.count);
    int64_t size = numeric_size(n->type), kept = device_value(n->rows.begin + fine);
    std::vector<part> parts;
    parts.push_back(part_fetch("trouble", n->trouble, 1));
    parts.push_back(part_fetch("fine.count", n->fine.count, 1));
    parts.push_back(part_fetch("coarse.count", n->coarse.count, 1));
    parts.push_back(part_fetch("fine.words", n->fine.words, fine_most));
    parts.push_back(part_fetch("coarse.words", n->coarse.words, coarse_most));
    parts.push_back(part_fetch("rows.voxel", n->rows.voxel, rows_most));
    parts.push_back(part_fetch("rows.begin", n->rows.begin, fine + 1));
    parts.push_back(part_fetch("rows.order", n->rows.order, kept));
    parts.push_back(part_fetch("same_map", n->map[map_same].os, fine * 27));
    parts.push_back(part_fetch("down_map", n->map[map_down].os, coarse * 8));
    parts.push_back(part_fetch("up_map", n->map[map_up].os, fine * 8));
    parts.push_back(part_fetch("pairs", n->pairs, 27));
    static const char *const layouts[maps] = {"same_layout", "down_layout", "up_layout"};
    for (int i = 0; i < maps; ++i) {
        parts_fetch_order(layouts[i], &n->map[i].read.order, &parts);
    }
    parts.push_back(part_fetch("points_features", n->points_features, fine * columns * size));
    parts.push_back(part_fetch("first_out", n->first_out, fine * first_channels * size));
    parts.push_back(part_fetch("down_out", n->down_out, coarse * down_channels * size));
    parts.push_back(part_fetch("up_out", n->up_out, fine * first_channels * size));
    parts.push_back(part_fetch("last_out", n->last_out, fine * last_channels * size));
    parts.push_back(part_fetch("pooled", n->pooled, coarse * last_channels * size));
    parts.push_back(part_fetch("global", n->global, n->layout.batches * last_channels * size));
    return parts;
}

// The name of the first part that differs, or "".
const char *difference(const std::vector<part> &a, const std::vector<part> &b) {
    for (size_t i = 0; i < a.size(); ++i) {
        if (i >= b.size() || a[i].bytes != b[i].bytes) {
            return a[i].name;
        }
    }
    return a.size() == b.size() ? "" : "more parts";
}

// A network of its own, in poisoned memory, without a graph.
template <typename W>
std::vector<part> fresh_run(numeric type, const scene *s) {
    network<W> n;
    network_make(type, &n);
    scene_upload(s, &n);
    CHECK_OK(network_run(&n, nullptr));
    return network_fetch(&n);
}

// ---- the graph ----------------------------------------------------------------------------------

// Its stages are 15 nodes or more.
template <typename W>
cudaGraphExec_t network_capture(const network<W> *n) {
    return stream_capture([&](cudaStream_t stream) { CHECK_OK(network_run(n, stream)); }, 15);
}

template <typename W>
void check_replays(numeric type) {
    std::vector<scene> scenes = scenes_make();
    network<W> n;
    network_make(type, &n);
    scene_upload(&scenes[0], &n);
    CHECK_OK(network_run(&n, nullptr)); // kernels are loaded at their first launch
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay = network_capture(&n);
    REQUIRE(replay != nullptr);
    cudaStream_t stream = stream_get();
    const int order[] = {0, 4, 1, 2, 7, 5, 3, 6, 0, 1, 4, 4, 2};
    int last = test_quick() ? 4 : 13;
    for (int i = 0; i < last; ++i) {
        const scene *s = &scenes[(size_t)order[i]];
        scene_upload(s, &n);
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        std::vector<part> got = network_fetch(&n);
        std::vector<part> wanted = fresh_run<W>(type, s);
        char text[128];
        const char *part_name = difference(got, wanted);
        snprintf(text, sizeof text, "%s: %s", s->name, part_name);
        test_check(!*part_name, __FILE__, __LINE__, text);
        // And again, on what the first replay left.
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CHECK_EQUAL(difference(network_fetch(&n), wanted), "");
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
}

DEVICE_TEST(gpu_graph_replays_f16) {
    check_replays<uint32_t>(numeric_f16);
}

DEVICE_TEST(gpu_graph_replays_bf16_wide_words) {
    check_replays<uint64_t>(numeric_bf16);
}

DEVICE_TEST(gpu_graph_replays_tf32) {
    check_replays<uint32_t>(numeric_tf32);
}

DEVICE_TEST(gpu_graph_replays_f32) {
    check_replays<uint32_t>(numeric_f32);
}

// ---- what a run is made of ----------------------------------------------------------------------

// The chain agrees with the host loops, one after the other; overflow is clamped and recorded.
template <typename W>
void check_chain(const scene *s) {
    network<W> n;
    network_make(numeric_f16, &n);
    scene_upload(s, &n);
    CHECK_OK(network_run(&n, nullptr));
    std::vector<part> got = network_fetch(&n);

    // Sets and the status.
    device_status trouble = {};
    int32_t count = s->count, fine = 0, coarse = 0;
    std::vector<W> fine_words(fine_most), coarse_words(coarse_most);
    std::vector<int32_t> voxel(rows_most), order(rows_most), begin(fine_most + 1);
    voxel_input in = n.in;
    in.points = s->points.data();
    in.batch = s->batch.data();
    in.count = &count;
    voxel_set<W> fine_set = {fine_words.data(), &fine, fine_most};
    voxel_set<W> coarse_set = {coarse_words.data(), &coarse, coarse_most};
    size_t bytes = voxelize_host_workspace<W>(&in);
    CHECK_OK(voxelize_host<W>(&n.layout, &in, fine_set, {voxel.data(), order.data(), begin.data()},
                              &trouble, guarded_new<char>((int64_t)bytes), bytes));
    const downsample_args<W> by_two = {&n.layout, fine_set, {}, {2, 2, 2}, coarse_set, &trouble};
    CHECK_OK(downsample_host_workspace(fine_set, &bytes));
    CHECK_OK(downsample_host(&by_two, guarded_new<char>((int64_t)bytes), bytes));
    CHECK_EQUAL(memcmp(got[0].bytes.data(), &trouble, sizeof trouble), 0);
    CHECK_EQUAL(memcmp(got[3].bytes.data(), fine_words.data(), fine_most * sizeof(W)), 0);
    CHECK_EQUAL(memcmp(got[4].bytes.data(), coarse_words.data(), coarse_most * sizeof(W)), 0);
    CHECK_EQUAL(device_value(n.fine.count), fine);
    CHECK_EQUAL(device_value(n.coarse.count), coarse);
    if (strcmp(s->name, "too many") == 0) {
        CHECK_EQUAL(fine, (int)fine_most);
        CHECK_EQUAL(device_status_read(&trouble).code, status_capacity);
        CHECK(device_status_read(&trouble).detail > fine_most);
    } else if (strcmp(s->name, "bad rows") == 0) {
        CHECK_EQUAL(device_status_read(&trouble).code, status_not_finite);
        CHECK_EQUAL(device_status_read(&trouble).detail, 40);
        CHECK_EQUAL(UINT32_MAX - trouble.first_range, 77u);
    } else {
        CHECK_OK(device_status_read(&trouble));
    }

    // A map and a convolution from what the device itself had as their input.
    std::vector<int32_t> map((size_t)fine * 27 + 1);
    CHECK_OK(map_build_host(&n.layout, &n.map[map_same].kernel, fine_set, fine_set, map.data()));
    CHECK_EQUAL(memcmp(got[8].bytes.data(), map.data(), (size_t)fine * 27 * 4), 0);
    layer_values first = layer_values_make(1, n.first.shape);
    std::vector<float> features((size_t)(fine + 1) * columns);
    std::vector<char> stored((size_t)(fine + 1) * columns * 2);
    device_copy_out(stored.data(), (const char *)n.points_features, (int64_t)fine * columns * 2);
    for (int64_t i = 0; i < (int64_t)fine * columns; ++i) {
        features[(size_t)i] = numeric_load(numeric_f16, stored.data(), i);
    }
    conv_epilogue e = {};
    e.scale = first.scale.data();
    e.shift = first.shift.data();
    e.act = activation_relu;
    std::vector<char> out((size_t)(fine + 1) * first_channels * 2);
    device_copy_out(out.data(), (const char *)n.first_out, (int64_t)fine * first_channels * 2);
    reference_conv_good(reference_conv_check(&n.first.shape, features.data(), nullptr, fine + 1,
                                             first.weight.data(), map.data(), fine, &e,
                                             out.data()));
    guarded_finish();
}

DEVICE_TEST(gpu_graph_chain_agrees_with_the_host) {
    std::vector<scene> scenes = scenes_make();
    for (const scene &s : scenes) {
        check_chain<uint32_t>(&s);
        if (!test_quick()) {
            check_chain<uint64_t>(&s);
        }
    }
}

// Free memory is the same before and after many runs and replays.
DEVICE_TEST(gpu_graph_runs_allocate_nothing) {
    if (test_quick()) {
        SKIP("a sanitizer may allocate memory of its own");
    }
    std::vector<scene> scenes = scenes_make();
    network<uint32_t> n;
    network_make(numeric_f16, &n);
    scene_upload(&scenes[0], &n);
    cudaStream_t stream = stream_get();
    CHECK_OK(network_run(&n, stream));
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay = network_capture(&n);
    REQUIRE(replay != nullptr);
    CUDA_CHECK(cudaGraphLaunch(replay, stream));
    CHECK(expect_no_cuda_error());
    size_t before = 0, after = 0, all = 0;
    CUDA_CHECK(cudaMemGetInfo(&before, &all));
    for (int i = 0; i < 10; ++i) {
        scene_upload(&scenes[(size_t)i % scenes.size()], &n);
        CHECK_OK(network_run(&n, stream));
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
    }
    CHECK(expect_no_cuda_error());
    CUDA_CHECK(cudaMemGetInfo(&after, &all));
    CHECK_EQUAL(before, after);
    CUDA_CHECK(cudaGraphExecDestroy(replay));
}

// While the default stream is busy, a run in another stream goes from end to end: no launch of it
// waits in the default stream, and no call waits for the device.
DEVICE_TEST(gpu_graph_runs_beside_a_busy_default_stream) {
    if (test_quick()) {
        SKIP("a sanitizer may run one kernel after the other");
    }
    std::vector<scene> scenes = scenes_make();
    network<uint32_t> n;
    network_make(numeric_f16, &n);
    const scene *s = &scenes[2];
    std::vector<part> wanted = fresh_run<uint32_t>(numeric_f16, s);
    scene_upload(s, &n);
    cudaStream_t stream = stream_get();
    int64_t bytes = n.layout.batches * last_channels * 2;
    int *stop = nullptr;
    char *global = nullptr;
    CUDA_CHECK(cudaMallocHost((void **)&stop, sizeof *stop));
    CUDA_CHECK(cudaMallocHost((void **)&global, (size_t)bytes));
    *stop = 1;
    stream_occupy<<<1, 1, 0, cudaStreamLegacy>>>(stop, 0); // loads it
    CHECK(expect_no_cuda_error());
    *stop = 0;
    memset(global, 0, (size_t)bytes);
    stream_occupy<<<1, 1, 0, cudaStreamLegacy>>>(stop, 4000000000ll); // two seconds at the most
    CHECK_OK(network_run(&n, stream));
    CUDA_CHECK(cudaMemcpyAsync(global, n.global, (size_t)bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK_EQUAL(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady); // busy to this moment
    cudaGetLastError();                                                // which is no error
    CHECK_EQUAL(memcmp(global, wanted.back().bytes.data(), (size_t)bytes), 0);
    *(volatile int *)stop = 1;
    CHECK(expect_no_cuda_error());
    CHECK_EQUAL(difference(network_fetch(&n), wanted), "");
    CUDA_CHECK(cudaFreeHost(stop));
    CUDA_CHECK(cudaFreeHost(global));
}

// ---- the test, tested ---------------------------------------------------------------------------

DEVICE_TEST(gpu_graph_planted_errors_are_found) {
    std::vector<scene> scenes = scenes_make();
    const std::vector<part> wanted = fresh_run<uint32_t>(numeric_f16, &scenes[0]);
    CHECK_EQUAL(difference(fresh_run<uint32_t>(numeric_f16, &scenes[0]), wanted), "");
    // Another scene, a feature that changed, a count that is one too small.
    CHECK(*difference(fresh_run<uint32_t>(numeric_f16, &scenes[2]), wanted));
    scene moved = scenes[0];
    moved.points[100 * columns + 3] += 1; // a feature, not a coordinate
    CHECK_EQUAL(difference(fresh_run<uint32_t>(numeric_f16, &moved), wanted), "points_features");
    scene fewer = scenes[0];
    --fewer.count;
    CHECK(*difference(fresh_run<uint32_t>(numeric_f16, &fewer), wanted));
    // One byte of one part.
    for (size_t i = 0; i < wanted.size(); ++i) {
        std::vector<part> bad = wanted;
        bad[i].bytes.back() ^= 1;
        CHECK_EQUAL(difference(bad, wanted), bad[i].name);
    }
}

} // namespace
