// spira/conv/tune_judge.cuh: the kernel that compares the result of a convolution with sums in
// double (tune_judge in ../tune.cuh).
#ifndef SPIRA_CONV_TUNE_JUDGE_CUH
#define SPIRA_CONV_TUNE_JUDGE_CUH

#include "../numeric.cuh"
#include "tune_error.h"

namespace spira {

enum { tune_judge_threads = 256 };

struct tune_judge_params {
    conv_shape shape;
    const void *in, *in2;
    const float *weight; // [volume, cin + cin2, cout]
    const int32_t *map;  // [capacity, volume], or null: the identity
    const int32_t *count;
    int32_t capacity, samples;
    conv_epilogue epilogue;
    const void *out;
    float *worst;
};

// The exact value of one output and its bound.
template <typename E>
SPIRA_DEVICE tune_expected tune_judge_expect(const tune_judge_params &p, int64_t row, int channel) {
    const int volume = p.shape.volume, cin = p.shape.cin, both = cin + p.shape.cin2;
    const numeric type = p.shape.type;
    double sum = 0, magnitude = 0;
    int64_t terms = 0;
    for (int k = 0; k < volume; ++k) {
        int64_t source = p.map ? p.map[row * volume + k] : row;
        for (int i = 0; i < both && source >= 0; ++i, ++terms) {
            const E *in = i < cin ? (const E *)p.in + source * cin + i
                                  : (const E *)p.in2 + source * p.shape.cin2 + (i - cin);
            float weight = p.weight[((int64_t)k * both + i) * p.shape.cout + channel];
            double product = (double)element_operand(type, element_to_float(*in)) *
                             (double)element_operand(type, weight);
            sum += product;
            magnitude += fabs(product);
        }
    }
    const E *residual = (const E *)p.epilogue.residual;
    double extra = residual ? (double)element_to_float(residual[row * p.shape.cout + channel]) : 0;
    return tune_expect(sum, magnitude, terms, &p.epilogue, channel, extra, type);
}

// Thread blocks share the sampled rows, then all outputs.
template <typename E>
SPIRA_KERNEL void __launch_bounds__(tune_judge_threads)
    tune_judge_kernel(const __grid_constant__ tune_judge_params p) {
    const int32_t rows = count_clamp(*p.count, p.capacity), samples = min(p.samples, rows);
    const int cout = p.shape.cout;
    const E *out = (const E *)p.out;
    float worst = 0;

    // The errors of the samples.
    for (int32_t s = (int32_t)blockIdx.x; s < samples; s += (int32_t)gridDim.x) {
        int64_t row = tune_sample_row(rows, samples, s);
        for (int c = (int)threadIdx.x; c < cout; c += tune_judge_threads) {
            double got = (double)element_to_float(out[row * cout + c]);
            double error = tune_error(got, tune_judge_expect<E>(p, row, c), p.shape.type);
            worst = fmaxf(worst, __double2float_ru(error));
        }
    }

    // Elements that nobody has written.
    const int64_t total = (int64_t)rows * cout, step = (int64_t)gridDim.x * tune_judge_threads;
    for (int64_t i = (int64_t)blockIdx.x * tune_judge_threads + threadIdx.x; i < total; i += step) {
        worst = float_is_nan(element_to_float(out[i])) ? INFINITY : worst;
    }
    if (worst > 0) {
        atomicMax((int *)p.worst, __float_as_int(worst)); // floats >= 0 are ordered as their bits
    }
}

} // namespace spira

#endif
