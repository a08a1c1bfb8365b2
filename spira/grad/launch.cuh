// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// spira/grad/launch.cuh: how the work of a weight gradient is cut, and its two launches.
#ifndef SPIRA_GRAD_LAUNCH_CUH
#define SPIRA_GRAD_LAUNCH_CUH

#include "exact.cuh"
#include "hopper/kernel.cuh"
#include "kernel.cuh"
#include "reduce.cuh"

namespace spira {

SPIRA_API int grad_tiles_down(const conv_shape *s, int rows) {
    return (int)(ceil_div(s->cin, rows) + ceil_div(s->cin2, rows));
}

// Hopper's kernel computes layers with more channels than this on one of the sides.
enum { grad_hopper_above = 64 };

struct grad_hopper_tile {
    int rows, columns; // input channels, output channels
};

// All tiles of it. One of 64 x 64 would never be the best with so many channels.
static constexpr grad_hopper_tile grad_hopper_tiles[] = {
    {64, 128}, {128, 128}, {128, 256}, {256, 128}};

// Channels that are gathered for a pair.
SPIRA_API int64_t grad_hopper_gathered(const conv_shape *s, const grad_hopper_tile &t) {
    return (s->cin + s->cin2) * ceil_div(s->cout, t.columns) +
           (int64_t)s->cout * grad_tiles_down(s, t.rows);
}

// The tile that gathers the fewest channels; of several the smallest.
SPIRA_API grad_hopper_tile grad_hopper_tile_choose(const conv_shape *s) {
    grad_hopper_tile best = grad_hopper_tiles[0];
    for (const grad_hopper_tile &t : grad_hopper_tiles) {
        best = grad_hopper_gathered(s, t) < grad_hopper_gathered(s, best) ? t : best;
    }
    return best;
}

// Whether the kernel computes a layer: 16 bits, more than grad_hopper_above channels on a side,
// and rows that asynchronous copies can read. (Four producer warps are too few to read
// rows element by element. They do it where a pointer is not aligned.)
SPIRA_API bool grad_hopper_takes(const conv_shape *s, const device_info *d) {
    const grad_hopper_tile t = grad_hopper_tile_choose(s);
    return d->hopper && numeric_size(s->type) == 2 &&
           max_of(max_of(s->cin, s->cin2), s->cout) > grad_hopper_above &&
           (s->cin | s->cin2 | s->cout) % 8 == 0 &&
           grad_hopper_stages(t.rows, t.columns, s->volume, d->shared_max) >= grad_hopper_producers;
}

// What a pair costs with tiles of `rows`: bytes that are gathered, and products, those of channels
// that are not there included. A byte takes as long as 40 products of large tiles; instructions of
// smaller ones wait longer for shared memory.
SPIRA_API int64_t grad_cost(const conv_shape *s, int rows) {
    const int64_t down = grad_tiles_down(s, rows), across = ceil_div(s->cout, grad_columns(rows));
    const int64_t element = numeric_size(s->type);
    const int64_t bytes = ((s->cin + s->cin2) * across + s->cout * down) * element;
    const int64_t products = down * across * grad_elements(rows) * (element == 2 ? 1 : 2);
    const int64_t memory = 240 * bytes;
    const int64_t matrix = 2 * products * (rows > 64 ? 3 : rows > 16 ? 4 : 9);
    return 4 * max_of(memory, matrix) + min_of(memory, matrix);
}

// Thread blocks of a multiprocessor at a time; 0: the variant does not run there.
SPIRA_API int grad_resident_on(const conv_shape *s, int rows, const device_info *d) {
    const int element = numeric_size(s->type), bytes = grad_bytes(rows, element, s->volume);
    if (bytes > d->shared_max || rows * element > 512) {
        return 0;
    }
    return (int)max_of(min_of(grad_resident(rows), (d->shared_max + 1024) / (bytes + 1024)), 1);
}

SPIRA_API int grad_rows_choose(const conv_shape *s, const device_info *d) {
    int best = grad_rows_least;
    for (int rows = 2 * best; rows <= grad_rows_most; rows *= 2) {
        const bool better = grad_cost(s, rows) < grad_cost(s, best);
        best = better && grad_resident_on(s, rows, d) ? rows : best;
    }
    return best;
}

SPIRA_API grad_form grad_form_choose(const conv_shape *s, const device_info *d) {
    return s->type == numeric_f32 || d->capability < 80 ? grad_form_exact
           : grad_hopper_takes(s, d)                    ? grad_form_hopper
                                                        : grad_form_tensor;
}

// rows: of a tile of grad/kernel.cuh, or 0: form and tile are chosen.
SPIRA_API grad_cut grad_cut_of(const conv_shape *s, const device_info *d, int rows = 0) {
    grad_cut c = {};
    int resident = grad_exact_resident;
    c.form = rows ? grad_form_tensor : grad_form_choose(s, d);
    c.rows = c.columns = grad_exact_tile;
    c.chunk = grad_exact_chunk;
    if (c.form == grad_form_tensor) {
        c.rows = rows ? rows : grad_rows_choose(s, d);
        c.columns = grad_columns(c.rows);
        c.chunk = grad_chunk(c.rows, numeric_size(s->type));
        resident = grad_resident_on(s, c.rows, d);
    } else if (c.form == grad_form_hopper) {
        const grad_hopper_tile tile = grad_hopper_tile_choose(s);
        c.rows = tile.rows;
        c.columns = tile.columns;
        c.chunk = grad_hopper_chunk;
        c.stages = grad_hopper_stages(c.rows, c.columns, s->volume, d->shared_max);
        resident = 1;
    }
    c.down1 = (int)ceil_div(s->cin, c.rows);
    c.down = grad_tiles_down(s, c.rows);
    c.across = (int)ceil_div(s->cout, c.columns);
    c.parts = (int)max_of(d->multiprocessors * resident / (c.down * c.across), 1);
    return c;
}

// Leaves shared memory for the thread blocks of a bias gradient beside those of Hopper's kernel.
// Where that kernel has all registers, the bias gradient runs behind it: multiprocessors of its own
// would take longer.
SPIRA_API void grad_cut_beside(const conv_shape *s, const device_info *d, grad_cut *c) {
    enum { bytes = 1024 + grad_bias_threads * grad_bias_each * (int)sizeof(float) };
    if (c->form != grad_form_hopper || grad_hopper_registers_move(c->rows, c->columns)) {
        return;
    }
    const int stages = grad_hopper_stages(c->rows, c->columns, s->volume, d->shared_max - bytes);
    c->stages = stages < grad_hopper_producers ? c->stages : stages;
}

// Floats of the slots.
SPIRA_API int64_t grad_slots(const grad_cut *c) {
    return (int64_t)c->parts * c->down * c->across * c->rows * c->columns;
}

// The parameters of the kernels, with scratch from `w`: carved, or counted if there is no memory.
SPIRA_API grad_params grad_params_of(const conv_grad_weight_args *a, const grad_cut *cut,
                                     workspace *w) {
    const conv_shape *s = &a->shape;
    const int element = numeric_size(s->type);
    grad_params p = {};
    p.args = *a;
    p.cut = *cut;
    p.slots = workspace_take<float>(w, grad_slots(cut));
    p.bias_slots = workspace_take<float>(w, grad_bias_slots(s->cout));
    p.wide_in = conv_aligned(a->in, s->cin, element, 16);
    p.wide_in2 = !s->cin2 || conv_aligned(a->in2, s->cin2, element, 16);
    p.wide_out = conv_aligned(a->out_grad, s->cout, element, 16);
    p.wide_grad = conv_aligned(a->weight_grad, s->cout, (int)sizeof(float), 16);
    return p;
}

// ---- launches -----------------------------------------------------------------------------------

// Adds up slots: without parts, those of a bias gradient by itself.
SPIRA_LAUNCHER status grad_reduce_launch(const device_info *gpu, const grad_params &p,
                                         cudaStream_t stream) {
    const int elements = p.cut.rows * p.cut.columns;
    const int groups = grad_reduce_groups(p.cut.parts, elements);
    const int64_t each = grad_reduce_threads / groups * grad_reduce_each;
    const dim3 grid((unsigned)ceil_div(elements, each), (unsigned)(p.cut.down * p.cut.across),
                    (unsigned)(p.args.shape.volume + (p.args.bias_grad != nullptr)));
    const dim3 alone((unsigned)ceil_div(p.args.shape.cout, grad_bias_each));
    return kernel_launch(grad_reduce_kernel<>,
                         {p.cut.parts ? grid : alone, grad_reduce_threads, stream,
                          "conv_grad_weight", gpu->programmatic},
                         p, groups);
}

// Launches a kernel that writes slots, that of the bias, and the one that adds them up.
template <typename E>
SPIRA_API status grad_launch(const device_info *gpu, const grad_params &p,
                             void (*kernel)(grad_params), int threads, int bytes,
                             cudaStream_t stream) {
    const dim3 grid((unsigned)(p.cut.down * p.cut.across), (unsigned)p.cut.parts);
    SPIRA_TRY(kernel_launch(
        kernel,
        {grid, (unsigned)threads, stream, "conv_grad_weight", p.args.programmatic, (size_t)bytes},
        p));
    if (p.args.bias_grad) {
        SPIRA_TRY(grad_bias_launch<E>(p, gpu->programmatic, stream));
    }
    return grad_reduce_launch(gpu, p, stream);
}

template <typename E, int rows>
SPIRA_API status grad_tensor_launch(const device_info *gpu, const grad_params &p,
                                    cudaStream_t stream) {
    typedef grad_traits<E, rows> T;
    SPIRA_TRY(
        kernel_shared_allow(grad_kernel<T>, gpu->shared_max, "conv_grad_weight (shared memory)"));
    return grad_launch<E>(gpu, p, grad_kernel<T>, T::threads,
                          grad_bytes(rows, sizeof(E), p.args.shape.volume), stream);
}

template <typename E, int rows, int columns>
SPIRA_API status grad_hopper_launch(const device_info *gpu, const grad_params &p,
                                    cudaStream_t stream) {
    typedef grad_hopper_traits<E, rows, columns> T;
    SPIRA_TRY(kernel_shared_allow(grad_hopper_kernel<T>, grad_hopper_dynamic_bytes(gpu->shared_max),
                                  "conv_grad_weight (shared memory)"));
    return grad_launch<E>(gpu, p, grad_hopper_kernel<T>, T::threads,
                          grad_hopper_bytes(rows, columns, p.args.shape.volume, p.cut.stages),
                          stream);
}

template <typename E>
SPIRA_API status grad_exact_launch(const device_info *gpu, const grad_params &p,
                                   cudaStream_t stream) {
    return grad_launch<E>(gpu, p, grad_exact_kernel<E>, grad_exact_threads,
                          (p.args.shape.volume + 1) * (int)sizeof(uint32_t), stream);
}

template <typename E>
SPIRA_API status grad_tensor_run(const device_info *gpu, const grad_params &p,
                                 cudaStream_t stream) {
    if constexpr (sizeof(E) == 2) {
        if (p.cut.rows == 256) {
            return grad_tensor_launch<E, 256>(gpu, p, stream);
        }
    }
    return p.cut.rows == 16   ? grad_tensor_launch<E, 16>(gpu, p, stream)
           : p.cut.rows == 32 ? grad_tensor_launch<E, 32>(gpu, p, stream)
           : p.cut.rows == 64 ? grad_tensor_launch<E, 64>(gpu, p, stream)
                              : grad_tensor_launch<E, 128>(gpu, p, stream);
}

template <typename E>
SPIRA_API status grad_hopper_run(const device_info *gpu, const grad_params &p,
                                 cudaStream_t stream) {
    const int rows = p.cut.rows, columns = p.cut.columns;
    return columns == 256 ? grad_hopper_launch<E, 128, 256>(gpu, p, stream)
           : rows == 64   ? grad_hopper_launch<E, 64, 128>(gpu, p, stream)
           : rows == 128  ? grad_hopper_launch<E, 128, 128>(gpu, p, stream)
                          : grad_hopper_launch<E, 256, 128>(gpu, p, stream);
}

} // namespace spira

#endif
