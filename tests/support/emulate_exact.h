// tests/support/emulate_exact.h: the kernel of conv/exact.cuh, emulated on the host
// (emulate_mma.h): layers of every format.
#ifndef SPIRA_TESTS_EMULATE_EXACT_H
#define SPIRA_TESTS_EMULATE_EXACT_H

#include "emulate_mma.h"

#include "emulate_layers.h"

#include "../../spira/conv/exact.cuh"

namespace problems {

inline int exact_workers = 65535; // thread blocks of a slice

// The kernel: see emulate_layers.h. It has no ring and no shortcuts.
struct exact {
    enum { depth_least = 1, depth_most = 1, floats = true };

    template <typename E>
    static const void *weights(const conv_shape *s, bool, const std::vector<float> &weight) {
        return weights_exact(s, weight);
    }

    static int shortcut_parts(const conv_shape *) {
        return 0;
    }

    static void params(const conv_shape *s, conv_params *t) {
        t->tf32 = s->type == numeric_tf32;
    }

    template <typename E>
    static status run(const conv_params &t, const layer *) {
        return exact_run<E>(t, nullptr, exact_workers);
    }
};

inline const int edges[] = {1,  3,  4,  5,  8,  12, 15, 16, 17, 31,  32,  33,
                            36, 47, 48, 63, 64, 65, 80, 95, 96, 127, 128, 129};

} // namespace problems

#endif
