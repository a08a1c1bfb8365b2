// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/gpu/grad.cu: gradients on the GPU, against sums in double: weights over random lists and
// over those of map_build_lists, inputs over the maps of conv_grad_request, bias.
#include "../../spira/conv_grad.cuh"
#include "../support/grad_problems.h"
#include "../support/problems.cuh"

#include <thread>

using namespace problems;

namespace {

const int edges[] = {1,  3,  4,  7,  8,  15, 16, 17,  31,  32,  33,  40,
                     47, 48, 63, 64, 65, 96, 97, 127, 128, 129, 192, 256};

// A weight gradient in device memory of exactly its size.
struct device_grad {
    conv_grad_weight_args args;
    char *scratch;
    size_t bytes;
};

device_grad grad_upload(const grad_problem *p) {
    const conv_shape *s = &p->shape;
    device_grad d = {};
    d.args.shape = *s;
    d.args.in = features_upload(s->type, p->in, s->cin, p->off.in);
    d.args.in2 = s->cin2 ? features_upload(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    d.args.out_grad = features_upload(s->type, p->out_grad, s->cout, p->off.out);
    if (s->volume > 1 || p->sides != pairs_sides_centre) {
        d.args.pairs = {device_upload(p->begin.data(), (int64_t)p->begin.size()),
                        device_upload(p->input.data(), (int64_t)p->input.size()),
                        device_upload(p->output.data(), (int64_t)p->output.size()),
                        (int32_t)p->input.size()};
    }
    d.args.sides = p->sides;
    d.args.count = device_upload(&p->outputs, 1);
    d.args.capacity = std::max(p->outputs + p->room, 1);
    const int off = p->off.in > 0; // the gradient is then not aligned either
    d.args.weight_grad = device_new<float>(grad_elements(s) + off) + off;
    d.args.bias_grad = p->room ? device_new<float>(s->cout) : nullptr;
    CHECK_OK(conv_grad_weight_workspace(gpu(), s, &d.bytes));
    d.scratch = device_new<char>((int64_t)d.bytes);
    return d;
}

status grad_start(const device_grad *d) {
    return conv_grad_weight(gpu(), &d->args, d->scratch, d->bytes, stream_get());
}

std::vector<float> grad_fetch(const device_grad *d) {
    std::vector<float> got((size_t)grad_elements(&d->args.shape));
    device_copy_out(got.data(), d->args.weight_grad, (int64_t)got.size());
    return got;
}

bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Twice, the second time over scratch and a gradient of NaN.
void grad_check(const grad_problem *p) {
    const device_grad d = grad_upload(p);
    CHECK_OK(grad_start(&d));
    const std::vector<float> got = grad_fetch(&d);
    reference_conv_good(grad_judge(p, got.data()), p->name);
    if (d.args.bias_grad) {
        std::vector<float> bias((size_t)p->shape.cout);
        device_copy_out(bias.data(), d.args.bias_grad, p->shape.cout);
        grad_bias_check(p->out_grad, p->outputs, p->shape.cout, bias.data());
    }
    CUDA_CHECK(cudaMemset(d.scratch, 0xff, d.bytes));
    CUDA_CHECK(cudaMemset(d.args.weight_grad, 0xff, got.size() * sizeof(float)));
    CUDA_CHECK(cudaDeviceSynchronize());
    CHECK_OK(grad_start(&d));
    CHECK(same_bits(grad_fetch(&d), got));
    guarded_finish();
}

void grad_move(random_state *random, grad_problem *p) {
    for (int *off : {&p->off.in, &p->off.in2, &p->off.out}) {
        *off = random_int(random, 0, 2) ? 0 : random_int(random, 1, 9);
    }
}

} // namespace

DEVICE_TEST(gpu_grad_weight_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 8 : 100); ++seed) {
        random_state random = random_make((uint64_t)seed);
        const int volume = random_int(&random, 0, 3) ? random_int(&random, 1, 30) : 125;
        conv_shape s = shape_make(volume, channels_random(&random, edges), 0,
                                  channels_random(&random, edges), numerics[seed % 4]);
        s.cin2 = seed % 5 ? 0 : channels_random(&random, edges);
        const pairs_sides sides =
            volume % 2 ? (pairs_sides)random_int(&random, pairs_sides_one, pairs_sides_centre)
                       : pairs_sides_one;
        grad_problem p = grad_problem_make(&random, s, sides, random_int(&random, 0, 600),
                                           random_int(&random, 0, 600), random_int(&random, 1, 300),
                                           seed % 2 * 5);
        grad_move(&random, &p);
        grad_check(&p);
    }
}

