// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/grad_problems.h: weight gradients (features, gradients of the outputs, pair lists),
// and their comparison with sums in double.
#ifndef SPIRA_TESTS_GRAD_PROBLEMS_H
#define SPIRA_TESTS_GRAD_PROBLEMS_H

#include "../../spira/conv_grad.h"
#include "problems.h"

namespace problems {

struct grad_problem {
    char name[200];
    conv_shape shape;
    pairs_sides sides;
    int32_t inputs, outputs, room;        // room: capacity - outputs
    std::vector<float> in, in2, out_grad; // as they enter the product
    std::vector<int32_t> begin, input, output;
    moves off; // in, in2, out: of out_grad
};

SPIRA_API map_lists grad_pairs(grad_problem *p) {
    return {p->begin.data(), p->input.data(), p->output.data(), (int32_t)p->input.size()};
}

// Random lists, some empty and one far longer than the others. percent: of entries that are no
// pairs.
SPIRA_API void grad_problem_fill(random_state *random, grad_problem *p, int most, int percent) {
    const int volume = p->shape.volume;
    const int lists = p->sides == pairs_sides_one ? volume : volume / 2;
    const int longest = random_int(random, 0, std::max(lists - 1, 0));
    const bool some = p->inputs > 0 && p->outputs > 0;
    p->begin.assign(1, 0);
    for (int k = 0; k < volume; ++k) {
        int count = k < lists && random_int(random, 0, 3) ? random_int(random, 0, most) : 0;
        count = k == longest && lists ? 6 * most : count;
        for (int i = 0; i < count && some; ++i) {
            const int missing = random_int(random, 0, 99) < percent ? random_int(random, 0, 2) : -1;
            p->input.push_back(missing == 0 ? -1 : random_int(random, 0, p->inputs - 1));
            p->output.push_back(missing == 1   ? -1
                                : missing == 2 ? p->outputs
                                               : random_int(random, 0, p->outputs - 1));
            if (p->sides != pairs_sides_one && missing == 2) { // no row of either side
                p->output.back() = -1;
            }
        }
        p->begin.push_back((int32_t)p->input.size());
    }
    if (p->input.empty()) { // arrays have an address
        p->input.push_back(-1);
        p->output.push_back(-1);
    }
}

SPIRA_API grad_problem grad_problem_make(random_state *random, conv_shape s, pairs_sides sides,
                                         int32_t inputs, int32_t outputs, int most,
                                         int percent = 0) {
    grad_problem p = {};
    p.shape = s;
    p.sides = sides;
    p.inputs = inputs;
    p.outputs = sides == pairs_sides_one ? outputs : inputs;
    p.room = random_int(random, 0, 1) * random_int(random, 0, 9);
    for (auto [values, rows, channels] : {std::tuple(&p.in, p.inputs, s.cin),
                                          {&p.in2, p.inputs, s.cin2},
                                          {&p.out_grad, p.outputs, s.cout}}) {
        values->resize((size_t)rows * (size_t)channels);
        reference_random_values(random, s.type, 1, (int64_t)values->size(), values->data());
    }
    grad_problem_fill(random, &p, most, percent);
    snprintf(p.name, sizeof p.name,
             "%s %d+%d->%d, volume %d, sides %d, %d inputs, %d outputs, %d pairs",
             numeric_name(s.type), s.cin, s.cin2, s.cout, s.volume, sides, p.inputs, p.outputs,
             (int)p.input.size());
    return p;
}

SPIRA_API int64_t grad_elements(const conv_shape *s) {
    return (int64_t)s->volume * (s->cin + s->cin2) * s->cout;
}

// The weight gradient in double. absolute: of the magnitudes.
SPIRA_API std::vector<double> grad_reference(const grad_problem *p, bool absolute) {
    grad_problem q = *p;
    for (std::vector<float> *v : {&q.in, &q.in2, &q.out_grad}) {
        for (float &f : *v) {
            f = numeric_operand(p->shape.type, f);
            f = absolute ? fabsf(f) : f;
        }
        v->push_back(0);
    }
    std::vector<double> sum((size_t)grad_elements(&p->shape));
    const conv_grad_weight_host_args a = {p->shape,          q.in.data(),    q.in2.data(),
                                          q.out_grad.data(), grad_pairs(&q), p->sides,
                                          p->outputs};
    CHECK_OK(conv_grad_weight_host(&a, sum.data(), (double *)nullptr));
    return sum;
}

// The element that lies worst in its bound: 2 (pairs + 4) eps_fp32 sum |a||b|, as of convolutions.
SPIRA_API reference_verdict grad_judge(const grad_problem *p, const float *got) {
    const std::vector<double> sum = grad_reference(p, false), magnitude = grad_reference(p, true);
    const int64_t size = (int64_t)(p->shape.cin + p->shape.cin2) * p->shape.cout;
    reference_verdict worst = {-1, 0, 0, 0, 0};
    grad_problem q = *p;
    const map_lists pairs = grad_pairs(&q);
    for (int64_t i = 0; i < grad_elements(&p->shape); ++i) {
        const map_span span =
            pairs_list_of(&pairs, p->shape.volume, p->sides, p->outputs, (int)(i / size)).span;
        const double c = 2.0 * (span.count + 4);
        const reference_value v = {sum[(size_t)i],
                                   c * (magnitude[(size_t)i] / (1 << 24) + 0x1p-149) + 0x1p-126};
        const double ratio = reference_ratio((double)got[i], v, numeric_f32);
        if (ratio > worst.ratio) {
            worst = {ratio, i, (double)got[i], v.expected, v.bound};
        }
    }
    return worst;
}

// Whether a bias gradient lies within (rows + 4) eps_fp32 sum |g|.
SPIRA_API void grad_bias_check(std::vector<float> out_grad, int32_t rows, int channels,
                               const float *got) {
    std::vector<double> sum((size_t)channels), magnitude((size_t)channels);
    out_grad.push_back(0);
    CHECK_OK(conv_grad_bias_host(out_grad.data(), rows, channels, sum.data()));
    for (float &f : out_grad) {
        f = fabsf(f);
    }
    CHECK_OK(conv_grad_bias_host(out_grad.data(), rows, channels, magnitude.data()));
    for (size_t c = 0; c < sum.size(); ++c) {
        CHECK(fabs((double)got[c] - sum[c]) <= (rows + 4.0) / (1 << 23) * magnitude[c]);
    }
}

} // namespace problems

#endif
