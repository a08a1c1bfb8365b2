// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/support/downsample.h: what the host loop of downsample makes of a set, and what both
// refuse.
#ifndef SPIRA_TESTS_DOWNSAMPLE_H
#define SPIRA_TESTS_DOWNSAMPLE_H

#include "sets.h"

#include "../../spira/downsample.h"

// A set as it is given: `count` may be above the capacity, which is that of the words.
template <typename W>
set_outcome<W> downsample_on_host(const spira::word_layout *layout, std::vector<W> words,
                                  int32_t count, spira::triple from, spira::triple stride,
                                  int32_t out_capacity) {
    set_outcome<W> o = {{}, 0, std::vector<W>((size_t)out_capacity)};
    const spira::voxel_set<W> in = {words.data(), &count, (int32_t)words.size()};
    size_t bytes = 0;
    CHECK_OK(spira::downsample_host_workspace(in, &bytes));
    const spira::downsample_args<W> args = {
        layout, in, from, stride, {o.words.data(), &o.count, out_capacity}, &o.trouble};
    CHECK_OK(spira::downsample_host(&args, guarded_new<char>((int64_t)bytes), bytes));
    return o;
}

// What both refuse of arguments with stride 2, in a layout that was fitted to 4 and begins at -5.
inline std::vector<refusal<spira::downsample_args<uint32_t>>> downsample_refusals() {
    typedef spira::downsample_args<uint32_t> args;
    std::vector<refusal<args>> all;
#define REFUSED(member, ...)                                                                       \
    all.push_back({spira::status_stride, [](args *a) { a->member = {__VA_ARGS__}; }})
    REFUSED(stride, 0, 2, 2);
    REFUSED(stride, 2, -1, 2);
    REFUSED(stride, 2, INT32_MIN, 2);
    REFUSED(stride, 1, 1, (1 << 20) + 1);
    REFUSED(stride, INT32_MAX, 2, 2);
    REFUSED(stride, 16, 4, 4); // the layout's bias, or its bound, is no multiple
    REFUSED(stride, 4, 4, 64);
    REFUSED(stride, 1, 3, 1);
    REFUSED(from, 4, 2, 2); // does not divide the stride
    REFUSED(from, 2, 2, 3);
    REFUSED(from, 0, 1, 1);
    REFUSED(from, 1, -2, 1);
    REFUSED(from, 1, 1, INT32_MIN);
#undef REFUSED
    return all;
}

#endif
