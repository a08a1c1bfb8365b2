// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/conv_i8.cu: int8 layers on the GPU, to the bit: by the kernel that the GPU has for
// them, by the portable kernel with 99 KB of shared memory, and by the exact kernel.
#ifndef SPIRA_PLAIN_SM90
#define SPIRA_PLAIN_SM90 // compiles the portable kernel in code for sm_90a
#endif

#include "../support/i8_problems.h"
#include "../support/problems.cuh"

#include "../../spira/conv_pairs.cuh"

using namespace problems;

namespace {

// ---- runs ---------------------------------------------------------------------------------------

// GPUs that this one can stand for.
enum i8_gpu { i8_own, i8_portable, i8_exact, i8_gpus };

const device_info *i8_device(i8_gpu which) {
    static device_info info[i8_gpus];
    device_info *d = &info[which];
    *d = *gpu();
    if (which == i8_portable) {
        d->hopper = false;
        d->shared_max = std::min(d->shared_max, 99 * 1024);
    } else if (which == i8_exact) {
        d->hopper = false;
        d->capability = 75;
    }
    return d;
}

// A layer in device memory; arrays begin `off` elements from an aligned address.
struct i8_layer {
    conv_args args;
    conv_map map;
    conv_shortcut shortcut;
    char *out;
    int64_t out_bytes;
};

template <typename T>
const T *i8_upload(const std::vector<T> &values, int off) {
    if (values.empty()) {
        return nullptr;
    }
    std::vector<T> moved((size_t)off, (T)-1);
    moved.insert(moved.end(), values.begin(), values.end());
    return device_upload(moved.data(), (int64_t)moved.size()) + off;
}

const void *i8_weights(const device_info *d, const i8_problem *p, const i8_operands *o,
                       bool shortcut) {
    size_t bytes = 0;
    CHECK_OK(shortcut ? conv_shortcut_bytes(d, &p->shape, o->cin, o->cin2, &bytes)
                      : conv_weights_bytes(d, &p->shape, &bytes));
    device_status *trouble = device_zeros<device_status>(1);
    conv_weights w = {};
    w.weight = i8_upload(o->weight, 0);
    w.packed = device_new<char>((int64_t)bytes);
    w.packed_bytes = bytes;
    w.trouble = trouble;
    w.step = i8_upload(p->step, 0);
    w.scale_in = o->scale_in;
    w.scale_in2 = o->scale_in2;
    cudaStream_t stream = stream_get();
    CHECK_OK(shortcut ? conv_shortcut_pack<numeric_i8>(d, &p->shape, o->cin, o->cin2, &w, stream)
                      : conv_weights_pack<numeric_i8>(d, &p->shape, &w, stream));
    const device_status *found = device_fetch(trouble, 1);
    CHECK_EQUAL(found->flags, 0u);
    return w.packed;
}

void i8_layer_make(const device_info *d, const i8_problem *p, int off, i8_layer *l) {
    *l = {};
    conv_args *a = &l->args;
    a->shape = p->shape;
    a->in = i8_upload(p->own.in, off);
    a->in2 = i8_upload(p->own.in2, off);
    a->weights = i8_weights(d, p, &p->own, false);
    a->epilogue = {i8_upload(p->own.bias, off),
                   i8_upload(p->scale, off),
                   i8_upload(p->own.shift, off),
                   nullptr,
                   p->act,
                   p->slope};
    if (p->has_residual) {
        const int move = off * numeric_size(p->residual_type);
        a->epilogue.residual = i8_upload(p->residual, move);
    }
    a->quantisation = i8_quantisation(p);
    a->quantisation.step = i8_upload(p->step, off);
    problem like = {};
    like.shape = p->shape;
    like.identity = p->map.empty();
    like.inputs = p->inputs;
    like.outputs = p->outputs;
    like.map = p->map;
    l->map = map_upload(&like);
    a->map = &l->map;
    const i8_operands *s = &p->shortcut;
    if (s->cin) {
        l->shortcut = {s->cin,
                       s->cin2,
                       i8_upload(s->in, off),
                       i8_upload(s->in2, off),
                       i8_weights(d, p, s, true),
                       i8_upload(s->bias, off),
                       nullptr,
                       i8_upload(s->shift, off)};
        a->shortcut = &l->shortcut;
    }
    const int64_t move = (int64_t)off * numeric_size(p->out_type);
    l->out_bytes = (int64_t)i8_out_bytes(p);
    l->out = device_new<char>(l->out_bytes + move);
    a->out = l->out + move;
}

// Compares the outputs of one run with those that are wanted, to the bit.
bool i8_layer_check(const device_info *d, const i8_problem *p, i8_layer *l, const conv_sizes *sizes,
                    const std::vector<char> &want) {
    l->args.sizes = sizes;
    const bool exact = conv_kernel_of(&p->shape, d) == conv_kernel_exact;
    if (exact) {
        CHECK_OK(conv_check(d, &l->args));
        conv_params t = conv_params_of(d, &l->args, conv_kernel_exact);
        t.sizes = sizes ? *sizes : exact_sizes_choose(&p->shape);
        CHECK_OK(exact_run<int8_t>(t, stream_get()));
    } else {
        CHECK_OK((conv<numeric_i8, true>(d, &l->args, stream_get())));
    }
    std::vector<char> got(want.size());
    device_copy_out(got.data(), (const char *)l->args.out, l->out_bytes);
    return test_check(i8_compare(p, got.data(), want) == 0, __FILE__, __LINE__, i8_name(p));
}

// The shortcut is left out where a GPU has none.
bool i8_takes(const device_info *d, const i8_problem *p) {
    return !p->shortcut.cin || conv_shortcut_takes(&p->shape, d);
}

} // namespace