// Channels around the tiles, in every format.
DEVICE_TEST(gpu_grad_weight_every_channel) {
    int turn = 0;
    for (int cin : edges) {
        for (int cout : edges) {
            if (++turn % (test_quick() ? 97 : 5)) {
                continue;
            }
            random_state random = random_make((uint64_t)turn);
            const grad_problem p =
                grad_problem_make(&random, shape_make(3, cin, 0, cout, numerics[turn / 5 % 4]),
                                  pairs_sides_one, 300, 300, 200);
            grad_check(&p);
        }
    }
}

// Lists that many parts share, and more lists than parts.
DEVICE_TEST(gpu_grad_weight_many_pairs) {
    for (numeric type : numerics) {
        for (int channels : {16, 32, 64, 128}) {
            random_state random = random_make((uint64_t)channels);
            const grad_problem p =
                grad_problem_make(&random, shape_make(4, channels, 0, channels, type),
                                  pairs_sides_one, 5000, 5000, channels < 64 ? 10000 : 2000);
            grad_check(&p);
        }
    }
    for (numeric type : {numeric_f16, numeric_bf16}) {
        random_state random = random_make(11);
        const grad_problem p = grad_problem_make(&random, shape_make(4, 256, 0, 200, type),
                                                 pairs_sides_one, 1000, 1000, 600);
        grad_check(&p);
    }
    random_state random = random_make(9);
    const grad_problem p = grad_problem_make(&random, shape_make(1331, 16, 0, 16, numeric_f16),
                                             pairs_sides_one, 500, 500, 9);
    grad_check(&p);
}

// The widest layer, and scratch that does not grow with it.
DEVICE_TEST(gpu_grad_weight_wide) {
    random_state random = random_make(10);
    for (numeric type : {numeric_f16, numeric_f32}) {
        const grad_problem p = grad_problem_make(&random, shape_make(3, 1024, 0, 1000, type),
                                                 pairs_sides_centre, 200, 200, 30);
        grad_check(&p);
    }
}

// No rows, no pairs, a 1x1x1 layer without lists.
DEVICE_TEST(gpu_grad_weight_edges) {
    random_state random = random_make(3);
    for (numeric type : numerics) {
        for (int rows : {0, 1, 31, 32, 33, 127, 128, 129, 4000}) {
            grad_problem p = grad_problem_make(&random, shape_make(1, 24, 0, 40, type),
                                               pairs_sides_centre, rows, rows, 1);
            grad_check(&p);
        }
        for (pairs_sides sides : {pairs_sides_one, pairs_sides_both, pairs_sides_centre}) {
            grad_problem p =
                grad_problem_make(&random, shape_make(27, 16, 0, 16, type), sides, 20, 20, 0);
            grad_check(&p);
        }
    }
}

// One captured graph, over other features and another count: 100 replays, the same bits.
DEVICE_TEST(gpu_grad_weight_in_a_graph) {
    random_state random = random_make(4);
    grad_problem p = grad_problem_make(&random, shape_make(27, 64, 0, 64, numeric_f16),
                                       pairs_sides_centre, 900, 900, 300);
    device_grad d = grad_upload(&p);
    d.args.programmatic = true;
    cudaGraphExec_t graph = stream_capture(
        [&](cudaStream_t stream) {
            CHECK_OK(conv_grad_weight(gpu(), &d.args, d.scratch, d.bytes, stream));
        },
        2, false);
    REQUIRE(graph != nullptr);
    p.outputs = 700;
    for (int32_t &row : p.output) {
        row %= p.outputs;
    }
    for (int32_t &row : p.input) {
        row %= p.outputs;
    }
    reference_random_values(&random, numeric_f16, 1, (int64_t)p.in.size(), p.in.data());
    features_refill(numeric_f16, d.args.in, p.in);
    device_copy_in(d.args.pairs.input, p.input.data(), (int64_t)p.input.size());
    device_copy_in(d.args.pairs.output, p.output.data(), (int64_t)p.output.size());
    device_copy_in((int32_t *)d.args.count, &p.outputs, 1);
    std::vector<float> first;
    for (int i = 0; i < 100; ++i) {
        CUDA_CHECK(cudaGraphLaunch(graph, stream_get()));
        const std::vector<float> got = grad_fetch(&d);
        first = i ? first : got;
        CHECK(same_bits(got, first));
    }
    reference_conv_good(grad_judge(&p, first.data()), p.name);
    CUDA_CHECK(cudaGraphExecDestroy(graph));
}

