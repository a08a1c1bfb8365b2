// tests/support/sets.h: sets as a caller may bring them along.
#ifndef SPIRA_TESTS_SETS_H
#define SPIRA_TESTS_SETS_H

#include "../../spira/voxel.h"

#include <vector>

// Resizes the words of a set to its capacity. The words behind its voxels are unspecified, so they
// are here what would do harm if it were read: voxels of the set again, neighbours of them, zeros.
template <typename W>
void set_pad(std::vector<W> *words, int32_t capacity) {
    const size_t count = words->size();
    words->resize((size_t)capacity);
    for (size_t i = count; i < words->size(); ++i) {
        const W voxel = count ? (*words)[i * 7919 % count] : (W)i;
        (*words)[i] = i % 4 == 0   ? voxel
                      : i % 4 == 1 ? (W)(voxel + 1)
                      : i % 4 == 2 ? (W)0
                                   : spira::word_none<W>();
    }
}

inline spira::word_need word_need_of(spira::triple lo, spira::triple hi, int batches,
                                     spira::triple stride, spira::triple reach) {
    spira::word_need need = {};
    need.lo = lo;
    need.hi = hi;
    need.batches = batches;
    need.stride = stride;
    need.reach = reach;
    return need;
}

// A pointer that is aligned to nothing.
template <typename T>
T *misaligned(T *p) {
    return (T *)((uintptr_t)p + 1);
}

#endif
