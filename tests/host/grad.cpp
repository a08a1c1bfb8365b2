// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/grad.cpp: the host loops of gradients, against finite differences of the convolution:
// with the loss sum r * out, which is linear in features, weights and bias.
#include "../../spira/conv_grad.h"
#include "../support/reference_forms.h"

using namespace spira;

namespace {

// A layer between two sets, and what its gradients are made of.
struct layer {
    forms_scene<uint32_t> scene;
    conv_shape shape;
    grad_order order;
    std::vector<int32_t> map, back;               // of the layer; that the input gradient reads
    std::vector<float> in, in2, weight, out_grad; // out_grad: r
};

int32_t inputs_of(const layer *l) {
    return (int32_t)l->scene.source.size();
}

int32_t outputs_of(const layer *l) {
    return (int32_t)l->scene.outputs.size();
}

// The map of the other direction, or the layer's own.
std::vector<int32_t> map_back(layer *l) {
    forms_scene<uint32_t> s = l->scene;
    l->order = conv_grad_mirrors(&s.kernel, s.same) ? grad_order_mirrored : grad_order_same;
    if (l->order == grad_order_same) {
        std::swap(s.source, s.outputs);
        s.kernel.transposed = !s.kernel.transposed;
    }
    return forms_map(&s);
}

layer layer_make(random_state *r, forms_kind kind, const kernel_shape &kernel, int cin2) {
    layer l;
    l.scene = forms_scene_random<uint32_t>(r, kind, kernel);
    l.shape = shape_make(kernel_volume(&kernel), random_int(r, 1, 6), cin2, random_int(r, 1, 6),
                         numeric_f32);
    l.map = forms_map(&l.scene);
    l.back = map_back(&l);
    l.map.push_back(-1);
    l.back.push_back(-1);
    const conv_shape *s = &l.shape;
    l.in.resize((size_t)inputs_of(&l) * (size_t)s->cin + 1);
    l.in2.resize((size_t)inputs_of(&l) * (size_t)s->cin2 + 1);
    l.weight.resize((size_t)(s->volume * (s->cin + s->cin2) * s->cout));
    l.out_grad.resize((size_t)outputs_of(&l) * (size_t)s->cout + 1);
    for (std::vector<float> *v : {&l.in, &l.in2, &l.weight, &l.out_grad}) {
        reference_random_values(r, numeric_f32, 1, (int64_t)v->size(), v->data());
    }
    return l;
}

double loss(const layer *l) {
    std::vector<double> out((size_t)outputs_of(l) * (size_t)l->shape.cout + 1);
    const conv_host_args args = {l->shape,         l->in.data(),  l->in2.data(),
                                 l->weight.data(), l->map.data(), outputs_of(l)};
    CHECK_OK(conv_sum_host(&args, out.data()));
    double sum = 0;
    for (size_t i = 0; i + 1 < out.size(); ++i) {
        sum += out[i] * (double)l->out_grad[i];
    }
    return sum;
}

// The difference quotient by one value, over steps that floats hold exactly.
double slope(layer *l, float *value) {
    const float kept = *value;
    double at[2];
    for (int side = 0; side < 2; ++side) {
        *value = side ? 1.0f : -1.0f;
        at[side] = loss(l);
    }
    *value = kept;
    return (at[1] - at[0]) / 2;
}

// Some elements of a gradient against difference quotients of the values that it is by.
void check_slopes(random_state *r, layer *l, std::vector<float> *values, int64_t count,
                  const double *grad) {
    for (int i = 0; i < 5 && count; ++i) {
        const int at = random_int(r, 0, (int)count - 1);
        const double wanted = slope(l, &(*values)[(size_t)at]);
        CHECK(fabs(grad[at] - wanted) <= 1e-9 * (1 + fabs(wanted)));
    }
}

// Lists of the layer: the pairs of its map.
struct lists {
    std::vector<int32_t> begin, input, output;
    map_lists pairs;
};

void lists_make(const layer *l, int offsets, bool centre, lists *p) {
    p->begin.assign(1, 0);
    for (int k = 0; k < l->shape.volume; ++k) {
        for (int32_t o = 0; o < outputs_of(l); ++o) {
            const int32_t i = l->map[(size_t)o * (size_t)l->shape.volume + (size_t)k];
            if (i >= 0 && k < offsets && (k != l->shape.volume / 2 || centre)) {
                p->input.push_back(i);
                p->output.push_back(o);
            }
        }
        p->begin.push_back((int32_t)p->input.size());
    }
    p->input.push_back(-1);
    p->output.push_back(-1);
    p->pairs = {p->begin.data(), p->input.data(), p->output.data(), (int32_t)p->input.size()};
}

std::vector<double> weight_grad(const layer *l, pairs_sides sides) {
    lists p;
    const bool one = sides == pairs_sides_one;
    lists_make(l, one ? l->shape.volume : l->shape.volume / 2, one, &p);
    std::vector<double> grad(l->weight.size());
    const conv_grad_weight_host_args a = {l->shape, l->in.data(), l->in2.data(), l->out_grad.data(),
                                          p.pairs,  sides,        outputs_of(l)};
    std::vector<double> bias((size_t)l->shape.cout), alone(bias);
    CHECK_OK(conv_grad_weight_host(&a, grad.data(), bias.data()));
    CHECK_OK(conv_grad_bias_host(a.out_grad, a.outputs, l->shape.cout, alone.data()));
    CHECK(bias == alone);
    return grad;
}

// A convolution with the transposed weights.
std::vector<double> input_grad(const layer *l, grad_source source) {
    const conv_shape s = conv_grad_shape(&l->shape, source);
    std::vector<float> weight((size_t)s.volume * (size_t)(s.cin * s.cout));
    std::vector<double> grad((size_t)inputs_of(l) * (size_t)s.cout + 1);
    CHECK_OK(conv_grad_weights_host(&l->shape, source, l->order, l->weight.data(), weight.data()));
    const conv_host_args a = {
        s, l->out_grad.data(), nullptr, weight.data(), l->back.data(), inputs_of(l)};
    CHECK_OK(conv_sum_host(&a, grad.data()));
    return grad;
}

} // namespace

