// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/sliced.h: grouped layers for the tests of conv_slices.cuh: each group is a problem
// of its own (problems.h), whose outputs are judged against sums in double.
#ifndef SPIRA_TESTS_SLICED_H
#define SPIRA_TESTS_SLICED_H

#include "memory.h"
#include "problems.h"

#include "../../spira/conv_slices.cuh"

namespace problems {

struct sliced_side {
    const test_memory *memory;
    const device_info *gpu;
    cudaStream_t stream;
    decltype(&conv_slices<>) run;
    decltype(&conv_slices_pack<>) pack;
};

struct sliced_layer {
    conv_group_shape shape;
    std::vector<problem> group;
    int more; // channels of a row behind those of the layer
    bool in_place;
};

inline sliced_layer sliced_make(uint64_t seed, const conv_group_shape &s, int32_t outputs) {
    random_state random = random_make(seed);
    sliced_layer l = {s, {}, seed % 2 ? 0 : 8, seed % 3 == 0};
    for (int g = 0; g < s.groups; ++g) {
        problem p = problem_make(&random, conv_slices_shape(s), outputs / 2 + 1, outputs,
                                 outputs + random_int(&random, 1, 40));
        problem_fill_map(&random, &p, 30);
        problem_fill_epilogue(&random, &p, with_all, activation_relu);
        if (g) {
            p.map = l.group[0].map;
            p.room = l.group[0].room;
        }
        problem_name(&p, "a group");
        l.group.push_back(p);
    }
    return l;
}

// Rows of `channels` of each group side by side.
inline std::vector<float> sliced_join(const sliced_layer &l, std::vector<float> problem::*of,
                                      int channels) {
    std::vector<float> all;
    const size_t c = (size_t)channels;
    for (size_t row = 0; row < (l.group[0].*of).size(); row += c) {
        for (const problem &p : l.group) {
            all.insert(all.end(), (p.*of).begin() + (ptrdiff_t)row,
                       (p.*of).begin() + (ptrdiff_t)(row + c));
        }
    }
    return all;
}

inline conv_map sliced_map(const test_memory *m, const problem *p) {
    const problem_order o = problem_order_make(p);
    order_layout order = {};
    order.row = memory_put(m, o.row);
    order.mask = memory_put(m, o.mask);
    order.source = memory_put(m, o.source);
    order.schedule = memory_put(m, o.schedule);
    order.groups = o.blocks;
    order.volume = p->shape.volume;
    return conv_map_of_order(&order, memory_put(m, &p->outputs, 1), problem_capacity(p));
}

// Packs the weights of a layer; refuses a byte less; the tag of the last group ends them.
inline const void *sliced_weights(const sliced_layer &l, const sliced_side &side) {
    size_t bytes = 0;
    CHECK_OK(conv_slices_bytes(side.gpu, &l.shape, &bytes));
    const std::vector<float> weight =
        sliced_join(l, &problem::weight, l.shape.cout / l.shape.groups);
    conv_weights w = {};
    w.weight = memory_put(side.memory, weight);
    w.packed = memory_new<char>(side.memory, (int64_t)bytes);
    w.packed_bytes = bytes - 1;
    CHECK(side.pack(side.gpu, &l.shape, &w, side.stream).code == status_workspace);
    w.packed_bytes = bytes;
    CHECK_OK(side.pack(side.gpu, &l.shape, &w, side.stream));
    const std::vector<char> copy = memory_get(side.memory, (const char *)w.packed, (int64_t)bytes);
    const conv_shape own = conv_slices_shape(l.shape);
    const conv_weights_tag tag =
        conv_weights_tag_make(side.gpu, &own, conv_kernel_of(&own, side.gpu));
    CHECK_OK(conv_weights_tag_check(&tag, copy.data(), bytes));
    return w.packed;
}

// What is refused, by name. a: arguments that are good.
inline void sliced_refusals(const conv_group_shape &shape, const conv_args &a,
                            const sliced_side &side) {
    const conv_shortcut shortcut = {};
    const struct {
        void (*spoil)(conv_group_shape *, conv_args *);
        status_code code;
        const char *subject;
    } bad[] = {
        {[](conv_group_shape *s, conv_args *) { s->groups = 7; }, status_bad_size, "shape.groups"},
        {[](conv_group_shape *s, conv_args *) { s->type = numeric_i8; }, status_unsupported,
         "shape.type"},
        {[](conv_group_shape *, conv_args *b) { b->in2 = b->in; }, status_unsupported, "in2"},
        {[](conv_group_shape *, conv_args *b) { b->sums = (const float *)b->in; },
         status_unsupported, "sums"},
        {[](conv_group_shape *s, conv_args *b) { b->pitch_in = s->cin - 1; }, status_bad_size,
         "pitch_in"},
        {[](conv_group_shape *s, conv_args *b) { b->pitch_out = s->cout - 1; }, status_bad_size,
         "pitch_out"},
        {[](conv_group_shape *, conv_args *b) { b->pitch_in = 1 << 30; }, status_bad_size,
         "pitch_in"},
        {[](conv_group_shape *, conv_args *b) { b->pitch_out = 1 << 30; }, status_bad_size,
         "pitch_out"},
        {[](conv_group_shape *, conv_args *b) { b->in = nullptr; }, status_null_pointer, "in"},
    };
    for (const auto &one : bad) {
        conv_group_shape s = shape;
        conv_args b = a;
        one.spoil(&s, &b);
        const status got = side.run(side.gpu, &s, &b, side.stream);
        CHECK(got.code == one.code && strstr(got.subject, one.subject) == got.subject);
    }
    conv_args b = a;
    b.shortcut = &shortcut;
    CHECK_STATUS(side.run(side.gpu, &shape, &b, side.stream), status_unsupported);
    CHECK_STATUS(side.run(side.gpu, &shape, nullptr, side.stream), status_null_pointer);
    CHECK_STATUS(side.run(side.gpu, nullptr, &a, side.stream), status_null_pointer);
    CHECK_STATUS(side.run(nullptr, &shape, &a, side.stream), status_null_pointer);
}

// Runs a layer and judges each group. Nothing around the outputs is written.
inline bool sliced_good(const sliced_layer &l, const sliced_side &side) {
    const test_memory *m = side.memory;
    const conv_group_shape &s = l.shape;
    const int out = s.cout / s.groups, pitch = s.cout + l.more;
    const problem &first = l.group[0];
    const slices rows = {s.cin, s.cin + l.more, 0}, results = {s.cout, pitch, 0};
    const conv_map map = sliced_map(m, &first);
    conv_args a = {};
    a.map = &map;
    a.in = memory_put(
        m, slices_spread(s.type, sliced_join(l, &problem::in, s.cin / s.groups), rows, 3));
    a.weights = sliced_weights(l, side);
    a.epilogue.bias = memory_put(m, sliced_join(l, &problem::bias, out));
    a.epilogue.scale = memory_put(m, sliced_join(l, &problem::scale, out));
    a.epilogue.shift = memory_put(m, sliced_join(l, &problem::shift, out));
    a.epilogue.act = first.act;
    a.epilogue.residual =
        memory_put(m, slices_spread(s.type, sliced_join(l, &problem::residual, out), results,
                                    problem_capacity(&first) - first.outputs));
    a.pitch_in = l.more ? rows.pitch : 0;
    a.pitch_out = l.more ? pitch : 0;
    const std::vector<char> none((size_t)problem_capacity(&first) * (size_t)pitch *
                                     (size_t)numeric_size(s.type),
                                 (char)0xff);
    a.out = l.in_place ? (void *)a.epilogue.residual : memory_put(m, none);
    sliced_refusals(s, a, side);
    CHECK_OK(side.run(side.gpu, &s, &a, side.stream));
    const std::vector<char> wide = memory_get(m, (const char *)a.out, (int64_t)none.size());
    const std::vector<char> tight = slices_gather(s.type, wide, first.outputs, results);
    const size_t part = (size_t)(numeric_size(s.type) * out);
    bool good = true;
    for (size_t g = 0; g < l.group.size(); ++g) {
        std::vector<char> own;
        for (size_t o = 0; o < (size_t)first.outputs; ++o) {
            const char *const from = tight.data() + (o * l.group.size() + g) * part;
            own.insert(own.end(), from, from + part);
        }
        good = problem_good(&l.group[g], own) && good;
    }
    guarded_finish();
    return good;
}

} // namespace problems

#endif
