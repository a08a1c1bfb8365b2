// tests/support/emulate_portable.h: the kernel of conv/portable.cuh, emulated on the host
// (emulate_mma.h): layers of every format. The made-up device has few multiprocessors, so that each
// thread block computes several tiles.
#ifndef SPIRA_TESTS_EMULATE_PORTABLE_H
#define SPIRA_TESTS_EMULATE_PORTABLE_H

#include "emulate_mma.h"

#include "emulate_layers.h"

#include "../../spira/conv/portable.cuh"

namespace problems {

enum { multiprocessors = 2, shared_most = 99 * 1024 };

inline const device_info device = device_made(86, multiprocessors, shared_most, false);

// The device that gives the layer's ring its depth.
SPIRA_API device_info layer_device(const layer *l) {
    device_info d = device;
    const int columns = 32 * l->size.slices, rows = 128 * l->size.tiles;
    auto depth = [&] {
        const int resident = portable_resident_on(columns, rows, l->size.split, d.shared_max);
        return portable_stages(columns, rows, resident, d.shared_max);
    };
    if (l->depth) {
        d.shared_max = 227 * 1024; // more than any ring takes
    }
    while (l->depth && depth() > l->depth) {
        d.shared_max -= 1024;
    }
    d.programmatic = l->programmatic;
    if (l->seed % 2) {
        d.multiprocessors = 0; // one thread block for all tiles of a slice
    }
    return d;
}

// The kernel: see emulate_layers.h.
struct portable {
    enum { depth_least = portable_stages_least, depth_most = portable_stages_most, floats = true };

    template <typename E>
    static const void *weights(const conv_shape *s, bool, const std::vector<float> &weight) {
        if (s->type == numeric_f32) {
            return weights_exact(s, weight);
        }
        const int64_t total = conv_mma_weights(s);
        E *packed = guarded_new<E>(total * conv_lane_bytes / (int64_t)sizeof(E));
        weights_pack(conv_mma_pack_kernel<E>, {*s, 0, weight.data(), 0, total, packed, nullptr});
        return packed;
    }

    static int shortcut_parts(const conv_shape *s) {
        return conv_shape_chunks(s);
    }

    static void params(const conv_shape *s, conv_params *t) {
        t->chunks1 = conv_chunks(s->cin, s->type);
        t->chunks = conv_shape_chunks(s);
    }

    template <typename E>
    static status run(const conv_params &t, const layer *l) {
        const device_info d = layer_device(l);
        if (l->joined.main.shape.type == numeric_f32) {
            return portable_run_exact(t, &d, nullptr);
        }
        return portable_run<E>(t, &d, nullptr);
    }
};

inline const int edges[] = {1,  16, 17, 31, 32,  33,  34,  40,  48,  63,  64,  65,
                            80, 95, 96, 97, 100, 127, 128, 129, 160, 192, 255, 256};

// A random layer.
SPIRA_API layer layer_random(random_state *random, numeric type, bool shortcut) {
    layer l = {};
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
                (activation)random_int(random, activation_none, activation_count - 1));
    static conv_sizes sizes[conv_sizes_most];
    l.size = sizes[random_int(random, 0, portable_sizes_list(type, &device, sizes) - 1)];
    layer_vary<portable>(random, &l);
    return l;
}

// All variants of one set of warps give the same bits: the order of the additions does not depend
// on them. So do two runs of one of two sets. count: of all variants.
SPIRA_API void check_same_bits(uint64_t seed, numeric type, int count) {
    random_state random = random_make(seed);
    layer l = {};
    l.joined = joined_make(&random, shape_make(5, 50, 20, 100, type), 0, 0, 100, 300, 5);
    joined_fill(&random, &l.joined, 20, with_all, 0, activation_leaky);
    static conv_sizes sizes[conv_sizes_most];
    CHECK_EQUAL(portable_sizes_list(type, &device, sizes), count);
    std::vector<char> first[3]; // of each split
    for (int i = 0; i < count; ++i) {
        l.size = sizes[i];
        std::vector<char> &same = first[l.size.split];
        for (int run = 0; run < l.size.split; ++run) {
            layer_name(&l, "same bits");
            const std::vector<char> out = layer_run_any<portable>(&l);
            CHECK(same.empty() || out == same);
            same = out;
        }
    }
    CHECK(!first[1].empty());
}

// Tests the test: a ring that does not wait for its copies is found.
SPIRA_API void check_copies_are_waited_for(numeric type) {
    random_state random = random_make(5);
    layer l = {};
    l.joined = joined_make(&random, shape_make(9, 64, 0, 64, type), 0, 0, 200, 300, 0);
    joined_fill(&random, &l.joined, 30, with_all, 0, activation_none);
    l.size = {1, 2, 1, 1};
    emulate::copies_skipped = true;
    const std::vector<char> out = layer_run_any<portable>(&l);
    emulate::copies_skipped = false;
    CHECK(!(problem_judge(&l.joined.main, out.data()).ratio <= 1));
}

} // namespace problems

#endif
