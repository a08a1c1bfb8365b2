// examples/scan_show.h: what scan.cu makes of a network's output: the class of each voxel, their
// table, a file of them, and the picture.
#ifndef SPIRA_EXAMPLES_SCAN_SHOW_H
#define SPIRA_EXAMPLES_SCAN_SHOW_H

#include "npy_file.h"
#include "scan_labels.h"
#include "scan_legend.h"
#include "scan_map.h"
#include "scan_scene.h"
#include "scan_side.h"

namespace show {

// The voxels of the last layer. All arrays are owned.
struct voxels {
    int32_t count;
    int classes;
    int32_t *coords; // [count, 3]
    int32_t *labels; // [count] the class with the strongest output
    int32_t *truth;  // [count] the class of most points, -1 without points; null: not known
};

static inline void voxels_free(voxels *v) {
    free(v->coords);
    free(v->labels);
    free(v->truth);
    memset(v, 0, sizeof *v);
}

static inline int32_t *numbers_new(int64_t count) {
    return (int32_t *)malloc((size_t)(count + 1) * sizeof(int32_t));
}

template <typename W>
static void truth_fill(const side::job *job, const side::result<W> *r, voxels *v) {
    int32_t *voxel = numbers_new(job->input.rows);
    int32_t *votes = numbers_new((int64_t)v->count * v->classes);
    v->truth = numbers_new(v->count);
    scan::labels_find(&job->layout, &job->input, r->words, v->count, voxel);
    scan::labels_vote(voxel, job->labels, job->input.rows, v->count, v->classes, votes, v->truth);
    free(voxel);
    free(votes);
}

// Whether the classes of a job are those of a street.
static inline bool is_street(const side::job *job, int classes) {
    return job->net->scores && classes == scan::scene_classes;
}

template <typename W>
static voxels voxels_new(const side::job *job, const side::result<W> *r) {
    const int last = job->plan->layer_count - 1;
    voxels v = {};
    v.count = r->voxels[job->plan->step[last].set];
    v.classes = job->plan->step[last].channels;
    v.coords = numbers_new((int64_t)v.count * 3);
    v.labels = numbers_new(v.count);
    for (int32_t i = 0; i < v.count; ++i) {
        const spira::voxel at = spira::word_unpack<W>(&job->layout, r->words[i]);
        v.coords[3 * i] = at.x;
        v.coords[3 * i + 1] = at.y;
        v.coords[3 * i + 2] = at.z;
    }
    scan::labels_strongest(r->features, v.count, v.classes, v.labels);
    if (job->labels && job->input.points && is_street(job, v.classes)) {
        truth_fill(job, r, &v);
    }
    return v;
}

// A colour of the palette for each class of a street, and the class's number elsewhere.
static inline int32_t colour_of(bool street, int32_t label) {
    static const int32_t colours[scan::scene_classes] = {8, 9, 0, 3, 5, 2, 18};
    return street ? colours[label] : label;
}

// Prints a line for each class that there is: its voxels, and how well they agree with the truth.
static inline void table_print(const voxels *v, bool street) {
    int64_t counts[scan::labels_most] = {};
    for (int32_t i = 0; i < v->count; ++i) {
        ++counts[v->labels[i]];
    }
    scan::labels_match match = {};
    if (v->truth) {
        match = scan::labels_compare(v->labels, v->truth, v->count);
    }
    printf("%-10s %9s %7s%s\n", "class", "voxels", "share", v->truth ? "     IoU" : "");
    for (int c = 0; c < v->classes; ++c) {
        char name[24];
        snprintf(name, sizeof name, "%d", c);
        printf("%-10s %9lld %6.2f%%", street ? scan::scene_class_name(c) : name,
               (long long)counts[c], 100.0 * (double)counts[c] / (double)v->count);
        if (v->truth && scan::labels_iou(&match, c) >= 0) {
            printf(" %7.4f", scan::labels_iou(&match, c));
        }
        printf("\n");
    }
    if (v->truth) {
        printf("mean IoU of the classes in this scene: %.4f\n",
               scan::labels_mean_iou(&match, v->classes));
    }
}

// Writes the voxels with their classes: int32 [voxels, 4]: x, y, z, class.
static inline spira::status labels_write(const char *path, const voxels *v) {
    const int64_t shape[2] = {v->count, 4};
    FILE *file;
    SPIRA_TRY(npy::file_begin(path, "<i4", shape, 2, &file));
    for (int32_t i = 0; i < v->count; ++i) {
        fwrite(v->coords + 3 * (int64_t)i, sizeof(int32_t), 3, file);
        fwrite(v->labels + i, sizeof(int32_t), 1, file);
    }
    return npy::file_end(file, path);
}

// ---- pictures -----------------------------------------------------------------------------------

// Draws a dense map and the points over it.
template <typename W>
static spira::status draw_map(const side::job *job, const side::result<W> *r,
                              scan::picture *picture) {
    const int last = job->plan->layer_count - 1, zoom = 6;
    const spira::net_set *set = &job->plan->set[job->plan->step[last].set];
    const spira::voxel_input *in = &job->input;
    const scan::picture_map map = {r->features, job->plan->step[last].channels, set->grid.extent.y,
                                   set->grid.extent.x};
    SPIRA_TRY(scan::picture_map_draw(&map, zoom, picture));
    for (int64_t i = 0; i < in->rows; ++i) {
        const float *p = in->points + i * in->columns;
        scan::picture_map_point(picture,
                                (p[0] - in->origin[0]) / in->size[0] / (float)set->stride.x,
                                (p[1] - in->origin[1]) / in->size[1] / (float)set->stride.y, zoom);
    }
    return spira::status_success();
}

// Draws the voxels from above in the colours of their classes, with a legend if these have names.
static inline spira::status draw_voxels(const voxels *v, bool street, scan::picture *picture) {
    int32_t *colours = numbers_new(v->count);
    for (int32_t i = 0; i < v->count; ++i) {
        colours[i] = colour_of(street, v->labels[i]);
    }
    spira::status s = scan::picture_from_above(v->coords, colours, v->count, 0, picture);
    free(colours);
    for (int c = 0; c < scan::scene_classes && street && !spira::status_failed(s); ++c) {
        uint8_t rgb[3];
        scan::picture_class_colour(colour_of(street, c), rgb);
        scan::legend_draw(picture, c, rgb, scan::scene_class_name(c));
    }
    return s;
}

// Shows what was asked for of a set of voxels.
template <typename W>
static spira::status voxels_show(const side::job *job, const side::result<W> *r,
                                 scan::picture *picture) {
    voxels v = voxels_new(job, r);
    const bool street = is_street(job, v.classes);
    spira::status s = spira::status_success();
    if (job->net->scores && v.classes <= scan::labels_most) {
        table_print(&v, street);
    }
    if (job->chosen->save_labels) {
        s = labels_write(job->chosen->save_labels, &v);
    }
    s = spira::status_failed(s) ? s : draw_voxels(&v, street, picture);
    voxels_free(&v);
    return s;
}

// Prints, writes and draws the output of the last layer.
template <typename W>
static spira::status result_show(const side::job *job, const side::result<W> *r) {
    scan::picture picture = {0, 0, nullptr};
    const bool dense = side::is_dense(job->plan, job->plan->layer_count - 1);
    SPIRA_REQUIRE(!dense || !job->chosen->save_labels, spira::status_unsupported,
                  "--save-labels (this network has a dense map)", 0);
    spira::status s = dense ? draw_map(job, r, &picture) : voxels_show(job, r, &picture);
    if (!spira::status_failed(s)) {
        s = scan::picture_write_png(job->chosen->picture, picture.rgb, picture.width,
                                    picture.height);
    }
    scan::picture_free(&picture);
    if (!spira::status_failed(s)) {
        printf("picture: %s\n", job->chosen->picture);
    }
    return s;
}

} // namespace show

#endif