// Host threads whose layers take other amounts of shared memory do not disturb each other.
DEVICE_TEST(gpu_grad_weight_from_two_host_threads) {
    random_state random = random_make(6);
    const int volumes[2] = {27, 125};
    device_grad d[2];
    std::vector<float> wanted[2];
    cudaStream_t stream[2];
    int failed[2] = {};
    for (int i = 0; i < 2; ++i) {
        const grad_problem p =
            grad_problem_make(&random, shape_make(volumes[i], 128, 0, 128, numeric_f16),
                              pairs_sides_centre, 300, 300, 0);
        d[i] = grad_upload(&p);
        CHECK_OK(grad_start(&d[i]));
        wanted[i] = grad_fetch(&d[i]);
        CUDA_CHECK(cudaStreamCreate(&stream[i]));
    }
    auto call = [&](int i) {
        for (int n = 0; n < (test_quick() ? 4 : 3000); ++n) {
            failed[i] += status_failed(
                conv_grad_weight(gpu(), &d[i].args, d[i].scratch, d[i].bytes, stream[i]));
        }
    };
    std::thread other(call, 0);
    call(1);
    other.join();
    CUDA_CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; ++i) {
        CHECK_EQUAL(failed[i], 0);
        CHECK(same_bits(grad_fetch(&d[i]), wanted[i]));
        CUDA_CHECK(cudaStreamDestroy(stream[i]));
    }
    guarded_finish();
}

DEVICE_TEST(gpu_grad_weight_refuses) {
    random_state random = random_make(5);
    const grad_problem p =
        grad_problem_make(&random, shape_make(2, 8, 0, 8, numeric_f16), pairs_sides_one, 9, 9, 9);
    const device_grad good = grad_upload(&p);
    auto spoilt = [&](auto spoil) {
        device_grad bad = good;
        spoil(&bad);
        return grad_start(&bad);
    };
    auto by = [&](status_code code, auto spoil) { CHECK_STATUS(spoilt(spoil), code); };
    by(status_workspace, [](device_grad *d) { --d->bytes; });
    by(status_alignment, [](device_grad *d) { d->scratch += 16; });
    by(status_null_pointer, [](device_grad *d) { d->scratch = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.in = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.out_grad = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.weight_grad = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.count = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.pairs.begin = nullptr; });
    by(status_null_pointer, [](device_grad *d) { d->args.shape.cin2 = 1; });
    by(status_alignment, [](device_grad *d) { d->args.in = (const char *)d->args.in + 1; });
    by(status_bad_size, [](device_grad *d) { d->args.shape.cin = conv_channels_max + 1; });
    by(status_bad_size, [](device_grad *d) { d->args.capacity = 0; });
    by(status_unsupported, [](device_grad *d) { d->args.sides = pairs_sides_both; });
    by(status_unsupported, [](device_grad *d) { d->args.in = d->args.weight_grad; });
    CHECK_STATUS(
        conv_grad_weight<numeric_bf16>(gpu(), &good.args, good.scratch, good.bytes, stream_get()),
        status_unsupported);
    CHECK_STATUS(conv_grad_weight(nullptr, &good.args, good.scratch, good.bytes, stream_get()),
                 status_null_pointer);
    CHECK(device_untouched(good.args.weight_grad, 0, grad_elements(&p.shape)));
}

// ---- layers between sets ------------------------------------------------------------------------

