// spira/index/downsample_launch.cuh: the launches of downsample.cuh: a step to the next level
// (downsample_grid.cuh), or a floor and a sort.
#ifndef SPIRA_INDEX_DOWNSAMPLE_LAUNCH_CUH
#define SPIRA_INDEX_DOWNSAMPLE_LAUNCH_CUH

#include "downsample_rank.cuh"

namespace spira {

// ---- a step -------------------------------------------------------------------------------------

template <typename W, int rx, int ry, int tile>
SPIRA_API status downsample_tiles_launch(const downsample_task<W> &task, unsigned blocks,
                                         cudaStream_t stream) {
    SPIRA_TRY(kernel_launch(downsample_mark_kernel<W, rx, ry, tile>,
                            {blocks, tile, stream, "downsample"}, task));
    auto rank = downsample_rank_kernel<W, rx, ry, tile, tile, false>;
    unsigned threads = tile;
    if constexpr (tile * downsample_blocks_many >
                  downsample_small) {                  // smaller tiles never have that many blocks
        const int few = (tile * 5 / 8 + 31) / 32 * 32; // most tiles have no more heads
        const bool many = blocks > downsample_blocks_many;
        rank = many ? downsample_rank_kernel<W, rx, ry, tile, few, true> : rank;
        threads = many ? few : threads;
    }
    return kernel_launch(rank, {blocks, threads, stream, "downsample"}, task);
}

template <typename W, int rx, int ry>
SPIRA_API status downsample_cells_launch(const downsample_args<W> *a, const downsample_marks &marks,
                                         cudaStream_t stream) {
    const downsample_cut cut = downsample_cut_make(a->in.capacity);
    downsample_task<W> task = {};
    task.grid = downsample_grid_make<W>(a->layout, downsample_from_of(a), a->stride, rx, ry);
    task.in = a->in;
    task.out = a->out;
    task.shift = cut.shift;
    task.marks = marks;
    task.trouble = a->trouble;
    const unsigned blocks = (unsigned)cut.blocks;
    return cut.tile == 256 ? downsample_tiles_launch<W, rx, ry, 256>(task, blocks, stream)
                           : downsample_tiles_launch<W, rx, ry, 512>(task, blocks, stream);
}

template <typename W>
SPIRA_API status downsample_step_launch(const downsample_args<W> *a, const downsample_marks &marks,
                                        cudaStream_t stream) {
    const triple from = downsample_from_of(a), width = a->layout->width;
    // A field without room for a second row or plane has one.
    const bool x = a->stride.x > from.x && from.x < (int64_t)1 << width.x;
    const bool y = a->stride.y > from.y && from.y < (int64_t)1 << width.y;
    const auto launch = x && y ? downsample_cells_launch<W, 2, 2>
                        : x    ? downsample_cells_launch<W, 2, 1>
                        : y    ? downsample_cells_launch<W, 1, 2>
                               : downsample_cells_launch<W, 1, 1>;
    return launch(a, marks, stream);
}

// ---- a sort -------------------------------------------------------------------------------------

// words [in.capacity]: the floored words, then word_none(), and for voxels that are left out.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(256)
    downsample_floor_kernel(const __grid_constant__ downsample_args<W> a, word_layout layout,
                            triple from, bool by_mask, W *words) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        device_status_raise_count(a.trouble, *a.in.count, a.in.capacity);
    }
    if (i >= a.in.capacity) {
        return;
    }
    W word = word_none<W>();
    if (i < *a.in.count) {
        bool left_out;
        if (!downsample_on_lattice(&layout, a.in.words[i], from, &left_out)) {
            device_status_raise(a.trouble, device_flag_lattice, (uint32_t)i);
        }
        word = left_out ? word : downsample_word(&layout, a.in.words[i], a.stride, by_mask);
    }
    words[i] = word;
}

template <typename W>
SPIRA_API status downsample_sort_launch(const downsample_args<W> *a, const unique_scratch<W> &s,
                                        cudaStream_t stream) {
    const word_layout *layout = a->layout;
    const bool by_mask = downsample_by_mask(a->stride);
    const int floored = (int)min_of(bits_for((uint64_t)a->stride.z) - 1, layout->width.z);
    const int first_bit = by_mask ? floored : 0, bits = word_bits(layout); // floored bits are zero
    SPIRA_TRY(kernel_launch(downsample_floor_kernel<W>,
                            {(unsigned)ceil_div(a->in.capacity, 256), 256, stream, "downsample"},
                            *a, *layout, downsample_from_of(a), by_mask,
                            unique_input(&s, first_bit, bits)));
    return unique_sort_launch(&s, first_bit, bits, a->out, a->trouble, stream);
}

} // namespace spira

#endif
