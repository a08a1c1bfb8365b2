// spira/index/expand_cells.cuh: output sets without a sort: lists the marked cells (expand_box.h);
// and the launches of both ways.
#ifndef SPIRA_INDEX_EXPAND_CELLS_CUH
#define SPIRA_INDEX_EXPAND_CELLS_CUH

#include "../base/launch.cuh"
#include "bitmap.cuh"
#include "expand_mark.cuh"

namespace spira {

// What is listed of a bitmap: bit b of word w is cell 32 w + b, or 32 place[w] + b.
struct expand_listing {
    bitmap_source source;
    const int32_t *count;  // [1] words of the bitmap; null: all of the tiles
    const uint32_t *place; // null: see above
};

// Writes the words of all marked cells in order, and their number. The words behind them are those
// of expand_clear_kernel. A thread block for each tile.
template <typename W, int words>
SPIRA_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_cells_kernel(expand_listing listing,
                             const __grid_constant__ expand_packing<W> packing, voxel_set<W> out,
                             device_status *trouble) {
    __shared__ bitmap_shared<words> s;
    pdl_wait();
    const int64_t tile_words = bitmap_threads * words,
                  end = listing.count ? *listing.count : gridDim.x * tile_words;
    const int tile = bitmap_draw_tile(listing.source, &s.tile);
    if (tile > 0 && tile * tile_words >= end) {
        return;
    }
    const int total = bitmap_list_tile<words>(
        listing.source, tile, end, &s, [](int, int) {},
        [&](int rank, uint32_t word, uint32_t bit) {
            if (rank < out.capacity) {
                word = listing.place ? listing.place[word] : word;
                out.words[rank] = expand_packing_word(&packing, word * 32 + bit);
            }
        });
    if ((tile + 1) * tile_words >= end && threadIdx.x == 0) { // the last one
        *out.count = min(total, out.capacity);
        device_status_raise_count(trouble, total, out.capacity);
    }
}

// Lists the masks that have outputs, and clears them.
SPIRA_PLAIN_KERNEL void __launch_bounds__(bitmap_threads)
    expand_list_masks_kernel(bitmap_source source, int32_t *before, int32_t *count, uint32_t *mask,
                             uint32_t *place) {
    __shared__ bitmap_shared<bitmap_words> s;
    pdl_wait();
    const int tile = bitmap_draw_tile(source, &s.tile), tiles = (int)gridDim.x;
    const int total = bitmap_list_tile<bitmap_words>(
        source, tile, (int64_t)tiles * bitmap_tile, &s,
        [&](int group, int masks) { before[group] = masks; },
        [&](int rank, uint32_t word, uint32_t bit) {
            mask[rank] = 0;
            place[rank] = word * 32 + bit;
        });
    if (tile == tiles - 1 && threadIdx.x == 0) {
        *count = total;
        for (int i = total; i % bitmap_words; ++i) {
            mask[i] = 0; // is read with the last one
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename W>
SPIRA_API status expand_clear_launch(const expand_scratch &s, voxel_set<W> out,
                                     cudaStream_t stream) {
    const int64_t blocks = ceil_div(max_of(s.cleared, out.capacity), 256);
    return kernel_launch(expand_clear_kernel<W>,
                         {(unsigned)min_of(blocks, 1024), 256, stream, "expand"}, s.bitmap,
                         s.cleared, out);
}

template <typename W>
SPIRA_API status expand_mark_launch(const expand_marking<W> &m, const expand_scratch &s,
                                    expand_marks marks, bool programmatic, cudaStream_t stream) {
    return kernel_launch(
        expand_mark_kernel<W>,
        {(unsigned)ceil_div(m.in.capacity, 256), 256, stream, "expand", programmatic}, m, s, marks);
}

// The output set, by cells or by masks. s: of expand_carve for these sizes. programmatic: all
// kernels but the first one begin while the one before ends.
template <typename W>
SPIRA_API status expand_cells_launch(const expand_marking<W> &m, const expand_sizes &sizes,
                                     const expand_scratch &s, voxel_set<W> out, bool programmatic,
                                     cudaStream_t stream) {
    const expand_packing<W> packing = expand_packing_make<W>(&m.layout, &m.axes, &m.box);
    const bitmap_source source = {s.bitmap, s.state, s.drawn};
    SPIRA_TRY(expand_clear_launch(s, out, stream));
    if (sizes.masks == 0) {
        const bool few = sizes.words == bitmap_words_small;
        const expand_listing cells = {
            {s.bitmap, few ? nullptr : s.state, s.drawn}, nullptr, nullptr};
        auto list = sizes.words == bitmap_words_small
                        ? expand_list_cells_kernel<W, bitmap_words_small>
                    : sizes.words == bitmap_words ? expand_list_cells_kernel<W, bitmap_words>
                                                  : expand_list_cells_kernel<W, bitmap_words_large>;
        SPIRA_TRY(expand_mark_launch(m, s, expand_mark_cells, programmatic, stream));
        return kernel_launch(
            list, {(unsigned)sizes.tiles, bitmap_threads, stream, "expand", programmatic}, cells,
            packing, out, m.trouble);
    }
    const expand_listing cells = {{s.mask, s.mask_state, s.drawn + 1}, s.count, s.place};
    SPIRA_TRY(expand_mark_launch(m, s, expand_mark_masks, programmatic, stream));
    SPIRA_TRY(kernel_launch(expand_list_masks_kernel<>,
                            {(unsigned)sizes.tiles, bitmap_threads, stream, "expand", programmatic},
                            source, s.before, s.count, s.mask, s.place));
    SPIRA_TRY(expand_mark_launch(m, s, expand_fill_masks, programmatic, stream));
    return kernel_launch(expand_list_cells_kernel<W, bitmap_words>,
                         {(unsigned)sizes.listed, bitmap_threads, stream, "expand", programmatic},
                         cells, packing, out, m.trouble);
}

} // namespace spira

#endif
