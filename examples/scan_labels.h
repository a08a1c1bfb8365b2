// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_labels.h: classes of voxels, on the host: from scores, from labelled points, and
// how well the two agree.
#ifndef SPIRA_EXAMPLES_SCAN_LABELS_H
#define SPIRA_EXAMPLES_SCAN_LABELS_H

#include "../spira/voxel.h"
#include "scan_file.h"

#include <algorithm>

namespace scan {

// The class with the largest score; of equal ones the first.
//
// inputs:  scores   [voxels, classes]
// outputs: labels   [voxels]
SPIRA_API void labels_strongest(const float *scores, int64_t voxels, int classes, int32_t *labels) {
    for (int64_t v = 0; v < voxels; ++v) {
        const float *row = scores + v * classes;
        labels[v] = (int32_t)(std::max_element(row, row + classes) - row);
    }
}

// The class that most points of a voxel have; of equal ones the first; -1 without points.
//
// inputs:  voxel    [rows] the voxel of each point, -1: none
//          label    [rows] the class of each point, 0 .. classes - 1
// outputs: labels   [voxels]
// scratch: votes    [voxels, classes]
SPIRA_API void labels_vote(const int32_t *voxel, const int32_t *label, int64_t rows, int64_t voxels,
                           int classes, int32_t *votes, int32_t *labels) {
    std::fill(votes, votes + voxels * classes, 0);
    for (int64_t i = 0; i < rows; ++i) {
        if (voxel[i] >= 0) {
            ++votes[(int64_t)voxel[i] * classes + label[i]];
        }
    }
    for (int64_t v = 0; v < voxels; ++v) {
        const int32_t *row = votes + v * classes, *most = std::max_element(row, row + classes);
        labels[v] = *most ? (int32_t)(most - row) : -1;
    }
}

// The voxel of each point: its index in a set's sorted words, or -1.
//
// inputs:  in       points, size, origin, rows; words [voxels]
// outputs: voxel    [rows]
template <typename W>
SPIRA_API void labels_find(const spira::word_layout *layout, const spira::voxel_input *in,
                           const W *words, int64_t voxels, int32_t *voxel) {
    for (int64_t i = 0; i < in->rows; ++i) {
        spira::voxel_raw raw = {};
        memcpy(raw.point, in->points + i * in->columns, sizeof raw.point);
        W word;
        const bool good = spira::voxel_word<true>(layout, in, &raw, &word) == spira::voxel_good;
        const W *at = std::lower_bound(words, words + voxels, word);
        voxel[i] = good && at < words + voxels && *at == word ? (int32_t)(at - words) : -1;
    }
}

enum labels_limits { labels_most = 64 }; // classes of a comparison

// How labels compare with the truth, by class.
struct labels_match {
    int64_t found[labels_most], there[labels_most], both[labels_most];
};

// Compares labels with a truth; a truth of -1 is skipped.
SPIRA_API labels_match labels_compare(const int32_t *labels, const int32_t *truth, int64_t voxels) {
    labels_match m = {};
    for (int64_t v = 0; v < voxels; ++v) {
        if (truth[v] >= 0) {
            ++m.found[labels[v]];
            ++m.there[truth[v]];
            m.both[labels[v]] += labels[v] == truth[v];
        }
    }
    return m;
}

// The intersection over the union of a class; -1 if neither the labels nor the truth has it.
SPIRA_API double labels_iou(const labels_match *m, int label) {
    const int64_t any = m->found[label] + m->there[label] - m->both[label];
    return any ? (double)m->both[label] / (double)any : -1;
}

// The mean over the classes that are there; -1 without one.
SPIRA_API double labels_mean_iou(const labels_match *m, int classes) {
    double sum = 0;
    int count = 0;
    for (int c = 0; c < classes; ++c) {
        const double iou = labels_iou(m, c);
        sum += iou < 0 ? 0 : iou;
        count += iou >= 0;
    }
    return count ? sum / count : -1;
}

} // namespace scan

#endif
