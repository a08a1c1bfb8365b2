// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_classes.h: the classes that a network gives the voxels of its last layer: as text
// and as a file.
#ifndef SPIRA_EXAMPLES_SCAN_CLASSES_H
#define SPIRA_EXAMPLES_SCAN_CLASSES_H

#include "scan_labels.h"
#include "scan_scene.h"
#include "scan_side.h"
#include "table_npy.h"

namespace show {

// The voxels of the last layer. All arrays are owned.
struct voxels {
    int32_t count;
    int classes;
    int32_t *coords; // [count, 3]
    int32_t *labels; // [count] the class with the strongest output
    int32_t *of_row; // [rows of the job] the voxel of each point, -1: none; null: not known
    int32_t *truth;  // [count] the class of most points, -1 without points; null: not known
};

static inline void voxels_free(voxels *v) {
    free(v->coords);
    free(v->labels);
    free(v->of_row);
    free(v->truth);
    memset(v, 0, sizeof *v);
}

static inline int32_t *numbers_new(int64_t count) {
    return (int32_t *)malloc((size_t)(count + 1) * sizeof(int32_t));
}

// Whether the classes of a job are those of a street.
static inline bool is_street(const side::job *job, int classes) {
    return job->net->scores && classes == scan::scene_classes;
}

template <typename W>
static voxels voxels_new(const side::job *job, const side::result<W> *r) {
    const spira::net_step *last = &job->plan->step[job->plan->layer_count - 1];
    voxels v = {};
    v.count = r->voxels[last->set];
    v.classes = last->channels;
    v.coords = numbers_new((int64_t)v.count * 3);
    v.labels = numbers_new(v.count);
    for (int32_t i = 0; i < v.count; ++i) {
        const spira::voxel at = spira::word_unpack<W>(&job->layout, r->words[i]);
        v.coords[3 * i] = at.x;
        v.coords[3 * i + 1] = at.y;
        v.coords[3 * i + 2] = at.z;
    }
    scan::labels_strongest(r->features, v.count, v.classes, v.labels);
    if (job->input.points && last->set == 0) {
        v.of_row = numbers_new(job->input.rows);
        scan::labels_find(&job->layout, &job->input, r->words, v.count, v.of_row);
    }
    if (job->labels && v.of_row && is_street(job, v.classes)) {
        int32_t *votes = numbers_new((int64_t)v.count * v.classes);
        v.truth = numbers_new(v.count);
        scan::labels_vote(v.of_row, job->labels, job->input.rows, v.count, v.classes, votes,
                          v.truth);
        free(votes);
    }
    return v;
}

// Compares the classes with the truth; with themselves where it is not known.
static inline scan::labels_match match_of(const voxels *v) {
    return scan::labels_compare(v->labels, v->truth ? v->truth : v->labels, v->count);
}

// Prints a line: the IoU of each class of a street, or without a truth its share.
static inline void classes_print(const voxels *v, const scan::labels_match *match) {
    if (v->truth) {
        printf("mean IoU %.4f:", scan::labels_mean_iou(match, v->classes));
    } else {
        printf("classes:");
    }
    const char *comma = "";
    for (int c = 0; c < v->classes; ++c) {
        if (v->truth && scan::labels_iou(match, c) >= 0) {
            printf("%s %s %.3f", comma, scan::scene_class_name(c), scan::labels_iou(match, c));
        } else if (!v->truth) {
            printf("%s %s %.1f%%", comma, scan::scene_class_name(c),
                   100.0 * (double)match->found[c] / (double)v->count);
        }
        comma = ",";
    }
    printf("\n");
}

// Prints a line for each class: its voxels, and how well they agree with the truth.
static inline void classes_table(const voxels *v, const scan::labels_match *match, bool street) {
    printf("%-10s %9s %7s%s\n", "class", "voxels", "share", v->truth ? "     IoU" : "");
    for (int c = 0; c < v->classes; ++c) {
        char name[24];
        snprintf(name, sizeof name, "%d", c);
        printf("%-10s %9lld %6.2f%%", street ? scan::scene_class_name(c) : name,
               (long long)match->found[c], 100.0 * (double)match->found[c] / (double)v->count);
        if (v->truth && scan::labels_iou(match, c) >= 0) {
            printf(" %7.4f", scan::labels_iou(match, c));
        }
        printf("\n");
    }
}

// Writes the voxels with their classes: int32 [voxels, 4]: x, y, z, class.
static inline spira::status labels_write(const char *path, const voxels *v) {
    const int64_t shape[2] = {v->count, 4};
    FILE *file;
    SPIRA_TRY(scan::npy_begin(path, "<i4", shape, 2, &file));
    for (int32_t i = 0; i < v->count; ++i) {
        fwrite(v->coords + 3 * (int64_t)i, sizeof(int32_t), 3, file);
        fwrite(v->labels + i, sizeof(int32_t), 1, file);
    }
    return scan::npy_end(file, path);
}

} // namespace show

#endif
