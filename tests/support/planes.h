// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/planes.h: layers for the tests of the plane search (index/plane_search.cuh), on the
// host and on the GPU: windows of source words that fit their buffer, and windows that do not. Each
// function calls check(layout, source, outputs, stride) for some layers, with sorted words.
#ifndef SPIRA_TESTS_PLANES_H
#define SPIRA_TESTS_PLANES_H

#include "reference_forms.h"

#include "../../bench/scenes.h"

// Every `step`-th word.
template <typename W>
std::vector<W> planes_some(const std::vector<W> &words, size_t step) {
    std::vector<W> some;
    for (size_t i = 0; i < words.size(); i += step) {
        some.push_back(words[i]);
    }
    return some;
}

// The first n words and the last n.
template <typename W>
std::vector<W> planes_ends(const std::vector<W> &words, int n) {
    std::vector<W> ends(words.begin(), words.begin() + n);
    ends.insert(ends.end(), words.end() - n, words.end());
    return ends;
}

// A generated scene of the benchmarks, as one set.
template <typename W, typename F>
void planes_scene(scenes_kind kind, int64_t voxels, F check) {
    std::vector<int32_t> at((size_t)voxels * 3);
    CHECK_OK(scenes_make(kind, 8 * (int)sizeof(W), voxels, at.data()));
    spira::triple hi = {0, 0, 0};
    std::vector<spira::voxel> all;
    for (size_t i = 0; i < at.size(); i += 3) {
        all.push_back({0, at[i], at[i + 1], at[i + 2]});
        hi = {std::max(hi.x, at[i]), std::max(hi.y, at[i + 1]), std::max(hi.z, at[i + 2])};
    }
    const spira::word_layout layout = reference_layout<W>({0, 0, 0}, hi, 1, {2, 2, 2}, {8, 8, 8});
    const std::vector<W> words = forms_words_of<W>(&layout, all);
    check(&layout, words, words, spira::triple{1, 1, 1});
}

// Counts of outputs and of sources at the edges of tiles, beside a plane of 1681 voxels. Words of
// 64 bits are also far apart.
template <typename W, typename F>
void planes_counts(const std::vector<int> &counts, F check) {
    const int far = sizeof(W) == 8 ? 1 << 20 : 200;
    const spira::triple one = {1, 1, 1};
    const spira::word_layout layout =
        reference_layout<W>({0, 0, 0}, {far, 1 << 9, 1 << 9}, 1, one, {4, 4, 4});
    std::vector<spira::voxel> all = forms_box({3, 0, 0}, {3, 40, 40});
    all.push_back({0, far, 7, 7});
    for (int x = 4; x < 100; x += 3) {
        all.push_back({0, x * (far / 200), x, 3});
    }
    const std::vector<W> words = forms_words_of<W>(&layout, all);
    for (int n : counts) {
        const std::vector<W> last(words.end() - n, words.end());
        const std::vector<W> first(words.begin(), words.begin() + n);
        check(&layout, words, last, one);
        check(&layout, first, first, one);
        check(&layout, last, planes_some(words, 19), one);
        check(&layout, words, planes_some(words, n ? words.size() / (size_t)n + 1 : 5000), one);
    }
}

// Windows of more than 65,536 words, and rows that are as far from each other: positions of pairs
// that need leaps, and planes that are searched again (map_cube.cuh).
template <typename W, typename F>
void planes_long_windows(F check) {
    const spira::triple one = {1, 1, 1};
    const spira::word_layout layout =
        reference_layout<W>({0, 0, 0}, {5, 1500, 30000}, 1, one, {3, 3, 3});
    const std::vector<W> wide = forms_words_of<W>(&layout, forms_box({2, 0, 0}, {2, 400, 400}));
    check(&layout, wide, planes_some(wide, 499), one);
    const std::vector<W> high = forms_words_of<W>(&layout, forms_box({1, 3, 0}, {2, 8, 29999}));
    check(&layout, high, planes_some(high, 997), one);
    const std::vector<W> most = forms_words_of<W>(&layout, forms_box({2, 0, 0}, {2, 1450, 1479}));
    check(&layout, most, planes_some(most, 9973), one);
    check(&layout, most, planes_ends(most, 60), one);
}

// Windows of a given length. Along y the words are step_y voxels apart.
template <typename W, typename F>
void planes_length(int length, int step_y, F check) {
    const spira::triple one = {1, 1, 1}, hi = {3, length * step_y, step_y > 1 ? 8000 : 3};
    const spira::word_layout layout = reference_layout<W>({0, 0, 0}, hi, 1, one, {3, 3, 3});
    std::vector<spira::voxel> all;
    for (int i = 0; i < length; ++i) {
        all.push_back({0, 1, i * step_y, 3});
    }
    const std::vector<W> words = forms_words_of<W>(&layout, all);
    check(&layout, words, planes_ends(words, 20), one);
}

// Lengths around those at which a window no longer fits, or its samples change.
inline const int planes_lengths[] = {225, 235, 245, 250, 256, 262, 275, 430, 440,
                                     450, 454, 455, 456, 457, 458, 460, 470, 490,
                                     500, 505, 510, 515, 520, 530, 540, 560};

// Sources, outputs or both off the lattice of the kernel's stride: rows with gaps.
template <typename W, typename F>
void planes_off_the_lattice(int stride, F check) {
    const spira::triple by = {stride, stride, stride}, reach = {3 * stride, 3 * stride, 3 * stride};
    const spira::word_layout layout = reference_layout<W>({0, 0, 0}, {112, 112, 112}, 1, by, reach);
    random_state random = random_make((uint64_t)stride);
    std::vector<spira::voxel> on, off;
    for (int i = 0; i < 330; ++i) {
        const int x = random_int(&random, 0, 3) * stride, y = random_int(&random, 0, 14) * stride;
        on.push_back({0, x, y, random_int(&random, 0, 14) * stride});
        off.push_back({0, x, y, random_int(&random, 0, 14 * stride)});
    }
    const std::vector<W> even = forms_words_of<W>(&layout, on);
    const std::vector<W> any = forms_words_of<W>(&layout, off);
    check(&layout, even, even, by);
    check(&layout, any, any, by);
    check(&layout, even, any, by);
    check(&layout, any, even, by);
}

#endif
