// tests/gpu_net.cu: net.cuh: planned networks on the GPU, each layer against the host; one CUDA
// graph for frames of all sizes.
#include "../spira/net.cuh"
#include "../spira/voxel.cuh"
#include "device.cuh"
#include "reference_net.h"

using namespace spira;
using networks::network;

namespace {

const triple scene_lo = {-20, -11, -9}, scene_hi = {21, 14, 8};
enum { scene_batches = 2 };

// ---- frames -------------------------------------------------------------------------------------

// Rows of integer coordinates in random order, some of them twice.
struct frame {
    std::vector<int32_t> coords, batch; // [rows, 3], [rows]
    std::vector<float> values;          // [rows, channels]
    int32_t rows;
};

template <typename W>
frame frame_make(uint64_t seed, const word_layout *layout, int32_t voxels, int channels) {
    random_state r = random_make(seed);
    std::vector<W> words((size_t)voxels + 1);
    CHECK_EQUAL(
        reference_random_set(&r, layout, scene_lo, scene_hi, {1, 1, 1}, voxels, words.data()),
        voxels);
    words.resize((size_t)voxels);
    for (int32_t i = 0; i < voxels / 10; ++i) {
        words.push_back(words[(size_t)random_int(&r, 0, voxels - 1)]);
    }
    frame f;
    f.rows = (int32_t)words.size();
    for (int32_t i = f.rows - 1; i >= 0; --i) {
        std::swap(words[(size_t)i], words[(size_t)random_int(&r, 0, i)]);
        voxel v = word_unpack(layout, words[(size_t)i]);
        f.coords.insert(f.coords.end(), {v.x, v.y, v.z});
        f.batch.push_back(v.batch);
    }
    f.values.resize((size_t)f.rows * (size_t)channels);
    reference_random_values(&r, numeric_f32, 1, (int64_t)f.values.size(), f.values.data());
    return f;
}

// What a frame is in front of the network, by the host loops.
template <typename W>
struct frame_voxels {
    std::vector<W> words; // cut off at the capacity
    int64_t needed;       // voxels, if they are more than the capacity; else 0
    std::vector<char> features;
};

template <typename W>
frame_voxels<W> frame_voxelized(const frame *f, const word_layout *layout,
                                const net_limits *limits) {
    frame_voxels<W> v;
    int32_t rows = f->rows, count = 0;
    std::vector<int32_t> voxel((size_t)rows + 1), order((size_t)rows + 1), begin((size_t)rows + 1);
    begin.resize(std::max(begin.size(), (size_t)limits->voxels + 1));
    std::vector<W> words((size_t)limits->voxels);
    device_status trouble = {};
    int32_t none[3] = {0, 0, 0};
    voxel_input in = {};
    in.coords = rows ? f->coords.data() : none;
    in.batch = rows ? f->batch.data() : none;
    in.count = &rows;
    in.rows = std::max(rows, 1);
    in.columns = 3;
    voxel_rows where = {voxel.data(), order.data(), begin.data()};
    size_t bytes = voxelize_host_workspace<W>(&in);
    voxel_set<W> set = {words.data(), &count, limits->voxels};
    CHECK_OK(voxelize_host<W>(layout, &in, set, where, &trouble, guarded_new<char>((int64_t)bytes),
                              bytes));
    v.needed = trouble.needed;
    v.words.assign(words.begin(), words.begin() + count);
    v.features.resize((size_t)(count * limits->channels * numeric_size(limits->type)) + 1);
    CHECK_OK(voxel_features_host(voxel_feature_mean, rows ? f->values.data() : (float *)none,
                                 limits->channels, limits->channels, where, count, limits->type,
                                 v.features.data()));
    v.features.pop_back();
    return v;
}

// ---- a network with all that it has in device memory --------------------------------------------

// Every buffer has its exact size.
template <typename W>
struct device_net {
    const network *net;
    std::unique_ptr<net_plan> plan;
    std::vector<float> params;
    voxel_input in;
    voxel_set<W> set;
    voxel_rows rows;
    float *values;
    char *features, *loaded, *memory, *scratch;
    size_t scratch_bytes;
    device_status *trouble;
};

net_limits limits_make(const network *n, numeric type, int32_t voxels, bool keep_all) {
    net_limits limits = {};
    limits.voxels = voxels;
    limits.channels = n->input_channels;
    limits.type = type;
    limits.count_pairs = limits.keep_all = keep_all;
    return limits;
}

template <typename W>
word_layout layout_make(const network *n) {
    return reference_net_layout<W>(n, scene_lo, scene_hi, scene_batches);
}

// Rows for twice the capacity: more than fit.
template <typename W>
device_net<W> device_net_make(const network *n, const net_limits *limits) {
    device_net<W> d = {};
    d.net = n;
    d.plan.reset(new net_plan);
    word_layout layout = layout_make<W>(n);
    CHECK_OK(net_plan_device<W>(n->layers, n->count, &layout, limits, d.plan.get()));
    d.params.resize((size_t)d.plan->params + 1);
    networks::network_weights(d.plan.get(), 5, d.params.data());
    int32_t most = 3 * limits->voxels;
    d.in.coords = device_new<int32_t>(3 * most);
    d.in.batch = device_new<int32_t>(most);
    d.in.count = device_zeros<int32_t>(1);
    d.in.rows = most;
    d.in.columns = 3;
    d.set = {device_new<W>(limits->voxels), device_new<int32_t>(1), limits->voxels};
    d.rows = {device_new<int32_t>(most), device_new<int32_t>(most),
              device_new<int32_t>(limits->voxels + 1)};
    d.values = device_new<float>((int64_t)most * limits->channels);
    d.features =
        device_new<char>((int64_t)limits->voxels * limits->channels * numeric_size(limits->type));
    d.trouble = device_zeros<device_status>(1);
    d.memory = device_new<char>((int64_t)d.plan->workspace_bytes);
    CHECK_OK(voxelize_workspace<W>(&d.in, limits->voxels, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    d.loaded = device_new<char>((int64_t)d.plan->loaded_bytes);
    CHECK_OK(net_load(d.plan.get(), device_upload(d.params.data(), (int64_t)d.params.size()),
                      d.loaded, d.plan->loaded_bytes, nullptr));
    CHECK(expect_no_cuda_error());
    return d;
}

template <typename W>
void device_net_upload(const device_net<W> *d, const frame *f) {
    if (f->rows) {
        device_copy_in((int32_t *)d->in.coords, f->coords.data(), (int64_t)f->coords.size());
        device_copy_in((int32_t *)d->in.batch, f->batch.data(), (int64_t)f->batch.size());
        device_copy_in(d->values, f->values.data(), (int64_t)f->values.size());
    }
    device_copy_in((int32_t *)d->in.count, &f->rows, 1);
}

// From rows to a voxel set with features.
template <typename W>
status device_net_voxelize(const device_net<W> *d, cudaStream_t stream) {
    const net_limits *limits = &d->plan->limits;
    SPIRA_TRY(device_status_clear(d->trouble, stream));
    SPIRA_TRY(voxelize<W>(&d->plan->layout, &d->in, d->set, d->rows, d->trouble, d->scratch,
                          d->scratch_bytes, stream));
    return voxel_features(voxel_feature_mean, d->values, limits->channels, limits->channels,
                          d->rows, d->set.count, limits->voxels, limits->type, d->features, stream);
}

// From rows to the features of the last layer.
template <typename W>
status device_net_run(const device_net<W> *d, cudaStream_t stream) {
    SPIRA_TRY(device_net_voxelize(d, stream));
    return net_run(d->plan.get(), d->set, d->features, d->loaded, d->trouble, d->memory,
                   d->plan->workspace_bytes, stream);
}

// Nothing of an earlier run is left in the workspace.
template <typename W>
void device_net_forget(const device_net<W> *d, int byte) {
    if (!test_environment("SPIRA_UNPOISONED")) {
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemset(d->memory, byte, d->plan->workspace_bytes));
        CUDA_CHECK(cudaDeviceSynchronize());
    }
}

// ---- what a run has left ------------------------------------------------------------------------

template <typename W>
struct result {
    device_status trouble;
    std::vector<W> words[net_sets_max]; // to the count
    std::vector<int32_t> pairs[net_maps_max];
    std::vector<char> features[1 + net_layers_max]; // of the layers that are kept; [0]: the input's
};

template <typename T>
std::vector<T> fetch(const void *device, int64_t count) {
    std::vector<T> host((size_t)count);
    if (count) {
        device_copy_out(host.data(), (const T *)device, count);
    }
    return host;
}

bool layer_is_kept(const net_plan *p, int layer) {
    return p->limits.keep_all || p->layers[layer].keep || layer == p->layer_count - 1;
}

// All that is written, and no more: sets, pairs, features up to the counts.
template <typename W>
result<W> result_fetch(const device_net<W> *d) {
    result<W> r;
    const net_plan *p = d->plan.get();
    const int64_t size = numeric_size(p->limits.type);
    r.trouble = device_value(d->trouble);
    for (int s = 0; s < p->sets; ++s) {
        voxel_set<W> set = net_voxels(p, s, d->set, d->memory);
        int32_t count = device_value(set.count);
        r.words[s] = fetch<W>(set.words, set.capacity);
        CHECK(count >= 0 && count <= set.capacity);
        size_t most = (size_t)std::min(std::max(count, 0), set.capacity);
        for (size_t i = most; i < r.words[s].size(); ++i) {
            CHECK_EQUAL(r.words[s][i], word_none<W>());
        }
        r.words[s].resize(most);
    }
    for (int m = 0; m < p->maps && p->limits.count_pairs; ++m) {
        r.pairs[m] = fetch<int32_t>(d->memory + p->map[m].pairs, p->map[m].volume);
    }
    r.features[0] =
        fetch<char>(d->features, (int64_t)r.words[0].size() * p->limits.channels * size);
    for (int i = 0; i < p->layer_count; ++i) {
        if (layer_is_kept(p, i)) {
            int64_t rows = (int64_t)r.words[p->step[i].set].size();
            r.features[1 + i] =
                fetch<char>(d->memory + p->step[i].features, rows * p->step[i].channels * size);
        }
    }
    return r;
}

char finding[128]; // the first difference

// Empty if two results are the same to the bit. `all`: also what only one of them kept.
template <typename W>
const char *difference(const result<W> &a, const result<W> &b, bool all) {
    snprintf(finding, sizeof finding, "the status");
    if (memcmp(&a.trouble, &b.trouble, sizeof a.trouble) != 0) {
        return finding;
    }
    for (int s = 0; s < net_sets_max; ++s) {
        snprintf(finding, sizeof finding, "set %d", s);
        if (a.words[s] != b.words[s]) {
            return finding;
        }
    }
    for (int m = 0; m < net_maps_max; ++m) {
        snprintf(finding, sizeof finding, "pairs of map %d", m);
        if (a.pairs[m] != b.pairs[m] && (all || (a.pairs[m].size() && b.pairs[m].size()))) {
            return finding;
        }
    }
    for (int i = 0; i <= net_layers_max; ++i) {
        snprintf(finding, sizeof finding, "features of layer %d", i - 1);
        if (a.features[i] != b.features[i] &&
            (all || (a.features[i].size() && b.features[i].size()))) {
            return finding;
        }
    }
    return "";
}

template <typename W>
reference_net_run<W> result_judged(const device_net<W> *d, const result<W> *r) {
    reference_net_run<W> j;
    j.net = d->net;
    j.plan = d->plan.get();
    j.sets = reference_net_index(j.plan, r->words[0].data(), (int32_t)r->words[0].size());
    j.params = d->params.data();
    for (int i = 0; i <= d->net->count; ++i) {
        j.feature[i] = r->features[i].data();
    }
    return j;
}

// A result against the host: input, sets, pairs and status exactly, each layer of a network that
// keeps all of them within its bounds.
template <typename W>
void check_result(const device_net<W> *d, const frame *f, const result<W> &r) {
    const net_plan *p = d->plan.get();
    frame_voxels<W> input = frame_voxelized<W>(f, &p->layout, &p->limits);
    CHECK(r.words[0] == input.words);
    REQUIRE(CHECK_EQUAL(r.words[0].size(), input.words.size()));
    CHECK(r.features[0] == input.features);
    reference_net_run<W> judged = result_judged(d, &r);
    bool sets_good = true;
    for (int s = 0; s < p->sets; ++s) {
        sets_good = CHECK(r.words[s] == judged.sets.set[s]) && sets_good;
    }
    int64_t needed = std::max(input.needed, judged.sets.needed);
    status s = device_status_read(&r.trouble);
    CHECK_STATUS(s, needed ? status_capacity : status_ok);
    CHECK_EQUAL(s.detail, needed);
    REQUIRE(sets_good && p->limits.keep_all);
    for (int i = 0; i < d->net->count; ++i) {
        if (p->step[i].map == net_none) {
            continue;
        }
        const std::vector<int32_t> &pairs = r.pairs[p->step[i].map];
        std::vector<int32_t> map = reference_net_map(d->net, p, &judged.sets, i);
        std::vector<int32_t> expected(pairs.size());
        for (size_t e = 0; e + 1 < map.size(); ++e) {
            expected[e % pairs.size()] += map[e] >= 0;
        }
        CHECK(pairs == expected);
    }
    CHECK(reference_net_good(&judged, false));
}

// The rows behind the voxels are as they were: for the first run in a workspace.
template <typename W>
void check_spare_rows(const device_net<W> *d, const result<W> &r) {
    const net_plan *p = d->plan.get();
    for (int i = 0; i < p->layer_count; ++i) {
        const net_step *step = &p->step[i];
        int64_t row = (int64_t)step->channels * numeric_size(p->limits.type);
        CHECK(device_untouched(d->memory + step->features, (int64_t)r.words[step->set].size() * row,
                               p->set[step->set].capacity * row));
    }
}

// Runs a frame through a network that keeps everything and judges it all; then through one that
// shares its memory, which must not change a bit.
template <typename W>
void check_network(const network *n, numeric type, int32_t voxels, int32_t capacity,
                   uint64_t seed) {
    net_limits limits = limits_make(n, type, capacity, true);
    device_net<W> d = device_net_make<W>(n, &limits);
    frame f = frame_make<W>(seed, &d.plan->layout, voxels, n->input_channels);
    device_net_upload(&d, &f);
    CHECK_OK(device_net_run(&d, nullptr));
    result<W> kept = result_fetch(&d);
    check_result(&d, &f, kept);
    check_spare_rows(&d, kept);

    limits = limits_make(n, type, capacity, false);
    device_net<W> shared = device_net_make<W>(n, &limits);
    CHECK(shared.plan->workspace_bytes <= d.plan->workspace_bytes);
    device_net_upload(&shared, &f);
    CHECK_OK(device_net_run(&shared, nullptr));
    CHECK_EQUAL(difference(result_fetch(&shared), kept, false), "");
    CHECK(expect_no_cuda_error());
    guarded_finish();
}

// Names live in the network: it is not copied.
void network_named(const char *name, network *n) {
    if (!networks::network_make(name, n)) {
        reference_net_zoo(n);
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
        device_net_upload(&d, &f);
        CHECK_OK(device_net_run(&d, nullptr));
        result<uint32_t> first = result_fetch(&d);
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
    device_net_upload(&d, &f);
    CHECK_OK(device_net_run(&d, nullptr));
    result<uint32_t> whole = result_fetch(&d);
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
        device_net_upload(&d, &f);
        CHECK_OK(device_net_run(&d, nullptr));
        result<uint32_t> r = result_fetch(&d);
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
    device_net_upload(&d, &large);
    CHECK_OK(device_net_run(&d, nullptr));
    result<W> r = result_fetch(&d);
    CHECK_STATUS(device_status_read(&r.trouble), status_capacity);
    CHECK_EQUAL(r.words[1].size(), (size_t)room);
    check_result(&d, &large, r);
    check_spare_rows(&d, r);
    device_net_upload(&d, &small);
    CHECK_OK(device_net_run(&d, nullptr));
    r = result_fetch(&d);
    CHECK_OK(device_status_read(&r.trouble));
    check_result(&d, &small, r);
    guarded_finish();
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

// Captures a run in a blocking stream, in the strictest mode: a launch on the default stream, an
// allocation or a wait makes an error of it. Null if it could not be captured.
template <typename W>
cudaGraphExec_t device_net_capture(const device_net<W> *d) {
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_OK(device_net_run(d, stream));
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    if (CHECK(graph != nullptr)) {
        size_t count = 0;
        CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
        std::vector<cudaGraphNode_t> nodes(count);
        CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
        CHECK(count >= (size_t)d->plan->layer_count);
        for (cudaGraphNode_t node : nodes) {
            cudaGraphNodeType type;
            CUDA_CHECK(cudaGraphNodeGetType(node, &type));
            CHECK(type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset ||
                  type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeEmpty);
        }
        CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
        CUDA_CHECK(cudaGraphDestroy(graph));
    }
    CUDA_CHECK(cudaStreamDestroy(stream));
    return replay;
}

// One graph, captured once for a capacity, over frames of all sizes up to it and beyond. Each frame
// gives what a run without a graph gives in a workspace without a past, and, where all layers are
// kept, what the host says.
template <typename W>
void check_replays(const char *name, numeric type, bool keep_all) {
    network n;
    network_named(name, &n);
    const int32_t most = test_quick() ? 150 : 1100;
    net_limits limits = limits_make(&n, type, most, keep_all);
    device_net<W> d = device_net_make<W>(&n, &limits), fresh = device_net_make<W>(&n, &limits);
    frame none = frame_make<W>(15, &d.plan->layout, 0, n.input_channels);
    device_net_upload(&d, &none);
    CHECK_OK(device_net_run(&d, nullptr)); // kernels are loaded at their first launch
    CHECK(expect_no_cuda_error());
    cudaGraphExec_t replay = device_net_capture(&d);
    REQUIRE(replay != nullptr);
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const int32_t voxels[] = {most / 2, 0,        1, most,     most + 1, most / 3,
                              2 * most, most - 1, 0, 2 * most, 1,        most / 2 + 1};
    const int frames = test_quick() ? 7 : 12;
    for (int i = 0; i < frames; ++i) {
        frame f = frame_make<W>(16 + (uint64_t)i, &d.plan->layout, voxels[i], n.input_channels);
        device_net_upload(&d, &f);
        CUDA_CHECK(cudaGraphLaunch(replay, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        result<W> got = result_fetch(&d);
        status s = device_status_read(&got.trouble);
        CHECK_STATUS(s, voxels[i] > most ? status_capacity : status_ok);
        CHECK_EQUAL(s.detail, voxels[i] > most ? voxels[i] : 0);
        CHECK_EQUAL(got.words[0].size(), (size_t)std::min(voxels[i], most));
        device_net_forget(&fresh, 0xff);
        device_net_upload(&fresh, &f);
        CHECK_OK(device_net_run(&fresh, nullptr));
        CHECK_EQUAL(difference(got, result_fetch(&fresh), true), "");
        if (keep_all) {
            check_result(&d, &f, got);
        }
        CUDA_CHECK(cudaGraphLaunch(replay, stream)); // again, on what it left
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CHECK_EQUAL(difference(result_fetch(&d), got, true), "");
    }
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CUDA_CHECK(cudaStreamDestroy(stream));
    guarded_finish();
}

} // namespace

DEVICE_TEST(gpu_net_graph_replays_zoo) {
    check_replays<uint32_t>("zoo", numeric_f16, true);
    check_replays<uint64_t>("zoo", numeric_bf16, true);
    if (!test_quick()) {
        check_replays<uint32_t>("zoo", numeric_tf32, true);
        check_replays<uint64_t>("zoo", numeric_f32, true);
    }
}

DEVICE_TEST(gpu_net_graph_replays_minkunet42) {
    check_replays<uint32_t>("MinkUNet42", numeric_f16, false);
    if (!test_quick()) {
        check_replays<uint64_t>("MinkUNet42", numeric_f16, false);
        check_replays<uint32_t>("MinkUNet42", numeric_bf16, false);
        check_replays<uint32_t>("MinkUNet42", numeric_tf32, false);
        check_replays<uint64_t>("MinkUNet42", numeric_f32, false);
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
        return net_run(plan, set, features, loaded, trouble, memory, size, nullptr);
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
