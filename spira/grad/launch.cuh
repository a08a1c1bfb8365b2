// spira/grad/launch.cuh: how the work of a weight gradient is cut, and its two launches.
#ifndef SPIRA_GRAD_LAUNCH_CUH
#define SPIRA_GRAD_LAUNCH_CUH

#include "exact.cuh"
#include "hopper/choice.cuh"
#include "hopper/kernel.cuh"
#include "kernel.cuh"
#include "reduce.cuh"

namespace spira {

// The kernels of the weight gradient.
enum grad_form : int {
    grad_form_exact,  // grad/exact.cuh
    grad_form_tensor, // grad/kernel.cuh
    grad_form_hopper, // grad/hopper/
};

// Follows from the shape and the device alone, so that scratch can be counted without a map.
struct grad_cut {
    grad_form form;
    int rows, columns; // input and output channels of a tile
    int chunk;         // pairs
    int down1, down;   // tiles along the input channels: of the first source, of both
    int across, parts; // tiles along the output channels; parts of the pairs
    int stages;        // of the ring of grad_form_hopper
};

SPIRA_API int grad_tiles_down(const conv_shape *s, int rows) {
    return (int)(ceil_div(s->cin, rows) + ceil_div(s->cin2, rows));
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

// Floats of the slots.
SPIRA_API int64_t grad_slots(const grad_cut *c) {
    return (int64_t)c->parts * c->down * c->across * c->rows * c->columns;
}

// ---- launches -----------------------------------------------------------------------------------

// rows, columns: of a tile.
SPIRA_LAUNCHER status grad_reduce_launch(const device_info *gpu, const grad_params &p, int rows,
                                         int columns, cudaStream_t stream) {
    const grad_reduce_cut cut = {rows, columns, grad_reduce_groups(p.parts, rows * columns)};
    const int elements = grad_reduce_threads / cut.groups * grad_reduce_each;
    const dim3 grid((unsigned)ceil_div(rows * columns, elements), (unsigned)(p.down * p.across),
                    (unsigned)(p.volume + (p.bias_grad != nullptr)));
    return kernel_launch(grad_reduce_kernel<>,
                         {grid, grad_reduce_threads, stream, "conv_grad_weight", gpu->programmatic},
                         p, cut);
}

template <typename E, int rows>
SPIRA_API status grad_tensor_launch(const device_info *gpu, const grad_params &p,
                                    cudaStream_t stream) {
    typedef grad_traits<E, rows> T;
    const int bytes = grad_bytes(rows, sizeof(E), p.volume);
    const auto kernel = grad_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, gpu->shared_max, "conv_grad_weight (shared memory)"));
    SPIRA_TRY(kernel_launch(kernel,
                            {dim3((unsigned)(p.down * p.across), (unsigned)p.parts), T::threads,
                             stream, "conv_grad_weight", p.programmatic, (size_t)bytes},
                            p));
    return grad_reduce_launch(gpu, p, T::rows, T::columns, stream);
}

template <typename E, int rows, int columns>
SPIRA_API status grad_hopper_launch(const device_info *gpu, const grad_params &p,
                                    cudaStream_t stream) {
    typedef grad_hopper_traits<E, rows, columns> T;
    const int bytes = grad_hopper_bytes(rows, columns, p.volume, p.stages);
    const int most = grad_hopper_dynamic_bytes(gpu->shared_max);
    const auto kernel = grad_hopper_kernel<T>;
    SPIRA_TRY(kernel_shared_allow(kernel, most, "conv_grad_weight (shared memory)"));
    SPIRA_TRY(kernel_launch(kernel,
                            {dim3((unsigned)(p.down * p.across), (unsigned)p.parts), T::threads,
                             stream, "conv_grad_weight", p.programmatic, (size_t)bytes},
                            p));
    return grad_reduce_launch(gpu, p, rows, columns, stream);
}

template <typename E>
SPIRA_API status grad_exact_launch(const device_info *gpu, const grad_params &p,
                                   cudaStream_t stream) {
    const int bytes = (p.volume + 1) * (int)sizeof(uint32_t);
    SPIRA_TRY(
        kernel_launch(grad_exact_kernel<E>,
                      {dim3((unsigned)(p.down * p.across), (unsigned)p.parts), grad_exact_threads,
                       stream, "conv_grad_weight", p.programmatic, (size_t)bytes},
                      p));
    return grad_reduce_launch(gpu, p, grad_exact_tile, grad_exact_tile, stream);
}

// Computes a weight gradient with tiles of `rows` (grad_cut.rows).
template <typename E>
SPIRA_API status grad_tensor_run(const device_info *gpu, const grad_params &p, int rows,
                                 cudaStream_t stream) {
    if constexpr (sizeof(E) == 2) {
        if (rows == 256) {
            return grad_tensor_launch<E, 256>(gpu, p, stream);
        }
    }
    switch (rows) {
    case 16:
        return grad_tensor_launch<E, 16>(gpu, p, stream);
    case 32:
        return grad_tensor_launch<E, 32>(gpu, p, stream);
    case 64:
        return grad_tensor_launch<E, 64>(gpu, p, stream);
    default:
        return grad_tensor_launch<E, 128>(gpu, p, stream);
    }
}

// Computes a weight gradient with tiles of `rows` and `columns` (grad_cut).
template <typename E>
SPIRA_API status grad_hopper_run(const device_info *gpu, const grad_params &p, int rows,
                                 int columns, cudaStream_t stream) {
    switch (rows + columns) {
    case 64 + 64:
        return grad_hopper_launch<E, 64, 64>(gpu, p, stream);
    case 64 + 128:
        return grad_hopper_launch<E, 64, 128>(gpu, p, stream);
    case 128 + 128:
        return grad_hopper_launch<E, 128, 128>(gpu, p, stream);
    default:
        return rows < columns ? grad_hopper_launch<E, 128, 256>(gpu, p, stream)
                              : grad_hopper_launch<E, 256, 128>(gpu, p, stream);
    }
}

} // namespace spira

#endif
