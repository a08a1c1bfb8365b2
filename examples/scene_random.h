// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scene_random.h: the random numbers of generated scenes. They are the same on every
// machine, so that a seed gives the same scene.
#ifndef SPIRA_EXAMPLES_SCENE_RANDOM_H
#define SPIRA_EXAMPLES_SCENE_RANDOM_H

#include "../spira/config.h"

#include <stdint.h>

namespace scan {

// The finaliser of SplitMix64: every bit of the result depends on every bit of the argument.
SPIRA_API uint64_t scene_mix(uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

struct scene_random {
    uint64_t state;
};

// Each (seed, stream) has a sequence of its own, so that the draws of one beam do not shift those
// of the next.
SPIRA_API scene_random scene_random_make(uint32_t seed, uint32_t stream) {
    scene_random random = {scene_mix((uint64_t)seed << 32 | stream)};
    return random;
}

// Uniform in [lo, hi).
SPIRA_API float scene_uniform(scene_random *random, float lo, float hi) {
    random->state += 0x9e3779b97f4a7c15ull;
    float unit = (float)(scene_mix(random->state) >> 40) * (1.0f / 16777216);
    return lo + (hi - lo) * unit;
}

// An approximately normal number, within 3.5 deviations.
SPIRA_API float scene_normal(scene_random *random, float deviation) {
    float sum = -2;
    for (int i = 0; i < 4; ++i) {
        sum += scene_uniform(random, 0, 1);
    }
    return sum * 1.7320508f * deviation; // four uniform numbers have a variance of 1/3
}

} // namespace scan

#endif
