// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm_column.cuh: what a batch norm (norm.cu) computes of one row of a
// column: `wide` neighbouring channels.
#ifndef SPIRA_TORCH_NORM_COLUMN_CUH
#define SPIRA_TORCH_NORM_COLUMN_CUH

#include "../norm.h"

#include "spira/base/wide.cuh"
#include "spira/numeric.cuh"

namespace spira_torch {
namespace gpu {

using namespace spira;

// ---- elements -----------------------------------------------------------------------------------

template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide> norm_load(const E *from) {
    wide_elements<E, wide> to;
    if constexpr (wide == 1) {
        to.at[0] = *from;
    } else {
        wide_read(from, to);
    }
    return to;
}

template <typename E, int wide>
SPIRA_DEVICE void norm_store(E *to, const wide_elements<E, wide> &from) {
    if constexpr (wide == 1) {
        *to = from.at[0];
    } else {
        wide_write(from, to);
    }
}

// ---- statistics ---------------------------------------------------------------------------------

// What the output of a column is made with.
template <int wide>
struct norm_column {
    float mean[wide], scale[wide], bias[wide];
};

// Without statistics.
template <int wide>
SPIRA_DEVICE norm_column<wide> norm_column_of(const norm_job &job, int column) {
    norm_column<wide> c = {};
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        c.scale[i] = job.weight ? job.weight[column * wide + i] : 1.0f;
        c.bias[i] = job.bias ? job.bias[column * wide + i] : 0.0f;
    }
    return c;
}

// mean, invstd: of the column
template <int wide>
SPIRA_DEVICE void norm_column_set(norm_column<wide> *c, const float *mean, const float *invstd) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        c->mean[i] = mean[i];
        c->scale[i] *= invstd[i];
    }
}

// The output before the residual and the ReLU, from x - mean. Backward computes it again: the same
// bits.
SPIRA_DEVICE float norm_value(float d, float scale, float bias) {
    return fmaf(d, scale, bias);
}

// The largest value that becomes 0 in the format.
template <typename E>
SPIRA_DEVICE constexpr float norm_zero() {
    return sizeof(E) == 4 ? 0.0f : std::is_same<E, __half>::value ? 0x1p-25f : 0x1p-134f;
}

// Where the output was 0, the gradient becomes 0, that of NaN, too, but NaN stays where the output
// is none: what scales losses sees it. d: x - mean
template <typename E, int wide>
SPIRA_DEVICE void norm_mask(const norm_column<wide> &c, const float (&d)[wide], float (&g)[wide]) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        g[i] = norm_value(d[i], c.scale[i], c.bias[i]) <= norm_zero<E>() ? 0.0f : g[i];
    }
}

// ---- sums ---------------------------------------------------------------------------------------

// One row. Forward: the sums of d = x - c.mean, near the true mean, and of d * d.
template <typename E, int wide>
SPIRA_DEVICE void norm_add(const norm_column<wide> &c, const wide_elements<E, wide> &x,
                           float (&sum)[2 * wide]) {
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float d = element_to_float(x.at[i]) - c.mean[i];
        sum[i] += d;
        sum[wide + i] = fmaf(d, d, sum[wide + i]);
    }
}

// Backward: the sums of the gradient behind the ReLU, and of it times x - mean. y: the output,
// where it was kept. Leaves the gradient behind the ReLU in g.
template <typename E, int wide>
SPIRA_DEVICE void norm_add_gradient(const norm_job &job, const norm_column<wide> &c,
                                    const wide_elements<E, wide> &x, wide_elements<E, wide> *g,
                                    const E *y, float (&sum)[2 * wide]) {
    float d[wide], own[wide];
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        d[i] = element_to_float(x.at[i]) - c.mean[i];
        own[i] = element_to_float(g->at[i]);
    }
    if (job.relu && job.output) {
        const wide_elements<E, wide> out = norm_load<E, wide>(y);
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            own[i] = element_to_float(out.at[i]) <= 0.0f ? 0.0f : own[i];
        }
    } else if (job.relu) {
        norm_mask<E>(c, d, own);
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        sum[i] += own[i];
        sum[wide + i] = fmaf(own[i], d[i], sum[wide + i]);
        g->at[i] = element_from_float<E>(own[i]);
    }
}

// ---- rows ---------------------------------------------------------------------------------------

// One row of y.
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide> norm_forward(const norm_job &job, const norm_column<wide> &c,
                                                 const wide_elements<E, wide> &x,
                                                 const wide_elements<E, wide> &residual) {
    float y[wide];
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        y[i] = norm_value(element_to_float(x.at[i]) - c.mean[i], c.scale[i], c.bias[i]);
    }
    if (job.residual) {
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            y[i] += element_to_float(residual.at[i]);
        }
    }
    if (job.relu) {
#pragma unroll
        for (int i = 0; i < wide; ++i) {
            y[i] = y[i] <= 0.0f ? 0.0f : y[i]; // NaN stays
        }
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        out.at[i] = element_from_float<E>(y[i]);
    }
    return out;
}

// One row of the gradient of x. rest: what is taken away from the gradient behind the ReLU, a
// constant and a multiple of x - mean. g: where y was kept, the gradient behind the ReLU
template <typename E, int wide>
SPIRA_DEVICE wide_elements<E, wide>
norm_gradient(const norm_job &job, const norm_column<wide> &c, const float (&rest)[2 * wide],
              const wide_elements<E, wide> &x, const wide_elements<E, wide> &g) {
    float d[wide], own[wide];
    wide_elements<E, wide> out;
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        d[i] = element_to_float(x.at[i]) - c.mean[i];
        own[i] = element_to_float(g.at[i]);
    }
    if (job.relu && !job.output) {
        norm_mask<E>(c, d, own);
    }
#pragma unroll
    for (int i = 0; i < wide; ++i) {
        const float left = fmaf(d[i], rest[wide + i], own[i] - rest[i]);
        out.at[i] = element_from_float<E>(c.scale[i] * left);
    }
    return out;
}

} // namespace gpu
} // namespace spira_torch

#endif
