// spira/conv/tune_error.h: how far the result of a convolution may be off, and how far it is.
#ifndef SPIRA_CONV_TUNE_ERROR_H
#define SPIRA_CONV_TUNE_ERROR_H

#include "../conv.h"

#include <math.h>
#include <string.h>

namespace spira {

// The exact value of an output, and the largest error that a correct result has.
struct tune_expected {
    double value, bound;
};

// The value and the bound of one output.
//
// inputs   sum, magnitude: sum a w and sum |a| |w| over `terms` products, in double; residual: 0
//          without one
// The bound is 2 (terms + 4) 2^-24 sum |a||w|, passed through the epilogue, plus the roundings. The
// factor 2 is there because tensor cores truncate where fp32 units round.
SPIRA_BOTH tune_expected tune_expect(double sum, double magnitude, int64_t terms,
                                     const conv_epilogue *e, int channel, double residual,
                                     numeric type) {
    double error = 2.0 * (double)(terms + 4) * (magnitude * 0x1p-24 + 0x1p-149);
    double most = fabs(sum), slope = (double)e->slope;
    if (e->bias) {
        sum += (double)e->bias[channel];
        most += fabs((double)e->bias[channel]);
    }
    if (e->scale) {
        double scale = (double)e->scale[channel];
        sum *= scale;
        error *= fabs(scale);
        most *= fabs(scale);
    }
    if (e->shift) {
        sum += (double)e->shift[channel];
        most += fabs((double)e->shift[channel]);
    }
    sum += residual;
    error += 6 * 0x1p-24 * (most + fabs(residual)); // five steps, each rounded once
    error = error * activation_steepness(e->act, slope) + activation_error(e->act) * fabs(sum);
    sum = activation_apply(sum, e->act, slope);
    double rounding = type == numeric_f16 ? 0x1p-11 : type == numeric_bf16 ? 0x1p-8 : 0;
    double smallest = type == numeric_f16 ? 0x1p-24 : 0x1p-126;
    return {sum, error + rounding * (fabs(sum) + error) + smallest};
}

// The bits of a double, so that tests for NaN and infinity also hold under -ffast-math.
SPIRA_BOTH uint64_t tune_double_bits(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

// The error of a result as a multiple of its bound: correct up to 1. NaN returns infinity. A value
// that overflows its type may be infinite.
SPIRA_BOTH double tune_error(double got, tune_expected expected, numeric type) {
    const uint64_t sign = 1ull << 63, infinite = 0x7ffull << 52, bits = tune_double_bits(got);
    double largest = type == numeric_f16    ? 65504
                     : type == numeric_bf16 ? 3.3895313892515355e38
                                            : 3.4028234663852886e38;
    bool overflows = fabs(expected.value) + expected.bound >= largest;
    if (overflows && (bits & ~sign) == infinite && !(bits & sign) == (expected.value > 0)) {
        return 0;
    }
    double ratio = fabs(got - expected.value) / expected.bound;
    return (tune_double_bits(ratio) & ~sign) <= infinite ? ratio : (double)INFINITY;
}

// Row number of sample `sample` of `samples` (at most `rows`): ascending, unevenly spread over all
// rows, with the first and the last row.
SPIRA_BOTH int32_t tune_sample_row(int32_t rows, int32_t samples, int32_t sample) {
    int64_t from = (int64_t)rows * sample / samples, to = (int64_t)rows * (sample + 1) / samples;
    uint32_t bits = (uint32_t)sample * 2654435761u;
    int64_t row = from + (int64_t)(bits >> 8) % (to - from);
    return (int32_t)(sample == 0 ? 0 : sample + 1 == samples ? rows - 1 : row);
}

} // namespace spira

#endif
