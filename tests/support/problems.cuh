// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/problems.cuh: the problems of problems.h in device memory. For the GPU tests of all
// dataflows; what is cut in tiles is run here too.
#ifndef SPIRA_TESTS_PROBLEMS_CUH
#define SPIRA_TESTS_PROBLEMS_CUH

#include "gpu.cuh"
#include "problems.h"
#include "sets.cuh"
#include "shared.cuh"

namespace problems {

// ---- in device memory ---------------------------------------------------------------------------

SPIRA_API const float *floats_upload(const std::vector<float> &values, int off) {
    if (values.empty()) {
        return nullptr;
    }
    const std::vector<float> moved = floats_move(values, off);
    return device_upload(moved.data(), (int64_t)moved.size()) + off;
}

// Other features in memory that exists.
SPIRA_API void features_refill(numeric type, const void *to, const std::vector<float> &values) {
    std::vector<char> stored = features_store(type, values);
    device_copy_in((char *)to, stored.data(), (int64_t)stored.size());
}

SPIRA_API const void *features_upload(numeric type, const std::vector<float> &values, int channels,
                                      int off) {
    const std::vector<char> stored = features_move(type, values, channels, off);
    return device_upload(stored.data(), (int64_t)stored.size()) + off * numeric_size(type);
}

SPIRA_API const float *sums_upload(const problem *p) {
    const std::vector<float> sums = problem_sums(p);
    return device_upload(sums.data(), (int64_t)sums.size());
}

// Weights packed by bytes_of(gpu, shape, bytes) and pack(gpu, shape, weights, stream).
template <typename B, typename P>
const void *weights_upload(const conv_shape *shape, const std::vector<float> &weight, B bytes_of,
                           P pack) {
    size_t bytes = 0;
    CHECK_OK(bytes_of(gpu(), shape, &bytes));
    char *packed = device_new<char>((int64_t)bytes);
    const float *given = device_upload(weight.data(), (int64_t)weight.size());
    const conv_weights weights = {given, packed, bytes, nullptr};
    CHECK_OK(pack(gpu(), shape, &weights, stream_get()));
    return packed;
}

SPIRA_API const void *weights_upload(const conv_shape *shape, const std::vector<float> &weight) {
    return weights_upload(shape, weight, conv_weights_bytes, shared_conv.conv_weights_pack);
}

// The lists of the map; only as much of their capacity is written as there are pairs.
SPIRA_API map_lists pairs_upload(const problem *p) {
    std::vector<int32_t> begin(1, 0), input, output;
    for (int k = 0; k < p->shape.volume; ++k) {
        for (int32_t o = 0; o < p->outputs; ++o) {
            int32_t source = p->map[(size_t)o * (size_t)p->shape.volume + (size_t)k];
            if (source >= 0) {
                input.push_back(source);
                output.push_back(o);
            }
        }
        begin.push_back((int32_t)input.size());
    }
    int32_t capacity = std::max((int32_t)input.size() + p->room, 1);
    map_lists pairs = {};
    pairs.begin = device_upload(begin.data(), (int64_t)begin.size());
    pairs.input = device_new<int32_t>(capacity);
    pairs.output = device_new<int32_t>(capacity);
    pairs.capacity = capacity;
    device_copy_in(pairs.input, input.data(), (int64_t)input.size());
    device_copy_in(pairs.output, output.data(), (int64_t)output.size());
    return pairs;
}

// What every dataflow has. A device problem D has
//     args             with in, in2, epilogue and out
//     out, out_bytes   the buffer of the outputs, of just the capacity
//     scratch, scratch_bytes
template <typename D>
void device_problem_arrays(const problem *p, D *d) {
    const conv_shape *s = &p->shape;
    const int element = numeric_size(s->type);
    d->args.in = features_upload(s->type, p->in, s->cin, p->off.in);
    d->args.in2 = s->cin2 ? features_upload(s->type, p->in2, s->cin2, p->off.in2) : nullptr;
    conv_epilogue *e = &d->args.epilogue;
    e->bias = floats_upload(p->bias, p->off.floats);
    e->scale = floats_upload(p->scale, p->off.floats);
    e->shift = floats_upload(p->shift, p->off.floats);
    e->residual = p->residual.empty()
                      ? nullptr
                      : features_upload(s->type, p->residual, s->cout, p->off.residual);
    e->act = p->act;
    e->slope = p->slope;
    d->out_bytes = ((int64_t)problem_capacity(p) * s->cout + p->off.out) * element;
    d->out = device_new<char>(d->out_bytes);
    d->args.out = d->out + p->off.out * element;
}

// The bytes of the outputs that there are, and one more: of no outputs too.
template <typename D>
std::vector<char> device_problem_fetch(const problem *p, const D *d) {
    int64_t bytes = (int64_t)p->outputs * p->shape.cout * numeric_size(p->shape.type);
    std::vector<char> out((size_t)bytes + 1);
    device_copy_out(out.data(), (const char *)d->args.out, bytes);
    return out;
}

// Nothing was written in front of the outputs, nor behind those that there are.
template <typename D>
bool device_problem_untouched(const problem *p, const D *d) {
    int64_t before = (char *)d->args.out - d->out;
    int64_t used = (int64_t)p->outputs * p->shape.cout * numeric_size(p->shape.type);
    return device_untouched(d->out, 0, before) &&
           device_untouched(d->out, before + used, d->out_bytes);
}

// Runs start() twice, the second time over the first one's memory and scratch of NaN; what the
// second gives. same: to the bit what the first gives.
template <typename D, typename F>
std::vector<char> device_problem_run(const problem *p, const D *d, bool same, F start) {
    CHECK_OK(start());
    std::vector<char> out = device_problem_fetch(p, d);
    if (d->scratch_bytes) {
        CUDA_CHECK(cudaMemset(d->scratch, 0xff, d->scratch_bytes));
        CUDA_CHECK(cudaDeviceSynchronize());
    }
    CHECK_OK(start());
    std::vector<char> again = device_problem_fetch(p, d);
    CHECK(!same || again == out);
    CHECK(device_problem_untouched(p, d));
    return again;
}

// ---- output-stationary --------------------------------------------------------------------------

struct device_problem {
    conv_args args;
    conv_map map; // of the form that the shape reads
    char *out, *scratch;
    size_t scratch_bytes;
    int64_t out_bytes;
};

SPIRA_API order_layout order_upload(const problem *p) {
    const problem_order o = problem_order_make(p);
    order_layout device = {};
    device.row = device_upload(o.row.data(), (int64_t)o.row.size());
    device.mask = device_upload(o.mask.data(), (int64_t)o.mask.size());
    device.source = device_upload(o.source.data(), (int64_t)o.source.size());
    device.schedule = device_upload(o.schedule.data(), (int64_t)o.schedule.size());
    device.groups = o.blocks;
    device.volume = p->shape.volume;
    return device;
}

// The kernel map of a problem.
SPIRA_API conv_map map_upload(const problem *p) {
    const int32_t *count = device_upload(&p->outputs, 1);
    const int32_t capacity = problem_capacity(p);
    if (p->identity) {
        return conv_map_identity(count, capacity);
    }
    const order_layout order = order_upload(p);
    return conv_map_of_order(&order, count, capacity);
}

// Not copied: the arguments point to the map.
SPIRA_API void device_problem_make(const problem *p, device_problem *d) {
    conv_args *a = &d->args;
    *a = {};
    a->shape = p->shape;
    a->weights = weights_upload(&p->shape, p->weight);
    d->map = map_upload(p);
    a->map = &d->map;
    device_problem_arrays(p, d);
    d->scratch = nullptr;
    d->scratch_bytes = 0;
}

template <bool shortcuts = false>
status device_problem_start(const device_problem *d) {
    return (shortcuts ? shared_conv.conv_shortcuts : shared_conv.conv)(gpu(), &d->args,
                                                                       stream_get());
}

// A problem with a shortcut, or without where it has no channels. Not copied: the arguments point
// to the shortcut.
struct device_joined {
    device_problem main;
    conv_shortcut own;
};

SPIRA_API void device_joined_make(const joined_problem *p, device_joined *d) {
    const conv_shape *s = &p->own.shape;
    device_problem_make(&p->main, &d->main);
    if (!s->cin) {
        return;
    }
    size_t bytes = 0;
    CHECK_OK(conv_shortcut_bytes(gpu(), &p->main.shape, s->cin, s->cin2, &bytes));
    char *packed = device_new<char>((int64_t)bytes);
    const float *given = device_upload(p->own.weight.data(), (int64_t)p->own.weight.size());
    const conv_weights weights = {given, packed, bytes, nullptr};
    CHECK_OK(shared_conv.conv_shortcut_pack(gpu(), &p->main.shape, s->cin, s->cin2, &weights,
                                            stream_get()));
    d->own = {};
    d->own.cin = s->cin;
    d->own.cin2 = s->cin2;
    d->own.in = features_upload(s->type, p->own.in, s->cin, p->own.off.in);
    d->own.in2 = s->cin2 ? features_upload(s->type, p->own.in2, s->cin2, p->own.off.in2) : nullptr;
    d->own.weights = packed;
    d->own.bias = floats_upload(p->own.bias, p->own.off.floats);
    d->own.scale = floats_upload(p->own.scale, p->own.off.floats);
    d->own.shift = floats_upload(p->own.shift, p->own.off.floats);
    d->main.args.shortcut = &d->own;
}

// The same bits twice. Frees all buffers of the test.
SPIRA_API std::vector<char> problem_run(const problem *p) {
    device_problem d;
    device_problem_make(p, &d);
    std::vector<char> out =
        device_problem_run(p, &d, true, [&] { return device_problem_start(&d); });
    guarded_finish();
    return out;
}

SPIRA_API bool problem_check(const problem *p, const char *file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
    return problem_good(p, problem_run(p), file, line);
}

} // namespace problems

#endif
