// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/nets.cuh: frames, a planned network with its device memory, and the results of its
// runs: for the GPU tests of networks.
#ifndef SPIRA_TESTS_NETS_CUH
#define SPIRA_TESTS_NETS_CUH

#include "device.cuh"
#include "gpu.cuh"
#include "net_tables.h"
#include "reference_net.h"
#include "shared.cuh"

namespace nets {

using namespace spira;
using networks::network;

inline const triple scene_lo = {-20, -11, -9}, scene_hi = {21, 14, 8};
enum { scene_batches = 2 };

// ---- networks -----------------------------------------------------------------------------------

// Four layers, all of the finest set.
inline void network_fine(network *n) {
    networks::network_conv(n, "in", net_input, 16, 3, 1);
    networks::network_conv(n, "flat", 0, 32, 1, 1);
    int pool = reference_net_pool(n, net_pool_max, 1, {1, 1, 3}, {1, 1, 1});
    networks::network_conv(n, "out", pool, 32, 5, 1);
    n->layers[3].residual = net_from(1);
}

// Its first layer already needs a coarser set.
inline void network_strided(network *n) {
    networks::network_conv(n, "down", net_input, 16, 3, 2);
    networks::network_conv(n, "coarse", 0, 16, 3, 1);
    networks::network_conv(n, "up", 1, 16, 3, 2);
    n->layers[2].transposed = true;
    networks::network_conv(n, "fine", 2, 16, 3, 1);
}

// Begins with pooling, on the finest set and from it.
inline void network_pooled(network *n) {
    int smooth = reference_net_pool(n, net_pool_average, net_input, {3, 3, 1}, {1, 1, 1});
    int coarse = reference_net_pool(n, net_pool_max, smooth, {2, 2, 2}, {2, 2, 2});
    int up = networks::network_conv(n, "up", coarse, 16, 2, 2);
    n->layers[up].transposed = true;
    networks::network_conv(n, "both", up, 16, 3, 1);
    n->layers[n->count - 1].source2 = net_from(smooth);
}

// A network of the examples, the zoo, or one of those above. The names of the layers live in it: it
// must not be copied.
inline void network_named(const char *name, network *n) {
    static const struct {
        const char *name;
        void (*make)(network *n);
    } small[] = {{"fine", network_fine},
                 {"strided", network_strided},
                 {"pooled", network_pooled},
                 {"encoder", tables::network_encoder},
                 {"flat", tables::network_flat},
                 {"mixed", tables::network_mixed},
                 {"gated", tables::network_gated},
                 {"grouped", tables::network_grouped},
                 {"sliced", tables::network_sliced},
                 {"grown", tables::network_grown},
                 {"bounded", tables::network_bounded},
                 {"divided", tables::network_divided}};
    if (networks::network_make(name, n)) {
        return;
    }
    reference_net_zoo(n);
    for (const auto &s : small) {
        if (strcmp(s.name, name) == 0) {
            n->count = 0;
            s.make(n);
            if (!reference_net_floors(n)) { // its extent includes the bounds of the frames
                n->grid = {{-24, -16, -16}, {48, 32, 32}};
            }
        }
    }
}

inline const numeric types[] = {numeric_f16, numeric_bf16, numeric_tf32, numeric_f32};

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

// The voxels and features of a frame, by the host loops.
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
    size_t bytes = 0;
    CHECK_OK(voxelize_host_workspace<W>(&in, &bytes));
    voxel_set<W> set = {words.data(), &count, limits->voxels};
    const voxelize_args<W> args = {layout, &in, set, where, &trouble};
    CHECK_OK(voxelize_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    v.needed = trouble.needed;
    v.words.assign(words.begin(), words.begin() + count);
    v.features.resize((size_t)(count * limits->channels * numeric_size(limits->type)) + 1);
    voxel_features_args<W> mean = {};
    mean.kind = voxel_feature_mean;
    mean.values = rows ? f->values.data() : (float *)none;
    mean.columns = mean.channels = limits->channels;
    mean.rows = where;
    mean.set = set;
    mean.type = limits->type;
    mean.features = v.features.data();
    CHECK_OK(voxel_features_host(&mean));
    v.features.pop_back();
    return v;
}

// ---- a network in device memory -----------------------------------------------------------------

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
    const net_side *side; // null: runs use one stream
};

