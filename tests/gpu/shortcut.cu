// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/shortcut.cu: a 1x1x1 convolution that is computed within another and added
// (conv_shortcut), against sums in double; and networks whose plans have such layers.
#include "../support/devices.h"
#include "../support/net_checks.cuh"
#include "../support/problems.cuh"

using namespace problems;

namespace {

const device_info hopper_device = device_made(90, 132, 232448, true);

// The same bits twice, by `sizes` or, if that is null, as the rules choose.
std::vector<char> joined_run(const joined_problem *p, const conv_sizes *sizes) {
    device_joined d;
    device_joined_make(p, &d);
    d.main.args.sizes = sizes;
    std::vector<char> out = device_problem_run(&p->main, &d.main, true,
                                               [&] { return device_problem_start<true>(&d.main); });
    guarded_finish();
    return out;
}

// In all ways to cut it, or each `step`th.
void joined_check(const joined_problem *p, int step = 1) {
    static conv_sizes sizes[conv_sizes_most];
    const int count = conv_sizes_list(&p->main.shape, gpu(), sizes);
    reference_conv_good(joined_judge(p, joined_run(p, nullptr).data()), p->main.name);
    for (int i = p->main.outputs % step; i < count; i += step) {
        char text[400];
        snprintf(text, sizeof text, "%.300s, slices %d, split %d", p->main.name, sizes[i].slices,
                 sizes[i].split);
        reference_conv_good(joined_judge(p, joined_run(p, &sizes[i]).data()), text);
    }
}

bool device_has_shortcuts() {
    const conv_shape s = shape_make(27, 64, 0, 64, numeric_f16);
    return conv_shortcut_takes(&s, gpu());
}

#define NEED_SHORTCUTS()                                                                           \
    if (!device_has_shortcuts()) {                                                                 \
        SKIP("no kernel of this device computes shortcuts");                                       \
    }

} // namespace

// Told by the shape: with 32 input channels and 64 output channels two offsets share a stage.
TEST(conv_shortcut_shapes) {
    const struct {
        conv_shape shape;
        bool takes;
    } expected[] = {
        {shape_make(27, 64, 0, 64, numeric_f16), true},
        {shape_make(27, 64, 0, 64, numeric_bf16), true},
        {shape_make(27, 64, 0, 64, numeric_f32), true},
        {shape_make(27, 64, 0, 64, numeric_tf32), true},
        {shape_make(27, 32, 0, 64, numeric_tf32), true},
        {shape_make(27, 31, 0, 64, numeric_tf32), true},
        {shape_make(27, 32, 0, 64, numeric_f16), false},
        {shape_make(27, 32, 0, 65, numeric_f16), true},
        {shape_make(27, 33, 0, 32, numeric_f16), true},
        {shape_make(27, 16, 16, 64, numeric_f16), false},
        {shape_make(27, 16, 17, 64, numeric_f16), true},
        {shape_make(27, 8, 0, 128, numeric_f16), true},
        {shape_make(1, 96, 0, 96, numeric_f16), true},
        {shape_make(125, 256, 0, 256, numeric_bf16), true},
        {shape_make(1331, 64, 0, 64, numeric_f16), true},
    };
    device_info ampere = hopper_device;
    ampere.capability = 80;
    ampere.hopper = false;
    for (const auto &e : expected) {
        CHECK_EQUAL(conv_shortcut_takes(&e.shape, &hopper_device), e.takes);
        CHECK_EQUAL(conv_shortcut_takes(&e.shape, &ampere),
                    conv_kernel_of(&e.shape, &ampere) == conv_kernel_portable);
    }
    // In parts of 64 channels, whatever those of the convolution are.
    const conv_shape parts = shape_make(27, 96, 0, 96, numeric_f16),
                     whole = shape_make(27, 128, 0, 128, numeric_f16);
    CHECK_EQUAL(conv_shortcut_packed_bytes(&parts, conv_kernel_hopper, 128, 0),
                (size_t)(2 * 64 * 96 * 2));
    CHECK_EQUAL(conv_shortcut_packed_bytes(&parts, conv_kernel_hopper, 96, 97),
                (size_t)(4 * 64 * 96 * 2));
    CHECK_EQUAL(conv_shortcut_packed_bytes(&whole, conv_kernel_hopper, 128, 64),
                (size_t)(3 * 64 * 128 * 2));
    CHECK_EQUAL(conv_shortcut_packed_bytes(&whole, conv_kernel_hopper, 1, 0),
                (size_t)(64 * 128 * 2));
}

