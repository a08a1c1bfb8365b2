// spira/grad/launch.cuh: how the work of a weight gradient is cut, and its two launches.
#ifndef SPIRA_GRAD_LAUNCH_CUH
#define SPIRA_GRAD_LAUNCH_CUH

#include "exact.cuh"
#include "kernel.cuh"
#include "reduce.cuh"

namespace spira {

// Follows from the shape and the device alone, so that scratch can be counted without a map.
struct grad_cut {
    bool tensor;       // grad/kernel.cuh; else grad/exact.cuh
    int tile, chunk;   // channels; pairs
    int down1, down;   // tiles along the input channels: of the first source, of both
    int across, parts; // tiles along the output channels; parts of the pairs
};

SPIRA_API int grad_tiles_down(const conv_shape *s, int tile) {
    return (int)(ceil_div(s->cin, tile) + ceil_div(s->cin2, tile));
}

// What a pair costs with tiles of a size: bytes that are gathered and products, those of channels
// that are not there included. A byte counts as 80 multiply-adds of large tiles; instructions of
// smaller ones wait longer for shared memory.
SPIRA_API int64_t grad_cost(const conv_shape *s, int tile) {
    const int64_t down = grad_tiles_down(s, tile), across = ceil_div(s->cout, tile);
    const int64_t element = numeric_size(s->type);
    const int64_t bytes = ((s->cin + s->cin2) * across + s->cout * down) * element;
    const int64_t products = down * across * tile * tile * (element == 2 ? 1 : 2);
    const int64_t memory = 240 * bytes;
    const int64_t matrix = 2 * products * (tile > 64 ? 3 : tile > 16 ? 4 : 9);
    return 4 * max_of(memory, matrix) + min_of(memory, matrix);
}

// Channels of a tile: 16, 32, 64 or 128.
SPIRA_API int grad_tile_choose(const conv_shape *s) {
    int best = 16;
    for (int tile = 32; tile <= 128; tile *= 2) {
        best = grad_cost(s, tile) < grad_cost(s, best) ? tile : best;
    }
    return best;
}

// tile: 0: chosen.
SPIRA_API grad_cut grad_cut_of(const conv_shape *s, const device_info *d, int tile = 0) {
    grad_cut c = {};
    c.tensor = s->type != numeric_f32 && d->capability >= 80;
    c.tile = !c.tensor ? (int)grad_exact_tile : tile ? tile : grad_tile_choose(s);
    c.chunk = c.tensor ? grad_chunk(c.tile, numeric_size(s->type)) : (int)grad_exact_chunk;
    c.down1 = (int)ceil_div(s->cin, c.tile);
    c.down = grad_tiles_down(s, c.tile);
    c.across = (int)ceil_div(s->cout, c.tile);
    const int64_t fit = (d->shared_max + 1024) / (grad_bytes(c.tile, s->volume) + 1024);
    const int64_t resident =
        c.tensor ? max_of(min_of(grad_resident(c.tile), fit), 1) : (int64_t)grad_exact_resident;
    c.parts = (int)max_of(d->multiprocessors * resident / (c.down * c.across), 1);
    return c;
}

// Floats of the slots.
SPIRA_API int64_t grad_slots(const grad_cut *c) {
    return (int64_t)c->parts * c->down * c->across * c->tile * c->tile;
}

template <int tile>
SPIRA_API status grad_reduce_launch(const grad_params &p, const device_info *d,
                                    cudaStream_t stream) {
    const int elements = grad_reduce_warps / p.along * grad_reduce_warp;
    const dim3 grid((unsigned)ceil_div(tile * tile, elements), (unsigned)(p.down * p.across),
                    (unsigned)p.volume);
    return kernel_launch(grad_reduce_kernel<tile>, grid, 32 * grad_reduce_warps, 0, d->programmatic,
                         1, stream, "conv_grad_weight", p);
}

template <typename E, int tile>
SPIRA_API status grad_tensor_launch(const grad_params &p, const device_info *d, bool programmatic,
                                    cudaStream_t stream) {
    typedef grad_traits<E, tile> T;
    const int bytes = grad_bytes(tile, p.volume);
    const auto kernel = grad_kernel<T>;
    SPIRA_TRY(status_from_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "conv_grad_weight (shared memory)"));
    SPIRA_TRY(kernel_launch(kernel, dim3((unsigned)(p.down * p.across), (unsigned)p.parts),
                            grad_threads, (size_t)bytes, programmatic && d->programmatic, 1, stream,
                            "conv_grad_weight", p));
    return grad_reduce_launch<tile>(p, d, stream);
}

template <typename E>
SPIRA_API status grad_exact_launch(const grad_params &p, const device_info *d, bool programmatic,
                                   cudaStream_t stream) {
    const int bytes = (p.volume + 1) * (int)sizeof(uint32_t);
    SPIRA_TRY(kernel_launch(grad_exact_kernel<E>,
                            dim3((unsigned)(p.down * p.across), (unsigned)p.parts),
                            grad_exact_threads, (size_t)bytes, programmatic && d->programmatic, 1,
                            stream, "conv_grad_weight", p));
    return grad_reduce_launch<grad_exact_tile>(p, d, stream);
}

// Computes a weight gradient with tiles of grad_cut.tile channels.
template <typename E>
SPIRA_API status grad_tensor_run(const grad_params &p, int tile, const device_info *d,
                                 bool programmatic, cudaStream_t stream) {
    switch (tile) {
    case 16:
        return grad_tensor_launch<E, 16>(p, d, programmatic, stream);
    case 32:
        return grad_tensor_launch<E, 32>(p, d, programmatic, stream);
    case 64:
        return grad_tensor_launch<E, 64>(p, d, programmatic, stream);
    default:
        return grad_tensor_launch<E, 128>(p, d, programmatic, stream);
    }
}

} // namespace spira

#endif