// keep_all: keeps the features of every layer that is not fused into another.
SPIRA_API net_limits limits_make(const network *n, numeric type, int32_t voxels, bool keep_all) {
    net_limits limits = {};
    limits.voxels = voxels;
    limits.channels = n->input_channels;
    limits.type = type;
    limits.grid = n->grid;
    limits.batch = scene_batches;
    limits.count_pairs = limits.keep_all = keep_all;
    limits.shortcuts = keep_all ? net_shortcuts_hidden : net_shortcuts_within;
    return limits;
}

template <typename W>
word_layout layout_make(const network *n) {
    return reference_net_layout<W>(n, scene_lo, scene_hi, scene_batches);
}

// There is room for three times as many rows as voxels fit.
template <typename W>
device_net<W> device_net_make(const network *n, const net_limits *limits) {
    device_net<W> d = {};
    d.net = n;
    d.plan.reset(new net_plan);
    word_layout layout = layout_make<W>(n);
    CHECK_OK(net_plan_device<W>(gpu(), n->layers, n->count, &layout, limits, d.plan.get()));
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
    d.memory = device_new_poisoned<char>((int64_t)d.plan->workspace_bytes);
    CHECK_OK(voxelize_workspace<W>(&d.in, limits->voxels, &d.scratch_bytes));
    d.scratch = device_new<char>((int64_t)d.scratch_bytes);
    d.loaded = device_new<char>((int64_t)d.plan->loaded_bytes);
    const float *params = device_upload(d.params.data(), (int64_t)d.params.size());
    const net_load_args load = {params, d.loaded, d.plan->loaded_bytes, nullptr};
    CHECK_OK(shared_net<W>().net_load(gpu(), d.plan.get(), &load, nullptr));
    CHECK(expect_no_cuda_error());
    return d;
}

// The arguments of its runs.
template <typename W>
net_run_args<W> device_net_args(const device_net<W> *d) {
    net_run_args<W> run = {};
    run.input = d->set;
    run.features = d->features;
    run.loaded = d->loaded;
    run.trouble = d->trouble;
    run.memory = d->memory;
    run.bytes = d->plan->workspace_bytes;
    run.side = d->side;
    return run;
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
    const voxelize_args<W> args = {&d->plan->layout, &d->in, d->set, d->rows, d->trouble};
    SPIRA_TRY(shared_net<W>().voxelize(&args, d->scratch, d->scratch_bytes, stream));
    voxel_features_args<W> mean = {};
    mean.kind = voxel_feature_mean;
    mean.values = d->values;
    mean.columns = mean.channels = limits->channels;
    mean.rows = d->rows;
    mean.set = d->set;
    mean.type = limits->type;
    mean.features = d->features;
    return shared_net<W>().voxel_features(&mean, stream);
}

// A second stream for runs, the same for all.
inline const net_side *side_get() {
    static net_side side = {};
    if (!side.stream) {
        side.stream = device_follower_make();
        CUDA_CHECK(cudaEventCreateWithFlags(&side.begun, cudaEventDisableTiming));
        CUDA_CHECK(cudaEventCreateWithFlags(&side.indexed, cudaEventDisableTiming));
    }
    return &side;
}