DEVICE_TEST(gpu_shortcut_random_shapes) {
    NEED_SHORTCUTS();
    const int edges[] = {1,  2,  7,  8,  9,  15, 16,  17,  31,  32,  33,  47,  48,  49,
                         63, 64, 65, 95, 96, 97, 127, 128, 129, 192, 193, 256, 257, 384};
    for (int seed = 0, done = 0; done < (test_quick() ? 8 : 200); ++seed) {
        random_state random = random_make((uint64_t)seed);
        auto channels = [&] { return channels_random(&random, edges); };
        conv_shape s =
            shape_make(random_int(&random, 1, 30), channels(), 0, channels(), numerics[seed % 4]);
        s.cin2 = random_int(&random, 0, 2) ? 0 : channels();
        if (!conv_shortcut_takes(&s, gpu())) {
            continue;
        }
        ++done;
        joined_problem p = joined_random(&random, s, true, edges);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        joined_name(&p, what);
        joined_check(&p, 2);
    }
}

// Outputs around the row blocks and the tiles of them; all with pairs, few, none at all, so that
// the shortcut is all there is.
DEVICE_TEST(gpu_shortcut_every_count) {
    NEED_SHORTCUTS();
    const struct {
        conv_shape shape;
        int cin, cin2;
    } layers[] = {{shape_make(27, 64, 0, 64, numeric_f16), 32, 0},
                  {shape_make(27, 96, 0, 96, numeric_bf16), 96, 32},
                  {shape_make(8, 128, 0, 128, numeric_f16), 128, 64},
                  {shape_make(27, 256, 0, 256, numeric_f16), 256, 128},
                  {shape_make(1, 128, 0, 100, numeric_bf16), 20, 300},
                  {shape_make(40, 80, 0, 33, numeric_f16), 4, 0}};
    for (int outputs : {0, 1, 2, 63, 64, 65, 127, 128, 129, 192, 193, 256, 640}) {
        for (const auto &l : layers) {
            for (int percent : {0, 1, 60}) {
                if (test_quick() && (outputs + percent + l.shape.cin) % 7) {
                    continue;
                }
                random_state random = random_make((uint64_t)(1000 * outputs + percent));
                joined_problem p = joined_make(&random, l.shape, l.cin, l.cin2,
                                               l.shape.volume == 1 ? outputs : outputs / 2 + 1,
                                               outputs, percent ? 1 : 300);
                joined_fill(&random, &p, percent, with_all & ~with_residual,
                            with_scale | with_shift, activation_relu);
                joined_name(&p, "counts");
                joined_check(&p, test_quick() ? 2 : 1);
            }
        }
    }
}

// A residual beside the shortcut, with each activation: whole slices, tails of 4 and of 2 channels
// and of one.
DEVICE_TEST(gpu_shortcut_beside_residual) {
    NEED_SHORTCUTS();
    uint64_t turn = 0;
    for (int cout : {64, 60, 62, 96, 128, 127, 256}) {
        for (int act = activation_none; act < activation_count; ++act) {
            const numeric type = ++turn % 2 ? numeric_f16 : numeric_bf16;
            if (test_quick() && turn % 3) {
                continue;
            }
            random_state random = random_make(turn);
            joined_problem p =
                joined_make(&random, shape_make(9, 64, 0, cout, type), 40, 0, 200, 500, 90);
            joined_fill(&random, &p, 40, with_all, with_all, (activation)act);
            joined_name(&p, "beside a residual");
            joined_check(&p, test_quick() ? 2 : 1);
        }
    }
}

