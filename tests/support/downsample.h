// tests/support/downsample.h: what downsample and its host loop refuse.
#ifndef SPIRA_TESTS_DOWNSAMPLE_H
#define SPIRA_TESTS_DOWNSAMPLE_H

#include "sets.h"

#include "../../spira/downsample.h"

// Of arguments with stride 2, in a layout that was fitted to 4 and begins at -5.
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
