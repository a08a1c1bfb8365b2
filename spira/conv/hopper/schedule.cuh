// spira/conv/hopper/schedule.cuh: which tiles a thread block computes.
//
// The grid is persistent: [split, slices of the output channels, workers]. A worker is a thread
// block, or a cluster of two that share each tile. Tiles are numbered by the ordered layout's
// schedule (heavy ones first). Each round deals one tile to every worker, and every other round
// deals them in reverse, so that all workers have about the same work.
#ifndef SPIRA_CONV_HOPPER_SCHEDULE_CUH
#define SPIRA_CONV_HOPPER_SCHEDULE_CUH

#include "traits.cuh"

namespace spira {

struct hopper_work {
    int outputs, row_groups;
    int own, workers; // the number of this worker, of all
    int tiles;        // of this worker
    int channel;      // the slice's first
};

// Rank in the cluster: 0 or 1.
SPIRA_DEVICE int hopper_cluster_rank() {
    return (int)blockIdx.x;
}

// Where the worker's tile stands in the schedule.
SPIRA_DEVICE int hopper_tile_place(const hopper_work &w, int tile) {
    return tile * w.workers + (tile & 1 ? w.workers - 1 - w.own : w.own);
}

template <int columns>
SPIRA_DEVICE hopper_work hopper_work_of(const conv_tensor_params &p) {
    hopper_work w;
    w.outputs = min(*p.count, p.capacity);
    w.row_groups = (w.outputs + order_rows - 1) / order_rows;
    w.workers = (int)gridDim.z;
    w.own = (int)blockIdx.z;
    w.channel = (int)blockIdx.y * columns;
    int all = (w.row_groups + hopper_row_groups - 1) / hopper_row_groups;
    int rounds = (int)((uint32_t)all / gridDim.z);
    w.tiles = rounds + (hopper_tile_place(w, rounds) < all);
    return w;
}

// Number of the worker's `tile`-th tile in the layout; unspecified past the last.
SPIRA_DEVICE int hopper_tile(const conv_tensor_params &p, const hopper_work &w, int tile) {
    int place = hopper_tile_place(w, tile);
    return tile < w.tiles && p.order.row ? __ldg(p.order.schedule + place) : place;
}

} // namespace spira

#endif