// More tiles than thread blocks, so that tiles follow each other.
DEVICE_TEST(gpu_shortcut_many_tiles) {
    NEED_SHORTCUTS();
    const int channels[][2] = {{64, 32}, {96, 128}, {128, 192}, {256, 384}};
    for (auto &c : channels) {
        if (test_quick() && c[0] != 96) {
            continue;
        }
        random_state random = random_make((uint64_t)c[0]);
        const int second = c[1] > 32 ? 32 : 0;
        joined_problem p =
            joined_make(&random, shape_make(3, c[0], 0, c[0], numeric_f16), c[1] - second, second,
                        3000, test_quick() ? 20000 : 70000, 77);
        joined_fill(&random, &p, 30, with_scale | with_shift, with_scale | with_shift,
                    activation_relu);
        joined_name(&p, "many tiles");
        reference_conv_good(joined_judge(&p, joined_run(&p, nullptr).data()), p.main.name);
        const conv_sizes two = {1, c[0] / 32, 2, 1}; // thread blocks that share tiles
        if (conv_sizes_fit(&p.main.shape, gpu(), &two)) {
            reference_conv_good(joined_judge(&p, joined_run(&p, &two).data()), p.main.name);
        }
    }
}

// The two scales in all relations: a sum is multiplied by their quotient.
DEVICE_TEST(gpu_shortcut_scales) {
    NEED_SHORTCUTS();
    const float scales[] = {0.0f,     -0.0f,     1.0f,     -1.0f,   0.37f,    -2.5f,
                            0x1p-20f, -0x1p-20f, 0x1p-70f, 0x1p10f, -0x1p12f, 0x1p-126f};
    const int count = (int)(sizeof scales / sizeof *scales);
    for (numeric type : {numeric_f16, numeric_bf16}) {
        for (int cout : {64, 96, 144, 256}) {
            if (test_quick() && (cout != 96 || type != numeric_f16)) {
                continue;
            }
            random_state random = random_make((uint64_t)cout);
            joined_problem p =
                joined_make(&random, shape_make(9, 48, 0, cout, type), 70, 0, 90, 200, 3);
            joined_fill(&random, &p, 40, with_all & ~with_residual, with_all, activation_none);
            for (int c = 0; c < cout; ++c) { // all pairs, if there are channels for them
                p.main.scale[(size_t)c] = scales[c % count];
                p.own.scale[(size_t)c] = scales[c / count % count];
            }
            joined_name(&p, "scales");
            joined_check(&p);
            p.own.scale.clear(); // one of them alone
            joined_check(&p);
            std::swap(p.own.scale, p.main.scale);
            p.own.scale = std::vector<float>((size_t)cout, -0.5f);
            joined_check(&p);
        }
    }
}

// An odd row is NaN in its own output alone.
DEVICE_TEST(gpu_shortcut_special_values_stay_in_their_rows) {
    NEED_SHORTCUTS();
    random_state random = random_make(5);
    joined_problem p =
        joined_make(&random, shape_make(27, 96, 0, 96, numeric_f16), 96, 32, 200, 200, 10);
    joined_fill(&random, &p, 40, with_scale, with_scale, activation_none);
    p.own.in[96 * 77 + 5] = NAN;
    p.own.in2[32 * 133 + 31] = INFINITY;
    std::vector<char> out = joined_run(&p, nullptr);
    for (int64_t i = 0; i < 200 * 96; ++i) {
        float v = numeric_load(numeric_f16, out.data(), i);
        CHECK_EQUAL((bool)isfinite(v), i / 96 != 77 && i / 96 != 133);
    }
}

// Sums are small, so that bounds are tight: what is slightly wrong is found.
DEVICE_TEST(gpu_shortcut_planted_errors_are_found) {
    NEED_SHORTCUTS();
    random_state random = random_make(6);
    joined_problem good =
        joined_make(&random, shape_make(4, 40, 0, 40, numeric_f16), 6, 3, 60, 80, 5);
    joined_fill(&random, &good, 10, with_scale | with_shift, with_all, activation_none);
    auto ratio = [&](const joined_problem &wanted) {
        return joined_judge(&wanted, joined_run(&good, nullptr).data()).ratio;
    };
    CHECK(ratio(good) <= 1);
    using member = std::vector<float> problem::*;
    const member members[] = {&problem::weight, &problem::in,    &problem::in2,
                              &problem::bias,   &problem::scale, &problem::shift};
    for (const member &what : members) {
        joined_problem bad = good;
        std::vector<float> &v = bad.own.*what;
        size_t most = 0;
        for (size_t i = 0; i < v.size(); ++i) {
            most = fabsf(v[i]) > fabsf(v[most]) ? i : most;
        }
        v[most] *= 1.05f;
        CHECK(ratio(bad) > 1);
    }
}

