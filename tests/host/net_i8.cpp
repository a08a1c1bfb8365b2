// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/net_i8.cpp: networks with int8 layers: which features are int8, what is refused, and
// runs on the host against tests/support/net_i8.h.
#include "../support/net_i8.h"
#include "../support/net_plans.h"

#include "../../spira/net_blob.h"

using namespace i8net;

namespace {

const triple scene_lo = {-20, -11, -9}, scene_hi = {21, 14, 8};

net_limits limits_dense(const network *n, int32_t voxels) {
    net_limits limits = limits_make(voxels, n->input_channels);
    limits.grid = {
        scene_lo,
        {scene_hi.x - scene_lo.x + 1, scene_hi.y - scene_lo.y + 1, scene_hi.z - scene_lo.z + 1}};
    limits.batch = 2;
    return limits;
}

status plan_of(const network *n, const net_limits *limits, net_plan *plan) {
    return net_plan_sets(n->layers, n->count, limits, false, plan);
}

int layer_of(const network *n, const char *name) {
    for (int i = 0; i < n->count; ++i) {
        if (!strcmp(n->layers[i].name, name)) {
            return i;
        }
    }
    return -2;
}

// The network of the tests, with ranges.
struct everything {
    network net;
    net_limits limits;
    net_plan plan;
};

std::unique_ptr<everything> everything_new(bool first) {
    std::unique_ptr<everything> e(new everything);
    network_everything(&e->net, first);
    e->limits = limits_dense(&e->net, 900);
    ranges_make(&e->net, &e->limits);
    CHECK_OK(plan_of(&e->net, &e->limits, &e->plan));
    return e;
}

} // namespace

// ---- planning -----------------------------------------------------------------------------------

TEST(net_i8_readers_decide_the_format) {
    for (bool first : {false, true}) {
        const std::unique_ptr<everything> e = everything_new(first);
        CHECK_EQUAL(e->plan.input_type, first ? numeric_i8 : numeric_f32);
        CHECK_EQUAL(e->plan.input_scale, first ? 1.1f / 127 : 0);
        for (int i = 0; i < e->net.count; ++i) {
            const net_step *step = &e->plan.step[i];
            const net_layer *l = &e->net.layers[i];
            const bool floats = i >= layer_of(&e->net, "last") || !strcmp(l->name, "beside");
            const bool pools = l->op == net_pool_max || l->op == net_pool_average;
            CHECK_EQUAL(step->type, floats ? numeric_f32 : numeric_i8);
            CHECK_EQUAL(step->scale, floats  ? 0
                                     : pools ? e->plan.step[net_number(l->source)].scale
                                             : l->range / 127);
            CHECK(l->op != net_conv || step->shape.type == (i || first ? numeric_i8 : numeric_f32));
            CHECK_EQUAL(net_params_of(&e->plan, i).step >= 0, l->op == net_conv && (i || first));
        }
    }
}

TEST(net_i8_dense_maps_may_stay_int8) {
    const std::unique_ptr<everything> e = everything_new(false);
    const int map = e->net.count - 1, last = map - 1;
    e->net.layers[map].format = net_format_i8;
    REQUIRE_OK(plan_of(&e->net, &e->limits, &e->plan));
    CHECK(e->plan.step[last].type == numeric_i8 && e->plan.step[map].type == numeric_i8);
    CHECK_EQUAL(e->plan.step[map].scale, e->net.layers[last].range / 127);
}

