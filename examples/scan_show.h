// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_show.h: what scan.cu makes of a network's output: text, a file of labels, a
// picture.
#ifndef SPIRA_EXAMPLES_SCAN_SHOW_H
#define SPIRA_EXAMPLES_SCAN_SHOW_H

#include "scan_marks.h"
#include "scan_png.h"

namespace show {

// The time of a frame, and where it ran.
template <typename W>
static void time_text(const side::result<W> *r, char *text, size_t size) {
    const double sum = r->voxelize_ms + r->index_ms + r->features_ms;
    const double ms = r->graph_ms > 0 ? r->graph_ms : sum;
    snprintf(text, size, ms < 1000 ? "%.2f ms %s" : "%.1f s %s", ms < 1000 ? ms : 1e-3 * ms,
             r->where);
}

// Writes under a picture what its colours mean; the scale, whose weights, the result; the time.
//
// inputs:  match  of the classes of a street; null: colours are those of values
template <typename W>
static void caption(const side::job *job, const side::result<W> *r, const scan::labels_match *match,
                    bool known, scan::picture *picture) {
    const int row = picture->height - scan::picture_caption + 8;
    const bool random = !job->chosen->weights && !job->chosen->onnx;
    const char *folder = strrchr(job->chosen->net, '/'); // of an .onnx file
    char text[400];
    uint8_t rgb[3];
    int x = 16;
    for (int c = 0; match && c < scan::scene_classes; ++c) {
        class_colour(true, c, rgb);
        x = scan::legend_colour(picture, x, row, rgb, scan::scene_class_name(c));
    }
    for (int i = 0; !match && !job->net->scores && i < 2; ++i) {
        scan::picture_height_colour((float)i, rgb);
        x = scan::legend_colour(picture, x, row, rgb, i ? "largest values" : "smallest values");
    }
    x = scan::legend_scale(picture, 16, row + scan::legend_row);
    snprintf(text, sizeof text, "   %.24s%s", folder ? folder + 1 : job->chosen->net,
             random ? ", random weights" : "");
    x = scan::legend_text(picture, x, row + scan::legend_row, text);
    if (match && known) {
        snprintf(text, sizeof text, "   mean IoU %.3f",
                 scan::labels_mean_iou(match, scan::scene_classes));
        scan::legend_text(picture, x, row + scan::legend_row, text);
    }
    time_text(r, text, sizeof text);
    scan::legend_text(picture, 16, row + 2 * scan::legend_row, text);
}

// Shows what was asked for of a set of voxels.
template <typename W>
static spira::status voxels_show(const side::job *job, const side::result<W> *r,
                                 scan::picture *picture) {
    voxels v = voxels_new(job, r);
    const bool scores = job->net->scores && v.classes <= scan::labels_most;
    const bool street = is_street(job, v.classes);
    scan::labels_match match = {};
    if (scores) {
        match = match_of(&v);
    }
    if (street) {
        classes_print(&v, &match);
    }
    if (scores && job->chosen->layers) {
        classes_table(&v, &match, street);
    }
    marks m = job->net->scores ? marks_of_classes(job, &v, street)
                               : marks_of_voxels(job, &v, r->features);
    const scan::picture_view above = {0, 0, 2, false}, aslant = {0.5f, 0.9f, 2, false};
    spira::status s =
        scan::picture_draw(job->net->scores ? &aslant : &above, m.mark, m.count, picture);
    if (!spira::status_failed(s)) {
        caption(job, r, street ? &match : nullptr, v.truth != nullptr, picture);
    }
    if (!spira::status_failed(s) && job->chosen->save_labels) {
        s = labels_write(job->chosen->save_labels, &v);
    }
    free(m.mark);
    voxels_free(&v);
    return s;
}

// Draws a dense map.
template <typename W>
static spira::status map_show(const side::job *job, const side::result<W> *r,
                              scan::picture *picture) {
    const scan::picture_view above = {0, 0, 1, false};
    marks m = marks_of_map(job, r->features);
    spira::status s = scan::picture_draw(&above, m.mark, m.count, picture);
    if (!spira::status_failed(s)) {
        caption(job, r, nullptr, false, picture);
    }
    free(m.mark);
    return s;
}

// Prints, writes and draws the output of the last layer.
template <typename W>
static spira::status result_show(const side::job *job, const side::result<W> *r) {
    scan::picture picture = {};
    const bool dense = side::is_dense(job->plan, job->plan->layer_count - 1);
    SPIRA_REQUIRE(!dense || !job->chosen->save_labels, spira::status_unsupported,
                  "--save-labels (this network has a dense map)", 0);
    spira::status s = dense ? map_show(job, r, &picture) : voxels_show(job, r, &picture);
    if (!spira::status_failed(s)) {
        s = scan::png_write(job->chosen->picture, picture.rgb, picture.width, picture.height);
    }
    scan::picture_free(&picture);
    if (!spira::status_failed(s)) {
        printf("picture: %s\n", job->chosen->picture);
    }
    return s;
}

} // namespace show

#endif