DEVICE_TEST(gpu_shortcut_refuses) {
    NEED_SHORTCUTS();
    random_state random = random_make(7);
    const joined_problem p =
        joined_make(&random, shape_make(4, 64, 0, 64, numeric_f16), 32, 32, 60, 80, 5);
    device_joined d;
    joined_problem filled = p;
    joined_fill(&random, &filled, 40, 0, 0, activation_none);
    device_joined_make(&filled, &d);
    const conv_shortcut good = d.own;
    static const struct {
        status_code code;
        void (*spoil)(conv_shortcut *, void *out);
    } bad[] = {
        {status_null_pointer, [](conv_shortcut *s, void *) { s->in = nullptr; }},
        {status_null_pointer, [](conv_shortcut *s, void *) { s->in2 = nullptr; }},
        {status_null_pointer, [](conv_shortcut *s, void *) { s->weights = nullptr; }},
        {status_alignment,
         [](conv_shortcut *s, void *) { s->weights = (const char *)s->weights + 16; }},
        {status_alignment, [](conv_shortcut *s, void *) { s->in = (const char *)s->in + 1; }},
        {status_alignment,
         [](conv_shortcut *s, void *) { s->bias = (const float *)((const char *)s->in + 2); }},
        {status_bad_size, [](conv_shortcut *s, void *) { s->cin = 0; }},
        {status_bad_size, [](conv_shortcut *s, void *) { s->cin2 = conv_channels_max + 1; }},
        {status_unsupported, [](conv_shortcut *s, void *out) { s->in = out; }},
        {status_unsupported, [](conv_shortcut *s, void *out) { s->in2 = out; }},
    };
    for (const auto &b : bad) {
        b.spoil(&d.own, d.main.args.out);
        CHECK_STATUS(device_problem_start<true>(&d.main), b.code);
        d.own = good;
    }
    d.main.args.sums = device_zeros<float>(64 * 85);
    CHECK_STATUS(device_problem_start<true>(&d.main), status_unsupported);
    d.main.args.sums = nullptr;
    CHECK_STATUS(device_problem_start<false>(&d.main), status_unsupported); // not compiled in
    CHECK_OK(device_problem_start<true>(&d.main));

    size_t bytes = 0;
    const conv_shape *s = &p.main.shape;
    conv_shape narrow = *s;
    narrow.cin = narrow.cout = 32;
    float *weight = device_zeros<float>(64 * 64);
    char *packed = device_new<char>(64 * 64 * 2 + 256);
    CHECK_OK(conv_shortcut_bytes(gpu(), s, 32, 32, &bytes));
    CHECK_EQUAL(bytes, 64 * 64 * 2 + sizeof(conv_weights_tag));
    CHECK_STATUS(conv_shortcut_bytes(gpu(), &narrow, 32, 32, &bytes), status_unsupported);
    CHECK_STATUS(conv_shortcut_bytes(gpu(), s, 0, 32, &bytes), status_bad_size);
    CHECK_STATUS(conv_shortcut_bytes(gpu(), nullptr, 32, 32, &bytes), status_null_pointer);
    CHECK_STATUS(conv_shortcut_bytes(gpu(), s, 32, 32, nullptr), status_null_pointer);
    const auto pack = [&](const conv_weights &w) {
        return shared_conv.conv_shortcut_pack(gpu(), s, 32, 32, &w, stream_get());
    };
    CHECK_STATUS(pack({nullptr, packed, bytes, nullptr}), status_null_pointer);
    CHECK_STATUS(pack({weight, packed, bytes - 1, nullptr}), status_workspace);
    CHECK_STATUS(pack({weight, packed + 16, bytes, nullptr}), status_alignment);
    CHECK(expect_no_cuda_error());
    guarded_finish();
}

// ---- networks -----------------------------------------------------------------------------------

