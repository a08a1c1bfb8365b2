// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/norm.cpp: norm.h against sums in double, and its kernel, run on the host, against the
// host loop.
#include "../support/emulate_numeric.h"

inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}

#include "../support/norm_groups.h"
#include "../support/norms.h"

#include "../../spira/norm.cuh"
#include "../../spira/norm_groups.cuh"

using namespace spira;

namespace {

const norm_side by_kernel = {&memory_host, [](const norm_args *a) { return norm(a, nullptr); },
                             [](const norm_grad_args *a, void *scratch, size_t bytes) {
                                 return norm_grad(a, scratch, bytes, nullptr);
                             },
                             norm_grad_workspace};

const norm_side by_host = {
    &memory_host, norm_host,
    [](const norm_grad_args *a, void *, size_t) { return norm_grad_host(a); }, norm_grad_workspace};

TEST(norm_emulated_random) {
    norm_check_random(1, 40, &by_kernel);
}

TEST(norm_grad_random) {
    norm_check_grad_random(7, test_quick() ? 30 : 200, &by_host);
}

TEST(norm_grad_emulated) {
    for (int i = 0; i < (test_quick() ? 4 : 10); ++i) {
        emulate::seed = (uint64_t)i;
        norm_check_grad_random((uint64_t)i + 8, 1, &by_kernel);
    }
}

// The gradient that the tests compare with is the slope of the norm that they compare with.
TEST(norm_grad_is_the_slope) {
    random_state r = random_make(9);
    for (int n = 0; n < 20; ++n) {
        norm_problem p = norm_random(&r);
        p.args.channels = 6;
        p.args.act = activation_none;
        p.residual.clear();
        p.shift.clear();
        p.in = {0.5f, -1, 2, 0.25f, 3, -0.125f};
        p.gain = {1, 0.5f, -2, 1.5f, 0.25f, 1};
        const float out_grad[6] = {1, -0.5f, 0.25f, 2, 1, -1};
        const std::vector<double> zeros(6);
        norm_slopes slopes = {zeros, zeros, zeros, zeros, zeros, zeros};
        norm_grad_reference(&p, 0, out_grad, &slopes);
        const auto loss = [&] {
            double out[6], sum = 0;
            norm_reference(&p, 0, out);
            for (int c = 0; c < 6; ++c) {
                sum += out[c] * out_grad[c];
            }
            return sum;
        };
        const float step = 1.0f / 1024;
        const auto slope = [&](float *at) {
            const float was = *at;
            *at = was + step;
            const double up = loss();
            *at = was - step;
            const double down = loss();
            *at = was;
            return (up - down) / (2.0 * step);
        };
        for (size_t c = 0; c < 6; ++c) {
            CHECK(fabs(slope(&p.in[c]) - slopes.row[c]) < 1e-5);
            CHECK(fabs(slope(&p.gain[c]) - slopes.gain[c]) < 1e-5);
        }
    }
}

// LayerNorm of (1, 2, 3, 6); RMSNorm of (3, 4); SiLU and GELU of a row that is normalised already.
TEST(norm_worked_examples) {
    const float row[] = {1, 2, 3, 6}, layer[] = {-1.069045f, -0.534522f, 0, 1.603567f};
    const float pair[] = {3, 4}, rms[] = {0.848528f, 1.131371f};
    const float signs[] = {-1, 1}, silu[] = {-0.2689414f, 0.7310586f};
    const float gelu[] = {-0.1586553f, 0.8413447f};
    const struct {
        const float *in, *out;
        int channels;
        norm_kind kind;
        activation act;
    } cases[] = {{row, layer, 4, norm_layer, activation_none},
                 {pair, rms, 2, norm_rms, activation_none},
                 {signs, silu, 2, norm_layer, activation_silu},
                 {signs, gelu, 2, norm_layer, activation_gelu}};
    const int32_t count = 1;
    for (const auto &one : cases) {
        norm_args a = {};
        float out[4];
        a.in = one.in;
        a.channels = one.channels;
        a.kind = one.kind;
        a.epsilon = 1e-6f;
        a.act = one.act;
        a.count = &count;
        a.capacity = 1;
        a.out = out;
        CHECK_OK(norm_host(&a));
        for (int c = 0; c < one.channels; ++c) {
            CHECK(fabsf(out[c] - one.out[c]) < 2e-6f);
        }
    }
}

// Numbers that are none stay in their row.
TEST(norm_special_values_stay_in_their_rows) {
    random_state r = random_make(2);
    for (const float odd : {NAN, INFINITY, -INFINITY}) {
        norm_problem p = norm_random(&r);
        p.count = p.args.capacity = 3;
        p.args.channels = 16;
        p.args.type = numeric_f32;
        p.in.assign(48, 0.5f);
        p.residual.clear();
        p.gain.clear();
        p.shift.clear();
        p.in[20] = odd;
        const std::vector<char> out = norm_run(&p, &by_kernel);
        for (int i = 0; i < 48; ++i) {
            const float x = numeric_load(numeric_f32, out.data(), i);
            CHECK(i / 16 == 1 || float_is_finite(x));
        }
        CHECK(float_is_nan(numeric_load(numeric_f32, out.data(), 20)));
    }
}

TEST(norm_refuses) {
    float in[4] = {}, out[4], gain[4];
    int32_t count = 1;
    norm_args good = {};
    good.in = in;
    good.channels = 4;
    good.epsilon = 1e-5f;
    good.gain = gain;
    good.count = &count;
    good.capacity = 1;
    good.out = out;
    CHECK_OK(norm_check(&good));
    CHECK(norm(nullptr, nullptr).code == status_null_pointer);
    const struct {
        void (*spoil)(norm_args *);
        status_code code;
        const char *subject;
    } bad[] = {
        {[](norm_args *a) { a->in = nullptr; }, status_null_pointer, "in"},
        {[](norm_args *a) { a->out = nullptr; }, status_null_pointer, "out"},
        {[](norm_args *a) { a->count = nullptr; }, status_null_pointer, "count"},
        {[](norm_args *a) { a->gain = (float *)((char *)a->gain + 1); }, status_alignment,
         "gain, shift"},
        {[](norm_args *a) { a->residual = (char *)a->in + 2; }, status_alignment, "residual"},
        {[](norm_args *a) { a->channels = 0; }, status_bad_size, "channels"},
        {[](norm_args *a) { a->channels = 4097; }, status_bad_size, "channels"},
        {[](norm_args *a) { a->capacity = 0; }, status_bad_size, "capacity"},
        {[](norm_args *a) { a->epsilon = 0; }, status_bad_size, "epsilon"},
        {[](norm_args *a) { a->epsilon = NAN; }, status_bad_size, "epsilon"},
        {[](norm_args *a) { a->type = (numeric)9; }, status_unsupported, "type"},
        {[](norm_args *a) { a->kind = (norm_kind)2; }, status_unsupported, "kind"},
        {[](norm_args *a) { a->act = activation_count; }, status_unsupported, "act"},
    };
    for (const auto &one : bad) {
        norm_args a = good;
        one.spoil(&a);
        const status s = norm(&a, nullptr);
        CHECK(s.code == one.code && strstr(s.subject, one.subject) == s.subject);
        CHECK(norm_host(&a).code == one.code);
    }
    norm_grad_args grad = {};
    grad.norm = good;
    grad.norm.out = nullptr;
    grad.out_grad = grad.in_grad = out;
    CHECK_OK(norm_grad_host(&grad));
    CHECK(norm_grad_host(nullptr).code == status_null_pointer);
    const std::vector<refusal<norm_grad_args>> more = {
        {status_null_pointer, [](norm_grad_args *a) { a->out_grad = nullptr; }},
        {status_null_pointer, [](norm_grad_args *a) { a->in_grad = nullptr; }},
        {status_null_pointer, [](norm_grad_args *a) { a->norm.in = nullptr; }},
        {status_alignment,
         [](norm_grad_args *a) { a->shift_grad = (float *)((char *)a->norm.in + 1); }},
        {status_bad_size, [](norm_grad_args *a) { a->norm.epsilon = 0; }},
        {status_unsupported, [](norm_grad_args *a) { a->norm.act = activation_silu; }},
        {status_unsupported, [](norm_grad_args *a) { a->norm.out = a->in_grad; }},
        {status_unsupported, [](norm_grad_args *a) { a->norm.residual = a->norm.in; }},
        {status_unsupported, [](norm_grad_args *a) { a->in_grad = (void *)a->norm.in; }}};
    for (const refusal<norm_grad_args> &one : more) {
        norm_grad_args a = grad;
        one.spoil(&a);
        CHECK_STATUS(norm_grad_host(&a), one.code);
        CHECK_STATUS(norm_grad(&a, nullptr, 0, nullptr), one.code);
    }
    CHECK_STATUS(norm_grad(&grad, (void *)256, 1, nullptr), status_workspace);
}

// ---- over batch elements ------------------------------------------------------------------------

template <typename W>
const norm_groups_side<W> groups_by_host = {
    &memory_host, norm_groups_workspace<W>,
    [](const norm_groups_args<W> *a, void *, size_t) { return norm_groups_host(a); },
    norm_groups_grad_workspace<W>,
    [](const norm_groups_grad_args<W> *a, void *, size_t) { return norm_groups_grad_host(a); }};

template <typename W>
const norm_groups_side<W> groups_by_kernel = {
    &memory_host, norm_groups_workspace<W>,
    [](const norm_groups_args<W> *a, void *scratch, size_t bytes) {
        return norm_groups(a, scratch, bytes, nullptr);
    },
    norm_groups_grad_workspace<W>,
    [](const norm_groups_grad_args<W> *a, void *scratch, size_t bytes) {
        return norm_groups_grad(a, scratch, bytes, nullptr);
    }};

TEST(norm_groups_random) {
    random_state r = random_make(4);
    for (int i = 0; i < (test_quick() ? 30 : 200); ++i) {
        norm_groups_check_random(&r, &groups_by_host<uint32_t>);
        norm_groups_check_random(&r, &groups_by_host<uint64_t>);
    }
}

TEST(norm_groups_emulated) {
    random_state r = random_make(5);
    for (int i = 0; i < (test_quick() ? 1 : 3); ++i) {
        emulate::seed = (uint64_t)i;
        norm_groups_check_random(&r, &groups_by_kernel<uint32_t>);
        norm_groups_check_random(&r, &groups_by_kernel<uint64_t>);
    }
}

TEST(norm_groups_refuses) {
    const word_layout layout =
        reference_layout<uint32_t>({0, 0, 0}, {3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1});
    uint32_t words[1] = {};
    int32_t count = 1;
    float in[4] = {}, out[4];
    typedef norm_groups_args<uint32_t> A;
    A good = {};
    good.layout = &layout;
    good.set = {words, &count, 1};
    good.rows.in = in;
    good.rows.channels = 4;
    good.groups = 2;
    good.rows.epsilon = 1e-5f;
    good.rows.out = out;
    CHECK_OK(norm_groups_host(&good));
    CHECK(norm_groups_host((const A *)nullptr).code == status_null_pointer);
    const std::vector<refusal<A>> all = {
        {status_null_pointer, [](A *a) { a->layout = nullptr; }},
        {status_null_pointer, [](A *a) { a->rows.in = nullptr; }},
        {status_null_pointer, [](A *a) { a->set.count = nullptr; }},
        {status_alignment, [](A *a) { a->rows.out = (char *)a->rows.in + 2; }},
        {status_bad_size, [](A *a) { a->groups = 3; }},
        {status_bad_size, [](A *a) { a->groups = 0; }},
        {status_bad_size, [](A *a) { a->rows.channels = 0; }},
        {status_bad_size, [](A *a) { a->rows.epsilon = 0; }},
        {status_unsupported, [](A *a) { a->rows.type = numeric_i8; }},
        {status_unsupported, [](A *a) { a->rows.act = activation_count; }},
        {status_unsupported, [](A *a) { a->rows.kind = norm_rms; }},
        {status_unsupported, [](A *a) { a->rows.count = a->set.count; }},
        {status_unsupported, [](A *a) { a->rows.capacity = 1; }}};
    for (const refusal<A> &one : all) {
        A a = good;
        one.spoil(&a);
        CHECK_STATUS(norm_groups_host(&a), one.code);
        CHECK_STATUS(norm_groups(&a, nullptr, 0, nullptr), one.code);
    }
    CHECK_STATUS(norm_groups(&good, (void *)256, 1, nullptr), status_workspace);

    typedef norm_groups_grad_args<uint32_t> G;
    G grad = {};
    grad.norm = good;
    grad.norm.rows.out = nullptr;
    grad.out_grad = grad.in_grad = out;
    CHECK_OK(norm_groups_grad_host(&grad));
    CHECK(norm_groups_grad_host((const G *)nullptr).code == status_null_pointer);
    const std::vector<refusal<G>> more = {
        {status_null_pointer, [](G *a) { a->out_grad = nullptr; }},
        {status_null_pointer, [](G *a) { a->in_grad = nullptr; }},
        {status_null_pointer, [](G *a) { a->norm.rows.in = nullptr; }},
        {status_alignment, [](G *a) { a->gain_grad = (float *)((char *)a->norm.rows.in + 1); }},
        {status_bad_size, [](G *a) { a->norm.groups = 3; }},
        {status_unsupported, [](G *a) { a->norm.rows.act = activation_relu; }},
        {status_unsupported, [](G *a) { a->norm.rows.out = a->in_grad; }},
        {status_unsupported, [](G *a) { a->norm.rows.residual = a->norm.rows.in; }},
        {status_unsupported, [](G *a) { a->in_grad = (void *)a->norm.rows.in; }}};
    for (const refusal<G> &one : more) {
        G a = grad;
        one.spoil(&a);
        CHECK_STATUS(norm_groups_grad_host(&a), one.code);
        CHECK_STATUS(norm_groups_grad(&a, nullptr, 0, nullptr), one.code);
    }
    CHECK_STATUS(norm_groups_grad(&grad, (void *)256, 1, nullptr), status_workspace);
}

} // namespace
