// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/quantize.cpp: what calibration records, and the ranges that it chooses.
#include "../support/test.h"

#include "../../examples/quantize_range.h"

#include <algorithm>
#include <math.h>
#include <memory>
#include <vector>

using namespace quantize;

namespace {

std::unique_ptr<histogram> histogram_of(const std::vector<float> &values) {
    std::unique_ptr<histogram> h(new histogram{});
    for (size_t i = 0; i < values.size(); i += 1000) { // as frames come
        histogram_add(h.get(), values.data() + i,
                      (int64_t)std::min<size_t>(1000, values.size() - i));
    }
    return h;
}

// The error of the values themselves.
double error_of(const std::vector<float> &values, float range) {
    const double scale = (double)range / 127;
    double sum = 0;
    for (float x : values) {
        const double q = fmin(fmax(rint((double)x / scale), -128), 127) * scale;
        sum += ((double)x - q) * ((double)x - q);
    }
    return sum;
}

// Most are small; a few are a hundred times as large.
std::vector<float> values_skewed(int count) {
    random_state r = random_make(3);
    std::vector<float> values;
    for (int i = 0; i < count; ++i) {
        float x = 0;
        for (int n = 0; n < 6; ++n) {
            x += random_float(&r);
        }
        values.push_back(i % 5000 == 77 ? 100 * x : i % 3 ? x : 0.0f);
    }
    return values;
}

} // namespace

TEST(quantize_histogram_counts_all) {
    const std::vector<float> values = values_skewed(50000);
    const std::unique_ptr<histogram> h = histogram_of(values);
    float largest = 0;
    uint64_t zeros = 0, in_bins = 0;
    for (float x : values) {
        largest = fmaxf(largest, fabsf(x));
        zeros += x == 0;
    }
    for (uint64_t bin : h->bin) {
        in_bins += bin;
    }
    CHECK(h->largest == largest && h->zeros == zeros && h->not_finite == 0);
    CHECK_EQUAL(in_bins + zeros, (uint64_t)values.size());
    std::vector<float> sorted;
    for (float x : values) {
        if (x != 0) {
            sorted.push_back(fabsf(x));
        }
    }
    std::sort(sorted.begin(), sorted.end());
    for (double share : {0.5, 0.99, 0.9999}) {
        const double exact = (double)sorted[(size_t)(share * (double)sorted.size())];
        const double width = (double)h->top / histogram_bins;
        CHECK(fabs((double)histogram_percentile(h.get(), share) - exact) < 2 * width);
    }
}

// It is less than that of the largest magnitude, and no other range is much better.
TEST(quantize_squares_finds_the_least_error) {
    const std::vector<float> values = values_skewed(50000);
    const std::unique_ptr<histogram> h = histogram_of(values);
    const float range = histogram_range(h.get(), method_squares, 0);
    const double found = error_of(values, range);
    for (float part = 0.05f; part <= 1; part += 0.05f) {
        CHECK(found <= 1.05 * error_of(values, part * h->largest));
    }
    CHECK_EQUAL(histogram_range(h.get(), method_maximum, 0), h->largest);
    CHECK(fabs(histogram_error(h.get(), range) / found - 1) < 0.1);
}

// Features of zeros, of one magnitude and of bad values have ranges that planning takes.
TEST(quantize_ranges_are_positive) {
    const std::vector<float> sets[] = {{0, 0, 0},          {},       {0.25f, -0.25f},
                                       {NAN, INFINITY, 2}, {1e-30f}, {3e38f, -1}};
    const float most[] = {1, 1, 0.25f, 2, 1e-30f, 3e38f};
    for (int i = 0; i < 6; ++i) {
        const std::unique_ptr<histogram> h = histogram_of(sets[i]);
        for (int m = 0; m < method_count; ++m) {
            const float range = histogram_range(h.get(), m, 0.9999);
            CHECK(range > 0 && range <= most[i]);
        }
        CHECK_EQUAL(histogram_range(h.get(), method_maximum, 0), most[i]);
    }
    CHECK_EQUAL(histogram_of(sets[3])->not_finite, 2u);
}