// Layers that share a source with the first ones, or with a product, stay as they are.
TEST(net_i8_formats_are_consistent) {
    network n;
    tables::network_gated(&n);
    net_formats_i8(n.layers, n.count);
    net_limits limits = limits_make(100, n.input_channels);
    net_plan plan;
    ranges_make(&n, &limits);
    CHECK_OK(plan_of(&n, &limits, &plan));
    CHECK(n.layers[layer_of(&n, "gate")].format == net_format_same);
    for (const char *name : {"MinkUNet42", "VoxelBackBone8x", "SpMiddleResNetFHD", "VoxelNeXt",
                             "SpUNet-v1m1", "SparseResNet21"}) {
        REQUIRE(networks::network_make(name, &n));
        net_formats_i8(n.layers, n.count);
        int i8 = 0;
        for (int i = 0; i < n.count; ++i) {
            i8 += net_is_i8(&n.layers[i]);
        }
        limits = limits_make(100, n.input_channels);
        limits.grid = n.grid;
        limits.batch = n.batch;
        ranges_make(&n, &limits);
        CHECK_OK(plan_of(&n, &limits, &plan));
        CHECK(i8 >= n.count - 5 && plan.input_type == numeric_f32);
    }
}

TEST(net_i8_planning_names_what_is_wrong) {
    const std::unique_ptr<everything> good = everything_new(false);
    const int in = layer_of(&good->net, "in"), both = layer_of(&good->net, "both"),
              pool = layer_of(&good->net, "pool"), low = layer_of(&good->net, "low.conv1"),
              up = layer_of(&good->net, "up"), last = layer_of(&good->net, "last");
    const struct {
        int layer, at; // where it is planted, where it is found
        const char *words;
        void (*plant)(net_layer *l);
    } faults[] = {
        {in, in, "range (0", [](net_layer *l) { l->range = 0; }},
        {both, both, "range (0", [](net_layer *l) { l->range = 0; }},
        {up, up, "range (0", [](net_layer *l) { l->range = 1e-44f; }},
        {low, low, "range (NaN", [](net_layer *l) { l->range = NAN; }},
        {low, low, "range (NaN", [](net_layer *l) { l->range = INFINITY; }},
        {last, last, "range (NaN", [](net_layer *l) { l->range = -1; }},
        {pool, pool, "range (the operation", [](net_layer *l) { l->range = 1; }},
        {pool, pool, "format (int8", [](net_layer *l) { l->format = net_format_i8; }},
        {both, both, "format (int8", [](net_layer *l) { l->format = net_format_i8; }},
        {low, low - 2, "an int8 layer and one", [](net_layer *l) { l->format = net_format_same; }},
        {low, low, "format (an unknown", [](net_layer *l) { l->format = (net_format)6; }},
        {up, up, "sums of int8",
         [](net_layer *l) {
             l->size = {13, 13, 13};
         }},
    };
    for (const auto &f : faults) {
        everything e = *good;
        for (int i = 0; i < e.net.count; ++i) {
            e.net.layers[i].name = good->net.layers[i].name;
        }
        f.plant(&e.net.layers[f.layer]);
        const status s = plan_of(&e.net, &e.limits, &e.plan);
        char text[200];
        snprintf(text, sizeof text, "\"%s\" of %d: got %d, layer %d, \"%s\"", f.words, f.layer,
                 (int)s.code, (int)s.detail, s.subject);
        test_check(s.code == status_layer && s.detail == f.at && strstr(s.subject, f.words),
                   __FILE__, __LINE__, text);
    }
    const std::unique_ptr<everything> first = everything_new(true);
    for (float range : {0.0f, NAN, -1.0f, INFINITY}) {
        first->limits.range = range;
        const status s = plan_of(&first->net, &first->limits, &first->plan);
        CHECK(s.code == status_unsupported && strstr(s.subject, "limits.range"));
    }
}