namespace {

struct grad_layer {
    word_layout words;
    std::vector<uint32_t> source, outputs;
    conv_shape shape;
    conv_map_request<uint32_t> request; // of the layer, on the device
    bool same;
};

// kind: 0 submanifold, 1 strided, 2 inverse.
grad_layer layer_make(random_state *random, kernel_shape kernel, int kind, const conv_shape &s) {
    const triple lo = triple_make(-12, -12, -12), hi = triple_make(12, 12, 12);
    grad_layer l = {};
    l.words = reference_layout<uint32_t>(lo, hi, 1, {2, 2, 2}, {8, 8, 8});
    const int voxels = test_quick() ? 200 : 2000;
    std::vector<uint32_t> fine((size_t)voxels);
    fine.resize((size_t)reference_random_set<uint32_t>(random, &l.words, lo, hi, {1, 1, 1}, voxels,
                                                       fine.data()));
    const std::vector<uint32_t> coarse = forms_floored(&l.words, fine, {2, 2, 2});
    kernel.transposed = kind == 2;
    l.same = kind == 0;
    l.source = kind == 2 ? coarse : fine;
    l.outputs = kind == 1 ? coarse : fine;
    l.request.layout = &l.words;
    l.request.kernel = kernel;
    l.shape = s;
    l.request.source = set_upload(l.source, 5);
    l.request.outputs = l.same ? l.request.source : set_upload(l.outputs, 7);
    l.request.trouble = device_zeros<device_status>(1);
    return l;
}

status input_start(const device_problem *d, const conv_shape *s, grad_source source) {
    conv_grad_input_args a = {};
    a.shape = *s;
    a.source = source;
    a.map = d->args.map;
    a.out_grad = d->args.in;
    a.weights = d->args.weights;
    a.residual = d->args.epilogue.residual;
    a.in_grad = d->args.out;
    return shared_conv.conv_grad_input(gpu(), &a, stream_get());
}

// The packed weights of the input gradient; a buffer one byte short is refused.
const void *input_weights(const conv_shape *s, grad_source source, grad_order order,
                          const std::vector<float> &weight) {
    size_t bytes = 0;
    CHECK_OK(conv_grad_weights_bytes(gpu(), s, source, &bytes));
    conv_weights w = {device_upload(weight.data(), (int64_t)weight.size()),
                      device_new<char>((int64_t)bytes), bytes - 1, nullptr};
    auto pack = [&] {
        return s->type == numeric_f16
                   ? conv_grad_weights_pack<numeric_f16>(gpu(), s, source, order, &w, stream_get())
                   : conv_grad_weights_pack<numeric_f32>(gpu(), s, source, order, &w, stream_get());
    };
    CHECK_STATUS(pack(), status_workspace);
    w.packed_bytes = bytes;
    CHECK_OK(pack());
    return w.packed;
}

// The input gradient over the map that conv_grad_request names.
void input_check(random_state *random, const grad_layer *l, grad_source source) {
    const conv_shape *s = &l->shape;
    grad_order order;
    const conv_map_request<uint32_t> r = conv_grad_request(&l->request, &order);
    CHECK_EQUAL(order, l->same && kernel_is_odd(&r.kernel) ? grad_order_mirrored : grad_order_same);
    CHECK(order == grad_order_same || r.source.words == l->request.source.words);
    const std::vector<uint32_t> &from = order == grad_order_same ? l->outputs : l->source;
    const std::vector<uint32_t> &to = order == grad_order_same ? l->source : l->outputs;
    problem p = problem_make(random, conv_grad_shape(s, source), (int32_t)from.size(),
                             (int32_t)to.size(), r.outputs.capacity);
    std::vector<float> weight((size_t)grad_elements(s));
    reference_random_values(random, numeric_f32, 1, (int64_t)weight.size(), weight.data());
    CHECK_OK(conv_grad_weights_host(s, source, order, weight.data(), p.weight.data()));
    problem_map_sets(&p, &r.kernel, &l->words, from, to);
    problem_fill_epilogue(random, &p, random_int(random, 0, 1) * with_residual, activation_none);
    problem_name(&p, "input gradient");
    size_t bytes = 0;
    CHECK_OK(conv_map_bytes(gpu(), &r, &bytes));
    conv_map map;
    CHECK_OK(
        conv_map_build(gpu(), &r, device_new<char>((int64_t)bytes), bytes, &map, stream_get()));
    device_problem d = {};
    d.args.weights = input_weights(s, source, order, weight);
    device_problem_arrays(&p, &d);
    d.args.map = &map;
    const std::vector<char> out =
        device_problem_run(&p, &d, true, [&] { return input_start(&d, s, source); });
    problem_good(&p, out);
}

// The weight gradient over lists that the device has built, and over those of a half map.
void weight_check(random_state *random, const grad_layer *l, bool half) {
    const conv_map_request<uint32_t> *r = &l->request;
    const int volume = l->shape.volume;
    const int32_t room = (int32_t)l->outputs.size() * volume;
    const map_lists pairs = {device_new<int32_t>(volume + 1), device_zeros<int32_t>(room),
                             device_zeros<int32_t>(room), room};
    size_t bytes = 0;
    CHECK_OK(map_lists_workspace(&r->kernel, r->outputs.capacity, &bytes));
    const map_request<uint32_t> request = {r->kernel, r->source, r->outputs,
                                           map_forms_none(0, half, r->trouble)};
    CHECK_OK(map_build_lists(&l->words, &request, &pairs, device_new<char>((int64_t)bytes), bytes,
                             stream_get()));
    grad_problem p = grad_problem_make(random, l->shape, pairs_sides_one, (int32_t)l->source.size(),
                                       (int32_t)l->outputs.size(), 0);
    problem whole = problem_make(random, l->shape, p.inputs, p.outputs);
    problem_map_sets(&whole, &r->kernel, &l->words, l->source, l->outputs);
    p.begin.assign(1, 0);
    p.input.clear();
    p.output.clear();
    for (int k = 0; k < volume; ++k) {
        for (int32_t o = 0; o < p.outputs; ++o) {
            const int32_t i = whole.map[(size_t)o * (size_t)volume + (size_t)k];
            if (i >= 0) {
                p.input.push_back(i);
                p.output.push_back(o);
            }
        }
        p.begin.push_back((int32_t)p.input.size());
    }
    p.input.push_back(-1);
    p.output.push_back(-1);
    device_grad d = grad_upload(&p);
    d.args.pairs = pairs;
    d.args.sides = half ? pairs_sides_centre : pairs_sides_one;
    CHECK_OK(grad_start(&d));
    reference_conv_good(grad_judge(&p, grad_fetch(&d).data()), p.name);
}

} // namespace

