// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/quantize_range.h: what calibration records of a tensor, and the ranges that it chooses
// from that for int8: the largest magnitude, a percentile, the least squared error.
#ifndef SPIRA_EXAMPLES_QUANTIZE_RANGE_H
#define SPIRA_EXAMPLES_QUANTIZE_RANGE_H

#include "../spira/numeric.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace quantize {

enum method : int { method_maximum, method_percentile, method_squares, method_count };

SPIRA_API const char *method_name(int m) {
    static const char *const names[method_count] = {"maximum", "percentile", "squares"};
    return m >= 0 && m < method_count ? names[m] : "?";
}

enum { histogram_bins = 4096 };

// Magnitudes of a tensor over all frames. Zeros are counted apart: most of a sparse layer's
// features are, behind ReLU, and they are exact at any scale.
struct histogram {
    float top;     // of the last bin; 0: nothing but zeros so far
    float largest; // magnitude
    uint64_t zeros, not_finite;
    uint64_t bin[histogram_bins];
};

// Makes room for a magnitude: pairs of bins are merged until it is below the top.
SPIRA_API void histogram_widen(histogram *h, float magnitude) {
    h->top = h->top > 0 ? h->top : magnitude;
    while (magnitude > h->top) {
        for (int i = 0; i < histogram_bins; ++i) {
            const int from = 2 * i;
            h->bin[i] = from < histogram_bins ? h->bin[from] + h->bin[from + 1] : 0;
        }
        h->top *= 2;
    }
}

SPIRA_API void histogram_add(histogram *h, const float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const float magnitude = values[i] < 0 ? -values[i] : values[i];
        if (!spira::float_is_finite(magnitude)) {
            ++h->not_finite;
        } else if (magnitude < 0x1p-100f) {
            ++h->zeros;
        } else {
            if (magnitude > h->top) {
                histogram_widen(h, magnitude);
            }
            h->largest = magnitude > h->largest ? magnitude : h->largest;
            const int at = (int)(magnitude / h->top * (float)histogram_bins);
            ++h->bin[at < histogram_bins ? at : histogram_bins - 1];
        }
    }
}

// The magnitude that a share of the values, zeros left out, does not exceed: the end of its bin.
SPIRA_API float histogram_percentile(const histogram *h, double share) {
    uint64_t all = 0, below = 0;
    for (uint64_t bin : h->bin) {
        all += bin;
    }
    for (int i = 0; i < histogram_bins; ++i) {
        below += h->bin[i];
        if ((double)below >= share * (double)all) {
            const float end = h->top * (float)(i + 1) / (float)histogram_bins;
            return end < h->largest ? end : h->largest;
        }
    }
    return h->largest;
}

// The squared error of int8 at a range, over all values; each is at the middle of its bin.
SPIRA_API double histogram_error(const histogram *h, float range) {
    const double width = (double)h->top / histogram_bins, scale = (double)range / 127;
    double error = 0;
    for (int i = 0; i < histogram_bins; ++i) {
        const double x = (i + 0.5) * width;
        const double q = (double)spira::i8_from_float((float)(x / scale)) * scale;
        // values spread over their bin
        error += (double)h->bin[i] * ((x - q) * (x - q) + width * width / 12);
    }
    return error;
}

// The range with the least of that error, among parts of the largest magnitude.
SPIRA_API float histogram_squares(const histogram *h) {
    enum { steps = 200 };
    float best = h->largest;
    double least = histogram_error(h, best);
    for (int i = 20; i < steps; ++i) {
        const float range = h->largest * (float)i / (float)steps;
        const double error = histogram_error(h, range);
        if (error < least) {
            least = error;
            best = range;
        }
    }
    return best;
}

// The range that a method chooses. 1 for a tensor of zeros: any range holds them.
SPIRA_API float histogram_range(const histogram *h, int m, double share) {
    if (!(h->largest > 0)) {
        return 1;
    }
    const float range = m == method_percentile ? histogram_percentile(h, share)
                        : m == method_squares  ? histogram_squares(h)
                                               : h->largest;
    return range > 0x1p-100f ? range : 0x1p-100f;
}

// ---- the error of what is stored ----------------------------------------------------------------

// Signal and noise of a tensor against its reference, and the largest magnitude of that.
struct error {
    double signal, noise, peak;
    int64_t count;
};

SPIRA_API void error_add(error *e, const float *reference, const float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const double x = (double)reference[i], d = x - (double)values[i];
        e->signal += x * x;
        e->noise += d * d;
        e->peak = fabs(x) > e->peak ? fabs(x) : e->peak;
    }
    e->count += count;
}

} // namespace quantize

#endif