namespace {

// in, its scores, the operation, and a convolution that reads `reads`: 0 or 2.
status plan_of_operation(net_op op, bool other, int reads) {
    net_layer layers[] = {net_layer_conv("in", net_input, 16, 2, 2),
                          net_layer_conv("scores", 0, 8, 1, 1), net_layer_make("operation", op, 0),
                          net_layer_conv("last", reads, 16, 1, 1)};
    for (net_layer &l : layers) {
        l.range = net_members_of(&l) & net_member_range ? 1.0f : 0.0f;
    }
    layers[2].source2 = net_from(op == net_prune || op == net_children ? 1
                                 : op == net_product                   ? 0
                                                                       : net_none);
    layers[2].epsilon = net_members_of(&layers[2]) & net_member_epsilon ? 1e-5f : 0.0f;
    layers[2].groups = op == net_norm_groups ? 4 : 0;
    layers[2].capacity = op == net_children ? 800 : 0;
    if (op == net_group) {
        layers[2] = net_layer_group("operation", 0, 16, 16, 3, 1);
    }
    layers[other ? 2 : 3].format = net_format_i8;
    net_limits limits = limits_make(100, 4);
    net_plan plan;
    return net_plan_sets(layers, 4, &limits, false, &plan);
}

} // namespace

// Operations that have no int8: none computes in it, reads it, or writes what an int8 layer reads.
TEST(net_i8_operations_without_it_are_refused) {
    for (net_op op : {net_product, net_norm_layer, net_norm_rms, net_norm_groups, net_prune,
                      net_children, net_group}) {
        const status own = plan_of_operation(op, true, 2),
                     written = plan_of_operation(op, false, 2),
                     read = plan_of_operation(op, false, 0);
        CHECK(own.code == status_layer && own.detail == 2 && strstr(own.subject, "format (int8"));
        CHECK(written.code == status_layer && written.detail == 2 &&
              strstr(written.subject, "a layer whose operation has no int8"));
        CHECK(read.code == status_layer && read.detail == 0 &&
              strstr(read.subject, "an int8 layer and one that is not"));
    }
}

// CenterPoint's encoder takes at most 60 % of the memory for features that it takes in fp16.
TEST(net_i8_features_are_half) {
    size_t bytes[2] = {};
    for (int i8 = 0; i8 < 2; ++i8) {
        network n;
        REQUIRE(networks::network_make("SpMiddleResNetFHD", &n));
        net_limits limits = limits_make(60000, n.input_channels);
        limits.grid = n.grid;
        limits.batch = 1;
        limits.type = numeric_f16;
        n.count -= 1; // the dense map is the heads', whatever the encoder is
        if (i8) {
            net_formats_i8(n.layers, n.count);
            ranges_make(&n, &limits);
        }
        net_plan plan;
        REQUIRE_OK(net_plan_sets(n.layers, n.count, &limits, true, &plan));
        for (int i = 0; i < n.count; ++i) {
            net_place_features(&plan, i, 0);
        }
        bytes[i8] = plan.feature_bytes;
    }
    CHECK(bytes[1] * 10 <= bytes[0] * 6);
}

// ---- running ------------------------------------------------------------------------------------

