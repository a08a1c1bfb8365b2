// spira/downsample.h: the coordinate set of a larger stride (Spira paper: packed-native
// processing).
//
// The coarser set has the voxels of the finer one, with each coordinate floored to a multiple of
// the stride. Strides are absolute, in voxels of the finest grid. Floors nest: a level can be
// computed from any finer one whose stride divides its own, and at least cost from the one before.
#ifndef SPIRA_DOWNSAMPLE_H
#define SPIRA_DOWNSAMPLE_H

#include "voxel.h"

namespace spira {

SPIRA_BOTH bool downsample_by_mask(triple stride) {
    return is_power_of_two(stride.x) && is_power_of_two(stride.y) && is_power_of_two(stride.z);
}

// The coarse word of a fine one: a mask for powers of two, else unpack, floor, pack.
template <typename W>
SPIRA_BOTH W downsample_word(const word_layout *layout, W word, triple stride, bool by_mask) {
    return by_mask ? word & word_stride_mask<W>(layout, stride) : word_floor(layout, word, stride);
}

// The checks of downsample and downsample_host. A mask floors the biased coordinate, so that the
// bias must be a multiple of the stride; and floored voxels must stay within the layout's bounds.
// Both hold for a layout fitted to the stride.
template <typename W>
SPIRA_API status downsample_check(const word_layout *layout, const voxel_set<W> *in, triple stride,
                                  const voxel_set<W> *out) {
    SPIRA_TRY(word_check<W>(layout));
    SPIRA_TRY(voxel_set_check(in));
    SPIRA_TRY(voxel_set_check(out));
    const int s[3] = {stride.x, stride.y, stride.z};
    const int bias[3] = {layout->bias.x, layout->bias.y, layout->bias.z};
    const int lo[3] = {layout->lo.x, layout->lo.y, layout->lo.z};
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(s[a] >= 1 && s[a] <= 1 << 20, status_stride, "stride", s[a]);
        SPIRA_REQUIRE(bias[a] % s[a] == 0 || !downsample_by_mask(stride), status_stride,
                      "stride (larger than the layout was fitted to)", s[a]);
        SPIRA_REQUIRE(floor_to(lo[a], s[a]) >= lo[a], status_stride,
                      "stride (larger than the layout was fitted to)", s[a]);
    }
    return status_success();
}

// Whether the step from a set at `from` to one at `stride` needs no sort (downsample.cuh): both are
// powers of two, and x and y at most double.
SPIRA_BOTH bool downsample_is_step(triple from, triple stride) {
    return downsample_by_mask(from) && downsample_by_mask(stride) && stride.x <= 2 * from.x &&
           stride.y <= 2 * from.y && stride.x >= from.x && stride.y >= from.y && stride.z >= from.z;
}

SPIRA_API status downsample_from_check(triple from, triple stride) {
    const int f[3] = {from.x, from.y, from.z}, s[3] = {stride.x, stride.y, stride.z};
    for (int a = 0; a < 3; ++a) {
        SPIRA_REQUIRE(f[a] >= 1 && s[a] >= 1 && s[a] % f[a] == 0, status_stride,
                      "from (does not divide the stride)", f[a]);
    }
    return status_success();
}

template <typename W>
SPIRA_API W *downsample_host_carve(workspace *w, const voxel_set<W> *in) {
    return workspace_take<W>(w, in->capacity);
}

// Bytes of scratch for downsample_host.
template <typename W>
SPIRA_API size_t downsample_host_workspace(voxel_set<W> in) {
    workspace w = workspace_begin(nullptr);
    downsample_host_carve(&w, &in);
    return w.used;
}

// The set at `stride` of the set `in`: the host loop of `downsample` (downsample.cuh).
//
// inputs   layout: fitted to at least this stride; in: any finer set; stride: absolute, any >= 1
// outputs  out: the coarse set, then word_none(), and its count
//          trouble: records a count of `in` or a number of outputs above the capacity
template <typename W>
SPIRA_API status downsample_host(const word_layout *layout, voxel_set<W> in, triple stride,
                                 voxel_set<W> out, device_status *trouble, void *scratch,
                                 size_t scratch_bytes) {
    SPIRA_TRY(downsample_check(layout, &in, stride, &out));
    SPIRA_TRY(pointer_check(trouble, alignof(device_status), "trouble"));
    SPIRA_TRY(workspace_check(scratch, scratch_bytes, downsample_host_workspace(in)));
    workspace w = workspace_begin(scratch);
    W *words = downsample_host_carve(&w, &in);
    const int32_t count = voxel_set_count(in);
    voxel_set_note(in, trouble);
    bool by_mask = downsample_by_mask(stride);
    for (int32_t i = 0; i < count; ++i) {
        words[i] = downsample_word(layout, in.words[i], stride, by_mask);
    }
    std::sort(words, words + count);
    int32_t unique = (int32_t)(std::unique(words, words + count) - words);
    if (unique > out.capacity) {
        device_status_note(trouble, device_flag_capacity, (uint32_t)unique);
        unique = out.capacity;
    }
    std::copy(words, words + unique, out.words);
    std::fill(out.words + unique, out.words + out.capacity, word_none<W>());
    *out.count = unique;
    return status_success();
}

} // namespace spira

#endif
