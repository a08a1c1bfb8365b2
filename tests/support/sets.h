// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/sets.h: sets as a caller may bring them along, what a function makes of them, and
// what functions of sets refuse.
#ifndef SPIRA_TESTS_SETS_H
#define SPIRA_TESTS_SETS_H

#include "reference.h"

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

// A pointer that is aligned to nothing.
template <typename T>
T *misaligned(T *p) {
    return (T *)((uintptr_t)p + 1);
}

template <typename W>
std::vector<W> set_sorted(std::vector<W> words) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
}

// Random words of voxels that are multiples of `stride`.
template <typename W>
std::vector<W> set_random(random_state *random, const spira::word_layout *layout, spira::triple lo,
                          spira::triple hi, int32_t wanted, spira::triple stride = {1, 1, 1}) {
    std::vector<W> words((size_t)wanted + 1);
    words.resize(wanted ? (size_t)reference_random_set<W>(random, layout, lo, hi, stride, wanted,
                                                          words.data())
                        : 0);
    return words;
}

// ---- what a function makes of a set -------------------------------------------------------------

template <typename W>
struct set_outcome {
    spira::device_status trouble;
    int32_t count;
    std::vector<W> words; // [out capacity]
};

// "" where all is the same; else the first thing that is not, and of which case.
template <typename W>
const char *set_difference(const set_outcome<W> &got, const set_outcome<W> &wanted,
                           const char *label = "") {
    static char finding[512];
    finding[0] = 0;
    const spira::device_status *g = &got.trouble, *w = &wanted.trouble;
    const size_t at = (size_t)(std::mismatch(got.words.begin(), got.words.end(),
                                             wanted.words.begin(), wanted.words.end())
                                   .first -
                               got.words.begin());
    if (got.count != wanted.count || got.words.size() != wanted.words.size()) {
        snprintf(finding, sizeof finding, "count: %d instead of %d (%s)", got.count, wanted.count,
                 label);
    } else if (at < got.words.size()) {
        snprintf(finding, sizeof finding, "words[%zu]: %llx instead of %llx (%s)", at,
                 (unsigned long long)got.words[at], (unsigned long long)wanted.words[at], label);
    } else if (memcmp(g, w, sizeof *g)) {
        snprintf(finding, sizeof finding,
                 "trouble: flags %u, range %u, lattice %u, needed %u instead of %u, %u, %u, %u "
                 "(%s)",
                 g->flags, g->first_range, g->first_lattice, g->needed, w->flags, w->first_range,
                 w->first_lattice, w->needed, label);
    }
    return finding;
}

// ---- what functions of sets refuse --------------------------------------------------------------

template <typename A>
struct refusal {
    spira::status_code code;
    void (*spoil)(A *);
};

// A: arguments with a layout, sets `in` and `out`, and `trouble`; run(args, scratch, bytes) refuses
// each of the faults that such functions have alike, and `more`. bytes: as few as are taken.
template <typename A, typename F>
void check_refusals(const A &good, char *scratch, size_t bytes, std::vector<refusal<A>> more,
                    F run) {
    using namespace spira;
    const std::vector<refusal<A>> all = {
        {status_null_pointer, [](A *a) { a->layout = nullptr; }},
        {status_null_pointer, [](A *a) { a->trouble = nullptr; }},
        {status_null_pointer, [](A *a) { a->in.words = nullptr; }},
        {status_null_pointer, [](A *a) { a->out.words = nullptr; }},
        {status_null_pointer, [](A *a) { a->in.count = nullptr; }},
        {status_null_pointer, [](A *a) { a->out.count = nullptr; }},
        {status_alignment, [](A *a) { a->in.words = misaligned(a->in.words); }},
        {status_alignment, [](A *a) { a->out.words = misaligned(a->out.words); }},
        {status_alignment, [](A *a) { a->in.count = misaligned(a->in.count); }},
        {status_alignment, [](A *a) { a->out.count = misaligned(a->out.count); }},
        {status_bad_size, [](A *a) { a->in.capacity = 0; }},
        {status_bad_size, [](A *a) { a->in.capacity = -7; }},
        {status_bad_size, [](A *a) { a->out.capacity = 0; }},
        {status_bad_size, [](A *a) { a->out.capacity = -7; }},
    };
    more.insert(more.end(), all.begin(), all.end());
    for (const refusal<A> &r : more) {
        A a = good;
        r.spoil(&a);
        CHECK_STATUS(run(&a, scratch, bytes), r.code);
    }
    const word_layout wide = word_widen(*good.layout);
    A other = good;
    other.layout = &wide;
    CHECK_STATUS(run(&other, scratch, bytes), status_unsupported);
    CHECK_STATUS(run((const A *)nullptr, scratch, bytes), status_null_pointer);
    CHECK_STATUS(run(&good, (char *)nullptr, bytes), status_null_pointer);
    CHECK_STATUS(run(&good, scratch + 4, bytes), status_alignment);
    const status s = run(&good, scratch, bytes - 1);
    CHECK_STATUS(s, status_workspace);
    CHECK_EQUAL(s.detail, (int64_t)bytes);
}

#endif