namespace {

using networks::network;
using namespace nets;

// Residual blocks of random channels, at two strides, some of two sources.
void network_residual(random_state *r, network *n) {
    const int channels[] = {16, 24, 32, 33, 48, 64, 80, 96, 128, 160, 256};
    auto any = [&] { return channels[random_int(r, 0, 10)]; };
    networks::network_begin(n, random_int(r, 1, 40));
    int own = any(), skip = networks::network_conv(n, "in", net_input, own, 3, 1);
    int to = any(), at = networks::network_block(n, "a", skip, net_none, own, to, 3);
    int down = any();
    at = networks::network_conv(n, "down", at, down, 2, 2);
    int wide = any();
    at = networks::network_block(n, "b", at, net_none, down, wide, random_int(r, 2, 3));
    int up = any();
    at = networks::network_conv(n, "up", at, up, 2, 2);
    n->layers[at].transposed = true;
    int last = any();
    at = networks::network_block(n, "c", at, skip, up + own, last == up + own ? 64 : last, 3);
    for (int i = 0; i < n->count; ++i) {
        n->layers[i].bias = random_int(r, 0, 1);
        n->layers[i].norm = random_int(r, 0, 3) > 0;
    }
}

int joined_count(const net_plan *p) {
    int joined = 0;
    for (int i = 0; i < p->layer_count; ++i) {
        joined += p->step[i].shortcut != net_none;
    }
    return joined;
}

// All three ways to plan it, each layer judged; the ways that join have the same bits.
void check_residual(const network *n, numeric type, int32_t voxels, int32_t capacity, uint64_t seed,
                    int *joined) {
    net_limits limits = nets::limits_make(n, type, capacity, true);
    device_net<uint32_t> d = device_net_make<uint32_t>(n, &limits);
    frame f = frame_make<uint32_t>(seed, &d.plan->layout, voxels, n->input_channels);
    result<uint32_t> hidden = device_net_result(&d, &f);
    check_result(&d, &f, hidden);
    *joined += joined_count(d.plan.get());

    limits = nets::limits_make(n, type, capacity, false);
    device_net<uint32_t> within = device_net_make<uint32_t>(n, &limits);
    CHECK_EQUAL(joined_count(within.plan.get()), joined_count(d.plan.get()));
    CHECK_EQUAL(difference(device_net_result(&within, &f), hidden, false), "");

    limits = nets::limits_make(n, type, capacity, true);
    for (net_shortcuts s : {net_shortcuts_apart, net_shortcuts_within}) {
        limits.shortcuts = s;
        device_net<uint32_t> apart = device_net_make<uint32_t>(n, &limits);
        CHECK_EQUAL(joined_count(apart.plan.get()), 0);
        result<uint32_t> kept = device_net_result(&apart, &f);
        check_result(&apart, &f, kept);
    }
    CHECK(expect_no_cuda_error());
    guarded_finish();
}

} // namespace

DEVICE_TEST(gpu_shortcut_networks) {
    NEED_SHORTCUTS();
    int joined = 0, minkunet = 0;
    random_state r = random_make(8);
    for (int i = 0; i < (test_quick() ? 3 : 40); ++i) {
        network n;
        network_residual(&r, &n);
        int32_t voxels = i < 2 ? i : random_int(&r, 2, test_quick() ? 100 : 900);
        check_residual(&n, i % 2 ? numeric_f16 : numeric_bf16, voxels,
                       voxels + random_int(&r, 1, 300), random_u64(&r), &joined);
    }
    CHECK(joined > (test_quick() ? 0 : 40));
    network n;
    REQUIRE(networks::network_make("MinkUNet42", &n));
    check_residual(&n, numeric_f16, test_quick() ? 50 : 2500, 3000, 9, &minkunet);
    CHECK_EQUAL(minkunet, 7);
}

// One graph over frames of other sizes, on two streams.
DEVICE_TEST(gpu_shortcut_graph_replays) {
    NEED_SHORTCUTS();
    random_state r = random_make(9);
    for (int i = 0; i < (test_quick() ? 1 : 4); ++i) {
        network n;
        network_residual(&r, &n);
        check_replays<uint32_t>(&n, numeric_f16, true, side_get());
    }
}