namespace {

// A run of a network on a random scene, on the host, with all features kept.
template <typename W>
struct scene_run {
    net_plan plan;
    word_layout layout;
    std::vector<W> words;
    std::vector<float> params;
    std::vector<char> features;
    net_run_args<W> args;
    device_status trouble;
};

template <typename W>
std::unique_ptr<scene_run<W>> scene_run_new(const network *n, const net_limits *limits,
                                            int32_t count) {
    std::unique_ptr<scene_run<W>> r(new scene_run<W>);
    random_state random = random_make(11);
    r->layout = reference_net_layout<W>(n, scene_lo, scene_hi, 2);
    r->words.resize((size_t)limits->voxels + 1, word_none<W>());
    CHECK_EQUAL(reference_random_set(&random, &r->layout, scene_lo, scene_hi, {1, 1, 1}, count,
                                     r->words.data()),
                count);
    CHECK_OK(net_plan_host<W>(n->layers, n->count, &r->layout, limits, &r->plan));
    r->params.resize((size_t)r->plan.params + 1);
    networks::network_weights(&r->plan, 3, r->params.data());
    const net_params at = net_params_of(&r->plan, 1); // a channel of zeros
    for (int64_t w = at.weight; w < at.vectors; w += n->layers[1].channels) {
        r->params[(size_t)w] = 0;
    }
    CHECK_OK(net_params_steps(&r->plan, r->params.data()));
    CHECK_OK(net_params_check(&r->plan, r->params.data()));
    const int64_t values = (int64_t)limits->voxels * n->input_channels;
    r->features.resize((size_t)values * sizeof(float));
    for (int64_t i = 0; i < values; ++i) {
        const float x = random_float(&random);
        numeric_store(r->plan.input_type, r->features.data(), i,
                      r->plan.input_type == numeric_i8 ? x / r->plan.input_scale : x);
    }
    int32_t *const number = guarded_new<int32_t>(1);
    *number = count;
    r->trouble = {};
    r->args = {};
    r->args.input = {r->words.data(), number, limits->voxels};
    r->args.features = r->features.data();
    r->args.loaded = r->params.data();
    r->args.trouble = &r->trouble;
    r->args.bytes = r->plan.workspace_bytes;
    r->args.memory = guarded_new<char>((int64_t)r->args.bytes);
    return r;
}

template <typename W>
void check_run(bool first) {
    const std::unique_ptr<everything> e = everything_new(first);
    e->limits.keep_all = true;
    e->limits.shortcuts = net_shortcuts_hidden;
    const auto r = scene_run_new<W>(&e->net, &e->limits, 700);
    REQUIRE_OK(net_run_host(&r->plan, &r->args));
    CHECK_OK(device_status_read(&r->trouble));
    const int proj = layer_of(&e->net, "top.shortcut"), sum = layer_of(&e->net, "top.conv2");
    CHECK(r->plan.step[proj].fused_into == sum && r->plan.step[sum].shortcut == proj);
    CHECK_EQUAL(r->plan.step[layer_of(&e->net, "low.conv2")].shortcut, net_none); // narrow
    reference_net_run<W> j;
    j.net = &e->net;
    j.plan = &r->plan;
    j.sets = reference_net_index(&r->plan, r->words.data(), 700);
    j.params = r->params.data();
    j.feature[0] = r->features.data();
    for (int i = 0; i < e->net.count; ++i) {
        const net_result<W> result = net_output(&r->plan, i, &r->args);
        CHECK_EQUAL(result.scale, net_scale_of(&r->plan, i));
        j.feature[1 + i] = result.features;
    }
    for (int i = 0; i < e->net.count; ++i) {
        CHECK_EQUAL(layer_wrong(&j, i, 0x1p-23), 0);
    }
    const int64_t channels = r->plan.step[0].channels, rows = reference_net_voxels(&j, 0);
    const int8_t *in = (const int8_t *)j.feature[1];
    int64_t inside = 0; // neither 0 nor saturated
    for (int64_t i = 0; i < rows * channels; ++i) {
        inside += in[i] > 0 && in[i] < 127;
    }
    CHECK(inside > rows * channels / 8);
    CHECK(guarded_untouched(in, rows * channels, (int64_t)e->limits.voxels * channels));

    e->limits.keep_all = false; // in shared memory the last layer's features are the same
    const auto shared = scene_run_new<W>(&e->net, &e->limits, 700);
    REQUIRE_OK(net_run_host(&shared->plan, &shared->args));
    const int last = e->net.count - 1;
    CHECK(!memcmp(j.feature[1 + last], net_output(&shared->plan, last, &shared->args).features,
                  (size_t)2 * 24 * 42 * 26 * 18 * sizeof(float)));
    guarded_finish();
}

} // namespace

TEST(net_i8_host_is_the_formulas) {
    check_run<uint64_t>(false);
    check_run<uint32_t>(true);
}

// ---- against fake quantisation ------------------------------------------------------------------