// From rows to the features of the last layer.
template <typename W>
status device_net_run(const device_net<W> *d, cudaStream_t stream) {
    SPIRA_TRY(device_net_voxelize(d, stream));
    const net_run_args<W> run = device_net_args(d);
    return shared_net<W>().net_run(gpu(), d->plan.get(), &run, stream);
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

// ---- the results of a run -----------------------------------------------------------------------

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

// Derived from the table and the limits, not from lifetimes.
SPIRA_API bool layer_is_kept(const net_plan *p, int layer) {
    return p->step[layer].fused_into == net_none &&
           (p->limits.keep_all || p->layers[layer].keep || layer == p->layer_count - 1);
}

// Everything that a run writes and no more: sets, pairs, features up to the counts.
template <typename W>
result<W> result_fetch(const device_net<W> *d) {
    result<W> r;
    const net_plan *p = d->plan.get();
    const net_run_args<W> run = device_net_args(d);
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
    r.features[0] = fetch<char>(d->features, (int64_t)r.words[0].size() * p->limits.channels *
                                                 numeric_size(p->limits.type));
    for (int i = 0; i < p->layer_count; ++i) {
        const net_result<W> layer = net_output(p, i, &run);
        CHECK_EQUAL(layer.features != nullptr, layer_is_kept(p, i));
        if (layer.features) {
            int64_t rows = (int64_t)r.words[p->step[i].set].size();
            rows = layer.batch ? (int64_t)layer.batch * layer.height * layer.width : rows;
            r.features[1 + i] =
                fetch<char>(layer.features, rows * layer.channels * numeric_size(layer.type));
        }
    }
    return r;
}

// The results of a run without a graph.
template <typename W>
result<W> device_net_result(const device_net<W> *d, const frame *f) {
    device_net_upload(d, f);
    CHECK_OK(device_net_run(d, nullptr));
    return result_fetch(d);
}

inline char finding[128]; // the first difference

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

// Features without rows have an address too: host loops refuse null pointers, as kernels do.
template <typename W>
reference_net_run<W> result_judged(const device_net<W> *d, const result<W> *r) {
    static const float none[1] = {};
    reference_net_run<W> j;
    j.net = d->net;
    j.plan = d->plan.get();
    j.params = d->params.data();
    for (int i = 0; i <= d->net->count; ++i) {
        j.feature[i] = r->features[i].empty() ? (const void *)none : r->features[i].data();
    }
    j.sets =
        reference_net_index(j.plan, r->words[0].data(), (int32_t)r->words[0].size(), j.feature);
    return j;
}

// Compares a result with the host: input, sets, pairs and status exactly, each layer within its
// bounds. The network keeps all layers.
template <typename W>
void check_result(const device_net<W> *d, const frame *f, const result<W> &r) {
    const net_plan *p = d->plan.get();
    frame_voxels<W> input = frame_voxelized<W>(f, &p->layout, &p->limits);
    CHECK(r.words[0] == input.words);
    REQUIRE(CHECK_EQUAL(r.words[0].size(), input.words.size()));
    CHECK(r.features[0] == input.features);
    REQUIRE(p->limits.keep_all || !p->stages);
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
        if (p->step[i].map == net_none || !p->limits.count_pairs) {
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
    CHECK(reference_net_good(&judged));
}

// ---- one graph ----------------------------------------------------------------------------------

// A run of an empty frame, which loads the kernels, and its graph. Null if it could not be
// captured.
template <typename W>
cudaGraphExec_t device_net_capture(const device_net<W> *d) {
    frame none = frame_make<W>(0, &d->plan->layout, 0, d->net->input_channels);
    device_net_upload(d, &none);
    CHECK_OK(device_net_run(d, nullptr));
    CHECK(expect_no_cuda_error());
    return stream_capture([&](cudaStream_t stream) { CHECK_OK(device_net_run(d, stream)); },
                          (size_t)d->plan->layer_count);
}

inline bool graph_replay(cudaGraphExec_t replay) {
    return CUDA_CHECK(cudaGraphLaunch(replay, stream_get())) &&
           CUDA_CHECK(cudaStreamSynchronize(stream_get()));
}

// The device status of a frame with this many voxels: a frame that exceeds the capacity is clamped
// and recorded, and the next one is not affected.
template <typename W>
bool check_told(const device_net<W> *d, int32_t voxels) {
    int32_t most = d->plan->limits.voxels;
    device_status trouble = device_value(d->trouble);
    status s = device_status_read(&trouble);
    bool good = CHECK_EQUAL(device_value(d->set.count), std::min(voxels, most));
    good = CHECK_STATUS(s, voxels > most ? status_capacity : status_ok) && good;
    return CHECK_EQUAL(s.detail, voxels > most ? voxels : 0) && good;
}

} // namespace nets

#endif
