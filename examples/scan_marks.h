// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_marks.h: what scan.cu draws of a network's output: points in the colours of their
// classes, or the voxels or cells of a network without classes in the colours of their largest
// value.
#ifndef SPIRA_EXAMPLES_SCAN_MARKS_H
#define SPIRA_EXAMPLES_SCAN_MARKS_H

#include "scan_classes.h"
#include "scan_legend.h"

namespace show {

// The marks of a picture; owned.
struct marks {
    scan::picture_mark *mark;
    int64_t count;
};

static inline marks marks_new(int64_t most) {
    return {(scan::picture_mark *)calloc((size_t)most + 1, sizeof(scan::picture_mark)), 0};
}

// Adds a mark; its colour is for the caller to set.
static inline scan::picture_mark *marks_add(marks *m, const float at[3], float edge) {
    scan::picture_mark *mark = &m->mark[m->count++];
    memcpy(mark->at, at, sizeof mark->at);
    mark->edge = edge;
    return mark;
}

// The colour of a class: those of a street have their own.
static inline void class_colour(bool street, int32_t label, uint8_t rgb[3]) {
    static const uint8_t colours[scan::scene_classes][3] = {
        {110, 104, 128}, {168, 160, 150}, {214, 160, 96}, {70, 140, 235},
        {250, 225, 80},  {80, 175, 90},   {240, 80, 90},
    };
    if (street) {
        memcpy(rgb, colours[label], 3);
    } else {
        scan::picture_class_colour(label, rgb);
    }
}

// Colours marks from the lowest to the highest of `values` [count], or darkens those of low values.
static inline void marks_colour(marks *m, float *values, bool shade) {
    float *sorted = (float *)malloc((size_t)(m->count + 1) * sizeof(float));
    scan::picture_normalise(values, m->count, sorted);
    free(sorted);
    for (int64_t i = 0; i < m->count; ++i) {
        if (shade) {
            scan::picture_shade(values[i], m->mark[i].rgb);
        } else {
            scan::picture_height_colour(values[i], m->mark[i].rgb);
        }
    }
}

// The centre of a voxel, or of a cell, of the last layer's set, in metres.
static inline void centre_of(const side::job *job, const int32_t at[3], float centre[3]) {
    const spira::net_set *set = &job->plan->set[job->plan->step[job->plan->layer_count - 1].set];
    const int stride[3] = {set->stride.x, set->stride.y, set->stride.z};
    for (int a = 0; a < 3; ++a) {
        centre[a] =
            job->input.origin[a] + job->input.size[a] * ((float)at[a] + 0.5f * (float)stride[a]);
    }
}

// The edge of a voxel of the last layer's set in metres.
static inline float edge_of(const side::job *job) {
    const int last = job->plan->layer_count - 1;
    return job->input.size[0] * (float)job->plan->set[job->plan->step[last].set].stride.x;
}

// The points, or without points the voxels, in the colours of their classes.
static inline marks marks_of_classes(const side::job *job, const voxels *v, bool street) {
    const spira::voxel_input *in = &job->input;
    const int64_t rows = v->of_row ? in->rows : v->count;
    marks m = marks_new(rows);
    float *heights = (float *)malloc((size_t)(rows + 1) * sizeof(float)), centre[3];
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t voxel = v->of_row ? v->of_row[i] : i;
        if (voxel >= 0) { // else the point is in no voxel
            centre_of(job, v->coords + 3 * voxel, centre);
            const float *at = v->of_row ? in->points + i * in->columns : centre;
            heights[m.count] = at[2];
            class_colour(street, v->labels[voxel], marks_add(&m, at, 0)->rgb);
        }
    }
    marks_colour(&m, heights, true);
    free(heights);
    return m;
}

// The largest of a row's or a cell's values over the channels, which are `step` apart.
static inline float peak_of(const float *values, int channels, int64_t step) {
    float peak = values[0];
    for (int c = 1; c < channels; ++c) {
        peak = fmaxf(peak, values[c * step]);
    }
    return peak;
}

// The voxels of a set, as squares in the colours of their largest value.
static inline marks marks_of_voxels(const side::job *job, const voxels *v, const float *features) {
    marks m = marks_new(v->count);
    float *peaks = (float *)malloc((size_t)(v->count + 1) * sizeof(float)), centre[3];
    for (int64_t i = 0; i < v->count; ++i) {
        centre_of(job, v->coords + 3 * i, centre);
        marks_add(&m, centre, edge_of(job));
        peaks[i] = peak_of(features + i * v->classes, v->classes, 1);
    }
    marks_colour(&m, peaks, false);
    free(peaks);
    return m;
}

// The cells of a map that have a positive value, likewise, and over them the points.
static inline marks marks_of_map(const side::job *job, const float *features) {
    const spira::net_step *last = &job->plan->step[job->plan->layer_count - 1];
    const spira::net_set *set = &job->plan->set[last->set];
    const spira::triple extent = set->grid.extent, origin = set->grid.origin;
    const spira::voxel_input *in = &job->input;
    const int64_t cells = (int64_t)extent.x * extent.y;
    marks m = marks_new(cells + in->rows);
    float *peaks = (float *)malloc((size_t)(cells + 1) * sizeof(float)), centre[3];
    for (int64_t i = 0; i < cells; ++i) {
        const int32_t at[3] = {(int32_t)(i % extent.x) * set->stride.x + origin.x,
                               (int32_t)(i / extent.x) * set->stride.y + origin.y, -1};
        peaks[m.count] = peak_of(features + i, last->channels, cells);
        if (peaks[m.count] > 0) {
            centre_of(job, at, centre);
            centre[2] = -1e30f; // below all points
            marks_add(&m, centre, edge_of(job));
        }
    }
    marks_colour(&m, peaks, false);
    free(peaks);
    for (int64_t i = 0; i < in->rows; ++i) {
        memset(marks_add(&m, in->points + i * in->columns, 0)->rgb, 230, 3);
    }
    return m;
}

} // namespace show

#endif
