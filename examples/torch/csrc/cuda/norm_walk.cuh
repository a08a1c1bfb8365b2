// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/torch/csrc/cuda/norm_walk.cuh: which rows of a slice a thread of a batch norm (norm.cu)
// has, and how they come to shared memory ahead of it.
#ifndef SPIRA_TORCH_NORM_WALK_CUH
#define SPIRA_TORCH_NORM_WALK_CUH

#include "norm_column.cuh"

#include "spira/base/async.cuh"

namespace spira_torch {
namespace gpu {

// norm_ahead: batches of rows that a thread copies ahead of the one that it reads.
enum { norm_ahead = 3, norm_held = norm_ahead + 1 };

// Columns of a slice. A column is what a thread reads of a row: 16 bytes, or one channel of arrays
// that allow no more.
SPIRA_BOTH constexpr int norm_width(int wide) {
    return wide > 1 ? 4 : 8;
}

struct norm_params {
    norm_job job;
    float *slots;              // [slices, parts, columns of a slice, 2, channels of a column]
    int slices, parts, stride; // stride: bytes from a thread's row to its next
    void *kept;                // backward: where the gradient behind the ReLU is written, or null
    const void *again;         // the gradient that the second reading reads
};

SPIRA_DEVICE int norm_rows(const norm_job &job) {
    return (int)(job.count ? max_of(min_of(*job.count, job.capacity), 0) : job.capacity);
}

// A thread's column, and its row among those that a thread block reads at a time.
struct norm_place {
    int x, column, line, lines;
};

template <int wide>
SPIRA_DEVICE norm_place norm_place_of(int slice) {
    constexpr int width = norm_width(wide);
    norm_place p;
    p.x = (int)threadIdx.x % width;
    p.column = slice * width + p.x;
    p.line = (int)threadIdx.x / width;
    p.lines = (int)blockDim.x / width;
    return p;
}

// Rows behind the count are zeros. to: null, or all rows
template <typename E, int wide>
SPIRA_DEVICE void norm_clear(const norm_job &job, const norm_place &at, int rows, void *to) {
    const wide_elements<E, wide> zeros = {};
    for (int64_t r = rows + (int64_t)blockIdx.y * at.lines + at.line;
         to && at.column * wide < job.channels && r < job.capacity; r += gridDim.y * at.lines) {
        norm_store((E *)to + r * job.channels + at.column * wide, zeros);
    }
}

// ---- the rows of a thread -----------------------------------------------------------------------

// Every `lines`th row of a part, in batches. They are copied to shared memory, norm_held batches in
// turn, to places that no other thread reads. Arrays: x; backward the gradient; last the third,
// which is read in one of the two loops (forward the residual, backward y). Sizes in bytes.
template <typename E, int wide, bool backward>
struct norm_walk {
    static constexpr int batch = backward ? 1 : 2, arrays = backward ? 3 : 2;
    static constexpr int pack = sizeof(E) * wide, bytes = norm_held * batch * arrays * pack;
    const char *x, *g, *third;
    int64_t first; // row from an array
    int stride;    // from row to row
    int rows, batches;
    int step; // from place to place
    char *memory;
};

template <typename E, int wide, bool backward>
SPIRA_DEVICE norm_walk<E, wide, backward> norm_walk_of(const norm_params &p, const norm_place &at,
                                                       int rows, char *memory) {
    typedef norm_walk<E, wide, backward> walk;
    const unsigned parts = (unsigned)p.parts, each = ((unsigned)rows + parts - 1) / parts;
    const unsigned first = blockIdx.y * each;
    const int own = (int)min_of((int64_t)each, (int64_t)rows - first) - at.line;
    walk w;
    w.x = (const char *)p.job.x;
    w.g = (const char *)p.job.grad;
    w.third = (const char *)(backward ? p.job.output : p.job.residual);
    w.first = (((int64_t)first + at.line) * p.job.channels + at.column * wide) * (int)sizeof(E);
    w.stride = p.stride;
    w.rows = at.column * wide < p.job.channels && own > 0 ? (own + at.lines - 1) / at.lines : 0;
    w.batches = (w.rows + walk::batch - 1) / walk::batch;
    w.step = (int)blockDim.x * walk::pack;
    w.memory = memory + threadIdx.x * walk::pack;
    return w;
}

// Row j of a batch: from an array, and its place in shared memory.
template <typename E, int wide, bool backward>
SPIRA_DEVICE int64_t norm_from(const norm_walk<E, wide, backward> &w, int batch, int j) {
    return w.first + (int64_t)(batch * w.batch + j) * w.stride;
}

template <typename E, int wide, bool backward>
SPIRA_DEVICE E *norm_at(const norm_walk<E, wide, backward> &w, int batch, int j, int array) {
    const int slot = (int)((unsigned)batch % norm_held) * w.batch + j;
    return (E *)(w.memory + (slot * w.arrays + array) * w.step);
}

template <int wide, typename E>
SPIRA_DEVICE void norm_copy(E *to, const char *from) {
    if constexpr (wide == 1) {
        *to = *(const E *)from;
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        *(uint4 *)to = *(const uint4 *)from;
#else
        async_copy_16(shared_address(to), from, true);
#endif
    }
}

// Begins to copy a batch, if there is one. third: its rows of the third array, too
template <typename E, int wide, bool backward>
SPIRA_DEVICE void norm_copy_batch(const norm_walk<E, wide, backward> &w, int batch, bool third) {
    typedef norm_walk<E, wide, backward> walk;
#pragma unroll
    for (int j = 0; j < walk::batch; ++j) {
        if ((unsigned)(batch * walk::batch + j) < (unsigned)w.rows) {
            const int64_t from = norm_from(w, batch, j);
            norm_copy<wide>(norm_at(w, batch, j, 0), w.x + from);
            if (backward)
                norm_copy<wide>(norm_at(w, batch, j, 1), w.g + from);
            if (third && w.third)
                norm_copy<wide>(norm_at(w, batch, j, walk::arrays - 1), w.third + from);
        }
    }
    async_copy_commit();
}

} // namespace gpu
} // namespace spira_torch

#endif