DEVICE_TEST(gpu_grad_layers) {
    const int sizes[] = {3, 2, 5, 1, 3};
    for (int i = 0; i < (test_quick() ? 15 : 48); ++i) {
        if (test_thinned(5)) { // one of each kind
            continue;
        }
        random_state random = random_make((uint64_t)i);
        const kernel_shape kernel = kernel_cube(sizes[i % 5], 1);
        conv_shape s =
            shape_make(kernel_volume(&kernel), channels_random(&random, edges), 0,
                       channels_random(&random, edges), i % 2 ? numeric_f32 : numeric_f16);
        s.cin2 = i % 4 < 2 ? 0 : channels_random(&random, edges);
        const int kind = i / 5 % 3;
        const grad_layer l = layer_make(&random, kernel, kind, s);
        input_check(&random, &l, s.cin2 ? (grad_source)(i % 3) : grad_source_both);
        weight_check(&random, &l, false);
        if (kind == 0 && s.volume % 2 && s.volume > 1) {
            weight_check(&random, &l, true);
        }
        guarded_finish();
    }
}

DEVICE_TEST(gpu_grad_bias) {
    for (int seed = 0; seed < (test_quick() ? 4 : 24); ++seed) {
        random_state random = random_make((uint64_t)seed);
        const numeric type = numerics[seed % 4];
        const int channels = seed % 5 ? channels_random(&random, edges) : 1000;
        const int32_t rows = seed ? random_int(&random, 0, 20000) : 0;
        std::vector<float> from((size_t)rows * (size_t)channels);
        reference_random_values(&random, type, 1, (int64_t)from.size(), from.data());
        const void *out_grad = features_upload(type, from, channels, seed % 2);
        const int32_t *count = device_upload(&rows, 1);
        float *grad = device_new<float>(channels);
        size_t bytes = 0;
        CHECK_OK(conv_grad_bias_workspace(channels, &bytes));
        char *scratch = device_new<char>((int64_t)bytes);
        auto start = [&](size_t room) {
            const conv_grad_bias_args args = {type,  channels,          out_grad,
                                              count, std::max(rows, 1), grad};
            return conv_grad_bias(gpu(), &args, scratch, room, stream_get());
        };
        CHECK_STATUS(start(bytes - 1), status_workspace);
        CHECK_OK(start(bytes));
        std::vector<float> got((size_t)channels), again((size_t)channels);
        device_copy_out(got.data(), grad, channels);
        CHECK_OK(start(bytes));
        device_copy_out(again.data(), grad, channels);
        CHECK(same_bits(got, again));
        grad_bias_check(from, rows, channels, got.data());
        guarded_finish();
    }
}
