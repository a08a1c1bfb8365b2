// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/engine_report.h: what an engine says of its frames: percentiles of their latency, and
// which ones were not good.
#ifndef SPIRA_EXAMPLES_ENGINE_REPORT_H
#define SPIRA_EXAMPLES_ENGINE_REPORT_H

#include "engine_frames.h"

namespace engine {

// The outcome of a frame.
struct outcome {
    spira::device_status trouble;
    int32_t voxels;
    float graph_ms, whole_ms; // whole: with the copies of the rows in and of the status out
};

// The smallest value that at least `percent` of the values do not exceed. sorted: one or more.
static inline float percentile(const std::vector<float> &sorted, double percent) {
    size_t rank = (size_t)ceil(percent / 100 * (double)sorted.size());
    return sorted[rank ? rank - 1 : 0];
}

static inline void print_percentiles(std::vector<float> *values) {
    std::sort(values->begin(), values->end());
    for (double percent : {50.0, 90.0, 99.0, 100.0}) {
        printf(" %7.3f", percentile(*values, percent));
    }
}

// A line for every `step`th outcome from `first` on.
static inline void print_line(const char *name, const char *points, const char *voxels,
                              const std::vector<outcome> &outcomes, size_t first, size_t step) {
    std::vector<float> graph, whole;
    for (size_t i = first; i < outcomes.size(); i += step) {
        graph.push_back(outcomes[i].graph_ms);
        whole.push_back(outcomes[i].whole_ms);
    }
    printf("%-28.28s %8s %8s ", name, points, voxels);
    print_percentiles(&graph);
    printf(" ");
    print_percentiles(&whole);
    printf("\n");
}

// Prints a line for each scan, and its first error below. Returns the number of failed frames.
static inline int64_t print_scans(const std::vector<frame> &frames,
                                  const std::vector<outcome> &outcomes) {
    int64_t bad = 0;
    printf("%-28s %8s %8s  %-32s  %s\n%-46s ", "", "", "", "milliseconds, graph",
           "with the copies in and out", "scan                           points   voxels");
    for (int i = 0; i < 2; ++i) {
        printf(" %7s %7s %7s %7s ", "p50", "p90", "p99", "max");
    }
    printf("\n");
    for (size_t i = 0; i < frames.size(); ++i) {
        size_t slash = frames[i].path.find_last_of('/');
        std::string name = frames[i].path.substr(slash == std::string::npos ? 0 : slash + 1);
        print_line(name.c_str(), std::to_string(frames[i].count).c_str(),
                   std::to_string(outcomes[i].voxels).c_str(), outcomes, i, frames.size());
        if (frames[i].outside) {
            printf("    %lld points are out of range\n", (long long)frames[i].outside);
        }
        const int64_t lost = frames[i].no_return + outcomes[i].trouble.dropped_not_finite;
        if (lost) {
            printf("    %lld rows have no return\n", (long long)lost);
        }
        spira::status first = spira::status_success();
        for (size_t k = i; k < outcomes.size(); k += frames.size()) {
            spira::status s = spira::device_status_read(&outcomes[k].trouble);
            bad += spira::status_failed(s);
            first = spira::status_failed(first) ? first : s;
        }
        if (spira::status_failed(first)) {
            char text[256];
            printf("    %s\n", spira::status_text(first, text, sizeof text));
        }
    }
    print_line("all", "", "", outcomes, 0, 1);
    return bad;
}

// Reports a frame of a stream that was not good. Returns 1 for it, else 0.
static inline int64_t outcome_report(const std::string &path, const outcome *o) {
    char text[256];
    const spira::status s = spira::device_status_read(&o->trouble);
    if (spira::status_failed(s)) {
        fprintf(stderr, "cut off: %s: %s\n", path.c_str(),
                spira::status_text(s, text, sizeof text));
    }
    return spira::status_failed(s);
}

// The percentiles of a stream.
static inline void print_stream(const std::vector<outcome> &outcomes) {
    printf("milliseconds of the graph, and with the copies in and out: p50, p90, p99, maximum\n");
    if (!outcomes.empty()) {
        print_line("all", "", "", outcomes, 0, 1);
    }
}

} // namespace engine

#endif