namespace {

// The features of a run's layer, of fp32.
float *features_of(const scene_run<uint64_t> *r, int layer, int64_t *count) {
    const net_result<uint64_t> result = net_output(&r->plan, layer, &r->args);
    *count = result.batch ? (int64_t)result.batch * result.height * result.width * result.channels
                          : (int64_t)*result.set.count * result.channels;
    return (float *)result.features;
}

// Weights as int8 has them, in a network of fp32. i8: the plan and parameters of the int8 network
void weights_fake(const net_plan *i8, const float *params, const net_plan *plan, float *to) {
    for (int i = 0; i < plan->layer_count; ++i) {
        const net_params from = net_params_of(i8, i), at = net_params_of(plan, i);
        const conv_shape *s = &i8->step[i].shape;
        for (int64_t w = 0; from.step >= 0 && w < at.vectors - at.weight; ++w) {
            const bool second = w / s->cout % (s->cin + s->cin2) >= s->cin;
            const net_source source = second ? plan->layers[i].source2 : plan->layers[i].source;
            const float scale = net_scale_of(i8, net_number(source)),
                        step = params[from.step + w % s->cout];
            const float q = rintf(params[from.weight + w] * scale / step);
            to[at.weight + w] = fminf(fmaxf(q, -127), 127) * step / scale;
        }
    }
}

// Runs a network in fp32, with features rounded in place as int8 would have them. i8: or null, then
// nothing is
void run_fake(scene_run<uint64_t> *r, const net_plan *i8) {
    REQUIRE_OK(net_index_host(&r->plan, &r->args));
    for (int i = 0; i < r->plan.layer_count; ++i) {
        REQUIRE_OK(net_layer_run_host(&r->plan, i, &r->args));
        int64_t count;
        float *x = features_of(r, i, &count);
        for (int64_t n = 0; i8 && i8->step[i].type == numeric_i8 && n < count; ++n) {
            const float scale = i8->step[i].scale;
            x[n] = clamped(x[n] / scale) * scale;
        }
    }
}

double distance(const float *a, const float *b, int64_t count) {
    double square = 0, all = 0;
    for (int64_t i = 0; i < count; ++i) {
        square += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)a[i] * (double)a[i];
    }
    return sqrt(square / all);
}

} // namespace

// End to end, with ranges from a run in fp32, int8 is as far from fp32 as training frameworks'
// simulation is: at most 1.15 times.
TEST(net_i8_error_is_that_of_fake_quantisation) {
    const std::unique_ptr<everything> e = everything_new(false);
    e->limits.keep_all = true;
    network plain = e->net;
    for (int i = 0; i < plain.count; ++i) {
        plain.layers[i].format = net_format_same;
    }
    const auto exact = scene_run_new<uint64_t>(&plain, &e->limits, 700);
    run_fake(exact.get(), nullptr);
    for (int i = 0; i < e->net.count; ++i) {
        int64_t count;
        const float *x = features_of(exact.get(), i, &count);
        float most = 0;
        for (int64_t n = 0; n < count; ++n) {
            most = fmaxf(most, fabsf(x[n]));
        }
        const bool own = net_members_of(&e->net.layers[i]) & net_member_range;
        e->net.layers[i].range = own ? most : 0;
    }
    const auto int8 = scene_run_new<uint64_t>(&e->net, &e->limits, 700);
    REQUIRE_OK(net_run_host(&int8->plan, &int8->args));
    net_limits hidden = e->limits; // with fused shortcuts, whose weights are rounded otherwise
    hidden.shortcuts = net_shortcuts_hidden;
    const auto fused = scene_run_new<uint64_t>(&e->net, &hidden, 700);
    REQUIRE_OK(net_run_host(&fused->plan, &fused->args));
    const auto fake = scene_run_new<uint64_t>(&plain, &e->limits, 700);
    weights_fake(&int8->plan, int8->params.data(), &fake->plan, fake->params.data());
    run_fake(fake.get(), &int8->plan);
    const int last = e->net.count - 1;
    int64_t count;
    const float *want = features_of(exact.get(), last, &count);
    const double own = distance(want, features_of(int8.get(), last, &count), count),
                 within = distance(want, features_of(fused.get(), last, &count), count),
                 simulated = distance(want, features_of(fake.get(), last, &count), count);
    CHECK(own > 0.002 && own < 0.1 && own <= 1.15 * simulated);
    CHECK(within != own && within <= 1.15 * simulated);
    guarded_finish();
}