// ---- layers of everything -----------------------------------------------------------------------

DEVICE_TEST(gpu_i8_every_variant) {
    static conv_sizes sizes[conv_sizes_most];
    random_state r = random_make(470);
    int64_t turn = 0, runs[i8_gpus] = {};
    for (const i8_wish &w : i8_wishes({{27, 64, 0, 64, numeric_i8},
                                       {27, 5, 0, 7, numeric_i8},
                                       {8, 100, 70, 130, numeric_i8},
                                       {1, 128, 32, 96, numeric_i8},
                                       {27, 96, 0, 96, numeric_i8},
                                       {40, 16, 0, 33, numeric_i8},
                                       {27, 32, 0, 32, numeric_i8},
                                       {9, 192, 0, 256, numeric_i8},
                                       {125, 16, 16, 16, numeric_i8}})) {
        if (test_quick() && turn % 5) {
            ++turn;
            continue;
        }
        const i8_problem p = i8_problem_random(&r, &w, 700, 1290, 3);
        const std::vector<char> want = i8_reference(&p);
        for (int which = 0; which < i8_gpus; ++which) {
            const device_info *d = i8_device((i8_gpu)which);
            if (!i8_takes(d, &p)) {
                continue;
            }
            i8_layer l;
            i8_layer_make(d, &p, turn++ % 3 ? 0 : random_int(&r, 1, 9), &l);
            const int count = conv_sizes_list(&p.shape, d, sizes);
            for (int i = -1; i < count; ++i) {
                REQUIRE(i8_layer_check(d, &p, &l, i < 0 ? nullptr : &sizes[i], want));
                ++runs[which];
            }
            guarded_finish();
        }
    }
    CHECK(runs[i8_own] > 5 && runs[i8_portable] > 5 && runs[i8_exact] > 5);
}

// The largest sums that an int32 holds, of -128 times -127, and their negatives.
DEVICE_TEST(gpu_i8_largest_sums) {
    i8_problem p = {};
    p.shape = {129, 1024, 0, 64, numeric_i8};
    p.inputs = p.outputs = 70;
    p.map.assign((size_t)p.outputs * 129, 1);
    p.own.cin = 1024;
    p.own.scale_in = 1;
    p.own.in.assign((size_t)p.inputs * 1024, -128);
    p.own.weight.resize((size_t)129 * 1024 * 64);
    for (size_t i = 0; i < p.own.weight.size(); ++i) {
        p.own.weight[i] = i % 2 ? 1.0f : -1.0f;
    }
    p.out_type = numeric_f32;
    i8_quantise(&p);
    const std::vector<char> want = i8_reference(&p);
    for (int which = 0; which < i8_gpus; ++which) {
        const device_info *d = i8_device((i8_gpu)which);
        i8_layer l;
        i8_layer_make(d, &p, 0, &l);
        CHECK(i8_layer_check(d, &p, &l, nullptr, want));
        guarded_finish();
    }
}

// ---- real scans: more than 10^8 outputs ---------------------------------------------------------

namespace {

// Returns how many outputs were compared with those of the host loop.
int64_t i8_scan_check(const char *name, const kernel_shape &kernel, i8_wish w) {
    word_layout layout;
    const std::vector<uint32_t> words = reference_scan<uint32_t>(name, 16, &layout);
    CHECK(!words.empty());
    problem like = {};
    like.shape = w.shape;
    problem_map_sets(&like, &kernel, &layout, words, words);
    random_state r = random_make(471);
    const auto rows = (int32_t)words.size();
    const i8_problem p = i8_problem_make(&r, &w, rows, rows, like.map);
    const std::vector<char> want = i8_host(&p);
    int64_t compared = 0;
    for (int which = 0; which < i8_gpus; ++which) {
        const device_info *d = i8_device((i8_gpu)which);
        if (i8_takes(d, &p)) {
            i8_layer l;
            i8_layer_make(d, &p, 0, &l);
            CHECK(i8_layer_check(d, &p, &l, nullptr, want));
            guarded_finish();
            compared += (int64_t)rows * p.shape.cout;
        }
    }
    return compared;
}

} // namespace

