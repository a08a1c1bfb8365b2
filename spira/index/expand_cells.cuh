// spira/index/expand_cells.cuh: output sets without a sort: lists the marked cells (expand_box.h);
// and the launches of both ways.
#ifndef SPIRA_INDEX_EXPAND_CELLS_CUH
#define SPIRA_INDEX_EXPAND_CELLS_CUH

#include "../base/launch.cuh"
#include "bitmap.cuh"
#include "expand_mark.cuh"

namespace spira {

// Writes the number of outputs.
template <typename W>
SPIRA_DEVICE void expand_finish(int total, const voxel_set<W> &out, device_status *trouble) {
    *out.count = min(total, out.capacity);
    if (total > out.capacity) {
        device_status_raise(trouble, device_flag_capacity, (uint32_t)total);
    }
}

// Writes the words of all marked cells in order, and their number. The words behind them are those
// of expand_clear_kernel. A thread block for each tile.
template <typename W, int words>
SPIRA_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_cells_kernel(bitmap_source source,
                             const __grid_constant__ expand_packing<W> packing, voxel_set<W> out,
                             device_status *trouble) {
    __shared__ bitmap_shared s;
    const int tile = bitmap_draw_tile(source, &s), tiles = (int)gridDim.x;
    const int total = bitmap_list_tile<words>(
        source, tile, (int64_t)tiles * bitmap_threads * words, &s, [](int, int) {},
        [&](int rank, uint32_t word, uint32_t bit) {
            if (rank < out.capacity) {
                out.words[rank] = expand_packing_word(&packing, word * 32 + bit);
            }
        });
    if (tile == tiles - 1 && threadIdx.x == 0) {
        expand_finish(total, out, trouble);
    }
}

// Lists the masks that have outputs, and clears them.
SPIRA_PLAIN_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_masks_kernel(bitmap_source source, int32_t *before, int32_t *count, uint32_t *mask,
                             uint32_t *place) {
    __shared__ bitmap_shared s;
    const int tile = bitmap_draw_tile(source, &s), tiles = (int)gridDim.x;
    const int total = bitmap_list_tile<bitmap_words>(
        source, tile, (int64_t)tiles * bitmap_tile, &s,
        [&](int group, int masks) { before[group] = masks; },
        [&](int rank, uint32_t word, uint32_t bit) {
            mask[rank] = 0;
            place[rank] = word * 32 + bit;
        });
    if (tile == tiles - 1 && threadIdx.x == 0) {
        *count = total;
    }
}

// expand_list_cells_kernel of the cells of masks. `count` masks [gridDim.x * bitmap_tile] have
// outputs; mask m has the cells from 32 * place[m] on.
template <typename W>
SPIRA_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_filled_kernel(bitmap_source source, const int32_t *count, const uint32_t *place,
                              const __grid_constant__ expand_packing<W> packing, voxel_set<W> out,
                              device_status *trouble) {
    __shared__ bitmap_shared s;
    const int tile = bitmap_draw_tile(source, &s), masks = *count;
    if (tile > 0 && tile * bitmap_tile >= masks) {
        return;
    }
    const int total = bitmap_list_tile<bitmap_words>(
        source, tile, masks, &s, [](int, int) {},
        [&](int rank, uint32_t m, uint32_t bit) {
            if (rank < out.capacity) {
                out.words[rank] = expand_packing_word(&packing, place[m] * 32 + bit);
            }
        });
    if ((tile + 1) * bitmap_tile >= masks && threadIdx.x == 0) {
        expand_finish(total, out, trouble);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename W>
SPIRA_API status expand_clear_launch(const expand_scratch &s, voxel_set<W> out,
                                     cudaStream_t stream) {
    const int64_t blocks = ceil_div(max_of(s.cleared, out.capacity), 256);
    return kernel_launch(expand_clear_kernel<W>, (unsigned)min_of(blocks, 1024), 256, 0, false, 1,
                         stream, "expand", s.bitmap, s.cleared, out);
}

// The output set, by cells or by masks. s: of expand_carve for this way and these sizes.
template <typename W>
SPIRA_API status expand_cells_launch(const expand_marking<W> &m, expand_way way,
                                     const expand_sizes &sizes, const expand_scratch &s,
                                     voxel_set<W> out, cudaStream_t stream) {
    const unsigned blocks = (unsigned)ceil_div(m.in.capacity, 256);
    const expand_packing<W> packing = expand_packing_make<W>(&m.layout, &m.axes, &m.box);
    const bitmap_source source = {s.bitmap, s.state, s.drawn};
    SPIRA_TRY(expand_clear_launch(s, out, stream));
    if (way == expand_by_cells) {
        SPIRA_TRY(kernel_launch(expand_mark_cells_kernel<W>, blocks, 256, 0, false, 1, stream,
                                "expand", m, s.bitmap));
        auto list = sizes.words == bitmap_words ? expand_list_cells_kernel<W, bitmap_words>
                                                : expand_list_cells_kernel<W, bitmap_words_large>;
        return kernel_launch(list, (unsigned)sizes.tiles, bitmap_threads, 0, false, 1, stream,
                             "expand", source, packing, out, m.trouble);
    }
    const bitmap_source masks = {s.mask, s.mask_state, s.drawn + 1};
    SPIRA_TRY(kernel_launch(expand_mark_masks_kernel<W>, blocks, 256, 0, false, 1, stream, "expand",
                            m, s.bitmap));
    SPIRA_TRY(kernel_launch(expand_list_masks_kernel<>, (unsigned)sizes.tiles, bitmap_threads, 0,
                            false, 1, stream, "expand", source, s.before, s.count, s.mask,
                            s.place));
    SPIRA_TRY(kernel_launch(expand_fill_masks_kernel<W>, blocks, 256, 0, false, 1, stream, "expand",
                            m, s.bitmap, s.before, s.mask));
    return kernel_launch(expand_list_filled_kernel<W>, (unsigned)sizes.listed, bitmap_threads, 0,
                         false, 1, stream, "expand", masks, s.count, s.place, packing, out,
                         m.trouble);
}

} // namespace spira

#endif
