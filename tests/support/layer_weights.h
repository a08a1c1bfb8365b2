// tests/support/layer_weights.h: kernels that pack weights, emulated: the weights of an input
// gradient from those of its layer, against the same from weights that the host has transposed.
#ifndef SPIRA_TESTS_LAYER_WEIGHTS_H
#define SPIRA_TESTS_LAYER_WEIGHTS_H

#include "problems.h"

#include "../../spira/conv_grad.h"

namespace problems {

// One shape of an input gradient, and the weights of its layer in both orders.
struct layer_weights {
    conv_shape shape; // of the gradient
    grad_order order;
    std::vector<float> of_layer, own;
};

inline layer_weights layer_weights_random(random_state *random, numeric type, int seed) {
    const int edges[] = {1, 3, 4, 8, 16, 17, 32, 40, 64, 72, 96, 130};
    layer_weights l = {};
    conv_shape layer = {};
    layer.volume = random_int(random, 1, 9);
    layer.cin = edges[random_int(random, 0, 11)];
    layer.cout = edges[random_int(random, 0, 11)];
    layer.type = type;
    l.shape = conv_grad_shape(&layer, grad_source_both);
    l.order = seed % 2 ? grad_order_mirrored : grad_order_same;
    l.of_layer.resize((size_t)layer.volume * layer.cin * layer.cout);
    l.own.resize(l.of_layer.size());
    reference_random_values(random, type, 1, (int64_t)l.of_layer.size(), l.of_layer.data());
    CHECK_OK(
        conv_grad_weights_host(&layer, grad_source_both, l.order, l.of_layer.data(), l.own.data()));
    return l;
}

// pack(order, weight, to): packs into `bytes` bytes. Both must be the same.
template <typename Pack>
void layer_weights_check(const layer_weights *l, int64_t bytes, Pack pack) {
    char *wanted = guarded_new<char>(bytes), *got = guarded_new<char>(bytes);
    pack(conv_weights_own, l->own.data(), wanted);
    pack(l->order == grad_order_mirrored ? conv_weights_of_layer_mirrored : conv_weights_of_layer,
         l->of_layer.data(), got);
    CHECK(memcmp(wanted, got, (size_t)bytes) == 0);
    guarded_finish();
}

} // namespace problems

#endif