// The steps are the largest weights, times the scale of what they are applied to, / 127.
TEST(net_i8_steps_are_those_of_the_weights) {
    const std::unique_ptr<everything> e = everything_new(false);
    std::vector<float> params((size_t)e->plan.params);
    networks::network_weights(&e->plan, 5, params.data());
    int layers = 0;
    for (int i = 0; i < e->net.count; ++i) {
        const net_params at = net_params_of(&e->plan, i);
        const conv_shape *s = &e->plan.step[i].shape;
        for (int c = 0; at.step >= 0 && c < s->cout; ++c) {
            float most = 0;
            for (int64_t row = 0; row < (int64_t)s->volume * (s->cin + s->cin2); ++row) {
                const bool second = row % (s->cin + s->cin2) >= s->cin;
                const net_source from = second ? e->net.layers[i].source2 : e->net.layers[i].source;
                most = fmaxf(most, fabsf(params[(size_t)(at.weight + row * s->cout + c)] *
                                         net_scale_of(&e->plan, net_number(from))));
            }
            CHECK_EQUAL(params[(size_t)(at.step + c)], most / 127);
        }
        layers += at.step >= 0;
    }
    CHECK_EQUAL(layers, 12);
    params[(size_t)net_params_of(&e->plan, 2).step] = 0;
    const status s = net_params_check(&e->plan, params.data());
    CHECK(s.code == status_layer && s.detail == 2 && strstr(s.subject, "step"));
}

// ---- blobs --------------------------------------------------------------------------------------

// A quantised blob makes the same network again, and reads as one without int8, too.
TEST(net_i8_blob_round_trips) {
    const std::unique_ptr<everything> e = everything_new(true);
    std::vector<float> params((size_t)e->plan.params), got(params.size());
    networks::network_weights(&e->plan, 5, params.data());
    const net_params at = net_params_of(&e->plan, 3);
    params[(size_t)at.step + 2] *= 0.5f; // a range that was chosen, not computed
    size_t bytes = 0;
    blob b = {};
    REQUIRE_OK(net_blob_bytes(&e->plan, numeric_f32, &bytes));
    char *memory = guarded_new<char>((int64_t)bytes);
    REQUIRE_OK(net_blob_write(&e->plan, params.data(), numeric_f32, memory, bytes, &b));

    network n;
    network_everything(&n, false);
    for (int i = 0; i < n.count; ++i) {
        n.layers[i].format = net_format_same;
    }
    net_limits limits = limits_dense(&n, 900);
    net_plan plan;
    int unused = -1;
    REQUIRE_OK(plan_of(&n, &limits, &plan));
    REQUIRE_OK(net_blob_read(&plan, &b, got.data(), &unused));
    CHECK_EQUAL(unused, 0);

    REQUIRE_OK(net_blob_ranges(&b, n.layers, n.count, &limits));
    CHECK_EQUAL(limits.range, e->limits.range);
    for (int i = 0; i < n.count; ++i) {
        CHECK(n.layers[i].range == e->net.layers[i].range &&
              n.layers[i].format == e->net.layers[i].format);
    }
    REQUIRE_OK(plan_of(&n, &limits, &plan));
    REQUIRE_OK(net_blob_read(&plan, &b, got.data(), &unused));
    CHECK_EQUAL(unused, 0);
    int64_t wrong = 0;
    for (size_t i = 0; i < params.size(); ++i) {
        wrong += fabsf(got[i] - params[i]) > 0x1p-22f * fabsf(params[i]) ||
                 (got[i] != params[i] && (int64_t)i != at.step + 2);
    }
    CHECK_EQUAL(wrong, 0);

    n.layers[3].channels += 1; // another network
    const status s = net_blob_ranges(&b, n.layers, n.count, &limits);
    CHECK(s.code == status_layer && s.detail == 3 && strstr(s.subject, "weight range"));
}
