// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/scenes.cpp: the generator of street scenes and the voxelisation of
// examples/scan.cu, for Python (scenes.py): training sees what `make run` computes on.
//
//     c++ -std=c++17 -O3 -shared -fPIC examples/torch/scenes.cpp -o scenes.so
#include "../scan_input.h"
#include "../scan_labels.h"
#include "../scan_scene.h"

#include <memory>
#include <new>

#define SCENES_API extern "C" __attribute__((visibility("default")))

namespace {

template <typename T>
std::unique_ptr<T[]> array_new(int64_t count) {
    return std::unique_ptr<T[]>(new (std::nothrow) T[(size_t)count + 1]);
}

// Arrays of a voxelisation.
struct bookkeeping {
    std::unique_ptr<uint64_t[]> words;
    std::unique_ptr<int32_t[]> voxel, order, begin, votes;
    std::unique_ptr<float[]> values;

    explicit bookkeeping(int32_t rows)
        : words(array_new<uint64_t>(rows)), voxel(array_new<int32_t>(rows)),
          order(array_new<int32_t>(rows)), begin(array_new<int32_t>(rows + 1)),
          votes(array_new<int32_t>((int64_t)rows * scan::scene_classes)),
          values(array_new<float>((int64_t)rows * 4)) {}

    bool good() const {
        return words && voxel && order && begin && votes && values;
    }
};

spira::status fit(const scan::scan_cloud *cloud, float edge, spira::voxel_input *in,
                  spira::word_layout *layout) {
    float lo[3], hi[3];
    spira::word_need need = {};
    SPIRA_TRY(scan::scan_bounds_points(cloud, lo, hi));
    in->points = cloud->points;
    in->rows = (int32_t)cloud->rows;
    in->columns = cloud->columns;
    in->size[0] = in->size[1] = in->size[2] = edge;
    in->duplicates = spira::duplicates_merge;
    SPIRA_TRY(spira::voxel_bounds(lo, hi, in->size, in->origin, &need));
    need.batches = 1;
    need.stride = need.reach = spira::triple_make(1, 1, 1);
    SPIRA_TRY(spira::word_fit(&need, layout));
    layout->bits = 64; // the words of `bookkeeping`
    return spira::status_success();
}

spira::status voxelize(const scan::scan_cloud *cloud, const int32_t *label, float edge,
                       bookkeeping *b, int32_t *count, int32_t *coords, float *features,
                       int32_t *truth) {
    spira::voxel_input in = {};
    spira::word_layout layout;
    spira::device_status trouble = {};
    SPIRA_TRY(fit(cloud, edge, &in, &layout));
    in.count = &in.rows;
    const spira::voxel_set<uint64_t> set = {b->words.get(), count, in.rows};
    const spira::voxel_rows rows = {b->voxel.get(), b->order.get(), b->begin.get()};
    const size_t step = spira::workspace_alignment;
    size_t bytes;
    SPIRA_TRY(spira::voxelize_host_workspace<uint64_t>(&in, &bytes));
    std::unique_ptr<char, decltype(&free)> scratch(
        (char *)aligned_alloc(step, bytes / step * step + step), free);
    const spira::voxelize_args<uint64_t> args = {&layout, &in, set, rows, &trouble};
    SPIRA_TRY(spira::voxelize_host(&args, scratch.get(), bytes));
    SPIRA_TRY(spira::device_status_read(&trouble));
    for (int32_t i = 0; i < in.rows; ++i) {
        scan::scan_row_values(cloud, i, edge, b->values.get() + 4 * (int64_t)i);
    }
    spira::voxel_features_args<uint64_t> mean = {};
    mean.kind = spira::voxel_feature_mean;
    mean.values = b->values.get();
    mean.columns = mean.channels = 4;
    mean.rows = rows;
    mean.set = set;
    mean.type = spira::numeric_f32;
    mean.features = features;
    SPIRA_TRY(spira::voxel_features_host(&mean));
    for (int32_t v = 0; v < *count; ++v) {
        const spira::voxel at = spira::word_unpack<uint64_t>(&layout, b->words[(size_t)v]);
        const int32_t axes[3] = {at.x, at.y, at.z};
        memcpy(coords + 3 * (int64_t)v, axes, sizeof axes);
    }
    if (label) {
        scan::labels_vote(b->voxel.get(), label, in.rows, *count, scan::scene_classes,
                          b->votes.get(), truth);
    }
    return spira::status_success();
}

int64_t failed(spira::status s) {
    char text[256];
    fprintf(stderr, "scenes: %s\n", spira::status_text(s, text, sizeof text));
    return -1;
}

} // namespace

// The largest number of points of a street, and the number of classes.
SCENES_API int64_t scenes_points() {
    return (int64_t)scan::scene_beams * scan::scene_steps;
}

SCENES_API int64_t scenes_classes() {
    return scan::scene_classes;
}

SCENES_API const char *scenes_class_name(int label) {
    return scan::scene_class_name(label);
}

// Casts a street. Returns the number of points, -1 after an error.
//
// outputs: points  [scenes_points(), 4] x, y, z, intensity; labels  [scenes_points()]
SCENES_API int64_t scenes_street(uint32_t seed, float *points, int32_t *labels) {
    scan::scan_cloud cloud;
    int32_t *label;
    const spira::status s = scan::scan_scene_street(seed, &cloud, &label);
    if (spira::status_failed(s)) {
        return failed(s);
    }
    const int64_t rows = cloud.rows;
    memcpy(points, cloud.points, (size_t)rows * 4 * sizeof(float));
    memcpy(labels, label, (size_t)rows * sizeof(int32_t));
    scan::scan_free(&cloud);
    free(label);
    return rows;
}

// Voxelises points as scan.cu does. Returns the number of voxels, -1 after an error.
//
// inputs:  points  [rows, columns], 3 columns or more; labels [rows], or null; edge  of a voxel in
//          metres
// outputs: coords  [rows, 3] x, y, z, sorted; features [rows, 4] as scan_input.h has them; truth
//          [rows] the class of most points of a voxel, not written without labels
SCENES_API int64_t scenes_voxelize(const float *points, const int32_t *labels, int32_t rows,
                                   int32_t columns, float edge, int32_t *coords, float *features,
                                   int32_t *truth) {
    scan::scan_cloud cloud = {};
    cloud.rows = rows;
    cloud.columns = columns;
    cloud.points = (float *)points;
    cloud.intensity = columns > 3;
    bookkeeping b(rows);
    int32_t count = 0;
    const spira::status s =
        b.good() ? voxelize(&cloud, labels, edge, &b, &count, coords, features, truth)
                 : spira::status_make(spira::status_workspace, "bytes of memory", rows);
    return spira::status_failed(s) ? failed(s) : count;
}
