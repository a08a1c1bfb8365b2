// spira/conv/hopper/schedule.cuh: which tiles a thread block computes (conv/schedule.cuh). A tile
// is a pair of row groups; two thread blocks of a cluster may share it.
#ifndef SPIRA_CONV_HOPPER_SCHEDULE_CUH
#define SPIRA_CONV_HOPPER_SCHEDULE_CUH

#include "../schedule.cuh"
#include "traits.cuh"

namespace spira {

// Rank in the cluster: 0 or 1.
SPIRA_DEVICE int hopper_cluster_rank() {
    return (int)blockIdx.x;
}

template <int columns>
SPIRA_DEVICE conv_work hopper_work_of(const conv_params &p) {
    return conv_work_of<columns, hopper_row_groups>(p);
}

// Number of the worker's `tile`-th tile in the layout; unspecified past the last.
SPIRA_DEVICE int hopper_tile(const conv_params &p, const conv_work &w, int tile) {
    return conv_pair_at(p, tile < w.tiles, conv_tile_place(w, tile));
}

} // namespace spira

#endif