DEVICE_TEST(gpu_i8_real_scans) {
    const char *kitti = "kitti00_000000_5cm.vox32", *star = "lone_star_5cm.vox32";
    NEED_SCANS("lone_star_5cm.vox32", "kitti00_000000_5cm.vox32");
    const kernel_shape three = kernel_cube(3, 1), five = kernel_cube(5, 1);
    const numeric i8 = numeric_i8, f16 = numeric_f16, f32 = numeric_f32;
    int64_t compared = i8_scan_check(
        kitti, three, {{27, 16, 0, 32, i8}, 0, 0, true, i8, i8, activation_relu, true, false});
    if (!test_quick()) {
        const i8_wish wishes[] = {
            {{27, 32, 0, 64, i8}, 32, 0, false, f32, f16, activation_leaky, true, false},
            {{27, 64, 32, 96, i8}, 0, 0, true, f16, i8, activation_relu, false, true},
            {{27, 9, 0, 20, i8}, 0, 0, true, f32, f32, activation_none, true, false}};
        for (const i8_wish &w : wishes) {
            compared += i8_scan_check(kitti, three, w);
        }
        compared += i8_scan_check(
            kitti, five, {{125, 8, 0, 32, i8}, 0, 0, false, f32, i8, activation_relu, true, false});
        compared += i8_scan_check(
            star, three, {{27, 16, 0, 96, i8}, 0, 0, true, i8, i8, activation_relu, true, false});
        CHECK(compared > 100000000);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

DEVICE_TEST(gpu_i8_refusals) {
    random_state r = random_make(472);
    const i8_wish w = {{9, 32, 0, 64, numeric_i8},
                       24,
                       0,
                       true,
                       numeric_i8,
                       numeric_i8,
                       activation_relu,
                       true,
                       false};
    const i8_problem p = i8_problem_random(&r, &w, 90, 90, 4);
    const device_info *d = i8_device(i8_portable);
    i8_layer l;
    i8_layer_make(d, &p, 0, &l);
    cudaStream_t stream = stream_get();
    auto run = [&](const conv_args &a) { return conv<numeric_i8, true>(d, &a, stream); };
    CHECK_OK(run(l.args));
    conv_args a = l.args;
    a.quantisation.step = nullptr;
    CHECK_STATUS(run(a), status_null_pointer);
    a = l.args;
    a.quantisation.out_inverse = 0;
    CHECK_STATUS(run(a), status_unsupported);
    a = l.args;
    a.shortcut = nullptr;
    a.sums = device_zeros<float>(90 * 64);
    CHECK_STATUS(run(a), status_unsupported);
    a = l.args;
    conv_shortcut scaled = l.shortcut;
    scaled.scale = a.epilogue.scale;
    a.shortcut = &scaled;
    CHECK_STATUS(run(a), status_unsupported);
    a = l.args; // the residual in place, in a format of another size
    a.quantisation.mixed = true;
    a.quantisation.residual_type = numeric_i8;
    a.quantisation.out_type = numeric_f16;
    a.quantisation.out_inverse = 0;
    a.epilogue.residual = a.out;
    CHECK_STATUS(run(a), status_unsupported);
    a.epilogue.residual = l.args.epilogue.residual;
    a.out = (char *)l.out + 1; // not aligned to fp16
    CHECK_STATUS(run(a), status_alignment);
    a = l.args;
    a.shape.volume = 1024;
    a.shape.cin = 130;
    CHECK_STATUS(run(a), status_bad_size);
    // int8 is compiled where it is named, and computed by conv alone.
    CHECK_STATUS(shared_conv.conv_shortcuts(d, &l.args, stream), status_unsupported);
    size_t bytes = 0;
    CHECK_OK(conv_weights_bytes(d, &p.shape, &bytes));
    conv_weights given = {};
    given.weight = device_zeros<float>(9 * 32 * 64);
    given.packed = device_new<char>((int64_t)bytes);
    given.packed_bytes = bytes;
    given.scale_in = 1;
    CHECK_STATUS(conv_weights_pack<numeric_i8>(d, &p.shape, &given, stream), status_null_pointer);
    given.step = device_zeros<float>(64);
    CHECK_STATUS(shared_conv.conv_weights_pack(d, &p.shape, &given, stream), status_unsupported);
    given.scale_in = NAN;
    CHECK_STATUS(conv_weights_pack<numeric_i8>(d, &p.shape, &given, stream), status_unsupported);
    given.scale_in = given.scale_in2 = 1;
    CHECK_STATUS(conv_weights_pack<numeric_i8>(d, &p.shape, &given, stream), status_unsupported);
    given.scale_in2 = 0;
    const conv_shape f16 = {9, 32, 0, 64, numeric_f16};
    CHECK_STATUS(shared_conv.conv_weights_pack(d, &f16, &given, stream), status_unsupported);
    CHECK_STATUS(conv_pairs_weights_bytes(d, &p.shape, &bytes), status_unsupported);
    conv_args other = l.args; // a layer of another format with a step
    other.shape.type = numeric_f32;
    other.shortcut = nullptr;
    CHECK_STATUS(shared_conv.conv(d, &other, stream), status_unsupported);
    guarded_finish();
}
