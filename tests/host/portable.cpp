// tests/host/portable.cpp: the kernel of conv/portable.cuh, emulated on the host (emulate_mma.h)
// and compared with sums in double. The made-up device has few multiprocessors, so that each thread
// block computes several tiles.
#include "../support/emulate_mma.h"

#include "../support/emulate_layers.h"

#include "../../spira/conv/portable.cuh"

using namespace problems;

namespace {

enum { multiprocessors = 2, shared_most = 99 * 1024 };

const device_info device = device_made(86, multiprocessors, shared_most, false);

// The device that gives the layer's ring its depth.
device_info layer_device(const layer *l) {
    device_info d = device;
    const int columns = 32 * l->size.slices, rows = 128 * l->size.tiles;
    auto depth = [&] {
        const int resident = portable_resident_on(columns, rows, d.shared_max);
        return portable_stages(columns, rows, resident, d.shared_max);
    };
    while (l->depth && depth() > l->depth) {
        d.shared_max -= 1024;
    }
    d.programmatic = l->programmatic;
    return d;
}

// The kernel: see emulate_layers.h.
struct portable {
    enum { depth_least = portable_stages_least, depth_most = portable_stages_most, floats = true };

    template <typename E>
    static const void *weights(const conv_shape *s, bool, const std::vector<float> &weight) {
        const int64_t total = conv_tensor_weights(s);
        E *packed = guarded_new<E>(total * conv_lane_bytes / (int64_t)sizeof(E));
        CHECK_OK(kernel_launch(conv_tensor_pack_kernel<E>, (unsigned)ceil_div(total, 256), 256, 0,
                               false, 1, nullptr, "pack", *s, weight.data(), total, packed));
        return packed;
    }

    static int shortcut_parts(const conv_shape *s) {
        return conv_shape_chunks(s);
    }

    static void params(const conv_shape *s, conv_tensor_params *t) {
        t->chunks1 = conv_chunks(s->cin, s->type);
        t->chunks = conv_shape_chunks(s);
    }

    template <typename E>
    static status run(const conv_tensor_params &t, const layer *l) {
        const device_info d = layer_device(l);
        return portable_run<E>(t, &d, nullptr);
    }
};

const int edges[] = {1,  16, 17, 31, 32,  33,  34,  40,  48,  63,  64,  65,
                     80, 95, 96, 97, 100, 127, 128, 129, 160, 192, 255, 256};
const numeric formats[] = {numeric_f16, numeric_bf16, numeric_tf32};

// A random layer.
layer layer_random(random_state *random, bool shortcut) {
    layer l = {};
    const numeric type = formats[random_int(random, 0, 2)];
    conv_shape s =
        shape_random(random, random_int(random, 0, 9) ? random_int(random, 1, 9) : 40, type, edges);
    s.cin2 = s.cin2 ? std::min(s.cin2, 70) : 0;
    const int32_t outputs = random_int(random, 0, 5) ? random_int(random, 1, 300) : 0;
    const int32_t inputs = s.volume == 1 ? outputs : random_int(random, 0, 200);
    const int cin = shortcut ? channels_random(random, edges) : 0;
    l.joined = joined_make(random, s, cin, shortcut && random_int(random, 0, 1) ? (cin + 1) / 2 : 0,
                           inputs, outputs, random_int(random, 1, 150));
    const int percents[] = {0, 1, 3, 15, 100};
    joined_fill(random, &l.joined, percents[random_int(random, 0, 4)],
                random_int(random, 0, with_all), random_int(random, 0, with_all),
                (activation)random_int(random, activation_none, activation_leaky));
    static conv_sizes sizes[conv_sizes_most];
    l.size = sizes[random_int(random, 0, portable_sizes_list(&device, sizes) - 1)];
    layer_vary<portable>(random, &l);
    return l;
}

} // namespace

TEST(portable_emulated_random_layers) {
    for (int seed = 0; seed < (test_quick() ? 8 : 40); ++seed) {
        random_state random = random_make((uint64_t)seed);
        layer l = layer_random(&random, seed % 3 == 0);
        char what[32];
        snprintf(what, sizeof what, "seed %d", seed);
        REQUIRE(layer_check<portable>(&l, what, seed % 4 ? 1 : 2));
    }
}