TEST(grad_host_agrees_with_differences) {
    for (int kind = forms_submanifold; kind < forms_kinds; ++kind) {
        for (int seed = 0; seed < (test_quick() ? 3 : 8); ++seed) {
            random_state r = random_make((uint64_t)(100 * kind + seed));
            const kernel_shape kernel = reference_random_kernel(&r, 3, 2, {1, 1, 1});
            layer l = layer_make(&r, (forms_kind)kind, kernel, seed % 3 ? 0 : 3);
            check_slopes(&r, &l, &l.weight, (int64_t)l.weight.size(),
                         weight_grad(&l, pairs_sides_one).data());
            check_slopes(&r, &l, &l.in, (int64_t)l.in.size() - 1,
                         input_grad(&l, grad_source_first).data());
            const std::vector<double> both = input_grad(&l, grad_source_both);
            const std::vector<double> first = input_grad(&l, grad_source_first);
            for (int64_t row = 0, c = l.shape.cin, all = c + l.shape.cin2; row < inputs_of(&l);
                 ++row) {
                CHECK(std::equal(&first[row * c], &first[row * c + c], &both[row * all]));
            }
            if (l.shape.cin2) {
                check_slopes(&r, &l, &l.in2, (int64_t)l.in2.size() - 1,
                             input_grad(&l, grad_source_second).data());
            }
            guarded_finish();
        }
    }
}

// A half map stands for the pairs of both sides.
TEST(grad_host_uses_half_maps) {
    for (int seed = 0; seed < 5; ++seed) {
        random_state r = random_make((uint64_t)seed);
        kernel_shape kernel = kernel_cube(3, 1);
        kernel.size.z = seed % 3 * 2 + 1;
        const layer l = layer_make(&r, forms_submanifold, kernel, seed % 2);
        const std::vector<double> whole = weight_grad(&l, pairs_sides_one);
        std::vector<double> half = weight_grad(&l, pairs_sides_centre);
        double worst = 0;
        for (size_t i = 0; i < whole.size(); ++i) {
            worst = fmax(worst, fabs(whole[i] - half[i]));
        }
        CHECK(worst <= 1e-10);
        half = weight_grad(&l, pairs_sides_both); // nothing at the centre
        const int64_t size = (int64_t)whole.size() / l.shape.volume;
        CHECK(std::count(half.begin() + l.shape.volume / 2 * size,
                         half.begin() + (l.shape.volume / 2 + 1) * size, 0.0) == size);
    }
}

TEST(grad_host_bias) {
    const float out_grad[6] = {1, 2, 3, 4, 5, 6};
    float grad[3] = {9, 9, 9};
    CHECK_OK(conv_grad_bias_host(out_grad, 2, 3, grad));
    CHECK(grad[0] == 5 && grad[1] == 7 && grad[2] == 9);
    CHECK_OK(conv_grad_bias_host(out_grad, 0, 3, grad));
    CHECK(grad[0] == 0 && grad[1] == 0 && grad[2] == 0);
    CHECK_STATUS(conv_grad_bias_host(out_grad, -1, 3, grad), status_bad_size);
    CHECK_STATUS(conv_grad_bias_host(out_grad, 1, 0, grad), status_bad_size);
}

TEST(grad_host_refuses) {
    conv_shape s = shape_make(2, 1, 0, 1, numeric_f32);
    int32_t begin[3] = {0, 1, 2}, row[2] = {0, 0};
    const map_lists pairs = {begin, row, row, 2};
    const float in[1] = {2}, weight[2] = {3, 4};
    float grad[2] = {7, 7};
    auto by_weight = [&](const map_lists *lists, pairs_sides sides, int32_t outputs) {
        const conv_grad_weight_host_args a = {s, in, nullptr, in, *lists, sides, outputs};
        return conv_grad_weight_host(&a, grad, (float *)nullptr);
    };
    auto by_input = [&](grad_source source, grad_order order) {
        return conv_grad_weights_host(&s, source, order, weight, grad);
    };
    const map_lists none = {};
    CHECK_STATUS(by_weight(&none, pairs_sides_one, 1), status_null_pointer);
    CHECK_STATUS(by_weight(&pairs, pairs_sides_both, 1), status_unsupported);
    CHECK_STATUS(by_weight(&pairs, pairs_sides_one, -1), status_bad_size);
    CHECK_STATUS(by_input(grad_source_second, grad_order_same), status_unsupported);
    CHECK_STATUS(by_input((grad_source)3, grad_order_same), status_unsupported);
    CHECK_STATUS(by_input(grad_source_both, (grad_order)2), status_unsupported);
    s.cin = s.cin2 = conv_channels_max;
    CHECK_STATUS(by_input(grad_source_both, grad_order_same), status_bad_size);
    CHECK(grad[0] == 7 && grad[1] == 7);
    s.cin = 1;
    s.cin2 = 0;
    CHECK_OK(by_weight(&pairs, pairs_sides_one, 1));
    CHECK(grad[0] == 4 && grad[1] == 4);
}
