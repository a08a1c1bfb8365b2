// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/sets.cuh: voxel sets in device memory.
#ifndef SPIRA_TESTS_SETS_CUH
#define SPIRA_TESTS_SETS_CUH

#include "device.cuh"
#include "reference_forms.h"

// A set in device memory of exactly its capacity, `room` words more than it has.
template <typename W>
spira::voxel_set<W> set_upload(const std::vector<W> &words, int32_t room = 0) {
    return forms_set(words, room, &memory_device);
}

// Other words in memory that exists; there must be room for them.
template <typename W>
void set_refill(const spira::voxel_set<W> *set, const std::vector<W> &words) {
    std::vector<W> all(words);
    int32_t count = (int32_t)words.size();
    CHECK(count <= set->capacity);
    all.resize((size_t)set->capacity, spira::word_none<W>());
    device_copy_in(set->words, all.data(), set->capacity);
    device_copy_in(set->count, &count, 1);
}

#endif
